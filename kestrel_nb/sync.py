"""Calling Kestrel from synchronous code: in a script, in a notebook cell, even inside a coroutine.

This is the only file that touches nest_asyncio. It is applied here, to a loop that is already running, at the call
and never before.
"""

from __future__ import annotations

import asyncio
import builtins
import importlib
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from .protocol.errors import ApprovalError
from .protocol.sessions import ApprovalDecision, ApprovalRequest
from .runtime.approvals import ApprovalBroker, ApprovalHandler
from .runtime.execution import in_daemon_thread
from .runtime.signals import CancelSignal

T = TypeVar("T")

NOBODY = "nobody can answer here: there is no terminal; pass approve=... to decide in code"


class LoopThread:
    """One private event loop in a daemon thread, made at first use: a script's runs all live on it."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of ``work``. KeyboardInterrupt cancels it and is raised."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="kestrel-loop", daemon=True)
            self._thread.start()
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    @property
    def running(self) -> bool:
        """True once it was used and until it is stopped."""
        return self._loop is not None

    def stop(self) -> None:
        """End the loop and its thread."""
        if self._loop is None or self._thread is None:
            return
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        loop.call_soon_threadsafe(loop.stop)
        if thread is not threading.current_thread():
            thread.join(timeout=5)
            loop.close()


def run_sync(thread: LoopThread, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The result of the coroutine that ``make`` gives.

    Without a running loop it runs on ``thread``. Inside one it runs on that very loop, nested, so nothing else of the
    caller's goes on meanwhile but the loop's own tasks.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return thread.run(make())
    _nest(loop)
    result: T = loop.run_until_complete(make())
    return result


def _nest(loop: asyncio.AbstractEventLoop) -> None:
    for name in ("nest_asyncio2", "nest_asyncio"):  # the maintained fork first; ipykernel brings one or the other
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        module.apply(loop)
        return


def console_approval(broker: ApprovalBroker) -> ApprovalHandler:
    """A handler that asks in the terminal, or by the notebook's input box; declines where neither is."""

    async def ask(request: ApprovalRequest, signal: CancelSignal) -> ApprovalDecision:
        prompt = f"May it run {request.tool} with {dict(request.arguments)!r}? {request.reason} [y/N] "
        try:
            if _in_kernel():
                reply = _ask_here(prompt)
            elif sys.stdin is not None and sys.stdin.isatty():
                reply = await in_daemon_thread(builtins.input, prompt)
            else:
                return ApprovalDecision(approved=False, reason=NOBODY)
        except (EOFError, NotImplementedError, OSError):
            return ApprovalDecision(approved=False, reason=NOBODY)
        decision = ApprovalDecision(approved=reply.strip().lower() in ("y", "yes"))
        try:
            broker.resolve(request.id, decision, answered_by="terminal")
        except ApprovalError:
            return decision  # it was answered elsewhere meanwhile
        return decision

    return ask


def _ask_here(prompt: str) -> str:
    """The notebook's own input box. It belongs to the main thread, which the caller blocks anyway."""
    return builtins.input(prompt)


def _in_kernel() -> bool:
    """True where ipykernel has put its own ``input`` in the place of Python's."""
    return "ipykernel" in sys.modules and not isinstance(builtins.input, type(len))
