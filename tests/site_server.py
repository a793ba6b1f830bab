"""A web site on the loopback address that stands for public ones; what it was asked is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType

from kestrel_nb.sandbox.network import Network

PUBLIC = "93.184.216.34"


@dataclass
class Asked:
    """One request: "GET /path", headers with lower-case names, body."""

    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Answer:
    """``headers`` beside Content-Length; ``before`` is awaited before anything is sent."""

    body: bytes | str = b""
    status: str = "200 OK"
    headers: dict[str, str] = field(default_factory=dict)
    before: Callable[[], Awaitable[None]] | None = None
    length: bool = True


class Site:
    """``answers`` by path without query; others are 404. Use as an async context manager."""

    def __init__(self, answers: dict[str, Answer] | None = None) -> None:
        self.answers = answers or {}
        self.asked: list[Asked] = []
        self.port = 0

    def page(self, path: str, body: bytes | str, type: str | None = "text/html", **more: str) -> None:
        headers = {name.replace("_", "-"): value for name, value in more.items()}
        self.answers[path] = Answer(body, headers=headers if type is None else {"Content-Type": type, **headers})

    def network(self, *, allow_private: bool = False) -> Network:
        """A network in which every name is a public address, and every judged address is this site."""
        return Network(
            allow_private=allow_private,
            resolve=lambda host: ["127.0.0.1" if host.endswith("internal") else PUBLIC],
            dial=lambda address, port: ("127.0.0.1", self.port),
        )

    async def __aenter__(self) -> Site:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            try:
                await self._answer(reader, writer)
            finally:
                writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.asked.append(Asked(head[0].removesuffix(" HTTP/1.1"), headers, body))
        path = head[0].split(" ")[1].partition("?")[0]
        answer = self.answers.get(path) or Answer("nothing here", "404 Not Found", {"Content-Type": "text/plain"})
        if answer.before:
            await answer.before()
        sent = answer.body.encode() if isinstance(answer.body, str) else answer.body
        length = {"Content-Length": str(len(sent))} if answer.length else {}
        lines = [f"{name}: {value}" for name, value in {**answer.headers, **length, "Connection": "close"}.items()]
        writer.write("\r\n".join([f"HTTP/1.1 {answer.status}", *lines, "", ""]).encode("latin-1") + sent)
        await writer.drain()
