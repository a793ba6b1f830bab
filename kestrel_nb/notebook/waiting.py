"""Waiting inside a cell: the tick, and a question on stdin. Every trick that needs to know Jupyter's inside is here.

An awaited cell hears Interrupt only when its loop wakes, so a run keeps a tick going. A plain ``input()`` would stop
the loop, and with it buttons, streaming and Interrupt; ``ask_stdin`` asks without that.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import inspect
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

from IPython.core.getipython import get_ipython

from ..runtime.approvals import TICK_S
from ..runtime.signals import contains
from ..runtime.terminal import ask_terminal

OLDEST_IPYKERNEL = "7.4"  # the first that handles widget messages while a cell awaits
STALLED_S = 0.5  # a loop that has not ticked for so long is blocked by code that does not await


@contextlib.asynccontextmanager
async def ticking() -> AsyncIterator[None]:
    """Wake the loop ten times a second, so that Interrupt reaches a cell whose await is idle."""

    async def tick() -> None:
        while True:
            _Ticks.last = time.monotonic()
            await asyncio.sleep(TICK_S)

    task = asyncio.ensure_future(tick())
    try:
        yield
    finally:
        task.cancel()


class CellInterrupted(KeyboardInterrupt):
    """Interrupt came; the message says what that means. One line, no traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"kestrel: {self}"]


@contextlib.asynccontextmanager
async def interruptible(said: str) -> AsyncIterator[None]:
    """For awaits outside of a run: Interrupt ends them with ``said``, however long a plugin or a store takes."""
    try:
        async with ticking():
            yield
    except asyncio.CancelledError:
        raise CellInterrupted(said) from None


@contextlib.contextmanager
def blocking(said: str) -> Iterator[None]:
    """For code of the user that can't be awaited: Interrupt ends it at once, as in an ordinary cell, with ``said``."""
    in_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.default_int_handler) if in_main else None
    try:
        yield
    except KeyboardInterrupt:
        raise CellInterrupted(said) from None
    finally:
        if in_main:
            signal.signal(signal.SIGINT, before)


class _Ticks:
    """When the loop last ticked, in ``time.monotonic`` seconds."""

    last = 0.0


@contextlib.contextmanager
def breaking_stalls() -> Iterator[None]:
    """Let Interrupt end a tool or a model that blocks the loop; it would wait for the loop otherwise.

    Code of a run that blocks gets a KeyboardInterrupt, as in an ordinary cell. Only while a run ticks, only in the
    main thread: signals come nowhere else. In a terminal, Ctrl-C cancels the awaiting task as a kernel does, instead
    of breaking the loop under it.
    """
    task = asyncio.current_task()
    if task is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = task.get_loop()
    before = signal.getsignal(signal.SIGINT)
    in_kernel = kernel() is not None
    watches: list[threading.Timer] = []

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        if not in_kernel:
            loop.call_soon_threadsafe(task.cancel)
        elif callable(before):
            before(number, frame)
        if time.monotonic() - _Ticks.last < STALLED_S:
            watch = threading.Timer(STALLED_S, _interrupt_again, (_Ticks.last,))  # it may just have begun to block
            watch.daemon = True
            watches.append(watch)
            watch.start()
        elif contains(frame):
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        for watch in watches:
            watch.cancel()  # the next cell must not get it
        signal.signal(signal.SIGINT, before)


def _interrupt_again(seen: float) -> None:
    main = threading.main_thread().ident
    can_send = hasattr(signal, "pthread_kill")  # elsewhere a second press of the button does it
    if _Ticks.last == seen and main is not None and can_send:
        signal.pthread_kill(main, signal.SIGINT)


def kernel() -> Any:
    """The Jupyter kernel of this process, or None in a plain terminal."""
    return getattr(get_ipython(), "kernel", None)


def hears_clicks_while_awaiting() -> bool:
    """False on an ipykernel that queues widget messages behind the running cell."""
    here = kernel()
    return here is None or "concurrent" in inspect.signature(here.dispatch_shell).parameters


def stdin_allowed() -> bool:
    """True where somebody can be asked: JupyterLab, Notebook, a console. False under nbconvert, papermill, nbval."""
    here = kernel()
    if here is None:
        return sys.stdin is not None and sys.stdin.isatty()
    return bool(here.get_parent("shell").get("content", {}).get("allow_stdin", False))


async def ask_stdin(prompt: str) -> str:
    """What somebody types, while the loop goes on. Raises EOFError or OSError where nobody can."""
    here = kernel()
    if here is None:
        return await ask_terminal(prompt)
    try:
        ident = here._get_shell_context_var(here._shell_parent_ident)
    except AttributeError:  # another kernel: ask in the blocking way, without clicks meanwhile
        return builtins.input(prompt)  # noqa: ASYNC250 - there is no other way
    async with _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        return await _ask_front_end(here, ident, prompt)


async def _ask_front_end(here: Any, ident: Any, prompt: str) -> str:
    from zmq import DONTWAIT  # type: ignore[attr-defined]

    receive, socket = here.session.recv, here.stdin_socket
    while receive(socket, DONTWAIT)[1] is not None:
        pass  # late answers to older questions
    content = {"prompt": prompt, "password": False}
    sent = here.session.send(socket, "input_request", content, here.get_parent("shell"), ident=ident)
    while True:
        reply = receive(socket, DONTWAIT)[1]
        if reply is None:
            await asyncio.sleep(TICK_S / 2)
        # The box of an older question may still stand on the page: its answer is none to this one.
        elif reply["parent_header"].get("msg_id", "") in ("", sent["header"]["msg_id"]):
            return str(reply["content"]["value"])


# There is one stdin channel: of two questions at once, each could take the other's answer.
_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
