"""Executing one tool: on the loop or in a daemon thread, cancellable, and never able to take the process down."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..protocol.errors import CancelledByUser, KestrelError, ToolCallError
from .signals import CancelSignal, SelfCancelled, until_cancelled
from .threads import DaemonThreads
from .tools import Tool, ToolContext, ToolExecutionResult

GRACE_S = 0.5  # what a cancelled tool gets to end its processes; a stopped run has to end within a second
TICK_S, THREAD_GRACE_TICKS = 0.02, 15  # and what a thread gets
CANCELLED_ITSELF = "the tool was cancelled from within"
_THREADS = DaemonThreads("kestrel-tool")
_Ended = tuple[Any, BaseException | None]


@dataclass(frozen=True, slots=True)
class Failure:
    """A tool that threw: what the model reads, and the code of an error of ours."""

    text: str
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Stopped:
    """A tool that was cancelled. ``still_running``: it is a thread that can't be ended, or it did not listen."""

    still_running: bool


Outcome = ToolExecutionResult | Failure | Stopped


async def execute(tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> Outcome:
    """Run ``tool`` once. Whatever it raises comes back as a value; KeyboardInterrupt cancels the run."""
    if context.signal.cancelled:
        return Stopped(still_running=False)
    if inspect.iscoroutinefunction(tool.execute):
        return await _awaited(tool, tool.execute(arguments, context), context)
    ended = threading.Event()
    try:
        begun = _begin(tool.execute, arguments, context, on_end=ended.set)
        result, error = await until_cancelled(begun, context.signal)
    except CancelledByUser:
        await _wait_for_thread(ended)
        return Stopped(still_running=not ended.is_set())
    if error is not None:
        return _failure(error, context.signal)
    return await _awaited(tool, result, context) if inspect.isawaitable(result) else _checked(tool, result)


async def _wait_for_thread(ended: threading.Event) -> None:
    """Give a thread that listens to the signal the time to end."""
    tries = THREAD_GRACE_TICKS
    while tries and not ended.is_set():
        tries -= 1
        await asyncio.sleep(TICK_S)


async def _awaited(tool: Tool, work: Awaitable[Any], context: ToolContext) -> Outcome:
    over = threading.Event()
    try:
        return await until_cancelled(_guarded(tool, work, context, over), context.signal, grace_s=GRACE_S)
    except SelfCancelled:
        return Failure(CANCELLED_ITSELF)
    except CancelledByUser:
        return Stopped(still_running=not over.is_set())


async def _guarded(tool: Tool, work: Awaitable[Any], context: ToolContext, over: threading.Event) -> Outcome:
    """The work itself. SystemExit must be caught inside this task: a task passes it on to the loop."""
    try:
        return _checked(tool, await work)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if context.signal.cancelled or (task is not None and task.cancelling()):
            raise
        return _failure(error, context.signal)
    except BaseException as error:
        return _failure(error, context.signal)
    finally:
        over.set()


def _checked(tool: Tool, result: Any) -> Outcome:
    if isinstance(result, ToolExecutionResult):
        if isinstance(result.content, str):
            return result
        kind = type(result.content).__name__
        return Failure(f"{tool.schema.name} returned a result whose content is {kind} and not text")
    return Failure(f"{tool.schema.name} returned {type(result).__name__} and not a ToolExecutionResult")


def _failure(error: BaseException, signal: CancelSignal) -> Outcome:
    if isinstance(error, KeyboardInterrupt):
        signal.cancel("interrupted")
        return Stopped(still_running=False)
    if isinstance(error, CancelledByUser) and signal.cancelled:
        return Stopped(still_running=False)
    if isinstance(error, asyncio.CancelledError):
        return Failure(CANCELLED_ITSELF)
    return Failure(failure_text(error), error.code if isinstance(error, ToolCallError) else None)


def failure_text(error: BaseException) -> str:
    """What a model reads of an exception: the message, with the code of a violation or the type in front."""
    try:
        text = str(error)
    except Exception:  # a broken __str__ must not hide that the tool failed
        text = ""
    if isinstance(error, KestrelError) and text:
        code = error.code if error.code.isupper() else ""
        return f"{code}: {text}" if code and code not in text else text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


async def in_daemon_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of ``function(*arguments)`` from a thread that does not keep the process alive."""
    result, error = await _begin(function, *arguments)
    if error is not None:
        raise error
    return result


def _begin(
    function: Callable[..., Any], *arguments: Any, on_end: Callable[[], None] | None = None
) -> asyncio.Future[_Ended]:
    """``function(*arguments)`` in such a thread: what it returned, or raised. ``on_end`` is called there, too."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_Ended] = loop.create_future()
    context = contextvars.copy_context()

    def settle(outcome: _Ended) -> None:
        if not done.done():
            done.set_result(outcome)

    def work() -> None:
        outcome: _Ended
        try:
            outcome = context.run(function, *arguments), None
        except BaseException as error:
            outcome = None, error
        if on_end:
            on_end()
        with suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits any more
            loop.call_soon_threadsafe(settle, outcome)

    _THREADS.run(work)
    return done
