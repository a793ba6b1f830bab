"""Each message is encoded once: a run sends its whole transcript at every step, and only the end of it is new."""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from ..protocol.errors import UsageError
from ..protocol.messages import ChatMessage
from ..protocol.tools import ToolSchema

T = TypeVar("T")


class KeptEncodings(Generic[T]):
    """What ``encode`` made of each message, for as long as the message lives. Messages are told apart by identity."""

    def __init__(self, encode: Callable[[ChatMessage], T]) -> None:
        self._encode = encode
        self._kept: dict[int, tuple[weakref.ref[ChatMessage], T]] = {}

    def of(self, message: ChatMessage) -> T:
        """The encoded form of ``message``, made now or kept from before."""
        key = id(message)
        kept = self._kept.get(key)
        if kept is not None and kept[0]() is message:
            return kept[1]
        made = self._encode(message)
        self._kept[key] = (weakref.ref(message, lambda gone: self._forget(key, gone)), made)
        return made

    def _forget(self, key: int, gone: weakref.ref[ChatMessage]) -> None:
        kept = self._kept.get(key)
        if kept is not None and kept[0] is gone:  # else the id is another message's by now
            del self._kept[key]


def json_bytes(value: Any) -> bytes:
    """``value`` as compact JSON in UTF-8; a lone surrogate becomes "?". Raises ValueError for NaN and infinities."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8", "replace")


class KeptTools:
    """The ``tools`` array of a request as bytes, made once for as long as the same tools are offered."""

    def __init__(self, encode: Callable[[ToolSchema], Any]) -> None:
        self._encode = encode
        self._offered: tuple[ToolSchema, ...] = ()
        self._bytes = b"[]"

    def of(self, tools: tuple[ToolSchema, ...]) -> bytes:
        """The array for ``tools``, in their order. Schemas are told apart by identity."""
        same = len(tools) == len(self._offered)
        if not (same and all(new is old for new, old in zip(tools, self._offered, strict=True))):
            self._bytes = json_array(json_bytes(self._encode(tool)) for tool in tools)
            self._offered = tools
        return self._bytes


def json_array(items: Iterable[bytes]) -> bytes:
    """The JSON array of items that are JSON already."""
    return b"[" + b",".join(items) + b"]"


def json_object(fields: Mapping[str, bytes]) -> bytes:
    """The JSON object of fields whose values are JSON already."""
    return b"{" + b",".join(json_bytes(name) + b":" + value for name, value in fields.items()) + b"}"


def extra_fields(extra_body: Mapping[str, Any] | None) -> dict[str, bytes]:
    """The fields of ``extra_body``, each as JSON. Raises UsageError for what is not JSON."""
    try:
        return {name: json_bytes(value) for name, value in (extra_body or {}).items()}
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"extra_body can't be written as JSON ({error}); give plain values") from None


def checked_tokens(name: str, count: int | None) -> int | None:
    """``count`` if it can be a number of tokens. Raises UsageError otherwise."""
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
        raise UsageError(f"{name} is a number of tokens, 1 or more; not {count!r:.40}")
    return count
