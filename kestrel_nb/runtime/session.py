"""One conversation: its transcript, its settings, and the run that is going.

A session belongs to the event loop it is used on. It owns the task of its run: the run goes on when nobody awaits
it, and a failure that nobody looks at is consumed here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..protocol.errors import RewindError, SessionBusyError, UsageError
from ..protocol.events import RunStarted, SessionRewound
from ..protocol.messages import ImageAttachment, Part, TextPart, ToolCallPart, create_message, new_id
from ..protocol.sessions import (
    ApprovalRecord,
    ModelUsage,
    PermissionRule,
    SessionDetail,
    Usage,
)
from ..protocol.tools import ToolSchema
from .interception import AROUND, Interceptor
from .models import LanguageModel
from .prompts import title_from_input
from .run import Run, RunOptions
from .session_host import SessionServices
from .session_ownership import OwnedSession
from .session_run import RunWork
from .signals import CancelSignal
from .spending import Spending
from .tool_calls import INTERRUPTED, CallOutcome, SkipCause, ToolCalls
from .truncation import clean_text

__all__ = ["INTERRUPTED", "NOT_DECIDED", "AgentSession", "SessionServices"]

NOT_DECIDED = "not decided: a new message came before anybody answered; it was not run"
NOT_BEGUN = "not run: a new message came before its turn"
LEFT_BEFORE = "another answer was left before; that one counts"


class AgentSession(OwnedSession):
    """See the module. Create sessions with ``SessionManager.create``."""

    def __init__(self, detail: SessionDetail, services: SessionServices, *, hidden: bool = False) -> None:
        super().__init__(detail, services, hidden=hidden)
        self._run: Run | None = None

    # ---- what it is -------------------------------------------------------------------------------------------

    @property
    def run(self) -> Run | None:
        """The run that is going, or the last one of this process."""
        return self._run

    @property
    def title(self) -> str:
        """The session's title, "" before the first message."""
        return self._state.title

    @property
    def usage(self) -> Usage:
        """The tokens of all its runs."""
        return self._state.usage

    @property
    def spent(self) -> tuple[ModelUsage, ...]:
        """The tokens of all its runs by model, with their cost."""
        return self._state.spending.entries

    @property
    def cost(self) -> float | None:
        """What all its runs cost in US dollars; None when the price of one reply is unknown, or there was none."""
        self._state.spending.price_again(self._services.price)
        return self._state.cost

    @property
    def interrupted(self) -> tuple[ToolCallPart, ...]:
        """Calls that had begun when a process ended: their result is unknown, and they are never run again."""
        return () if self.is_running else self._state.interrupted()

    def detail(self) -> SessionDetail:
        """Everything of the session that is stored."""
        return self._state.detail()

    # ---- changing it ------------------------------------------------------------------------------------------

    def rename(self, title: str) -> None:
        """Give it another title. Raises UsageError for an empty one."""
        if not title.strip():
            raise UsageError("a title needs at least one character")
        self.own()
        self._state.title = clean_text(" ".join(title.split()))
        self._changed()

    def set_model(self, model: str) -> None:
        """Use another model from the next run on. Raises ModelNotFoundError."""
        self._services.models.get(model)
        self.own()
        self._state.model = model
        self._changed()

    def set_system_prompt(self, prompt: str) -> None:
        """Use another system prompt from the next model call on."""
        self.own()
        self._state.prompt = prompt
        self._changed()

    def set_rules(self, rules: Iterable[PermissionRule]) -> None:
        """Replace the session's own permission rules; a run that is going obeys them from its next call on."""
        self.own()
        self._state.rules = [replace(rule, scope="session") for rule in rules]
        self._changed()

    def touch(self) -> None:
        """Mark it as used now."""
        self.own()
        self._changed()

    def reset(self) -> None:
        """Begin anew: no messages, no remembered rules, no open questions. Raises SessionBusyError while running."""
        self._must_rest("reset it")
        self.own()
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
        self.own()
        messages = self.messages
        index = next((i for i, message in enumerate(messages) if message.id == message_id), None)
        if index is None:
            raise RewindError(f'no message "{message_id}" in this session', code="message_not_found")
        if messages[index].role != "user":
            raise RewindError("only a user message can be rewound to", code="invalid_rewind_target")
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
        SessionGuardError when a guard refuses, UsageError for input that can't be sent or without a running event
        loop. Nothing has changed then.
        """
        self._must_rest("start another")
        text, parts = _user_parts(input, images)
        self._services.check_run(self)
        self._bind_loop()
        self.own()
        if message_id is not None and any(message.id == message_id for message in self.messages):
            raise UsageError(f'the session already has a message "{message_id}"')
        calls = self._calls_of(new_id("run"), options)
        self._state.run_id = calls.run_id
        self._close_unanswered(calls)
        if not self._state.title:
            self._state.title = title_from_input(text)
        self.append(create_message("user", parts, id=message_id))
        return self._begin(calls, options, input=text)

    def _resume(self, record: ApprovalRecord) -> Run:
        """Go on after a restart: the stored question of ``record`` was answered."""
        request = record.request
        calls = self._calls_of(request.run_id, None, begun=frozenset(self._state.started))
        calls.questions.decided[request.call_id] = record
        self._state.run_id = request.run_id
        self._take(record)
        others = {other.call_id: other for other in self.pending if other.run_id == request.run_id}
        calls.questions.restored.update(others)
        return self._begin(calls, None, input="", resumed=True)

    def cancel(self) -> bool:
        """Stop the run that is going; False when none is. It ends with status "cancelled", within a second."""
        return self._run is not None and self.is_running and self._run.signal.cancel("the run was stopped")

    async def ended(self) -> None:
        """Return when no run is going and everything is saved."""
        if self._run is not None and self.is_running:
            await asyncio.wait({self._run.done})
        await self.drain()

    async def use_tool(self, call: ToolCallPart) -> CallOutcome:
        """Work one call outside a run, approved by the code that makes it."""
        self._bind_loop()
        calls = self._calls_of(new_id("run"), None)
        calls.asks_nobody = True
        try:
            return await calls.run(call)
        except asyncio.CancelledError:
            calls.signal.cancel("the caller was cancelled")
            calls.leave(call, "cancelled: the caller was cancelled", "cancelled")
            raise
        finally:
            self._state.end_call(call.id)

    def _calls_of(self, run_id: str, options: RunOptions | None, *, begun: frozenset[str] = frozenset()) -> ToolCalls:
        settings = self._services.calls
        if options and options.approve:
            settings = replace(settings, approve=options.approve)
        interceptor = (options.interceptor if options else None) or AROUND.get()
        if interceptor is None and settings.intercept is not None:
            interceptor = settings.intercept()
        return ToolCalls(
            settings=settings, host=self, run_id=run_id, signal=CancelSignal(), begun=begun, interceptor=interceptor
        )

    def _begin(self, calls: ToolCalls, options: RunOptions | None, *, input: str, resumed: bool = False) -> Run:
        services = self._services
        self._running, self._calls = True, calls
        self._run_tools = options.tools if options else None
        self._run_model = (options and options.model) or self.model
        self._run_spending = Spending()
        run = self._run = Run(calls.run_id, calls.signal)
        self._emit(RunStarted, model=self._run_model, input=input, resumed=resumed)
        self._keeper.write_step_soon()  # not now: it would take the way to the model's first word
        work = RunWork(
            run=run,
            host=self,
            calls=calls,
            ready=services.ready,
            find_model=lambda: self._find_model(calls.interceptor),
            max_steps=(options and options.max_steps) or services.max_steps,
            retry=services.retry,
            masker=services.calls.masker,
            logger=self._logger,
            resumed=resumed,
        )
        self._task = asyncio.get_running_loop().create_task(work.work())  # the loop's own reference is weak
        return run

    def _find_model(self, interceptor: Interceptor | None) -> LanguageModel:
        models, id = self._services.models, self._run_model
        if interceptor is None or not id:
            return models.to_ask(id or None)
        return interceptor.model(id, lambda: models.to_ask(id), self.workspace, self._depending)

    def _depending(self) -> list[ToolSchema]:
        tools = self._services.calls.tools.list()
        return [tool.schema for tool in tools if hasattr(tool, "unavailable") and self.offers(tool.schema.name)]

    def leave_questions(self) -> None:
        """The run ends: nobody answers its questions any more."""
        self._close_questions("the run was stopped")

    def rest(self) -> None:
        """The run is over."""
        self._state.run_id = self._run_model = self._run_tools = self._calls = None
        self._running = False
        self._changed()

    async def drain(self) -> None:
        """Return when everything is written."""
        await self._keeper.drain()

    # ---- what was left open -----------------------------------------------------------------------------------

    def _close_unanswered(self, calls: ToolCalls) -> None:
        """Before a new message: what an earlier process left open gets a result that says so."""
        waiting = {request.call_id for request in self.pending}
        self._close_questions("a new message came before anybody answered")
        for call in self.unanswered():
            text, cause = self._left_open(call, waiting)
            self.append(calls.skip(call, text, cause).message)
        self._state.started.clear()

    def _left_open(self, call: ToolCallPart, waiting: set[str]) -> tuple[str, SkipCause]:
        if call.id in waiting:
            return NOT_DECIDED, "not_decided"
        if waiting and call.id not in self._state.started:  # what begins beside a question is stored first
            return NOT_BEGUN, "not_run"
        return INTERRUPTED, "interrupted"

    def _must_rest(self, what: str) -> None:
        if self.is_running:
            raise SessionBusyError(f"the session is running; await or cancel that run before you {what}")


def _user_parts(input: str, images: Sequence[ImageAttachment]) -> tuple[str, list[Part]]:
    """The cleaned text and the parts of a person's message. Raises UsageError."""
    if not isinstance(input, str):
        raise UsageError(f"a message is text, not {type(input).__name__}")
    text = clean_text(input)
    parts: list[Part] = [TextPart(text=text)] if text or not images else []
    try:
        return text, parts + [image.part() for image in images]
    except ValueError as error:
        raise UsageError(f"an image can't be sent: {error}") from error
