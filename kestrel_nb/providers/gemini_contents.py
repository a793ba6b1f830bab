"""Google Gemini: messages as contents by turns, thought signatures on the very parts where they came."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..protocol.messages import (
    ChatMessage,
    ImagePart,
    OpaquePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from .encoding import argument_bytes, json_array, json_bytes, json_object
from .event_parser import str_of
from .gemini_stream import SIGNATURE
from .images import TakenImages, base64_image

# A call has to follow a turn of the person; a conversation that begins otherwise gets this before it.
BEGINNING: Final = b'{"text":"(The conversation goes on.)"}'
IMAGES: Final = TakenImages(
    types=frozenset(("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")),
    addresses=("https://", "http://", "gs://"),
    told="Gemini takes PNG, JPEG, WebP and HEIC images as data or by a web address",
)
NO_SIGNATURE: Final = "skip_thought_signature_validator"  # Google's own word for a call that it did not write

_NOT_NAME = re.compile(r"[^a-zA-Z0-9_.:-]")
_NEEDS_BEGINNING = re.compile(r"_*[0-9.:-]")


@dataclass(frozen=True, slots=True)
class Kept:
    """A message as parts. ``answers`` are the call ids of a tool message's parts, whose own ids come before ``parts``.

    ``ids`` leads from our call ids to those of the server, where it gave some. ``current`` replaces the parts as long
    as the message belongs to the turn that is being worked on.
    """

    role: str
    parts: tuple[bytes, ...]
    current: tuple[bytes, ...]
    ids: Mapping[str, str]
    answers: tuple[str, ...] = ()


class Contents:
    """Messages as contents; neighbours of one role become one content, since roles must alternate.

    Calls of others are signed with a word of Google's as long as they belong to the turn that is being worked on: what
    came behind the last message of the person is written again once the next one comes.
    """

    def __init__(self) -> None:
        self.system: list[bytes] = []
        self._settled = _Joined()
        self._current = _Joined()
        self._open: list[Kept] = []

    def add(self, message: ChatMessage, kept: Kept, /) -> None:
        """One more message."""
        if message.role == "system":
            self.system += [json_bytes({"text": message.content})] if message.content.strip() else []
        elif message.role == "user":
            for one in self._open:
                self._settled.add(one, one.parts)
            self._settled.add(kept, kept.parts)
            self._current, self._open = self._settled.copy(), []
        else:
            self._current.add(kept, kept.current)
            self._open.append(kept)

    def pieces(self) -> tuple[bytearray, bytes]:
        """All of them, joined."""
        return self._current.closed, self._current.last()


class _Joined:
    """Contents, the last of which may still get more parts."""

    def __init__(self) -> None:
        self.closed = bytearray()
        self._role = ""
        self._parts: list[bytes] = []
        self._ids: Mapping[str, str] = {}

    def add(self, kept: Kept, parts: tuple[bytes, ...]) -> None:
        """The ``parts`` of one more message."""
        if kept.answers:
            parts = tuple(answer(self._ids.get(id), rest) for id, rest in zip(kept.answers, parts, strict=True))
        elif kept.role == "model":
            self._ids = kept.ids
        if not parts:
            return
        if not self._role and kept.role == "model":
            self._role, self._parts = "user", [BEGINNING]
        if self._parts and kept.role != self._role:
            self.closed += self.last() + b","
            self._parts = []
        self._role = kept.role
        self._parts += parts

    def last(self) -> bytes:
        """The last content; nothing where there is none."""
        return content(self._role, self._parts) if self._parts else b""

    def copy(self) -> _Joined:
        """The same, to go on from."""
        other = _Joined()
        other.closed += self.closed
        other._role, other._parts, other._ids = self._role, [*self._parts], self._ids
        return other


def encoded(message: ChatMessage, stamp: str) -> Kept:
    """What ``message`` is to ``stamp``."""
    if message.role == "system":
        return Kept("user", (), (), {})
    if message.role == "assistant":
        ours = message.provider == stamp
        parts = tuple(own_parts(message.parts) if ours else foreign_parts(message.parts, signed=False))
        current = parts if ours else tuple(foreign_parts(message.parts, signed=True))
        calls = message.tool_calls if ours else ()
        ids = {call.id: id for call in calls if (id := str_of(call.extra.get("id")))}
        return Kept("model", parts, current, ids)
    if message.role == "tool":
        results = message.tool_results
        parts = tuple(map(result_fields, results))
        return Kept("user", parts, parts, {}, tuple(result.call_id for result in results))
    parts = tuple(said_parts(message.parts))
    return Kept("user", parts, parts, {})


def content(role: str, parts: Iterable[bytes]) -> bytes:
    """One content."""
    return json_object({"role": json_bytes(role), "parts": json_array(parts)})


def said_parts(parts: tuple[Part, ...]) -> Iterator[bytes]:
    """What a person said; empty text is left out."""
    for part in parts:
        if isinstance(part, TextPart) and part.text:
            yield json_bytes({"text": part.text})
        elif isinstance(part, ImagePart):
            yield json_bytes(image_or_words(part))


def image_or_words(part: ImagePart) -> dict[str, Any]:
    """An image; one from before that can't be sent is only mentioned."""
    words = IMAGES.words_for(part)
    return {"text": words} if words else _image(part)


