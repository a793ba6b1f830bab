"""Each message is encoded once: a run sends its whole transcript at every step, and only the end of it is new."""

from __future__ import annotations

import json
import re
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from ..protocol.errors import UsageError
from ..protocol.messages import ChatMessage, ImagePart, ToolCallPart
from ..protocol.tools import ToolSchema
from ..runtime.truncation import clean_text

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
G = TypeVar("G", bound="Growing[Any]")

_LEAST: dict[str, Any] = {"type": "object", "properties": {}}
_NOT_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")


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


class Growing(Protocol[T_contra]):
    """The messages of a request put together, as far as they have come."""

    def add(self, message: ChatMessage, encoded: T_contra, /) -> None:
        """One more message, and what was made of it."""
        ...


class KeptJoin(Generic[T, G]):
    """What the last request was put together to. One that only goes on from there costs what it adds."""

    def __init__(self, encode: Callable[[ChatMessage], T], begin: Callable[[], G]) -> None:
        self._kept = KeptEncodings(encode)
        self._begin = begin
        self._last: tuple[ChatMessage, ...] = ()
        self._joined = begin()

    def of(self, messages: tuple[ChatMessage, ...]) -> G:
        """All of ``messages``. Raises what ``encode`` raises."""
        known = len(self._last)
        if messages[:known] != self._last:  # compares identities first
            known, self._last, self._joined = 0, (), self._begin()
        new = [(message, self._kept.of(message)) for message in messages[known:]]
        for message, encoded in new:
            self._joined.add(message, encoded)
        self._last = messages
        return self._joined


class Items:
    """Encoded messages, joined by commas."""

    def __init__(self) -> None:
        self.joined = bytearray()

    def add(self, message: ChatMessage, encoded: bytes, /) -> None:
        """One more; empty where nothing is to be sent."""
        if encoded and self.joined:
            self.joined += b","
        self.joined += encoded


def json_bytes(value: Any) -> bytes:
    """``value`` as compact JSON in UTF-8; a lone surrogate becomes U+FFFD.

    Raises TypeError or ValueError for what JSON can't say, NaN among it.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return clean_text(text).encode()


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


def object_schema(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """``parameters`` as every server takes them: some refuse a schema without a type or without properties."""
    missing = {name: value for name, value in _LEAST.items() if name not in parameters}
    return {**missing, **parameters} if missing else parameters


def json_array(items: Iterable[bytes]) -> bytes:
    """The JSON array of items that are JSON already."""
    return b"[" + b",".join(items) + b"]"


def json_object(fields: Mapping[str, bytes]) -> bytes:
    """The JSON object of fields whose values are JSON already."""
    return b"{" + b",".join(json_bytes(name) + b":" + value for name, value in fields.items()) + b"}"


def body_bytes(fields: Mapping[str, bytes], name: str, *items: bytes | bytearray) -> bytes:
    """The body of a request: ``fields``, and the array ``name`` of joined items. Fields that are null are left out.

    The array stands last and is copied once: a long transcript is megabytes, and every copy costs what sending does.
    """
    head = json_object({key: value for key, value in fields.items() if value != b"null" and key != name})
    comma = b"," if len(head) > 2 else b""
    return b"".join((head[:-1], comma, json_bytes(name), b":[", *items, b"]}"))


def joined_arrays(*arrays: bytes) -> bytes:
    """One JSON array of the items of several; null is an empty one."""
    return json_array(array[1:-1] for array in arrays if array.startswith(b"[") and len(array) > 2)


def argument_bytes(part: ToolCallPart) -> bytes | None:
    """The arguments as a JSON object, as the model wrote them; None for what is none.

    They are written anew where the text is not the same to every server: strict ones refuse a key that stands there
    twice, and half of a character (Anthropic: "no low surrogate in string").
    """
    if part.arguments is None:
        return None
    raw = part.raw_arguments.strip()
    return raw.encode() if raw and _is_strict(raw) else json_bytes(part.arguments)


def _is_strict(raw: str) -> bool:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in items}) < len(items):
            raise ValueError
        return dict(items)

    try:
        value = json.loads(raw, object_pairs_hook=pairs)
        raw.encode()
        if _HALF_CHARACTER.search(raw):
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):  # of which UnicodeEncodeError is one
        return False
    return isinstance(value, dict)


def sent_name(name: str) -> str:
    """A tool's name in the letters that providers take; one that was never offered may hold others."""
    return _NOT_NAME.sub("_", name)[:64] or "unnamed"


def newest_images(messages: tuple[ChatMessage, ...]) -> list[ImagePart]:
    """The images of the last message of the person: only about those it makes sense to complain."""
    last = next((message for message in reversed(messages) if message.role == "user"), None)
    return [part for part in last.parts if isinstance(part, ImagePart)] if last else []


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
