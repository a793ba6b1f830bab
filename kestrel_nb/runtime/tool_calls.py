"""The only way to a tool: look up, validate, resolve permission, ask, execute, cap, tell.

Every call ends in exactly one result message and exactly one of tool.executed, tool.failed and tool.skipped, whatever
happens. The loop, direct calls and everything built on them come through ``ToolCalls.run``.
"""

from __future__ import annotations

import inspect
import time
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal

from ..protocol.codec import dumps, jsonable
from ..protocol.errors import CancelledByUser
from ..protocol.events import (
    Notice,
    SessionEvent,
    TodoUpdated,
    ToolExecuted,
    ToolFailed,
    ToolProgress,
    ToolSkipped,
    ToolStarted,
)
from ..protocol.messages import ChatMessage, JsonObject, ToolCallPart, tool_message
from ..protocol.sessions import ApprovalRecord, fingerprint
from ..protocol.tools import DiffPreview, PermissionDecision, Preview, TodoItem
from .call_data import copied
from .call_execution import CallExecution
from .call_host import CallHost, CallSettings
from .call_questions import CallQuestions, declined_text, invalid
from .execution import Failure, Stopped
from .interception import Intercepted, Interceptor
from .logs import without_keys
from .permissions import decide, default_permission
from .result_data import ResultData
from .signals import CancelSignal, until_cancelled
from .tools import Tool, ToolContext, ToolExecutionResult
from .truncation import MAX_TOOL_OUTPUT, clean_text, truncate
from .validation import normalise

STOPPED = "not run: the run was stopped"
STOPPED_INSIDE = "cancelled: the run was stopped while this call was running; it may have done a part of its work"
INTERRUPTED = "interrupted: it had begun when the process ended, and its result is unknown; it was not run again"
NOT_STORED = "not run: its start could not be stored, and without that it could run twice after a crash"
EDITED = "A person changed the arguments before approving."  # how the note to the model about that begins
PROGRESS_CHARS = 500

