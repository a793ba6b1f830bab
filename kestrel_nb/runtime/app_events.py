"""The events of all sessions, by their type."""

from __future__ import annotations

from collections.abc import Callable

from ..protocol.errors import UsageError
from ..protocol.events import EVENT_TYPES, SessionEvent
from ..protocol.suggest import suggestion
from .listeners import EventListener
from .manager import SessionManager


class AppEvents:
    """The events of all sessions, by type."""

    def __init__(self, sessions: SessionManager) -> None:
        self._sessions = sessions

    def subscribe(self, type: str, listener: EventListener) -> Callable[[], None]:
        """Call ``listener`` for every event of ``type``, such as "tool.executed". Returns a disposer.

        Events of direct calls and of unlisted sessions are among them: whatever a tool does is heard here. Raises
        UsageError for a type that does not exist, with the nearest one, and for a listener that can't be called.
        """
        names = sorted(kind.type for kind in EVENT_TYPES)
        if type not in names:
            hint = suggestion(type, names, f"there are: {', '.join(names)}")
            raise UsageError(f'no event type "{type}"; {hint}')
        if not callable(listener):
            raise UsageError(f"the listener of {type} must be a function of one event, not {listener!r}")

        def hear(event: SessionEvent) -> None:
            if event.type == type:
                listener(event)

        return self._sessions.subscribe(hear)
