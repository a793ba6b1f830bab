"""What a request to a model is, apart from everything that differs between two runs, machines or versions.

Left out: ids and times of messages, random ids of calls (they are numbered), folders, what a provider wants back.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..protocol.codec import jsonable
from ..protocol.messages import (
    ChatMessage,
    ImagePart,
    JsonObject,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from ..protocol.tools import ToolSchema
from ..runtime.models import CompletionRequest
from ..runtime.secrets import Masker
from .cassette_text import Places, clean, without_credentials
from .encoding import KeptEncodings

FORM: Final = 1  # of the canonical request: another one gives other keys
TEXT: Final = 2_000  # characters of a message that are kept to name a difference
SHOWN: Final = 60  # characters of it in a sentence

_OWN_ID = re.compile(r"\b(?:sess|run|msg|call|appr)_[0-9a-f]{24}\b")
_NAMES_OF_TOOLS = re.compile(r"^You have these tools: [^\n]*$", re.MULTILINE)  # they stand in the request themselves
_OF_A_DAY = re.compile(
    r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?\b"
    r"|\b(?:Python|kestrel-nb|IPython|ipykernel)[ /]v?\d+(?:\.\d+)+\S*"
)


@dataclass(frozen=True, slots=True)
class Said:
    """One message: its role, its digest, and as much of its text as names a difference."""

    role: str
    digest: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A canonical request. ``tools`` maps names to digests of description and schema; ``key`` is the SHA-256 of all."""

    model: str
    messages: tuple[Said, ...]
    tools: Mapping[str, str]
    temperature: float | None = None
    max_tokens: int | None = None
    key: str


@dataclass(frozen=True, slots=True)
class _Kept:
    said: Said
    call_ids: tuple[str, ...]


class Canonical:
    """Makes canonical requests for sessions in one workspace. Each message is looked at once."""

    def __init__(self, places: Places, masker: Masker) -> None:
        self._places, self._masker = places, masker
        self._messages = KeptEncodings(self._message)
        self._schemas: tuple[ToolSchema, ...] = ()
        self._tools: dict[str, str] = {}

    def of(self, request: CompletionRequest) -> Asked:
        """The canonical form of ``request``."""
        kept = [self._messages.of(message) for message in request.messages]
        numbers: dict[str, int] = {}
        rows = [
            [one.said.role, one.said.digest, *(numbers.setdefault(id, len(numbers)) for id in one.call_ids)]
            for one in kept
        ]
        tools = self._offered(request.tools)
        whole = [FORM, request.model, rows, tools, request.temperature, request.max_tokens]
        return Asked(
            model=request.model,
            messages=tuple(one.said for one in kept),
            tools=tools,
            temperature=request.temperature,
            max_tokens=request.max_tokens,
            key=digest(whole),
        )

    def arguments(self, arguments: JsonObject) -> str:
        """Arguments of a call as canonical JSON text."""
        return self._any(_json(arguments), quoted=True)

    def _offered(self, schemas: tuple[ToolSchema, ...]) -> dict[str, str]:
        old = self._schemas
        if len(old) != len(schemas) or any(new is not kept for new, kept in zip(schemas, old, strict=True)):
            self._tools = {
                one.name: digest([self._any(one.description), self._any(_json(one.parameters), quoted=True)])[:12]
                for one in schemas
            }
            self._schemas = schemas
        return self._tools

    def _message(self, message: ChatMessage) -> _Kept:
        parts = [self._part(part) for part in message.parts]
        if message.role == "system":
            parts = [(kind, _without_the_day(text)) for kind, text in parts]
        ids = tuple(
            part.id if isinstance(part, ToolCallPart) else part.call_id
            for part in message.parts
            if isinstance(part, (ToolCallPart, ToolResultPart))
        )
        text = "\n".join(text for _, text in parts)
        return _Kept(Said(message.role, digest(parts)[:32], text[:TEXT]), ids)

    def _part(self, part: Part) -> tuple[str, str]:
        match part:
            case TextPart():
                return "text", self._any(part.text)
            case ReasoningPart():
                return "reasoning", self._any(part.text)
            case ToolCallPart():
                raw = part.raw_arguments if part.arguments is None else _json(part.arguments)
                return "call", f"{part.name} {self._any(raw, quoted=True)}"
            case ToolResultPart():
                images = "".join(f"\n{self._image(image)}" for image in part.images)
                return "error" if part.is_error else "result", self._any(part.content) + images
            case ImagePart():
                return "image", self._image(part)
        return "opaque", part.api

    def _image(self, image: ImagePart) -> str:
        return f"[{image.media_type} {digest(image.data)[:16] if image.data else self._any(image.url or '')}]"

    def _any(self, text: str, *, quoted: bool = False) -> str:
        # Keys by their spelling too: what a tool said is cleaned in that way before it is recorded.
        cleaned = clean(without_credentials(text), self._places, self._masker, quoted=quoted)
        return _OWN_ID.sub("⟦id⟧", cleaned.replace(":json⟧", "⟧"))


