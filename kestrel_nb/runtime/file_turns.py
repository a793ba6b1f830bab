"""Disk work off the event loop: in threads, and for each session in the order of the calls."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property, partial
from typing import Any, TypeVar, cast

_THREADS = 4  # sessions whose disk work goes on at once; the work is waiting, not computing

T = TypeVar("T")
_Outcome = tuple[Any, BaseException | None]


class Turns:
    """One queue of jobs per session. No thread starts before the first job."""

    def __init__(self) -> None:
        self._queues: dict[str, tuple[threading.Lock, deque[Callable[[], None]]]] = {}

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(_THREADS, thread_name_prefix="kestrel-store")

    async def take(self, id: str, job: Callable[[], T]) -> T:
        """Run ``job`` after the earlier jobs of the session ``id``.

        When the caller is cancelled, a job that has begun goes on to its end and a waiting one is dropped.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[_Outcome] = loop.create_future()
        lock, waiting = self._queues.setdefault(id, (threading.Lock(), deque()))
        waiting.append(partial(_run, job, loop, done))

        def take_turn() -> None:
            with lock:  # whichever thread gets it does the oldest job
                waiting.popleft()()

        try:
            self._pool.submit(take_turn)
        except RuntimeError:  # at the interpreter's exit no thread can be started, but a save must not be lost
            take_turn()
        result, error = await done
        if error is not None:
            raise error
        return cast(T, result)


def _run(job: Callable[[], Any], loop: asyncio.AbstractEventLoop, done: asyncio.Future[_Outcome]) -> None:
    if done.cancelled():
        return
    outcome: _Outcome
    try:
        outcome = job(), None
    except BaseException as error:
        outcome = None, error
    with suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits any more
        loop.call_soon_threadsafe(_settle, done, outcome)


def _settle(done: asyncio.Future[_Outcome], outcome: _Outcome) -> None:
    if not done.done():
        done.set_result(outcome)
