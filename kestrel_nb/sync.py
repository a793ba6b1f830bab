"""Calling Kestrel from synchronous code: in a script, in a notebook cell, even inside a coroutine.

This is the only file that touches nest_asyncio. It is applied here, to a loop that is already running, at the call
and never before.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import importlib
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import wait
from typing import Any, TypeVar

from .protocol.errors import ApprovalError, MissingExtraError, UsageError
from .protocol.sessions import AnsweredBy, ApprovalDecision, ApprovalRequest
from .runtime.approvals import ApprovalBroker, ApprovalHandler
from .runtime.signals import CancelSignal
from .runtime.terminal import ask_terminal

T = TypeVar("T")

NOBODY = ApprovalDecision(
    approved=False, reason="nobody can answer here: there is no terminal; pass approve=... to decide in code"
)
TICK_S = 0.2  # how soon Ctrl-C is noticed at the latest
STOP_S = 5.0  # how long an interrupted run gets to end; a stopped run takes a second
SHOWN_CHARS = 4_000  # of a call's arguments in a prompt


class LoopThread:
    """One private event loop in a daemon thread, made at first use: a script's runs all live on it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of ``work``. KeyboardInterrupt cancels it, waits until it has ended, and is raised."""
        ended = threading.Event()

        async def watched() -> T:
            try:
                return await work
            finally:
                ended.set()

        future = asyncio.run_coroutine_threadsafe(watched(), self._started())
        try:
            # Not one endless wait: a signal that comes just before it begins would not end it.
            while not future.done():
                wait({future}, timeout=TICK_S)
            return future.result()
        except BaseException:
            if not future.done():
                future.cancel()
                ended.wait(STOP_S)
            raise

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="kestrel-loop", daemon=True)
                self._thread.start()
            return self._loop

    def stop(self) -> None:
        """End the loop and its thread; what still runs on it is cancelled."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(_stop(), loop)
        if thread is not threading.current_thread():
            thread.join(timeout=STOP_S)
            if not thread.is_alive():
                loop.close()


async def _stop() -> None:
    """Cancel everything on this loop, then end it."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=STOP_S / 2)
    asyncio.get_running_loop().stop()


def run_sync(thread: LoopThread, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The result of the coroutine that ``make`` gives.

    Without a running loop it runs on ``thread``. Inside one it runs on that very loop, nested, so nothing else of the
    caller's goes on meanwhile but the loop's own tasks. Raises MissingExtraError without nest_asyncio, UsageError for
    a loop that it can't nest.
    """
    loop = None
    with contextlib.suppress(RuntimeError):
        loop = asyncio.get_running_loop()
    if loop is None:  # not inside the handler: what the work raises would tell of a loop that does not run
        return thread.run(make())
    _nest(loop)
    task = loop.create_task(make())
    try:
        loop.run_until_complete(task)
    except BaseException:
        if not task.done():
            task.cancel()
            loop.run_until_complete(asyncio.wait({task}, timeout=STOP_S))
        raise
    return task.result()


def _nest(loop: asyncio.AbstractEventLoop) -> None:
    for name in ("nest_asyncio2", "nest_asyncio"):  # the maintained fork first; ipykernel brings one or the other
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        try:
            module.apply(loop)
        except ValueError as error:
            raise UsageError(f"{error}; await app.ask(...) instead of run_sync") from error
        return
    raise MissingExtraError("run_sync inside a running event loop needs nest_asyncio: pip install nest-asyncio")


def console_approval(broker: ApprovalBroker) -> ApprovalHandler:
    """A handler that asks in the terminal, or by the notebook's input box; declines where neither is."""

    async def ask(request: ApprovalRequest, signal: CancelSignal) -> ApprovalDecision:
        prompt = _prompt(request)
        try:
            if _in_kernel():
                reply = _ask_here(prompt)
            elif sys.stdin is not None and sys.stdin.isatty():
                reply = await _ask_in_terminal(prompt)
            else:
                return _resolved(broker, request, NOBODY, "policy")
        except (EOFError, NotImplementedError, OSError, ValueError):
            return _resolved(broker, request, NOBODY, "policy")
        decision = ApprovalDecision(approved=reply.strip().lower() in ("y", "yes"))
        return _resolved(broker, request, decision, "terminal")

    return ask


def _resolved(
    broker: ApprovalBroker, request: ApprovalRequest, decision: ApprovalDecision, by: AnsweredBy
) -> ApprovalDecision:
    """The decision, told to the broker as what it is: a person's answer, or that nobody was there to give one."""
    with contextlib.suppress(ApprovalError):  # it was answered elsewhere meanwhile
        broker.resolve(request.id, decision, answered_by=by)
    return decision


async def _ask_in_terminal(prompt: str) -> str:
    try:
        return await ask_terminal(prompt)
    except EOFError:  # Ctrl-D: whoever is there does not want it
        return ""


def _prompt(request: ApprovalRequest) -> str:
    """The question in one line of printable characters: nothing in it can hide another part of it."""
    shown = repr(dict(request.arguments))
    if len(shown) > SHOWN_CHARS:
        shown = f"{shown[:SHOWN_CHARS]}... ({len(shown):,} characters)"
    return f"May it run {request.tool} with {shown}? {repr(request.reason)[1:-1]} [y/N] "


def _ask_here(prompt: str) -> str:
    """The notebook's own input box. It belongs to the main thread, which the caller blocks anyway."""
    return builtins.input(prompt)


def _in_kernel() -> bool:
    """True where ipykernel has put its own ``input`` in the place of Python's."""
    return "ipykernel" in sys.modules and not isinstance(builtins.input, type(len))
