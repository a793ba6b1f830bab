"""Anthropic Messages: what comes back. A reply is a list of blocks, streamed piece by piece or sent whole."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ..protocol.codec import parse_call
from ..protocol.errors import CodecError, ModelRequestError
from ..protocol.json_text import jsonable
from ..protocol.messages import OpaquePart, Part, ReasoningPart, TextPart, ToolCallPart, new_id
from ..protocol.sessions import Usage
from ..runtime.models import CompletionResponse, TokenDelta
from ..runtime.retry import model_http_error
from .lines import SseSplitter
from .wire import broken, truncated

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
        return _text(self.fields.get("type"))


class AnthropicParser:
    """Reads one streamed reply. ``stamp`` says who sent it."""

    def __init__(self, stamp: str) -> None:
        self._stamp = stamp
        self._events = SseSplitter()
        self._blocks: list[_Block] = []
        self._open: dict[Any, _Block] = {}  # by the index that the server gives
        self._usage: dict[str, Any] = {}
        self._stop_reason = ""
        self._stop_details: Mapping[str, Any] = {}
        self._done = False
        self._failure: ModelRequestError | None = None

    @property
    def done(self) -> bool:
        """True once ``message_stop`` came."""
        return self._done

    def feed(self, data: bytes) -> Sequence[TokenDelta]:
        """Take the next bytes, cut anywhere. Raises ModelRequestError for an error event and for what is no event.

        What came before the error in the same bytes is given out first; then the next call raises it.
        """
        if self._failure is not None:
            raise self._failure
        deltas: list[TokenDelta] = []
        try:
            for event in self._events.feed(data):
                if not self._done:
                    self._event(_object(event.data, self._stamp), deltas)
        except ModelRequestError as error:
            if not deltas:
                raise
            self._failure = error
        return deltas

    def end(self) -> CompletionResponse:
        """The reply. Raises a retryable error when ``message_stop`` did not come."""
        if self._failure is not None:
            raise self._failure
        if not self._done:
            raise truncated(self._stamp)
        return _response(self._blocks, self._stop_reason, self._stop_details, self._usage, self._stamp)

    def _event(self, event: Mapping[str, Any], deltas: list[TokenDelta]) -> None:
        match event.get("type"):
            case "content_block_delta":
                self._piece(event.get("index"), _mapping(event.get("delta")), deltas)
            case "content_block_start":
                self._start(event.get("index"), _mapping(event.get("content_block")), deltas)
            case "content_block_stop":
                block = self._open.pop(_key(event.get("index")), None)
                if block is not None:
                    block.closed = True
            case "message_start":
                _count(self._usage, _mapping(event.get("message")).get("usage"))
            case "message_delta":
                self._ending(event, deltas)
            case "message_stop":
                self._done = True
            case "error":
                raise stream_error(event, self._stamp)

    def _start(self, index: Any, fields: Mapping[str, Any], deltas: list[TokenDelta]) -> None:
        block = _begin(fields)
        self._blocks.append(block)
        self._open[_key(index)] = block
        if block.call_id:
            deltas.append(TokenDelta(call_id=block.call_id, tool=_text(fields.get("name")) or "unnamed"))
        elif block.kind in ("text", "thinking"):
            _show(block, _text(fields.get(block.kind)), deltas)

    def _piece(self, index: Any, piece: Mapping[str, Any], deltas: list[TokenDelta]) -> None:
        kind = _text(piece.get("type"))
        block = self._open.get(_key(index))
        if block is None:
            if kind not in _PIECES:
                return  # more of a block that never began
            self._start(index, {"type": _PIECES[kind]}, deltas)
            block = self._open[_key(index)]
        if kind in _PIECES and block.kind == _PIECES[kind]:
            text = _text(piece.get(_PIECES[kind]))
            block.pieces.append(text)
            _show(block, text, deltas)
        elif kind == "input_json_delta":
            text = _text(piece.get("partial_json"))
            block.pieces.append(text)
            if text and block.call_id:
                deltas.append(TokenDelta(call_id=block.call_id, arguments=text))
        elif kind == "citations_delta":
            block.fields["citations"] = [*(block.fields.get("citations") or ()), piece.get("citation")]
        else:  # a signature, or what a newer server adds to its newer blocks
            block.fields.update((name, value) for name, value in piece.items() if name != "type")

    def _ending(self, event: Mapping[str, Any], deltas: list[TokenDelta]) -> None:
        said = _mapping(event.get("delta"))
        self._stop_reason = _text(said.get("stop_reason")) or self._stop_reason
        self._stop_details = _mapping(said.get("stop_details")) or self._stop_details
        _count(self._usage, event.get("usage"))
        if text := _why_refused(_mapping(said.get("stop_details"))):
            deltas.append(TokenDelta(text=text))


def whole_reply(body: bytes, stamp: str) -> CompletionResponse:
    """A reply that came in one piece. Raises ModelRequestError for an error and for what is no reply."""
    reply = _object(body.decode("utf-8", "replace"), stamp)
    if reply.get("type") == "error" or "error" in reply:
        raise stream_error(reply, stamp)
    content = reply.get("content")
    if not isinstance(content, list):
        raise broken(stamp, "sent something that is no reply: it has no content")
    blocks = [_begin(_mapping(fields)) for fields in content]
    for block in blocks:
        block.closed = True
    usage: dict[str, Any] = {}
    _count(usage, reply.get("usage"))
    return _response(blocks, _text(reply.get("stop_reason")), _mapping(reply.get("stop_details")), usage, stamp)


def stream_error(event: Mapping[str, Any], stamp: str) -> ModelRequestError:
    """The error that an ``error`` event tells of, as if it had come with its status."""
    kind = _text(_mapping(event.get("error")).get("type"))
    return model_http_error(ERROR_STATUS.get(kind, 500), json.dumps(event), provider=stamp)


# ---- blocks to parts ------------------------------------------------------------------------------------------------


def _begin(fields: Mapping[str, Any]) -> _Block:
    block = _Block(dict(fields))
    if block.kind == "tool_use":
        block.call_id = _text(fields.get("id")) or new_id("call")
    return block


def _show(block: _Block, text: str, deltas: list[TokenDelta]) -> None:
    if text:
        deltas.append(TokenDelta(text=text) if block.kind == "text" else TokenDelta(reasoning=text))


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
            text = _text(block.fields.get("text")) + more
            return TextPart(text=text, extra=_extra(block, "text")) if text else None
        case "thinking":
            text = _text(block.fields.get("thinking")) + more
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
    call = parse_call(block.call_id, _text(block.fields.get("name")) or "unnamed", raw if raw.strip() else "{}")
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
    return _text(details.get("explanation"))


# ---- usage ----------------------------------------------------------------------------------------------------------


def _count(kept: dict[str, Any], usage: Any) -> None:
    """Later counts replace earlier ones: each is of the whole reply so far."""
    kept.update((name, value) for name, value in _mapping(usage).items() if value is not None)


def _usage(said: Mapping[str, Any]) -> Usage:
    read = _number(said.get("cache_read_input_tokens"))
    written = _number(said.get("cache_creation_input_tokens"))
    return Usage(
        input_tokens=_number(said.get("input_tokens")) + read + written,
        output_tokens=_number(said.get("output_tokens")),
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=_number(_mapping(said.get("output_tokens_details")).get("thinking_tokens")),
    )


# ---- JSON of unknown form -------------------------------------------------------------------------------------------


def _object(text: str, stamp: str) -> Mapping[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise broken(stamp, "sent an event that is not JSON") from None
    if not isinstance(data, dict):
        raise broken(stamp, "sent an event that is no object")
    return data


def _json_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        return "too deeply nested"


def _key(index: Any) -> Any:
    return index if isinstance(index, (int, str)) else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
