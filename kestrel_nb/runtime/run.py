"""A run as its caller holds it."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from ..protocol.errors import UsageError
from ..protocol.sessions import RunResult
from .approvals import ApprovalHandler
from .interception import Interceptor
from .signals import CancelSignal


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What one run does differently from its session's defaults."""

    model: str | None = None
    max_steps: int | None = None
    approve: ApprovalHandler | None = None
    tools: tuple[str, ...] | None = None  # names that the model is offered; None: the session's
    interceptor: Interceptor | None = None  # what records or plays this run; None: the application's

    def __post_init__(self) -> None:
        if self.max_steps is not None and self.max_steps < 1:
            raise UsageError("max_steps must be at least 1")


class Run:
    """A run that was started. ``await run`` gives its RunResult, or raises what the model raised.

    Whoever stops waiting does not stop the run; ``session.cancel()`` does.
    """

    def __init__(self, run_id: str, signal: CancelSignal) -> None:
        self.run_id = run_id
        self.signal = signal
        self._ended: asyncio.Future[RunResult] = asyncio.get_running_loop().create_future()

    @property
    def done(self) -> asyncio.Future[RunResult]:
        """The end of the run as a future that may be cancelled, by ``asyncio.wait_for`` for example."""
        future = asyncio.shield(self._ended)
        future.add_done_callback(_consume)
        return future

    @property
    def ended(self) -> bool:
        """True once the run is over."""
        return self._ended.done()

    def end(self, result: RunResult | BaseException) -> None:
        """The run is over. Nobody need await it, so a failure counts as looked at."""
        if self._ended.done():
            return
        if isinstance(result, BaseException):
            self._ended.set_exception(result)
            _consume(self._ended)
        else:
            self._ended.set_result(result)

    def __await__(self) -> Generator[Any, None, RunResult]:
        return self.done.__await__()

    def __repr__(self) -> str:
        return f"<kestrel run, {'ended' if self.ended else 'running'}>"


def _consume(future: asyncio.Future[RunResult]) -> None:
    if not future.cancelled():
        future.exception()