def _image(part: ImagePart) -> dict[str, Any]:
    """An image as data, or by its address."""
    media_type, data = base64_image(part)
    if data is None:
        return {"fileData": {"mimeType": media_type, "fileUri": part.url}}
    return {"inlineData": {"mimeType": media_type, "data": data}}


def own_parts(parts: tuple[Part, ...]) -> Iterator[bytes]:
    """A reply of ours as it came: no part merged, and none left out but empty text without a signature."""
    for part in parts:
        signature = {SIGNATURE: part.extra[SIGNATURE]} if SIGNATURE in part.extra else {}
        if isinstance(part, TextPart) and (part.text or signature):
            yield json_bytes({"text": part.text, **signature})
        elif isinstance(part, ReasoningPart) and (part.text or signature):
            yield json_bytes({"text": part.text, "thought": True, **signature})
        elif isinstance(part, ToolCallPart):
            yield call(part, str_of(part.extra.get("id")), signature)
        elif isinstance(part, OpaquePart):
            yield json_bytes(part.value)


def foreign_parts(parts: tuple[Part, ...], *, signed: bool) -> Iterator[bytes]:
    """What others said: text and calls. ``signed`` gives the first call the word that stands for a signature."""
    signature = {SIGNATURE: NO_SIGNATURE} if signed else {}
    for part in parts:
        if isinstance(part, TextPart) and part.text:
            yield json_bytes({"text": part.text})
        elif isinstance(part, ToolCallPart):
            yield call(part, "", signature)
            signature = {}  # of calls side by side only the first is signed


def call(part: ToolCallPart, id: str, signature: Mapping[str, Any]) -> bytes:
    """A call, its arguments byte for byte; what is no object can't be said, and stands in one as text."""
    arguments = argument_bytes(part) or json_bytes({"arguments": part.raw_arguments})
    fields = {"id": json_bytes(id)} if id else {}
    fields |= {"name": json_bytes(_said_name(part.name)), "args": arguments}
    return json_object({"functionCall": json_object(fields), **{key: json_bytes(v) for key, v in signature.items()}})


def result_fields(part: ToolResultPart) -> bytes:
    """The fields of a result but its id, which only the call knows; images stand in it, or words for them."""
    words = [IMAGES.words_for(image) for image in part.images]
    text = "\n".join(filter(None, (part.content, *words)))
    fields: dict[str, Any] = {"name": _said_name(part.name), "response": {"error" if part.is_error else "output": text}}
    if images := [_image(image) for image, said in zip(part.images, words, strict=True) if not said]:
        fields["parts"] = images
    return json_bytes(fields)


def answer(id: str | None, fields: bytes) -> bytes:
    """The part of a result, under the server's id for the call if it gave one."""
    head = b'{"functionResponse":{' + (b'"id":' + json_bytes(id) + b"," if id else b"")
    return head + fields[1:] + b"}"


def sent_name(name: str) -> str:
    """``name`` as Gemini takes it: one that begins with a digit or a hyphen gets an underscore before it."""
    return f"_{name}" if _NEEDS_BEGINNING.match(name) else name


def _said_name(name: str) -> str:
    """The name of a call or a result; one that was never offered may hold what Gemini does not take."""
    return sent_name(_NOT_NAME.sub("_", name)[:64] or "unnamed")
