"""OpenAI Responses as replies: events to deltas and finished items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..protocol.messages import ReasoningPart, TextPart, ToolCallPart, new_id
from ..runtime.models import CompletionResponse, TokenDelta
from .event_parser import EventParser, Whole, argument_text, count_of, object_of, objects_of, str_of
from .forms import error_in, texts_of, unwrapped
from .openai_responses_reply import failure, parts_of, response_of, typed

# The kind of piece that an event brings. Events of the second kind tell the whole again, in the field that is named.
_PIECES: Final = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning_summary.delta": "reasoning",  # the last two are older names
    "response.reasoning.delta": "reasoning",
    "response.function_call_arguments.delta": "arguments",
}
_WHOLES: Final = {
    "response.output_text.done": ("text", "text"),
    "response.refusal.done": ("refusal", "refusal"),
    "response.reasoning_summary_text.done": ("reasoning", "text"),
    "response.reasoning_text.done": ("reasoning", "text"),
    "response.function_call_arguments.done": ("arguments", "arguments"),
}
_PARTS: Final = ("response.content_part.done", "response.reasoning_summary_part.done")
_ITEMS: Final = {"text": "message", "refusal": "message", "reasoning": "reasoning", "arguments": "function_call"}
_ENDS: Final = {
    "response.completed": "completed",
    "response.done": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}


@dataclass(slots=True)
class _Slot:
    """One item as it arrives: ``item`` is what was announced, and then what was finished.

    ``pieces`` are those of text, refusal, reasoning and arguments, each kind by the number of its part.
    """

    item: Mapping[str, Any]
    call_id: str
    index: Any = None
    announced: bool = True
    closed: bool = False
    named: bool = False
    shown: bool = False
    pieces: dict[tuple[str, int], list[str]] = field(default_factory=dict)

    @property
    def kind(self) -> Any:
        """The type of the item."""
        return self.item.get("type")

    def joined(self, kind: str) -> str:
        """All pieces of ``kind`` as one text."""
        return "".join(piece for (of, _), pieces in self.pieces.items() if of == kind for piece in pieces)

    def whole(self) -> Mapping[str, Any]:
        """The finished item; what it does not say, or one that was never finished, is made of its pieces."""
        if self.kind == "function_call":
            said, streamed = argument_text(self.item.get("arguments"), absent=""), self.joined("arguments")
            first, second = (said, streamed) if self.closed else (streamed, said)
            return {**self.item, "call_id": self.call_id, "arguments": first if first.strip() else second}
        if self.kind == "reasoning" and not self.closed and (text := self.joined("reasoning")):
            return {**self.item, "summary": [{"type": "summary_text", "text": text}]}
        if self.kind == "message" and not (self.closed and any(text for _, text in texts_of(self.item.get("content")))):
            texts = [{"type": "output_text", "text": text, "annotations": []} for text in [self.joined("text")] if text]
            refusals = [{"type": "refusal", "refusal": text} for text in [self.joined("refusal")] if text]
            return {**self.item, "content": [*texts, *refusals]} if texts or refusals else self.item
        return self.item


class ResponsesParser(EventParser):
    """Reads one streamed reply.

    The reply is built from the items that ``response.output_item.done`` closes; deltas are for display. Items that
    were never closed come from the output of the last event, and only without that from their deltas. Events are
    joined to their items by ``item_id``, else by ``output_index``; without a known one they mean the last item of
    their kind, since some servers leave out every index and others give each event an id of its own. What an event
    tells whole wins over the pieces before it. The status inside the last event wins over the event's name.
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
        event = unwrapped(event)
        if not isinstance(event, dict):
            return ()
        kind = str_of(event.get("type"))
        if not kind and isinstance(event.get("output"), list):  # a whole reply in one event
            return self._ended(event, "completed")
        if not kind or kind == "error" or event.get("error"):
            self._check(event, kind)
        if kind in _PIECES:
            return self._piece(event, _PIECES[kind], event.get("delta"))
        if kind in _WHOLES:
            part, name = _WHOLES[kind]
            return self._said_again(event, part, event.get(name))
        if kind == "response.reasoning_summary_part.added" and count_of(event.get("summary_index")):
            return self._piece(event, "reasoning", "\n\n")
        if kind == "response.output_item.added":
            return self._added(event)
        if kind == "response.output_item.done":
            return self._closed(event)
        if kind in _ENDS:
            return self._ended(object_of(event.get("response")), _ENDS[kind])
        if kind in _PARTS:
            return self._part_again(event)
        return ()

    def _check(self, event: Mapping[str, Any], kind: str) -> None:
        """Raise the error that an event reports, or is."""
        error = error_in(event)
        if error is None and (kind == "error" or event.get("error") is not None):
            error = event
        if error is not None:
            raise failure(error, self.stamp)

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
        slot = self._open({"type": kind, **({"role": "assistant"} if kind == "message" else {})}, event)
        slot.announced = False
        return slot

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
        if not item:
            return ()
        known = (slot for key in _keys(event) if (slot := self._by_key.get(key)) is not None)
        early = next((slot for slot in known if not slot.announced and slot.kind == item.get("type")), None)
        if early is None:
            return self._named(self._open(item, event))
        early.item, early.announced = item, True
        self._by_key |= dict.fromkeys(_keys(event), early)
        return self._named(early)

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

    def _piece(self, event: Mapping[str, Any], kind: str, piece: Any) -> Iterable[TokenDelta]:
        text = _text(kind, piece)
        if not text:
            return ()
        slot = self._slot(event, _ITEMS[kind])
        slot.pieces.setdefault((kind, _part_number(event)), []).append(text)
        return self._show(slot, kind, text)

    def _show(self, slot: _Slot, kind: str, text: str) -> Iterator[TokenDelta]:
        slot.shown = True
        shown = self._shown(text, slot.call_id if kind == "arguments" else kind)
        if kind == "arguments" and shown:
            yield TokenDelta(call_id=slot.call_id, tool=str_of(slot.item.get("name")), arguments=shown)
        elif shown:
            yield TokenDelta(reasoning=shown) if kind == "reasoning" else TokenDelta(text=shown)

    def _said_again(self, event: Mapping[str, Any], kind: str, whole: Any) -> Iterator[TokenDelta]:
        """The whole of what pieces told: what they lack is shown, and it stands in their place."""
        slot, text = self._slot(event, _ITEMS[kind]), _text(kind, whole)
        if slot.closed:
            return
        if kind == "arguments" and str_of(event.get("name")) and not str_of(slot.item.get("name")):
            slot.item = {**slot.item, "name": event["name"]}
            yield from self._named(slot)
        place = (kind, _part_number(event))
        told = "".join(slot.pieces.get(place, ()))
        if not text or told.endswith(text):  # the end alone: several parts may go by one number
            return
        slot.pieces[place] = [text]
        if text.startswith(told):
            yield from self._show(slot, kind, text[len(told) :])

    def _part_again(self, event: Mapping[str, Any]) -> Iterator[TokenDelta]:
        for kind, text in texts_of(event.get("part")):
            yield from self._said_again(event, kind, text)

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
        slots: list[_Slot] = []
        for index, item in enumerate(output):
            slot = self._known(item, index)
            taken = any(slot is one for one in slots)
            if taken and _contents(slot.item) != _contents(item):
                slot, taken = _new_slot(item), False
            if not taken:
                slots.append(slot)
        return slots

    def _known(self, item: Mapping[str, Any], index: int) -> _Slot:
        """The slot of ``item`` of the last event: as it was closed before if it was, and under its call id."""
        key = str_of(item.get("id")) or str_of(item.get("call_id"))
        slot = self._by_key.get(key) if key else None
        if (
            slot is None
            or slot.kind != item.get("type")
            or _same(item.get("call_id"), slot.item.get("call_id")) is False
        ):
            slot = self._match(item, index) or _new_slot(item)
        if not slot.closed:
            slot.item, slot.closed = item, True
        return slot

    def _finished(self) -> CompletionResponse:
        if self._end is None:
            raise self._cut()
        return response_of(self._end, self.stamp)


def _new_slot(item: Mapping[str, Any]) -> _Slot:
    """For an item that only the last event tells."""
    return _Slot(item, str_of(item.get("call_id")) or new_id("call"), closed=True)


def _text(kind: str, piece: Any) -> str:
    if isinstance(piece, str):
        return piece
    if kind == "arguments":
        return argument_text(piece, absent="") if isinstance(piece, dict) else ""
    return "".join(text for _, text in texts_of(piece))


def _part_number(event: Mapping[str, Any]) -> int:
    return count_of(event.get("content_index")) or count_of(event.get("summary_index"))


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
