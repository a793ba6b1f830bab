"""The application: asking, calling tools directly, events, its life cycle, and more than one event loop."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from stage import AsyncFunctionTool, FunctionTool

from kestrel_nb import Kestrel, KestrelConfig, PermissionRule
from kestrel_nb.frames import to_frame
from kestrel_nb.protocol.errors import (
    ModelNotFoundError,
    PluginError,
    SandboxViolationError,
    ToolCallError,
    ToolNotFoundError,
    UsageError,
)
from kestrel_nb.runtime.tools import ToolExecutionResult
from kestrel_nb.testing import Reply, ScriptedModel


def make(*replies: Any, tools: Any = (), **options: Any) -> Kestrel:
    return Kestrel(model=ScriptedModel(replies), tools=tools, **options)


async def test_ask() -> None:
    tool = FunctionTool("rows", lambda *_: ToolExecutionResult(content="2", data=[1, 2]))
    async with make(Reply(tool_calls=[("rows", {}), ("rows", {})]), "done", tools=[tool]) as app:
        result = await app.ask("how many?")
        assert (result.status, result.text, result.steps) == ("completed", "done", 2)
        assert result.tool_data == {"rows": [[1, 2], [1, 2]]}
        assert len(app.sessions.list()) == 1


async def test_ask_for_fewer_steps() -> None:
    calls = Reply(tool_calls=[("t", {})])
    async with make(calls, calls, calls, tools=[FunctionTool("t", lambda *_: "ok")]) as app:
        assert (await app.ask("go", max_steps=2)).status == "max_steps"
        with pytest.raises(UsageError):
            await app.ask("go", max_steps=0)
        with pytest.raises(ModelNotFoundError):
            await app.ask("go", model="none")


async def test_cancelling_who_asks_cancels_the_run() -> None:
    async with make(Reply("late", before=3600)) as app:
        ended: list[Any] = []
        app.events.subscribe("run.completed", ended.append)
        task = asyncio.create_task(app.ask("go"))
        while not app.models.get("scripted").requests:  # type: ignore[attr-defined]  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [event.status for event in ended] == ["cancelled"]


# ---- direct calls -----------------------------------------------------------------------------------------------


async def test_use_tool(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("await x\n")
    tools = [
        FunctionTool("text", lambda *_: "only text"),
        FunctionTool("asks", lambda args, _: f"ran {args}", permission="ask"),
        FunctionTool("fails", lambda *_: 1 / 0),
        FunctionTool("expected", lambda *_: ToolExecutionResult(content="no match", is_error=True)),
        FunctionTool("falsy", lambda *_: ToolExecutionResult(content="none", data=[])),
    ]
    async with make(tools=tools, workspace=tmp_path) as app:
        events: list[str] = []
        app.sessions.subscribe(lambda event: events.append(event.type))
        assert await app.use_tool("text") == "only text"
        assert events[-2:] == ["tool.started", "tool.executed"]
        assert await app.use_tool("asks", {"x": 1}) == "ran {'x': 1}"
        assert await app.use_tool("falsy") == []
        assert "approval.requested" not in events
        assert (await app.use_tool("grep", {"pattern": "await"}))["total"] == 1
        for name, text in (("fails", "ZeroDivisionError"), ("expected", "no match")):
            with pytest.raises(ToolCallError, match=text):
                await app.use_tool(name)
        with pytest.raises(ToolCallError, match="x: must be an integer"):
            await app.use_tool("asks", {"x": "text"})
        with pytest.raises(ToolNotFoundError, match='did you mean "grep"'):
            await app.use_tool("grp")
        with pytest.raises(SandboxViolationError):
            await app.use_tool("read_file", {"path": "../../etc/passwd"})
        assert app.sessions.list() == []


async def test_a_deny_rule_holds_for_direct_calls() -> None:
    app = make(tools=[FunctionTool("t", lambda *_: "ran")], rules=[PermissionRule(tool="t", action="deny")])
    async with app:
        with pytest.raises(ToolCallError, match="not run"):
            await app.use_tool("t")


async def test_a_direct_call_can_be_cancelled() -> None:
    stopped = asyncio.Event()

    async def work(args: Any, context: Any) -> str:
        try:
            await asyncio.sleep(3600)
        finally:
            stopped.set()
        return "never"

    async with make(tools=[AsyncFunctionTool("t", work)]) as app:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(app.use_tool("t"), 0.2)
        async with asyncio.timeout(5):
            await stopped.wait()


async def test_a_frame_in_the_data_comes_back_equal() -> None:
    frame = pd.DataFrame(
        {
            "id": pd.array([1, None, 2**60], dtype="Int64"),
            "name": ["a", None, "ü"],
            "ratio": [0.1, float("nan"), 1e300],
            "when": pd.to_datetime(["2024-01-01", None, "2024-01-02T03:04:05.678"], format="ISO8601"),
        }
    )
    tool = FunctionTool("table", lambda *_: ToolExecutionResult(content="3 rows", data=frame))
    async with make(Reply(tool_calls=[("table", {})]), "done", tools=[tool]) as app:
        result = await app.ask("go")
        pd.testing.assert_frame_equal(to_frame(result.tool_data["table"][0]), frame)
        pd.testing.assert_frame_equal(to_frame(await app.use_tool("table")), frame)


# ---- events -----------------------------------------------------------------------------------------------------


async def test_events_by_type() -> None:
    async with make("one", "two") as app:
        heard: list[Any] = []
        dispose = app.events.subscribe("run.completed", heard.append)
        await app.ask("hi")
        dispose()
        dispose()
        await app.ask("hi")
        assert [event.type for event in heard] == ["run.completed"]
        with pytest.raises(UsageError, match=r'did you mean "tool\.executed"'):
            app.events.subscribe("tool.execute", heard.append)
        with pytest.raises(UsageError, match=r"there are: approval\.requested"):
            app.events.subscribe("xyz", heard.append)
        with pytest.raises(UsageError, match=r"the listener of run\.completed must be a function of one event, not 3"):
            app.events.subscribe("run.completed", 3)  # type: ignore[arg-type]


# ---- life cycle -------------------------------------------------------------------------------------------------


class Plugin:
    name = "mine"

    def __init__(self, fails: int = 0) -> None:
        self.fails = fails
        self.log: list[str] = []

    async def activate(self, context: Any) -> None:
        if self.fails:
            self.fails -= 1
            raise RuntimeError("no luck")
        self.log.append("+")
        context.add_tool(FunctionTool("mine", lambda *_: "ok"))

    def deactivate(self) -> None:
        self.log.append("-")


async def test_nothing_starts_before_the_first_use() -> None:
    plugin = Plugin()
    app = make("one", plugins=[plugin])
    assert (plugin.log, app.tools.size) == ([], 0)
    await asyncio.gather(app.initialize(), app.initialize())
    assert plugin.log == ["+"]
    await app.aclose()
    assert (plugin.log, app.tools.size) == (["+", "-"], 0)
    assert (await app.ask("again")).text == "one"
    await app.aclose()
    await app.aclose()


async def test_a_plugin_that_fails_at_activate() -> None:
    plugin = Plugin(fails=2)
    app = make("one", plugins=[plugin])
    with pytest.raises(PluginError, match='plugin "mine" could not start: no luck'):
        await app.ask("hi")
    with pytest.raises(PluginError):
        async with app:
            pass
    assert app.tools.size == 0
    async with app:
        assert (await app.ask("hi")).text == "one"


def test_what_the_constructor_refuses(tmp_path: Path) -> None:
    for options, error in (
        ({"workspace": tmp_path / "none"}, UsageError),
        ({"model": "none"}, ModelNotFoundError),
        ({"plugins": ["none"]}, PluginError),
    ):
        with pytest.raises(error):
            Kestrel(**options)  # type: ignore[arg-type]
    for fields in ({"max_steps": 0}, {"approval_timeout_s": 0}):
        with pytest.raises(UsageError):
            KestrelConfig(**fields)  # type: ignore[arg-type]


async def test_a_plugin_that_is_named_twice() -> None:
    async with Kestrel(plugins=["tools-core"]) as app:
        assert app.tools.get("grep") is not None


def test_g03_two_loops_one_after_the_other_and_from_a_thread() -> None:
    app = make("one", "two", "three", "four")
    session = app.sessions.create()

    async def go() -> str:
        return (await session.start("hi")).text

    assert asyncio.run(go()) == "one"
    assert asyncio.run(go()) == "two"
    texts: list[str] = []
    thread = threading.Thread(target=lambda: texts.append(asyncio.run(go())))
    thread.start()
    thread.join(30)
    assert texts == ["three"]
    assert asyncio.run(app.ask("hi")).text == "four"
    asyncio.run(app.aclose())
    assert len(session.messages) == 6


def test_a_loop_that_ended_while_the_application_started() -> None:
    class Slow(Plugin):
        async def activate(self, context: Any) -> None:
            await asyncio.sleep(0.05)
            await super().activate(context)

    app = make("one", plugins=[Slow()])

    async def begin() -> None:
        task = asyncio.ensure_future(app.initialize())
        await asyncio.sleep(0)
        assert not task.done()

    asyncio.run(begin())
    assert asyncio.run(app.ask("hi")).text == "one"
