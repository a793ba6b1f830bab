"""JSON text, strictly: what every strict reader can read, whatever a tool or a model put into it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from .errors import CodecError

MAX_DEPTH = 200  # levels of free JSON: json reads deeper text than it can write again
DOCUMENT_DEPTH = MAX_DEPTH + 20  # levels of a document with free JSON inside


def jsonable(value: Any, depth: int = MAX_DEPTH, *, finite: bool = True) -> Any:
    """``value`` as strict JSON data: NaN and infinities become None, odd keys and objects their text.

    With ``finite=False`` NaN and infinities stay: for data that people in this process work with. Raises CodecError
    for more than ``depth`` levels, so also for a value inside itself.
    """
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) or not finite else None
    if isinstance(value, Mapping):
        _refuse_deep(depth)
        return {
            key if isinstance(key, str) else str(key): jsonable(item, depth - 1, finite=finite)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple, set, frozenset)):
        _refuse_deep(depth)
        return [jsonable(item, depth - 1, finite=finite) for item in value]
    return str(value)


def dumps(data: Any) -> str:
    """Strict JSON text. ASCII only, so that lone surrogates survive a round trip through a file.

    Raises CodecError for what JSON can't say.
    """
    try:
        return _ENCODER.encode(data)
    except (TypeError, ValueError, RecursionError) as error:
        raise CodecError(f"can't be written as JSON: {error}") from None


def loads(text: str | bytes, depth: int = MAX_DEPTH) -> Any:
    """Strict JSON data. Raises CodecError (``invalid_json_form``) for anything else: NaN, numbers beyond a float's
    range, more than ``depth`` levels of nesting."""
    try:
        decoded = text if isinstance(text, str) else text.decode(json.detect_encoding(text), "surrogatepass")
        data = _DECODER.decode(decoded)
    except (ValueError, RecursionError) as error:
        raise CodecError(f"not valid JSON: {str(error) or type(error).__name__}") from None
    opening = ("[", "{") if isinstance(text, str) else (b"[", b"{")
    if sum(map(text.count, opening)) > depth:  # type: ignore[arg-type]
        _check_depth(data, depth)
    return data


_ENCODER = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:40]} is out of range")
    return number


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)  # kept: making one costs a parse


def _refuse_deep(depth: int) -> None:
    if depth <= 0:
        raise CodecError(f"nested too deeply (about {MAX_DEPTH} levels are allowed), or inside itself")


def _check_depth(data: Any, limit: int) -> None:
    level = [data]
    for depth in range(limit, -1, -1):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner.extend(item.values())
            elif isinstance(item, list):
                inner.extend(item)
            else:
                continue
            _refuse_deep(depth)
        level = inner
