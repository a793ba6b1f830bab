"""Plugins: they begin in order, end in reverse, and leave nothing behind."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from stage import FunctionTool

from kestrel_nb.protocol.errors import DuplicateNameError, PluginError
from kestrel_nb.protocol.sessions import PermissionRule
from kestrel_nb.runtime.guards import Guards
from kestrel_nb.runtime.models import ModelRegistry
from kestrel_nb.runtime.plugins import PluginContext, PluginRegistry
from kestrel_nb.runtime.tools import ToolRegistry
from kestrel_nb.testing import ScriptedModel


def model(id: str) -> Any:
    return ScriptedModel([], id=id)


def tool(name: str) -> Any:
    return FunctionTool(name, lambda *_: "ok")


class Plugin:
    def __init__(self, name: str, log: list[str], *, fails: BaseException | None = None, stops: Any = None) -> None:
        self.name = name
        self.log = log
        self.fails = fails
        self.stops = stops

    def activate(self, context: PluginContext) -> None:
        context.add_tool(tool(f"{self.name}_tool"))
        context.add_model(model(f"{self.name}_model"))
        context.add_guard(lambda _: None)
        context.add_rule(PermissionRule(tool="x", action="deny"))
        context.subscribe(lambda _: None)
        if self.fails:
            raise self.fails
        self.log.append(f"+{self.name}")

    def deactivate(self) -> None:
        self.log.append(f"-{self.name}")
        if self.stops:
            raise self.stops


class AsyncPlugin(Plugin):
    async def activate(self, context: PluginContext) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        super().activate(context)

    async def deactivate(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        super().deactivate()


class World:
    def __init__(self) -> None:
        self.tools, self.models, self.guards = ToolRegistry(), ModelRegistry(), Guards()
        self.rules: list[Any] = []
        self.listeners: list[Any] = []
        self.log: list[str] = []
        self.plugins = PluginRegistry(self.context)

    def context(self, plugin: Any) -> PluginContext:
        return PluginContext(
            config={},
            logger=logging.getLogger(plugin.name),
            models=self.models,
            tools=self.tools,
            subscribe_events=lambda item: self._add(self.listeners, item),
            guard_sessions=self.guards.add,
            add_permission_rule=lambda item: self._add(self.rules, item),
        )

    @staticmethod
    def _add(items: list[Any], item: Any) -> Any:
        items.append(item)
        return lambda: items.remove(item)

    def counts(self) -> tuple[int, ...]:
        return (self.tools.size, self.models.size, len(self.rules), len(self.listeners), len(self.guards._guards))


@pytest.mark.parametrize("kind", [Plugin, AsyncPlugin])
async def test_plugins_begin_in_order_and_end_in_reverse(kind: Any) -> None:
    world = World()
    for name in ("b", "a"):
        world.plugins.register(kind(name, world.log))
    assert world.counts() == (0, 0, 0, 0, 0)
    await world.plugins.activate_all()
    await world.plugins.activate_all()
    assert world.log == ["+b", "+a"]
    assert world.counts() == (2, 2, 2, 2, 2)
    assert [plugin.name for plugin in world.plugins.list()] == ["a", "b"]
    assert world.plugins.is_active("a")
    await world.plugins.deactivate_all()
    assert world.log == ["+b", "+a", "-a", "-b"]
    assert world.counts() == (0, 0, 0, 0, 0)
    await world.plugins.activate_all()
    assert world.counts() == (2, 2, 2, 2, 2)


@pytest.mark.parametrize("kind", [Plugin, AsyncPlugin])
@pytest.mark.parametrize("error", [RuntimeError("no port"), SystemExit(1)])
async def test_a_plugin_that_fails_takes_everything_back(kind: Any, error: BaseException) -> None:
    world = World()
    world.plugins.register(Plugin("good", world.log))
    bad = kind("bad", world.log, fails=error)
    world.plugins.register(bad)
    with pytest.raises(PluginError, match='plugin "bad" could not start'):
        await world.plugins.activate_all()
    assert world.counts() == (1, 1, 1, 1, 1)
    assert not world.plugins.is_active("bad")
    bad.fails = None
    await world.plugins.activate_all()
    assert world.log == ["+good", "+bad"]


async def test_a_plugin_that_is_cancelled_while_it_starts_is_not_active() -> None:
    class Slow(Plugin):
        async def activate(self, context: PluginContext) -> None:  # type: ignore[override]
            super().activate(context)
            await asyncio.sleep(3600)

    world = World()
    world.plugins.register(Slow("slow", world.log))
    task = asyncio.create_task(world.plugins.activate_all())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert world.counts() == (0, 0, 0, 0, 0)
    assert not world.plugins.is_active("slow")


async def test_a_plugin_that_fails_to_stop_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.plugins.register(Plugin("a", world.log))
    world.plugins.register(Plugin("b", world.log, stops=RuntimeError("stuck")))
    await world.plugins.activate_all()
    await world.plugins.deactivate_all()
    assert world.log == ["+a", "+b", "-b", "-a"]
    assert world.counts() == (0, 0, 0, 0, 0)
    assert "b failed to stop" in caplog.text


async def test_names_of_plugins_and_disposing() -> None:
    world = World()
    dispose = world.plugins.register(Plugin("a", world.log))
    with pytest.raises(DuplicateNameError):
        world.plugins.register(Plugin("a", world.log))
    await world.plugins.activate_all()
    dispose()
    dispose()
    assert world.counts() == (0, 0, 0, 0, 0)
    assert (world.plugins.size, world.plugins.get("a")) == (0, None)
