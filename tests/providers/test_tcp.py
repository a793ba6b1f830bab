"""One connection: what came is read in order and whole, a server that sends too fast waits, failures are told."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from kestrel_nb.providers.tcp import MAX_WAITING, TcpStream, connect

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def connected(talk: Talk) -> AsyncIterator[TcpStream]:
    """A connection to a server that does ``talk`` and then closes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    stream = await connect("127.0.0.1", server.sockets[0].getsockname()[1], None, 5.0)
    try:
        yield stream
    finally:
        await stream.aclose()
        server.close()
        await server.wait_closed()


async def everything(stream: TcpStream) -> list[bytes]:
    pieces = []
    while piece := await stream.read():
        pieces.append(piece)
    return pieces


async def test_a_server_that_sends_faster_than_anybody_reads_has_to_wait() -> None:
    sent = bytes(range(256)) * 4096 * 16  # 16 MB: more than what the sockets between the two hold
    waited = asyncio.Event()

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        waited.set()
        await writer.drain()

    async with connected(talk) as stream:
        await waited.wait()
        for _ in range(200):  # time in which all of it could come
            await asyncio.sleep(0.002)
        pieces = await everything(stream)
    assert b"".join(pieces) == sent
    assert len(pieces[0]) < MAX_WAITING + 1024 * 1024


async def test_what_came_ahead_of_a_reset_is_read_first() -> None:
    over = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"before")
        await reader.readexactly(2)
        await asyncio.sleep(0.1)  # for what was written to arrive: a reset takes the rest back
        linger = struct.pack("ii", 1, 0)  # closing resets
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()
        over.set()

    async with connected(talk) as stream:
        stream.write(b"go")
        await over.wait()
        await asyncio.sleep(0.1)  # for the reset to arrive
        assert await stream.read() == b"before"
        with pytest.raises(ConnectionResetError):
            await stream.read()


async def test_the_end_is_told_as_often_as_it_is_asked_for() -> None:
    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"all")

    async with connected(talk) as stream:
        assert await everything(stream) == [b"all"]
        assert await stream.read() == b""
        assert not stream.silent


async def test_a_reader_can_be_cancelled_and_another_one_goes_on() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(4))

    async with connected(talk) as stream:
        reading = asyncio.ensure_future(stream.read())
        await asyncio.sleep(0.01)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        stream.write(b"more")
        assert await stream.read() == b"more"
