"""A ``%%kestrel`` cell: from its text to the run that it shows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from IPython.display import display

from ..protocol.errors import KestrelError, StoreError
from ..runtime.run import RunOptions
from .cassettes import check_model, info_of
from .cell import USAGE, CellOptions, parse_cell
from .command import shell_error
from .handle import RunHandle
from .screen import Screen, view_loaded
from .state import NotebookState, current
from .waiting import blocking, interruptible, stdin_allowed

NOT_SENT = "interrupted before the request was sent"


async def run_cell(line: str, body: str) -> None:
    """Work a cell. Mistakes of the person are one line each; a failed run raises RunError after its record."""
    state = current()
    try:
        options = parse_cell(line)
        if options.help:
            from .commands import help_text

            display(help_text([]))
            return
        prompt = body.removesuffix("\n")
        if not prompt.strip():
            raise KestrelError(f"the cell has no request: write it below the %%kestrel line. {USAGE}")
        async with interruptible(NOT_SENT):
            screen = await prepare(state, options)
        with blocking(NOT_SENT):
            message = screen.compose(prompt, context=options.context)
    except KestrelError as error:
        raise shell_error(error) from None
    await show(state, screen, message, options)


async def prepare(state: NotebookState, options: CellOptions, sent: tuple[Mapping[str, Any], ...] = ()) -> Screen:
    """Everything that can be wrong before a request is sent; ``sent``: rows of what the request discloses.

    Raises KestrelError.
    """
    app = state.app
    cassette = state.cassettes.of_cell(options, app)
    await app.initialize()
    policy = state.policy(options)
    state.tools.refresh(app)
    tools = state.pick_tools(options.tools) if options.tools is not None else None
    if options.model:
        info_of(app, options.model, cassette)
    session = state.session(options)
    if cassette is None:
        check_model(app, options.model or session.model)
    live = options.headless is None and stdin_allowed()
    if live:
        await view_loaded()
    return Screen(
        state,
        session,
        None if live else policy,
        RunOptions(
            model=options.model,
            max_steps=options.max_steps or state.settings.max_steps,
            tools=tools,
            interceptor=cassette,
        ),
        options.output,
        sent,
        no_data=options.no_data,
    )


async def show(state: NotebookState, screen: Screen, prompt: str, options: CellOptions) -> None:
    """Start the run that ``screen`` was prepared for and await it as a cell does."""
    try:
        screen.start(prompt)
    except StoreError as error:
        raise shell_error(error, state.about_store()) from None
    except KestrelError as error:
        raise shell_error(error) from None
    handle = state.last = screen.handle
    _bind(state, handle, options.output)
    if options.background and screen.policy is None:
        task = asyncio.ensure_future(screen.finish())
        state.background.add(task)
        task.add_done_callback(state.background.discard)
        return
    await screen.finish_in_cell()


def _bind(state: NotebookState, handle: RunHandle, name: str | None) -> None:
    """``_`` and the name after ``-o`` hold the run; the display hook's own way keeps ``_`` moving in later cells."""
    if name:
        state.namespace[name] = handle
    hook = getattr(state.shell, "displayhook", None)
    if hook is not None:
        hook.update_user_ns(handle)
