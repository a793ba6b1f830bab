"""Asking a person about one call: the preview, the question, its answer, and what all of it is bound to."""

from __future__ import annotations

import inspect
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..protocol.errors import ApprovalError, CancelledByUser
from ..protocol.events import ApprovalRequested, ApprovalResolved
from ..protocol.messages import JsonObject, ToolCallPart, new_id
from ..protocol.sessions import ApprovalRecord, ApprovalRequest, PermissionRule, fingerprint
from ..protocol.tools import PREVIEW_TYPES, Preview
from .call_data import copied
from .call_host import CallHost, CallSettings
from .execution import failure_text, in_daemon_thread
from .interception import PlayedAnswer
from .permissions import decide
from .signals import CancelSignal, until_cancelled
from .tools import PreviewingTool, Tool, ToolContext
from .validation import format_validation_issues, validate_arguments

_NAMES_SHOWN = 20


@dataclass(kw_only=True, slots=True)
class CallQuestions:
    """The questions of one run. ``decided`` and ``restored`` carry answers and questions over a restart, by call."""

    settings: CallSettings
    host: CallHost
    run_id: str
    signal: CancelSignal
    decided: dict[str, ApprovalRecord] = field(default_factory=dict)
    restored: dict[str, ApprovalRequest] = field(default_factory=dict)

    def was_asked(self, call: ToolCallPart) -> bool:
        """True for a question from before a restart: it stays one, whatever the rules say now."""
        return call.id in self.decided or call.id in self.restored

    async def preview(
        self, tool: Tool, arguments: JsonObject, context: ToolContext
    ) -> tuple[Preview | None, str | None]:
        """What the card shows, or what is wrong already: then nobody is asked about a call that can't work."""
        if not isinstance(tool, PreviewingTool):
            return None, None

        async def made() -> Any:
            shown = await in_daemon_thread(tool.preview, copied(arguments), context)
            return await shown if inspect.isawaitable(shown) else shown

        try:
            shown = await until_cancelled(made(), self.signal)
        except CancelledByUser:
            return None, None
        except Exception as error:
            return None, failure_text(error)
        if shown is not None and not isinstance(shown, PREVIEW_TYPES):
            return None, f"its preview is a {type(shown).__name__} and none of the kinds of preview"
        return shown, None

    async def ask(
        self,
        tool: Tool,
        call: ToolCallPart,
        arguments: JsonObject,
        reason: str,
        preview: Preview | None,
        played: PlayedAnswer | None = None,
    ) -> ApprovalRecord:
        """Put the question and wait. It is stored before it is shown, and its answer before anything runs.

        A ``played`` answer is given before anybody hears of the question; one that does not fit any more is none.
        """
        request = self._request(call, arguments, reason, preview)
        question = self.settings.broker.ask(request, lambda edited: self.objection(tool, edited))
        try:
            await self.host.question_opened(request)
            over = played is not None and self._play(request, played)
            self.host.emit(ApprovalRequested, run_id=self.run_id, request=request)
            handler = None if over else self.settings.approve
            record = await question.wait(self.signal, handler=handler, poll=self.settings.poll_answer)
        except BaseException:
            question.close()
            raise
        await take_answer(self.host, record, self.run_id)
        return record

    def _play(self, request: ApprovalRequest, played: PlayedAnswer) -> bool:
        """Give the recorded answer; False when it can't be taken."""
        try:
            self.settings.broker.resolve(
                request.id, played.decision, answered_by="cassette", recorded_by=played.recorded_by
            )
        except ApprovalError:
            return False
        return True

    def _request(
        self, call: ToolCallPart, arguments: JsonObject, reason: str, preview: Preview | None
    ) -> ApprovalRequest:
        timeout, now = self.settings.broker.timeout_s, time.time()
        expires_at = None if timeout is None else now + timeout
        old = self.restored.pop(call.id, None)
        if old is not None:
            return replace(old, expires_at=expires_at, preview=preview)
        return ApprovalRequest(
            id=new_id("appr"),
            session_id=self.host.id,
            run_id=self.run_id,
            call_id=call.id,
            tool=call.name,
            arguments=copied(arguments),
            reason=reason,
            preview=preview,
            fingerprint=fingerprint(self.host.id, call.id, call.name, arguments),
            created_at=now,
            expires_at=expires_at,
        )

    def objection(self, tool: Tool, arguments: JsonObject) -> str:
        """What speaks against these arguments, whoever approves them; "" when nothing does."""
        problem = invalid(tool, arguments)
        if problem:
            return problem
        decision, reason, _ = decide(self.host.rules, tool.schema, arguments)
        return reason if decision == "deny" else ""


async def take_answer(host: CallHost, record: ApprovalRecord, run_id: str) -> None:
    """Tell of an answer and keep what follows from it."""
    request, decision = record.request, record.decision
    host.emit(
        ApprovalResolved,
        run_id=run_id,
        request=request,
        decision=decision,
        answered_by=record.answered_by,
        recorded_by=record.recorded_by,
    )
    if decision.approved and decision.remember == "session":
        host.add_rule(PermissionRule(tool=request.tool, action="auto", scope="session"))
    await host.question_closed(record)


def invalid(tool: Tool, arguments: JsonObject | None) -> str:
    """What is wrong with ``arguments``, as one line; "" when nothing is. A wrong name gets the right ones."""
    schema = tool.schema.parameters
    issues = validate_arguments(schema, arguments)
    if not issues:
        return ""
    known = schema.get("properties")
    names = list(known) if isinstance(known, Mapping) else []
    slip = any(issue.message == "is not allowed" and issue.path in (arguments or {}) for issue in issues)
    hint = f"; it takes: {', '.join(names)}" if slip and 0 < len(names) <= _NAMES_SHOWN else ""
    return format_validation_issues(issues) + hint


def declined_text(record: ApprovalRecord) -> str:
    """What the model reads of a decline; no error, and apart from a question that nobody answered."""
    reason, by = record.decision.reason, record.recorded_by or record.answered_by
    if by == "timeout":
        return f"not run: nobody answered the question in time ({reason})"
    if by == "policy":
        return f"declined: the policy for runs without a person ({reason or 'deny'}) declined this call."
    return "declined: the user declined this call" + (f". Reason: {reason}" if reason else ".")
