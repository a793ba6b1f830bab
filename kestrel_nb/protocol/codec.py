"""Protocol values to JSON and back: the one place where camelCase exists.

``encode(value)`` gives plain JSON data, ``decode(kind, data)`` the value again. Unions are told apart by a ``kind``
key (parts, previews) or a ``type`` key (events). A document (``to_document``) carries a version; one from a newer
version is refused with a clear error, while unknown fields of the same version survive in ``extra``.
Free JSON (arguments, data, schemas, ``extra``) passes through with its keys untouched.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar, cast, get_args, get_origin

from . import events as _events
from .errors import CodecError
from .json_text import dumps as dumps
from .json_text import jsonable as jsonable
from .json_text import loads as loads
from .messages import (
    PART_TYPES,
    ChatMessage,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from .tools import PREVIEW_TYPES, Preview

VERSION = 1
_PLAIN = frozenset((str, bool, int, type(None)))  # types whose values are JSON as they are
UNKNOWN = "$unknown"  # key inside ``extra`` under which fields of other versions wait to be written back

T = TypeVar("T")
_PARTS: dict[str, type] = {kind.kind: kind for kind in PART_TYPES}
_PREVIEWS: dict[str, type] = {kind.kind: kind for kind in PREVIEW_TYPES}
_EVENTS: dict[str, type[_events.SessionEvent]] = {kind.type: kind for kind in _events.EVENT_TYPES}


def camel(name: str) -> str:
    """``tool_calls`` -> ``toolCalls``."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


# ---- encode ----------------------------------------------------------------------------------------------------


def encode(value: Any) -> Any:
    """Plain JSON data for a protocol value, or for free JSON."""
    if type(value) in _PLAIN:
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _encode_dataclass(value)
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    return jsonable(value)


def _encode_dataclass(value: Any) -> dict[str, Any]:
    kind: Any = type(value)
    data: dict[str, Any] = {}
    tag = _tag(kind)
    if tag:
        data[tag[0]] = tag[1]
    for name, key, default, free in _plan(kind):
        item = getattr(value, name)
        # Only values of the default's own type are compared: False is not 0, and a frame does not compare at all.
        if item is default or (type(item) is type(default) and item == default and not isinstance(item, float)):
            continue
        data[key] = jsonable(item) if free else encode(item)
    extra = data.get("extra")
    if isinstance(extra, dict) and isinstance(extra.get(UNKNOWN), dict):
        unknown = extra.pop(UNKNOWN)
        if not extra:
            del data["extra"]
        known = {key for _, key, _, _ in _plan(kind)}
        data = {**{key: item for key, item in unknown.items() if key not in known}, **data}
    return data


@cache
def _tag(kind: Any) -> tuple[str, str] | None:
    if issubclass(kind, _events.SessionEvent):
        return "type", kind.type
    if kind in PART_TYPES or kind in PREVIEW_TYPES:
        return "kind", cast(str, kind.kind)
    return None


_MISSING = object()


@cache
def _plan(kind: Any) -> tuple[tuple[str, str, Any, bool], ...]:
    """(attribute, key, default, is free JSON) of every field; a field that has its default is left out."""
    hints = _hints(kind)
    plan = []
    for field in dataclasses.fields(kind):
        default: Any = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if default is dataclasses.MISSING:
            default = _MISSING
        plan.append((field.name, camel(field.name), default, _is_free(hints[field.name])))
    return tuple(plan)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _is_free(hint: Any) -> bool:
    """True for fields whose JSON is nobody's business: Any, Mapping, and those or None."""
    if hint is Any or get_origin(hint) in (Mapping, dict) or hint is Mapping:
        return True
    options = [option for option in get_args(hint) if option is not type(None)]
    return _is_union(hint) and len(options) == 1 and _is_free(options[0])


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (typing.Union, types.UnionType)


# ---- decode ----------------------------------------------------------------------------------------------------


def decode(kind: type[T], data: Any) -> T:
    """The value of type ``kind`` in ``data``. Raises CodecError (``invalid_json_form``) and says where."""
    value: T = _decoder(cast(Any, kind))(data, kind.__name__)
    return value


def decode_event(data: Any) -> _events.SessionEvent:
    """The event in ``data``, by its ``type``. Raises CodecError."""
    name = data.get("type") if isinstance(data, Mapping) else None
    if not isinstance(name, str) or name not in _EVENTS:
        raise CodecError(f"not an event: {str(data)[:80]}")
    return decode(_EVENTS[name], data)


def to_document(kind: str, value: Any) -> dict[str, Any]:
    """``value`` with the format's version, ready for a file or a socket."""
    return {"version": VERSION, "kind": kind, **encode(value)}


def from_document(kind: type[T], data: Any) -> T:
    """The value of a document. Raises CodecError: ``newer_version`` names both versions."""
    if not isinstance(data, Mapping):
        raise CodecError(f"{kind.__name__}: must be an object")
    version = data.get("version", VERSION)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise CodecError(f"{kind.__name__}.version: must be a positive integer")
    if version > VERSION:
        raise CodecError(
            f"written by a newer kestrel-nb (format {version}, this one reads up to {VERSION}); "
            "upgrade with: pip install -U kestrel-nb",
            code="newer_version",
        )
    return decode(kind, {key: item for key, item in data.items() if key not in ("version", "kind")})


Decoder = Callable[[Any, str], Any]


