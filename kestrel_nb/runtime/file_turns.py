"""Disk work off the event loop: in threads, and for each session in the order of the calls."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property, partial
from typing import Any, TypeVar

_THREADS = 4  # sessions whose disk work goes on at once; the work is waiting, not computing

T = TypeVar("T")


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
        result: Future[T] = Future()
        lock, waiting = self._queues.setdefault(id, (threading.Lock(), deque()))
        waiting.append(partial(_run, job, result))

        def take_turn() -> None:
            with lock:  # whichever thread gets it does the oldest job
                waiting.popleft()()

        try:
            self._pool.submit(take_turn)
        except RuntimeError:  # at the interpreter's exit no thread can be started, but a save must not be lost
            take_turn()
        return await asyncio.wrap_future(result)


def _run(job: Callable[[], Any], result: Future[Any]) -> None:
    if not result.set_running_or_notify_cancel():
        return
    try:
        result.set_result(job())
    except BaseException as error:
        result.set_exception(error)
