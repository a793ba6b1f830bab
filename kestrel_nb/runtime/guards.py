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
        self._guards: dict[object, SessionGuard] = {}

    def __len__(self) -> int:
        return len(self._guards)

    def add(self, guard: SessionGuard) -> Callable[[], None]:
        """Ask ``guard`` from now on. It vetoes by returning a reason or False, or by raising; returns a disposer."""
        key = object()
        self._guards[key] = guard

        def dispose() -> None:
            self._guards.pop(key, None)

        return dispose

    def check(self, context: SessionGuardContext) -> None:
        """Raise SessionGuardError with the first guard's reason. A guard that fails refuses."""
        for guard in tuple(self._guards.values()):
            try:
                answer = guard(context)
            except SessionGuardError:
                raise
            except Exception as error:
                raise SessionGuardError(f"a guard failed ({type(error).__name__}: {error})") from error
            if isinstance(answer, str) and answer.strip():
                raise SessionGuardError(answer)
            if answer is False or isinstance(answer, str):
                raise SessionGuardError(f"a guard refused to {context.action} the session")
