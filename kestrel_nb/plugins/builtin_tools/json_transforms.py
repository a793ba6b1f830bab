"""What json-parse can make of a value: keys, values, flatten, pretty."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from .json_paths import joined
from .json_reading import MAX_VALUES, TOO_MANY

MAX_RESULT = 8_000_000  # characters: indents and repeated keys can make much of little


class TransformFault(ValueError):
    """A value that has no such form, or one that is too large."""


def keys(value: Any) -> list[str]:
    """The keys of an object; of an array its indexes as text, as JavaScript has them."""
    if isinstance(value, dict):
        return list(value)
    return [str(index) for index in range(len(_array(value, "keys")))]


def values(value: Any) -> list[Any]:
    """The values of an object, or the items of an array."""
    return list(value.values()) if isinstance(value, dict) else _array(value, "values")


def flatten(value: Any) -> dict[str, Any]:
    """Every leaf under its path, as ``path`` would read it: ``{"a.b": 1, "c[0]": 2}``. Empty containers are leaves."""
    if not isinstance(value, dict):
        _array(value, "flatten")
    flat: dict[str, Any] = {}
    left = MAX_RESULT
    waiting = [_parts("", value)]
    while waiting:
        for path, item in waiting[-1]:
            left -= len(path)
            if left < 0:
                raise TransformFault(f"flatten: over {MAX_RESULT:,} characters of keys; extract a part with path")
            if isinstance(item, (dict, list)) and item:
                waiting.append(_parts(path, item))
                break
            flat[path] = item
            if len(flat) > MAX_VALUES:
                raise TransformFault(TOO_MANY)
        else:
            waiting.pop()
    return flat


def _parts(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    pairs: Any = value.items() if isinstance(value, dict) else enumerate(value)
    return ((joined(path, part), item) for part, item in pairs)


def pretty(value: Any) -> str:
    """JSON text with an indent of two spaces."""
    written: list[str] = []
    size = 0
    for piece in json.JSONEncoder(ensure_ascii=False, indent=2).iterencode(value):
        size += len(piece)
        if size > MAX_RESULT:
            raise TransformFault(f"pretty: over {MAX_RESULT:,} characters with its indents; extract a part with path")
        written.append(piece)
    return "".join(written)


def _array(value: Any, transform: str) -> list[Any]:
    if isinstance(value, list):
        return value
    kind = "null" if value is None else {bool: "true or false", str: "a text"}.get(type(value), "a number")
    raise TransformFault(f"{transform}: needs an object or an array, and this is {kind}")


TRANSFORMS: dict[str, Callable[[Any], Any]] = {"keys": keys, "values": values, "flatten": flatten, "pretty": pretty}
