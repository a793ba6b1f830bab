"""A session among processes: who works on it, and what becomes of the questions that a stored one had left open."""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod

from ..protocol.errors import ApprovalError, SessionOwnedError, UsageError
from ..protocol.events import ApprovalResolved
from ..protocol.sessions import ApprovalDecision, ApprovalRecord, ApprovalRequest, PermissionRule, SessionDetail
from .approvals import ArgumentsCheck
from .call_questions import invalid
from .keeper import CLOSED
from .run import Run
from .session_host import SessionHost, SessionServices
from .tool_calls import ToolCalls

LEFT_BEFORE = "another answer was left before; that one counts"


class OwnedSession(SessionHost, ABC):
    """The part of ``AgentSession`` that one process at a time may have."""

    def __init__(self, detail: SessionDetail, services: SessionServices, *, hidden: bool = False) -> None:
        super().__init__(detail, services, hidden=hidden)
        self._calls: ToolCalls | None = None  # of the run that is going
        self._dropped = False

    @abstractmethod
    def _resume(self, record: ApprovalRecord) -> Run:
        """Go on after a restart: the stored question of ``record`` was answered."""

    @property
    def pending(self) -> tuple[ApprovalRequest, ...]:
        """The questions that wait for an answer."""
        return tuple(self._state.pending.values())

    @property
    def approvals(self) -> tuple[ApprovalRecord, ...]:
        """The questions that were answered, oldest first."""
        return tuple(self._state.approvals)

    # ---- owning -----------------------------------------------------------------------------------------------

    def own(self) -> None:
        """Make sure that this process may change the session. Raises SessionOwnedError, StoreError, UsageError."""
        if self._dropped:
            raise UsageError("this session was deleted or its application closed; get or create another one")
        detail = self._keeper.own()
        if detail is not None:
            self._load(detail, owned_just_now=True)

    def reload(self, detail: SessionDetail) -> None:
        """Take over what another process stored, when it is newer. Nothing happens while a run is going."""
        if self.is_running:
            return
        self._load(detail, owned_just_now=False)
        for request in self.pending if self._keeper.owned else ():
            left = self._keeper.left_answer(request)
            if left is not None:
                self._services.calls.broker.forget(request.id)
                self._services.calls.broker.note(left)
                self._bind_loop()
                self._resume(left)
                return

    def _load(self, detail: SessionDetail, *, owned_just_now: bool) -> None:
        self._keeper.take_over(detail, owned_just_now=owned_just_now)
        self._keeper.restore_questions(self._check_for, self._answered)

    def _check_for(self, request: ApprovalRequest) -> ArgumentsCheck:
        tool = self._services.calls.tools.get(request.tool)
        return lambda edited: invalid(tool, edited) if tool else f'the tool "{request.tool}" is not there'

    def _answered(self, record: ApprovalRecord) -> None:
        """A stored question was answered here: resume, or hand the answer to the process that owns the session."""
        broker = self._services.calls.broker
        if self.is_running:
            self._answer_running(record)
            return
        first = self._keeper.claim(record)
        try:
            self.own()
        except SessionOwnedError:
            if not first:
                raise ApprovalError(LEFT_BEFORE, code="approval_closed") from None
            return
        counts = self._keeper.claimed(record)
        if record.request.id not in self._state.pending:
            raise ApprovalError(CLOSED, code="approval_closed")
        broker.forget(record.request.id)
        self._bind_loop()
        self._resume(counts)
        if counts is not record:
            broker.note(counts)
            raise ApprovalError(f"{LEFT_BEFORE}, and the run goes on with it", code="approval_closed")

    def _answer_running(self, record: ApprovalRecord) -> None:
        """A run that was resumed by another answer goes on; its call takes this one when its turn comes."""
        request, calls = record.request, self._calls
        if calls is None or request.id not in self._state.pending or calls.signal.cancelled:
            raise ApprovalError(CLOSED, code="approval_closed")
        broker = self._services.calls.broker
        if broker.is_open(request.id):  # its turn came this instant
            broker.resolve(request.id, record.decision, answered_by=record.answered_by)
            return
        calls.questions.restored.pop(request.call_id, None)
        calls.questions.decided[request.call_id] = record
        self._take(record)

    @property
    def is_stored(self) -> bool:
        """True when it was read from the store or written to it."""
        return self._keeper.stored

    @property
    def is_owned(self) -> bool:
        """True when this process works on it, with a store that several processes share."""
        return self._keeper.owned

    @property
    def owner(self) -> str | None:
        """Which other process works on it, in words for a person; None when none does."""
        return self._keeper.owner()

    def drop(self) -> None:
        """Let go of the session in this process: it stays in the store."""
        self._dropped = True
        self._keeper.forget_questions()
        self._keeper.release()

    def _bind_loop(self) -> None:
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            raise UsageError("no event loop runs here; use app.run_sync(...), or start it in a coroutine") from None
        self._thread = threading.get_ident()

    # ---- closing questions ------------------------------------------------------------------------------------

    def _close_questions(self, reason: str) -> None:
        self._keeper.forget_questions()
        for request in self.pending:
            decision = ApprovalDecision(approved=False, reason=reason)
            self._take(ApprovalRecord(request=request, decision=decision, answered_by="cancel", at=time.time()))

    def _take(self, record: ApprovalRecord) -> None:
        """Keep and tell the answer to a question that no call waits for."""
        request, decision = record.request, record.decision
        self._state.pending.pop(request.id, None)
        self._state.approvals.append(record)
        self._emit(
            ApprovalResolved,
            run_id=request.run_id,
            request=request,
            decision=decision,
            answered_by=record.answered_by,
            recorded_by=record.recorded_by,
        )
        if decision.approved and decision.remember == "session":
            self.add_rule(PermissionRule(tool=request.tool, action="auto", scope="session"))
