"""Reads a reply of a local model while it is being written."""

from __future__ import annotations

import json
import re
from typing import Final

from ..protocol.codec import parse_call
from ..protocol.messages import Part, TextPart, new_id
from ..runtime.models import TokenDelta

_HEAD: Final = re.compile(r'\s*\{\s*"tool"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*(?:"text"\s*:\s*(")|"arguments"\s*:\s*)')
# The inside of a JSON string, as far as its characters are complete: half of a surrogate pair waits for the other.
_INSIDE: Final = re.compile(
    r'(?:[^"\\]|\\["\\/bfnrt]|\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\u[0-9a-fA-F]{4}|(?=[^\\]|\\[^u]))'
    r"|\\u(?![dD][89abAB])[0-9a-fA-F]{4})*"
)


class PlainReply:
    """A reply that is text as it stands."""

    def __init__(self) -> None:
        self._text = ""

    def feed(self, piece: str) -> list[TokenDelta]:
        """What ``piece`` adds; no delta is empty."""
        self._text += piece
        return [TokenDelta(text=piece)] if piece else []

    def parts(self) -> tuple[Part, ...]:
        """The reply so far."""
        return (TextPart(text=self._text),) if self._text else ()


class CallOrAnswer:
    """A reply of the form ``{"tool": NAME, "arguments": {...}}`` or ``{"tool": "answer", "text": "..."}``."""

    def __init__(self) -> None:
        self._rest = ""
        self._started = self._is_text = False
        self._text = ""
        self._call_id = self._tool = self._arguments = ""
        self._depth = 0
        self._quoted = self._escaped = self._complete = False

    def feed(self, piece: str) -> list[TokenDelta]:
        """What ``piece`` adds; no delta is empty."""
        self._rest += piece
        if self._started:
            return self._more()
        head = _HEAD.match(self._rest)
        if head is None:
            return []
        self._started, self._rest = True, self._rest[head.end() :]
        if head[2]:
            self._is_text = True
            return self._more()
        self._tool, self._call_id = json.loads(head[1], strict=False), new_id("call")
        return [TokenDelta(call_id=self._call_id, tool=self._tool), *self._more()]

    def parts(self) -> tuple[Part, ...]:
        """The reply so far: an answer's text, or the call with the arguments that came; nothing before either began."""
        if self._call_id:
            return (parse_call(self._call_id, self._tool, self._arguments),)
        return (TextPart(text=self._text),) if self._text else ()

    def _more(self) -> list[TokenDelta]:
        return self._more_text() if self._is_text else self._more_arguments()

    def _more_text(self) -> list[TokenDelta]:
        found = _INSIDE.match(self._rest)
        if found is None or not found[0]:
            return []
        self._rest = self._rest[found.end() :]
        text: str = json.loads(f'"{found[0]}"', strict=False)
        self._text += text
        return [TokenDelta(text=text)]

    def _more_arguments(self) -> list[TokenDelta]:
        """The arguments end with the bracket that closes the first one; what follows closes the reply."""
        taken = ""
        for character in self._rest:
            if self._complete:
                break
            if not self._depth and character.isspace():
                continue
            taken += character
            self._step(character)
        self._rest = ""
        self._arguments += taken
        return [TokenDelta(call_id=self._call_id, tool=self._tool, arguments=taken)] if taken else []

    def _step(self, character: str) -> None:
        if self._escaped:
            self._escaped = False
        elif character == "\\":
            self._escaped = self._quoted
        elif character == '"':
            self._quoted = not self._quoted
        elif not self._quoted and character in "{[":
            self._depth += 1
        elif not self._quoted and character in "}]":
            self._depth -= 1
            self._complete = self._depth == 0
