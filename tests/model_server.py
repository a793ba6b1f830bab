"""A server of raw sockets that plays a model's server by script, its faults included.

    async with ModelServer([whole({...}), [stream_head(), chunk(event), RESET]]) as server:
        model = OpenAIChatModel("m", base_url=server.url)

Each request takes the next reply: bytes, or steps: bytes to write, seconds to wait, CLOSE, RESET or STALL. The last
reply is played again when none is left. Without CLOSE the connection stays open for the next request.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

CLOSE = "close"
RESET = "reset"  # what a crashed peer or a firewall does
STALL = "stall"  # nothing more until the client goes away
Step = bytes | float | str
Steps = bytes | Iterable[Step] | Callable[["Asked"], "Steps"] | AsyncIterator[Step]


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it came: ``connection`` counts from 1."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    connection: int

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class ModelServer:
    """Listens on a free port of the loopback. ``requests`` is what came, ``gone`` counts clients that left midway."""

    def __init__(self, replies: Sequence[Steps] = (), tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.replies = list(replies)
        self.requests: list[Asked] = []
        self.port = self.connections = self.gone = 0
        self._came = asyncio.Event()
        self._left = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**26, ssl=self._tls)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def stop_listening(self) -> None:
        """From now on connections are refused; those that are open stay so."""
        assert self._server is not None
        self._server.close()

    async def until_asked(self) -> None:
        """Wait until a request has come."""
        async with asyncio.timeout(10):
            await self._came.wait()

    async def until_gone(self) -> None:
        """Wait until a client has left in the middle of a reply."""
        async with asyncio.timeout(10):
            await self._left.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        number = self.connections
        try:
            while (asked := await _request(reader, number)) is not None:
                self.requests.append(asked)
                self._came.set()
                if not await self._play(self._next(asked), reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            self._client_left()
        except asyncio.CancelledError:
            pass  # the server ends; asyncio would log this one
        finally:
            self._tasks.discard(task)
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def _next(self, asked: Asked) -> Steps:
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return reply(asked) if callable(reply) else reply

    async def _play(self, steps: Steps, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Write one reply; False when the connection is not to be used again."""
        async for step in _each(steps):
            if isinstance(step, bytes):
                writer.write(step)
                await writer.drain()
            elif step == CLOSE:
                return False
            elif step == RESET:
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
                return False
            else:
                seconds = None if step == STALL else float(step)
                with suppress(TimeoutError):
                    if await asyncio.wait_for(reader.read(1), seconds) == b"":
                        self._client_left()
                        return False
        return True

    def _client_left(self) -> None:
        self.gone += 1
        self._left.set()


async def _each(steps: Steps) -> AsyncIterator[Step]:
    if isinstance(steps, bytes):
        yield steps
    elif isinstance(steps, AsyncIterator):
        async for step in steps:
            yield step
    else:
        assert isinstance(steps, Iterable)
        for step in steps:
            yield step


async def _request(reader: asyncio.StreamReader, connection: int) -> Asked | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None  # the client closed a connection that it did not use
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(method, target, headers, body, connection)


# ---- replies ------------------------------------------------------------------------------------------------------


def head(status: int = 200, headers: Mapping[str, str] | None = None) -> bytes:
    """A status line and headers."""
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in (headers or {}).items()), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def whole(
    body: bytes | str | dict[str, Any] | list[Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> bytes:
    """A reply with its length, as JSON unless ``headers`` say another type."""
    data = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
    return (
        head(status, {"content-type": "application/json", **(headers or {}), "content-length": str(len(data))}) + data
    )


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


LAST_CHUNK = b"0\r\n\r\n"


def stream_head(content_type: str = "text/event-stream", headers: Mapping[str, str] | None = None) -> bytes:
    """The head of a chunked stream; ``chunk`` and ``LAST_CHUNK`` follow."""
    return head(200, {"content-type": content_type, "transfer-encoding": "chunked", **(headers or {})})


def streamed(*pieces: bytes, content_type: str = "text/event-stream") -> list[Step]:
    """A whole chunked stream, one chunk for each of ``pieces``."""
    return [stream_head(content_type), *(chunk(piece) for piece in pieces), LAST_CHUNK]


def data_event(value: Any) -> bytes:
    """One server-sent event with JSON as its data."""
    return b"data: " + json.dumps(value).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def chat_text(*texts: str, finish: str = "stop") -> list[bytes]:
    """The events of a Chat Completions reply that says ``texts``, one delta each."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}, *({"content": text} for text in texts)]
    return [*(chat_event(delta) for delta in deltas), chat_event({}, finish), DONE]


def chat_calls(*calls: tuple[str, str], finish: str = "tool_calls", first: int = 1) -> list[bytes]:
    """The events of a Chat Completions reply that asks for ``calls``: names and argument texts."""
    events = [chat_event({"role": "assistant", "content": None})]
    for index, (name, arguments) in enumerate(calls):
        call = {"index": index, "id": f"call_{first + index}", "type": "function"}
        events.append(chat_event({"tool_calls": [{**call, "function": {"name": name, "arguments": ""}}]}))
        events.append(chat_event({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}))
    return [*events, chat_event({}, finish), DONE]


def chat_event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    """One chunk of Chat Completions."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return data_event({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]})
