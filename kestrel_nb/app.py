"""``Kestrel``: the composition root. It builds the registries, activates the plugins and hands out the methods."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from .config import KestrelConfig
from .plugins.builtin_tools.config import BUILT_IN_TOOLS as BUILT_IN_IDS
from .plugins.builtin_tools.config import BuiltInToolConfig
from .plugins.named import BUILT_IN_TOOLS, plugin_named
from .protocol.errors import KestrelError, StoreError, ToolNotFoundError, UsageError
from .protocol.events import RunStarted, SessionEvent
from .protocol.messages import ImageAttachment
from .protocol.sessions import CreateSessionRequest, PermissionRule, RunResult, Usage
from .runtime.app_events import AppEvents
from .runtime.approvals import ApprovalBroker, ApprovalHandler
from .runtime.asking import ask, text_of
from .runtime.direct_calls import call_directly, why_not
from .runtime.logs import without_keys
from .runtime.manager import SessionManager, SessionManagerOptions, is_dead
from .runtime.models import LanguageModel, ModelRegistry
from .runtime.permissions import PermissionResolver
from .runtime.plugins import Plugin, PluginContext, PluginRegistry
from .runtime.prompts import default_system_prompt
from .runtime.run import RunOptions
from .runtime.stores import FolderStore, SessionStore
from .runtime.tool_policy import ToolPolicy
from .runtime.tools import Tool, ToolRegistry, missing
from .sandbox.closed import close_off
from .sync import LoopThread, console_approval, run_sync

if TYPE_CHECKING:
    from .providers.cassette import Cassette
    from .providers.catalog import Catalog


class Kestrel:
    """An application: models, tools, plugins, sessions and approvals that belong together.

    Cheap to make: nothing is connected, loaded or started before the first use, which calls ``initialize()``. Use it
    on one event loop, and close it with ``await app.aclose()`` or ``async with``.

    ``model`` is an id (``openai:NAME``, see the README's "Models"), a LanguageModel, or None for the configured default
    (``demo``). ``workspace`` is the folder
    that every file tool stays in; the folder of a store is closed to them, also in there. ``tools`` are tools of your
    own, such as ``@tool`` functions. ``plugins`` are Plugin objects or names, beside those that the config names; an
    object takes the place of the one of its name. Without ``store`` sessions live in memory. ``approve`` may answer
    approvals in code: ``async (request, signal) -> bool or ApprovalDecision``. ``built_in_tools`` says which of the
    built-in tools there are, and how far they reach; ``tool_policy`` narrows the tools of the whole application.
    ``cassette`` records or plays what models say, people answer and tools give; ``app.cassette`` may be changed later.

    Raises UsageError when the workspace is no folder or the configuration is wrong, ModelNotFoundError for an unknown
    model, ToolSchemaError for a tool that can't be used, PluginError for an unknown plugin.
    """

    def __init__(
        self,
        *,
        model: str | LanguageModel | None = None,
        workspace: str | os.PathLike[str] = ".",
        tools: Iterable[Tool] = (),
        plugins: Iterable[Plugin | str] = (),
        store: SessionStore | None = None,
        approve: ApprovalHandler | None = None,
        resolve_permission: PermissionResolver | None = None,
        rules: Sequence[PermissionRule] = (),
        built_in_tools: BuiltInToolConfig | None = None,
        tool_policy: ToolPolicy | None = None,
        config: KestrelConfig | None = None,
        cassette: Cassette | None = None,
        logger: logging.Logger | None = None,
    ) -> None:
        self.config = config or KestrelConfig()
        self.workspace = os.path.abspath(os.path.expanduser(os.fspath(workspace)))
        if not os.path.isdir(self.workspace):
            raise UsageError(f'the workspace "{self.workspace}" is not a folder')
        if isinstance(store, FolderStore):
            close_off(store.folder)
        self._logger = without_keys(logger or logging.getLogger("kestrel_nb"))
        self._thread = LoopThread()
        self._ready: asyncio.Future[None] | None = None
        self.cassette = _cassette(cassette)
        self.models = self._make_models(model)
        self.tools = ToolRegistry()
        for tool in tools:
            self.tools.register(tool)
        self.approvals = ApprovalBroker(timeout_s=self.config.approval_timeout_s, logger=self._logger)
        self.tool_policy = _policy(tool_policy)
        self.sessions = SessionManager(self._options(store, approve, resolve_permission, rules))
        self.events = AppEvents(self.sessions)
        self.sessions.subscribe(self._look_up_prices)
        self.plugins = PluginRegistry(self._plugin_context)
        self._register(tuple(plugins), built_in_tools)

    def _register(self, given: Sequence[Plugin | str], built_in_tools: BuiltInToolConfig | None) -> None:
        objects = {getattr(plugin, "name", None) for plugin in given if not isinstance(plugin, str)}
        configured = self.config.built_in_tools(built_in_tools)
        if configured is not None and BUILT_IN_TOOLS in objects:
            raise UsageError(f'the built-in tools are configured twice: in the plugin "{BUILT_IN_TOOLS}" and beside it')
        implied = () if built_in_tools is None else (BUILT_IN_TOOLS,)
        for plugin in (*self.config.plugins, *implied, *given):
            if not isinstance(plugin, str):
                self.plugins.register(plugin)
            elif plugin not in objects and self.plugins.get(plugin) is None:  # naming one twice is no mistake
                self.plugins.register(plugin_named(plugin, built_in_tools=configured))

    def _make_models(self, model: str | LanguageModel | None) -> ModelRegistry:
        from .providers.cassette_wish import check_asked
        from .providers.demo import DemoModel

        models = ModelRegistry(check=check_asked)
        models.register(DemoModel())
        models.add_resolver(lambda id: self.catalog.resolve(id))
        models.add_resolver(lambda id: None if self.cassette is None else self.cassette.resolve(id))
        chosen = model if model is not None else self.config.model
        if isinstance(chosen, str):
            models.set_default(chosen)
        elif chosen is not None:
            models.register(chosen, set_default=True)
        return models

    @cached_property
    def catalog(self) -> Catalog:
        """The models of known providers: those that ids such as ``openai:NAME`` name."""
        from .providers.catalog import Catalog

        return Catalog()

    def _look_up_prices(self, event: SessionEvent) -> None:
        """When a run begins, read the price list beside it, if its model may stand there."""
        if isinstance(event, RunStarted) and ":" in (model := event.model):
            from .providers.prices import load_ahead

            load_ahead(model, lambda: self._learn_window(model))

    def _learn_window(self, id: str) -> None:
        """The price list was read: tell the model ``id`` what it says of it, where nobody said more."""
        from .providers.prices import context_window

        model = self.models.get(id) if self.models.has(id) else None
        learn = getattr(model, "learn", None)
        if model is not None and learn is not None and model.info.context_window is None:
            learn(replace(model.info, context_window=context_window(id)))

    def _options(
        self,
        store: SessionStore | None,
        approve: ApprovalHandler | None,
        resolve_permission: PermissionResolver | None,
        rules: Sequence[PermissionRule],
    ) -> SessionManagerOptions:
        config = self.config
        return SessionManagerOptions(
            models=self.models,
            tools=self.tools,
            logger=self._logger,
            default_workspace=self.workspace,
            store=store,
            system_prompt=self._system_prompt if config.system_prompt else None,
            max_steps=config.max_steps,
            temperature=config.temperature,
            max_tokens=config.max_tokens,
            approve=approve,
            resolve_permission=resolve_permission,
            tool_policy=self.tool_policy,
            retry=config.retry,
            approvals=self.approvals,
            rules=tuple(rules),
            to_data=_frames_to_data,
            ready=self.initialize,
            intercept=lambda: self.cassette if self.cassette is not None and self.cassette.active else None,
            price=_price,
            prices_ready=_prices_ready,
        )

    def _system_prompt(self, workspace: str) -> str:
        tools = (tool for tool in self.tools.list() if missing(tool) is None)
        names = [tool.schema.name for tool in tools if self.tool_policy.refusal(tool.schema.name) is None]
        return default_system_prompt(workspace=workspace, tool_names=names, extra=self.config.system_prompt)

    def _plugin_context(self, plugin: Plugin) -> PluginContext:
        return PluginContext(
            config=self.config.plugin_config.get(plugin.name, {}),
            logger=without_keys(self._logger.getChild(plugin.name)),
            models=self.models,
            tools=self.tools,
            subscribe_events=self.sessions.subscribe,
            guard_sessions=self.sessions.add_guard,
            add_permission_rule=self.sessions.add_rule,
        )

    # ---- life cycle -------------------------------------------------------------------------------------------

    async def initialize(self) -> None:
        """Activate the plugins and load the stored sessions; once, however often it is called."""
        if self._ready is None or is_dead(self._ready):
            self._ready = asyncio.ensure_future(self._initialize())
        await asyncio.shield(self._ready)

    async def _initialize(self) -> None:
        if self.cassette is not None:
            self.cassette.open()
        await self.plugins.activate_all()
        slip = self.tool_policy.slip(dict.fromkeys((*(schema.name for schema in self.tools.schemas()), *BUILT_IN_IDS)))
        if slip:
            raise UsageError(slip)
        try:
            await self.sessions.initialize()
        except KestrelError:
            raise
        except Exception as error:  # a store of the user's own may raise anything
            raise StoreError(f"the stored sessions can't be read ({type(error).__name__}: {error})") from error

    async def aclose(self) -> None:
        """Stop every run, write what is left, deactivate the plugins, close unused connections."""
        await self.sessions.close()
        await self.plugins.deactivate_all()
        if (connections := sys.modules.get(f"{__package__}.providers.connections")) is not None:
            await connections.close_connections()
        if self.cassette is not None:
            self.cassette.close()
        self._ready = None

    def close(self) -> None:
        """``aclose`` from synchronous code; also ends the private loop that ``run_sync`` made."""
        run_sync(self._thread, self.aclose)
        self._thread.stop()

    async def __aenter__(self) -> Self:
        try:
            await self.initialize()
        except BaseException:
            await self.aclose()  # what had started is ended: nobody else will
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    # ---- doing things -----------------------------------------------------------------------------------------

    async def ask(
        self,
        prompt: str,
        *,
        model: str | None = None,
        images: Sequence[ImageAttachment] = (),
        approve: ApprovalHandler | None = None,
        max_steps: int | None = None,
    ) -> RunResult:
        """One run in a fresh session. Cancelling the caller cancels the run.

        Raises what ``AgentSession.start`` and the model raise.
        """
        await self.initialize()
        session = self.sessions.create(CreateSessionRequest(model=model))
        return await ask(session, prompt, images=images, options=RunOptions(max_steps=max_steps, approve=approve))

    async def complete(
        self,
        prompt: str,
        *,
        model: str | None = None,
        system: str | None = None,
        images: Sequence[ImageAttachment] = (),
    ) -> str:
        """What the model answers to ``prompt``: one model call without tools, retried like any other.

        ``system`` is the whole system message; by default it is the configured ``system_prompt``, if any. No session is
        left; events tell of it, and cancelling the caller cancels it. Raises what the model raises, CancelledByUser
        when the application was closed meanwhile.
        """
        await self.initialize()
        text = self.config.system_prompt or "" if system is None else system
        session = self.sessions.create(CreateSessionRequest(model=model, hidden=True, tools=(), system_prompt=text))
        return text_of(await ask(session, prompt, images=images, options=RunOptions(max_steps=1)))

    async def complete_with_tools(
        self,
        prompt: str,
        *,
        model: str | None = None,
        tools: Sequence[str] | None = None,
        approve: ApprovalHandler | None = None,
        max_steps: int | None = None,
    ) -> str:
        """What the model answers to ``prompt`` when it may call tools: a run in a session that is not listed or kept.

        ``tools`` names those that it is offered, by default all. Permissions, rules and approvals hold as in any run.
        At the step limit this is what the model said last, perhaps ""; ``ask`` tells how a run ended. Cancelling the
        caller cancels the run. Raises what ``ask`` raises, ToolNotFoundError for a tool that is not there,
        CancelledByUser when the application was closed meanwhile.
        """
        await self.initialize()
        names = None if tools is None else self._names_of(tools)
        session = self.sessions.create(CreateSessionRequest(model=model, hidden=True, tools=names))
        return text_of(await ask(session, prompt, options=RunOptions(max_steps=max_steps, approve=approve)))

    def _names_of(self, tools: Sequence[str]) -> tuple[str, ...]:
        if isinstance(tools, str):
            raise UsageError(f'tools is a list of names, such as ["{tools}"]')
        for name in tools:
            if problem := self.why_not(name):
                raise ToolNotFoundError(problem)
        return tuple(tools)

    def run_sync(self, prompt: str, *, approve: ApprovalHandler | None = None, **options: Any) -> RunResult:
        """``ask`` from synchronous code: in a script, in a cell, inside a coroutine.

        While it blocks no button can be pressed, so an approval is asked in the terminal or by the notebook's input
        box; where there is neither it is declined. ``approve`` may answer in code instead.
        """
        handler = approve or console_approval(self.approvals)
        return run_sync(self._thread, lambda: self.ask(prompt, approve=handler, **options))

    async def use_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """Call a tool directly: its data if it gives any, else its content.

        The call is validated, confined and told like any other; a deny rule and the tool policy hold, "ask" counts as
        answered by the code that calls. A failure that a tool answers as an error object ``{error: True, message}`` is
        returned, as is whatever a built-in tool answers. Raises ToolNotFoundError, and ToolCallError for every other
        failure, with the code of the tool's own; SandboxViolationError is one.
        """
        await self.initialize()
        if self.tools.get(name) is None:
            raise ToolNotFoundError(self.why_not(name) or name)
        session = self.sessions.create(CreateSessionRequest(hidden=True))
        return await call_directly(session, name, arguments, answers=name in BUILT_IN_IDS)

    def why_not(self, name: str) -> str | None:
        """Why no model can be offered the tool ``name``, in one line that says what can be done; None when one can."""
        return why_not(name, self.tools, self.plugins, self.tool_policy)


def _policy(given: ToolPolicy | None) -> ToolPolicy:
    if given is not None and not isinstance(given, ToolPolicy):
        raise UsageError("tool_policy must be a ToolPolicy: ToolPolicy(deny=[...])")
    return given or ToolPolicy()


def _cassette(given: Cassette | None) -> Cassette | None:
    if given is None:
        return None
    from .providers.cassette import Cassette

    if not isinstance(given, Cassette):
        raise UsageError('cassette must be a Cassette: Cassette("notebook.jsonl")')
    return given


def _price(model: str, usage: Usage) -> float | None:
    """What a reply cost; only ids of a provider are looked up, so that no other model pays for the price list."""
    if ":" not in model:
        return None
    from .providers.prices import price_if_loaded

    return price_if_loaded(model, usage)


async def _prices_ready() -> None:
    prices = sys.modules.get(f"{__package__}.providers.prices")
    if prices is not None:
        await prices.ready()


def _frames_to_data(value: Any) -> Any:
    """Tool data as JSON data: a DataFrame becomes columns, rows and dtypes. Nobody has one before pandas is loaded."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(value, pandas.DataFrame):
        return value
    from .frames import frame_data

    return frame_data(value)
