"""Connections to servers, kept while their event loop lives: one for each request that is on its way."""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

from ..sandbox.exchange import tls_context
from .byte_stream import ByteStream, connect
from .http1 import Exchange

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


class DirectLine:
    """One connection straight to the server."""

    def __init__(self, owner: Lines, place: Place, connect_s: float | None) -> None:
        self._owner = owner
        self._connect_s = connect_s
        self._stream: ByteStream | None = None
        self._exchange: Exchange | None = None
        self.place = place
        self.used = False
        self.idle_since = 0.0

    @property
    def fresh(self) -> bool:
        """True while another request may be sent."""
        exchange, stream = self._exchange, self._stream
        return exchange is not None and exchange.reusable and stream is not None and stream.at_rest

    async def send(self, sent: Sent) -> Received:
        """Send a request, on a connection made now if there is none yet. Raises OSError."""
        place = self.place
        exchange = self._exchange = Exchange(sent.method, sent.target, sent.headers, sent.body)
        try:
            if self._stream is None:
                tls = trusted() if place.scheme == "https" else None
                self._stream = await connect(place.host, place.port, tls, self._connect_s)
            stream = self._stream
            stream.write(exchange.request)
            start = b""
            while not exchange.status:
                start = await _more(stream, exchange)
        except BaseException:
            self.close()
            raise
        self.used = True
        return Received(exchange.status, exchange.headers, _body(stream, exchange, start))

    async def give_back(self, *, reusable: bool) -> None:
        """The request is over."""
        if not (reusable and self.fresh and self._owner.keep(self)):
            self.close()

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._stream is not None:
            self._stream.abort()


async def _body(stream: ByteStream, exchange: Exchange, start: bytes) -> AsyncGenerator[bytes]:
    if start:
        yield start
    while not exchange.ended:
        if data := await _more(stream, exchange):
            yield data


async def _more(stream: ByteStream, exchange: Exchange) -> bytes:
    """Read on; the bytes of the body that came."""
    data = await stream.read()
    if data:
        return exchange.feed(data)
    exchange.close()
    return b""


class Lines:
    """The unused connections of one event loop, by server; the one used last is used first."""

    def __init__(self) -> None:
        self._idle: dict[Place, list[DirectLine]] = {}
        self._closed = False

    def take(self, place: Place) -> DirectLine | None:
        """An unused connection to ``place``, if there is one."""
        idle = self._idle.get(place, [])
        while idle:
            line = idle.pop()
            if line.fresh:
                return line
            line.close()
        return None

    def keep(self, line: DirectLine) -> bool:
        """Take ``line`` back; False when the caller has to close it."""
        idle = self._idle.setdefault(line.place, [])
        now = time.monotonic()
        while idle and idle[0].idle_since < now - KEPT_S:
            idle.pop(0).close()
        if self._closed or len(idle) >= MAX_IDLE:
            return False
        line.idle_since = now
        idle.append(line)
        return True

    async def aclose(self) -> None:
        """Close what is not in use. What is in use stays open until it is given back."""
        idle, self._idle = self._idle, {}
        for lines in idle.values():
            for line in lines:
                line.close()
        await asyncio.sleep(0)  # the sockets are closed in the loop's next turn

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
