"""``complete`` and ``complete_with_tools``: text for a prompt, with nothing left behind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from stage import FunctionTool

from kestrel_nb import Kestrel, KestrelConfig, ToolPolicy
from kestrel_nb.protocol.errors import (
    CancelledByUser,
    ModelNotFoundError,
    ModelRequestError,
    ToolNotFoundError,
    UsageError,
)
from kestrel_nb.protocol.messages import ImageAttachment
from kestrel_nb.runtime.retry import RetryOptions
from kestrel_nb.testing import Reply, ScriptedModel

FAST = RetryOptions(attempts=3, base_delay_ms=0)
PIXEL = ImageAttachment(media_type="image/png", data="iVBORw0KGgo=")


def make(*replies: Any, tools: Any = (), **options: Any) -> tuple[Kestrel, ScriptedModel]:
    model = ScriptedModel(replies)
    return Kestrel(model=model, tools=tools, **options), model


async def test_one_call_without_tools_and_nothing_left() -> None:
    app, model = make("a haiku", "another")
    async with app:
        assert await app.complete("write a haiku") == "a haiku"
        assert await app.complete("again", images=[PIXEL]) == "another"
        assert app.sessions.list() == []
    first, second = model.requests
    assert first.tools == ()
    assert [(message.role, message.content) for message in first.messages] == [("user", "write a haiku")]
    assert [message.role for message in second.messages] == ["user"]
    assert len(second.messages[0].parts) == 2
    model.assert_complete()


async def test_the_system_message() -> None:
    app, model = make("1", "2", "3", config=KestrelConfig(system_prompt="Answer in French."))
    async with app:
        await app.complete("hi")
        await app.complete("hi", system="Answer in Latin.")
        await app.complete("hi", system="")
    assert [request.messages[0].content for request in model.requests] == [
        "Answer in French.",
        "Answer in Latin.",
        "hi",
    ]


async def test_another_model() -> None:
    app, model = make("never")
    app.models.register(ScriptedModel(["from the other"], id="other"))
    async with app:
        assert await app.complete("hi", model="other") == "from the other"
        assert model.requests == []
        with pytest.raises(ModelNotFoundError):
            await app.complete("hi", model="none")
        with pytest.raises(UsageError):
            await app.complete(None)  # type: ignore[arg-type]


async def test_a_model_that_calls_a_tool_it_was_not_offered() -> None:
    ran: list[Any] = []
    tool = FunctionTool("t", lambda *_: ran.append(1) or "ran")
    app, model = make(Reply(content="let me see", tool_calls=[("t", {})]), tools=[tool])
    async with app:
        assert await app.complete("hi") == "let me see"
    assert ran == []
    assert len(model.requests) == 1


async def test_failures_are_tried_again_like_those_of_a_run() -> None:
    app, model = make(
        Reply(error=ModelRequestError("busy", status=529, retryable=True)), "at last", config=KestrelConfig(retry=FAST)
    )
    async with app:
        assert await app.complete("hi") == "at last"
    assert len(model.requests) == 2
    app, _ = make(Reply(error=ModelRequestError("no such key", status=401)))
    async with app:
        with pytest.raises(ModelRequestError, match="no such key"):
            await app.complete("hi")
        assert app.sessions.list() == []


async def test_it_is_heard_by_who_listens() -> None:
    app, _ = make("text")
    async with app:
        heard: list[Any] = []
        app.events.subscribe("usage.updated", heard.append)
        await app.complete("hi")
        assert len(heard) == 1


@pytest.mark.parametrize("method", ["complete", "complete_with_tools"])
async def test_cancelling_the_caller_cancels(method: str) -> None:
    app, model = make(Reply("late", before=3600))
    async with app:
        ended: list[Any] = []
        app.events.subscribe("run.completed", ended.append)
        task = asyncio.create_task(getattr(app, method)("go"))
        while not model.requests:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [event.status for event in ended] == ["cancelled"]


async def test_closing_the_application_is_no_answer() -> None:
    app, model = make(Reply("late", before=3600))
    task = asyncio.create_task(app.complete("go"))
    while not model.requests:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await app.aclose()
    with pytest.raises(CancelledByUser):
        await task


# ---- with tools ---------------------------------------------------------------------------------------------------


async def test_a_run_in_a_session_that_is_not_kept() -> None:
    tool = FunctionTool("t", lambda args, _: f"ran {args}")
    app, model = make(Reply(tool_calls=[("t", {"x": 1})]), "it ran", tools=[tool])
    async with app:
        assert await app.complete_with_tools("use it") == "it ran"
        assert app.sessions.list() == []
    assert "ran {'x': 1}" in model.requests[1].messages[-1].tool_results[0].content
    assert {"t", "grep", "read_file"} <= {schema.name for schema in model.requests[0].tools}


async def test_only_some_tools() -> None:
    app, model = make(Reply(tool_calls=[("list_dir", {})]), "no", tools=[FunctionTool("t", lambda *_: "x")])
    async with app:
        assert await app.complete_with_tools("go", tools=["t"]) == "no"
        assert [schema.name for schema in model.requests[0].tools] == ["t"]
        assert 'Unknown tool "list_dir"' in model.requests[1].messages[-1].tool_results[0].content
        with pytest.raises(ToolNotFoundError, match='no tool "web-serch"; did you mean "web-search"'):
            await app.use_tool("web-serch")
        with pytest.raises(ToolNotFoundError, match='no tool "grp"; did you mean "grep"'):
            await app.complete_with_tools("go", tools=["t", "grp"])
        with pytest.raises(ToolNotFoundError, match=r'"shell-exec" is not there, off by default; to have it: Built'):
            await app.complete_with_tools("go", tools=["shell-exec"])
        with pytest.raises(UsageError, match=r'tools is a list of names, such as \["grep"\]'):
            await app.complete_with_tools("go", tools="grep")
    model.assert_complete()


async def test_no_tools_at_all() -> None:
    app, model = make("text")
    async with app:
        assert await app.complete_with_tools("go", tools=[]) == "text"
    assert model.requests[0].tools == ()


async def test_a_tool_that_the_policy_rules_out_can_not_be_asked_for() -> None:
    app, _ = make("text", tool_policy=ToolPolicy(deny=["grep"]))
    async with app:
        with pytest.raises(ToolNotFoundError, match='the tool policy of this application denies "grep"'):
            await app.complete_with_tools("go", tools=["grep"])


async def test_approvals_hold() -> None:
    async def approve(request: Any, signal: Any) -> bool:
        return bool(request.arguments["x"] == 1)

    tool = FunctionTool("t", lambda args, _: "ran", permission="ask")
    calls = Reply(tool_calls=[("t", {"x": 1}), ("t", {"x": 2})])
    app, model = make(calls, "done", tools=[tool])
    async with app:
        assert await app.complete_with_tools("go", approve=approve) == "done"
        assert app.approvals.pending() == []
    results = [message.tool_results[0].content for message in model.requests[1].messages if message.role == "tool"]
    assert results[0] == "ran"
    assert results[1].startswith("declined")


async def test_the_step_limit_leaves_what_was_said() -> None:
    calls = Reply(content="looking", tool_calls=[("t", {})])
    app, model = make(calls, calls, calls, tools=[FunctionTool("t", lambda *_: "ok")])
    async with app:
        assert await app.complete_with_tools("go", max_steps=2) == "looking"
        assert len(model.requests) == 2
        with pytest.raises(UsageError):
            await app.complete_with_tools("go", max_steps=0)
