"""A raw HTTP server on loopback that stands for the public network, and the Network that leads to it.

Names are looked up in ``dns``; every address that was judged and dialled is in ``dialled``. Nothing else is reached.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from kestrel_nb.sandbox.network import Network

DATA = Path(__file__).parent / "data/ssrf"
PUBLIC = "93.184.216.34"


@dataclass(frozen=True)
class Seen:
    """A request as it came in. Header names are in lower case."""

    line: str
    headers: dict[str, str]
    body: bytes
    tls: bool

    @property
    def method(self) -> str:
        return self.line.split(" ")[0]

    @property
    def target(self) -> str:
        return self.line.split(" ")[1]

    @property
    def place(self) -> str:
        """Host and target, as ``Web.pages`` names them."""
        return self.headers["host"].split(":")[0] + self.target


Page = bytes | Callable[[Seen, asyncio.StreamWriter], Awaitable[None]]


def page(body: bytes | str = b"ok", status: str = "200 OK", **headers: str) -> bytes:
    """A whole answer; ``content_type="text/html"`` becomes a header."""
    body = body.encode() if isinstance(body, str) else body
    headers = {"content_length": str(len(body)), **headers}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode("utf-8", "surrogateescape") + body


def redirect(location: str, status: str = "302 Found") -> bytes:
    return page(b"moved", status, location=location)


@dataclass
class Web:
    """``async with Web({"pub.test/": page("hello")}) as web: await web.network().fetch(...)``."""

    pages: dict[str, Page] = field(default_factory=dict)
    dns: dict[str, list[Sequence[str]]] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    lookups: list[str] = field(default_factory=list)
    dialled: list[tuple[str, int]] = field(default_factory=list)
    sni: list[str | None] = field(default_factory=list)
    _servers: list[asyncio.Server] = field(default_factory=list)
    _ports: dict[bool, int] = field(default_factory=dict)
    _open: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> Web:
        for tls in (None, server_tls(self.sni)):
            server = await asyncio.start_server(self._begin(tls is not None), "127.0.0.1", 0, ssl=tls)
            self._servers.append(server)
            self._ports[tls is not None] = server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        for server in self._servers:
            server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    @property
    def port(self) -> int:
        return self._ports[False]

    def network(self, **options: Any) -> Network:
        options = {"resolve": self.resolve, "dial": self.dial} | options
        return Network(**options)

    def resolve(self, host: str) -> Sequence[str]:
        """The next answer for the name; the last one stays. Names that are not in ``dns`` are public."""
        self.lookups.append(host)
        answers = self.dns.get(host, [["127.0.0.1"] if host == "localhost" else [PUBLIC]])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def dial(self, address: str, port: int) -> tuple[str, int]:
        self.dialled.append((address, port))
        return "127.0.0.1", self._ports[port == 443]

    def _begin(self, tls: bool) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
        def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._serve(reader, writer, tls))
            self._open.add(task)
            task.add_done_callback(self._open.discard)

        return begin

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tls: bool) -> None:
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                seen = await _request(reader, tls)
                self.seen.append(seen)
                answer = self.pages.get(seen.place, page("not here", "404 Not Found"))
                if isinstance(answer, bytes):
                    writer.write(answer)
                    await writer.drain()
                else:
                    await answer(seen, writer)
        finally:
            writer.close()
            with suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()


async def _request(reader: asyncio.StreamReader, tls: bool) -> Seen:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *rows = head.rstrip("\r\n").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (row.partition(":") for row in rows)}
    return Seen(line, headers, await reader.readexactly(int(headers.get("content-length", 0))), tls)


def server_tls(names: list[str | None]) -> ssl.SSLContext:
    """A certificate for pub.test, a.test, b.test and 8.8.8.8 by the authority in ``authority.pem``.

    ``names`` gets the server name of every handshake.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = lambda connection, name, _: names.append(name)
    key = base64.encodebytes(base64.b64decode((DATA / "server-key.der.b64").read_bytes())).decode()
    mark = "EC PRIVATE KEY-----"
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as both:
        both.write((DATA / "server.pem").read_text() + f"-----BEGIN {mark}\n{key}-----END {mark}\n")
        both.flush()
        context.load_cert_chain(both.name)
    return context
