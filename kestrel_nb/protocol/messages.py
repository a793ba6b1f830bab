"""Messages: what a person, a model and the tools said, as ordered parts.

Order and provider data matter: a model may think, speak, call, and speak again, and some providers want their
signatures back unchanged. So the parts are authoritative; ``content``, ``reasoning`` and ``tool_calls`` are views.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

Role = Literal["system", "user", "assistant", "tool"]
JsonObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPart:
    """Text as it was said. ``extra`` holds what its provider needs back, such as a thought signature."""

    kind: ClassVar[str] = "text"
    text: str
    extra: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePart:
    """An image, as base64 ``data`` of ``media_type`` or as a ``url``; exactly one of the two."""

    kind: ClassVar[str] = "image"
    media_type: str = "image/png"
    data: str | None = None
    url: str | None = None
    extra: JsonObject = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.data is None) == (self.url is None):
            raise ValueError("an image part needs either data or url")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningPart:
    """What a model thought. ``redacted`` says that only the opaque form in ``extra`` exists."""

    kind: ClassVar[str] = "reasoning"
    text: str
    redacted: bool = False
    extra: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallPart:
    """One call that a model asked for.

    ``raw_arguments`` is the text as the model wrote it and is sent back byte for byte. ``arguments`` is that text
    parsed, or None when it is not a JSON object; then ``problem`` says why, and the call is never executed.
    """

    kind: ClassVar[str] = "tool_call"
    id: str
    name: str
    arguments: JsonObject | None
    raw_arguments: str
    problem: str | None = None
    extra: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultPart:
    """What a call gave. ``is_error`` marks failures, not declines."""

    kind: ClassVar[str] = "tool_result"
    call_id: str
    name: str
    content: str
    is_error: bool = False
    images: tuple[ImagePart, ...] = ()
    extra: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpaquePart:
    """A block of a kind that only the provider ``api`` understands; sent back to it alone, unchanged."""

    kind: ClassVar[str] = "opaque"
    api: str
    value: Any = None
    extra: JsonObject = field(default_factory=dict)


Part = TextPart | ImagePart | ReasoningPart | ToolCallPart | ToolResultPart | OpaquePart
PART_TYPES: tuple[type[Part], ...] = (TextPart, ImagePart, ReasoningPart, ToolCallPart, ToolResultPart, OpaquePart)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageAttachment:
    """An image that a person sends along with a message: base64 ``data`` of ``media_type``, or a ``url``."""

    media_type: str = "image/png"
    data: str | None = None
    url: str | None = None

    def part(self) -> ImagePart:
        """The message part of this attachment. Raises ValueError unless exactly one of data and url is set."""
        return ImagePart(media_type=self.media_type, data=self.data, url=self.url)


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class ChatMessage:
    """One message. ``created_at`` is in seconds since 1970 (UTC)."""

    id: str
    role: Role
    parts: tuple[Part, ...]
    created_at: float = 0.0
    provider: str | None = None  # who wrote the opaque data; it goes back to that provider alone
    extra: JsonObject = field(default_factory=dict)

    @property
    def content(self) -> str:
        """All text of the message; of a tool message, its results."""
        if self.role == "tool":
            return "\n".join(part.content for part in self.parts if isinstance(part, ToolResultPart))
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def reasoning(self) -> str:
        """All reasoning text of the message."""
        return "".join(part.text for part in self.parts if isinstance(part, ReasoningPart))

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """The calls that the message asks for, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolCallPart))

    @property
    def tool_results(self) -> tuple[ToolResultPart, ...]:
        """The results that the message carries, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolResultPart))


def new_id(prefix: str) -> str:
    """A random id of 96 bits behind ``prefix``: unguessable, safe in file names and URLs."""
    return f"{prefix}_{secrets.token_hex(12)}"


def create_message(
    role: Role,
    content: str | Iterable[Part],
    *,
    id: str | None = None,
    created_at: float | None = None,
) -> ChatMessage:
    """A new message with an id and a time; ``content`` is text or ready parts."""
    parts = (TextPart(text=content),) if isinstance(content, str) else tuple(content)
    return ChatMessage(
        id=id or new_id("msg"),
        role=role,
        parts=parts,
        created_at=time.time() if created_at is None else created_at,
    )


def tool_message(
    call: ToolCallPart, content: str, *, is_error: bool = False, images: tuple[ImagePart, ...] = ()
) -> ChatMessage:
    """The message that answers ``call``: one result, tied to the call's id."""
    result = ToolResultPart(call_id=call.id, name=call.name, content=content, is_error=is_error, images=images)
    return create_message("tool", [result])


def unanswered_calls(messages: Iterable[ChatMessage]) -> tuple[ToolCallPart, ...]:
    """The calls in ``messages`` that have no result yet, in order."""
    open_calls: dict[str, ToolCallPart] = {}
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                open_calls[part.id] = part
            elif isinstance(part, ToolResultPart):
                open_calls.pop(part.call_id, None)
    return tuple(open_calls.values())
