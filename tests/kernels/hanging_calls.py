"""Calls that never come to an end, for a kernel in which every tool is on, and what is measured around them there."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from socket import create_server, socket
from typing import Any

MARK = "unending-kestrel"  # in the command line of every process that a command starts
STUBBORN = """import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
time.sleep(600)
"""
SETUP = '''
import asyncio, os, sqlite3, time
from kestrel_nb import BuiltInToolConfig, HttpFetchConfig, Kestrel, ModelInfo
from kestrel_nb.plugins.builtin_tools.config import BUILT_IN_TOOLS
from kestrel_nb.plugins.core_tools.plugin import CoreTools
from kestrel_nb.sandbox.network import Network
from kestrel_nb.testing import Reply, ScriptedModel

os.makedirs("desk")
with open("desk/evil.txt", "w") as file:
    file.write("a" * 60 + "!\\n")
with sqlite3.connect("desk/shop.sqlite") as connection:
    connection.execute("CREATE TABLE items (name)")

class Nothing:
    async def search(self, query, max_results):
        return []

class Seeing(ScriptedModel):
    info = ModelInfo(id="seeing", provider="scripted", supports_images=True)

class Heart:
    """The longest time between two beats of the event loop, and what its thread computed meanwhile."""

    def __init__(self):
        self.begin()

    def begin(self):
        self.gap = self.computing = 0

    async def beat(self):
        while True:
            wall, cpu = time.perf_counter(), time.thread_time()
            await asyncio.sleep(0.005)
            gap = time.perf_counter() - wall
            if gap > self.gap:
                self.gap, self.computing = gap, time.thread_time() - cpu

heart = Heart()
beating = asyncio.ensure_future(heart.beat())
config = BuiltInToolConfig(
    enabled=BUILT_IN_TOOLS,
    database_path="desk/shop.sqlite",
    sandbox_dir="desk",
    web_search_provider=Nothing(),
    http_fetch=HttpFetchConfig(allow_private_network=True),
)
cancel_after, times = None, []

def hear(event):
    """With ``cancel_after`` cancel the run that long after its tool began, and note how long it then takes to end."""
    if event.type == "tool.started" and cancel_after:
        asyncio.get_running_loop().call_later(cancel_after, cancel, event.session_id)
    elif event.type in ("run.completed", "run.failed") and times:
        times.append(time.perf_counter())

def cancel(id):
    times.append(time.perf_counter())
    app.sessions.get(id).cancel()

def play(tool, arguments, after=None):
    """The next cell's run calls ``tool`` once; ``after`` seconds later it is cancelled."""
    global app, cancel_after
    model = Seeing([Reply(tool_calls=[(tool, arguments)]), "It came to an end."])
    reaching = CoreTools(network=Network(allow_private=True))
    app = Kestrel(model=model, workspace="desk", plugins=[reaching], built_in_tools=config)
    app.sessions.subscribe(hear)
    cancel_after = after
    times.clear()
'''


@dataclass(frozen=True)
class Hanging:
    """A call of ``tool`` that does not end. ``{port}`` in it is that of ``dripping``.

    ``limit`` are arguments that shorten its time, where it has such; ``says`` is what the record shows when the time
    is over, "" when that takes too long for a test. ``asks``: a person approves it first. ``outlives``: it is a thread,
    which nothing can kill; it ends by itself soon after.
    """

    name: str
    tool: str
    arguments: dict[str, Any]
    limit: dict[str, Any] = field(default_factory=dict)
    says: str = ""
    asks: bool = False
    outlives: bool = False

    def call(self, port: int, *, short: bool) -> str:
        """Tool and arguments as source text."""
        given = {**self.arguments, **(self.limit if short else {})}
        return f"{self.tool!r}, {given!r}".replace("{port}", str(port))


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
IGNORING = f"trap '' TERM; python stubborn.py {MARK} & python stubborn.py {MARK}"
HANGING = (
    Hanging("regex", "regex-match", {"text": "a" * 40 + "!", "pattern": "^(a|aa|a*)*$"}, {}, "stopped after 5 s"),
    Hanging(
        "grep", "grep", {"pattern": r"(a|aa)+$", "path": "evil.txt"}, {}, "in one file; make it simpler", outlives=True
    ),
    Hanging("loop", "code-eval", {"code": "while (true) {}"}, {"timeout": 500}, "Execution timed out"),
    Hanging(
        "promises",
        "code-eval",
        {"code": "const on = () => Promise.resolve().then(on); on()"},
        {"timeout": 500},
        "Execution timed out",
    ),
    Hanging("flood", "shell", {"command": f"yes {MARK}"}, {"timeout_ms": 700}, "ended after 0.7 s", asks=True),
    Hanging("flood-exec", "shell-exec", {"command": f"yes {MARK}"}, {"timeout": 700}, "timed out", asks=True),
    Hanging("ignoring", "shell", {"command": IGNORING}, {"timeout_ms": 700}, "ended after 0.7 s", asks=True),
    Hanging(
        "sql-function",
        "database-query",
        {"query": "SELECT printf('%.*c', 2000000000, 'x')"},
        {},
        "the query was stopped after 5 s",
    ),
    Hanging("sql-endless", "database-query", {"query": ENDLESS}, {}, "the query was stopped after 5 s"),
    Hanging(
        "http",
        "http-fetch",
        {"url": "http://127.0.0.1:{port}/"},
        {"timeout": 900},
        "Request timeout after 900ms",
        asks=True,
    ),
    Hanging("web", "web_fetch", {"url": "http://127.0.0.1:{port}/"}, asks=True),
)


@contextmanager
def dripping() -> Iterator[int]:
    """The port of a server on loopback that answers at once and then sends one byte of the body a second."""
    with create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_serve, args=(server,), daemon=True).start()
        yield server.getsockname()[1]


def _serve(server: socket) -> None:
    with suppress(OSError):
        while True:
            threading.Thread(target=_drip, args=(server.accept()[0],), daemon=True).start()


def _drip(connection: socket) -> None:
    with suppress(OSError), connection:
        connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100000\r\n\r\n")
        while True:
            connection.sendall(b".")
            threading.Event().wait(1)


def processes_of(kernel_pid: int) -> list[str]:
    """The command lines of the kernel's descendants, and of everything that a marked command has started (Linux)."""
    table: dict[int, int] = {}
    lines: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            with suppress(OSError):
                state, parent = (folder / "stat").read_text("latin-1").rpartition(")")[2].split()[:2]
                if state != "Z":
                    table[int(folder.name)] = int(parent)
                lines[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("latin-1")
    below = {kernel_pid}
    while more := {pid for pid, parent in table.items() if parent in below} - below:
        below |= more
    return [lines.get(pid, "") for pid in table if pid in below - {kernel_pid} or MARK in lines.get(pid, "")]
