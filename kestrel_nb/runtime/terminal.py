"""A question in the terminal whose reading ends with it: no thread is left that would take what is typed next."""

from __future__ import annotations

import asyncio
import builtins
import os
import select
import sys
import threading

from .execution import in_daemon_thread

POLL_S = 0.05
CHUNK_BYTES = 4096  # a terminal gives one line at a time, and none is longer

# There is one terminal: of two questions at once, each could take the other's answer.
_turn = threading.Lock()


async def ask_terminal(prompt: str) -> str:
    """The line that somebody types, while the loop goes on. Raises EOFError for Ctrl-D, OSError without a terminal.

    The terminal edits and echoes the line itself. Cancelled, it reads no more.
    """
    number = _readable_stdin()
    if number is None:
        return str(await in_daemon_thread(builtins.input, prompt))
    while not _turn.acquire(blocking=False):  # noqa: ASYNC110 - the other question may be on another loop
        await asyncio.sleep(POLL_S)
    try:
        _say(prompt)
        return await _line(number)
    except (EOFError, asyncio.CancelledError):
        _say("\n")
        raise
    finally:
        _turn.release()


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _readable_stdin() -> int | None:
    """The file number that can be polled, or None where only a thread can wait."""
    if os.name != "posix":
        return None
    try:
        return sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):  # something else stands in its place
        return None


async def _line(number: int) -> str:
    read = b""
    while not read.endswith(b"\n"):
        while not _has_input(number):  # noqa: ASYNC110 - a reader on the loop could displace the shell's own
            await asyncio.sleep(POLL_S)
        piece = os.read(number, CHUNK_BYTES)
        if not piece and not read:
            raise EOFError
        if not piece:
            break
        read += piece
    encoding = getattr(sys.stdin, "encoding", None) or "utf-8"
    return read.decode(encoding, "replace").rstrip("\r\n")


def _has_input(number: int) -> bool:
    return bool(select.select([number], [], [], 0)[0])
