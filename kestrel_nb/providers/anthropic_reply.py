"""Anthropic Messages: the blocks of a reply as parts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ..protocol.codec import parse_call
from ..protocol.errors import CodecError
from ..protocol.json_text import jsonable
from ..protocol.messages import OpaquePart, Part, ReasoningPart, TextPart, ToolCallPart, new_id
from ..protocol.sessions import Usage
from ..runtime.models import CompletionResponse
from ..runtime.truncation import clean_text
from .event_parser import argument_text, count_of, finish_of, object_of, objects_of, once, str_of
from .wire import broken

API: Final = "anthropic"

FINISH: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
    # of servers that translate from another format
    "stop": "stop",
    "tool_calls": "tool_calls",
    "length": "length",
    "content_filter": "content_filter",
    "error": "error",
}
KNOWN: Final = frozenset(("text", "thinking", "redacted_thinking", "tool_use"))
# What each kind of piece adds to its block; the key of the text is also that of the block. A piece, or a block, whose
# kind was left out is told by its keys.
PIECES: Final = {"text_delta": "text", "thinking_delta": "thinking"}
PIECE_KEYS: Final = {
    "text": "text_delta",
    "thinking": "thinking_delta",
    "partial_json": "input_json_delta",
    "signature": "signature_delta",
    "citation": "citations_delta",
}
_BLOCK_KEYS: Final = {"text": "text", "thinking": "thinking", "input": "tool_use", "name": "tool_use"}


@dataclass(slots=True)
class Block:
    """One block as it grows. ``fields`` is how it began; ``pieces`` joined are its text, thinking or argument text."""

    kind: str
    fields: dict[str, Any]
    call_id: str = ""
    pieces: list[str] = field(default_factory=list)
    closed: bool = False

    def takes(self, kind: str) -> bool:
        """Whether pieces of ``kind`` may belong to this block."""
        if kind in PIECES:
            return self.kind == PIECES[kind]
        if kind == "input_json_delta":
            return self.kind not in ("text", "thinking", "redacted_thinking")
        return kind != "signature_delta" or self.kind != "tool_use"


def content_of(content: Any) -> list[Mapping[str, Any]]:
    """The blocks of a whole reply; some servers send plain text in their place."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else objects_of(content)


def begin(fields: Mapping[str, Any]) -> Block:
    """A block that begins with ``fields``."""
    kind = str_of(fields.get("type")) or next((_BLOCK_KEYS[key] for key in _BLOCK_KEYS if key in fields), "")
    block = Block(kind, {**fields, "type": kind})
    if block.kind == "tool_use":
        block.call_id = str_of(fields.get("id")) or new_id("call")
    return block


def name_of(block: Block) -> str:
    """The name of the tool that ``block`` calls."""
    return str_of(block.fields.get("name")) or "unnamed"


def response_of(
    blocks: list[Block], stop_reason: str, details: Mapping[str, Any], usage: Mapping[str, Any], stamp: str
) -> CompletionResponse:
    """The reply that ``blocks`` are. Raises ModelRequestError for one that can't be kept."""
    word = FINISH.get(stop_reason.lower(), stop_reason)
    cut = word not in ("", "stop", "tool_calls")
    try:
        parts = [part for block in blocks if (part := _part(block, cut)) is not None]
        if text := why_refused(details):
            parts.append(TextPart(text=text, extra={"stop_details": jsonable(details)}))
    except (CodecError, RecursionError) as error:
        raise broken(stamp, f"sent a block that can't be kept: {error}") from None
    found = once(parts)
    return CompletionResponse(
        parts=found,
        usage=_usage(usage),
        finish_reason=finish_of(word, found),
        provider=stamp,
    )


def _part(block: Block, cut: bool) -> Part | None:
    """The part of ``block``, or None for a text without text. ``cut``: the reply ended before all was said."""
    more = "".join(block.pieces)
    match block.kind:
        case "text":
            text = clean_text(str_of(block.fields.get("text")) + more)
            return TextPart(text=text, extra=_extra(block, "text")) if text else None
        case "thinking":
            text = clean_text(str_of(block.fields.get("thinking")) + more)
            return ReasoningPart(text=text, extra=_extra(block, "thinking"))
        case "redacted_thinking":
            return ReasoningPart(text="", redacted=True, extra=_extra(block))
        case "tool_use":
            return _call(block, more, cut)
        case _:
            return _opaque(block, more)


def _call(block: Block, more: str, cut: bool) -> ToolCallPart:
    given = argument_text(block.fields.get("input"))
    raw = clean_text(more) if more.strip() else given
    call = parse_call(block.call_id, name_of(block), raw if raw.strip() else "{}")
    if cut and not block.closed and raw == "{}":
        call = replace(call, arguments=None, problem="the reply ended before the arguments of this call began")
    return replace(call, extra=_extra(block, "id", "name", "input"))


def _opaque(block: Block, more: str) -> OpaquePart | None:
    """A block of a kind of the server's own, such as a search that ran there: kept to be sent back."""
    if not block.kind:
        return None
    fields = dict(block.fields)
    if more:
        try:
            fields["input"] = json.loads(more)
        except (ValueError, RecursionError):
            fields["input"] = {}
    return OpaquePart(api=API, value=jsonable(fields))


def _extra(block: Block, *known: str) -> dict[str, Any]:
    """The fields of ``block`` beside its kind and the ``known`` ones, without those that say nothing."""
    left = {name: value for name, value in block.fields.items() if name not in ("type", *known) and value is not None}
    return dict(jsonable(left))


def why_refused(details: Mapping[str, Any]) -> str:
    """Why the server refused to go on, in its own words."""
    return str_of(details.get("explanation"))


# ---- usage ----------------------------------------------------------------------------------------------------------


def count(counts: dict[str, Any], usage: Any) -> None:
    """Later counts replace earlier ones, being of the whole reply so far; a zero is what a server left out."""
    counts.update((name, value) for name, value in object_of(usage).items() if value or name not in counts)


def _usage(said: Mapping[str, Any]) -> Usage:
    read = count_of(said.get("cache_read_input_tokens"))
    written = count_of(said.get("cache_creation_input_tokens"))
    return Usage(
        input_tokens=count_of(said.get("input_tokens")) + read + written,
        output_tokens=count_of(said.get("output_tokens")),
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=count_of(object_of(said.get("output_tokens_details")).get("thinking_tokens")),
    )
