"""Guards: vetoes on creating a session or starting a run, for quotas and the like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ..protocol.errors import SessionGuardError
from ..protocol.sessions import SessionSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionGuardContext:
    """What is about to happen, for whom, beside the sessions that there are."""

    action: Literal["create", "run"]
    session_id: str | None
    tenant_id: str | None
    sessions: tuple[SessionSummary, ...]


SessionGuard = Callable[[SessionGuardContext], "str | bool | None"]


class Guards:
    """The guards in the order they were added."""

    def __init__(self) -> None:
        self._guards: list[SessionGuard] = []

    def add(self, guard: SessionGuard) -> Callable[[], None]:
        """Ask ``guard`` from now on. It vetoes by returning a reason or False, or by raising SessionGuardError."""
        self._guards.append(guard)
        return lambda: self._guards.remove(guard) if guard in self._guards else None

    def check(self, context: SessionGuardContext) -> None:
        """Raise SessionGuardError with the first guard's reason."""
        for guard in tuple(self._guards):
            answer = guard(context)
            if isinstance(answer, str):
                raise SessionGuardError(answer)
            if answer is False:
                raise SessionGuardError(f"a guard refused to {context.action} the session")
