"""Anthropic Messages: what comes back. A reply is a list of blocks, streamed piece by piece or sent whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..protocol.errors import ModelRequestError
from ..runtime.models import CompletionResponse, TokenDelta
from .anthropic_reply import (
    KNOWN,
    PIECE_KEYS,
    PIECES,
    Block,
    begin,
    content_of,
    count,
    name_of,
    response_of,
    why_refused,
)
from .event_parser import (
    EventParser,
    Whole,
    argument_text,
    object_of,
    objects_of,
    read_json,
    reported,
    status_of,
    str_of,
)
from .wire import broken


class AnthropicParser(EventParser):
    """Reads one streamed reply.

    An event that is not JSON ends it with a retryable error. A stream that ends with ``message_stop`` is complete even
    where it leaves out everything else (no block is closed, no reason is given): its calls are run. A piece belongs to
    the block of its index; where the index is missing or means a block of another kind, to the last one that fits.
    """

    def __init__(self, stamp: str, whole: Whole) -> None:
        super().__init__(stamp, whole)
        self._blocks: list[Block] = []
        self._by_index: dict[Any, Block] = {}  # the last block of each index that the server gives
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
        return response_of(self._blocks, self._stop_reason, self._stop_details, self._usage, self.stamp)

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
                yield from self._stop(index)
            case "message_start":
                count(self._usage, object_of(event.get("message")).get("usage"))
            case "message_delta":
                yield from self._ending(event)
            case "message_stop":
                self._done = True
            case "message":
                yield from self._all_at_once(event)
            case kind if kind == "error" or event.get("error"):  # servers that only speak like this leave the type out
                raise stream_error(event, self.stamp)

    def _start(self, index: Any, fields: Mapping[str, Any]) -> Iterator[TokenDelta]:
        before = self._by_index.get(_key(index))
        if before is not None and not before.closed and before.call_id and before.call_id == fields.get("id"):
            return  # the same call, announced again
        block = begin(fields)
        self._blocks.append(block)
        self._by_index[_key(index)] = block
        if block.call_id:
            yield TokenDelta(call_id=block.call_id, tool=name_of(block))
        elif block.kind in ("text", "thinking"):
            yield from self._show(block, fields.get(block.kind))

    def _block_of(self, index: Any, kind: str) -> Block | None:
        """The block that a piece of ``kind`` belongs to."""
        block = self._by_index.get(_key(index))
        if block is not None and block.takes(kind):
            return block
        fitting = [block for block in reversed(self._blocks) if block.takes(kind)]
        return next((block for block in fitting if not block.closed), None)

    def _piece(self, index: Any, piece: Mapping[str, Any]) -> Iterator[TokenDelta]:
        kind = str_of(piece.get("type")) or next((PIECE_KEYS[key] for key in piece if key in PIECE_KEYS), "")
        block = self._block_of(index, kind)
        if block is None and kind in PIECES:
            yield from self._start(index, {"type": PIECES[kind]})
            block = self._blocks[-1]
        if block is None:
            if kind == "input_json_delta" and piece.get("partial_json"):
                raise broken(self.stamp, "sent the arguments of a call that never began")
            return
        if kind in PIECES:
            block.pieces.append(str_of(piece.get(block.kind)))
            yield from self._show(block, piece.get(block.kind))
        elif kind == "input_json_delta":
            given = piece.get("partial_json")
            text = argument_text(given) if isinstance(given, (dict, list)) else str_of(given)
            block.pieces.append(text)
            if block.call_id and (shown := self._shown(text, block.call_id)):
                yield TokenDelta(call_id=block.call_id, arguments=shown)
        elif kind == "citations_delta":
            block.fields["citations"] = [*objects_of(block.fields.get("citations")), piece.get("citation")]
        elif kind == "signature_delta" or block.kind not in KNOWN:  # or what a newer server adds to its newer blocks
            block.fields.update((name, value) for name, value in piece.items() if name != "type")

    def _all_at_once(self, message: Mapping[str, Any]) -> Iterator[TokenDelta]:
        """A whole reply in one event."""
        for index, fields in enumerate(content_of(message.get("content")) if not self._blocks else ()):
            yield from self._start(index, fields)
            yield from self._stop(index)
        yield from self._ending({"delta": message, "usage": message.get("usage")})
        self._done = True

    def _show(self, block: Block, text: Any) -> Iterator[TokenDelta]:
        if shown := self._shown(text, block.kind):
            yield TokenDelta(text=shown) if block.kind == "text" else TokenDelta(reasoning=shown)

    def _stop(self, index: Any) -> Iterator[TokenDelta]:
        last = self._blocks[-1] if self._blocks and index is None else None
        block = self._by_index.get(_key(index), last)
        if block is None or block.closed:
            return
        block.closed = True
        if block.call_id and not block.pieces and (given := block.fields.get("input")):
            yield TokenDelta(call_id=block.call_id, arguments=argument_text(given))

    def _ending(self, event: Mapping[str, Any]) -> Iterator[TokenDelta]:
        said = object_of(event.get("delta"))
        self._stop_reason = str_of(said.get("stop_reason")) or self._stop_reason
        self._stop_details = object_of(said.get("stop_details")) or self._stop_details
        count(self._usage, event.get("usage"))
        if text := self._shown(said.get("stop_details") and why_refused(self._stop_details), "text"):
            yield TokenDelta(text=text)


def whole_reply(body: bytes, stamp: str) -> CompletionResponse:
    """A reply that came in one piece. Raises ModelRequestError for an error and for what is no reply."""
    reply = object_of(read_json(body.decode("utf-8-sig", "replace"), stamp))
    if reply.get("type") == "error" or reply.get("error"):
        raise stream_error(reply, stamp)
    content = reply.get("content")
    if not isinstance(content, (list, str)) and not (content is None and reply.get("stop_reason")):
        raise broken(stamp, "sent something that is no reply: it has no content")
    blocks = [begin(fields) for fields in content_of(content)]
    for block in blocks:
        block.closed = True
    usage: dict[str, Any] = {}
    count(usage, reply.get("usage"))
    return response_of(blocks, str_of(reply.get("stop_reason")), object_of(reply.get("stop_details")), usage, stamp)


def stream_error(event: Mapping[str, Any], stamp: str) -> ModelRequestError:
    """The error that an ``error`` event tells of, as if it had come with its status."""
    error = event.get("error") or {name: value for name, value in event.items() if name != "type"}
    return reported(error, stamp, status_of(error, unknown=500, unnamed=500))


def _key(index: Any) -> Any:
    return index if isinstance(index, (int, str)) else None
