"""Each message is encoded once: a run sends its whole transcript at every step, and only the end of it is new."""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ..protocol.messages import ChatMessage

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
