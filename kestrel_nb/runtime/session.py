"""One conversation: its transcript, its settings, and the run that is going.

A session belongs to the event loop it is used on. It owns the task of its run: the run goes on when nobody awaits
it, and a failure that nobody looks at is consumed here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from ..protocol.errors import ApprovalError, KestrelError, RewindError, SessionBusyError, SessionOwnedError, UsageError
from ..protocol.events import (
    ApprovalResolved,
    MessageCompleted,
    Notice,
    RunCompleted,
    RunFailed,
    RunStarted,
    SessionEvent,
    SessionRewound,
    SessionUpdated,
)
from ..protocol.messages import ChatMessage, ImageAttachment, Part, TextPart, ToolCallPart, create_message, new_id
from ..protocol.sessions import (
    AnsweredBy,
    ApprovalDecision,
    ApprovalRecord,
    ApprovalRequest,
    PermissionRule,
    RunResult,
    RunStatus,
    SessionDetail,
    SessionSummary,
    Usage,
)
from .approvals import ArgumentsCheck
from .keeper import SessionKeeper, has_loop
from .listeners import EventListener, Listeners
from .loop import RunLoop
from .models import CompletionRequest, ModelRegistry
from .prompts import default_system_prompt, title_from_input
from .retry import RetryOptions
from .run import Run, RunOptions
from .session_state import SessionState
from .signals import CancelSignal
from .stores import SessionStore
from .tool_calls import CallOutcome, CallSettings, ToolCalls, invalid
from .truncation import clean_text

INTERRUPTED = "interrupted: it had begun when the process ended, and its result is unknown; it was not run again"
NOT_DECIDED = "not decided: a new message came before anybody answered; it was not run"

E = TypeVar("E", bound=SessionEvent)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionServices:
    """What a session gets from its manager."""

    models: ModelRegistry
    calls: CallSettings
    store: SessionStore
    publish: Callable[[SessionEvent], None]
    check_run: Callable[[AgentSession], None]
    ready: Callable[[], Awaitable[None]]
    system_prompt: Callable[[str], str] | None
    extra_rules: Callable[[], tuple[PermissionRule, ...]]
    max_steps: int
    temperature: float | None
    max_tokens: int | None
    retry: RetryOptions
    price: Callable[[str, Usage], float | None] | None


class AgentSession:
    """See the module. Create sessions with ``SessionManager.create``."""

    def __init__(self, detail: SessionDetail, services: SessionServices, *, hidden: bool = False) -> None:
        self._services = services
        self._logger = services.calls.logger
        self._listeners: Listeners[SessionEvent] = Listeners(self._logger)
        self._state = SessionState(detail)
        self._keeper = SessionKeeper(
            self._state, services.store, services.calls.broker, hidden=hidden, on_error=self._store_failed
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._run: Run | None = None
        self._run_tools: tuple[str, ...] | None = None
        self.hidden = hidden  # a scratch session: neither listed nor stored
        self.metadata: dict[str, Any] = {}

    # ---- what it is -------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The session's id."""
        return self._state.base.id

    @property
    def is_running(self) -> bool:
        """True while a run is going."""
        return self._run is not None and not self._run.done.done()

    @property
    def run(self) -> Run | None:
        """The run that is going, or the last one of this process."""
        return self._run

    @property
    def title(self) -> str:
        """The session's title, "" before the first message."""
        return self._state.title

    @property
    def model(self) -> str:
        """The id of the model: the session's own, else the registry's default."""
        return self._state.model or self._services.models.default_model or ""

    @property
    def workspace(self) -> str:
        """The folder that file tools stay in."""
        return self._state.workspace

    @property
    def tenant_id(self) -> str | None:
        """Who the session belongs to, where that matters."""
        return self._state.base.tenant_id

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        """The transcript."""
        return self._state.transcript.messages

    @property
    def rules(self) -> tuple[PermissionRule, ...]:
        """The permission rules that hold here: the application's, then the session's own."""
        return (*self._services.extra_rules(), *self._state.rules)

    @property
    def pending(self) -> tuple[ApprovalRequest, ...]:
        """The questions that wait for an answer."""
        return tuple(self._state.pending.values())

    @property
    def approvals(self) -> tuple[ApprovalRecord, ...]:
        """The questions that were answered, oldest first."""
        return tuple(self._state.approvals)

    @property
    def interrupted(self) -> tuple[ToolCallPart, ...]:
        """Calls that had begun when a process ended: their result is unknown, and they are never run again."""
        return () if self.is_running else self._state.interrupted()

    def summary(self) -> SessionSummary:
        """The session as a list shows it."""
        return self._state.summary(is_running=self.is_running, model=self.model)

    def detail(self) -> SessionDetail:
        """Everything of the session that is stored."""
        return self._state.detail()

    def subscribe(self, listener: EventListener) -> Callable[[], None]:
        """Hear every event of this session. Returns a disposer."""
        return self._listeners.subscribe(listener)

    # ---- changing it ------------------------------------------------------------------------------------------

    def rename(self, title: str) -> None:
        """Give it another title. Raises UsageError for an empty one."""
        if not title.strip():
            raise UsageError("a title needs at least one character")
        self._own()
        self._state.title = clean_text(" ".join(title.split()))
        self._changed()

    def set_model(self, model: str) -> None:
        """Use another model from the next run on. Raises ModelNotFoundError."""
        self._services.models.get(model)
        self._own()
        self._state.model = model
        self._changed()

    def set_system_prompt(self, prompt: str) -> None:
        """Use another system prompt from the next model call on."""
        self._own()
        self._state.prompt = prompt
        self._changed()

    def touch(self) -> None:
        """Mark it as used now."""
        self._own()
        self._changed()

    def reset(self) -> None:
        """Begin anew: no messages, no remembered rules, no open questions. Raises SessionBusyError while running."""
        self._must_rest("reset it")
        self._own()
        self._close_questions("the session was reset")
        self._state.clear_from(0)
        self._state.rules.clear()
        self.metadata.clear()
        self._changed()

    def rewind(self, message_id: str) -> SessionRewound:
        """Take back the user message ``message_id`` and everything after it; files stay as they are.

        Returns the event with the messages that are left and the count of those removed.
        Raises RewindError: ``message_not_found``, ``invalid_rewind_target`` (not a user message), ``session_busy``.
        """
        if self.is_running:
            raise RewindError("the session is running; cancel the run first", code="session_busy")
        messages = self.messages
        index = next((i for i, message in enumerate(messages) if message.id == message_id), None)
        if index is None:
            raise RewindError(f'no message "{message_id}" in this session', code="message_not_found")
        if messages[index].role != "user":
            raise RewindError("only a user message can be rewound to", code="invalid_rewind_target")
        self._own()
        self._close_questions("the conversation was rewound")
        removed = self._state.clear_from(index)
        event = self._emit(SessionRewound, messages=self.messages, removed=removed)
        self._changed()
        return event

    # ---- running ----------------------------------------------------------------------------------------------

    def start(
        self,
        input: str,
        *,
        images: Sequence[ImageAttachment] = (),
        message_id: str | None = None,
        options: RunOptions | None = None,
    ) -> Run:
        """Send ``input`` and work on it; returns at once.

        Raises SessionBusyError while a run is going, SessionOwnedError when another process has the session,
        SessionGuardError when a guard refuses, UsageError without a running event loop.
        """
        self._must_rest("start another")
        self._bind_loop()
        self._services.check_run(self)
        self._own()
        if message_id is not None and any(message.id == message_id for message in self.messages):
            raise UsageError(f'the session already has a message "{message_id}"')
        calls = self._calls(new_id("run"), options)
        self._state.run_id = calls.run_id
        self._close_unanswered(calls)
        text = clean_text(input)
        parts: list[Part] = [TextPart(text=text)] if text or not images else []
        parts += [image.part() for image in images]
        if not self._state.title:
            self._state.title = title_from_input(text)
        self.append(create_message("user", parts, id=message_id))
        return self._begin(calls, options, input=text)

    def resume(self, record: ApprovalRecord) -> Run:
        """Go on after a restart: the stored question of ``record`` was answered."""
        request = record.request
        calls = self._calls(request.run_id, None)
        calls.decided[request.call_id] = record
        self._state.run_id = request.run_id
        self._state.pending.pop(request.id, None)
        self._state.approvals.append(record)
        calls.restored.update({other.call_id: other for other in self.pending if other.run_id == request.run_id})
        self._emit(ApprovalResolved, request=request, decision=record.decision, answered_by=record.answered_by)
        if record.decision.approved and record.decision.remember == "session":
            self.add_rule(PermissionRule(tool=request.tool, action="auto", scope="session"))
        begun = set(self._state.started)
        for call in self.unanswered():
            if call.id in begun:
                self.append(calls.skip(call, INTERRUPTED, "interrupted").message)
        return self._begin(calls, None, input="", resumed=True)

    def cancel(self) -> bool:
        """Stop the run that is going; False when none is. It ends with status "cancelled", within a second."""
        return self._run is not None and self.is_running and self._run.signal.cancel("the run was stopped")

    async def ended(self) -> None:
        """Return when no run is going and everything is saved."""
        if self._run is not None and not self._run.done.done():
            await asyncio.wait({self._run.done})
        await self._keeper.drain()

    async def use_tool(self, call: ToolCallPart) -> CallOutcome:
        """Work one call outside a run, approved by the code that makes it."""
        self._bind_loop()
        calls = self._calls(new_id("run"), None)
        calls.asks_nobody = True
        try:
            return await calls.run(call)
        except asyncio.CancelledError:
            calls.signal.cancel("the caller was cancelled")
            raise

    def _calls(self, run_id: str, options: RunOptions | None) -> ToolCalls:
        settings = self._services.calls
        if options and options.approve:
            settings = replace(settings, approve=options.approve)
        return ToolCalls(settings=settings, host=self, run_id=run_id, signal=CancelSignal())

    def _begin(self, calls: ToolCalls, options: RunOptions | None, *, input: str, resumed: bool = False) -> Run:
        loop = asyncio.get_running_loop()
        self._run_tools = options.tools if options else None
        run = self._run = Run(calls.run_id, loop.create_future(), calls.signal)
        self._emit(RunStarted, model=self.model, input=input, resumed=resumed)
        self._keeper.write_step()
        max_steps = (options and options.max_steps) or self._services.max_steps
        self._task = loop.create_task(self._work(run, calls, max_steps, resumed))  # the loop's own reference is weak
        return run

    async def _work(self, run: Run, calls: ToolCalls, max_steps: int, resumed: bool) -> None:
        services = self._services
        work: RunLoop | None = None
        try:
            await services.ready()
            work = RunLoop(
                host=self,
                model=services.models.get(self._state.model or None),
                calls=calls,
                signal=run.signal,
                max_steps=max_steps,
                retry=services.retry,
            )
            status = await work.work(resume=resumed)
        except asyncio.CancelledError:
            run.signal.cancel("the event loop is closing")
            self._end(run, calls, work, "cancelled")
            raise
        except BaseException as error:
            self._fail(run, calls, error)
        else:
            self._end(run, calls, work, status)

    def _end(self, run: Run, calls: ToolCalls, work: RunLoop | None, status: RunStatus) -> None:
        usage, steps = (work.usage, work.steps) if work else (Usage(), 0)
        self._answer_rest(calls)
        self._emit(RunCompleted, status=status, usage=usage, steps=steps)
        result = RunResult(
            run_id=run.run_id,
            status=status,
            usage=usage,
            text=work.text if work else "",
            steps=steps,
            tool_data=work.tool_data if work else {},
        )
        self._rest()
        if not run.done.done():
            run.done.set_result(result)
        self._changed()

    def _fail(self, run: Run, calls: ToolCalls, error: BaseException) -> None:
        self._answer_rest(calls)
        mask = self._services.calls.masker.mask
        if isinstance(error, KestrelError):
            code, text = error.code, mask(str(error))
        else:
            code, text = "internal_error", mask(f"{type(error).__name__}: {error}")
            self._logger.error("a run failed", exc_info=error)
        self._emit(RunFailed, code=code, message=text)
        self._rest()
        if not run.done.done():
            run.done.set_exception(error)
            run.done.exception()  # consumed: nobody need await the run
        self._changed()

    def _answer_rest(self, calls: ToolCalls) -> None:
        """A run that ended early leaves no call without a result."""
        for call in self.unanswered():
            self.append(calls.skip(call, "not run: the run ended before its turn", "not_run").message)

    def _rest(self) -> None:
        self._state.run_id, self._run_tools = None, None

    def _close_unanswered(self, calls: ToolCalls) -> None:
        """Before a new message: what an earlier process left open gets a result that says so."""
        waiting = {request.call_id for request in self.pending}
        self._close_questions("a new message came before anybody answered")
        for call in self.unanswered():
            text, cause = _left_open(call.id in waiting)
            self.append(calls.skip(call, text, cause).message)
        self._state.started.clear()

    def _close_questions(self, reason: str) -> None:
        by: AnsweredBy = "cancel"
        self._keeper.forget_questions()
        for request in self.pending:
            decision = ApprovalDecision(approved=False, reason=reason)
            record = ApprovalRecord(request=request, decision=decision, answered_by=by, at=time.time())
            self._state.approvals.append(record)
            self._emit(ApprovalResolved, request=request, decision=decision, answered_by=by)
        self._state.pending.clear()

    # ---- what the loop and the calls need ---------------------------------------------------------------------

    def request(self, signal: CancelSignal) -> CompletionRequest:
        """The next request to the model."""
        services = self._services
        schemas = [schema for schema in services.calls.tools.schemas() if self.offers(schema.name)]
        return CompletionRequest(
            model=self.model,
            messages=self._state.transcript.request(self._system_prompt([schema.name for schema in schemas])),
            tools=tuple(schemas),
            temperature=services.temperature,
            max_tokens=services.max_tokens,
            signal=signal,
        )

    def _system_prompt(self, names: list[str]) -> str:
        make = self._services.system_prompt
        if self._state.prompt is not None:
            return self._state.prompt
        return make(self.workspace) if make else default_system_prompt(workspace=self.workspace, tool_names=names)

    def offers(self, name: str) -> bool:
        """True when the session, and the run that is going, may use the tool ``name``."""
        return all(names is None or name in names for names in (self._state.base.tools, self._run_tools))

    def add_rule(self, rule: PermissionRule) -> None:
        """Add a permission rule for this session."""
        self._state.rules.append(rule)

    def append(self, message: ChatMessage) -> ChatMessage:
        """Add ``message`` to the transcript and tell; returns it as it was added."""
        message = self._state.append(message)
        self._emit(MessageCompleted, message=message)
        return message

    def unanswered(self) -> tuple[ToolCallPart, ...]:
        """The calls that have no result yet."""
        return self._state.transcript.unanswered()

    def add_usage(self, usage: Usage) -> float | None:
        """Count ``usage``; returns the cost of it all in US dollars where the price is known."""
        self._state.usage = self._state.usage + usage
        price = self._services.price
        return price(self.model, self._state.usage) if price else None

    async def question_opened(self, request: ApprovalRequest) -> None:
        """A question is about to be shown: store it first."""
        self._state.pending[request.id] = request
        await self._checkpoint()

    async def question_closed(self, record: ApprovalRecord) -> None:
        """A question was answered; an approval is stored with the start of its call."""
        self._state.pending.pop(record.request.id, None)
        self._state.approvals.append(record)
        if not record.decision.approved:
            self._keeper.write_step()

    async def call_started(self, call_id: str, *, asked: bool) -> None:
        """A call is about to execute. Where somebody was asked this is stored first: it runs at most once."""
        self._state.started.append(call_id)
        if asked or self._state.pending:
            await self._checkpoint()

    async def _checkpoint(self) -> None:
        """Write and wait. Stored steps are told apart by their event number, so one event comes before each."""
        if not self.hidden:
            self._emit(SessionUpdated, summary=self.summary())
            await self._keeper.write_step_now()

    async def save_step(self) -> None:
        """A step is over."""
        self._keeper.write_step()

    async def keep_data(self, name: str, text: str) -> str | None:
        """Keep large tool data beside the session; returns where, or None when the store can't."""
        return await self._keeper.keep_data(name, text)

    def emit(self, kind: type[SessionEvent], **fields: Any) -> None:
        """Tell that something happened in the run that is going. Thread-safe."""
        if has_loop() or self._loop is None or self._loop.is_closed():
            self._emit(kind, **fields)
        else:
            self._loop.call_soon_threadsafe(lambda: self._emit(kind, **fields))

    def _emit(self, kind: type[E], **fields: Any) -> E:
        state = self._state
        state.seq += 1
        event = kind(session_id=self.id, run_id=state.run_id, seq=state.seq, at=time.time(), **fields)
        self._listeners.publish(event)
        self._services.publish(event)
        return event

    # ---- keeping ----------------------------------------------------------------------------------------------

    def _changed(self) -> None:
        """Something but the transcript's end changed: tell, and write the whole session."""
        self._state.touch()
        self._emit(SessionUpdated, summary=self.summary())
        self._keeper.write_whole()

    def _store_failed(self, text: str) -> None:
        self._logger.warning("session %s could not be saved: %s", self.id, text)
        self._emit(Notice, level="warning", code="store_failed", text=f"The session could not be saved: {text}")

    def _must_rest(self, what: str) -> None:
        if self.is_running:
            raise SessionBusyError(f"the session is running; await or cancel that run before you {what}")

    def _bind_loop(self) -> None:
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            raise UsageError("no event loop runs here; use app.run_sync(...), or start it in a coroutine") from None

    def _own(self) -> None:
        self.reload(self._keeper.own())

    def reload(self, detail: SessionDetail | None) -> None:
        """Take over what another process stored, when it is newer. Nothing happens while a run is going."""
        if detail is None or self.is_running:
            return
        self._keeper.take_over(detail)
        self._keeper.restore_questions(self._check_for, self._answered)

    def _check_for(self, request: ApprovalRequest) -> ArgumentsCheck:
        tool = self._services.calls.tools.get(request.tool)
        return lambda edited: invalid(tool, edited) if tool else f'the tool "{request.tool}" is not there'

    def _answered(self, record: ApprovalRecord) -> None:
        """A stored question was answered here: resume, or hand the answer to the process that owns the session."""
        try:
            self._bind_loop()
            self._own()
        except SessionOwnedError:
            self._keeper.hand_over(record)
            return
        if record.request.id not in self._state.pending:
            raise ApprovalError("that question was closed meanwhile; nothing was run", code="approval_closed")
        self._services.calls.broker.forget(record.request.id)
        self.resume(record)

    def drop(self) -> None:
        """Let go of the session in this process: it stays in the store."""
        self._keeper.forget_questions()
        self._keeper.release()


def _left_open(waited: bool) -> tuple[str, Literal["not_decided", "interrupted"]]:
    return (NOT_DECIDED, "not_decided") if waited else (INTERRUPTED, "interrupted")
