"""What the schemas and the data of many tools have in common."""

from __future__ import annotations

from typing import Any

from ..protocol.messages import JsonObject


def parameters(properties: JsonObject, *, required: tuple[str, ...] = ()) -> JsonObject:
    """The JSON Schema of an object with just these properties."""
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": list(required)} if required else schema


def table(columns: tuple[str, ...], rows: list[list[Any]], **more: Any) -> dict[str, Any]:
    """Tool data that becomes one frame, with its columns also when it has no rows."""
    return {"columns": list(columns), "rows": rows, **more}
