"""Executing one tool: on the loop or in a daemon thread, cancellable, and never able to take the process down."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ..protocol.errors import CancelledByUser, KestrelError, ToolCallError
from .signals import CancelSignal, SelfCancelled, until_cancelled
from .threads import DaemonThreads
from .tools import Tool, ToolContext, ToolExecutionResult

GRACE_S = 0.5  # what a cancelled tool gets to end its processes; a stopped run has to end within a second
TICK_S, THREAD_GRACE_TICKS = 0.02, 15  # and what a thread gets
_THREADS = DaemonThreads("kestrel-tool")


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
    finished = threading.Event()
    try:
        return await until_cancelled(_guarded(tool, arguments, context, finished), context.signal, grace_s=GRACE_S)
    except SelfCancelled:
        return Failure("the tool was cancelled from within")
    except CancelledByUser:
        await _wait_for_thread(tool, finished)
        return Stopped(still_running=not finished.is_set())


async def _wait_for_thread(tool: Tool, finished: threading.Event) -> None:
    """Give a thread that listens to the signal the time to end: its task was over at once."""
    tries = 0 if inspect.iscoroutinefunction(tool.execute) else THREAD_GRACE_TICKS
    while tries and not finished.is_set():
        tries -= 1
        await asyncio.sleep(TICK_S)


async def _guarded(
    tool: Tool, arguments: Mapping[str, Any], context: ToolContext, finished: threading.Event
) -> Outcome:
    """The call itself. SystemExit must be caught inside this task: a task passes it on to the loop."""
    threaded = not inspect.iscoroutinefunction(tool.execute)
    try:
        result: Any = (
            await in_daemon_thread(tool.execute, arguments, context, on_end=finished.set)
            if threaded
            else await cast("Awaitable[Any]", tool.execute(arguments, context))
        )
        if inspect.isawaitable(result):
            result = await result
        return _checked(tool, result)
    except asyncio.CancelledError:
        if context.signal.cancelled:
            raise
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return Failure("the tool was cancelled from within")
    except BaseException as error:
        return _failure(error, context.signal)
    finally:
        if not threaded:
            finished.set()


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


async def in_daemon_thread(
    function: Callable[..., Any], *arguments: Any, on_end: Callable[[], None] | None = None
) -> Any:
    """The result of ``function(*arguments)`` from a thread that does not keep the process alive."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def settle(outcome: tuple[Any, BaseException | None]) -> None:
        if not done.done():
            done.set_result(outcome)

    def work() -> None:
        outcome: tuple[Any, BaseException | None]
        try:
            outcome = context.run(function, *arguments), None
        except BaseException as error:
            outcome = None, error
        if on_end:
            on_end()
        try:
            loop.call_soon_threadsafe(settle, outcome)
        except RuntimeError:  # the loop was closed meanwhile: nobody waits any more
            return

    _THREADS.run(work)
    result, error = await done
    if error is not None:
        raise error
    return result
