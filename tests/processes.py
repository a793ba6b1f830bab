"""Processes as a test sees them from outside: who lives, who was not collected, and waiting for a change (Linux)."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path


def living(mark: str) -> list[int]:
    """The other processes with ``mark`` in their command line."""
    return [pid for pid in _others() if mark.encode() in _read(pid, "cmdline")]


def zombies() -> list[int]:
    """Children of this process that ended and were not collected."""
    return [pid for pid in _others() if _state_and_parent(pid) == ("Z", os.getpid())]


def children(mark: str) -> list[int]:
    """Children of this process with ``mark`` in their command line, and its zombies."""
    return sorted({pid for pid in living(mark) if _state_and_parent(pid)[1] == os.getpid()} | set(zombies()))


def sleeper(mark: str, seconds: int = 60) -> str:
    """A shell command that sleeps, with ``mark`` in its command line."""
    return f"{sys.executable} -S -c 'import time; time.sleep({seconds})' {mark}"


def until(condition: Callable[[], bool]) -> None:
    """Wait until ``condition()``; fails after 20 seconds."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def _others() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid())


def _read(pid: int, name: str) -> bytes:
    """A file of a process in /proc; empty when the process ended meanwhile."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _state_and_parent(pid: int) -> tuple[str, int]:
    state, parent = (_read(pid, "stat").decode("latin-1").rpartition(")")[2].split() or ["", "0"])[:2]
    return state, int(parent)
