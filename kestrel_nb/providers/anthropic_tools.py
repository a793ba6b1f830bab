"""Anthropic Messages: the tools that a request offers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..protocol.tools import ToolSchema
from .encoding import json_bytes, json_object, object_schema, sent_name

_CHOICES: Final = ("oneOf", "anyOf", "allOf")
_DEFINITION: Final = "#/$defs/"


def tool(schema: ToolSchema) -> dict[str, Any]:
    """A tool as it is offered."""
    description = {"description": schema.description} if schema.description else {}
    return {"name": schema.name, **description, "input_schema": object_schema(_without_choices(schema.parameters))}


def name_only(name: str) -> bytes:
    """A tool of which only the name is known any more."""
    return json_object({"name": json_bytes(sent_name(name)), "input_schema": b'{"type":"object","properties":{}}'})


def _without_choices(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """``parameters`` without choices at the top, which the server refuses there, and with it the whole request.

    In their place stand the properties of all choices together. The arguments of a call are checked against the whole
    schema before it runs, so a call that fits no choice is told so.
    """
    if not any(word in parameters for word in _CHOICES):
        return parameters
    choices = [_resolved(choice, parameters) for word in _CHOICES for choice in _items(parameters.get(word))]
    properties: dict[str, Any] = {}
    for schema in (*choices, parameters):
        properties |= _object(schema.get("properties"))
    left = {name: value for name, value in parameters.items() if name not in _CHOICES}
    return {**left, "properties": properties}


def _resolved(choice: Any, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """A choice itself, where it only names one of the schema's definitions."""
    name = _object(choice).get("$ref")
    if isinstance(name, str) and name.startswith(_DEFINITION):
        return _object(_object(parameters.get("$defs")).get(name.removeprefix(_DEFINITION)))
    return _object(choice)


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
