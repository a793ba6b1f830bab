"""Cancelling: one signal for coroutines and threads alike."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ..protocol.errors import CancelledByUser

T = TypeVar("T")


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
            callback()
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

        def settle() -> None:
            if not waiter.done():
                waiter.set_result(None)

        def wake() -> None:
            loop.call_soon_threadsafe(settle)

        dispose = self.on_cancel(wake)
        try:
            await waiter
        finally:
            dispose()

    def raise_if_cancelled(self) -> None:
        """Raise CancelledByUser once cancelled: for work that looks now and then."""
        if self._cancelled:
            raise CancelledByUser(self.reason)


async def until_cancelled(work: Coroutine[Any, Any, T], signal: CancelSignal, *, grace_s: float = 0.5) -> T:
    """The result of ``work``, or CancelledByUser once ``signal`` is cancelled.

    ``work`` is cancelled then and given ``grace_s`` seconds to clean up; after that it is left behind. Its own
    exceptions come through, a CancelledError of its own making as RuntimeError.
    """
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    woken: asyncio.Future[None] = loop.create_future()

    def wake(_: object = None) -> None:
        if not woken.done():
            woken.set_result(None)

    def wake_from_any_thread() -> None:
        loop.call_soon_threadsafe(wake)

    task.add_done_callback(wake)
    dispose = signal.on_cancel(wake_from_any_thread)
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
        raise RuntimeError("the work cancelled itself")
    return task.result()


async def _stop(task: asyncio.Task[Any], grace_s: float) -> None:
    task.cancel()
    task.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody else will look at it
    await asyncio.wait({task}, timeout=grace_s)
