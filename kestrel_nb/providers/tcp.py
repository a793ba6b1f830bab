"""One TCP connection of asyncio, with TLS if asked for: bytes go out at once, and come in as they arrive."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import Any, Final, cast

MAX_WAITING: Final = 1024 * 1024  # bytes that nobody has read yet; the server waits then
NEXT_ADDRESS_S: Final = 0.25  # after which a host's next address is tried as well: RFC 8305


class TcpStream(asyncio.Protocol):
    """A connection. What came before an end or a failure is read first."""

    def __init__(self) -> None:
        self._arrived = bytearray()
        self._over = False
        self._failure: Exception | None = None
        self._paused = False
        loop = asyncio.get_running_loop()
        self._news: asyncio.Future[None] | None = None
        self._lost: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._transport: asyncio.Transport

    @property
    def silent(self) -> bool:
        """True while the other side has neither closed nor sent anything that was not read."""
        return not (self._over or self._arrived)

    def write(self, data: bytes) -> None:
        """Send ``data``. A failure is told by the next ``read``."""
        self._transport.write(data)

    async def read(self) -> bytes:
        """What has come, at least one byte; empty once the other side closed. Raises OSError."""
        if self.silent:
            self._news = self._loop.create_future()
            try:
                await self._news
            finally:
                self._news = None
        if not self._arrived and self._failure is not None:
            raise self._failure
        data = bytes(self._arrived)
        self._arrived.clear()
        if self._paused and not self._over:
            self._paused = False
            self._transport.resume_reading()
        return data

    async def aclose(self) -> None:
        """Close at once: what was not sent yet is given up."""
        self._transport.abort()
        with suppress(asyncio.CancelledError):  # it closes all the same
            await asyncio.shield(self._lost)

    # ---- told by the event loop -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """There is a connection."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Something came."""
        self._arrived += data
        if len(self._arrived) > MAX_WAITING and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._tell()

    def eof_received(self) -> None:
        """The other side will send no more; the loop closes the connection then."""
        self._over = True
        self._tell()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        self._over = True
        self._failure = self._failure or exc
        if not self._lost.done():
            self._lost.set_result(None)
        self._tell()

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


async def connect(host: str, port: int, tls: ssl.SSLContext | None, within_s: float | None) -> TcpStream:
    """A connection to ``host``, by name or address. Raises OSError, ConnectionError after ``within_s``."""
    loop = asyncio.get_running_loop()
    options: dict[str, Any] = {"server_hostname": host} if tls else {}
    if isinstance(loop, asyncio.BaseEventLoop):  # loops of others don't know this one
        options["happy_eyeballs_delay"] = NEXT_ADDRESS_S
    try:
        async with asyncio.timeout(within_s) as scope:
            _, stream = await loop.create_connection(TcpStream, host, port, ssl=tls, **options)
    except TimeoutError:
        if not scope.expired():
            raise
        raise ConnectionError(f"no connection within {within_s:g} s") from None
    return stream
