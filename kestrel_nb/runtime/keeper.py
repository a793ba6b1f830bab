"""Keeping a session: when it is written, which process owns it, and what happens to answers after a restart."""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections.abc import Callable

from ..protocol.errors import ApprovalError, KestrelError, SessionOwnedError, UsageError
from ..protocol.sessions import ApprovalRecord, ApprovalRequest, SessionDetail
from .approvals import ApprovalBroker, ArgumentsCheck
from .saving import SaveQueue
from .session_state import SessionState
from .stores import AttachmentStore, MemorySessionStore, SessionStore, SharedStore

SOON_S = 0.02  # what ends sooner than this is stored together with what began it: most steps are one write
ANSWER_WAIT_S = 5.0  # how long an answer from another thread waits for the session's loop to take it
CLOSED = "that question was closed meanwhile; nothing was run"


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
        self._shared = store if isinstance(store, SharedStore) and not hidden else None
        self._broker = broker
        self._hidden = hidden
        self._on_error = on_error
        self._owned = False
        self._soon: asyncio.TimerHandle | None = None
        self._queue = SaveQueue(MemorySessionStore() if hidden else store, state.base.id, on_error)
        self.stored = False  # something of it was read from the store, or put there

    # ---- writing ----------------------------------------------------------------------------------------------

    def write_whole(self) -> None:
        """Put the whole session into the queue; without a running loop it waits for the next write."""
        if self._hidden:
            return
        if not has_loop():
            self._queue.invalidate()
            return
        self._written()
        self._queue.whole(self._state.detail())

    def write_step(self) -> asyncio.Task[bool] | None:
        """Put what is new into the queue; the task ends when it is durable or failed. None for hidden sessions."""
        if self._hidden:
            return None
        if self._queue.needs_whole:
            self._written()
            return self._queue.whole(self._state.detail())
        step = self._state.step()
        self._written()
        return self._queue.step(step, self._state.detail)

    def write_step_soon(self) -> None:
        """Put what is new into the queue in a moment, unless something else writes it earlier."""
        if not self._hidden and self._soon is None:
            self._soon = asyncio.get_running_loop().call_later(SOON_S, self.write_step)

    def _written(self) -> None:
        """Everything there is now is about to be put into the queue."""
        self.stored = True
        self._state.mark_written()
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None

    @property
    def outlives_the_process(self) -> bool:
        """True when what is written is still there after a crash."""
        return not self._hidden and not isinstance(self._store, MemorySessionStore)

    async def write_step_now(self) -> bool:
        """Write what is new and return when it is durable (True) or could not be written."""
        task = self.write_step()
        return True if task is None else await asyncio.shield(task)

    async def drain(self) -> None:
        """Return when everything is written."""
        if self._soon is not None:
            self.write_step()
        await self._queue.drain()

    async def keep_data(self, name: str, text: str) -> str | None:
        """Keep large tool data beside the session; returns where, or None when the store can't."""
        if self._hidden or not isinstance(self._store, AttachmentStore):
            return None
        try:
            return await self._store.attach(self._state.base.id, name, text)
        except (KestrelError, OSError) as error:
            self._on_error(str(error))
            return None

    # ---- owning -----------------------------------------------------------------------------------------------

    @property
    def owned(self) -> bool:
        """True when this process works on the session (with a store that several processes share)."""
        return self._owned

    def own(self) -> SessionDetail | None:
        """Become the one process that works on the session; returns what is stored when it became so just now.

        Raises SessionOwnedError, StoreError.
        """
        store, id = self._shared, self._state.base.id
        if self._owned or store is None:
            return None
        if not store.acquire(id):
            owner = store.owner(id) or "another process"
            raise SessionOwnedError(f"{owner} works on this session; go on there, or begin a new one here")
        self._owned = True
        return store.load_now(id)

    def owner(self) -> str | None:
        """Which other process owns the session; None when none does, or nobody can tell."""
        if self.owned or self._hidden or not isinstance(self._store, SharedStore):
            return None
        try:
            return self._store.owner(self._state.base.id)
        except (KestrelError, OSError):
            return None

    def release(self) -> None:
        """Own it no longer."""
        if self._owned and self._shared is not None:
            self._shared.release(self._state.base.id)
        self._owned = False

    def take_over(self, detail: SessionDetail, *, owned_just_now: bool) -> None:
        """Become what is stored, when it is newer.

        Whoever became the owner just now had nothing of its own to write, whatever its event numbers say.
        """
        state = self._state
        self.stored = True
        if detail.seq > state.seq or (owned_just_now and detail.seq != state.seq):
            self.forget_questions()
            seq = max(detail.seq, state.seq)
            state.load(detail)
            state.seq = seq
        elif detail.seq < state.seq:
            return  # what is here is newer, and maybe not written yet
        self._queue.loaded()

    # ---- stored questions -------------------------------------------------------------------------------------

    def restore_questions(
        self,
        check: Callable[[ApprovalRequest], ArgumentsCheck],
        answered: Callable[[ApprovalRecord], None],
    ) -> None:
        """Let the broker know of stored questions that no run waits for; an answer is handed to ``answered``."""
        home = asyncio.get_running_loop() if has_loop() else None
        for request in self._state.pending.values():
            self._broker.restore(request, lambda record: _on_loop(home, answered, record), check(request))

    def forget_questions(self) -> None:
        """Let the broker forget them; they stay stored."""
        for request in self._state.pending.values():
            self._broker.forget(request.id)

    def claim(self, record: ApprovalRecord) -> bool:
        """Leave ``record`` as the one answer of all processes to a stored question; False when one was left before.

        Raises ApprovalError when nobody asks that any more, StoreError.
        """
        store, request = self._shared, record.request
        if store is None:
            return True
        stored = store.load_now(request.session_id)
        if stored is None or all(other.id != request.id for other in stored.pending):
            raise ApprovalError(CLOSED, code="approval_closed")
        return store.post_answer(request.session_id, request.id, record.decision, record.answered_by)

    def claimed(self, record: ApprovalRecord) -> ApprovalRecord:
        """For the owner: the answer that was left first, which may be another process's. Raises ApprovalError."""
        if self._shared is None:
            return record
        left = self.left_answer(record.request)
        if left is None:
            raise ApprovalError(CLOSED, code="approval_closed")
        return record if left.decision == record.decision else left

    def left_answer(self, request: ApprovalRequest) -> ApprovalRecord | None:
        """For the owner: an answer that another process left to ``request``, once."""
        answer = self._shared.take_answer(request.session_id, request.id) if self._shared else None
        if answer is None:
            return None
        return ApprovalRecord(request=request, decision=answer[0], answered_by=answer[1], at=time.time())


def _on_loop(
    home: asyncio.AbstractEventLoop | None, answered: Callable[[ApprovalRecord], None], record: ApprovalRecord
) -> None:
    """Call ``answered`` on the session's loop while that runs, else here. Raises what it raises."""
    here = asyncio.get_running_loop() if has_loop() else None
    if home is None or home is here or not home.is_running():
        if here is None:
            raise UsageError("no event loop runs here; answer in a coroutine, or with app.run_sync(...) in a script")
        answered(record)
        return
    taken: concurrent.futures.Future[None] = concurrent.futures.Future()

    def take() -> None:
        try:
            answered(record)
            taken.set_result(None)
        except BaseException as error:
            taken.set_exception(error)

    home.call_soon_threadsafe(take)
    taken.result(timeout=ANSWER_WAIT_S)


def has_loop() -> bool:
    """True inside a running event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
