"""OpenAI Responses as replies: events to deltas and finished items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..protocol.messages import ReasoningPart, TextPart, ToolCallPart, new_id
from ..runtime.models import CompletionResponse, TokenDelta
from .event_parser import EventParser, Whole, count_of, object_of, objects_of, str_of
from .openai_responses_reply import failure, parts_of, response_of

_TEXT: Final = ("response.output_text.delta", "response.refusal.delta")
_REASONING: Final = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_ENDS: Final = {"response.completed": "completed", "response.incomplete": "incomplete", "response.failed": "failed"}


@dataclass(slots=True)
class _Slot:
    """One item as it arrives: ``item`` is what was announced, and then what was finished."""

    item: Mapping[str, Any]
    call_id: str
    closed: bool = False
    named: bool = False
    pieces: dict[str, list[str]] = field(default_factory=dict)  # of text, refusal, reasoning and arguments

    def add(self, kind: str, piece: str) -> None:
        self.pieces.setdefault(kind, []).append(piece)

    def joined(self, kind: str) -> str:
        return "".join(self.pieces.get(kind, ()))

    def whole(self) -> Mapping[str, Any]:
        """The finished item; one that was never finished is made of its deltas."""
        if self.closed:
            return self.item
        kind = self.item.get("type")
        if kind == "function_call":
            return {**self.item, "arguments": self.joined("arguments")}
        if kind == "reasoning":
            return {**self.item, "summary": [{"type": "summary_text", "text": self.joined("reasoning")}]}
        texts = [{"type": "output_text", "text": text, "annotations": []} for text in [self.joined("text")] if text]
        refusals = [{"type": "refusal", "refusal": text} for text in [self.joined("refusal")] if text]
        return {**self.item, "content": [*texts, *refusals]}


class ResponsesParser(EventParser):
    """Reads one streamed reply.

    The reply is built from the items that ``response.output_item.done`` closes; deltas are for display. Items that
    were never closed come from the output of the last event, and only without that from their deltas. Events are
    joined to their items by ``item_id``; an unknown one means the item that was announced last, since some servers
    leave out every index. The status inside the last event wins over the event's name.
    """

    def __init__(self, stamp: str, whole: Whole) -> None:
        super().__init__(stamp, whole)
        self._slots: list[_Slot] = []
        self._by_key: dict[str | int, _Slot] = {}
        self._end: Mapping[str, Any] | None = None

    @property
    def done(self) -> bool:
        """True once the response was said to be completed, incomplete or failed."""
        return self._end is not None

    def _event(self, event: Any) -> Iterable[TokenDelta]:
        if self.done or not isinstance(event, Mapping):
            return ()
        kind = str_of(event.get("type"))
        if kind == "error" or (not kind and event.get("error") is not None):
            raise failure(event.get("error") or event, self.stamp)
        if kind in _TEXT:
            return self._text(event, refusal=kind == "response.refusal.delta")
        if kind in _REASONING:
            return self._reasoning(event)
        if kind == "response.reasoning_summary_part.added" and count_of(event.get("summary_index")):
            return self._reasoning({**event, "delta": "\n\n"})
        if kind == "response.function_call_arguments.delta":
            return self._arguments(event)
        if kind == "response.output_item.added":
            return self._added(event)
        if kind == "response.output_item.done":
            return self._closed(event)
        if kind in _ENDS:
            self._ended(event, _ENDS[kind])
        return ()

    # ---- items --------------------------------------------------------------------------------------------------

    def _slot(self, event: Mapping[str, Any]) -> _Slot:
        """The item that ``event`` is about."""
        if known := self._find(_keys(event)):
            return known
        item = object_of(event.get("item"))
        if not item and self._slots:
            return self._slots[-1]
        same = (slot for slot in self._slots if not slot.closed and slot.item.get("type") == item.get("type"))
        return next(same, None) or self._open(item or {"type": "message", "role": "assistant"}, event)

    def _find(self, keys: Iterable[str | int]) -> _Slot | None:
        return next((self._by_key[key] for key in keys if key in self._by_key), None)

    def _open(self, item: Mapping[str, Any], event: Mapping[str, Any]) -> _Slot:
        slot = _Slot(item, str_of(item.get("call_id")) or new_id("call"))
        self._slots.append(slot)
        self._by_key |= dict.fromkeys(_keys(event), slot)
        return slot

    def _added(self, event: Mapping[str, Any]) -> Iterable[TokenDelta]:
        item = event.get("item")
        return self._named(self._open(item, event)) if isinstance(item, Mapping) else ()

    def _closed(self, event: Mapping[str, Any]) -> Iterator[TokenDelta]:
        item = event.get("item")
        if not isinstance(item, Mapping):
            return
        slot = self._slot(event)
        if slot.closed:  # another item under the same key
            slot = self._open(item, event)
        slot.item = {**item, "call_id": slot.call_id} if item.get("type") == "function_call" else item
        slot.closed = True
        yield from self._named(slot)
        if not slot.pieces:
            yield from unseen(slot)

    def _named(self, slot: _Slot) -> Iterator[TokenDelta]:
        """The delta that tells a call's name, once."""
        name = str_of(slot.item.get("name"))
        if slot.item.get("type") == "function_call" and name and not slot.named:
            slot.named = True
            yield TokenDelta(call_id=slot.call_id, tool=name)

    # ---- pieces -------------------------------------------------------------------------------------------------

    def _text(self, event: Mapping[str, Any], *, refusal: bool) -> Iterator[TokenDelta]:
        slot = self._slot(event)
        slot.add("refusal" if refusal else "text", str_of(event.get("delta")))
        if shown := self._shown(event.get("delta")):
            yield TokenDelta(text=shown)

    def _reasoning(self, event: Mapping[str, Any]) -> Iterator[TokenDelta]:
        slot = self._slot(event)
        slot.add("reasoning", str_of(event.get("delta")))
        if shown := self._shown(event.get("delta")):
            yield TokenDelta(reasoning=shown)

    def _arguments(self, event: Mapping[str, Any]) -> Iterator[TokenDelta]:
        slot = self._slot(event)
        piece = str_of(event.get("delta"))
        if piece:
            slot.add("arguments", piece)
            yield TokenDelta(call_id=slot.call_id, tool=str_of(slot.item.get("name")), arguments=piece)

    # ---- the end ------------------------------------------------------------------------------------------------

    def _ended(self, event: Mapping[str, Any], status: str) -> None:
        response = object_of(event.get("response"))
        said = response.get("status")
        known = said if said in ("completed", "incomplete", "failed", "cancelled") else status
        self._end = {**response, "status": known, "output": self._output(response)}
        if known == "failed" and response.get("error"):
            raise failure(response["error"], self.stamp)

    def _output(self, response: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """The items of the reply: those that were closed, in the order of their announcement."""
        output = objects_of(response.get("output"))
        closed = [slot for slot in self._slots if slot.closed]
        if output and (len(closed) < len(self._slots) or len(closed) < len(output)):
            return [self._known(item) for item in output]
        return [slot.whole() for slot in self._slots]

    def _known(self, item: Mapping[str, Any]) -> Mapping[str, Any]:
        """``item`` of the last event, as it was closed before if it was, and under the call id that was shown."""
        slot = self._find(_keys({"item": item}))
        if slot is None:
            return item
        if slot.closed:
            return slot.item
        return {**item, "call_id": slot.call_id} if item.get("type") == "function_call" else item

    def _finished(self) -> CompletionResponse:
        if self._end is None:
            raise self._cut()
        return response_of(self._end, self.stamp)


def unseen(slot: _Slot) -> Iterator[TokenDelta]:
    """What is shown of a finished item of which no piece was streamed."""
    for part in parts_of(slot.item, "completed"):
        if isinstance(part, ToolCallPart) and part.raw_arguments:
            yield TokenDelta(call_id=slot.call_id, tool=part.name, arguments=part.raw_arguments)
        elif isinstance(part, TextPart) and part.text:
            yield TokenDelta(text=part.text)
        elif isinstance(part, ReasoningPart) and part.text:
            yield TokenDelta(reasoning=part.text)


def _keys(event: Mapping[str, Any]) -> list[str | int]:
    """What may name the item of ``event``, the surest first."""
    item = object_of(event.get("item"))
    keys = (event.get("item_id"), item.get("id"), item.get("call_id"), event.get("output_index"))
    return [key for key in keys if key != "" and isinstance(key, (str, int)) and not isinstance(key, bool)]
