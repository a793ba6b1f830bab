"""Connections to servers, kept while their event loop lives: one for each request that is on its way."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

import httpcore

from ..sandbox.exchange import tls_context

MAX_IDLE: Final = 256  # connections kept per server: as many as runs that work at once
KEPT_S: Final = 60.0  # for an unused one; servers close theirs after some such time


@dataclass(frozen=True, slots=True)
class Place:
    """Where a connection leads."""

    scheme: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Sent:
    """One request: its ``target`` at ``place``, and ``url``, an httpx.URL, for transports of httpx."""

    place: Place
    method: str
    url: Any
    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes


@dataclass(slots=True)
class Received:
    """The answer to one request: names of headers in lower case, and ``pieces`` of the body as they come."""

    status: int
    headers: Mapping[str, str]
    pieces: AsyncIterator[bytes]


class Line(Protocol):
    """What carries one request at a time."""

    used: bool

    async def send(self, sent: Sent) -> Received: ...
    async def give_back(self, *, reusable: bool) -> None: ...


class Dropped(OSError):
    """The server closed the connection before it had answered."""


class _Sockets(httpcore.AnyIOBackend):
    """Remembers the connection: httpcore forgets one whose TLS handshake is cancelled, without closing it."""

    def __init__(self) -> None:
        self.stream: httpcore.AsyncNetworkStream | None = None

    async def connect_tcp(self, *args: Any, **options: Any) -> httpcore.AsyncNetworkStream:
        """A connection. Raises what httpcore's own raises."""
        self.stream = await super().connect_tcp(*args, **options)
        return self.stream


class DirectLine:
    """One connection straight to the server."""

    def __init__(self, owner: Lines, place: Place, connect_s: float | None) -> None:
        tls = trusted() if place.scheme == "https" else None
        self._owner = owner
        self._origin = httpcore.Origin(place.scheme.encode(), place.host.encode("ascii"), place.port)
        self._sockets = _Sockets()
        self._connection = httpcore.AsyncHTTPConnection(
            self._origin, ssl_context=tls, keepalive_expiry=KEPT_S, network_backend=self._sockets
        )
        self._connect_s = connect_s
        self._extensions = {"timeout": {"connect": connect_s}}
        self.place = place
        self.used = False

    @property
    def fresh(self) -> bool:
        """True while another request may be sent."""
        return self._connection.is_available() and not self._connection.has_expired()

    async def send(self, sent: Sent) -> Received:
        """Send a request, on a connection made now if there is none yet. Raises OSError."""
        place = self.place
        url = httpcore.URL(scheme=self._origin.scheme, host=self._origin.host, port=place.port, target=sent.target)
        request = httpcore.Request(
            sent.method, url, headers=sent.headers, content=sent.body, extensions=self._extensions
        )
        try:
            with _plainly(self._connect_s):
                response = await self._connection.handle_async_request(request)
        except BaseException:
            await self.aclose()
            raise
        self.used = True
        return Received(response.status, _readable(response.headers), _body(response))

    async def give_back(self, *, reusable: bool) -> None:
        """The request is over."""
        if not (reusable and self.fresh and self._owner.keep(self)):
            await self.aclose()

    async def aclose(self) -> None:
        """Close the connection, if there is one."""
        with suppress(OSError), _plainly():
            await self._connection.aclose()
            if self._sockets.stream is not None:
                await self._sockets.stream.aclose()


def _readable(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    read: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("ascii").lower(), raw_value.decode("latin-1")
        read[name] = f"{read[name]}, {value}" if name in read else value
    return read


async def _body(response: httpcore.Response) -> AsyncGenerator[bytes]:
    try:
        with _plainly():
            async for data in response.aiter_stream():
                yield data
    finally:
        await response.aclose()


_FAILURES = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, httpcore.UnsupportedProtocol)


@contextmanager
def _plainly(connect_s: float | None = None) -> Iterator[None]:
    """Turns what httpcore raises into an OSError: the one that it stems from, if there is one."""
    try:
        yield
    except httpcore.ConnectTimeout:
        raise ConnectionError(f"no connection within {connect_s:g} s") from None
    except _FAILURES as error:
        if "without sending a response" in str(error):
            raise Dropped("the server closed the connection without an answer") from None
        raise (_origin_of(error) or OSError(str(error) or type(error).__name__)) from None


def _origin_of(error: BaseException) -> OSError | None:
    cause = error.__cause__ or error.__context__
    if cause is None or isinstance(cause, OSError):
        return cause
    return _origin_of(cause)


class Lines:
    """The unused connections of one event loop, by server; the one used last is used first."""

    def __init__(self) -> None:
        self._idle: dict[Place, list[DirectLine]] = {}
        self._closed = False

    async def take(self, place: Place) -> DirectLine | None:
        """An unused connection to ``place``, if there is one."""
        idle = self._idle.get(place, [])
        while idle:
            line = idle.pop()
            if line.fresh:
                return line
            await line.aclose()
        return None

    def keep(self, line: DirectLine) -> bool:
        """Take ``line`` back; False when the caller has to close it."""
        idle = self._idle.setdefault(line.place, [])
        if self._closed or len(idle) >= MAX_IDLE:
            return False
        idle.append(line)
        return True

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


_by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Lines, AsyncGenerator[None]]] = WeakKeyDictionary()
_lock = threading.Lock()


async def lines() -> Lines:
    """Those of the running event loop."""
    loop = asyncio.get_running_loop()
    kept = _by_loop.get(loop)
    if kept is None:
        made = Lines()
        guard = made.guard()
        await anext(guard)
        with _lock:
            for other in [other for other in _by_loop if other.is_closed()]:
                del _by_loop[other]  # connections hold their loop, so it would never go by itself
            kept = _by_loop[loop] = made, guard
    return kept[0]


async def close_connections() -> None:
    """Close the unused connections of the running event loop."""
    kept = _by_loop.get(asyncio.get_running_loop())
    if kept is not None:
        await kept[0].aclose()


@cache
def trusted() -> ssl.SSLContext:
    """What checks certificates, one for all connections: making one takes tens of milliseconds."""
    context = tls_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