SkipCause = Literal["declined", "denied", "cancelled", "not_run", "interrupted", "not_decided"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutcome:
    """How a call ended. ``state`` is executed, failed or skipped; only executed calls have data, and only calls whose
    tool threw a ToolCallError have its ``code``."""

    state: Literal["executed", "failed", "skipped"]
    message: ChatMessage
    content: str
    data: Any = None
    is_error: bool = False
    terminate: bool = False
    code: str | None = None


@dataclass(kw_only=True, slots=True)
class ToolCalls:
    """The calls of one run. ``begun`` names those that an earlier process had begun: they never run again."""

    settings: CallSettings
    host: CallHost
    run_id: str
    signal: CancelSignal
    asks_nobody: bool = False  # a direct call from the user's own code counts as approved by it
    begun: frozenset[str] = frozenset()
    interceptor: Interceptor | None = None
    questions: CallQuestions = field(init=False)
    _data: ResultData = field(init=False)
    _executing: set[str] = field(default_factory=set, init=False)
    _ended: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self.questions = CallQuestions(settings=self.settings, host=self.host, run_id=self.run_id, signal=self.signal)
        self._data = ResultData(settings=self.settings, host=self.host, signal=self.signal, warn=self._warn)

    async def run(self, call: ToolCallPart) -> CallOutcome:
        """Work ``call`` to its end. Raises nothing but CancelledError from outside."""
        try:
            return await self._run(call)
        except Exception as error:
            self.settings.logger.exception("a call of %s failed outside the tool", call.name)
            return self.fail(call, f"the call could not be worked ({type(error).__name__}: {error})")

    async def _run(self, call: ToolCallPart) -> CallOutcome:
        if call.id in self.begun:
            return self.skip(call, INTERRUPTED, "interrupted")
        if self.signal.cancelled:
            return self.skip(call, STOPPED, "cancelled")
        tool = self.settings.tools.get(call.name)
        refusal = self.settings.policy.refusal(call.name)
        if tool is not None and refusal:
            return self.skip(call, f"not run: {refusal}", "denied", is_error=True)
        if tool is None or not self.host.offers(call.name):
            return self.fail(call, self._unknown(call))
        problem = call.problem or invalid(tool, call.arguments)
        if problem or call.arguments is None:
            return self.fail(call, f'Invalid arguments for "{call.name}": {problem}')
        # Its own copy: whoever holds the model's may change that while a person looks at the question.
        arguments = copied(normalise(tool.schema.parameters, call.arguments))
        decision, reason = await self._permission(tool, call, arguments)
        if self.signal.cancelled:
            return self.skip(call, STOPPED, "cancelled")
        if decision == "deny":
            return self.skip(call, f"not run: {reason}", "denied", is_error=True)
        if self._asks(tool, call, arguments, decision == "ask"):
            return await self._ask_then_execute(tool, call, arguments, reason)
        return await self._execute(tool, call, arguments)

    # ---- permission -------------------------------------------------------------------------------------------

    async def _permission(
        self, tool: Tool, call: ToolCallPart, arguments: JsonObject
    ) -> tuple[PermissionDecision, str]:
        """The decision and why. A resolver that fails means deny."""
        if self.questions.was_asked(call):
            return "ask", ""
        default = default_permission(tool, arguments)
        decision, reason, rule = decide(self.host.rules, tool.schema, arguments, default=default)
        resolver = self.settings.resolve_permission
        if resolver is None or decision == "deny" or (rule is not None and rule.action == "deny"):
            return decision, reason  # where a deny may hold no function of the application lets it run
        try:
            answer = resolver(tool, call, self.host)
            chosen = await until_cancelled(answer, self.signal) if inspect.isawaitable(answer) else answer
        except CancelledByUser:
            return "deny", "the run was stopped"
        except (Exception, SystemExit) as error:
            self.settings.logger.exception("the permission resolver failed")
            return "deny", f"the permission resolver failed ({type(error).__name__})"
        if chosen not in ("auto", "ask", "deny"):
            return "deny", f"the permission resolver answered {chosen!r}, which is none of auto, ask, deny"
        reasons = {"deny": "the permission resolver refused it", "ask": "the permission resolver asks", "auto": ""}
        return chosen, reasons[chosen]

    def _asks(self, tool: Tool, call: ToolCallPart, arguments: JsonObject, asks: bool) -> bool:
        if self.asks_nobody or self.interceptor is None or self.questions.was_asked(call):
            return asks and not self.asks_nobody
        return self.interceptor.asks(self._seen(tool, call, arguments), asks)

    async def _ask_then_execute(
        self, tool: Tool, call: ToolCallPart, arguments: JsonObject, reason: str
    ) -> CallOutcome:
        record = self.questions.decided.pop(call.id, None)
        if record is None:
            preview, problem = await self.questions.preview(tool, arguments, self._context(call, None))
            if problem:
                return self.fail(call, self._mask(problem))
            if self.signal.cancelled:
                return self.skip(call, STOPPED, "cancelled")
            seen, port = self._seen(tool, call, arguments), self.interceptor
            played = port.answer(seen) if port else None
            record = await self.questions.ask(tool, call, arguments, reason, preview, played)
            if port:
                port.answered(seen, record)
        if self.signal.cancelled or record.answered_by == "cancel":
            return self.skip(call, f"{STOPPED} before it could begin", "cancelled")
        if not record.decision.approved:
            return self.skip(call, declined_text(record), "declined")
        return await self._execute_approved(tool, call, arguments, record)

    async def _execute_approved(
        self, tool: Tool, call: ToolCallPart, arguments: JsonObject, record: ApprovalRecord
    ) -> CallOutcome:
        request, edited = record.request, record.decision.arguments
        if request.fingerprint != fingerprint(self.host.id, call.id, call.name, arguments):
            return self.skip(call, "not run: the call is not the one that was approved", "denied", is_error=True)
        changed = edited is not None and dict(edited) != dict(arguments)
        preview = request.preview
        if changed and edited is not None:
            problem = invalid(tool, edited)
            if problem:
                return self.fail(call, f'Invalid arguments for "{call.name}": {problem}')
            preview = preview if _is_same_file(preview, arguments, edited) else None
            arguments = copied(normalise(tool.schema.parameters, edited))
        objection = self.questions.objection(tool, arguments)  # a rule that denies may have come meanwhile
        if objection:
            return self.skip(call, f"not run: {objection}", "denied", is_error=True)
        if not changed:
            return await self._execute(tool, call, arguments, asked=True, preview=request.preview)
        note = f"{EDITED} It ran with: {dumps(jsonable(arguments))}"
        return await self._execute(tool, call, arguments, asked=True, preview=preview, note=self._mask(note))

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
        stored = await self.host.call_started(call.id, asked=asked)
        if self.signal.cancelled:
            return self.skip(call, f"{STOPPED} before it could begin", "cancelled")
        if asked and not stored:
            return self.fail(call, NOT_STORED)
        self._emit(ToolStarted, call_id=call.id, tool=call.name, arguments=arguments)
        began = time.perf_counter()
        self._executing.add(call.id)
        execution = CallExecution(
            tool=tool,
            call=self._seen(tool, call, arguments),
            context=self._context(call, preview),
            data=self._data,
            mask=self._mask,
            warn=self._warn,
        )
        outcome = await execution.outcome(self.interceptor, asked=asked)
        if isinstance(outcome, Failure):
            text = self._mask(outcome.text)
            ended = self.fail(call, text, arguments=arguments, note=note, code=outcome.code)
        elif isinstance(outcome, Stopped):
            ended = self._stopped(call, outcome)
        else:
            ended = await self._finish(call, outcome, (time.perf_counter() - began) * 1000, note)
        self._executing.discard(call.id)  # not before: whoever cancels this meanwhile must hear that the tool ran
        return ended

    def _seen(self, tool: Tool, call: ToolCallPart, arguments: JsonObject) -> Intercepted:
        return Intercepted(call=call, schema=tool.schema, arguments=arguments, workspace=self.host.workspace)

    def _stopped(self, call: ToolCallPart, outcome: Stopped) -> CallOutcome:
        if outcome.still_running:
            text = f"{call.name} could not be ended and may still be running; its result is ignored"
            self._warn("tool_still_running", text)
        return self.skip(call, STOPPED_INSIDE, "cancelled")

    async def _finish(
        self, call: ToolCallPart, result: ToolExecutionResult, duration_ms: float, note: str
    ) -> CallOutcome:
        full = self._mask(clean_text(result.content))
        content = truncate(full, MAX_TOOL_OUTPUT)
        given = full if result.data is None and content != full else result.data  # text that was cut is kept whole
        data, marker = await self._data.for_clients(call, given)
        content = "\n".join(text for text in (note, content, marker) if text) if note or marker else content
        is_error, terminate = bool(result.is_error), bool(result.terminate)
        message = tool_message(call, content, is_error=is_error, images=tuple(result.images))
        self._emit(
            ToolExecuted,
            call_id=call.id,
            tool=call.name,
            content=content,
            data=data,
            is_error=is_error,
            duration_ms=duration_ms,
        )
        return CallOutcome(
            state="executed", message=message, content=content, data=data, is_error=is_error, terminate=terminate
        )

    def _context(self, call: ToolCallPart, preview: Preview | None) -> ToolContext:
        ended = self._ended

        def progress(message: str) -> None:
            text = self._mask(clean_text(str(message)))[:PROGRESS_CHARS]
            if call.id not in ended:  # a thread that could not be ended has nothing to tell any more
                self._emit(ToolProgress, call_id=call.id, tool=call.name, message=text)

        def todos(items: tuple[TodoItem, ...]) -> None:
            if call.id not in ended:
                self._emit(TodoUpdated, items=items)

        return ToolContext(
            session=self.host,
            call_id=call.id,
            signal=self.signal,
            logger=without_keys(self.settings.logger.getChild(call.name)),
            preview=preview,
            on_progress=progress,
            on_todos=todos,
        )

    # ---- endings without execution ----------------------------------------------------------------------------

    def fail(
        self,
        call: ToolCallPart,
        error: str,
        *,
        arguments: JsonObject | None = None,
        note: str = "",
        code: str | None = None,
    ) -> CallOutcome:
        """The call threw, is unknown, or has bad arguments."""
        error = truncate(clean_text(error), MAX_TOOL_OUTPUT)
        content = f"{note}\n{error}" if note else error
        shown = arguments if arguments is not None else call.arguments
        self._emit(ToolFailed, call_id=call.id, tool=call.name, error=error, arguments=shown)
        message = tool_message(call, content, is_error=True)
        return CallOutcome(state="failed", message=message, content=content, is_error=True, code=code)

    def skip(self, call: ToolCallPart, reason: str, cause: SkipCause, *, is_error: bool = False) -> CallOutcome:
        """The call does not run, or its result is not known; the model reads ``reason``."""
        reason = truncate(clean_text(reason), MAX_TOOL_OUTPUT)
        self._emit(ToolSkipped, call_id=call.id, tool=call.name, reason=reason, cause=cause, arguments=call.arguments)
        message = tool_message(call, reason, is_error=is_error)
        return CallOutcome(state="skipped", message=message, content=reason, is_error=is_error)

    def leave(self, call: ToolCallPart, reason: str, cause: SkipCause) -> CallOutcome:
        """The run ends before ``call`` has a result; one that was executing may have done a part of its work."""
        if call.id in self._executing:
            return self.skip(call, STOPPED_INSIDE, "cancelled")
        return self.skip(call, reason, cause)

    def _emit(self, kind: type[SessionEvent], **fields: Any) -> None:
        if kind in (ToolExecuted, ToolFailed, ToolSkipped):
            self._ended.add(fields["call_id"])
        self.host.emit(kind, run_id=self.run_id, **fields)

    def _warn(self, code: str, text: str) -> None:
        self._emit(Notice, level="warning", code=code, text=text)

    def _mask(self, text: str) -> str:
        return self.settings.masker.mask(text)

    def _unknown(self, call: ToolCallPart) -> str:
        names = [schema.name for schema in self.host.offered()]
        near = get_close_matches(call.name.removeprefix("functions_"), names, n=1, cutoff=0.6)
        hint = f' Did you mean "{near[0]}"?' if near else ""
        why = f" ({call.problem})" if call.problem else ""
        return f'Unknown tool "{call.name}"{why}.{hint} Available tools: {", ".join(names) or "none"}.'


def _is_same_file(preview: Preview | None, before: JsonObject, after: JsonObject) -> bool:
    """True when a person edited what a diff showed but not its file: in the state that was shown it has to be still."""
    return isinstance(preview, DiffPreview) and before.get("path") == after.get("path")
