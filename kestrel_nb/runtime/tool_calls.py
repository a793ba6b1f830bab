"""The only way to a tool: look up, validate, resolve permission, ask, execute, cap, tell.

Every call ends in exactly one result message and exactly one of tool.executed, tool.failed and tool.skipped, whatever
happens. The loop, direct calls and everything built on them come through ``ToolCalls.run``.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal, Protocol

from ..protocol.codec import dumps, jsonable
from ..protocol.errors import CancelledByUser
from ..protocol.events import (
    ApprovalRequested,
    ApprovalResolved,
    Notice,
    SessionEvent,
    TodoUpdated,
    ToolExecuted,
    ToolFailed,
    ToolProgress,
    ToolSkipped,
    ToolStarted,
)
from ..protocol.messages import ChatMessage, JsonObject, ToolCallPart, new_id, tool_message
from ..protocol.sessions import ApprovalRecord, ApprovalRequest, PermissionRule, fingerprint
from ..protocol.tools import PermissionDecision, Preview, TodoItem
from .approvals import AnswerPoll, ApprovalBroker, ApprovalHandler
from .execution import Failure, Stopped, execute, in_daemon_thread
from .permissions import PermissionResolver, decide
from .secrets import Masker
from .signals import CancelSignal, until_cancelled
from .tools import PreviewingTool, Tool, ToolContext, ToolExecutionResult, ToolRegistry, ToolSession
from .truncation import clean_text, truncate
from .validation import format_validation_issues, normalise, validate_arguments

MAX_CONTENT_CHARS = 60_000  # the specification's limit on what a model reads of one result
MAX_DATA_CHARS = 8_000_000  # more structured data than this goes to a file of the session


class CallHost(ToolSession, Protocol):
    """What a call needs of its session."""

    @property
    def rules(self) -> tuple[PermissionRule, ...]: ...
    def offers(self, name: str) -> bool: ...
    def emit(self, kind: type[SessionEvent], **fields: Any) -> None: ...
    def add_rule(self, rule: PermissionRule) -> None: ...
    async def question_opened(self, request: ApprovalRequest) -> None: ...
    async def question_closed(self, record: ApprovalRecord) -> None: ...
    async def call_started(self, call_id: str, *, asked: bool) -> None: ...
    async def keep_data(self, name: str, text: str) -> str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSettings:
    """What the application decides for all calls. ``to_data`` turns values such as DataFrames into JSON data."""

    tools: ToolRegistry
    broker: ApprovalBroker
    logger: logging.Logger
    masker: Masker
    resolve_permission: PermissionResolver | None = None
    approve: ApprovalHandler | None = None
    poll_answer: AnswerPoll | None = None
    to_data: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutcome:
    """How a call ended. ``state`` is executed, failed or skipped; only executed calls have data."""

    state: Literal["executed", "failed", "skipped"]
    message: ChatMessage
    content: str
    data: Any = None
    is_error: bool = False
    terminate: bool = False


@dataclass(kw_only=True, slots=True)
class ToolCalls:
    """The calls of one run. ``decided`` and ``restored`` carry answers and questions over a restart."""

    settings: CallSettings
    host: CallHost
    run_id: str
    signal: CancelSignal
    decided: dict[str, ApprovalRecord] = field(default_factory=dict)
    restored: dict[str, ApprovalRequest] = field(default_factory=dict)
    asks_nobody: bool = False  # a direct call from the user's own code counts as approved by it

    async def run(self, call: ToolCallPart) -> CallOutcome:
        """Work ``call`` to its end. Raises nothing but CancelledError from outside."""
        if self.signal.cancelled:
            return self.skip(call, "not run: the run was stopped", "cancelled")
        tool = self.settings.tools.get(call.name) if self.host.offers(call.name) else None
        if tool is None:
            return self.fail(call, self._unknown(call.name))
        schema = tool.schema.parameters
        problem = call.problem or invalid(tool, call.arguments)
        if problem or call.arguments is None:
            return self.fail(call, f'Invalid arguments for "{call.name}": {problem}')
        arguments = normalise(schema, call.arguments)
        decision, reason = await self._permission(tool, call, arguments)
        if self.signal.cancelled:
            return self.skip(call, "not run: the run was stopped", "cancelled")
        if decision == "deny":
            return self.skip(call, f"not run: {reason}", "denied", is_error=True)
        if decision == "ask" and not self.asks_nobody:
            return await self._ask_then_execute(tool, call, arguments, reason)
        return await self._execute(tool, call, arguments)

    # ---- permission -------------------------------------------------------------------------------------------

    async def _permission(
        self, tool: Tool, call: ToolCallPart, arguments: JsonObject
    ) -> tuple[PermissionDecision, str]:
        """The decision and why. A question that was asked before a restart stays a question, whatever rules say now."""
        if call.id in self.decided or call.id in self.restored:
            return "ask", ""
        resolver = self.settings.resolve_permission
        if resolver is None:
            decision, reason, _ = decide(self.host.rules, tool.schema, arguments)
            return decision, reason
        try:
            answer = resolver(tool, call, self.host)
            chosen = await answer if inspect.isawaitable(answer) else answer
        except Exception as error:
            self.settings.logger.exception("the permission resolver failed")
            return "deny", f"the permission resolver failed ({type(error).__name__})"
        if chosen not in ("auto", "ask", "deny"):
            return "deny", f"the permission resolver answered {chosen!r}, which is none of auto, ask, deny"
        denied, why, _ = decide(self.host.rules, tool.schema, arguments)
        if denied == "deny":
            return "deny", why
        reasons = {"deny": "the permission resolver refused it", "ask": "the permission resolver asks", "auto": ""}
        return chosen, reasons[chosen]

    async def _ask_then_execute(
        self, tool: Tool, call: ToolCallPart, arguments: JsonObject, reason: str
    ) -> CallOutcome:
        record = self.decided.pop(call.id, None)
        if record is None:
            preview, problem = await self._preview(tool, call, arguments)
            if problem:
                return self.fail(call, problem)
            record = await self._ask(tool, call, arguments, reason, preview)
        decision = record.decision
        if self.signal.cancelled or record.answered_by == "cancel":
            return self.skip(call, "not run: the run was stopped before anybody answered", "cancelled")
        if not decision.approved:
            return self.skip(call, declined_text(record), "declined")
        return await self._execute_approved(tool, call, arguments, record)

    async def _preview(
        self, tool: Tool, call: ToolCallPart, arguments: JsonObject
    ) -> tuple[Preview | None, str | None]:
        """What the card shows, or what is wrong already: then nobody is asked about a call that can't work."""
        if not isinstance(tool, PreviewingTool):
            return None, None
        work = in_daemon_thread(tool.preview, arguments, self._context(call, None))
        try:
            shown = await until_cancelled(work, self.signal)
        except CancelledByUser:
            return None, None
        except Exception as error:
            return None, self._mask(str(error) or type(error).__name__)
        return shown, None

    async def _ask(
        self, tool: Tool, call: ToolCallPart, arguments: JsonObject, reason: str, preview: Preview | None
    ) -> ApprovalRecord:
        """Put the question and wait. It is stored before it is shown, and its answer before anything runs."""
        broker = self.settings.broker
        now = time.time()
        request = self.restored.pop(call.id, None) or ApprovalRequest(
            id=new_id("appr"),
            session_id=self.host.id,
            run_id=self.run_id,
            call_id=call.id,
            tool=call.name,
            arguments=dict(arguments),
            reason=reason,
            preview=preview,
            fingerprint=fingerprint(self.host.id, call.id, call.name, arguments),
            created_at=now,
            expires_at=None if broker.timeout_s is None else now + broker.timeout_s,
        )
        question = broker.ask(request, lambda edited: self._edit_problem(tool, edited))
        await self.host.question_opened(request)
        self.host.emit(ApprovalRequested, request=request)
        record = await question.wait(self.signal, handler=self.settings.approve, poll=self.settings.poll_answer)
        self.host.emit(ApprovalResolved, request=request, decision=record.decision, answered_by=record.answered_by)
        if record.decision.approved and record.decision.remember == "session":
            self.host.add_rule(PermissionRule(tool=call.name, action="auto", scope="session"))
        await self.host.question_closed(record)
        return record

    def _edit_problem(self, tool: Tool, edited: JsonObject) -> str:
        """What speaks against edited arguments; "" when nothing does."""
        problem = invalid(tool, edited)
        if problem:
            return problem
        decision, reason, _ = decide(self.host.rules, tool.schema, edited)
        return reason if decision == "deny" else ""

    async def _execute_approved(
        self, tool: Tool, call: ToolCallPart, arguments: JsonObject, record: ApprovalRecord
    ) -> CallOutcome:
        request, edited = record.request, record.decision.arguments
        if request.fingerprint != fingerprint(self.host.id, call.id, call.name, arguments):
            return self.skip(call, "not run: the call is not the one that was approved", "denied", is_error=True)
        if edited is None or dict(edited) == dict(arguments):
            return await self._execute(tool, call, arguments, asked=True, preview=request.preview)
        problem = self._edit_problem(tool, edited)
        if problem:
            return self.fail(call, f'Invalid arguments for "{call.name}": {problem}')
        note = f"A person changed the arguments before approving. It ran with: {dumps(jsonable(edited))}"
        changed = normalise(tool.schema.parameters, edited)
        return await self._execute(tool, call, changed, asked=True, note=self._mask(note))

    # ---- execution --------------------------------------------------------------------------------------------

    async def _execute(
        self,
        tool: Tool,
        call: ToolCallPart,
        arguments: JsonObject,
        *,
        asked: bool = False,
        preview: Preview | None = None,
        note: str = "",
    ) -> CallOutcome:
        await self.host.call_started(call.id, asked=asked)
        self.host.emit(ToolStarted, call_id=call.id, tool=call.name, arguments=arguments)
        began = time.perf_counter()
        outcome = await execute(tool, arguments, self._context(call, preview))
        if isinstance(outcome, Failure):
            return self.fail(call, self._mask(outcome.text), arguments=arguments, note=note)
        if isinstance(outcome, Stopped):
            return self._stopped(call, outcome)
        return await self._finish(call, outcome, (time.perf_counter() - began) * 1000, note)

    def _stopped(self, call: ToolCallPart, outcome: Stopped) -> CallOutcome:
        reason = "cancelled: the run was stopped while this call was running; it may have done a part of its work"
        if outcome.still_running:
            text = f"{call.name} could not be ended and may still be running; its result is ignored"
            self.host.emit(Notice, level="warning", code="tool_still_running", text=text)
        return self.skip(call, reason, "cancelled")

    async def _finish(
        self, call: ToolCallPart, result: ToolExecutionResult, duration_ms: float, note: str
    ) -> CallOutcome:
        full = self._mask(clean_text(str(result.content)))
        content = truncate(full, MAX_CONTENT_CHARS)
        data, marker = await self._data(call, result, full if content != full else None)
        content = "\n".join(text for text in (note, content, marker) if text) if note or marker else content
        self.host.emit(
            ToolExecuted,
            call_id=call.id,
            tool=call.name,
            content=content,
            data=data,
            is_error=result.is_error,
            duration_ms=duration_ms,
        )
        message = tool_message(call, content, is_error=result.is_error, images=result.images)
        return CallOutcome(
            state="executed",
            message=message,
            content=content,
            data=data,
            is_error=result.is_error,
            terminate=result.terminate,
        )

    async def _data(self, call: ToolCallPart, result: ToolExecutionResult, cut_text: str | None) -> tuple[Any, str]:
        """The data for clients, and a line for the model when it went to a file. Text that was cut is kept here."""
        data = result.data
        if data is None:
            data = cut_text
        if data is None:
            return None, ""
        try:
            if self.settings.to_data:
                data = self.settings.to_data(data)
            data = self.settings.masker.mask_json(data)
            text = dumps(jsonable(data))
        except (RecursionError, ValueError, TypeError) as error:
            notice = f"the data of {call.name} is no JSON ({type(error).__name__}) and was left out"
            self.host.emit(Notice, level="warning", code="data_dropped", text=notice)
            return None, ""
        if len(text) <= MAX_DATA_CHARS:
            return data, ""
        kept = await self.host.keep_data(f"{call.name}-{call.id}", text)
        where = f"kept in {kept}" if kept else "not kept"
        notice = f"the data of {call.name} is too large to show ({len(text):,} characters); it was {where}"
        self.host.emit(Notice, level="warning", code="data_too_large", text=notice)
        return {"truncated": True, "characters": len(text), "file": kept}, f"[{notice}]"

    def _context(self, call: ToolCallPart, preview: Preview | None) -> ToolContext:
        loop_emit = self.host.emit

        def progress(message: str) -> None:
            loop_emit(ToolProgress, call_id=call.id, tool=call.name, message=self._mask(clean_text(str(message)))[:500])

        def todos(items: tuple[TodoItem, ...]) -> None:
            loop_emit(TodoUpdated, items=items)

        return ToolContext(
            session=self.host,
            call_id=call.id,
            signal=self.signal,
            logger=self.settings.logger.getChild(call.name),
            preview=preview,
            on_progress=progress,
            on_todos=todos,
        )

    # ---- endings without execution ----------------------------------------------------------------------------

    def fail(
        self, call: ToolCallPart, error: str, *, arguments: JsonObject | None = None, note: str = ""
    ) -> CallOutcome:
        """The call threw, is unknown, or has bad arguments."""
        error = truncate(clean_text(error), MAX_CONTENT_CHARS)
        content = f"{note}\n{error}" if note else error
        shown = arguments if arguments is not None else call.arguments
        self.host.emit(ToolFailed, call_id=call.id, tool=call.name, error=error, arguments=shown)
        message = tool_message(call, content, is_error=True)
        return CallOutcome(state="failed", message=message, content=content, is_error=True)

    def skip(
        self,
        call: ToolCallPart,
        reason: str,
        cause: Literal["declined", "denied", "cancelled", "not_run", "interrupted", "not_decided"],
        *,
        is_error: bool = False,
    ) -> CallOutcome:
        """The call does not run, or its result is not known; the model reads ``reason``."""
        self.host.emit(
            ToolSkipped, call_id=call.id, tool=call.name, reason=reason, cause=cause, arguments=call.arguments
        )
        message = tool_message(call, reason, is_error=is_error)
        return CallOutcome(state="skipped", message=message, content=reason, is_error=is_error)

    def _mask(self, text: str) -> str:
        return self.settings.masker.mask(text)

    def _unknown(self, name: str) -> str:
        names = [tool.schema.name for tool in self.settings.tools.list() if self.host.offers(tool.schema.name)]
        near = get_close_matches(name.rsplit(".", 1)[-1], names, n=1, cutoff=0.6)
        hint = f' Did you mean "{near[0]}"?' if near else ""
        return f'Unknown tool "{name}".{hint} Available tools: {", ".join(names) or "none"}.'


def invalid(tool: Tool, arguments: JsonObject | None) -> str:
    """What is wrong with ``arguments``, as one line; "" when nothing is."""
    issues = validate_arguments(tool.schema.parameters, arguments)
    return format_validation_issues(issues) if issues else ""


def declined_text(record: ApprovalRecord) -> str:
    """What the model reads of a decline; no error, and apart from a question that nobody answered."""
    reason = record.decision.reason
    if record.answered_by == "timeout":
        return f"not run: nobody answered the question in time ({reason})"
    who = "the policy for runs without a person" if record.answered_by == "policy" else "the user"
    return f"declined: {who} declined this call" + (f". Reason: {reason}" if reason else ".")
