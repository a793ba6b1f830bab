"""Structured data of a tool's result on its way to clients: strict JSON, masked, and of bounded size."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..protocol.codec import dumps, jsonable
from .secrets import free_key
from .truncation import clean_text

MAX_DATA_CHARS = 8_000_000  # more than this, as JSON text, goes to a file of the session
LARGE = 2_000  # values; to make JSON of so many takes about ten milliseconds
BLOCK = 250  # characters that count as a value

_SURROGATE_ESCAPE = re.compile(r"\\ud[89a-f]")


@dataclass(frozen=True, slots=True)
class JsonData:
    """Data as strict JSON, the object and its text."""

    value: Any
    text: str

    @property
    def too_large(self) -> bool:
        """True when it must not travel in events."""
        return len(self.text) > MAX_DATA_CHARS


def is_large(value: Any) -> bool:
    """Whether ``json_data`` would hold an event loop for a while. It looks at no more than LARGE values."""
    left, waiting = LARGE, [value]
    while waiting and left > 0:
        item = waiting.pop()
        left -= 1
        if isinstance(item, str):
            left -= len(item) // BLOCK
        elif isinstance(item, (Mapping, list, tuple, set, frozenset)):
            left -= len(item)
            if left > 0:
                waiting.extend(item.values() if isinstance(item, Mapping) else item)
        elif item is not None and not isinstance(item, (int, float)):
            left -= _cells(item)
    return left <= 0


def _cells(item: Any) -> int:
    """How many values a frame or an array has; 0 for any other object."""
    try:
        shape = item.shape
    except Exception:  # an object of the tool's own may raise anything when it is asked
        return 0
    return math.prod(shape) if isinstance(shape, tuple) and all(type(side) is int for side in shape) else 0


def json_data(value: Any) -> JsonData:
    """``value`` as JSON data, lone surrogates replaced; its text is what every strict reader takes. NaN and infinities
    stay in the data, since a frame must show what the tool gave. Raises CodecError, or anything that an object of the
    tool's own raises."""
    data = jsonable(value, finite=False)
    text = dumps(jsonable(data))
    if _SURROGATE_ESCAPE.search(text):
        data = _cleaned(data)
        text = dumps(jsonable(data))
    return JsonData(data, text)


def copied(value: Any) -> Any:
    """JSON data as a copy of its own: whoever holds the original can change it as they like."""
    if isinstance(value, Mapping):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [copied(item) for item in value]
    return value


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        cleaned: dict[str, Any] = {}
        for key, item in value.items():
            cleaned[free_key(clean_text(key), cleaned)] = _cleaned(item)
        return cleaned
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    return value