@cache
def _decoder(hint: Any) -> Decoder:
    if hint is Any:
        return _decode_free
    if not _is_union(hint) and _is_free(hint):
        return _decode_object
    if hint == Part:
        return _tagged(_PARTS)
    if hint == Preview:
        return _tagged(_PREVIEWS)
    if _is_union(hint):
        return _optional(hint)
    origin = get_origin(hint)
    if origin is tuple:
        return _tuple_of(_decoder(get_args(hint)[0]))
    if origin is typing.Literal:
        return _literal(get_args(hint))
    if dataclasses.is_dataclass(hint):
        return _dataclass(cast(type, hint))
    return _scalar(hint)


def _decode_free(data: Any, where: str) -> Any:
    return data


def _decode_object(data: Any, where: str) -> Any:
    if not isinstance(data, Mapping):
        raise CodecError(f"{where}: must be an object")
    return data


def _tagged(kinds: Mapping[str, type]) -> Decoder:
    """A union of dataclasses that the key ``kind`` tells apart."""

    def read(data: Any, where: str) -> Any:
        tag = _decode_object(data, where).get("kind")
        if not isinstance(tag, str) or tag not in kinds:
            raise CodecError(f"{where}.kind: unknown kind {str(tag)[:40]!r}")
        return _decoder(kinds[tag])(data, where)

    return read


def _optional(hint: Any) -> Decoder:
    options = [option for option in get_args(hint) if option is not type(None)]
    if set(options) == set(PREVIEW_TYPES):
        inner: Decoder = _tagged(_PREVIEWS)
    elif len(options) == 1:
        inner = _decoder(options[0])
    else:
        raise TypeError(f"the codec does not know {hint}")

    def read(data: Any, where: str) -> Any:
        return None if data is None else inner(data, where)

    return read


def _tuple_of(inner: Decoder) -> Decoder:
    def read(data: Any, where: str) -> Any:
        if not isinstance(data, (list, tuple)):
            raise CodecError(f"{where}: must be an array")
        return tuple(inner(item, f"{where}[{index}]") for index, item in enumerate(data))

    return read


def _literal(choices: tuple[Any, ...]) -> Decoder:
    def read(data: Any, where: str) -> Any:
        if data not in choices:
            raise CodecError(f"{where}: must be one of {', '.join(map(repr, choices))}")
        return data

    return read


def _scalar(hint: Any) -> Decoder:
    accepted = (int, float) if hint is float else (hint,)

    def read(data: Any, where: str) -> Any:
        if not isinstance(data, accepted) or (isinstance(data, bool) and hint is not bool):
            raise CodecError(f"{where}: must be of type {hint.__name__}")
        try:
            return hint(data)
        except OverflowError:
            raise CodecError(f"{where}: is out of range") from None

    return read


def _dataclass(kind: type) -> Decoder:
    hints = _hints(kind)
    fields = {camel(name): (name, _decoder(hints[name])) for name, _, _, _ in _plan(kind)}
    keeps_unknown = "extra" in fields
    tag = _tag(kind)
    tag_key = tag[0] if tag else None

    def read(data: Any, where: str) -> Any:
        if not isinstance(data, Mapping):
            raise CodecError(f"{where}: must be an object")
        if kind is ChatMessage and "parts" not in data:
            data = _from_flat(data)
        values: dict[str, Any] = {}
        unknown: dict[str, Any] = {}
        for key, item in data.items():
            if key in fields:
                name, inner = fields[key]
                values[name] = inner(item, f"{where}.{key}")
            elif key != tag_key:
                unknown[key] = item
        if unknown and keeps_unknown:
            values["extra"] = {**values.get("extra", {}), UNKNOWN: unknown}
        try:
            return kind(**values)
        except (TypeError, ValueError) as error:
            raise CodecError(f"{where}: {error}") from None

    return read


def _from_flat(data: Mapping[str, Any]) -> dict[str, Any]:
    """A message in the flat form (content, reasoning, toolCalls, toolCallId) as one with parts."""
    rest = {key: item for key, item in data.items() if key not in _FLAT}
    content = data.get("content") or ""
    calls = data.get("toolCalls") or ()
    if not isinstance(content, str):
        raise CodecError("content: must be a text")
    if not isinstance(calls, (list, tuple)):
        raise CodecError("toolCalls: must be an array")
    parts: list[Any] = []
    if data.get("role") == "tool":
        parts.append(
            ToolResultPart(
                call_id=str(data.get("toolCallId", "")),
                name=str(data.get("toolName", "")),
                content=content,
                is_error=data.get("isError") is True,
            )
        )
    else:
        if data.get("reasoning"):
            parts.append(ReasoningPart(text=str(data["reasoning"])))
        if content:
            parts.append(TextPart(text=content))
        parts += [_flat_call(call) for call in calls]
    rest.setdefault("id", "")
    return {**rest, "parts": [encode(part) for part in parts]}


_FLAT = ("content", "reasoning", "toolCalls", "toolCallId", "toolName", "isError")


def _flat_call(call: Any) -> ToolCallPart:
    if not isinstance(call, Mapping):
        raise CodecError("toolCalls: must be an array of objects")
    arguments = call.get("arguments")
    raw = arguments if isinstance(arguments, str) else dumps(jsonable(arguments or {}))
    return parse_call(str(call.get("id", "")), str(call.get("name", "")), raw)


def parse_call(id: str, name: str, raw_arguments: str) -> ToolCallPart:
    """The call with its arguments parsed; what is wrong with them stands in ``problem``. Empty text means ``{}``."""
    try:
        arguments = loads(raw_arguments) if raw_arguments.strip() else {}
        problem = None if isinstance(arguments, dict) else "the arguments must be an object"
    except CodecError as error:
        arguments, problem = None, f"the arguments are {error}"
    return ToolCallPart(
        id=id,
        name=name,
        arguments=arguments if problem is None else None,
        raw_arguments=raw_arguments,
        problem=problem,
    )
