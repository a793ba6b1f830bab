"""An end for every request: one that stalls, takes too long or is cancelled."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from ..protocol.errors import CancelledByUser, ModelRequestError
from ..runtime.signals import CancelSignal
from .address import Timeouts


class Watch:
    """Ends one request that stalls, takes too long or is cancelled: one timer and one listener, whatever comes."""

    def __init__(self, scope: asyncio.Timeout, timeouts: Timeouts, *, idle: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._scope = scope
        self._idle_s = timeouts.idle_s if idle else math.inf
        self._heard = self._loop.time()
        self._end = self._heard + timeouts.total_s
        self._timer: asyncio.TimerHandle | None = None
        self._over = False
        self.stalled = False
        self._wait()

    def heard(self) -> None:
        """Something came."""
        self._heard = self._loop.time()

    def cancel(self) -> None:
        """End the request; from any thread."""
        with suppress(RuntimeError):  # the loop was closed: nothing is left to end
            self._loop.call_soon_threadsafe(self._stop)

    def close(self) -> None:
        """The request is over."""
        self._over = True
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        due = min(self._heard + self._idle_s, self._end)
        self._timer = None if math.isinf(due) else self._loop.call_at(due, self._look)

    def _look(self) -> None:
        now = self._loop.time()
        self.stalled = now >= self._heard + self._idle_s
        if self.stalled or now >= self._end:
            self._stop()
        else:
            self._wait()

    def _stop(self) -> None:
        if not self._over:
            self._scope.reschedule(self._loop.time())


@asynccontextmanager
async def watched(name: str, timeouts: Timeouts, signal: CancelSignal | None, *, idle: bool) -> AsyncIterator[Watch]:
    """Bounds what is done inside the block. Raises ModelRequestError (``timeout``, retryable), CancelledByUser."""
    watch: Watch | None = None
    forget = None
    try:
        async with asyncio.timeout(None) as scope:
            watch = Watch(scope, timeouts, idle=idle)
            forget = signal.on_cancel(watch.cancel) if signal else None
            try:
                yield watch
            finally:
                watch.close()
                if forget is not None:
                    forget()
    except TimeoutError:
        if signal is not None and signal.cancelled:
            raise CancelledByUser(signal.reason) from None
        if watch is not None and watch.stalled:
            text = f"{name} said nothing for {timeouts.idle_s:g} s (idle_s)"
        else:
            text = f"{name} did not finish within {timeouts.total_s:g} s (total_s)"
        raise ModelRequestError(
            f"{text}; pass timeouts=Timeouts(...) to wait longer", retryable=True, code="timeout"
        ) from None
