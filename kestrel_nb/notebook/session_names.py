"""What the names of sessions mean in one notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.sessions import CreateSessionRequest

if TYPE_CHECKING:
    from ..app import Kestrel
    from ..runtime.session import AgentSession


class SessionNames:
    """A name is the id of a session. In cells that go through a cassette it means one that this kernel has made: what
    was said in an earlier kernel is in no recording, and nobody else who plays it has said it.
    """

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._ids: dict[str, str] = {}  # of those that stand for a stored session of that name

    def id_of(self, name: str) -> str:
        """The id of the session that ``name`` means here."""
        return self._ids.get(name, name)

    def session(self, app: Kestrel, name: str, *, recorded: bool) -> AgentSession | None:
        """The session that ``name`` means, None when there is none yet; ``recorded``: through a cassette."""
        id = self.id_of(name)
        if not app.sessions.has(id) or (recorded and name not in self._used):
            return None
        self._used.add(name)
        return app.sessions.get(id)

    def free_id(self, app: Kestrel, name: str) -> str | None:
        """The id for a new session of that name; None for any, since a stored one has it."""
        return None if app.sessions.has(name) else name

    def take(self, name: str, session: AgentSession) -> AgentSession:
        """``session`` is the one that ``name`` means from now on."""
        self._used.add(name)
        self._ids[name] = session.id
        return session

    def make(self, app: Kestrel, name: str) -> AgentSession:
        """A new session of that name."""
        return self.take(name, app.sessions.create(CreateSessionRequest(id=self.free_id(app, name))))

    def forget(self) -> None:
        """Through the cassette that is named next, every name begins a new session."""
        self._used.clear()
