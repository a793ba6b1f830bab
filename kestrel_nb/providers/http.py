"""The way to a model's server: one request and its answer at a time, on kept connections, within bounds of time.

httpx is used below its client: a client adds cookies, redirects, credentials from files and the merging of URLs, and
a key must not follow any of them. Each connection has a transport of its own, so no request waits for another's lock.
The only importer of httpx here; ``remote.py`` loads it with the first request.
"""

from __future__ import annotations

import asyncio
import math
import ssl
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from functools import cache
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

import httpx

from ..protocol.errors import CancelledByUser, ModelRequestError
from ..runtime.retry import model_network_error
from ..runtime.signals import CancelSignal
from .address import Timeouts, proxy_for

Transport: TypeAlias = httpx.AsyncBaseTransport

MAX_REPLY_BYTES: Final = 64 * 1024 * 1024  # of a reply in one piece
MAX_ERROR_BYTES: Final = 64 * 1024
ERROR_BODY_S: Final = 5.0  # for the words of a refusal; what came by then has to do
SETTLE_S: Final = 1.0  # for the end of a body whose reply is complete; after that its connection is given up
MAX_IDLE: Final = 256  # connections kept per server: as many as runs that work at once
KEPT_S: Final = 60.0  # for an unused connection; servers close theirs after some such time
_STALE = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)
_FAILURES = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError)


class Server:
    """Sends requests to one base URL. ``name`` is what errors call it, ``transport`` takes the place of a network."""

    def __init__(self, base_url: str, name: str, timeouts: Timeouts, transport: Transport | None) -> None:
        self._base, _, self._query = base_url.partition("?")
        self._name = name
        self._timeouts = timeouts
        self._given = None if transport is None else _Given(transport)
        self._urls: dict[str, httpx.URL] = {}
        self._limits = {"connect": timeouts.connect, "read": None, "write": None, "pool": None}

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
            return _failing(self._name, secrets)

        with failing():
            request = self._request(method, path, headers, body)
        async with _watched(self._name, self._timeouts, signal, idle=idle) as watch:
            with failing():
                line, response = await self._send(request)
            answer = Answer(response, watch, failing)
            try:
                yield answer
            finally:
                await answer.close()
                await line.give_back(reusable=answer.ended)

    def _request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> httpx.Request:
        url = self._urls.get(path)
        if url is None:
            query = ("&" if "?" in path else "?") + self._query if self._query else ""
            url = httpx.URL(f"{self._base}{path}{query}")
            if len(self._urls) < 16:  # a model has few; the pages of a listing need not be kept
                self._urls[path] = url
        sent = {"host": url.netloc.decode("ascii"), **headers}
        if body:
            sent["content-length"] = str(len(body))
        stream = httpx.ByteStream(body)
        return httpx.Request(method, url, headers=sent, stream=stream, extensions={"timeout": self._limits})

    async def _send(self, request: httpx.Request) -> tuple[_Given | _Line, httpx.Response]:
        if self._given is not None:
            return self._given, await self._given.send(request)
        lines = await _lines_of(asyncio.get_running_loop())
        line = lines.take(request.url)
        used = line.used
        try:
            return line, await line.send(request)
        except _STALE:
            # The server had closed the connection between two requests. It has said nothing, so it is asked again.
            if not used:
                raise
        line = _Line(lines, request.url)
        return line, await line.send(request)


@contextmanager
def _failing(name: str, secrets: Sequence[str]) -> Iterator[None]:
    try:
        yield
    except _FAILURES as error:
        raise model_network_error(error, name, secrets=secrets) from None


