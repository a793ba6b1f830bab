"""A run as its caller holds it."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from ..protocol.sessions import RunResult
from .approvals import ApprovalHandler
from .signals import CancelSignal


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What one run does differently from its session's defaults."""

    max_steps: int | None = None
    approve: ApprovalHandler | None = None
    tools: tuple[str, ...] | None = None  # names that the model is offered; None: the session's


class Run:
    """A run that was started. ``await run`` gives its RunResult, or raises what the model raised."""

    def __init__(self, run_id: str, done: asyncio.Future[RunResult], signal: CancelSignal) -> None:
        self.run_id = run_id
        self.done = done
        self.signal = signal

    def __await__(self) -> Generator[Any, None, RunResult]:
        # Shielded: somebody who stops waiting does not stop the run; ``session.cancel()`` does.
        return asyncio.shield(self.done).__await__()

    def __repr__(self) -> str:
        return f"<kestrel run, {'ended' if self.done.done() else 'running'}>"
