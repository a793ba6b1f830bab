"""All sessions of an application: creating, finding, listening, guarding, closing."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakSet

from ..protocol.errors import KestrelError, SessionBusyError, SessionNotFoundError, StoreError, UsageError
from ..protocol.events import SessionCreated, SessionDeleted, SessionEvent
from ..protocol.messages import new_id as make_id
from ..protocol.sessions import (
    CreateSessionRequest,
    PermissionRule,
    SessionDetail,
    SessionSummary,
)
from .approvals import ApprovalBroker, ApprovalHandler
from .call_host import CallSettings
from .forking import fork_title, forked
from .guards import Guards, SessionGuard, SessionGuardContext
from .interception import Interceptor
from .listeners import EventListener, Listeners
from .logs import without_keys
from .models import ModelRegistry
from .permissions import PermissionResolver
from .retry import RetryOptions
from .run import Run
from .secrets import LiveMasker, Masker
from .session import AgentSession, SessionServices
from .session_host import SessionHost
from .spending import Price
from .stores import MemorySessionStore, SessionStore, SharedStore
from .tool_policy import ToolPolicy
from .tools import ToolRegistry
from .truncation import clean_text

DEFAULT_MAX_STEPS = 50
RuleSource = Callable[[], Iterable[PermissionRule]]
_ORDER = {"user": 0, "session": 1, "notebook": 2}  # what the application itself says for sessions stands between
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")  # what every store takes


@dataclass(kw_only=True)
class SessionManagerOptions:
    """What a SessionManager is made of. Only models, tools, logger and default_workspace are needed."""

    models: ModelRegistry
    tools: ToolRegistry
    logger: logging.Logger
    default_workspace: str
    store: SessionStore | None = None
    system_prompt: Callable[[str], str] | None = None
    default_model: str | None = None
    max_steps: int = DEFAULT_MAX_STEPS
    temperature: float | None = None
    max_tokens: int | None = None
    approve: ApprovalHandler | None = None
    resolve_permission: PermissionResolver | None = None
    tool_policy: ToolPolicy = field(default_factory=ToolPolicy)
    retry: RetryOptions = field(default_factory=RetryOptions)
    approvals: ApprovalBroker | None = None
    rules: tuple[PermissionRule, ...] = ()
    masker: Masker | None = None
    to_data: Callable[[Any], Any] | None = None
    price: Price | None = None  # what one reply of a model costs in US dollars
    prices_ready: Callable[[], Awaitable[None]] | None = None  # awaited before a run ends whose cost is not known yet
    ready: Callable[[], Awaitable[None]] | None = None  # awaited by every run before its first step
    intercept: Callable[[], Interceptor | None] | None = None  # asked by every run what records or plays it


class SessionManager:
    """See the module. Nothing happens before the first use; ``initialize`` loads what is stored, once."""

    def __init__(self, options: SessionManagerOptions) -> None:
        self._options = options
        self._logger = without_keys(options.logger)
        self._store: SessionStore = options.store or MemorySessionStore()
        self._sessions: dict[str, AgentSession] = {}
        self._listeners: Listeners[SessionEvent] = Listeners(options.logger)
        self._scratch: WeakSet[AgentSession] = WeakSet()  # hidden ones, while somebody uses them
        self._guards = Guards()
        self._rules: dict[object, RuleSource] = {object(): lambda: options.rules}
        self._initialized: asyncio.Future[None] | None = None
        self.approvals = options.approvals or ApprovalBroker(logger=options.logger)
        self._services = self._make_services(options)

    def _make_services(self, options: SessionManagerOptions) -> SessionServices:
        store = self._store
        shared = store if isinstance(store, SharedStore) else None
        calls = CallSettings(
            tools=options.tools,
            broker=self.approvals,
            logger=options.logger,
            masker=options.masker or LiveMasker(),
            resolve_permission=options.resolve_permission,
            approve=options.approve,
            poll_answer=(lambda request: shared.take_answer(request.session_id, request.id)) if shared else None,
            to_data=options.to_data,
            policy=options.tool_policy,
            intercept=options.intercept,
        )
        return SessionServices(
            models=options.models,
            calls=calls,
            store=store,
            publish=self.publish,
            check_run=self._check_run,
            ready=options.ready or self.initialize,
            system_prompt=options.system_prompt,
            extra_rules=lambda: self.rules,
            max_steps=options.max_steps,
            temperature=options.temperature,
            max_tokens=options.max_tokens,
            retry=options.retry,
            price=options.price,
            prices_ready=options.prices_ready,
        )

    # ---- listening and guarding -------------------------------------------------------------------------------

    def subscribe(self, listener: EventListener) -> Callable[[], None]:
        """Hear every event of every session. Returns a disposer."""
        return self._listeners.subscribe(listener)

    def publish(self, event: SessionEvent) -> None:
        """Hand ``event`` to the listeners: for adapters and tests."""
        self._listeners.publish(event)

    def add_guard(self, guard: SessionGuard) -> Callable[[], None]:
        """Let ``guard`` veto new sessions and runs. Returns a disposer."""
        return self._guards.add(guard)

    def check_guards(self, context: SessionGuardContext) -> None:
        """Raise SessionGuardError when a guard refuses."""
        self._guards.check(context)

    def add_rule(self, rule: PermissionRule) -> Callable[[], None]:
        """Add a permission rule for every session. Returns a disposer."""
        return self.add_rules(lambda: (rule,))

    def add_rules(self, source: RuleSource) -> Callable[[], None]:
        """Let ``source`` say rules for every session; it is asked anew for each call. Returns a disposer."""
        key = object()  # the same rule may be there twice
        self._rules[key] = source

        def dispose() -> None:
            self._rules.pop(key, None)

        return dispose

    @property
    def rules(self) -> tuple[PermissionRule, ...]:
        """The rules for every session, in their order: the user's, then the application's own, then the notebook's."""
        rules = [rule for source in tuple(self._rules.values()) for rule in source()]
        return tuple(sorted(rules, key=lambda rule: _ORDER[rule.scope]))

    @property
    def has_resolver(self) -> bool:
        """True when a function of the application decides on calls after the rules."""
        return self._options.resolve_permission is not None

    def _check_run(self, session: SessionHost) -> None:
        if not session.hidden:
            self._check("run", session.id, session.tenant_id)

    def _check(self, action: Any, id: str | None, tenant_id: str | None) -> None:
        if not len(self._guards):  # what guards are shown costs more, the more sessions there are
            return
        context = SessionGuardContext(action=action, session_id=id, tenant_id=tenant_id, sessions=tuple(self.list()))
        self.check_guards(context)

    # ---- sessions ---------------------------------------------------------------------------------------------

    async def initialize(self) -> None:
        """Load the stored sessions, once. A session that can't be read is skipped with a warning."""
        if self._initialized is None or is_dead(self._initialized):
            self._initialized = asyncio.ensure_future(self.refresh())
        await asyncio.shield(self._initialized)

    async def refresh(self) -> None:
        """Look into the store again: for what other processes have written since."""
        try:
            summaries = await self._store.list()
        except (StoreError, OSError) as error:
            self._logger.warning("the stored sessions can't be listed: %s", error)
            return
        self._forget_deleted({summary.id for summary in summaries})
        for summary in summaries:
            known = self._sessions.get(summary.id)
            if known is not None and known.is_running:
                continue
            detail = await self._load(summary.id)
            if detail is None:
                continue
            if known is None:
                known = self._sessions[summary.id] = AgentSession(detail, self._services)
            known.reload(detail)

    def _forget_deleted(self, stored: set[str]) -> None:
        """Drop sessions that another process deleted. Those that were never written are not in the store yet."""
        for id, session in tuple(self._sessions.items()):
            if session.is_stored and id not in stored and not session.is_running and not session.is_owned:
                session.drop()
                del self._sessions[id]

    async def _load(self, id: str) -> SessionDetail | None:
        try:
            return await self._store.load(id)
        except (KestrelError, OSError) as error:
            self._logger.warning("session %s can't be read: %s", id, error)
            return None

    def create(
        self, request: CreateSessionRequest | None = None, tenant_id: str | None = None, **fields: Any
    ) -> AgentSession:
        """A new session. ``fields`` are those of CreateSessionRequest, as a shorter way to say them.

        Raises SessionGuardError when a guard refuses, ModelNotFoundError for an unknown model, UsageError for an id
        that is taken or a workspace that is no folder.
        """
        request = replace(request, **fields) if request else CreateSessionRequest(**fields)
        detail = self._new_detail(request, tenant_id)
        if not request.hidden:
            self._check("create", None, tenant_id)
        session = AgentSession(detail, self._services, hidden=request.hidden)
        if request.hidden:
            self._scratch.add(session)
        else:
            self._sessions[session.id] = session
        session.emit(SessionCreated, summary=session.summary())
        return session

    def _new_detail(self, request: CreateSessionRequest, tenant_id: str | None) -> SessionDetail:
        """What a new session begins with. Raises UsageError, ModelNotFoundError, StoreError."""
        workspace = os.path.abspath(os.path.expanduser(request.workspace or self._options.default_workspace))
        if not os.path.isdir(workspace):
            raise UsageError(f'the workspace "{workspace}" is not a folder')
        if request.model:
            self._options.models.get(request.model)
        now = time.time()
        return SessionDetail(
            id=make_id("sess") if request.id is None else self._free_id(request.id),
            title=clean_text(" ".join((request.title or "").split())),
            model=request.model or self._options.default_model or "",
            workspace=workspace,
            created_at=now,
            updated_at=now,
            tenant_id=tenant_id,
            system_prompt=request.system_prompt,
            tools=request.tools,
        )

    def _free_id(self, id: str) -> str:
        """``id``, when a session may have it. A stored session is never begun anew by accident."""
        if not _ID.fullmatch(id):
            raise UsageError(f'"{clean_text(id)[:80]}" can\'t be an id; use 1 to 128 letters, digits, "-" and "_"')
        store = self._store
        if id in self._sessions or (isinstance(store, SharedStore) and store.load_now(id) is not None):
            raise UsageError(f'there is a session "{id}" already; get it, or take another id')
        return id

    def fork(self, id: str, *, new_id: str | None = None, title: str | None = None) -> AgentSession:
        """A new session with the transcript and the settings of the session ``id``; from then on each is on its own.

        It is stored at once. Raises SessionNotFoundError, SessionBusyError while a run is going there,
        SessionGuardError when a guard refuses, UsageError for a taken id, StoreError. Nothing has changed then.
        """
        source = self.get(id)
        detail = source.detail()
        if source.is_running or (detail.run_id is not None and source.owner is not None):
            raise SessionBusyError("the session is running; await or cancel that run before you fork it")
        fresh = make_id("sess") if new_id is None else self._free_id(new_id)
        name = fork_title(detail.title, {summary.title for summary in self.list()}) if title is None else title
        name = clean_text(" ".join(name.split()))
        self._check("create", None, detail.tenant_id)
        session = AgentSession(forked(detail, id=fresh, title=name, at=time.time()), self._services)
        session.own()
        self._sessions[session.id] = session
        session.emit(SessionCreated, summary=session.summary())
        session.touch()
        return session

    def get(self, id: str) -> AgentSession:
        """The session ``id``. Raises SessionNotFoundError."""
        session = self._sessions.get(id)
        if session is None:
            raise SessionNotFoundError(f'no session "{id}"')
        return session

    def has(self, id: str) -> bool:
        """True when there is a session ``id``."""
        return id in self._sessions

    def list(self) -> list[SessionSummary]:
        """Every session, the one used last first."""
        summaries = [session.summary() for session in self._sessions.values()]
        return sorted(summaries, key=lambda summary: (-summary.updated_at, summary.id))

    def send(self, id: str, content: str) -> Run:
        """Start a run in the session ``id``. Raises SessionNotFoundError and what ``AgentSession.start`` raises."""
        return self.get(id).start(content)

    def cancel(self, id: str) -> bool:
        """Stop the run of the session ``id``; False when none is going. Raises SessionNotFoundError."""
        return self.get(id).cancel()

    async def delete(self, id: str) -> None:
        """Stop and remove the session ``id``, its stored form too.

        Raises SessionNotFoundError, SessionOwnedError while another process works on it, StoreError.
        """
        session = self.get(id)
        session.own()
        session.cancel()
        await session.ended()
        await self._store.delete(id)
        session.drop()
        self._sessions.pop(id, None)
        session.emit(SessionDeleted, summary=session.summary())

    async def close(self) -> None:
        """Stop every run, write what is left and forget the sessions here. Nothing is deleted from the store."""
        sessions = (*self._sessions.values(), *self._scratch)
        for session in sessions:
            session.cancel()
        for session in sessions:
            await session.ended()
            session.drop()
        self._sessions.clear()
        self._initialized = None


def is_dead(work: asyncio.Future[Any]) -> bool:
    """True for work that failed, or will never end because its event loop is not this one."""
    if work.done():
        return work.cancelled() or work.exception() is not None
    return work.get_loop() is not asyncio.get_running_loop()
