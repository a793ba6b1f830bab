"""OpenAI Responses as replies: events to deltas and finished items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..protocol.messages import ReasoningPart, TextPart, ToolCallPart, new_id
from ..runtime.models import CompletionResponse, TokenDelta
from .event_parser import EventParser, Whole, argument_text, count_of, object_of, objects_of, str_of
from .openai_responses_reply import failure, parts_of, response_of, typed

# The kind of piece that an event brings. Events of the second kind tell the whole again, in the field that is named.
_PIECES: Final = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
    "response.function_call_arguments.delta": "arguments",
}
_WHOLES: Final = {
    "response.output_text.done": ("text", "text"),
    "response.refusal.done": ("refusal", "refusal"),
    "response.reasoning_summary_text.done": ("reasoning", "text"),
    "response.reasoning_text.done": ("reasoning", "text"),
    "response.function_call_arguments.done": ("arguments", "arguments"),
}
_ITEMS: Final = {"text": "message", "refusal": "message", "reasoning": "reasoning", "arguments": "function_call"}
_ENDS: Final = {"response.completed": "completed", "response.incomplete": "incomplete", "response.failed": "failed"}


@dataclass(slots=True)
class _Slot:
    """One item as it arrives: ``item`` is what was announced, and then what was finished."""

    item: Mapping[str, Any]
    call_id: str
    index: Any = None
    closed: bool = False
    named: bool = False
    shown: bool = False
    pieces: dict[str, list[str]] = field(default_factory=dict)  # of text, refusal, reasoning and arguments

    @property
    def kind(self) -> Any:
        """The type of the item."""
        return self.item.get("type")

    def joined(self, kind: str) -> str:
        """All pieces of ``kind`` as one text."""
        return "".join(self.pieces.get(kind, ()))

    def whole(self) -> Mapping[str, Any]:
        """The finished item; what it does not say, or one that was never finished, is made of its pieces."""
        if self.kind == "function_call":
            said = argument_text(self.item.get("arguments"), absent="") if self.closed else ""
            said = said if said.strip() else self.joined("arguments")
            return {**self.item, "call_id": self.call_id, "arguments": said}
        if self.kind == "reasoning" and not self.closed:
            return {**self.item, "summary": [{"type": "summary_text", "text": self.joined("reasoning")}]}
        if self.kind == "message" and not (self.closed and self.item.get("content")):
            texts = [{"type": "output_text", "text": text, "annotations": []} for text in [self.joined("text")] if text]
            refusals = [{"type": "refusal", "refusal": text} for text in [self.joined("refusal")] if text]
            return {**self.item, "content": [*texts, *refusals]}
        return self.item


class ResponsesParser(EventParser):
    """Reads one streamed reply.

    The reply is built from the items that ``response.output_item.done`` closes; deltas are for display. Items that
    were never closed come from the output of the last event, and only without that from their deltas. Events are
    joined to their items by ``item_id``, else by ``output_index``; without a known one they mean the last item of
    their kind, since some servers leave out every index and others give each event an id of its own. The status
    inside the last event wins over the event's name.
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
        if not isinstance(event, dict):
            return ()
        kind = str_of(event.get("type"))
        if kind == "error" or (event.get("error") is not None and not kind.startswith("response.")):
            raise failure(event.get("error") or event, self.stamp)
        if kind in _PIECES:
            return self._piece(event, _PIECES[kind], event.get("delta"))
        if kind in _WHOLES:
            return self._said_again(event, *_WHOLES[kind])
        if kind == "response.reasoning_summary_part.added" and count_of(event.get("summary_index")):
            return self._piece(event, "reasoning", "\n\n")
        if kind == "response.output_item.added":
            return self._added(event)
        if kind == "response.output_item.done":
            return self._closed(event)
        if kind in _ENDS:
            return self._ended(object_of(event.get("response")), _ENDS[kind])
        if not kind and isinstance(event.get("output"), list):  # a whole reply in one event
            return self._ended(event, "completed")
        return ()

    # ---- items --------------------------------------------------------------------------------------------------

    def _slot(self, event: Mapping[str, Any], kind: str) -> _Slot:
        """The item of type ``kind`` that a piece is about."""
        keys = _keys(event)
        for key in keys:
            if (known := self._by_key.get(key)) is not None and known.kind == kind:
                return known
        for slot in reversed(self._slots):
            if slot.kind == kind and not slot.closed:
                return slot
        return self._open({"type": kind, **({"role": "assistant"} if kind == "message" else {})}, event)

    def _match(self, item: Mapping[str, Any], index: Any) -> _Slot | None:
        """The slot that ``item`` finishes. A closed one is only meant when it is said again."""
        known = self._by_key.get(key) if (key := str_of(item.get("id"))) else None
        # Nearly always that is it; the rest is for servers whose ids mean little.
        return (_best(item, index, [known]) if known and not known.closed else None) or _best(item, index, self._slots)

    def _open(self, item: Mapping[str, Any], event: Mapping[str, Any]) -> _Slot:
        slot = _Slot(item, str_of(item.get("call_id")) or new_id("call"), event.get("output_index"))
        self._slots.append(slot)
        self._by_key |= dict.fromkeys(_keys(event), slot)
        return slot

    def _added(self, event: Mapping[str, Any]) -> Iterable[TokenDelta]:
        item = typed(object_of(event.get("item")))
        return self._named(self._open(item, event)) if item else ()

    def _closed(self, event: Mapping[str, Any]) -> Iterator[TokenDelta]:
        item = typed(object_of(event.get("item")))
        if not item:
            return
        slot = self._match(item, event.get("output_index")) or self._open(item, event)
        slot.closed = True
        name = str_of(item.get("name")) or str_of(slot.item.get("name"))
        slot.item = {**item, "name": name} if item.get("type") == "function_call" else item
        yield from self._named(slot)
        yield from self._unseen(slot)

    def _named(self, slot: _Slot) -> Iterator[TokenDelta]:
        """The delta that tells a call's name, once."""
        name = str_of(slot.item.get("name"))
        if slot.kind == "function_call" and name and not slot.named:
            slot.named = True
            yield TokenDelta(call_id=slot.call_id, tool=name)

    def _unseen(self, slot: _Slot) -> Iterator[TokenDelta]:
        """What is shown of a finished item of which no piece was streamed."""
        if slot.shown:
            return
        slot.shown = True
        for part in parts_of(slot.whole(), "completed", self.stamp):
            if isinstance(part, ToolCallPart) and part.raw_arguments:
                yield TokenDelta(call_id=slot.call_id, tool=part.name, arguments=part.raw_arguments)
            elif isinstance(part, TextPart) and part.text:
                yield TokenDelta(text=part.text)
            elif isinstance(part, ReasoningPart) and part.text:
                yield TokenDelta(reasoning=part.text)

    # ---- pieces -------------------------------------------------------------------------------------------------

    def _piece(self, event: Mapping[str, Any], kind: str, piece: Any) -> Iterator[TokenDelta]:
        text = argument_text(piece, absent="") if kind == "arguments" and isinstance(piece, dict) else str_of(piece)
        if not text:
            return
        slot = self._slot(event, _ITEMS[kind])
        slot.pieces.setdefault(kind, []).append(text)
        slot.shown = True
        shown = self._shown(text, slot.call_id if kind == "arguments" else kind)
        if kind == "arguments" and shown:
            yield TokenDelta(call_id=slot.call_id, tool=str_of(slot.item.get("name")), arguments=shown)
        elif shown:
            yield TokenDelta(reasoning=shown) if kind == "reasoning" else TokenDelta(text=shown)

    def _said_again(self, event: Mapping[str, Any], kind: str, name: str) -> Iterator[TokenDelta]:
        """The whole of what pieces told, and all of it where none came."""
        slot = self._slot(event, _ITEMS[kind])
        if not slot.closed and not slot.pieces.get(kind):
            yield from self._piece(event, kind, event.get(name))

    # ---- the end ------------------------------------------------------------------------------------------------

    def _ended(self, response: Mapping[str, Any], status: str) -> Iterator[TokenDelta]:
        said = response.get("status")
        known = said if said in ("completed", "incomplete", "failed", "cancelled") else status
        if known == "failed" and response.get("error"):
            self._end = response
            raise failure(response["error"], self.stamp)
        slots = self._output(response)
        for slot in slots:
            yield from self._unseen(slot)
        self._end = {**response, "status": known, "output": [slot.whole() for slot in slots]}

    def _output(self, response: Mapping[str, Any]) -> list[_Slot]:
        """The items of the reply: those that were closed, in the order of their announcement."""
        output = [item for given in objects_of(response.get("output")) if (item := typed(given))]
        closed = [slot for slot in self._slots if slot.closed]
        if not output or (len(closed) == len(self._slots) and len(closed) >= len(output)):
            return self._slots
        return [self._known(item, index) for index, item in enumerate(output)]

    def _known(self, item: Mapping[str, Any], index: int) -> _Slot:
        """The slot of ``item`` of the last event: as it was closed before if it was, and under its call id."""
        key = str_of(item.get("id")) or str_of(item.get("call_id"))
        slot = self._by_key.get(key) if key else None
        slot = slot if slot is not None and slot.kind == item.get("type") else self._match(item, index)
        if slot is None:
            return _Slot(item, str_of(item.get("call_id")) or new_id("call"), closed=True)
        if not slot.closed:
            slot.item, slot.closed = item, True
        return slot

    def _finished(self) -> CompletionResponse:
        if self._end is None:
            raise self._cut()
        return response_of(self._end, self.stamp)


