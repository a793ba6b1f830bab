"""An audit of tool use through ``app.events``: every call, with its tool, run, duration and error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from stage import FunctionTool

from kestrel_nb import Kestrel, PermissionRule, SandboxViolationError, ToolCallError, ToolExecutionResult
from kestrel_nb.testing import Reply, ScriptedModel

ENDINGS = ("tool.executed", "tool.failed", "tool.skipped")


class Audit:
    """What an application tells of its tools."""

    def __init__(self, app: Kestrel) -> None:
        self.events: list[Any] = []
        for type in ENDINGS:
            app.events.subscribe(type, self.events.append)

    def rows(self) -> list[tuple[str, str]]:
        return [(event.type, event.tool) for event in self.events]


def raises(error: Exception) -> Any:
    def work(*_: Any) -> str:
        raise error

    return work


async def test_every_call_of_a_run_is_told_once(tmp_path: Path) -> None:
    tools = [
        FunctionTool("fine", lambda *_: "ok"),
        FunctionTool("poor", lambda *_: ToolExecutionResult(content="no luck", is_error=True)),
        FunctionTool("breaks", raises(ValueError("broken"))),
        FunctionTool("asks", lambda *_: "never", permission="ask"),
        FunctionTool("denied", lambda *_: "never"),
    ]
    names = ("fine", "poor", "breaks", "asks", "denied", "missing")
    calls = [*((name, {}) for name in names), ("read_file", {"path": "../../etc/passwd"})]

    async def decline(request: Any, signal: Any) -> bool:
        return False

    model = ScriptedModel([Reply(tool_calls=calls), "done"])
    rules = [PermissionRule(tool="denied", action="deny")]
    async with Kestrel(model=model, tools=tools, rules=rules, approve=decline, workspace=tmp_path) as app:
        audit = Audit(app)
        result = await app.ask("go")
    assert audit.rows() == [
        ("tool.executed", "fine"),
        ("tool.executed", "poor"),
        ("tool.failed", "breaks"),
        ("tool.skipped", "asks"),
        ("tool.skipped", "denied"),
        ("tool.failed", "missing"),
        ("tool.failed", "read_file"),
    ]
    assert {event.run_id for event in audit.events} == {result.run_id}
    fine, poor, breaks, asks, denied, _, violation = audit.events
    assert (fine.is_error, poor.is_error) == (False, True)
    assert isinstance(fine.duration_ms, float)
    assert fine.duration_ms >= 0
    assert breaks.error == "ValueError: broken"
    assert (asks.cause, denied.cause) == ("declined", "denied")
    assert "SANDBOX_VIOLATION" in violation.error


async def test_direct_calls_are_told_too(tmp_path: Path) -> None:
    async with Kestrel(model=ScriptedModel([]), workspace=tmp_path) as app:
        audit = Audit(app)
        await app.use_tool("list_dir")
        with pytest.raises(SandboxViolationError) as caught:
            await app.use_tool("read_file", {"path": "../../etc/passwd"})
    assert caught.value.code == "SANDBOX_VIOLATION"
    assert audit.rows() == [("tool.executed", "list_dir"), ("tool.failed", "read_file")]
    assert audit.events[0].run_id != audit.events[1].run_id
    assert all(event.run_id for event in audit.events)


async def test_a_listener_that_fails_stops_nothing() -> None:
    def fail(event: Any) -> None:
        raise RuntimeError("the audit is broken")

    model = ScriptedModel([Reply(tool_calls=[("t", {})]), "done"])
    async with Kestrel(model=model, tools=[FunctionTool("t", lambda *_: "ok")]) as app:
        app.events.subscribe("tool.executed", fail)
        heard: list[Any] = []
        app.events.subscribe("tool.executed", heard.append)
        assert (await app.ask("go")).text == "done"
        assert len(heard) == 1


# ---- what a direct call gives back --------------------------------------------------------------------------------


async def test_codes_are_kept_and_error_objects_returned() -> None:
    error_object = {"error": True, "message": "no such host"}
    tools = [
        FunctionTool("coded", raises(ToolCallError("no such file", code="file_not_found"))),
        FunctionTool("plain", raises(RuntimeError("broken"))),
        FunctionTool("outside", raises(SandboxViolationError("outside"))),
        FunctionTool("object", lambda *_: ToolExecutionResult(content="x", data=error_object, is_error=True)),
        FunctionTool("other", lambda *_: ToolExecutionResult(content="no", data={"error": "text"}, is_error=True)),
        FunctionTool("numbers", lambda *_: ToolExecutionResult(content="no", data={"error": 1}, is_error=True)),
    ]
    async with Kestrel(model=ScriptedModel([]), tools=tools) as app:
        assert await app.use_tool("object") == error_object
        for name, kind, code in (
            ("coded", ToolCallError, "file_not_found"),
            ("plain", ToolCallError, "tool_call_failed"),
            ("outside", SandboxViolationError, "SANDBOX_VIOLATION"),
            ("other", ToolCallError, "tool_call_failed"),
            ("numbers", ToolCallError, "tool_call_failed"),
        ):
            with pytest.raises(ToolCallError) as caught:
                await app.use_tool(name)
            assert (type(caught.value), caught.value.code) == (kind, code)
        with pytest.raises(ToolCallError, match="x: must be an integer"):
            await app.use_tool("object", {"x": "text"})
