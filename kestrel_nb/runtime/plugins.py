"""Plugins: the unit of configuration and lifecycle. A plugin contributes tools, models, guards and rules."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..protocol.errors import DuplicateNameError, PluginError
from ..protocol.sessions import PermissionRule
from .guards import SessionGuard
from .listeners import EventListener
from .models import LanguageModel, ModelRegistry
from .tools import Tool, ToolRegistry


@dataclass(kw_only=True)
class PluginContext:
    """What a plugin may do. Everything it adds goes away when it is deactivated.

    ``config`` is the plugin's own section of the configuration, with its keys as written there.
    """

    config: Mapping[str, Any]
    logger: logging.Logger
    models: ModelRegistry
    tools: ToolRegistry
    subscribe_events: Callable[[EventListener], Callable[[], None]]
    guard_sessions: Callable[[SessionGuard], Callable[[], None]]
    add_permission_rule: Callable[[PermissionRule], Callable[[], None]]
    disposers: list[Callable[[], None]] = field(default_factory=list)

    def add_tool(self, tool: Tool, *, check: bool = True) -> None:
        """Register ``tool``; ``check=False`` compiles its schema at first use only."""
        self.disposers.append(self.tools.register(tool, check=check))

    def add_model(self, model: LanguageModel, *, set_default: bool = False) -> None:
        """Register ``model``."""
        self.disposers.append(self.models.register(model, set_default=set_default))

    def add_guard(self, guard: SessionGuard) -> None:
        """Let ``guard`` veto sessions and runs."""
        self.disposers.append(self.guard_sessions(guard))

    def add_rule(self, rule: PermissionRule) -> None:
        """Add a permission rule for every session."""
        self.disposers.append(self.add_permission_rule(rule))

    def subscribe(self, listener: EventListener) -> None:
        """Hear every event of every session."""
        self.disposers.append(self.subscribe_events(listener))


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsentTool:
    """A tool that a plugin could contribute and does not: ``why``, and what to do to have it."""

    tool: Tool
    why: str
    remedy: str


class Plugin(Protocol):
    """A plugin. ``activate`` may be a coroutine function; an optional ``deactivate()`` ends what it began.

    An optional ``absent_tools()`` lists what it could contribute and does not, as AbsentTool.
    """

    @property
    def name(self) -> str: ...

    def activate(self, context: PluginContext) -> Awaitable[None] | None: ...


class PluginRegistry:
    """The plugins by name, active or not."""

    def __init__(self, make_context: Callable[[Plugin], PluginContext]) -> None:
        self._make_context = make_context
        self._plugins: dict[str, Plugin] = {}
        self._active: dict[str, PluginContext] = {}

    def register(self, plugin: Plugin) -> Callable[[], None]:
        """Add ``plugin``, not yet active. Returns a disposer. Raises DuplicateNameError."""
        if plugin.name in self._plugins:
            raise DuplicateNameError(f'a plugin "{plugin.name}" is already registered; dispose of it first')
        self._plugins[plugin.name] = plugin

        def dispose() -> None:
            self._end(plugin.name)
            self._plugins.pop(plugin.name, None)

        return dispose

    def get(self, name: str) -> Plugin | None:
        """The plugin ``name``, or None."""
        return self._plugins.get(name)

    def list(self) -> list[Plugin]:
        """Every plugin, sorted by name."""
        return [self._plugins[name] for name in sorted(self._plugins)]

    def is_active(self, name: str) -> bool:
        """True when ``name`` is active."""
        return name in self._active

    @property
    def size(self) -> int:
        """How many plugins are registered."""
        return len(self._plugins)

    def absent_tools(self) -> dict[str, AbsentTool]:
        """The tools that the active plugins could contribute and nobody does, by name."""
        found: dict[str, AbsentTool] = {}
        for name, context in self._active.items():
            tell = getattr(self._plugins.get(name), "absent_tools", None)
            try:
                told = {absent.tool.schema.name: absent for absent in (tell() if tell else ())}
            except Exception:  # who asks about another plugin's tool must get an answer
                context.logger.exception("plugin %s failed to say what it lacks", name)
                continue
            found.update((name, absent) for name, absent in told.items() if context.tools.get(name) is None)
        return dict(sorted(found.items()))

    async def activate_all(self) -> None:
        """Activate what is not active yet, in the order of registration.

        Raises PluginError that names the plugin; what that plugin had added is taken back.
        """
        for name, plugin in tuple(self._plugins.items()):
            if name in self._active:
                continue
            context = self._make_context(plugin)
            self._active[name] = context
            try:
                pending = plugin.activate(context)
                if inspect.isawaitable(pending):
                    await pending
            except (Exception, SystemExit) as error:
                self._end(name)
                raise PluginError(f'plugin "{name}" could not start: {error}') from error
            except BaseException:  # cancelled in the middle
                self._end(name)
                raise

    async def deactivate_all(self) -> None:
        """Deactivate every plugin, the last one first. A plugin that fails at it is logged."""
        for name in reversed(tuple(self._active)):
            context = self._active[name]
            deactivate = getattr(self._plugins.get(name), "deactivate", None)
            try:
                pending = deactivate() if deactivate else None
                if inspect.isawaitable(pending):
                    await pending
            except Exception:
                context.logger.exception("plugin %s failed to stop", name)
            self._end(name)

    def _end(self, name: str) -> None:
        context = self._active.pop(name, None)
        while context and context.disposers:
            try:
                context.disposers.pop()()
            except Exception:  # the others must go all the same
                context.logger.exception("plugin %s left something behind", name)
