"""The way to a model's server: one request and its answer at a time, within bounds of time and size.

Addresses, proxies and every transport that somebody brings are httpx's. A direct connection is asyncio's, with h11,
which httpx reads HTTP with, too: what stands between the two in httpx would follow redirects, keep cookies and look up
credentials, which must not happen to a key, and 200 requests at once would spend seconds searching one pool.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from typing import Final, TypeAlias, cast

import httpx

from ..protocol.errors import ModelRequestError
from ..runtime.retry import model_network_error
from ..runtime.signals import CancelSignal
from .address import Timeouts, host_of, is_loopback, place_of, proxy_for
from .connections import DirectLine, Dropped, Line, Place, Received, Sent, lines, trusted
from .watch import Watch, watched

Transport: TypeAlias = httpx.AsyncBaseTransport

MAX_REPLY_BYTES: Final = 64 * 1024 * 1024  # of a reply in one piece
MAX_ERROR_BYTES: Final = 64 * 1024
ERROR_BODY_S: Final = 5.0  # for the words of a refusal; what came by then has to do
SETTLE_S: Final = 1.0  # for the end of a body whose reply is complete; after that its connection is given up
MAX_PIECE_BYTES: Final = 1024 * 1024  # decompressed at once
_FAILURES = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, zlib.error)


class Server:
    """Sends requests to one base URL. ``name`` is what errors call it, ``transport`` takes the place of a network."""

    def __init__(self, base_url: str, name: str, timeouts: Timeouts, transport: Transport | None) -> None:
        self._base, _, self._query = base_url.partition("?")
        self._name = name
        place = place_of(self._base)
        here = is_loopback(host_of(self._base))
        self._hint = (
            f"check that a server runs at {place}, and the base URL" if here else "check the network and the base URL"
        )
        self._timeouts = timeouts
        self._transport = transport
        self._urls: dict[str, tuple[httpx.URL, Place]] = {}

    @asynccontextmanager
    async def exchange(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        signal: CancelSignal | None = None,
        idle: bool = True,
        secrets: Sequence[str] = (),
    ) -> AsyncIterator[Answer]:
        """Send one request; the body of the answer is read inside the block, and its connection given back behind it.

        Without ``idle`` silence ends nothing before the total time does. ``secrets`` never stand in an error. Raises
        ModelRequestError for whatever fails on the way, CancelledByUser once ``signal`` is cancelled.
        """

        def failing() -> AbstractContextManager[None]:
            return _failing(self._name, self._hint, secrets)

        async with watched(self._name, self._timeouts, signal, idle=idle) as watch:
            with failing():
                line, received = await self._send(self._request(method, path, headers, body))
            answer = Answer(received, watch, failing)
            try:
                yield answer
            finally:
                await answer.close()
                await line.give_back(reusable=answer.ended)

    def _request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Sent:
        url, place = self._urls.get(path) or self._locate(path)
        sent = [(b"host", url.netloc), *((name.encode(), value.encode()) for name, value in headers.items())]
        if method != "GET":
            sent.append((b"content-length", str(len(body)).encode()))
        return Sent(place, method, url, url.raw_path, sent, body)

    def _locate(self, path: str) -> tuple[httpx.URL, Place]:
        query = ("&" if "?" in path else "?") + self._query if self._query else ""
        first = path.split("/")[1]
        if self._base.endswith(f"/{first}"):  # the version that every path of some formats begins with
            path = path.removeprefix(f"/{first}")
        url = httpx.URL(f"{self._base}{path}{query}")
        port = url.port or (443 if url.scheme == "https" else 80)
        found = url, Place(url.scheme, url.raw_host.decode("ascii").strip("[]"), port)
        if len(self._urls) < 16:  # a model has few; the pages of a listing need not be kept
            self._urls[path] = found
        return found

    async def _send(self, sent: Sent) -> tuple[Line, Received]:
        line = await self._line(sent.place)
        used = line.used
        try:
            return line, await line.send(sent)
        except (Dropped, ConnectionError):
            # The server had closed the connection between two requests. It has said nothing, so it is asked again.
            if not used:
                raise
        line = DirectLine(await lines(), sent.place, self._timeouts.connect)
        return line, await line.send(sent)

    async def _line(self, place: Place) -> Line:
        if self._transport is not None:
            return _TransportLine(self._transport, self._timeouts.connect, once=False)
        kept = await lines()
        if line := await kept.take(place):
            return line
        if proxy := proxy_for(place.scheme, place.host, place.port):
            transport = httpx.AsyncHTTPTransport(verify=trusted(), trust_env=False, proxy=proxy)
            return _TransportLine(transport, self._timeouts.connect, once=True)
        return DirectLine(kept, place, self._timeouts.connect)


class _TransportLine:
    """A transport of httpx. One that is there for this request only (``once``) is closed behind it."""

    def __init__(self, transport: Transport, connect_s: float | None, *, once: bool) -> None:
        self._transport = transport
        self._limits = {"connect": connect_s, "read": None, "write": None, "pool": None}
        self._once = once
        self._response: httpx.Response | None = None
        self.used = False

    async def send(self, sent: Sent) -> Received:
        stream = httpx.ByteStream(sent.body)
        extensions = {"timeout": self._limits}
        request = httpx.Request(sent.method, sent.url, headers=sent.headers, stream=stream, extensions=extensions)
        try:
            response = await self._transport.handle_async_request(request)
        except BaseException:
            await self.give_back(reusable=False)
            raise
        self._response = response
        return Received(response.status_code, response.headers, aiter(cast("httpx.AsyncByteStream", response.stream)))

    async def give_back(self, *, reusable: bool) -> None:
        with suppress(*_FAILURES, RuntimeError):  # RuntimeError: somebody still reads it
            if self._response is not None:
                await self._response.aclose()
            if self._once:
                await self._transport.aclose()


@contextmanager
def _failing(name: str, hint: str, secrets: Sequence[str]) -> Iterator[None]:
    try:
        yield
    except _FAILURES as error:
        raise model_network_error(error, name, secrets=secrets, hint=hint) from None


class Answer:
    """The answer to one request: its status, its headers by names in lower case, and once its body, decompressed."""

    def __init__(self, received: Received, watch: Watch, failing: Callable[[], AbstractContextManager[None]]) -> None:
        self.status = received.status
        self.headers = received.headers
        self.ended = False
        self._received = received
        self._watch = watch
        self._failing = failing
        self._pieces = received.pieces
        coding = self.headers.get("content-encoding", "").strip().lower()
        if coding not in ("", "identity"):
            self._pieces = self._decoded(coding)

    def __aiter__(self) -> Answer:
        return self

    async def __anext__(self) -> bytes:
        try:
            data = await self._pieces.__anext__()
        except StopAsyncIteration:
            self.ended = True
            raise
        except _FAILURES:
            with self._failing():
                raise
        self._watch.heard()
        return data

    async def _decoded(self, coding: str) -> AsyncIterator[bytes]:
        if coding not in ("gzip", "x-gzip", "deflate"):
            raise httpx.DecodingError(f"the reply is compressed in a way that was not asked for: {coding}")
        decoder = zlib.decompressobj(47 if coding != "deflate" else 15)  # 32 + 15: a header of gzip or of zlib
        async for data in self._received.pieces:
            while data:
                yield decoder.decompress(data, MAX_PIECE_BYTES)
                data = decoder.unconsumed_tail
        yield decoder.flush()

    async def whole(self) -> bytes:
        """The rest of the body. Raises ModelRequestError when it has more than MAX_REPLY_BYTES."""
        body = bytearray()
        async for data in self:
            body += data
            if len(body) > MAX_REPLY_BYTES:
                raise ModelRequestError(
                    f"the reply has more than {MAX_REPLY_BYTES:,} bytes; is the base URL that of a model?",
                    code="broken_reply",
                )
        return bytes(body)

    async def words(self) -> str:
        """The beginning of the body as text, as much of it as comes soon; for errors."""
        body = bytearray()
        with suppress(TimeoutError, ModelRequestError):
            async with asyncio.timeout(ERROR_BODY_S):
                async for data in self:
                    body += data
                    if len(body) > MAX_ERROR_BYTES:
                        break
        return bytes(body[:MAX_ERROR_BYTES]).decode("utf-8", "replace")

    async def settle(self) -> None:
        """Read the little that may follow a complete reply, so that the connection can serve again."""
        with suppress(TimeoutError, ModelRequestError):
            async with asyncio.timeout(SETTLE_S):
                async for _ in self:
                    pass

    async def close(self) -> None:
        """Be done with the body. Failures are of no interest: what it said was read, or given up."""
        with suppress(*_FAILURES):
            for pieces in (self._pieces, self._received.pieces):
                if isinstance(pieces, AsyncGenerator):
                    await pieces.aclose()
