"""One stretch of a reply of Chat Completions as it grows: text, reasoning, or a call and what belongs to it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Literal

from ..protocol.codec import parse_call
from ..protocol.messages import Part, ReasoningPart, TextPart
from ..runtime.truncation import clean_text

Kind = Literal["text", "refusal", "reasoning", "call"]


class Segment:
    """A stretch of the reply, in pieces. ``sent`` counts those that were given out; a call knows more of itself.

    ``theirs`` is the id that the server gave it, ``again`` that its name was said again when it was complete.
    """

    __slots__ = ("again", "extra", "held", "id", "index", "kind", "name", "pieces", "sent", "shown", "theirs")

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
        self.again = False

    @property
    def text(self) -> str:
        """All of it; halves of a character that came in two pieces are joined."""
        return clean_text("".join(self.pieces))

    @property
    def part(self) -> Part:
        """It as a part of the reply. A call keeps its argument text as it came."""
        if self.kind == "call":
            call = parse_call(self.id, self.name or "unnamed", self.text)
            return replace(call, extra=self.extra) if self.extra else call
        if self.kind == "reasoning":
            return ReasoningPart(text=self.text, extra=self.extra)
        return TextPart(text=self.text, extra={"refusal": True} if self.kind == "refusal" else {})

    def fresh(self) -> str:
        """The text since the last time. A half character at its end waits for its other half."""
        pieces = self.pieces
        text = pieces[-1] if self.sent == len(pieces) - 1 else "".join(pieces[self.sent :])
        self.sent = len(pieces)
        if self.held:
            text, self.held = self.held + text, ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self.held = text[:-1], text[-1]
        return clean_text(text)

    # ---- calls ----------------------------------------------------------------------------------------------------

    @property
    def complete(self) -> bool:
        """True for a call whose arguments are an object already."""
        last = next((piece for piece in reversed(self.pieces) if piece.strip()), "")
        return last.rstrip().endswith("}") and _object("".join(self.pieces)) is not None

    @property
    def blank(self) -> bool:
        """True for a call that asks for nothing: some servers send an empty one behind the last."""
        return self.kind == "call" and not self.name and not self.pieces

    @property
    def key(self) -> Any:
        """What tells it from others: itself, or for a call with an id of the server's all that it says."""
        return (self.theirs, self.name, self.text) if self.theirs else id(self)

    @property
    def void(self) -> bool:
        """True for a call with an empty object, which may stand in the place of what is to come."""
        return len(self.pieces) == 1 and self.pieces[0].strip() == "{}"

    def goes_on(self, theirs: str, index: int | None, name: str) -> bool:
        """True when a piece can be nothing else than more of the arguments."""
        plain = not (theirs or name) and index is not None and index == self.index
        return plain and self.kind == "call" and bool(self.name) and not (self.again or self.void)

    def named(self, name: str, arguments: str) -> None:
        """Take the name that a piece says: as a rule all of it, again or not; else more of it ahead of arguments."""
        if not name or name == self.name:
            self.again = self.again or bool(name and not arguments.strip() and self.complete)
        elif not self.pieces or not self.name:
            self.name = name if name.startswith(self.name) else self.name + name
            self.shown = False

    def said_again(self, arguments: str) -> bool:
        """True when ``arguments`` are all of the call's, said again in any spelling."""
        if not arguments or not self.pieces:
            return False
        if arguments == self.pieces[0] and len(self.pieces) == 1:
            return True
        return begins(arguments) and self.complete and _object(arguments) == _object("".join(self.pieces))

    def ends_at(self, theirs: str, name: str, arguments: str, *, apart: bool) -> bool:
        """True when a piece that was found to belong to this call begins another one all the same.

        A different id is another call, unless the piece has no name and this call is not complete. Names arrive
        whole; only the head of a call with an id may bring one in pieces. The same name again is another call only
        when this one is complete and the piece begins anew.
        """
        if theirs and self.theirs and theirs != self.theirs:
            if name == self.name:
                return begins(arguments) or not self.pieces or self.complete
            return bool(name) or (bool(arguments.strip()) and self.complete)
        same_id = theirs == self.theirs != ""
        if not name or not self.name:
            return self.again and begins(arguments)
        if apart:
            return True
        if name != self.name:
            in_pieces = not theirs and self.theirs and self.index is not None and not self.pieces
            return not (in_pieces or same_id)
        return begins(arguments) and self.complete and not (self.void and same_id)


def begins(arguments: str) -> bool:
    """True for text that can be the beginning of arguments."""
    return arguments.lstrip().startswith("{")


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
