"""The tools that the user's variables hold: offered by name, and replaced when their cell was run again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ..app import Kestrel
from ..runtime.tools import Tool


class UserTools:
    """Variables whose tools were given to an application. ``namespace`` has the user's variables."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self._namespace = namespace
        self._variables: dict[str, None] = {}  # in the order they were taken
        self._news: list[str] = []

    def take(self, app: Kestrel, variable: str) -> str:
        """Register the tool in ``variable``, in the place of one with its name; the tool's name.

        Raises ToolSchemaError for a tool that can't be used.
        """
        tool = cast(Tool, self._namespace[variable])
        name = tool.schema.name
        before = app.tools.get(name)
        if before is not tool:
            app.tools.register(tool, replace=True)
            if before is not None and not _is_same_text(before, tool):
                self._news.append(f"{name} was replaced by the tool that the variable {variable} holds now")
        self._variables[variable] = None
        return name

    def refresh(self, app: Kestrel) -> None:
        """Take every tool again whose variable holds another one by now."""
        for variable in tuple(self._variables):
            if is_tool(self._namespace.get(variable)):
                self.take(app, variable)

    def news(self) -> list[str]:
        """What was replaced since this was asked last, one sentence each."""
        news, self._news = self._news, []
        return news

    def forget(self) -> None:
        """Another application is used from now on."""
        self._variables.clear()
        self._news.clear()


def _is_same_text(one: Tool, other: Tool) -> bool:
    """True for a cell with a tool that was run again as it was: that is nothing new."""
    first, second = (_member(tool, "function") for tool in (one, other))
    code = _member(first, "__code__")
    if code is None or one.schema != other.schema:
        return False
    same = bool(code == _member(second, "__code__"))
    return same and not any(_member(function, "__closure__") for function in (first, second))


def is_tool(value: Any) -> bool:
    """True for an object that fulfils the tool contract."""
    return hasattr(_member(value, "schema"), "parameters") and callable(_member(value, "execute"))


def is_model(value: Any) -> bool:
    """True for an object that is meant as a model; the registry says what it lacks."""
    return not isinstance(value, type) and _member(value, "info") is not None and callable(_member(value, "generate"))


def _member(value: Any, name: str) -> Any:
    try:
        return getattr(value, name, None)
    except Exception:  # an object that answers no question is neither
        return None
