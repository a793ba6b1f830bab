"""The registry of tools: names, schemas, disposers."""

from __future__ import annotations

from typing import Any

import pytest
from stage import FunctionTool

from kestrel_nb.protocol.errors import DuplicateNameError, ToolSchemaError
from kestrel_nb.runtime.tools import ToolRegistry


def tool(name: str) -> Any:
    return FunctionTool(name, lambda *_: "ok")


def test_tools_are_sorted_and_their_names_are_taken_once() -> None:
    tools = ToolRegistry()
    tools.register(tool("b"))
    dispose = tools.register(tool("a"))
    assert [t.schema.name for t in tools.list()] == ["a", "b"]
    assert [schema.name for schema in tools.schemas()] == ["a", "b"]
    with pytest.raises(DuplicateNameError):
        tools.register(tool("a"))
    dispose()
    assert (tools.get("a"), tools.size) == (None, 1)


@pytest.mark.parametrize("name", ["", "a b", "a.b", "x" * 65, "ä", "a\n"])
def test_names_that_providers_refuse(name: str) -> None:
    with pytest.raises(ToolSchemaError):
        ToolRegistry().register(tool(name))


@pytest.mark.parametrize(
    "parameters", [{"type": "objekt"}, {"type": "object", "properties": {"a": {"$ref": "https://x.example/s"}}}]
)
def test_schemas_that_can_not_be_used(parameters: Any) -> None:
    tools = ToolRegistry()
    with pytest.raises(ToolSchemaError):
        tools.register(FunctionTool("t", lambda *_: "ok", parameters=parameters))
    assert tools.size == 0


@pytest.mark.parametrize("thing", [lambda: None, object(), "grep", None, 3])
def test_what_is_no_tool_is_refused_with_what_to_do(thing: Any) -> None:
    with pytest.raises(ToolSchemaError, match="put @tool from kestrel_nb above"):
        ToolRegistry().register(thing)
