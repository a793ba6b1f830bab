"""Puts the pieces of one reply together: text, reasoning and calls, in the order in which they began."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from ..protocol.codec import dumps, parse_call
from ..protocol.messages import Part, ReasoningPart, TextPart, new_id
from ..runtime.models import TokenDelta
from .event_parser import str_of

Kind = Literal["text", "refusal", "reasoning", "call"]
_REASONING = ("reasoning_content", "reasoning")


class Segment:
    """A stretch of the reply, in pieces. ``sent`` counts those that were given out; a call knows more of itself."""

    __slots__ = ("extra", "held", "id", "index", "kind", "name", "pieces", "sent", "shown", "theirs")

    def __init__(self, kind: Kind) -> None:
        self.kind: Kind = kind
        self.pieces: list[str] = []
        self.sent = 0
        self.held = ""  # the first half of a character whose second half is to come
        self.shown = False
        self.extra: dict[str, Any] = {}
        self.id = ""
        self.theirs = ""
        self.index: int | None = None
        self.name = ""

    @property
    def text(self) -> str:
        """All of it; halves of a character that came in two pieces are joined."""
        return _paired("".join(self.pieces))

    def fresh(self) -> str:
        """The text since the last time. A half character at its end waits for its other half."""
        pieces = self.pieces
        text = pieces[-1] if self.sent == len(pieces) - 1 else "".join(pieces[self.sent :])
        self.sent = len(pieces)
        if self.held:
            text, self.held = self.held + text, ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self.held = text[:-1], text[-1]
        return text if text.isascii() else _paired(text)


class ChatReply:
    """One reply as it grows. ``take`` gives the deltas since the last time, ``parts`` the whole."""

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._open: Segment | None = None
        self._deltas: list[TokenDelta] = []
        self._calls: list[Segment] = []
        self._details: list[dict[str, Any]] = []

    @property
    def empty(self) -> bool:
        """True until something was said."""
        return not self._segments

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
        if text and isinstance(text, str):
            self.add_text(text)
        elif isinstance(text, list):
            self._add_content_parts(text)
        if (refusal := delta.get("refusal")) and isinstance(refusal, str):
            self._add("refusal", refusal)
        if pieces := delta.get("tool_calls"):
            for place, piece in enumerate(pieces):
                self._add_call(piece, apart=whole or place > 0)
        if function := delta.get("function_call"):  # the old form of one call
            self._add_call({"function": function}, apart=False)

    def take(self) -> Sequence[TokenDelta]:
        """The deltas of what was added since the last time."""
        self._flush()
        deltas, self._deltas = self._deltas, []
        return deltas

    def parts(self) -> tuple[Part, ...]:
        """The reply. Calls keep their argument text as it came."""
        parts = [_part(segment) for segment in self._segments]
        if not self._details:
            return tuple(parts)
        details = {"reasoning_details": self._details}
        for place, part in enumerate(parts):
            if isinstance(part, ReasoningPart):
                parts[place] = replace(part, extra={**part.extra, **details})
                return tuple(parts)
        return (ReasoningPart(text="", redacted=True, extra=details), *parts)

    # ---- text -----------------------------------------------------------------------------------------------------

    def _add(self, kind: Kind, text: str) -> Segment:
        segment = self._open
        if segment is None or segment.kind != kind:
            segment = self._begin(kind)
        segment.pieces.append(text)
        return segment

    def _begin(self, kind: Kind) -> Segment:
        self._flush()
        segment = self._open = Segment(kind)
        self._segments.append(segment)
        return segment

    def _add_content_parts(self, content: list[Any]) -> None:
        """Mistral streams lists of text and thinking."""
        for part in content:
            if isinstance(part.get("text"), str):
                self._add("text", part["text"])
            for thought in part.get("thinking") or ():
                self._add("reasoning", thought["text"])

    def _add_reasoning(self, delta: Mapping[str, Any]) -> None:
        for field in _REASONING:
            if (text := delta.get(field)) and isinstance(text, str):
                self._add("reasoning", text).extra.setdefault("reasoning_field", field)
                break
        else:
            for detail in delta.get("reasoning_details") or ():
                if (text := detail.get("text") or detail.get("summary")) and isinstance(text, str):
                    self._add("reasoning", text)
        for detail in delta.get("reasoning_details") or ():
            self._add_detail(dict(detail))

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
        function = piece.get("function") or {}
        name, arguments = str_of(function.get("name")), _argument_text(function.get("arguments"))
        theirs, index = str(piece.get("id") or ""), _index(piece)
        call = self._find(theirs, index, name)
        if call is not None and theirs == call.theirs != "" and arguments and arguments == "".join(call.pieces):
            return  # the whole call is said again
        if call is None or _another(call, theirs, name, arguments, apart):
            call = self._begin_call(theirs, index)
        if call is not self._open:
            self._flush()
            self._open = call
        call.theirs = call.theirs or theirs
        call.name = call.name or name
        if arguments:
            call.pieces.append(arguments)
        if extra := piece.get("extra_content"):  # Gemini's signature, as its compatible endpoint sends it
            call.extra["extra_content"] = extra

    def _find(self, theirs: str, index: int | None, name: str) -> Segment | None:
        """The call that a piece may belong to: by its index, by its id, or with neither the last one."""
        calls = self._calls[::-1]
        if index is not None and (found := [call for call in calls if call.index == index]):
            return next((call for call in found if theirs and call.theirs == theirs), found[0])
        for call in calls:
            free = index is None or call.index is None
            if not theirs and free:
                return call
            if theirs and ((theirs == call.theirs and (free or not name)) or (free and not call.theirs and not name)):
                return call
        return None

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


def _part(segment: Segment) -> Part:
    if segment.kind == "call":
        call = parse_call(segment.id, segment.name, segment.text)
        return replace(call, extra=segment.extra) if segment.extra else call
    if segment.kind == "reasoning":
        return ReasoningPart(text=segment.text, extra=segment.extra)
    return TextPart(text=segment.text, extra={"refusal": True} if segment.kind == "refusal" else {})


def _another(call: Segment, theirs: str, name: str, arguments: str, apart: bool) -> bool:
    """True when a piece that was found to belong to ``call`` begins another one all the same.

    Names arrive whole, and so does an id: a different one is another call. The same name again is another call only
    when the first call is complete and the piece begins anew.
    """
    if theirs and call.theirs and theirs != call.theirs:
        return True
    if not name or not call.name:
        return False
    if apart:
        return True
    if name != call.name:
        return not theirs
    return arguments.lstrip().startswith("{") and _is_object("".join(call.pieces))


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _argument_text(arguments: Any) -> str:
    """A string as it is; null means nothing; some servers send the object itself."""
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return dumps(arguments)


def _index(piece: Mapping[str, Any]) -> int | None:
    index = piece.get("index")
    return index if isinstance(index, int) and not isinstance(index, bool) else None


def _paired(text: str) -> str:
    """``text`` with every surrogate pair joined; a lone surrogate stays."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
