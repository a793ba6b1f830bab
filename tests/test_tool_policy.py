"""The tool policy: what it rules out is not offered, not called, and says why; together with rules and selections."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from stage import FunctionTool, results

from kestrel_nb import Kestrel, PermissionRule, ToolPolicy, tool
from kestrel_nb.protocol.errors import ToolCallError, UsageError
from kestrel_nb.runtime.run import RunOptions
from kestrel_nb.testing import Reply, ScriptedModel


def make(policy: ToolPolicy, *replies: Any, **options: Any) -> tuple[Kestrel, ScriptedModel, list[str]]:
    ran: list[str] = []
    tools = [FunctionTool(name, lambda *_, name=name: ran.append(name) or "ran") for name in ("one", "two", "three")]
    model = ScriptedModel(replies)
    return Kestrel(model=model, tools=tools, tool_policy=policy, **options), model, ran


def offered(model: ScriptedModel, at: int = 0) -> set[str]:
    return {schema.name for schema in model.requests[at].tools}


# ---- what it means ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "allowed"),
    [
        (ToolPolicy(), {"one", "two", "three"}),
        (ToolPolicy(allow=["one"]), {"one"}),
        (ToolPolicy(allow=[]), set()),
        (ToolPolicy(deny=["one"]), {"two", "three"}),
        (ToolPolicy(allow=["one", "two"], deny=["two"]), {"one"}),
        (ToolPolicy(allow=["one"], deny=["*"]), set()),
        (ToolPolicy(allow=["t*"]), {"two", "three"}),
        (ToolPolicy(allow=["t?o"]), {"two"}),
        (ToolPolicy(allow=["*"], deny=["t*"]), {"one"}),
        (ToolPolicy(allow=("one",), deny={"two"}), {"one"}),
        (ToolPolicy(["one"], ["two"]), {"one"}),
        (ToolPolicy(deny=["ONE*"]), {"one", "two", "three"}),
    ],
)
async def test_what_is_offered_and_runs(policy: ToolPolicy, allowed: set[str]) -> None:
    calls = Reply(tool_calls=[(name, {}) for name in ("one", "two", "three")])
    app, model, ran = make(policy, calls, "done")
    async with app:
        await app.ask("go")
    assert offered(model) & {"one", "two", "three"} == allowed
    assert set(ran) == allowed
    refused = [text for text in results(model.requests[1].messages) if text != "ran"]
    assert len(refused) == 3 - len(allowed)
    assert all(text.startswith("not run: the tool policy of this application d") for text in refused)


@pytest.mark.parametrize("given", ["shell", b"shell", 3, [None], [""], ["a b"], ["[ab]"], ["x" * 65], [3], ["shell\n"]])
def test_what_it_refuses(given: Any) -> None:
    with pytest.raises(UsageError, match="ToolPolicy: allow"):
        ToolPolicy(allow=given)
    with pytest.raises(UsageError, match="ToolPolicy: deny"):
        ToolPolicy(deny=given)


def test_a_policy_that_is_none() -> None:
    for given in ({"deny": ["shell"]}, ["shell"], "shell"):
        with pytest.raises(UsageError, match="tool_policy must be a ToolPolicy"):
            Kestrel(tool_policy=given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (ToolPolicy(deny=["shel"]), 'no tool "shel"; did you mean "shell"?'),
        (ToolPolicy(deny=["Shell"]), 'did you mean "shell"?'),
        (ToolPolicy(deny=["write-file"]), 'did you mean "write_file"?'),
        (ToolPolicy(deny=["shell_exec"]), 'did you mean "shell-exec"?'),
        (ToolPolicy(allow=["grpe"]), 'did you mean "grep"?'),
    ],
)
async def test_a_slip_of_the_pen_starts_nothing(policy: ToolPolicy, said: str) -> None:
    app, model, _ = make(policy, "never")
    try:
        for _ in range(2):
            with pytest.raises(UsageError) as caught:
                await app.ask("go")
            assert said in str(caught.value)
    finally:
        await app.aclose()
    assert model.requests == []


async def test_names_of_tools_that_come_later() -> None:
    app, model, ran = make(ToolPolicy(deny=["later", "shel*", "shell-exec", "run_python"]), Reply(tool_calls=[("later", {})]), "no")  # fmt: skip # noqa: E501
    async with app:
        app.tools.register(FunctionTool("later", lambda *_: ran.append("later") or "ran"))
        await app.ask("go")
    assert ran == []
    assert "later" not in offered(model)
    assert "shell" not in offered(model)


# ---- and the rest -------------------------------------------------------------------------------------------------


async def test_a_direct_call_is_refused_and_heard() -> None:
    app, _, ran = make(ToolPolicy(deny=["one"]))
    async with app:
        skipped: list[Any] = []
        app.events.subscribe("tool.skipped", skipped.append)
        with pytest.raises(ToolCallError, match='the tool policy of this application denies "one"'):
            await app.use_tool("one")
        assert await app.use_tool("two") == "ran"
        assert [(event.tool, event.cause) for event in skipped] == [("one", "denied")]
    assert ran == ["two"]


async def test_with_rules_and_a_choice_of_tools() -> None:
    rules = [PermissionRule(tool="one", action="auto"), PermissionRule(tool="two", action="deny")]
    calls = Reply(tool_calls=[(name, {}) for name in ("one", "two", "three")])
    app, model, ran = make(ToolPolicy(deny=["one"]), calls, "done", rules=rules)
    async with app:
        session = app.sessions.create()
        await session.start("go", options=RunOptions(tools=("one", "two")))
    assert offered(model) == {"two"}
    one, two, three = results(model.requests[1].messages)
    assert "the tool policy" in one
    assert "denied by the rule" in two
    assert three.startswith('Unknown tool "three"')
    assert ran == []


async def test_nobody_is_asked_about_a_tool_that_is_ruled_out() -> None:
    asked: list[Any] = []

    async def approve(request: Any, signal: Any) -> bool:
        asked.append(request)
        return True

    @tool(permission="ask")
    def risky() -> str:
        """Do it."""
        raise AssertionError("it ran")

    model = ScriptedModel([Reply(tool_calls=[("risky", {})]), "done"])
    async with Kestrel(model=model, tools=[risky], approve=approve, tool_policy=ToolPolicy(deny=["risky"])) as app:
        await app.ask("go")
    assert asked == []


async def test_what_the_model_is_told_it_has() -> None:
    app, model, _ = make(ToolPolicy(allow=["one"]), "done")
    async with app:
        await app.ask("go")
    assert "You have these tools: one." in model.requests[0].messages[0].content


def test_each_application_has_its_own() -> None:
    async def go() -> None:
        first, _, _ = make(ToolPolicy(deny=["one"]))
        second, _, ran = make(ToolPolicy())
        async with first, second:
            assert await second.use_tool("one") == "ran"
        assert ran == ["one"]

    asyncio.run(go())
