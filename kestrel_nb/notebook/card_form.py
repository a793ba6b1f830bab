"""The form behind "Edit…" on an approval card: the arguments as fields, and what a person made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..protocol.codec import jsonable, loads
from ..protocol.errors import CodecError
from .summaries import as_json
from .visible import one_line

_AREA = 60  # characters; a longer string gets a text area
_LEFT_OUT = object()
_EXPECTED = {"integer": "a whole number", "number": "a number", "json": "valid JSON"}


def fields_of(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One field per argument given or known to the schema, in the schema's order."""
    known = schema.get("properties")
    properties: Mapping[str, Any] = known if isinstance(known, Mapping) else {}
    required = schema.get("required") if isinstance(schema.get("required"), (list, tuple)) else ()
    names = [*properties, *(name for name in arguments if name not in properties)]
    return [
        _field(str(name), properties.get(name), name in arguments, arguments.get(name), name in (required or ()))
        for name in names
    ]


def _field(name: str, declared: Any, given: bool, value: Any, required: bool) -> dict[str, Any]:
    schema: Mapping[str, Any] = declared if isinstance(declared, Mapping) else {}
    kind = _kind(name, schema, given, value)
    text = value if given and isinstance(value, str) and kind != "json" else as_json(value) if given else ""
    field = {"name": name, "kind": kind, "value": text, "given": given, "required": required}
    hint = schema.get("description")
    if isinstance(hint, str) and hint:
        field["hint"] = one_line(hint, 300)
    if not given and "default" in schema:
        field["default"] = one_line(as_json(schema["default"]), 120)
    if kind == "select":
        field["options"] = jsonable([*([] if required else [""]), *schema["enum"]])
    return field


def _kind(name: str, schema: Mapping[str, Any], given: bool, value: Any) -> str:
    """How a field is drawn. A value of another type than declared is edited as JSON, so that it stays what it is."""
    options = schema.get("enum")
    if isinstance(options, (list, tuple)) and options and all(isinstance(option, str) for option in options):
        return "select" if not given or value in options else "json"
    declared = schema.get("type")
    if name == "code" and declared in ("string", None) and (not given or isinstance(value, str)):
        return "code"
    if given:
        if isinstance(value, bool):
            return "check" if declared in ("boolean", None) else "json"
        if isinstance(value, str):
            return (
                ("area" if "\n" in value or len(value) > _AREA else "text") if declared in ("string", None) else "json"
            )
        if isinstance(value, int):
            return "integer" if declared in ("integer", "number", None) else "json"
        return "number" if isinstance(value, float) and declared in ("number", None) else "json"
    kinds = {"boolean": "check", "string": "text", "integer": "integer", "number": "number"}
    return kinds.get(declared, "json") if isinstance(declared, str) else "json"


def edited(arguments: Mapping[str, Any], fields: list[dict[str, Any]], changes: Mapping[str, Any]) -> dict[str, Any]:
    """``arguments`` with the ``changes`` of the form: name -> text, or a bool of a checkbox. Values that were not
    changed are the request's own. Raises ValueError with ``name: must be …``."""
    kinds = {field["name"]: field for field in fields}
    result = dict(arguments)
    for name, value in changes.items():
        if name not in kinds:
            raise ValueError(f"{name}: is not a field of this call")
        parsed = _parse(kinds[name], value)
        if parsed is _LEFT_OUT:
            result.pop(name, None)
        else:
            result[name] = parsed
    return result


def _parse(field: Mapping[str, Any], value: Any) -> Any:
    name, kind = field["name"], field["kind"]
    if kind == "check":
        if not isinstance(value, bool):
            raise ValueError(f"{name}: must be true or false")
        return value
    if not isinstance(value, str):
        raise ValueError(f"{name}: must be text")
    if kind in ("text", "area", "code"):
        return _LEFT_OUT if value == "" and not field["required"] else value
    if value.strip() == "" and not field["required"]:
        return _LEFT_OUT
    if kind == "select":
        return value
    return _parse_json(name, kind, value)


def _parse_json(name: str, kind: str, text: str) -> Any:
    try:
        value = loads(text.strip())
    except CodecError:
        raise ValueError(f"{name}: must be {_EXPECTED[kind]}") from None
    wanted: Any = {"integer": int, "number": (int, float)}.get(kind, object)
    if not isinstance(value, wanted) or (kind != "json" and isinstance(value, bool)):
        raise ValueError(f"{name}: must be {_EXPECTED[kind]}")
    return value
