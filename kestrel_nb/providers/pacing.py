"""Cutting replies into deltas and waiting between them, for the models that make their replies themselves."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Iterable

from ..protocol.errors import CancelledByUser
from ..protocol.messages import ChatMessage
from ..runtime.signals import CancelSignal

SHORT_S = 0.05  # a wait that nobody needs to cut short; two tasks for each delta would cost more


def words(text: str) -> list[str]:
    """``text`` in pieces of one word with the space that follows; joined they are ``text`` again."""
    return re.findall(r"\s*\S+\s?|\s+", text)


def chunks(text: str, size: int) -> list[str]:
    """``text`` in pieces of ``size`` characters, the last one shorter."""
    return [text[start : start + size] for start in range(0, len(text), size)]


class Pace:
    """Waits between deltas by the clock: ``seconds`` each on the whole, although a short sleep takes longer than asked.

    A delta that is late is sent at once, so 5,000 deltas of 0.6 ms take 3 s and not twice that.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due = time.monotonic()

    async def wait(self, signal: CancelSignal | None) -> None:
        """Wait for the next delta's time. Raises CancelledByUser as soon as ``signal`` is cancelled."""
        self._due += self._seconds
        await pause(max(0.0, self._due - time.monotonic()), signal)


async def pause(seconds: float, signal: CancelSignal | None) -> None:
    """Wait ``seconds`` (0: let others run). Raises CancelledByUser as soon as ``signal`` is cancelled."""
    stop(signal)
    if seconds > SHORT_S:
        await until_cancelled(asyncio.sleep(seconds), signal)
    else:
        await asyncio.sleep(seconds)
        stop(signal)


async def until_cancelled(work: Awaitable[None], signal: CancelSignal | None) -> None:
    """Await ``work``, but no longer than until ``signal`` is cancelled; then CancelledByUser is raised."""
    if signal is None:
        await work
        return
    task = asyncio.ensure_future(work)
    stopped = asyncio.ensure_future(signal.wait())
    try:
        await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
        signal.raise_if_cancelled()
        await task
    finally:
        for each in (task, stopped):
            each.cancel()
        await asyncio.gather(task, stopped, return_exceptions=True)


def free_call_ids(messages: Iterable[ChatMessage], start: int = 1) -> Iterable[str]:
    """``call_1``, ``call_2``, ... without those that ``messages`` use: an id must not come twice in a session."""
    taken = {call.id for message in messages for call in message.tool_calls}
    number = start
    while True:
        if f"call_{number}" not in taken:
            yield f"call_{number}"
        number += 1


def stop(signal: CancelSignal | None) -> None:
    """Raise CancelledByUser when ``signal`` is cancelled already."""
    if signal is not None and signal.cancelled:
        raise CancelledByUser(signal.reason)