class Answer:
    """The answer to one request: its status, its headers, and once its body, decompressed."""

    def __init__(self, response: httpx.Response, watch: _Watch, failing: Any) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self.ended = False
        self._response = response
        self._watch = watch
        self._failing = failing
        self._pieces: AsyncIterator[bytes] | None = None

    def __aiter__(self) -> Answer:
        return self

    async def __anext__(self) -> bytes:
        try:
            pieces = self._pieces = self._pieces or self._body()
            data = await pieces.__anext__()
        except StopAsyncIteration:
            self.ended = True
            raise
        except _FAILURES:
            with self._failing():
                raise
        self._watch.heard()
        return data

    def _body(self) -> AsyncIterator[bytes]:
        coding = self.headers.get("content-encoding", "").strip().lower()
        if coding in ("identity", ""):
            stream: Any = self._response.stream
            pieces: AsyncIterator[bytes] = stream.__aiter__()
            return pieces
        if coding not in ("gzip", "deflate"):
            raise httpx.DecodingError(f"the reply is compressed in a way that was not asked for: {coding}")
        return self._response.aiter_bytes()

    async def whole(self, limit: int = MAX_REPLY_BYTES) -> bytes:
        """The rest of the body. Raises ModelRequestError when it has more than ``limit`` bytes."""
        body = bytearray()
        async for data in self:
            body += data
            if len(body) > limit:
                raise ModelRequestError(
                    f"the reply has more than {limit:,} bytes; is the base URL that of a model?", code="broken_reply"
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
        """Close the body. Failures here are of no interest: what the reply said was read or given up."""
        with suppress(*_FAILURES, RuntimeError):
            if isinstance(self._pieces, AsyncGenerator) and not self.ended:
                await self._pieces.aclose()
            stream: Any = self._response.stream
            await stream.aclose()


# ---- time ---------------------------------------------------------------------------------------------------------


class _Watch:
    """Ends one request that stalls, takes too long or is cancelled: one timer and one listener for all of it."""

    def __init__(self, scope: asyncio.Timeout, timeouts: Timeouts, *, idle: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._scope = scope
        self._idle_s = timeouts.idle_s if idle else math.inf
        self._heard = self._loop.time()
        self._end = self._heard + timeouts.total_s
        self._timer: asyncio.TimerHandle | None = None
        self._over = False
        self.stalled = False
        self._wait()

    def heard(self) -> None:
        """Something came."""
        self._heard = self._loop.time()

    def cancel(self) -> None:
        """End the request; from any thread."""
        with suppress(RuntimeError):  # the loop was closed: nothing is left to end
            self._loop.call_soon_threadsafe(self._stop)

    def close(self) -> None:
        """The request is over."""
        self._over = True
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        due = min(self._heard + self._idle_s, self._end)
        self._timer = None if math.isinf(due) else self._loop.call_at(due, self._look)

    def _look(self) -> None:
        now = self._loop.time()
        self.stalled = now >= self._heard + self._idle_s
        if self.stalled or now >= self._end:
            self._stop()
        else:
            self._wait()

    def _stop(self) -> None:
        if not self._over:
            self._scope.reschedule(self._loop.time())


@asynccontextmanager
async def _watched(name: str, timeouts: Timeouts, signal: CancelSignal | None, *, idle: bool) -> AsyncIterator[_Watch]:
    watch: _Watch | None = None
    forget = None
    try:
        async with asyncio.timeout(None) as scope:
            watch = _Watch(scope, timeouts, idle=idle)
            forget = signal.on_cancel(watch.cancel) if signal else None
            try:
                yield watch
            finally:
                watch.close()
                if forget is not None:
                    forget()
    except TimeoutError:
        if signal is not None and signal.cancelled:
            raise CancelledByUser(signal.reason) from None
        if watch is not None and watch.stalled:
            text = f"{name} said nothing for {timeouts.idle_s:g} s (idle_s)"
        else:
            text = f"{name} did not finish within {timeouts.total_s:g} s (total_s)"
        raise ModelRequestError(
            f"{text}; pass timeouts=Timeouts(...) to wait longer", retryable=True, code="timeout"
        ) from None


# ---- connections --------------------------------------------------------------------------------------------------


class _Given:
    """A transport that a caller gave: it looks after its connections itself."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def send(self, request: httpx.Request) -> httpx.Response:
        return await self._transport.handle_async_request(request)

    async def give_back(self, *, reusable: bool) -> None:
        pass


class _Line:
    """A transport with one connection, which carries one request at a time."""

    def __init__(self, owner: _Lines, url: httpx.URL) -> None:
        self._owner = owner
        self.place = (url.scheme, url.netloc)
        self.used = False
        self.idle_since = 0.0
        proxy = proxy_for(url.scheme, url.host, url.port)
        self._transport = httpx.AsyncHTTPTransport(
            verify=_trusted() if proxy or url.scheme == "https" else _unused(),
            trust_env=False,
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=KEPT_S),
            proxy=proxy,
        )

    async def send(self, request: httpx.Request) -> httpx.Response:
        opened: list[Any] = []
        if not self.used:
            request.extensions["trace"] = _keep_streams(opened)
        try:
            response = await self._transport.handle_async_request(request)
        except BaseException:
            await self.aclose(opened)
            raise
        self.used = True
        return response

    async def give_back(self, *, reusable: bool) -> None:
        if not reusable or not self._owner.keep(self):
            await self.aclose()
        for line in self._owner.outdated(self.place):
            await line.aclose()

    async def aclose(self, opened: Sequence[Any] = ()) -> None:
        with suppress(*_FAILURES, RuntimeError):
            await self._transport.aclose()
            for stream in opened:  # one whose TLS handshake was cancelled is known to nobody else
                await stream.aclose()


def _keep_streams(opened: list[Any]) -> Any:
    async def trace(event: str, info: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.complete":
            opened.append(info["return_value"])

    return trace


class _Lines:
    """The unused connections of one event loop, by server; the one used last is used first."""

    def __init__(self) -> None:
        self._idle: dict[tuple[str, bytes], list[_Line]] = {}
        self._closed = False

    def take(self, url: httpx.URL) -> _Line:
        idle = self._idle.get((url.scheme, url.netloc))
        return idle.pop() if idle else _Line(self, url)

    def keep(self, line: _Line) -> bool:
        """Take ``line`` back; False when the caller has to close it."""
        idle = self._idle.setdefault(line.place, [])
        if self._closed or len(idle) >= MAX_IDLE:
            return False
        line.idle_since = time.monotonic()
        idle.append(line)
        return True

    def outdated(self, place: tuple[str, bytes]) -> Iterator[_Line]:
        """Take out what was unused for too long."""
        idle = self._idle.get(place, [])
        while idle and idle[0].idle_since < time.monotonic() - KEPT_S:
            yield idle.pop(0)

    async def aclose(self) -> None:
        """Close what is not in use. What is in use stays open until it is given back."""
        idle, self._idle = self._idle, {}
        for lines in idle.values():
            for line in lines:
                await line.aclose()

    async def guard(self) -> AsyncGenerator[None]:
        """A loop that ends closes the generators that are open on it: so the connections are closed in time."""
        try:
            yield
        finally:
            self._closed = True
            await self.aclose()


_by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[_Lines, AsyncGenerator[None]]] = WeakKeyDictionary()
_lock = threading.Lock()


async def _lines_of(loop: asyncio.AbstractEventLoop) -> _Lines:
    kept = _by_loop.get(loop)
    if kept is None:
        lines = _Lines()
        guard = lines.guard()
        await anext(guard)
        with _lock:
            for other in [other for other in _by_loop if other.is_closed()]:
                del _by_loop[other]  # connections hold their loop, so it would never go by itself
            kept = _by_loop[loop] = lines, guard
    return kept[0]


async def close_connections() -> None:
    """Close the unused connections of this event loop."""
    kept = _by_loop.get(asyncio.get_running_loop())
    if kept is not None:
        await kept[0].aclose()


@cache
def _trusted() -> ssl.SSLContext:
    """One for all connections: to make one takes some 40 ms. Honours SSL_CERT_FILE and SSL_CERT_DIR."""
    return httpx.create_ssl_context()


@cache
def _unused() -> ssl.SSLContext:
    """What a connection without TLS is given, lest httpx makes one for each."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
