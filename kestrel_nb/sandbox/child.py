"""Work that must be killable: one order to a fresh Python process, one answer back, within a time and a size.

A pattern or a script that runs for ever can't be stopped inside this process: it may hold the interpreter's lock. So
it runs in a child that has nothing of ours (no environment, no open file, no package path) and that we can kill.
The pipes are served by a thread: that works from every event loop, on every platform, and never blocks one.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from ..protocol.errors import CancelledByUser, ToolCallError

START = Path(__file__).with_name("child_start.py")
START_S = 20.0  # for the interpreter to come up, on a busy machine; measured: 0.02 to 0.05 s
AT_ONCE = 8  # children; each may fill hundreds of megabytes, and a model may make a hundred calls in one turn
TURN_S = 0.05  # between two looks whether a child that waits for its turn is still wanted
BACKSTOP_S = 5.0  # after which a child ends by itself should nobody have killed it
LAST_MOMENT_S = 1.0  # for a child that has closed its output to end
BLOCK = 65_536
# Without these some installations find no libpython, or Windows no random numbers.
NEEDED = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")

_turns = threading.BoundedSemaphore(AT_ONCE)


class ChildTimeout(ToolCallError):
    """The work took longer than it may; the child was killed."""

    default_code = "child_timeout"


class ChildDied(ToolCallError):
    """The child could not be started, ended without an answer, or answered more than it may.

    ``exit_code`` is that of the process, negative for a signal, None when it never ran or was killed for its size.
    """

    default_code = "child_died"

    def __init__(self, message: str, *, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code


async def run_child(
    script: Path,
    order: Mapping[str, Any],
    *,
    timeout_s: float,
    memory_bytes: int | None,
    max_bytes: int,
    stop: Callable[[], Awaitable[Any]] | None = None,
) -> Any:
    """Run ``script`` in a child process, give it ``order``, and return what it answers.

    The script uses the standard library alone. It finds the order as one JSON object (ASCII) on its standard input,
    which ends there, and writes one JSON value to its standard output; its working folder is the root of the file
    system, its standard error is lost. ``timeout_s`` counts from the moment in which the interpreter is up;
    ``memory_bytes`` limits the address space where the platform can; of the answer at most ``max_bytes`` are read.

    At most AT_ONCE children run at a time, the others wait for their turn; that counts as no time.

    The child is killed at these limits, when ``stop()`` returns, when this coroutine is cancelled, and it ends when
    this process does. Raises ChildTimeout, ChildDied, and CancelledByUser after ``stop()``.
    """
    loop = asyncio.get_running_loop()
    turn: asyncio.Future[None] = loop.create_future()
    up: asyncio.Future[None] = loop.create_future()
    done: asyncio.Future[None] = loop.create_future()
    child = _Child(_command(script, timeout_s, memory_bytes), order, max_bytes)
    child.on_turn, child.on_up, child.on_done = (_setter(loop, future) for future in (turn, up, done))
    threading.Thread(target=child.run, name="kestrel-child", daemon=True).start()
    stopping = asyncio.ensure_future(stop()) if stop else None
    ends = {done} | ({stopping} if stopping else set())
    try:
        await asyncio.wait({turn, *ends}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({up, *ends}, timeout=START_S, return_when=asyncio.FIRST_COMPLETED)
        if up.done():
            await asyncio.wait(ends, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if done.done():
            return child.result()
        if stopping and stopping.done():
            raise CancelledByUser("stopped")
        raise ChildTimeout(f"stopped after {timeout_s:g} s" if up.done() else f"did not start within {START_S:g} s")
    finally:
        if stopping:
            stopping.cancel()
        child.kill()
        await _settled(done)


def _command(script: Path, timeout_s: float, memory_bytes: int | None) -> list[str]:
    backstop = math.ceil(timeout_s + BACKSTOP_S)
    limits = (os.getpid(), backstop, memory_bytes or 0)
    return [sys.executable, "-I", "-S", "-B", str(START), str(script), *map(str, limits)]


def _setter(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> Callable[[], None]:
    """What settles ``future`` from the thread of a child."""

    def set_done() -> None:
        if not future.done():
            future.set_result(None)

    def call() -> None:
        with suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(set_done)

    return call


async def _settled(done: asyncio.Future[None]) -> None:
    """Wait until a killed child is gone, also while this task is being cancelled."""
    cancelled = False
    while not done.done():
        try:
            await asyncio.wait({done})
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError


class _Child:
    """One process, from a thread of its own; ``kill`` and ``result`` are for others."""

    on_turn: Callable[[], None]
    on_up: Callable[[], None]
    on_done: Callable[[], None]

    def __init__(self, command: list[str], order: Mapping[str, Any], max_bytes: int) -> None:
        self._command, self._order, self._max_bytes = command, order, max_bytes
        self._lock = threading.Lock()  # so that nothing is killed that has been collected: its number may be another's
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False
        self._answer: Any = None
        self._problem: BaseException | None = None

    def run(self) -> None:
        """Start the process, talk to it and collect it; tells ``on_turn``, ``on_up`` and ``on_done``."""
        try:
            order = json.dumps(self._order).encode("ascii")
            with self._turn():
                self._answer = self._talk(order)
        except BaseException as error:
            self._problem = error
        finally:
            self.on_done()

    def result(self) -> Any:
        """The answer. Raises ChildDied."""
        if self._problem:
            raise self._problem
        return self._answer

    def kill(self) -> None:
        """End the process and all of its group at once, or keep it from starting. Thread-safe."""
        with self._lock:
            self._killed = True
            if self._process and self._process.poll() is None:
                self._signal(self._process)

    @staticmethod
    def _signal(process: subprocess.Popen[bytes]) -> None:
        if os.name == "posix":
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        process.kill()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        while not _turns.acquire(timeout=TURN_S):
            if self._killed:
                raise ChildDied("killed before it started")
        try:
            self.on_turn()
            yield
        finally:
            _turns.release()

    def _talk(self, order: bytes) -> Any:
        try:
            process = self._started()
        except OSError as error:
            raise ChildDied(f"no process could be started: {error.strerror or error}") from None
        assert process.stdin is not None
        assert process.stdout is not None
        with process.stdout:
            try:
                data = self._exchange(process.stdin, process.stdout.fileno(), order)
            finally:
                self._collect(process)
        return self._parsed(data, process.returncode)

    def _started(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._killed:
                raise ChildDied("killed before it started")
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={name: os.environ[name] for name in NEEDED if name in os.environ},
                cwd=os.path.abspath(os.sep),
                start_new_session=True,  # an interrupt of the Jupyter kernel goes to its group
            )
            return self._process

    def _exchange(self, stdin: IO[bytes], stdout: int, order: bytes) -> bytearray:
        """Wait for the first sign, a blank line, which says that the child is up; then the order, then the answer."""
        data = bytearray(os.read(stdout, BLOCK))
        if data:
            self.on_up()
        with suppress(BrokenPipeError), stdin:
            stdin.write(order)
        while block := os.read(stdout, BLOCK):
            data += block
            if len(data) > self._max_bytes:
                self.kill()
                raise ChildDied(f"answered more than {self._max_bytes:,} bytes")
        return data

    def _collect(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until the process has ended, and see to it that it does."""
        deadline = time.monotonic() + LAST_MOMENT_S
        pause = 0.0005
        while True:
            with self._lock:
                if process.poll() is not None:
                    return
            if time.monotonic() > deadline:
                self.kill()
            time.sleep(pause)
            pause = min(pause * 2, 0.02)

    def _parsed(self, data: bytearray, code: int) -> Any:
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            raise ChildDied(f"ended without an answer ({how})", exit_code=code) from None
