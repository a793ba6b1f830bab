"""Connections to servers, kept while their event loop lives: one for each request that is on its way."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

import h11

from ..sandbox.exchange import tls_context
from .tcp import TcpStream, connect

MAX_IDLE: Final = 256  # connections kept per server: as many as runs that work at once
KEPT_S: Final = 60.0  # for an unused one; servers close theirs after some such time
MAX_HEAD_BYTES: Final = 100 * 1024  # of an answer's status and headers


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


class DirectLine:
    """One connection straight to the server; h11 reads and writes the HTTP/1.1 on it."""

    def __init__(self, owner: Lines, place: Place, connect_s: float | None) -> None:
        self._owner = owner
        self._connect_s = connect_s
        self._stream: TcpStream | None = None
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._rests_since = 0.0
        self.place = place
        self.used = False

    @property
    def fresh(self) -> bool:
        """True while another request may be sent."""
        rested = asyncio.get_running_loop().time() - self._rests_since
        return self._stream is not None and self._stream.silent and rested < KEPT_S

    async def send(self, sent: Sent) -> Received:
        """Send a request, on a connection made now if there is none yet. Raises OSError."""
        try:
            if self._stream is None:
                tls = trusted() if self.place.scheme == "https" else None
                self._stream = await connect(self.place.host, self.place.port, tls, self._connect_s)
            with _plainly():
                response = await self._asked(self._stream, sent)
                return Received(response.status_code, _readable(response.headers), self._body(self._stream))
        except BaseException:
            await self.aclose()
            raise

    async def _asked(self, stream: TcpStream, sent: Sent) -> h11.Response:
        request = h11.Request(method=sent.method, target=sent.target, headers=sent.headers)
        written = [self._http.send(request), self._http.send(h11.Data(data=sent.body))]
        written.append(self._http.send(h11.EndOfMessage()))
        stream.write(b"".join(piece for piece in written if piece))
        self.used = True
        while not isinstance(event := self._http.next_event(), h11.Response):
            if event is h11.NEED_DATA:
                data = await stream.read()
                if not data:
                    raise Dropped("the server closed the connection without an answer")
                self._http.receive_data(data)
        return event

    async def _body(self, stream: TcpStream) -> AsyncGenerator[bytes]:
        """What came together is one piece, however the server has cut it."""
        with _plainly():
            while True:
                arrived: list[bytes] = []
                try:
                    while isinstance(event := self._http.next_event(), h11.Data):
                        arrived.append(event.data)
                except h11.RemoteProtocolError:
                    if arrived:  # what came ahead of it counts
                        yield b"".join(arrived)
                    raise
                if arrived:
                    yield b"".join(arrived)
                if event is not h11.NEED_DATA:
                    return
                self._http.receive_data(await stream.read())

    async def give_back(self, *, reusable: bool) -> None:
        """The request is over."""
        http = self._http
        done = http.our_state is h11.DONE and http.their_state is h11.DONE
        if reusable and done and not http.trailing_data[0]:  # that would be read as the next answer
            http.start_next_cycle()
            self._rests_since = asyncio.get_running_loop().time()
            if self.fresh and self._owner.keep(self):
                return
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection, if there is one."""
        if self._stream is not None:
            await self._stream.aclose()


def _readable(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    read: dict[str, str] = {}
    for raw_name, raw_value in headers:  # h11 gives names in lower case
        name, value = raw_name.decode("ascii"), raw_value.decode("latin-1")
        read[name] = f"{read[name]}, {value}" if name in read else value
    return read


@contextmanager
def _plainly() -> Iterator[None]:
    """What is no HTTP/1.1 is an OSError, as every other failure of a connection."""
    try:
        yield
    except h11.ProtocolError as error:
        raise OSError(str(error)) from None


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
