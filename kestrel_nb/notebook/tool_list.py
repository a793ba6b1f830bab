"""``%kestrel tools``: every tool that there is or could be, as a DataFrame."""

from __future__ import annotations

import re
from typing import Any

from ..app import Kestrel
from ..frames import whole_texts
from ..runtime.plugins import AbsentTool
from ..runtime.tools import Tool, missing, permission_words
from .command import table
from .state import NotebookState


async def tools(state: NotebookState, words: list[str]) -> Any:
    """One row for each tool: those that are registered by name, then those that are off.

    ``permission`` is the tool's own, before any rule. ``state`` is on, or says why not; ``to_do`` what would change it.
    ``arguments`` are the names that a call takes, those that may be left out in brackets.
    """
    await state.app.initialize()
    state.tools.refresh(state.app)
    rows = [_row(state.app, tool) for tool in state.app.tools.list()]
    rows += [_absent_row(absent) for absent in state.app.plugins.absent_tools().values()]
    return whole_texts(table(rows), "permission", "state", "to_do", "arguments")


def _row(app: Kestrel, tool: Tool) -> dict[str, Any]:
    if app.tool_policy.refusal(tool.schema.name):
        return _cells(tool, "off: the tool policy", "change the application's tool_policy")
    lack = missing(tool)
    return _cells(tool, "waits: not offered to a model", lack) if lack else _cells(tool, "on")


def _absent_row(absent: AbsentTool) -> dict[str, Any]:
    why = absent.why if absent.why.startswith("off") else f"off: {absent.why}"
    return _cells(absent.tool, why, absent.remedy)


def _cells(tool: Tool, state: str, to_do: str = "") -> dict[str, Any]:
    return {
        "tool": tool.schema.name,
        "permission": permission_words(tool),
        "state": state,
        "to_do": to_do,
        "arguments": _arguments(tool),
        "description": re.split(r"(?<!\.)[.:;](?:\s|$)", tool.schema.description, maxsplit=1)[0],
    }


def _arguments(tool: Tool) -> str:
    parameters = tool.schema.parameters
    needed = list(parameters.get("required", ()))
    free = [name for name in parameters.get("properties", {}) if name not in needed]
    return ", ".join([*needed, *(f"[{name}]" for name in free)])