def _best(item: Mapping[str, Any], index: Any, slots: Iterable[_Slot]) -> _Slot | None:
    best, most = None, (False, False, False, False)
    for slot in slots:
        same_id = _same(item.get("id"), slot.item.get("id"))
        same_call = _same(item.get("call_id"), slot.item.get("call_id"))
        if slot.kind != item.get("type") or same_call is False:
            continue
        if slot.closed and not ((same_id or same_call) and _contents(slot.item) == _contents(item)):
            continue
        marks = (same_id is True, same_call is True, _same(index, slot.index) is True, same_id is None)
        if marks > most:
            best, most = slot, marks
    return best


def _same(one: Any, other: Any) -> bool | None:
    """Whether two keys are the same; None where one of them is missing."""
    return None if one in (None, "") or other in (None, "") else bool(one == other)


def _contents(item: Mapping[str, Any]) -> list[Any]:
    return [item.get(name) for name in ("name", "arguments", "content", "summary")]


def _keys(event: Mapping[str, Any]) -> list[str | int]:
    """What may name the item of ``event``, the surest first."""
    item = object_of(event.get("item"))
    keys = (event.get("item_id"), item.get("id"), item.get("call_id"), event.get("output_index"))
    return [key for key in keys if key != "" and isinstance(key, (str, int)) and not isinstance(key, bool)]
