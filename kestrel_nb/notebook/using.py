"""``%kestrel use`` and ``%kestrel new``: which model, application or tool cells work with, and in which session."""

from __future__ import annotations

from typing import Any

from ..app import Kestrel
from ..protocol.errors import KestrelError, UsageError
from .command import Text
from .disclosure import type_name
from .state import NotebookState, variables_of
from .user_tools import is_model, is_tool
from .visible import one_line

USAGE = "usage: %kestrel use MODEL, or the name of a variable that holds a model, a Kestrel or a tool"


async def use(state: NotebookState, words: list[str]) -> Text:
    """Take a model, an application or a tool. Raises UsageError that names what there is."""
    if not words or not words[0]:
        raise UsageError(USAGE)
    name = words[0]
    value: Any = state.namespace.get(name)
    if isinstance(value, Kestrel):
        if state.can_wait:  # else it comes to life, and says what is wrong with it, when a cell first needs it
            await value.initialize()
        state.use_app(value)
        return Text(f"Cells work with {name} now, in a new session; its model is {_shown(value.models.default_model)}.")
    await state.app.initialize()
    if is_tool(value):
        return Text(f"The tool {_shown(state.tools.take(state.app, name))} is offered now.")
    if is_model(value):
        state.app.models.register(value, replace=True)
        state.use_model(value.info.id)
        return Text(f"The model is {_shown(value.info.id)} now.")
    if name in state.namespace and not state.app.models.has(name):
        raise UsageError(_no_use(state, name, value))
    try:
        state.use_model(name)
    except KestrelError as error:
        raise UsageError(f"{error}{_apps(state)}") from None
    return Text(f"The model is {_shown(name)} now.")


def _shown(name: str | None) -> str:
    return one_line(name or "none", 80)


def _no_use(state: NotebookState, name: str, value: Any) -> str:
    """Why the object in a variable is nothing to be used, and what could be."""
    if isinstance(value, type):
        return f'"{name}" is a class; put an object of it into a variable, and use that'
    if callable(value):
        return f'"{name}" is no tool yet; put @tool above its definition and run that cell again'
    models = ", ".join(info.id for info in state.app.models.list())
    kind = type_name(value)
    article = "an" if kind[:1].lower() in "aeiou" else "a"
    return f"{name} is {article} {kind}, neither a Kestrel, a model nor a tool; models: {models}{_apps(state)}"


def _apps(state: NotebookState) -> str:
    apps = variables_of(state.namespace, Kestrel)
    return f"; variables with a Kestrel: {', '.join(apps)}" if apps else ""


async def new(state: NotebookState, words: list[str]) -> Text:
    """Begin a new session. Raises UsageError for a name that can't be one, or that there is already."""
    await state.app.initialize()
    state.new_session(words[0] if words else None)
    return Text(f"Cells go on in a new session{f', {words[0]}' if words else ''}.")
