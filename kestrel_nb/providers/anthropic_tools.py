"""Anthropic Messages: the tools that a request offers."""

from __future__ import annotations

from typing import Any

from ..protocol.tools import ToolSchema
from .encoding import json_bytes, json_object, object_schema, sent_name
from .schemas import without_choices


def tool(schema: ToolSchema) -> dict[str, Any]:
    """A tool as it is offered."""
    description = {"description": schema.description} if schema.description else {}
    return {"name": schema.name, **description, "input_schema": object_schema(without_choices(schema.parameters))}


def name_only(name: str) -> bytes:
    """A tool of which only the name is known any more."""
    return json_object({"name": json_bytes(sent_name(name)), "input_schema": b'{"type":"object","properties":{}}'})
