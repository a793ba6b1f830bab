"""Where sessions are kept: the contract, two optional extensions of it, and the store in memory."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ..protocol.errors import StoreError
from ..protocol.sessions import AnsweredBy, ApprovalDecision, SessionDetail, SessionStep, SessionSummary, apply_step


class SessionStore(Protocol):
    """Persistence of sessions. Failures are StoreError."""

    async def list(self) -> list[SessionSummary]: ...
    async def load(self, id: str) -> SessionDetail | None: ...
    async def save(self, session: SessionDetail) -> None: ...
    async def delete(self, id: str) -> None: ...


@runtime_checkable
class StepStore(Protocol):
    """A store that can add one step without writing the whole session again."""

    async def append_step(self, id: str, step: SessionStep) -> None:
        """Add ``step`` to the stored session ``id``; durable when it returns. Raises StoreError."""


@runtime_checkable
class SharedStore(Protocol):
    """A store that several processes use: one of them owns a session, the others may read it and answer for it.

    All methods are quick and synchronous. They raise StoreError when the disk fails.
    """

    def acquire(self, id: str) -> bool:
        """Own the session ``id`` until ``release`` or the end of this process. True when owned (already or now)."""

    def release(self, id: str) -> None:
        """Own it no longer; nothing happens when it was not owned."""

    def owner(self, id: str) -> str | None:
        """Who owns it, in words for a person ("process 4242 on host"); None when nobody or this process does."""

    def load_now(self, id: str) -> SessionDetail | None:
        """What is stored now; None when nothing (readable) is."""

    def post_answer(self, id: str, approval_id: str, decision: ApprovalDecision, by: AnsweredBy) -> bool:
        """Leave an answer for the owner. False when one was left before: the first answer wins."""

    def take_answer(self, id: str, approval_id: str) -> tuple[ApprovalDecision, AnsweredBy] | None:
        """The answer that another process left, once; None when there is none."""


@runtime_checkable
class FolderStore(Protocol):
    """A store that keeps its sessions in a folder: no file tool opens that, also where it lies in a workspace."""

    @property
    def folder(self) -> str: ...


@runtime_checkable
class AttachmentStore(Protocol):
    """A store that can keep large tool data beside a session."""

    async def attach(self, id: str, name: str, text: str) -> str:
        """Keep ``text`` (JSON) under a name made from ``name``; returns where, for a person. Raises StoreError."""


class MemorySessionStore:
    """Keeps sessions for as long as the process lives."""

    def __init__(self) -> None:
        self._sessions: dict[str, SessionDetail] = {}

    async def list(self) -> list[SessionSummary]:
        """Every session, sorted by id."""
        return [self._sessions[id].summary() for id in sorted(self._sessions)]

    async def load(self, id: str) -> SessionDetail | None:
        """The session ``id`` or None."""
        return self._sessions.get(id)

    async def save(self, session: SessionDetail) -> None:
        """Keep ``session`` in the place of what was kept under its id."""
        self._sessions[session.id] = session

    async def delete(self, id: str) -> None:
        """Forget the session ``id``; nothing happens when there is none."""
        self._sessions.pop(id, None)

    async def append_step(self, id: str, step: SessionStep) -> None:
        """Add ``step``. Raises StoreError when the session was never saved."""
        detail = self._sessions.get(id)
        if detail is None:
            raise StoreError(f'session "{id}" was never saved')
        self._sessions[id] = apply_step(detail, step)
