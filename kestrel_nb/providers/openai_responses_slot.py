"""The items of a Responses reply as they arrive, and which item an event is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..protocol.messages import new_id
from .event_parser import argument_text, object_of, str_of
from .forms import texts_of


@dataclass(slots=True)
class Slot:
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


def new_slot(item: Mapping[str, Any]) -> Slot:
    """For an item that only the last event tells."""
    return Slot(item, str_of(item.get("call_id")) or new_id("call"), closed=True)


def best_of(item: Mapping[str, Any], index: Any, slots: Iterable[Slot]) -> Slot | None:
    """The slot that ``item`` finishes, by ids and then by place. A closed one is only meant when it is said again."""
    best, most = None, (False, False, False, False)
    for slot in slots:
        same_id = same(item.get("id"), slot.item.get("id"))
        same_call = same(item.get("call_id"), slot.item.get("call_id"))
        if slot.kind != item.get("type") or same_call is False:
            continue
        if slot.closed and not ((same_id or same_call) and contents_of(slot.item) == contents_of(item)):
            continue
        marks = (same_id is True, same_call is True, same(index, slot.index) is True, same_id is None)
        if marks > most:
            best, most = slot, marks
    return best


def renamed(item: Mapping[str, Any], index: Any, slots: Iterable[Slot]) -> Slot | None:
    """The open slot that ``item`` finishes under another call id: some servers make one for each event."""
    for slot in slots:
        same_id, same_index = same(item.get("id"), slot.item.get("id")), same(index, slot.index)
        found = same_index is not False if same_id else same_index is True and same_id is None
        same_name = same(item.get("name"), slot.item.get("name")) is not False
        if found and same_name and slot.kind == item.get("type") and not slot.closed:
            return slot
    return None


def same(one: Any, other: Any) -> bool | None:
    """Whether two keys are the same; None where one of them is missing."""
    return None if one in (None, "") or other in (None, "") else bool(one == other)


def contents_of(item: Mapping[str, Any]) -> list[Any]:
    """What ``item`` says, whatever it is called."""
    return [item.get(name) for name in ("name", "arguments", "content", "summary")]


def keys_of(event: Mapping[str, Any]) -> list[str | int]:
    """What may name the item of ``event``, the surest first."""
    item = object_of(event.get("item"))
    keys = (event.get("item_id"), item.get("id"), item.get("call_id"), event.get("output_index"))
    return [key for key in keys if key != "" and isinstance(key, (str, int)) and not isinstance(key, bool)]
