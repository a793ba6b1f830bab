"""Schemas of tools for servers that refuse a part of JSON Schema, and with it the whole request.

What is taken away here is only not told to the model: the arguments of a call are checked against the whole schema
before it runs, so a call that does not fit is told so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..protocol.errors import UsageError
from ..protocol.tools import ToolSchema
from ..runtime.tools import NAME
from .encoding import object_schema

_CHOICES: Final = ("oneOf", "anyOf", "allOf")
_DEFINITION: Final = "#/$defs/"
_NAMED: Final = ("properties", "patternProperties", "$defs", "definitions")  # what they hold goes by names of its own
_LITERAL: Final = ("default", "const", "enum", "examples")


def openai_function(tool: ToolSchema) -> dict[str, Any]:
    """Name, description and parameters of ``tool`` as OpenAI's API takes them. Raises UsageError for another name.

    At the top of the parameters it wants the type "object" and no ``not`` or ``enum``, and ``items`` in every array.
    """
    if not NAME.fullmatch(tool.name):
        raise UsageError(
            f'the model\'s server takes no tool named "{tool.name[:80]}"; '
            "use up to 64 letters, digits, underscores and hyphens"
        )
    parameters = without_choices(tool.parameters)
    top = {name: value for name, value in parameters.items() if name not in ("not", "enum")}
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": _with_items({**object_schema(top), "type": "object"}),
    }


def without_choices(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """``parameters`` without choices at the top; in their place stand the properties of all choices together."""
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


def _with_items(schema: Any, *, names: bool = False) -> Any:
    """``schema`` with ``items`` in every array; ``names``: its keys are names and not keywords."""
    if isinstance(schema, list):
        return [_with_items(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    made = {
        key: value if not names and key in _LITERAL else _with_items(value, names=not names and key in _NAMED)
        for key, value in schema.items()
    }
    kind = schema.get("type")
    if not names and (kind == "array" or (isinstance(kind, list) and "array" in kind)):
        made.setdefault("items", {})
    return made


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
