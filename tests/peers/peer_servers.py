"""Model servers that others wrote, run by the tests on the loopback address."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

BIN = Path(sys.executable).parent
PLACES = Path(sys.prefix) / "peers" / "peers.json"
START_S = 60
TAIL_CHARS = 6_000


class PeerServer:
    """A process that answers on a free port of this machine; its output goes to ``log``. ``end()`` ends it.

    ``ready`` is a path that it answers once it can be used; without one it is there as soon as it listens.
    """

    running: ClassVar[list[PeerServer]] = []

    def __init__(
        self,
        name: str,
        command: Callable[[int], Sequence[str]],
        folder: Path,
        *,
        ready: str | None,
        port: int | None = None,
    ) -> None:
        self.name = name
        self.port = port or _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(
                command(self.port), cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        self._wait(ready)
        PeerServer.running.append(self)

    def _wait(self, ready: str | None) -> None:
        end = time.monotonic() + START_S
        while True:
            with suppress(OSError, ValueError):
                if ready is None:
                    socket.create_connection(("127.0.0.1", self.port), 1).close()
                else:
                    self.call("GET", ready)
                return
            if self._process.poll() is not None or time.monotonic() > end:
                self.end()
                raise AssertionError(f"{self.name} did not start:\n{self.tail()}")
            time.sleep(0.05)

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """What the server answers, as JSON. Raises OSError for a failure."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json", **headers}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=20) as answer:
            return json.loads(answer.read())

    def tail(self) -> str:
        """The end of what the server printed."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-TAIL_CHARS:]

    def end(self) -> None:
        """End the process, and wait until it is gone."""
        with suppress(ValueError):
            PeerServer.running.remove(self)
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)


def llmock_command(*options: str) -> Callable[[int], Sequence[str]]:
    """How llmock is started on a port."""
    return lambda port: [str(BIN / "llmock"), "serve", "--port", str(port), "--log-level", "warning", *options]


def aimock_command(fixtures: Path, *options: str) -> Callable[[int], Sequence[str]]:
    """How aimock is started on a port with the fixtures in a file."""
    if not PLACES.exists():
        raise AssertionError("aimock is not installed: run make test, or .ci/peers.py with this Python")
    places = json.loads(PLACES.read_text(encoding="utf-8"))
    return lambda port: [places["node"], places["aimock"], "-p", str(port), "-f", str(fixtures), "--strict", *options]


def llama_command(context: int, *options: str) -> Callable[[int], Sequence[str]]:
    """How llama.cpp's own server is started on a port, with a context in tokens."""
    script = str(Path(__file__).with_name("llama_server.py"))
    return lambda port: [sys.executable, script, str(port), str(context), *options]


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
