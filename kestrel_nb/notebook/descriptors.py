"""What programs write to the file descriptors 1 and 2 while code runs: a pipe stands there for them.

Programs that the code starts inherit the pipe, so theirs is told from everybody else's, also while the code awaits.
"""

from __future__ import annotations

import codecs
import os
import select
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

READ = 65_536  # bytes at a time
TURNS = 64  # reads in a row before the code goes on: a program may write without end


class Descriptor:
    """A pipe in the place of the descriptor ``number`` while the code is on the stack. ``take`` gets its text."""

    def __init__(self, number: int, take: Callable[[str], None]) -> None:
        self._number, self._take = number, take
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._others = os.dup(number)
        self._out, self._in = os.pipe()
        self._lock = threading.Lock()
        self._ready = select.poll()  # faster than select; asked at each print, with the lock held
        self._ready.register(self._out, select.POLLIN | select.POLLHUP)
        threading.Thread(target=self._read_all, name="kestrel-pipe", daemon=True).start()

    def enter(self) -> None:
        """What is written from now on comes here."""
        os.dup2(self._in, self._number)

    def leave(self) -> None:
        """The descriptor is what it was."""
        os.dup2(self._others, self._number)

    def drain(self) -> None:
        """Take what was written up to now."""
        with self._lock:
            for _ in range(TURNS):
                if not self._ready.poll(0) or not self._read():
                    return

    def close(self) -> None:
        """Take the rest. Programs that go on may go on writing; nobody hears them."""
        self.drain()
        os.close(self._in)
        os.close(self._others)

    def _read(self) -> bytes:
        data = os.read(self._out, READ)
        if text := self._decode(data):
            self._take(text)
        return data

    def _read_all(self) -> None:
        """In a thread of its own, so that a program never waits for a full pipe; until the last writer has ended."""
        with suppress(OSError, ValueError):
            while select.select([self._out], [], []):
                with self._lock:
                    if self._ready.poll(0) and not self._read():
                        break
        os.close(self._out)


class Descriptors:
    """Both of them, where the kernel itself listens to them; ``with descriptors:`` around each stretch of the code."""

    def __init__(self, take: Callable[[str, str], None]) -> None:
        self._open: list[Descriptor] = []
        listens = any(hasattr(stream, "watch_fd_thread") for stream in (sys.stdout, sys.stderr))
        if not listens or sys.platform == "win32":
            return
        for number, name in ((1, "stdout"), (2, "stderr")):
            with suppress(OSError):  # the process has none
                self._open.append(Descriptor(number, lambda text, name=name: take(name, text)))  # type: ignore[misc]

    def __enter__(self) -> None:
        _flush()
        for descriptor in self._open:
            descriptor.enter()

    def __exit__(self, *_: object) -> None:
        _flush()
        for descriptor in self._open:
            descriptor.leave()

    def drain(self) -> None:
        """Take what was written up to now."""
        for descriptor in self._open:
            descriptor.drain()

    def close(self) -> None:
        """The code is over."""
        while self._open:
            self._open.pop().close()


def _flush() -> None:
    """What Python itself holds back for the descriptors belongs to whoever wrote it."""
    for stream in (sys.__stdout__, sys.__stderr__):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()  # type: ignore[union-attr]
