"""Cancelling: one signal for coroutines and threads alike."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import FrameType
from typing import Any, TypeVar

from ..protocol.errors import CancelledByUser
from .logs import without_keys

T = TypeVar("T")
logger = without_keys(logging.getLogger(__name__))


class SelfCancelled(RuntimeError):
    """Work that ended in a CancelledError though nobody had cancelled it."""


class WorkExited(RuntimeError):
    """Work that tried to end the process, with SystemExit or the like."""


class CancelSignal:
    """Says once that work shall stop. Thread-safe: anyone may cancel, anyone may ask or wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self._cancelled = False
        self.reason = ""

    @property
    def cancelled(self) -> bool:
        """True once ``cancel`` was called."""
        return self._cancelled

    def cancel(self, reason: str = "cancelled") -> bool:
        """Cancel; False when it already was. Callbacks run at once, in the calling thread."""
        with self._lock:
            if self._cancelled:
                return False
            self._cancelled, self.reason = True, reason
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback()
            except Exception:  # one that fails must not keep the others from hearing
                logger.exception("a callback of a cancel signal failed")
        return True

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` when cancelled, at once if that has happened. Returns a disposer."""
        with self._lock:
            if not self._cancelled:
                self._callbacks.append(callback)
                return lambda: self._forget(callback)
        callback()
        return lambda: None

    def _forget(self, callback: Callable[[], None]) -> None:
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

    async def wait(self) -> None:
        """Return when cancelled."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        dispose = self.on_cancel(_waker(loop, waiter))
        try:
            await waiter
        finally:
            dispose()

    def raise_if_cancelled(self) -> None:
        """Raise CancelledByUser once cancelled: for work that looks now and then."""
        if self._cancelled:
            raise CancelledByUser(self.reason)


async def until_cancelled(work: Awaitable[T], signal: CancelSignal, *, grace_s: float = 0.5) -> T:
    """The result of ``work``, or CancelledByUser once ``signal`` is cancelled; a coroutine is not even begun then.

    ``work`` is cancelled then and given ``grace_s`` seconds to clean up; after that it is left behind. Its own
    exceptions come through, but a CancelledError of its own making as SelfCancelled, SystemExit and its like as
    WorkExited, and KeyboardInterrupt cancels ``signal``.
    """
    if signal.cancelled:
        if inspect.iscoroutine(work):
            work.close()
        raise CancelledByUser(signal.reason)
    loop = asyncio.get_running_loop()
    task = work if isinstance(work, asyncio.Future) else loop.create_task(_contained(work, signal))
    woken: asyncio.Future[None] = loop.create_future()
    task.add_done_callback(lambda _: _settle(woken))
    dispose = signal.on_cancel(_waker(loop, woken))
    try:
        await woken
        if not task.done():
            await _stop(task, grace_s)
            raise CancelledByUser(signal.reason)
    except asyncio.CancelledError:
        await _stop(task, grace_s)
        raise
    finally:
        dispose()
    if task.cancelled():
        raise SelfCancelled("the work cancelled itself")
    return task.result()


async def _contained(work: Awaitable[T], signal: CancelSignal) -> T:
    """``work``, without what a task would hand on to the event loop and so end it."""
    try:
        return await work
    except (Exception, asyncio.CancelledError, GeneratorExit):
        raise
    except KeyboardInterrupt as error:
        signal.cancel("interrupted")
        raise CancelledByUser(signal.reason) from error
    except BaseException as error:
        raise WorkExited(f"{type(error).__name__}: {error}") from error


def contains(frame: FrameType | None) -> bool:
    """True when ``frame`` runs inside work of ``until_cancelled``: a KeyboardInterrupt there ends that work."""
    while frame is not None:
        if frame.f_code is _contained.__code__:
            return True
        frame = frame.f_back
    return False


def _waker(loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[None]) -> Callable[[], None]:
    """What settles ``waiter`` from any thread."""

    def wake() -> None:
        with suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(_settle, waiter)

    return wake


def _settle(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


async def _stop(task: asyncio.Future[Any], grace_s: float) -> None:
    task.cancel()
    task.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody else will look at it
    await asyncio.wait({task}, timeout=grace_s)
