"""Anthropic Messages: the content blocks of a request, made of the parts of messages."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from ..protocol.codec import UNKNOWN
from ..protocol.messages import ImagePart, OpaquePart, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from .anthropic_reply import API
from .encoding import argument_bytes, json_bytes, json_object, sent_name
from .event_parser import object_of, str_of
from .images import TakenImages, base64_image

IMAGES: Final = TakenImages(
    types=frozenset(("image/png", "image/jpeg", "image/gif", "image/webp")),
    addresses=("https://",),
    told="Anthropic takes PNG, JPEG, GIF and WebP images as data or by an https address",
)

_OURS: Final = frozenset((UNKNOWN, "type", "id", "name", "input", "text", "thinking"))
_CALL_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def block_of(part: Part, own: bool, *, signed: bool) -> bytes | None:
    """The block of ``part`` as JSON, or None where there is nothing to send.

    ``own``: its message came from the server that it is sent to. ``signed``: that server wants all thinking signed,
    and refuses what a reply that was cut while it was thinking left behind.
    """
    match part:
        case TextPart():
            return _text(part, own)
        case ImagePart():
            return json_bytes(_image_or_word(part))
        case ToolCallPart():
            return _call(part, own)
        case ToolResultPart():
            return json_bytes(_result(part))
        case ReasoningPart():
            return _thought(part) if own and (part.redacted or part.extra.get("signature") or not signed) else None
        case OpaquePart():
            return json_bytes(part.value) if own and part.api == API else None


def _text(part: TextPart, own: bool) -> bytes | None:
    if _is_blank(part):
        return None
    return json_bytes({"type": "text", "text": part.text, **_own_fields(part, own)})


def _is_blank(part: Part) -> bool:
    """Text that says nothing is refused by the server; why a reply was refused is for the person alone."""
    return isinstance(part, TextPart) and (not part.text.strip() or "stop_details" in part.extra)


def _thought(part: ReasoningPart) -> bytes:
    fields = {"type": "redacted_thinking"} if part.redacted else {"type": "thinking", "thinking": part.text}
    return json_bytes(fields | _own_fields(part, True))


def _call(part: ToolCallPart, own: bool) -> bytes:
    fields = {"type": b'"tool_use"', "id": json_bytes(_call_id(part.id)), "name": json_bytes(sent_name(part.name))}
    # What is no object can't be sent; its error result tells what it was.
    fields["input"] = argument_bytes(part) or b"{}"
    return json_object(fields | {name: json_bytes(value) for name, value in _own_fields(part, own).items()})


def _result(part: ToolResultPart) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": _call_id(part.call_id)}
    text = part.content if part.content.strip() else "failed, and said nothing" if part.is_error else ""
    if part.images and not part.is_error:
        texts = [{"type": "text", "text": text}] if text else []
        block["content"] = [*texts, *map(_image_or_word, part.images)]
    elif text:
        block["content"] = text
    if part.is_error:
        block["is_error"] = True
    return block


def images_of_failures(parts: Iterable[Part]) -> Iterator[bytes]:
    """The images of failed calls: a result that is an error may hold text only, so they stand behind the results."""
    for part in parts:
        if isinstance(part, ToolResultPart) and part.is_error:
            yield from (json_bytes(_image_or_word(image)) for image in part.images)


def without_last_thoughts(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """``parts`` without thoughts that nothing follows: a reply that was cut while it was thinking, or only thought.

    The server refuses a message whose last block is one.
    """
    end = len(parts)
    while end and (isinstance(parts[end - 1], ReasoningPart) or _is_blank(parts[end - 1])):
        end -= 1
    return parts[:end]


def begun_on_server(part: Part) -> str:
    """The id of the call, if ``part`` is one of a tool that runs on the server."""
    value = object_of(part.value) if isinstance(part, OpaquePart) and part.api == API else {}
    return str_of(value.get("id")) if str_of(value.get("type")).endswith("_tool_use") else ""


def ended_on_server(part: Part) -> str:
    """The id of the call that ``part`` is the result of, if a tool on the server gave it."""
    return str_of(object_of(part.value).get("tool_use_id")) if isinstance(part, OpaquePart) else ""


def _image_or_word(part: ImagePart) -> dict[str, Any]:
    """An image; one that can't be sent, of a tool or from before, is only mentioned."""
    if words := IMAGES.words_for(part):
        return {"type": "text", "text": words}
    media_type, data = base64_image(part)
    if data is None:
        return {"type": "image", "source": {"type": "url", "url": part.url}}
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def _own_fields(part: TextPart | ReasoningPart | ToolCallPart, own: bool) -> dict[str, Any]:
    """The further fields of a block as this server sent them."""
    return {name: value for name, value in part.extra.items() if name not in _OURS} if own else {}


def _call_id(id: str) -> str:
    """``id`` in the letters that the server takes; ids of other providers may hold dots and colons."""
    return id if _CALL_ID.fullmatch(id) else "call_" + hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()[:24]
