"""Keeping a session: when it is written, which process owns it, and what happens to answers after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..protocol.errors import ApprovalError, KestrelError, SessionOwnedError
from ..protocol.sessions import ApprovalRecord, ApprovalRequest, SessionDetail
from .approvals import ApprovalBroker, ArgumentsCheck
from .saving import SaveQueue
from .session_state import SessionState
from .stores import AttachmentStore, MemorySessionStore, SessionStore, SharedStore


class SessionKeeper:
    """The writing side of one session. Hidden sessions are neither written nor owned."""

    def __init__(
        self,
        state: SessionState,
        store: SessionStore,
        broker: ApprovalBroker,
        *,
        hidden: bool,
        on_error: Callable[[str], None],
    ) -> None:
        self._state = state
        self._store = store
        self._broker = broker
        self._hidden = hidden
        self._on_error = on_error
        self._owned = False
        self._queue = SaveQueue(MemorySessionStore() if hidden else store, state.base.id, on_error)

    # ---- writing ----------------------------------------------------------------------------------------------

    def write_whole(self) -> None:
        """Put the whole session into the queue; without a running loop it waits for the next write."""
        if self._hidden or not has_loop():
            return
        self._state.mark_written()
        self._queue.whole(self._state.detail())

    def write_step(self) -> asyncio.Task[None] | None:
        """Put what is new into the queue; the task ends when it is durable. None for hidden sessions."""
        if self._hidden:
            return None
        step = self._state.step()
        self._state.mark_written()
        if self._queue.needs_whole:
            return self._queue.whole(self._state.detail())
        return self._queue.step(step, self._state.detail)

    async def write_step_now(self) -> None:
        """Write what is new and return when it is durable."""
        task = self.write_step()
        if task is not None:
            await asyncio.shield(task)

    async def drain(self) -> None:
        """Return when everything is written."""
        await self._queue.drain()

    async def keep_data(self, name: str, text: str) -> str | None:
        """Keep large tool data beside the session; returns where, or None when the store can't."""
        if self._hidden or not isinstance(self._store, AttachmentStore):
            return None
        try:
            return await self._store.attach(self._state.base.id, name, text)
        except KestrelError as error:
            self._on_error(str(error))
            return None

    # ---- owning -----------------------------------------------------------------------------------------------

    def own(self) -> SessionDetail | None:
        """Become the one process that works on the session; returns what is stored when it became so just now.

        Raises SessionOwnedError.
        """
        store, id = self._store, self._state.base.id
        if self._owned or self._hidden or not isinstance(store, SharedStore):
            return None
        if not store.acquire(id):
            owner = store.owner(id) or "another process"
            raise SessionOwnedError(f"{owner} works on this session; go on there, or begin a new one here")
        self._owned = True
        return store.load_now(id)

    def release(self) -> None:
        """Own it no longer."""
        if self._owned and isinstance(self._store, SharedStore):
            self._store.release(self._state.base.id)
        self._owned = False

    def take_over(self, detail: SessionDetail) -> None:
        """Become what another process stored, when it is newer."""
        self._queue.loaded()
        if detail.seq > self._state.seq:
            self.forget_questions()
            self._state.load(detail)

    # ---- stored questions -------------------------------------------------------------------------------------

    def restore_questions(
        self,
        check: Callable[[ApprovalRequest], ArgumentsCheck],
        resume: Callable[[ApprovalRecord], object],
    ) -> None:
        """Let the broker know of stored questions that no run waits for; an answer is handed to ``resume``."""
        loop = asyncio.get_running_loop() if has_loop() else None

        def settle(record: ApprovalRecord) -> None:
            if has_loop() or loop is None:
                resume(record)
            else:
                loop.call_soon_threadsafe(resume, record)

        for request in self._state.pending.values():
            self._broker.restore(request, settle, check(request))

    def forget_questions(self) -> None:
        """Let the broker forget them; they stay stored."""
        for request in self._state.pending.values():
            self._broker.forget(request.id)

    def hand_over(self, record: ApprovalRecord) -> None:
        """Leave an answer for the process that owns the session. Raises ApprovalError when one was left before."""
        store, request = self._store, record.request
        assert isinstance(store, SharedStore)
        if not store.post_answer(request.session_id, request.id, record.decision, record.answered_by):
            raise ApprovalError("another answer was left before; the first one counts", code="approval_closed")


def has_loop() -> bool:
    """True inside a running event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
