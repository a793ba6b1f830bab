"""What ``%kestrel rewind`` gives back: what was taken back, the requests as typed, and what is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..protocol.errors import UsageError
from ..protocol.messages import ChatMessage
from ..runtime.session import AgentSession
from .inspecting import DISCLOSED
from .outgoing import CONTEXT
from .rendering import escape_text
from .visible import visible

FILES = "Files stay as they are, and so do your variables."


@dataclass(frozen=True, slots=True)
class Rewound:
    """``requests`` are those taken back, as typed, oldest first; ``turn`` is the number of the first of them."""

    turn: int
    requests: tuple[str, ...]
    removed: int
    left: int

    @property
    def request(self) -> str:
        """The first request that was taken back, as typed: to be changed and sent again."""
        return self.requests[0]

    def _taken(self) -> str:
        last = self.turn + len(self.requests) - 1
        turns = f"turn {self.turn}" if last == self.turn else f"turns {self.turn} to {last}"
        return f"Took back {turns}: {count(self.removed, 'message')}. {self._left()} {FILES}"

    def _left(self) -> str:
        if not self.left:
            return "Nothing is left in the session."
        turns = count(self.turn - 1, "turn")
        return (
            f"Left in the session: {turns}, {count(self.left, 'message')}."
            if self.turn > 1
            else (f"Left in the session: {count(self.left, 'message')}.")
        )

    def __repr__(self) -> str:
        return "\n".join([self._taken(), *(f"\n{visible(request)}" for request in self.requests)])

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._html()}

    def _html(self) -> str:
        from .sheet import record_sheet

        requests = "".join(
            f'<pre class="kestrel-pre kestrel-wrap"><code>{escape_text(request)}</code></pre>'
            for request in self.requests
        )
        html = f'<div class="kestrel-view"><p class="kestrel-hint">{escape_text(self._taken())}</p>{requests}</div>'
        return f"<style>{record_sheet(html)}</style>{html}"


def take_back(session: AgentSession, word: str | None, typed: Callable[[str], str]) -> Rewound:
    """Take back the turn ``word`` (a number, or the id of its message) and all after it; None: the last turn.

    ``typed`` gives the request behind a message. What the requests of the session disclosed is no longer disclosed:
    which of them did so is not known.
    Raises UsageError when nothing, or no such turn, is there; RewindError and SessionOwnedError of the session.
    """
    if session.is_running:
        raise UsageError("the session is running; wait for its end, or stop it with %kestrel cancel")
    session.own()  # also loads what another process wrote meanwhile: the turns are counted after that
    turns = [message for message in session.messages if message.role == "user"]
    if not turns:
        raise UsageError("nothing to take back: nobody has asked anything in this session")
    number = len(turns) if word is None else _number(word, turns)
    requests = tuple(typed(message.content) for message in turns[number - 1 :])
    event = session.rewind(turns[number - 1].id)
    for key in (DISCLOSED, CONTEXT):
        session.metadata.pop(key, None)
    return Rewound(number, requests, event.removed, len(event.messages))


def _number(word: str, turns: Sequence[ChatMessage]) -> int:
    for number, message in enumerate(turns, 1):
        if word == message.id:
            return number
    if word.isascii() and word.isdecimal() and 1 <= int(word[:9]) <= len(turns):
        return int(word)
    known = "only turn 1" if len(turns) == 1 else f"turns 1 to {len(turns)}"
    raise UsageError(f'no turn "{word}"; there {"is" if len(turns) == 1 else "are"} {known}, see %kestrel history')


def count(number: int, noun: str) -> str:
    """``1 turn``, ``2 turns``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
