"""Tools whose default permission depends on the call, and tools that lack something."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import pytest
from stage import FunctionTool, Stage, results

from kestrel_nb.protocol.sessions import PermissionRule
from kestrel_nb.runtime.tools import missing, permission_words
from kestrel_nb.testing import Reply, ScriptedModel


class Judge(FunctionTool):
    """Runs small numbers, asks about others, and fails to judge some."""

    def permission_for(self, args: Mapping[str, Any]) -> Any:
        x = args.get("x", 0)
        if x == 13:
            raise RuntimeError("no idea")
        if x == 14:
            raise SystemExit
        if x == 15:
            args["x"] = 1  # type: ignore[index]
            return "auto"
        if x == 16:
            return later()
        return {17: None, 18: "deny", 19: True, 20: "AUTO"}.get(x, "auto" if x < 10 else "ask")


async def later() -> str:
    return "auto"


async def run_with(x: int, *, permission: str = "ask", rules: Any = ()) -> tuple[str, Stage]:
    async def decline(request: Any, signal: Any) -> bool:
        return False

    tool = Judge("judge", lambda args, _: f"ran {args}", permission=permission)
    model = ScriptedModel([Reply(tool_calls=[("judge", {"x": x})]), "done"])
    stage = Stage(model, [tool], approve=decline, rules=tuple(rules))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await stage.ask()
    stage.check()
    return results(stage.session.messages)[0], stage


@pytest.mark.parametrize("permission", ["ask", "auto"])
async def test_the_call_decides(permission: str) -> None:
    text, stage = await run_with(1, permission=permission)
    assert text == "ran {'x': 1}"
    assert stage.of("approval.requested") == []
    text, stage = await run_with(11, permission=permission)
    assert text.startswith("declined")
    assert stage.of("approval.requested")[0].request.reason == "`judge` asks for such a call (the tool's default)"


@pytest.mark.parametrize("x", [13, 14, 16, 17, 18, 19, 20])
async def test_who_can_not_judge_asks(x: int) -> None:
    text, stage = await run_with(x, permission="auto")
    assert text.startswith("declined")
    assert len(stage.of("approval.requested")) == 1


async def test_judging_does_not_change_the_call() -> None:
    assert (await run_with(15))[0] == "ran {'x': 15}"


@pytest.mark.parametrize(
    ("x", "action", "text"), [(1, "ask", "declined"), (11, "auto", "ran"), (1, "deny", "not run: denied")]
)
async def test_rules_come_before_the_tools_own_judgement(x: int, action: Any, text: str) -> None:
    assert (await run_with(x, rules=[PermissionRule(tool="judge", action=action)]))[0].startswith(text)


async def test_a_call_with_bad_arguments_is_not_judged() -> None:
    tool = Judge("judge", lambda *_: "never")
    stage = Stage(ScriptedModel([Reply(tool_calls=[("judge", {"x": "text"})]), "done"]), [tool])
    await stage.ask()
    assert "x: must be an integer" in results(stage.session.messages)[0]


def test_permission_in_words() -> None:
    assert permission_words(Judge("judge", lambda *_: "x")) == "depends on the call"
    assert permission_words(FunctionTool("t", lambda *_: "x", permission="ask")) == "ask"


# ---- tools that lack something ------------------------------------------------------------------------------------


class Waiting(FunctionTool):
    lack: Any = "no such thing here; get one"

    def unavailable(self) -> Any:
        if isinstance(self.lack, Exception):
            raise self.lack
        return self.lack


async def test_a_tool_that_lacks_something_is_offered_as_soon_as_it_does_not() -> None:
    tool = Waiting("waits", lambda *_: "its own answer")
    calls = Reply(tool_calls=[("waits", {}), ("typo", {})])
    stage = Stage(ScriptedModel([calls, "done", "done"]), [tool, FunctionTool("t", lambda *_: "ok")])
    await stage.ask()
    assert [schema.name for schema in stage.model.requests[0].tools] == ["t"]
    answer, unknown = results(stage.session.messages)
    assert answer == "its own answer"
    assert unknown.endswith("Available tools: t.")
    tool.lack = None
    await stage.ask()
    assert [schema.name for schema in stage.model.requests[2].tools] == ["t", "waits"]


def test_a_tool_that_fails_to_say_so() -> None:
    tool = Waiting("waits", lambda *_: "x")
    tool.lack = RuntimeError("no")
    assert missing(tool) == "it failed to say whether it can work (RuntimeError)"
    assert missing(FunctionTool("t", lambda *_: "x")) is None
