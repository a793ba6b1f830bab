"""A socket: bytes go out at once, and come in when they are asked for."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Final, cast

HEAD_START_S: Final = 0.25  # of one address before the next one is tried too, as RFC 8305 recommends
PAUSE_BYTES: Final = 1024 * 1024  # unread, after which the server has to wait


class ByteStream(asyncio.Protocol):
    """One connection. It has no time limits of its own: whoever reads is cancelled when the time is over."""

    def __init__(self) -> None:
        self._transport = cast("asyncio.Transport", None)  # there as soon as anybody else has this object
        self._pieces: list[bytes] = []
        self._size = 0
        self._waiter: asyncio.Future[None] | None = None
        self._ended = self._paused = False
        self._error: BaseException | None = None

    @property
    def at_rest(self) -> bool:
        """True while nothing has come that nobody waited for, and the server has not closed the connection."""
        return not self._ended and not self._pieces

    def write(self, data: bytes) -> None:
        """Send ``data``; what the socket does not take at once goes out by and by."""
        if not self._ended:
            self._transport.write(data)

    async def read(self) -> bytes:
        """All that has come, or what comes next; nothing once the server has closed. Raises OSError."""
        if not self._pieces and not self._ended:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if not self._pieces and self._error is not None:
            raise self._error
        data = b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        return data

    def abort(self) -> None:
        """Close at once, whatever is still to be sent."""
        self._transport.abort()

    # ---- asyncio.Protocol -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._pieces.append(data)
        self._size += len(data)
        if self._size > PAUSE_BYTES and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self._ended = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        self._error = exc
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


async def connect(host: str, port: int, tls: ssl.SSLContext | None, timeout_s: float | None) -> ByteStream:
    """A connection, with TLS if there is a context for it. Raises OSError."""
    loop = asyncio.get_running_loop()
    # Only asyncio's own loops know the option; others, such as uvloop's, try one address after the other.
    delay: dict[str, Any] = {"happy_eyeballs_delay": HEAD_START_S} if isinstance(loop, asyncio.BaseEventLoop) else {}
    try:
        async with asyncio.timeout(timeout_s):
            _, stream = await loop.create_connection(
                ByteStream,
                host,
                port,
                ssl=tls,
                server_hostname=host if tls else None,
                ssl_handshake_timeout=timeout_s if tls else None,
                **delay,
            )
    except TimeoutError:
        raise ConnectionError(f"no connection within {timeout_s:g} s") from None
    except UnicodeError as error:  # a name that no look-up takes
        raise ConnectionError(str(error)) from None
    return stream
