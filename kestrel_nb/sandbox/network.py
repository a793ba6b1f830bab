"""Requests that a model asks for: only to the public network, bounded in time and size.

A name is looked up once, every address that comes back is judged, and one of exactly those is dialled, so an answer
that changes afterwards changes nothing; TLS and the Host header keep the name. Each redirect goes through the same.
Proxies and .netrc files of the environment are not used. Promised is no more than that: names are still looked up,
and what a public server does with a request is its own affair.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ..protocol.errors import CancelledByUser
from .addresses import is_this_machine, refusal
from .decoding import ACCEPTED, decoder
from .headers import across_origins, sendable, without_body
from .lookup import Resolver, looked_up, system_addresses
from .network_error import NetworkError as NetworkError
from .urls import Url, follow, parse_url

if TYPE_CHECKING:
    import ssl

    from httpcore import Response as Answer

Dialer = Callable[[str, int], tuple[str, int]]  # a judged address and port -> what is really dialled; for tests
Stop = Callable[[], Awaitable[None]]

METHODS: Final = ("GET", "POST", "PUT", "DELETE", "PATCH")
MAX_REDIRECTS: Final = 10
REDIRECTS: Final = (301, 302, 303, 307, 308)
DEFAULTS: Final = {"accept": "*/*", "user-agent": "kestrel-nb"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """An answer. ``url`` is where it came from after redirects, ``headers`` have names in lower case.

    ``body`` is decompressed and has at most ``max_bytes`` bytes; ``truncated`` says that there was more.
    """

    url: str
    status: int
    reason: str
    headers: dict[str, str]
    body: bytes
    truncated: bool


@dataclass(frozen=True, slots=True)
class _Request:
    """What is sent on one hop."""

    url: Url
    method: str
    headers: Mapping[str, str]
    body: bytes | None


class Network:
    """The guarded way out. It holds nothing open between requests and may be used from several event loops."""

    def __init__(
        self,
        *,
        allow_private: bool = False,
        allowed_by: str = "",
        resolve: Resolver | None = None,
        dial: Dialer | None = None,
    ) -> None:
        """``allowed_by`` is the setting, as a person writes it, with which ``allow_private`` would be true."""
        self.allow_private = allow_private
        self._allowed_by = allowed_by
        self._resolve = resolve or system_addresses
        self._dial = dial
        self._tls: ssl.SSLContext | None = None

    async def fetch(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        timeout_s: float,
        max_bytes: int,
        stop: Stop | None = None,
    ) -> Response:
        """Send a request and follow its redirects. ``timeout_s`` is for everything together, the look-up included.

        Redirects change the method as browsers do. To another origin only headers go that can hold no secret
        (``headers.HARMLESS``), and no body goes from https to http. Raises NetworkError, and CancelledByUser once
        ``stop()`` returns.
        """
        if method not in METHODS:
            raise NetworkError(f"method: must be one of {', '.join(METHODS)}", code="network_refused")
        request = _Request(parse_url(url), method, DEFAULTS | sendable(headers or {}), body)
        work = self._within(request, timeout_s, max_bytes)
        return await (_unless_stopped(work, stop) if stop else work)

    async def _within(self, request: _Request, timeout_s: float, max_bytes: int) -> Response:
        from . import exchange as exchange  # loading it is no part of the request's time

        try:
            async with asyncio.timeout(timeout_s):
                return await self._follow(request, max_bytes)
        except TimeoutError:
            raise NetworkError(f"Request timeout after {round(timeout_s * 1000)}ms", code="network_timeout") from None

    async def _follow(self, request: _Request, max_bytes: int) -> Response:
        came_from: Url | None = None
        for _ in range(MAX_REDIRECTS + 1):
            try:
                response = await self._hop(request, max_bytes)
                if not _leads_on(response):
                    return response
                came_from = request.url
                request = _redirected(request, response.status, response.headers["location"])
            except NetworkError as error:
                raise _led_there(came_from, error) from None
        raise NetworkError(f"more than {MAX_REDIRECTS} redirects; ask for the last address itself: {request.url}")

    async def _hop(self, request: _Request, max_bytes: int) -> Response:
        url, port = request.url, request.url.port
        addresses = await self._judged(url)
        places = [self._dial(address, port) if self._dial else (address, port) for address in addresses]
        from .exchange import exchange, tls_context

        if url.scheme == "https":
            self._tls = self._tls or tls_context()
        async with exchange(url, places, request.method, _complete(request), request.body, self._tls) as answer:
            response = _head(url, answer)
            if _leads_on(response):
                return response  # its body is of no use
            return await _with_body(response, answer, max_bytes)

    def check(self, url: str) -> Url:
        """The address as it is asked for. A name in it is looked up, and judged, only when the request is made.

        Raises NetworkError (``invalid_url``, ``network_refused``) when it is clear already that there will be none.
        """
        checked = parse_url(url)
        if checked.is_ip:
            self._judge(checked, [checked.host])
        return checked

    def _judge(self, url: Url, addresses: Sequence[str]) -> None:
        """Raises NetworkError (``network_refused``) when one of the addresses of ``url`` must not be dialled."""
        for address in addresses:
            reason = refusal(address, allow_private=self.allow_private)
            if reason is None and not self.allow_private and is_this_machine(address):
                reason = "an address of this machine"
            if reason:
                what = f"{url.host} is" if url.is_ip else f"{url.host} leads to"
                message = f"{what} {reason}, and requests there are refused; use a public address"
                if self._allowed_by and not refusal(address, allow_private=True):
                    message += f", or have a person allow private networks: {self._allowed_by}"
                raise NetworkError(message, code="network_refused")

    async def _judged(self, url: Url) -> Sequence[str]:
        """The addresses of the host, each of which may be dialled."""
        addresses = [url.host] if url.is_ip else await looked_up(self._resolve, url.host)
        self._judge(url, addresses)
        return addresses


def _redirected(request: _Request, status: int, location: str) -> _Request:
    """The next request, by the rules of fetch.spec.whatwg.org (HTTP-redirect fetch)."""
    url = follow(request.url, location)
    new = replace(request, url=url)
    if status == 303 or (status in (301, 302) and request.method == "POST"):
        new = replace(new, method="GET", headers=without_body(new.headers), body=None)
    if new.body is not None and (request.url.scheme, url.scheme) == ("https", "http"):
        raise NetworkError(
            "from https to http, where others could read the body; it was not sent there", code="network_refused"
        )
    if url.origin != request.url.origin:
        new = replace(new, headers=DEFAULTS | across_origins(new.headers))
    return new


def _led_there(came_from: Url | None, error: NetworkError) -> NetworkError:
    """``error``, which says where the redirect came from when there was one."""
    if came_from is None:
        return error
    return NetworkError(f"{came_from.host} redirects, but {str(error).removeprefix('url: ')}", code=error.code)


def _leads_on(response: Response) -> bool:
    return response.status in REDIRECTS and bool(response.headers.get("location"))


def _complete(request: _Request) -> dict[str, str]:
    """All headers as they are sent."""
    own = {"host": request.url.authority, "accept-encoding": ACCEPTED, "connection": "close"}
    if request.body is not None or request.method in ("POST", "PUT", "PATCH"):
        own["content-length"] = str(len(request.body or b""))
    return {**own, **request.headers}


def _head(url: Url, answer: Answer) -> Response:
    headers: dict[str, str] = {}
    for raw_name, raw_value in answer.headers:
        name, value = raw_name.decode("latin-1").lower(), _text(raw_value)
        if name == "location" and headers.get(name, value) == value:  # twice the same is one
            headers[name] = value
            continue
        if name == "location" and answer.status in REDIRECTS:
            raise NetworkError(f"{url.host} redirects to several places at once; ask for one of them itself")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    reason = _text(answer.extensions.get("reason_phrase", b""))
    return Response(url=str(url), status=answer.status, reason=reason, headers=headers, body=b"", truncated=False)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


async def _with_body(response: Response, answer: Answer, max_bytes: int) -> Response:
    """``response`` with its body, read no further than needed to know that there is more."""
    from .exchange import pieces

    body, decode = bytearray(), decoder(response.headers.get("content-encoding", ""))
    async with aclosing(pieces(answer)) as stream:
        async for chunk in stream:
            for piece in decode.feed(chunk):
                body += piece
                if len(body) > max_bytes:
                    return replace(response, body=bytes(body[:max_bytes]), truncated=True)
    decode.end()
    return replace(response, body=bytes(body))


async def _unless_stopped(work: Awaitable[Response], stop: Stop) -> Response:
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise CancelledByUser("the request was stopped")
        return working.result()
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)
