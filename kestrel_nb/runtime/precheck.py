"""A quick yes to arguments that are plainly fine.

``compile_check(schema)`` gives a closure that returns True only for values that the schema surely accepts; False
means "ask the real validator". It knows the plain common case: typed scalars, arrays and objects, ``required``,
``additionalProperties``, string enums, simple bounds, ``anyOf``. Whatever else a schema says makes that part unsure,
so a schema can't be misread here, only served more slowly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[[Any], bool]

# Keywords that never decide whether a value is valid. ``format`` is not enforced.
_NOTES = frozenset(("title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly"))
_FRAME = frozenset(("format", "$schema", "$id", "id", "$comment", "$defs", "definitions"))
_SHAPE = frozenset(("type", "nullable", "enum", "anyOf", "properties", "required", "additionalProperties", "items"))
_OPEN = frozenset(("exclusiveMinimum", "exclusiveMaximum"))
_BOUNDS = frozenset(("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")) | _OPEN
_KNOWN = _NOTES | _FRAME | _SHAPE | _BOUNDS


def compile_check(schema: Any) -> Check:
    """The closure for ``schema``; any schema is taken, also one that is not valid."""
    if schema is True:
        return _always
    if not isinstance(schema, Mapping) or not _KNOWN.issuperset(schema):
        return _never
    checks = _value_checks(schema)
    if checks is None:
        return _never
    return _or_null(_all(checks)) if schema.get("nullable") is True else _all(checks)


def _always(value: Any) -> bool:
    return True


def _never(value: Any) -> bool:
    return False


def _or_null(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _all(checks: list[Check]) -> Check:
    if not checks:
        return _always
    if len(checks) == 1:
        return checks[0]
    if len(checks) == 2:
        first, second = checks
        return lambda value: first(value) and second(value)
    return lambda value: all(check(value) for check in checks)


def _value_checks(schema: Mapping[str, Any]) -> list[Check] | None:
    """One closure per aspect, or None when some aspect is beyond this module."""
    wanted = schema.get("type")
    parts: list[Check | None] = []
    if wanted is not None and wanted != "object":
        parts.append(_type(wanted))
    if wanted == "object" or any(key in schema for key in ("properties", "required", "additionalProperties")):
        parts.append(_object(schema))
    if "items" in schema:
        parts.append(_array(schema["items"]))
    if "enum" in schema:
        parts.append(_enum(schema["enum"]))
    if "anyOf" in schema:
        parts.append(_any_of(schema["anyOf"]))
    parts += [_bound(key, schema[key]) for key in _BOUNDS if key in schema]
    checks = [part for part in parts if part is not None]
    return checks if len(checks) == len(parts) else None


def _is_string(value: Any) -> bool:
    return type(value) is str


def _is_integer(value: Any) -> bool:
    return type(value) is int


def _is_number(value: Any) -> bool:
    return type(value) is int or type(value) is float


_TYPES: dict[str, Check] = {
    "string": _is_string,
    "integer": _is_integer,
    "number": _is_number,
    "boolean": lambda value: value is True or value is False,
    "null": lambda value: value is None,
    "array": lambda value: type(value) is list,
    "object": lambda value: type(value) is dict,
}


def _type(wanted: Any) -> Check | None:
    if isinstance(wanted, str):
        return _TYPES.get(wanted)
    if not isinstance(wanted, list) or not all(isinstance(name, str) and name in _TYPES for name in wanted):
        return None
    options = [_TYPES[name] for name in wanted]
    return lambda value: any(option(value) for option in options)


def _object(schema: Mapping[str, Any]) -> Check | None:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, Mapping) or not isinstance(required, list):
        return None
    others = schema.get("additionalProperties", True)
    checks = {name: compile_check(item) for name, item in properties.items()}
    other = _never if others is False else compile_check(others)
    needed = tuple(name for name in required if isinstance(name, str))
    if len(needed) != len(required):
        return None
    get = checks.get

    def check(value: Any) -> bool:
        if type(value) is not dict:
            return False
        for name in needed:
            if name not in value:
                return False
        for name, item in value.items():  # noqa: SIM110 - a generator would take twice the time
            if not get(name, other)(item):
                return False
        return True

    return check


def _array(items: Any) -> Check | None:
    if isinstance(items, list):  # older drafts: one schema per position
        return None
    item = compile_check(items)

    def check(value: Any) -> bool:
        return type(value) is list and all(map(item, value))

    return check


def _enum(options: Any) -> Check | None:
    # Strings only: among numbers 1, 1.0 and True are equal to Python but not all equal to JSON.
    if not isinstance(options, list) or not all(isinstance(option, str) for option in options):
        return None
    allowed = frozenset(options)
    return lambda value: type(value) is str and value in allowed


def _any_of(branches: Any) -> Check | None:
    if not isinstance(branches, list):
        return None
    checks = [compile_check(branch) for branch in branches]
    return lambda value: any(check(value) for check in checks)


def _bound(keyword: str, limit: Any) -> Check | None:
    if not _is_number(limit):
        return None
    if keyword == "minimum":
        return lambda value: _is_number(value) and value >= limit
    if keyword == "maximum":
        return lambda value: _is_number(value) and value <= limit
    if keyword == "exclusiveMinimum":
        return lambda value: _is_number(value) and value > limit
    if keyword == "exclusiveMaximum":
        return lambda value: _is_number(value) and value < limit
    sized = str if keyword.endswith("Length") else list
    if keyword.startswith("min"):
        return lambda value: type(value) is sized and len(value) >= limit
    return lambda value: type(value) is sized and len(value) <= limit
