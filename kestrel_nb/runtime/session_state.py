"""The stored state of a session while it is in memory, and what of it is not written yet."""

from __future__ import annotations

import time
from dataclasses import replace

from ..protocol.messages import ChatMessage, ToolCallPart
from ..protocol.sessions import (
    ApprovalRecord,
    ApprovalRequest,
    PermissionRule,
    SessionDetail,
    SessionStep,
    SessionSummary,
)
from .spending import Spending
from .transcript import Transcript


class SessionState:
    """A SessionDetail that can change. It tells nobody and writes nothing."""

    def __init__(self, detail: SessionDetail) -> None:
        self.load(detail)

    def load(self, detail: SessionDetail) -> None:
        """Become ``detail``, all of it written already."""
        self.base = detail
        self.transcript = Transcript(detail.messages)
        self.title, self.model, self.workspace = detail.title, detail.model, detail.workspace
        self.updated_at = detail.updated_at
        self.prompt = detail.system_prompt
        self.rules: list[PermissionRule] = list(detail.rules)
        self.pending: dict[str, ApprovalRequest] = {request.id: request for request in detail.pending}
        self.approvals: list[ApprovalRecord] = list(detail.approvals)
        self.started: list[str] = list(detail.started)
        self.usage = detail.usage
        self.spending = Spending(detail.spent)
        self.seq = detail.seq
        self.run_id = detail.run_id
        self.mark_written()

    def mark_written(self) -> None:
        """Everything there is now will be written by the next write."""
        self._written_messages = len(self.transcript)
        self._written_approvals = len(self.approvals)

    def detail(self) -> SessionDetail:
        """Everything that is stored."""
        return replace(
            self.base,
            title=self.title,
            model=self.model,
            workspace=self.workspace,
            updated_at=self.updated_at,
            system_prompt=self.prompt,
            messages=self.transcript.messages,
            rules=tuple(self.rules),
            pending=tuple(self.pending.values()),
            approvals=tuple(self.approvals),
            started=tuple(self.started),
            usage=self.usage,
            spent=self.spending.entries,
            run_id=self.run_id,
            seq=self.seq,
        )

    def step(self) -> SessionStep:
        """What came since the last write."""
        return SessionStep(
            seq=self.seq,
            updated_at=self.updated_at,
            run_id=self.run_id,
            title=self.title,
            messages=self.transcript.since(self._written_messages),
            approvals=tuple(self.approvals[self._written_approvals :]),
            pending=tuple(self.pending.values()),
            started=tuple(self.started),
            rules=tuple(self.rules),
            usage=self.usage,
            spent=self.spending.entries,
        )

    def summary(self, *, is_running: bool, model: str) -> SessionSummary:
        """The session as a list shows it, without touching its messages."""
        return SessionSummary(
            id=self.base.id,
            title=self.title,
            model=model,
            workspace=self.workspace,
            created_at=self.base.created_at,
            updated_at=self.updated_at,
            message_count=len(self.transcript),
            is_running=is_running,
            pending_approvals=len(self.pending),
            tenant_id=self.base.tenant_id,
            usage=self.usage,
            cost=self.cost,
        )

    @property
    def cost(self) -> float | None:
        """What all runs cost in US dollars, None when it is not known of every reply."""
        return self.spending.cost if self.spending.usage == self.usage else None

    def append(self, message: ChatMessage) -> ChatMessage:
        """Add ``message``, made fit for the transcript; calls it answers are no longer begun."""
        message = self.transcript.adopt(message)
        self.transcript.append(message)
        for result in message.tool_results:
            self.end_call(result.call_id)
        self.updated_at = message.created_at
        return message

    def end_call(self, call_id: str) -> None:
        """The call ``call_id`` has its result, or never gets one: it is no longer begun."""
        if call_id in self.started:
            self.started.remove(call_id)

    def clear_from(self, index: int) -> int:
        """Drop the messages from ``index`` on and what belongs to them; returns how many."""
        messages = self.transcript.messages
        self.transcript = Transcript(messages[:index])
        self.started, self.run_id = [], None
        return len(messages) - index

    def touch(self) -> None:
        """Mark it as changed now."""
        self.updated_at = max(time.time(), self.updated_at)

    def interrupted(self) -> tuple[ToolCallPart, ...]:
        """Calls without a result that no question waits for: they had begun when a process ended."""
        waiting = {request.call_id for request in self.pending.values()}
        return tuple(
            call
            for call in self.transcript.unanswered()
            if call.id not in waiting and (not waiting or call.id in self.started)
        )
