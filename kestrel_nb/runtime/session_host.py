"""What a session is to its loop and its calls: state, events, questions, and when all of it is written."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from ..protocol.errors import KestrelError
from ..protocol.events import MessageCompleted, Notice, SessionEvent, SessionUpdated, UsageUpdated
from ..protocol.messages import ChatMessage, ToolCallPart
from ..protocol.sessions import (
    ApprovalRecord,
    ApprovalRequest,
    ModelInfo,
    PermissionRule,
    SessionDetail,
    SessionSummary,
)
from ..protocol.tools import ToolSchema
from .call_host import CallSettings
from .context_care import ContextCare
from .few_tools import few_tools
from .keeper import SessionKeeper
from .listeners import EventListener, Listeners
from .models import CompletionRequest, CompletionResponse, ModelRegistry
from .permissions import ModelRule
from .prompts import default_system_prompt
from .retry import RetryOptions
from .session_state import SessionState
from .signals import CancelSignal
from .spending import Price, Spending
from .stores import SessionStore
from .tools import missing
from .truncation import clean_text

E = TypeVar("E", bound=SessionEvent)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionServices:
    """What a session gets from its manager."""

    models: ModelRegistry
    calls: CallSettings
    store: SessionStore
    publish: Callable[[SessionEvent], None]
    check_run: Callable[[SessionHost], None]
    ready: Callable[[], Awaitable[None]]
    system_prompt: Callable[[str], str] | None
    extra_rules: Callable[[], tuple[PermissionRule, ...]]
    max_steps: int
    temperature: float | None
    max_tokens: int | None
    retry: RetryOptions
    price: Price | None
    prices_ready: Callable[[], Awaitable[None]] | None


class SessionHost:
    """The part of ``AgentSession`` that a run works with; tools see it as their ``context.session``."""

    def __init__(self, detail: SessionDetail, services: SessionServices, *, hidden: bool = False) -> None:
        self._services = services
        self._logger = services.calls.logger
        self._listeners: Listeners[SessionEvent] = Listeners(self._logger)
        self._outbox: deque[SessionEvent] = deque()
        self._publishing = False
        self._state = SessionState(detail)
        self._care = ContextCare()
        self._keeper = SessionKeeper(
            self._state, services.store, services.calls.broker, hidden=hidden, on_error=self._store_failed
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0  # of the loop; its number costs less to ask for than the running loop
        self._run_model: str | None = None
        self._run_spending = Spending()
        self._run_tools: tuple[str, ...] | None = None
        self._running = False
        self.hidden = hidden  # a scratch session: neither listed nor stored
        self.metadata: dict[str, Any] = {}

    # ---- what it is -------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The session's id."""
        return self._state.base.id

    @property
    def is_running(self) -> bool:
        """True while a run is going. One whose event loop was closed is over."""
        return self._running and not (self._loop is not None and self._loop.is_closed())

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
        """The permission rules that hold here: the model's, the application's, then the session's own."""
        return (*self._model_rules(), *self._services.extra_rules(), *self._state.rules)

    def _model_rules(self) -> tuple[PermissionRule, ...]:
        with suppress(KestrelError):
            if self._services.models.get(self._run_model or self.model or None).info.every_call_asks:
                return (ModelRule(),)
        return ()

    @property
    def own_rules(self) -> tuple[PermissionRule, ...]:
        """The permission rules of this session alone."""
        return tuple(self._state.rules)

    def summary(self) -> SessionSummary:
        """The session as a list shows it."""
        return self._state.summary(is_running=self.is_running, model=self.model)

    def subscribe(self, listener: EventListener) -> Callable[[], None]:
        """Hear every event of this session. Returns a disposer."""
        return self._listeners.subscribe(listener)

    # ---- the transcript and the model -------------------------------------------------------------------------

    def append(self, message: ChatMessage) -> ChatMessage:
        """Add ``message`` to the transcript and tell; returns it as it was added."""
        message = self._state.append(message)
        self._emit(MessageCompleted, message=message)
        return message

    def unanswered(self) -> tuple[ToolCallPart, ...]:
        """The calls that have no result yet."""
        return self._state.transcript.unanswered()

    def request(self, signal: CancelSignal, info: ModelInfo) -> CompletionRequest:
        """The next request to the model that ``info`` describes: with as many tools as it can choose among, and old
        tool results shortened to fit it."""
        services = self._services
        schemas = self._few_tools(self.offered(), info)
        request = CompletionRequest(
            model=self._run_model or self.model,
            messages=self._state.transcript.request(self._system_prompt([schema.name for schema in schemas])),
            tools=tuple(schemas),
            temperature=services.temperature,
            max_tokens=services.max_tokens,
            signal=signal,
        )
        request, notices = self._care.fit(request, info.context_window)
        for level, text in notices:
            self.emit(Notice, level=level, code="context", text=text)
        return request

    def _few_tools(self, all_tools: list[ToolSchema], info: ModelInfo) -> tuple[ToolSchema, ...]:
        tools = few_tools(all_tools, info.max_tools, self.messages)
        if len(tools) < len(all_tools) and self.messages and self.messages[-1].role == "user":
            names = ", ".join(tool.name for tool in tools)
            text = f"{info.id} can choose among {info.max_tools} tools; of {len(all_tools)} it is offered {names}."
            self.emit(Notice, level="info", code="few_tools", text=text)
        return tools

    def _system_prompt(self, names: list[str]) -> str:
        make = self._services.system_prompt
        if self._state.prompt is not None:
            return clean_text(self._state.prompt)
        return make(self.workspace) if make else default_system_prompt(workspace=self.workspace, tool_names=names)

    def offers(self, name: str) -> bool:
        """True when the application, the session, and the run that is going may use the tool ``name``."""
        if self._services.calls.policy.refusal(name):
            return False
        own, of_run = self._state.base.tools, self._run_tools
        return (own is None or name in own) and (of_run is None or name in of_run)

    def offered(self) -> list[ToolSchema]:
        """What a model is offered: the tools that may be used here and lack nothing, sorted by name."""
        tools = self._services.calls.tools.list()
        return [tool.schema for tool in tools if self.offers(tool.schema.name) and missing(tool) is None]

    def add_rule(self, rule: PermissionRule) -> None:
        """Add a permission rule for this session; one that is there already becomes the last."""
        self._state.rules = [*(known for known in self._state.rules if known != rule), rule]

    def add_usage(self, response: CompletionResponse) -> float | None:
        """Count one reply of the run's model; returns what the run cost so far, in US dollars where that is known."""
        model, usage = self._run_model or self.model, response.usage
        price = None if response.recorded else self._services.price
        self._state.usage = self._state.usage + usage
        cost = price(model, usage) if price else response.cost
        for spending in (self._state.spending, self._run_spending):
            spending.price_again(price)
            spending.add(model, usage, cost, final=response.recorded)
        return self.run_cost

    @property
    def run_cost(self) -> float | None:
        """What the run cost so far in US dollars, None where that is unknown."""
        return self._run_spending.cost

    async def settle_cost(self) -> None:
        """Before a run ends: wait for prices that are being loaded, and tell its cost when they come."""
        services, run = self._services, self._run_spending
        if services.prices_ready and run.entries and run.cost is None:
            await services.prices_ready()
            run.price_again(services.price)
            self._state.spending.price_again(services.price)
            if run.cost is not None:
                self.emit(UsageUpdated, usage=run.usage, cost=run.cost)

    # ---- questions, and what is written when ------------------------------------------------------------------

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

    async def call_started(self, call_id: str, *, asked: bool) -> bool:
        """A call is about to execute. Where somebody was asked this is stored first: it runs at most once.

        False when it could not be stored.
        """
        self._state.started.append(call_id)
        return await self._checkpoint() if asked or self._state.pending else True

    async def _checkpoint(self) -> bool:
        """Write and wait. Stored steps are told apart by their event number, so one event comes before each."""
        if self.hidden:
            return True
        self._emit(SessionUpdated, summary=self.summary())
        return await self._keeper.write_step_now()

    async def save_step(self, *, over: bool) -> None:
        """Save what is new. When a step is ``over``, return only when the store has it: no crash loses it then."""
        if not over:
            self._keeper.write_step_soon()
        elif self._keeper.outlives_the_process:
            await self._keeper.write_step_now()
        else:
            self._keeper.write_step()

    async def keep_data(self, name: str, text: str) -> str | None:
        """Keep large tool data beside the session; returns where, or None when the store can't."""
        return await self._keeper.keep_data(name, text)

    # ---- events -----------------------------------------------------------------------------------------------

    def emit(self, kind: type[SessionEvent], **fields: Any) -> None:
        """Tell that something happened in the run that is going. Thread-safe."""
        if self._loop is None or self._thread == threading.get_ident() or self._loop.is_closed():
            self._emit(kind, **fields)
            return
        with suppress(RuntimeError):  # the loop was closed this instant
            self._loop.call_soon_threadsafe(lambda: self._emit(kind, **fields))

    def _emit(self, kind: type[E], *, run_id: str | None = None, **fields: Any) -> E:
        state = self._state
        state.seq += 1
        event = kind(session_id=self.id, run_id=run_id or state.run_id, seq=state.seq, at=time.time(), **fields)
        self._outbox.append(event)
        if not self._publishing:  # else a listener caused this event: every listener hears the earlier one first
            self._publish()
        return event

    def _publish(self) -> None:
        self._publishing = True
        try:
            while self._outbox:
                event = self._outbox.popleft()
                self._listeners.publish(event)
                self._services.publish(event)
        finally:
            self._publishing = False

    def _changed(self) -> None:
        """Something but the transcript's end changed: tell, and write the whole session."""
        self._state.touch()
        self._emit(SessionUpdated, summary=self.summary())
        self._keeper.write_whole()

    def _store_failed(self, text: str) -> None:
        self._logger.warning("session %s could not be saved: %s", self.id, text)
        self._emit(Notice, level="warning", code="store_failed", text=f"The session could not be saved: {text}")
