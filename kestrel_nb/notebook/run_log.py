"""What a stored session does not know of the runs of this kernel: the tokens of each, and the request as typed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..app import Kestrel
from ..protocol.events import RunStarted, SessionEvent, UsageUpdated
from ..protocol.sessions import Usage
from ..runtime.truncation import clean_text


@dataclass(slots=True)
class LoggedRun:
    """One run of a session: its model, its request as sent, tokens and cost so far."""

    session_id: str
    model: str
    request: str
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None


class RunLog:
    """Listens to one application at a time; what it heard before stays."""

    def __init__(self) -> None:
        self._runs: dict[str, LoggedRun] = {}
        self._typed: dict[str, str] = {}
        self._leave: Callable[[], None] = lambda: None

    def follow(self, app: Kestrel) -> None:
        """Listen to ``app`` from now on, and to no other."""
        self._leave()
        self._leave = app.sessions.subscribe(self._hear)

    def of(self, session_id: str) -> list[LoggedRun]:
        """The runs of a session in this kernel, oldest first."""
        return [run for run in self._runs.values() if run.session_id == session_id]

    def note_typed(self, sent: str, typed: str) -> None:
        """``typed`` went out as ``sent``, with values in the place of its references."""
        self._typed[clean_text(sent)] = typed

    def typed(self, sent: str) -> str:
        """The request as typed behind a message; ``sent`` itself where an earlier kernel sent it."""
        return self._typed.get(sent, sent)

    def _hear(self, event: SessionEvent) -> None:
        if isinstance(event, RunStarted) and event.run_id is not None:
            self._runs.setdefault(event.run_id, LoggedRun(event.session_id, event.model, event.input))
        elif isinstance(event, UsageUpdated) and event.run_id in self._runs:
            run = self._runs[event.run_id]
            run.usage, run.cost = event.usage, event.cost
