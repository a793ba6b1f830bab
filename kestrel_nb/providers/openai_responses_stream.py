"""OpenAI Responses as replies: events to deltas and finished items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ..protocol.messages import ReasoningPart, TextPart, ToolCallPart, new_id
from ..runtime.models import CompletionResponse, TokenDelta
from .event_parser import EventParser, Whole, argument_text, count_of, object_of, objects_of, str_of
from .forms import error_in, texts_of, unwrapped
from .openai_responses_reply import failure, parts_of, response_of, typed
from .openai_responses_slot import Slot, best_of, contents_of, keys_of, new_slot, renamed, same

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
_FATAL: Final = ("response.error", *_ENDS)  # other events may tell of a failure that the reply outlives


class ResponsesParser(EventParser):
    """Reads one streamed reply.

    The reply is built from the items that ``response.output_item.done`` closes; deltas are for display. Items that
    were never closed come from the output of the last event, and only without that from their deltas. Events are
    joined to their items by ``item_id``, else by ``output_index``; without a known one they mean the last item of
    their kind, since some servers leave out every index and others give each event an id of its own. What an event
    tells whole wins over the pieces before it. The worse of the last event's name and the status inside counts.
    """

    def __init__(self, stamp: str, whole: Whole) -> None:
        super().__init__(stamp, whole)
        self._slots: list[Slot] = []
        self._by_key: dict[str | int, Slot] = {}
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
        if kind in ("", "error") or (event.get("error") and (kind in _FATAL or not kind.startswith("response."))):
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

    def _slot(self, event: Mapping[str, Any], kind: str) -> Slot:
        """The item of type ``kind`` that a piece is about."""
        keys = keys_of(event)
        for key in keys:
            if (known := self._by_key.get(key)) is not None and known.kind == kind:
                return known
        for slot in reversed(self._slots):
            if slot.kind == kind and not slot.closed:
                return slot
        slot = self._open({"type": kind, **({"role": "assistant"} if kind == "message" else {})}, event)
        slot.announced = False
        return slot

    def _match(self, item: Mapping[str, Any], index: Any) -> Slot | None:
        """The slot that ``item`` finishes. A closed one is only meant when it is said again."""
        known = self._by_key.get(str_of(item.get("id")))
        if known is not None and not known.closed and best_of(item, index, [known]) is known:
            return known  # nearly always; the rest is for servers whose ids mean little
        return best_of(item, index, self._slots) or renamed(item, index, self._slots)

    def _open(self, item: Mapping[str, Any], event: Mapping[str, Any]) -> Slot:
        slot = Slot(item, str_of(item.get("call_id")) or new_id("call"), event.get("output_index"))
        self._slots.append(slot)
        self._by_key |= dict.fromkeys(keys_of(event), slot)
        return slot

    def _added(self, event: Mapping[str, Any]) -> Iterable[TokenDelta]:
        item = typed(object_of(event.get("item")))
        if not item:
            return ()
        known = (slot for key in keys_of(event) if (slot := self._by_key.get(key)) is not None)
        early = next((slot for slot in known if not slot.announced and slot.kind == item.get("type")), None)
        if early is None:
            return self._named(self._open(item, event))
        early.item, early.announced = item, True
        self._by_key |= dict.fromkeys(keys_of(event), early)
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

    def _named(self, slot: Slot) -> Iterator[TokenDelta]:
        """The delta that tells a call's name, once."""
        name = str_of(slot.item.get("name"))
        if slot.kind == "function_call" and name and not slot.named:
            slot.named = True
            yield TokenDelta(call_id=slot.call_id, tool=name)

    def _unseen(self, slot: Slot) -> Iterator[TokenDelta]:
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

    def _show(self, slot: Slot, kind: str, text: str) -> Iterator[TokenDelta]:
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
        known = said if said in ("incomplete", "failed", "cancelled") else status
        if known == "failed" and response.get("error"):
            self._end = response
            raise failure(response["error"], self.stamp)
        slots = self._output(response)
        for slot in slots:
            yield from self._unseen(slot)
        self._end = {**response, "status": known, "output": [slot.whole() for slot in slots]}

    def _output(self, response: Mapping[str, Any]) -> list[Slot]:
        """The items of the reply: those that were closed, in the order of their announcement."""
        output = [item for given in objects_of(response.get("output")) if (item := typed(given))]
        closed = [slot for slot in self._slots if slot.closed]
        if not output or (len(closed) == len(self._slots) and len(closed) >= len(output)):
            return self._slots
        slots: list[Slot] = []
        for index, item in enumerate(output):
            slot = self._known(item, index)
            taken = any(slot is one for one in slots)
            if taken and contents_of(slot.item) != contents_of(item):
                slot, taken = new_slot(item), False
            if not taken:
                slots.append(slot)
        return slots

    def _known(self, item: Mapping[str, Any], index: int) -> Slot:
        """The slot of ``item`` of the last event: as it was closed before if it was, and under its call id."""
        slot = self._by_key.get(str_of(item.get("id")) or str_of(item.get("call_id")))
        other_call = slot is not None and same(item.get("call_id"), slot.item.get("call_id")) is False
        if slot is None or other_call or slot.kind != item.get("type"):
            slot = self._match(item, index) or new_slot(item)
        if not slot.closed:
            slot.item, slot.closed = item, True
        return slot

    def _finished(self) -> CompletionResponse:
        if self._end is None:
            raise self._cut()
        return response_of(self._end, self.stamp)


def _text(kind: str, piece: Any) -> str:
    if isinstance(piece, str):
        return piece
    if kind == "arguments":
        return argument_text(piece, absent="") if isinstance(piece, dict) else ""
    return "".join(text for _, text in texts_of(piece))


def _part_number(event: Mapping[str, Any]) -> int:
    return count_of(event.get("content_index")) or count_of(event.get("summary_index"))
