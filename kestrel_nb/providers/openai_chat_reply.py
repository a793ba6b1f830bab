"""Puts the pieces of one reply together: text, reasoning and calls, in the order in which they began."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..protocol.codec import jsonable
from ..protocol.messages import Part, ReasoningPart, new_id
from ..runtime.models import TokenDelta
from .event_parser import argument_text
from .forms import asked_of, listed, texts_of
from .openai_chat_segment import Kind, Segment, begins

_REASONING = ("reasoning_content", "reasoning", "thinking", "reasoning_text")
_KINDS = {
    **{"content": "text", "refusal": "refusal", "tool_calls": "call", "function_call": "call"},
    **dict.fromkeys((*_REASONING, "reasoning_details"), "reasoning"),
}


class ChatReply:
    """One reply as it grows. ``take`` gives the deltas since the last time, ``parts`` the whole."""

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._open: Segment | None = None
        self._deltas: list[TokenDelta] = []
        self._calls: list[Segment] = []
        self._details: list[dict[str, Any]] = []
        self._field: str | None = None  # the name under which reasoning comes

    @property
    def refused(self) -> bool:
        """True when the model refused in so many words."""
        return any(segment.kind == "refusal" for segment in self._segments)

    def add_text(self, text: str) -> None:
        """More text of the answer."""
        if self._open is None or self._open.kind != "text":
            self._begin("text")
        self._open.pieces.append(text)  # type: ignore[union-attr]

    def add(self, delta: Mapping[str, Any], *, whole: bool = False) -> None:
        """Everything that ``delta`` holds. The calls of a ``whole`` message are each complete."""
        self._add_reasoning(delta)
        text = delta.get("content")
        if text.__class__ is str:
            self._add("text", text)
        elif text:
            for kind, part in texts_of(text):
                self._add(kind, part)
        if (refusal := delta.get("refusal")) and isinstance(refusal, str):
            self._add("refusal", refusal)
        calls = listed(delta.get("tool_calls"))
        for place, piece in enumerate(calls):
            self._add_call(piece, apart=whole or place > 0)
        if not calls and (function := delta.get("function_call")):  # the old form of one call
            self._add_call({"function": function}, apart=whole)

    def add_rest(self, message: Mapping[str, Any]) -> None:
        """What a whole ``message`` holds beyond what was streamed before it."""
        said = {segment.kind for segment in self._segments}
        rest = {key: value for key, value in message.items() if _KINDS.get(key) not in said}
        if "call" in said:
            known = {"", *(call.theirs for call in self._calls)}
            rest["tool_calls"] = [call for call in listed(message.get("tool_calls")) if _id(call) not in known]
        self.add(rest, whole=True)

    def take(self) -> Sequence[TokenDelta]:
        """The deltas of what was added since the last time."""
        self._flush()
        deltas, self._deltas = self._deltas, []
        return deltas

    def parts(self) -> tuple[Part, ...]:
        """The reply. Calls keep their argument text as it came; one that was said again stands there once."""
        segments = {segment.key: segment for segment in reversed(self._segments)}
        once = [segment for segment in self._segments if segments[segment.key] is segment]
        parts = [segment.part for segment in once if not segment.blank or len(once) == 1]
        if not self._details:
            return tuple(parts)
        details = {"reasoning_details": self._details}
        for place, part in enumerate(parts):
            if isinstance(part, ReasoningPart):
                parts[place] = replace(part, extra={**part.extra, **details})
                return tuple(parts)
        return (ReasoningPart(text="", redacted=True, extra=details), *parts)

    # ---- text -----------------------------------------------------------------------------------------------------

    def _add(self, kind: Kind, text: str) -> None:
        if not text:
            return
        segment = self._open
        if segment is None or segment.kind != kind:
            segment = self._begin(kind)
        segment.pieces.append(text)

    def _begin(self, kind: Kind) -> Segment:
        self._flush()
        segment = self._open = Segment(kind)
        self._segments.append(segment)
        return segment

    def _add_reasoning(self, delta: Mapping[str, Any]) -> None:
        for field in _REASONING:
            if (text := delta.get(field)) and isinstance(text, str):
                self._add("reasoning", text)
                self._open.extra.setdefault("reasoning_field", field)  # type: ignore[union-attr]
                self._field = field
                break
        if "reasoning_details" not in delta:
            return
        for detail in listed(delta["reasoning_details"]):
            text = detail.get("text") or detail.get("summary")
            if self._field is None and isinstance(text, str):  # else they say the same again
                self._add("reasoning", text)
            self._add_detail(jsonable(detail))

    def _add_detail(self, detail: dict[str, Any]) -> None:
        """OpenRouter streams each detail in pieces with one index: its texts are joined, the rest is kept."""
        index = detail.get("index")
        same = [
            known for known in self._details if known.get("index") == index and known.get("type") == detail.get("type")
        ]
        if index is None or not same:
            self._details.append(detail)
            return
        known = same[-1]
        for key, value in detail.items():
            if key in ("text", "summary", "data") and isinstance(known.get(key), str) and isinstance(value, str):
                known[key] += value
            elif value is not None:
                known[key] = value

    # ---- calls ----------------------------------------------------------------------------------------------------

    def _add_call(self, piece: Mapping[str, Any], *, apart: bool) -> None:
        name, given = asked_of(piece)
        arguments = given if isinstance(given, str) else argument_text(given, absent="")
        theirs, index = _id(piece), _index(piece)
        last = self._open
        if arguments and last is not None and len(piece) == 2 and last.goes_on(theirs, index, name):
            last.pieces.append(arguments)  # nearly all of a long call
            return
        call = self._find(theirs, index, name)
        same_id = call is not None and theirs == call.theirs != ""
        if call is not None and same_id and call.said_again(arguments):
            return
        if call is None or call.ends_at(theirs, name, arguments, apart=apart):
            name = name or (call.name if call is not None and call.again else "")
            call = self._begin_call(theirs, index)
        elif call.void and (same_id or not name) and begins(arguments):
            self._flush()
            call.pieces.clear()  # an empty object stood in the place of what was to come
            call.sent = 0
        if call is not self._open:
            self._flush()
            self._open = call
        call.named(name, arguments)
        call.theirs = call.theirs or theirs
        if arguments:
            call.pieces.append(arguments)
        if extra := piece.get("extra_content"):  # Gemini's signature, as its compatible endpoint sends it
            call.extra["extra_content"] = jsonable(extra)

    def _find(self, theirs: str, index: int | None, name: str) -> Segment | None:
        """The call that a piece may belong to: by its index, by its id, or with neither the last one.

        What has no name begins no call by an id or an index alone: some servers give each piece one of its own.
        """
        calls = self._calls[::-1]
        if index is not None and (found := [call for call in calls if call.index == index]):
            return next((call for call in found if theirs and call.theirs == theirs), found[0])
        for call in calls:
            free = index is None or call.index is None
            if not theirs and free:
                return call
            if theirs and ((theirs == call.theirs and (free or not name)) or (free and not call.theirs and not name)):
                return call
        stray = not name and not (theirs and index is not None)
        return calls[0] if calls and stray and not calls[0].complete else None

    def _begin_call(self, theirs: str, index: int | None) -> Segment:
        taken = any(call.id == theirs for call in self._calls)
        call = self._begin("call")
        call.id = theirs if theirs and not taken else new_id("call")
        call.theirs, call.index = theirs, index
        self._calls.append(call)
        return call

    # ---- what streams ---------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        segment = self._open
        if segment is None:
            return
        text = segment.fresh() if segment.sent < len(segment.pieces) else ""
        if segment.kind == "call":
            if text or (segment.name and not segment.shown):
                segment.shown = bool(segment.name)
                self._deltas.append(TokenDelta(call_id=segment.id, tool=segment.name, arguments=text))
        elif text:
            self._deltas.append(TokenDelta(reasoning=text) if segment.kind == "reasoning" else TokenDelta(text=text))


def _id(piece: Mapping[str, Any]) -> str:
    given = piece.get("id")
    return str(given) if isinstance(given, (str, int)) and not isinstance(given, bool) else ""


def _index(piece: Mapping[str, Any]) -> int | None:
    """The index, which some servers send as text or as 1.0."""
    index = piece.get("index")
    if isinstance(index, str) and index.isdecimal() and len(index) < 10:
        return int(index)
    if isinstance(index, float) and index.is_integer():
        return int(index)
    return index if isinstance(index, int) and not isinstance(index, bool) else None
