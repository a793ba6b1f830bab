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
from ..protocol.errors import CodecError
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
from .cassette_text import Places, anywhere, clean, without_credentials
from .encoding import KeptJoin

FORM: Final = 1  # of the canonical request: another one gives other keys
TEXT: Final = 2_000  # characters of a message that are kept to name a difference

_OWN_ID = re.compile(r"\b(?:sess|run|msg|call|appr)_[0-9a-f]{24}\b")
_NAMES_OF_TOOLS = re.compile(r"^You have these tools: [^\n]*$", re.MULTILINE)  # they stand in the request themselves
_WORKSPACE = re.compile(r"^Workspace: [^\n]*$", re.MULTILINE)  # it may be the root of everything, which has no name
_OF_A_DAY = re.compile(
    r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?\b"
    r"|\b(?:Python|kestrel-nb|IPython|ipykernel)[ /]v?\d+(?:\.\d+)+\S*"
)


@dataclass(frozen=True, slots=True)
class Said:
    """One message: its role, its digest, as much of its text as names a difference, and of a result the tool's name."""

    role: str
    digest: str
    text: str
    name: str = ""

    @property
    def row(self) -> list[str]:
        """The same as it is written."""
        return [self.role, self.digest, self.text, *([self.name] if self.name else [])]

    @classmethod
    def of(cls, row: Any) -> Said:
        """What ``row`` gave. Raises CodecError."""
        if not isinstance(row, list) or not 3 <= len(row) <= 4:
            raise CodecError("messages: must be lists of role, digest and text")
        return cls(*map(str, row))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A canonical request. ``tools`` maps names to digests of description and schema; ``key`` is the SHA-256 of all.

    ``links`` has an entry for each message: a digest of everything up to that one.
    """

    model: str
    messages: tuple[Said, ...]
    tools: Mapping[str, str]
    temperature: float | None = None
    max_tokens: int | None = None
    key: str
    links: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class _Kept:
    said: Said
    call_ids: tuple[str, ...]


class _Talk:
    """The messages of a request put together, as far as they have come."""

    def __init__(self) -> None:
        self.said: list[Said] = []
        self.links: list[bytes] = []
        self._numbers: dict[str, int] = {}
        self._whole = hashlib.sha256()

    def add(self, message: ChatMessage, kept: _Kept, /) -> None:
        """One more."""
        said = kept.said
        numbers = [self._numbers.setdefault(id, len(self._numbers)) for id in kept.call_ids]
        self._whole.update(f"{json.dumps([said.role, said.digest, *numbers])}\n".encode())
        self.said.append(said)
        self.links.append(link(self.links[-1] if self.links else b"", said))

    @property
    def digest(self) -> str:
        """The SHA-256 of all of them."""
        return self._whole.hexdigest()


class Canonical:
    """Makes canonical requests for sessions in one workspace. Each message is looked at once."""

    def __init__(self, places: Places, masker: Masker) -> None:
        self._places, self._masker = places, masker
        self._messages = KeptJoin(self._message, _Talk)
        self._schemas: tuple[ToolSchema, ...] = ()
        self._tools: dict[str, str] = {}

    def of(self, request: CompletionRequest) -> Asked:
        """The canonical form of ``request``."""
        talk = self._messages.of(request.messages)
        tools = self._offered(request.tools)
        whole = [FORM, request.model, talk.digest, tools, request.temperature, request.max_tokens]
        return Asked(
            model=request.model,
            messages=tuple(talk.said),
            links=tuple(talk.links),
            tools=tools,
            temperature=request.temperature,
            max_tokens=request.max_tokens,
            key=digest(whole),
        )

    def arguments(self, arguments: JsonObject) -> str:
        """Arguments of a call as canonical JSON text."""
        return anywhere(self._any(_json(arguments), quoted=True))

    def _offered(self, schemas: tuple[ToolSchema, ...]) -> dict[str, str]:
        old = self._schemas
        if len(old) != len(schemas) or any(new is not kept for new, kept in zip(schemas, old, strict=True)):
            self._tools = {
                one.name: digest([anywhere(self._any(text)) for text in (one.description, _json(one.parameters))])[:12]
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
        name = next((part.name for part in message.tool_results), "")
        known = digest([[kind, anywhere(text)] for kind, text in parts])[:32]
        return _Kept(Said(message.role, known, text[:TEXT], name), ids)

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
        return _OWN_ID.sub("⟦id⟧", cleaned)


def link(before: bytes, said: Said) -> bytes:
    """The digest of a message and everything ``before`` it."""
    return hashlib.blake2b(before + said.digest.encode("utf-8", "replace"), digest_size=16).digest()


def shared_length(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


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
    text = _WORKSPACE.sub("Workspace: ⟦workspace⟧", _NAMES_OF_TOOLS.sub("You have these tools: ⟦tools⟧", text))
    return _OF_A_DAY.sub("⟦now⟧", text)
