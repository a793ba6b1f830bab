"""Asking a session and waiting for the answer: who stops waiting stops the run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ..protocol.errors import CancelledByUser
from ..protocol.messages import ImageAttachment
from ..protocol.sessions import RunResult
from .run import RunOptions
from .session import AgentSession


async def ask(
    session: AgentSession, prompt: str, *, images: Sequence[ImageAttachment] = (), options: RunOptions | None = None
) -> RunResult:
    """One run of ``session``. Cancelling the caller cancels the run, and returns when it has ended."""
    run = session.start(prompt, images=images, options=options)
    try:
        return await run
    except asyncio.CancelledError:
        session.cancel()
        await session.ended()
        raise


def text_of(result: RunResult) -> str:
    """What the model said last. Raises CancelledByUser for a run that was stopped: it has no answer."""
    if result.status == "cancelled":
        raise CancelledByUser("the run was stopped before it had an answer")
    return result.text
