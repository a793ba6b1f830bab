"""Anthropic Messages: what comes back. A reply is a list of blocks, streamed piece by piece or sent whole."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ..protocol.codec import parse_call
from ..protocol.errors import CodecError, ModelRequestError
from ..protocol.json_text import jsonable
from ..protocol.messages import OpaquePart, Part, ReasoningPart, TextPart, ToolCallPart, new_id
from ..protocol.sessions import Usage
from ..runtime.models import CompletionResponse, TokenDelta
from .event_parser import EventParser, Whole, count_of, object_of, objects_of, read_json, reported, str_of
from .wire import broken

API: Final = "anthropic"

FINISH: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
# The status with which each kind of error is answered outside a stream, from Anthropic's reference.
ERROR_STATUS: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
KNOWN: Final = frozenset(("text", "thinking", "redacted_thinking", "tool_use"))
# What each kind of piece adds to its block: the piece's own key is also the block's.
_PIECES: Final = {"text_delta": "text", "thinking_delta": "thinking"}


@dataclass(slots=True)
class _Block:
    """One block as it grows. ``fields`` is how it began; ``pieces`` joined are its text, thinking or argument text."""

    fields: dict[str, Any]
    call_id: str = ""
    pieces: list[str] = field(default_factory=list)
    closed: bool = False

    @property
    def kind(self) -> str:
        return str_of(self.fields.get("type"))


class AnthropicParser(EventParser):
    """Reads one streamed reply.

    An event that is not JSON ends it with a retryable error. A stream that ends with ``message_stop`` is complete even
    where it leaves out everything else (no block is closed, no reason is given): its calls are run.
    """

    def __init__(self, stamp: str, whole: Whole) -> None:
        super().__init__(stamp, whole)
        self._blocks: list[_Block] = []
        self._open: dict[Any, _Block] = {}  # by the index that the server gives
        self._usage: dict[str, Any] = {}
        self._stop_reason = ""
        self._stop_details: Mapping[str, Any] = {}
        self._done = False

    @property
    def done(self) -> bool:
        """True once ``message_stop`` came."""
        return self._done

    def _finished(self) -> CompletionResponse:
        if not self._done:
            raise self._cut()
        return _response(self._blocks, self._stop_reason, self._stop_details, self._usage, self.stamp)

    def _event(self, event: Any) -> Iterator[TokenDelta]:
        if self._done:
            return
        event = object_of(event)
        index = event.get("index")
        match event.get("type"):
            case "content_block_delta":
                yield from self._piece(index, object_of(event.get("delta")))
            case "content_block_start":
                yield from self._start(index, object_of(event.get("content_block")))
            case "content_block_stop":
                self._stop(index)
            case "message_start":
                _count(self._usage, object_of(event.get("message")).get("usage"))
            case "message_delta":
                yield from self._ending(event)
            case "message_stop":
                self._done = True
            case kind if kind == "error" or event.get("error"):  # servers that only speak like this leave the type out
                raise stream_error(event, self.stamp)

    def _start(self, index: Any, fields: Mapping[str, Any]) -> Iterator[TokenDelta]:
        block = _begin(fields)
        self._blocks.append(block)
        self._open[_key(index)] = block
        if block.call_id:
            yield TokenDelta(call_id=block.call_id, tool=_name(block))
        elif block.kind in ("text", "thinking"):
            yield from self._show(block, fields.get(block.kind))

    def _piece(self, index: Any, piece: Mapping[str, Any]) -> Iterator[TokenDelta]:
        kind = str_of(piece.get("type"))
        block = self._open.get(_key(index))
        if block is None:
            if kind not in _PIECES:
                return  # more of a block that never began
            yield from self._start(index, {"type": _PIECES[kind]})
            block = self._open[_key(index)]
        if kind in _PIECES and block.kind == _PIECES[kind]:
            block.pieces.append(str_of(piece.get(block.kind)))
            yield from self._show(block, piece.get(block.kind))
        elif kind == "input_json_delta":
            block.pieces.append(str_of(piece.get("partial_json")))
            if block.call_id and (shown := self._shown(piece.get("partial_json"))):
                yield TokenDelta(call_id=block.call_id, arguments=shown)
        elif kind == "citations_delta":
            block.fields["citations"] = [*objects_of(block.fields.get("citations")), piece.get("citation")]
        elif kind == "signature_delta" or block.kind not in KNOWN:  # or what a newer server adds to its newer blocks
            block.fields.update((name, value) for name, value in piece.items() if name != "type")

    def _show(self, block: _Block, text: Any) -> Iterator[TokenDelta]:
        if shown := self._shown(text):
            yield TokenDelta(text=shown) if block.kind == "text" else TokenDelta(reasoning=shown)

    def _stop(self, index: Any) -> None:
        block = self._open.pop(_key(index), None)
        if block is not None:
            block.closed = True

    def _ending(self, event: Mapping[str, Any]) -> Iterator[TokenDelta]:
        said = object_of(event.get("delta"))
        self._stop_reason = str_of(said.get("stop_reason")) or self._stop_reason
        self._stop_details = object_of(said.get("stop_details")) or self._stop_details
        _count(self._usage, event.get("usage"))
        if text := self._shown(said.get("stop_details") and _why_refused(self._stop_details)):
            yield TokenDelta(text=text)


def whole_reply(body: bytes, stamp: str) -> CompletionResponse:
    """A reply that came in one piece. Raises ModelRequestError for an error and for what is no reply."""
    reply = object_of(read_json(body.decode("utf-8-sig", "replace"), stamp))
    if reply.get("type") == "error" or reply.get("error"):
        raise stream_error(reply, stamp)
    content = reply.get("content")
    if not isinstance(content, list):
        raise broken(stamp, "sent something that is no reply: it has no content")
    blocks = [_begin(object_of(fields)) for fields in content]
    for block in blocks:
        block.closed = True
    usage: dict[str, Any] = {}
    _count(usage, reply.get("usage"))
    return _response(blocks, str_of(reply.get("stop_reason")), object_of(reply.get("stop_details")), usage, stamp)


def stream_error(event: Mapping[str, Any], stamp: str) -> ModelRequestError:
    """The error that an ``error`` event tells of, as if it had come with its status."""
    error = event.get("error")
    return reported(error, stamp, ERROR_STATUS.get(str_of(object_of(error).get("type")), 500))


# ---- blocks to parts ------------------------------------------------------------------------------------------------


def _begin(fields: Mapping[str, Any]) -> _Block:
    block = _Block(dict(fields))
    if block.kind == "tool_use":
        block.call_id = str_of(fields.get("id")) or new_id("call")
    return block


def _response(
    blocks: list[_Block], stop_reason: str, details: Mapping[str, Any], usage: Mapping[str, Any], stamp: str
) -> CompletionResponse:
    try:
        parts = [part for block in blocks if (part := _part(block, bool(stop_reason))) is not None]
        if text := _why_refused(details):
            parts.append(TextPart(text=text, extra={"stop_details": jsonable(details)}))
    except (CodecError, RecursionError) as error:
        raise broken(stamp, f"sent a block that can't be kept: {error}") from None
    finish = FINISH.get(stop_reason, stop_reason) or "stop"
    called = any(isinstance(part, ToolCallPart) for part in parts)
    return CompletionResponse(
        parts=tuple(parts),
        usage=_usage(usage),
        finish_reason="tool_calls" if called and finish == "stop" else finish,
        provider=stamp,
    )


def _part(block: _Block, legal: bool) -> Part | None:
    """The part of ``block``, or None for a text without text. ``legal``: the stream said how the reply ended."""
    more = "".join(block.pieces)
    match block.kind:
        case "text":
            text = str_of(block.fields.get("text")) + more
            return TextPart(text=text, extra=_extra(block, "text")) if text else None
        case "thinking":
            text = str_of(block.fields.get("thinking")) + more
            return ReasoningPart(text=text, extra=_extra(block, "thinking"))
        case "redacted_thinking":
            return ReasoningPart(text="", redacted=True, extra=_extra(block))
        case "tool_use":
            return _call(block, more, legal)
        case _:
            return _opaque(block, more)


def _call(block: _Block, more: str, legal: bool) -> ToolCallPart:
    given = block.fields.get("input")
    raw = more if more.strip() else given if isinstance(given, str) else _json_text(given or {})
    call = parse_call(block.call_id, _name(block), raw if raw.strip() else "{}")
    if legal and not block.closed and not more.strip():
        call = replace(call, arguments=None, problem="the reply ended before the arguments of this call began")
    return replace(call, extra=_extra(block, "id", "name", "input"))


def _opaque(block: _Block, more: str) -> OpaquePart | None:
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


def _extra(block: _Block, *known: str) -> dict[str, Any]:
    """The fields of ``block`` beside its kind and the ``known`` ones, without those that say nothing."""
    left = {name: value for name, value in block.fields.items() if name not in ("type", *known) and value is not None}
    return dict(jsonable(left))


def _why_refused(details: Mapping[str, Any]) -> str:
    return str_of(details.get("explanation"))


# ---- usage ----------------------------------------------------------------------------------------------------------


def _count(kept: dict[str, Any], usage: Any) -> None:
    """Later counts replace earlier ones: each is of the whole reply so far."""
    kept.update((name, value) for name, value in object_of(usage).items() if value is not None)


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


def _name(block: _Block) -> str:
    return str_of(block.fields.get("name")) or "unnamed"


def _json_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        return "too deeply nested"


def _key(index: Any) -> Any:
    return index if isinstance(index, (int, str)) else None
