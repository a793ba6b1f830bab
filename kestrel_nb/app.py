"""``Kestrel``: the composition root. It builds the registries, activates the plugins and hands out the methods."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from types import TracebackType
from typing import Any, Self

from .config import CORE_TOOLS, KestrelConfig
from .protocol.codec import dumps, jsonable, parse_call
from .protocol.errors import (
    KestrelError,
    SandboxViolationError,
    StoreError,
    ToolCallError,
    ToolNotFoundError,
    UsageError,
)
from .protocol.events import EVENT_TYPES, SessionEvent
from .protocol.messages import ImageAttachment, new_id
from .protocol.sessions import CreateSessionRequest, PermissionRule, RunResult
from .runtime.approvals import ApprovalBroker, ApprovalHandler
from .runtime.listeners import EventListener
from .runtime.manager import SessionManager, SessionManagerOptions, is_dead
from .runtime.models import LanguageModel, ModelRegistry
from .runtime.permissions import PermissionResolver
from .runtime.plugins import Plugin, PluginContext, PluginRegistry
from .runtime.prompts import default_system_prompt
from .runtime.run import RunOptions
from .runtime.stores import FolderStore, SessionStore
from .runtime.tools import Tool, ToolRegistry
from .sandbox.closed import close_off
from .sync import LoopThread, console_approval, run_sync


class AppEvents:
    """The events of all sessions, by type."""

    def __init__(self, sessions: SessionManager) -> None:
        self._sessions = sessions

    def subscribe(self, type: str, listener: EventListener) -> Callable[[], None]:
        """Call ``listener`` for every event of ``type``, such as "tool.executed". Returns a disposer.

        Raises UsageError for a type that does not exist, with the nearest one.
        """
        names = sorted(kind.type for kind in EVENT_TYPES)
        if type not in names:
            near = get_close_matches(type, names, n=1)
            hint = f'did you mean "{near[0]}"?' if near else f"there are: {', '.join(names)}"
            raise UsageError(f'no event type "{type}"; {hint}')

        def hear(event: SessionEvent) -> None:
            if event.type == type:
                listener(event)

        return self._sessions.subscribe(hear)


class Kestrel:
    """An application: models, tools, plugins, sessions and approvals that belong together.

    Cheap to make: nothing is connected, loaded or started before the first use, which calls ``initialize()``. Use it
    on one event loop, and close it with ``await app.aclose()`` or ``async with``.

    ``model`` is an id, a LanguageModel, or None for the configured default (``demo``). ``workspace`` is the folder
    that every file tool stays in; the folder of a store is closed to them, also in there. ``tools`` are tools of your
    own, such as ``@tool`` functions. ``plugins`` are Plugin objects or names, beside those that the config names.
    Without ``store`` sessions live in memory. ``approve`` may answer approvals in code:
    ``async (request, signal) -> bool or ApprovalDecision``.

    Raises UsageError when the workspace is no folder, ModelNotFoundError for an unknown model, ToolSchemaError for a
    tool that can't be used, PluginError for an unknown plugin.
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
        config: KestrelConfig | None = None,
        logger: logging.Logger | None = None,
    ) -> None:
        self.config = config or KestrelConfig()
        self.workspace = os.path.abspath(os.path.expanduser(os.fspath(workspace)))
        if not os.path.isdir(self.workspace):
            raise UsageError(f'the workspace "{self.workspace}" is not a folder')
        if isinstance(store, FolderStore):
            close_off(store.folder)
        self._logger = logger or logging.getLogger("kestrel_nb")
        self._thread = LoopThread()
        self._ready: asyncio.Future[None] | None = None
        self.models = self._make_models(model)
        self.tools = ToolRegistry()
        for tool in tools:
            self.tools.register(tool)
        self.approvals = ApprovalBroker(timeout_s=self.config.approval_timeout_s, logger=self._logger)
        self.sessions = SessionManager(self._options(store, approve, resolve_permission, rules))
        self.events = AppEvents(self.sessions)
        self.plugins = PluginRegistry(self._plugin_context)
        for plugin in (*self.config.plugins, *plugins):
            if not isinstance(plugin, str):
                self.plugins.register(plugin)
            elif self.plugins.get(plugin) is None:  # naming one twice is no mistake
                self.plugins.register(_plugin_named(plugin))

    def _make_models(self, model: str | LanguageModel | None) -> ModelRegistry:
        from .providers.demo import DemoModel

        models = ModelRegistry()
        models.register(DemoModel())
        chosen = model if model is not None else self.config.model
        if isinstance(chosen, str):
            models.set_default(chosen)
        elif chosen is not None:
            models.register(chosen, set_default=True)
        return models

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
            retry=config.retry,
            approvals=self.approvals,
            rules=tuple(rules),
            to_data=_frames_to_data,
            ready=self.initialize,
        )

    def _system_prompt(self, workspace: str) -> str:
        names = [schema.name for schema in self.tools.schemas()]
        return default_system_prompt(workspace=workspace, tool_names=names, extra=self.config.system_prompt)

    def _plugin_context(self, plugin: Plugin) -> PluginContext:
        return PluginContext(
            config=self.config.plugin_config.get(plugin.name, {}),
            logger=self._logger.getChild(plugin.name),
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
        await self.plugins.activate_all()
        try:
            await self.sessions.initialize()
        except KestrelError:
            raise
        except Exception as error:  # a store of the user's own may raise anything
            raise StoreError(f"the stored sessions can't be read ({type(error).__name__}: {error})") from error

    async def aclose(self) -> None:
        """Stop every run, write what is left, deactivate the plugins."""
        await self.sessions.close()
        await self.plugins.deactivate_all()
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
        run = session.start(prompt, images=images, options=RunOptions(max_steps=max_steps, approve=approve))
        try:
            return await run
        except asyncio.CancelledError:
            session.cancel()
            await session.ended()
            raise

    def run_sync(self, prompt: str, *, approve: ApprovalHandler | None = None, **options: Any) -> RunResult:
        """``ask`` from synchronous code: in a script, in a cell, inside a coroutine.

        While it blocks no button can be pressed, so an approval is asked in the terminal or by the notebook's input
        box; where there is neither it is declined. ``approve`` may answer in code instead.
        """
        handler = approve or console_approval(self.approvals)
        return run_sync(self._thread, lambda: self.ask(prompt, approve=handler, **options))

    async def use_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """Call a tool directly: its data if it gives any, else its content.

        The call is validated, confined and told like any other; a deny rule holds, "ask" counts as answered by the
        code that calls. Raises ToolNotFoundError, SandboxViolationError, ToolCallError.
        """
        await self.initialize()
        if self.tools.get(name) is None:
            near = get_close_matches(name, [schema.name for schema in self.tools.schemas()], n=1)
            raise ToolNotFoundError(f'no tool "{name}"' + (f'; did you mean "{near[0]}"?' if near else ""))
        session = self.sessions.create(CreateSessionRequest(hidden=True))
        call = parse_call(new_id("call"), name, dumps(jsonable(arguments or {})))
        outcome = await session.use_tool(call)
        if outcome.state != "executed" or outcome.is_error:
            kind = SandboxViolationError if outcome.content.startswith("SANDBOX_VIOLATION") else ToolCallError
            raise kind(outcome.content)
        return outcome.content if outcome.data is None else outcome.data


def _frames_to_data(value: Any) -> Any:
    """Tool data as JSON data: a DataFrame becomes columns, rows and dtypes. Nobody has one before pandas is loaded."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(value, pandas.DataFrame):
        return value
    from .frames import frame_data

    return frame_data(value)


def _plugin_named(name: str) -> Plugin:
    if name == CORE_TOOLS:
        from .plugins.core_tools.plugin import CoreTools

        return CoreTools()
    from .plugins.installed import installed_plugin, unknown_plugin

    plugin = installed_plugin(name)
    if plugin is None:
        raise unknown_plugin(name, CORE_TOOLS)
    return plugin
