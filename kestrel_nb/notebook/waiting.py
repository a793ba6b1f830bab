"""Waiting inside a cell: the tick, and a question on stdin. Every trick that needs to know Jupyter's inside is here.

An awaited cell hears Interrupt only when its loop wakes, so a run keeps a tick going. A plain ``input()`` would stop
the loop, and with it buttons, streaming and Interrupt; ``ask_stdin`` asks without that.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import inspect
import sys
from collections.abc import AsyncIterator
from typing import Any

from IPython.core.getipython import get_ipython

from ..runtime.approvals import TICK_S
from ..runtime.execution import in_daemon_thread

OLDEST_IPYKERNEL = "7.4"  # the first that handles widget messages while a cell awaits


@contextlib.asynccontextmanager
async def ticking() -> AsyncIterator[None]:
    """Wake the loop ten times a second, so that Interrupt reaches a cell whose await is idle."""

    async def tick() -> None:
        while True:  # noqa: ASYNC110 - waking up is the purpose
            await asyncio.sleep(TICK_S)

    task = asyncio.ensure_future(tick())
    try:
        yield
    finally:
        task.cancel()


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
        return str(await in_daemon_thread(builtins.input, prompt))
    try:
        ident = here._get_shell_context_var(here._shell_parent_ident)
    except AttributeError:  # another kernel: ask in the blocking way, without clicks meanwhile
        return builtins.input(prompt)  # noqa: ASYNC250 - there is no other way
    from zmq import DONTWAIT  # type: ignore[attr-defined]

    receive, socket = here.session.recv, here.stdin_socket
    while receive(socket, DONTWAIT)[1] is not None:
        pass  # late answers to older questions
    content = {"prompt": prompt, "password": False}
    here.session.send(socket, "input_request", content, here.get_parent("shell"), ident=ident)
    while (reply := receive(socket, DONTWAIT)[1]) is None:  # noqa: ASYNC110 - a socket that can only be polled
        await asyncio.sleep(TICK_S / 2)
    return str(reply["content"]["value"])