def _json(value: Any) -> str:
    return json.dumps(jsonable(value), ensure_ascii=False, sort_keys=True)


def digest(value: Any) -> str:
    """The SHA-256 of JSON data."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _without_the_day(text: str) -> str:
    """A system prompt without the tools' names, the date, the system and the versions that may stand in it."""
    for fact in (platform.platform(), platform.version(), platform.release()):
        if len(fact) > 3:
            text = text.replace(fact, "⟦system⟧")
    return _OF_A_DAY.sub("⟦now⟧", _NAMES_OF_TOOLS.sub("You have these tools: ⟦tools⟧", text))


# ---- how two requests differ --------------------------------------------------------------------------------------


def nearness(recorded: Asked, now: Asked) -> tuple[int, bool, bool]:
    """How near two requests are: the more, the nearer."""
    talk = [[one.digest for one in asked.messages if one.role != "system"] for asked in (recorded, now)]
    return _common(*talk), recorded.tools == now.tools, recorded.model == now.model


def _common(one: list[str], other: list[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def difference(recorded: Asked, now: Asked) -> str:
    """The first thing in which two requests differ, as the end of a sentence; "" when nothing does."""
    if recorded.model != now.model:
        return f'the model: recorded "{recorded.model}", now "{now.model}"'
    return (
        _tools(recorded.tools, now.tools)
        or _messages(recorded.messages, now.messages)
        or _number("temperature", recorded.temperature, now.temperature)
        or _number("max_tokens", recorded.max_tokens, now.max_tokens)
    )


def _tools(recorded: Mapping[str, str], now: Mapping[str, str]) -> str:
    added = [name for name in now if name not in recorded]
    gone = [name for name in recorded if name not in now]
    if added or gone:
        words = [f"{', '.join(names)} {verb}" for names, verb in ((added, "added"), (gone, "gone")) if names]
        return f"the tools: {'; '.join(words)}"
    changed = [name for name in now if recorded[name] != now[name]]
    return f"the tools: another description or schema of {', '.join(changed)}" if changed else ""


def _messages(recorded: tuple[Said, ...], now: tuple[Said, ...]) -> str:
    for number, (old, new) in enumerate(zip(recorded, now, strict=False), 1):
        if old.role != new.role:
            return f"message {number}: recorded from {old.role}, now from {new.role}"
        if old.digest != new.digest:
            return f"message {number} ({new.role}): {_texts(old.text, new.text)}"
    if len(recorded) == len(now):
        return ""
    number = min(len(recorded), len(now)) + 1
    longer, which = (recorded, "recorded") if len(recorded) > len(now) else (now, "now")
    other = "now nothing" if which == "recorded" else "recorded nothing"
    return f"message {number} ({longer[number - 1].role}): {other}, {which} {_quote(longer[number - 1].text, 0)}"


def _texts(old: str, new: str) -> str:
    if old == new:
        place = f"after its first {TEXT:,} characters" if len(old) >= TEXT else "in an image or the kind of its parts"
        return f"it differs {place}"
    start = _common(list(old), list(new))
    return f"recorded {_quote(old, start)}, now {_quote(new, start)}"


def _quote(text: str, start: int) -> str:
    """What ``text`` says around the place ``start``, on one line."""
    begin = max(0, start - SHOWN // 3) if len(text) > SHOWN else 0
    piece = " ".join(text[begin : begin + SHOWN].split())
    return f'"{"…" if begin else ""}{piece}{"…" if begin + SHOWN < len(text) else ""}"'


def _number(name: str, recorded: float | None, now: float | None) -> str:
    return "" if recorded == now else f"{name}: recorded {recorded}, now {now}"
