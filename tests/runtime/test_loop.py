"""The loop: which events come in which order, how steps end, and what is tried again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from stage import AsyncFunctionTool, FunctionTool, Stage, results

from kestrel_nb.protocol.errors import ModelRequestError, PluginError, UsageError
from kestrel_nb.protocol.messages import ToolCallPart
from kestrel_nb.protocol.sessions import ApprovalDecision, Usage
from kestrel_nb.runtime.models import CompletionResponse, TokenDelta
from kestrel_nb.runtime.retry import RetryOptions
from kestrel_nb.runtime.run import RunOptions
from kestrel_nb.runtime.tools import ToolExecutionResult
from kestrel_nb.testing import Reply, ScriptedModel

FAST = RetryOptions(attempts=3, base_delay_ms=1, max_delay_ms=5)


def echo(name: str = "echo", **schema: Any) -> FunctionTool:
    return FunctionTool(name, lambda args, _: f"{name} {args.get('x')}", **schema)


async def test_events_of_a_plain_run() -> None:
    stage = Stage(ScriptedModel([Reply(reasoning="hm", content="hello")]))
    run = stage.session.start("hi")
    assert stage.types() == ["session.created", "message.completed", "run.started"]
    result = await run
    assert stage.types()[3:] == [
        "step.started",
        "reasoning.delta",
        "message.delta",
        "message.completed",
        "usage.updated",
        "run.completed",
        "session.updated",
    ]
    assert {event.run_id for event in stage.events[1:-1]} == {run.run_id}
    assert (stage.events[0].run_id, stage.events[-1].run_id) == (None, None)
    assert (result.status, result.text, result.steps, result.run_id) == ("completed", "hello", 1, run.run_id)
    stage.check()


async def test_events_of_a_step_with_calls_of_every_kind() -> None:
    def boom(*_: Any) -> str:
        raise ValueError("no")

    calls = [("auto", {"x": 1}), ("ask", {"x": 2}), ("boom", {}), ("auto", {"x": "three"}), ("ask", {}), ("gone", {})]
    tools = [echo("auto"), echo("ask", permission="ask"), FunctionTool("boom", boom)]
    answers = iter([True, False])
    stage = Stage(
        ScriptedModel([Reply(tool_calls=calls), "done"]), tools, approve=lambda request, signal: next(answers)
    )
    await stage.ask()
    begin = stage.types().index("usage.updated") + 1
    assert stage.types()[begin : stage.types().index("step.started", begin)] == [
        *("tool.started", "tool.executed", "message.completed"),
        *("session.updated", "approval.requested", "approval.resolved"),
        *("session.updated", "tool.started", "tool.executed", "message.completed"),
        *("tool.started", "tool.failed", "message.completed"),
        *("tool.failed", "message.completed"),
        *("session.updated", "approval.requested", "approval.resolved", "tool.skipped", "message.completed"),
        *("tool.failed", "message.completed"),
    ]
    assert results(stage.session.messages) == [
        "auto 1",
        "ask 2",
        "ValueError: no",
        'Invalid arguments for "auto": x: must be an integer',
        "declined: the user declined this call.",
        'Unknown tool "gone". Available tools: ask, auto, boom.',
    ]
    stage.check()


async def test_d03_results_stand_in_call_order_however_they_finish() -> None:
    ended: list[str] = []

    async def wait(args: Any, context: Any) -> str:
        await asyncio.sleep(0.2 if args["x"] == 1 else 0)
        ended.append(f"{args['x']}")
        return f"{args['x']}"

    tool = AsyncFunctionTool("wait", wait, parallel_safe=True)
    stage = Stage(ScriptedModel([Reply(tool_calls=[("wait", {"x": 1}), ("wait", {"x": 2})]), "done"]), [tool])
    await stage.ask()
    assert ended == ["2", "1"]
    assert results(stage.session.messages) == ["1", "2"]
    stage.check()


async def test_only_neighbours_that_are_parallel_safe_run_together() -> None:
    running, most = 0, 0

    async def count(args: Any, context: Any) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        return "ok"

    safe, alone = AsyncFunctionTool("safe", count, parallel_safe=True), AsyncFunctionTool("alone", count)
    order = ["safe", "alone", "safe", "alone"]
    stage = Stage(ScriptedModel([Reply(tool_calls=[(name, {}) for name in order]), "done"]), [safe, alone])
    await stage.ask()
    assert most == 1
    stage.check()


async def test_d04_an_unknown_tool_is_named_and_the_others_run() -> None:
    calls = [
        ToolCallPart(id="call_1", name="multi_tool_use.parallel", arguments={}, raw_arguments='{"tool_uses":[]}'),
        ToolCallPart(id="call_2", name="list_dir", arguments={}, raw_arguments="{}"),
        ToolCallPart(id="call_3", name="functions.list_dir", arguments={}, raw_arguments="{}"),
        ToolCallPart(id="call_4", name="", arguments={}, raw_arguments="{}"),
    ]
    stage = Stage(ScriptedModel([Reply(tool_calls=calls), "done"]), [echo("list_dir")])
    await stage.ask()
    first, second, third, _ = results(stage.session.messages)
    assert "multi_tool_use.parallel" in first
    assert "Available tools: list_dir" in first
    assert second == "list_dir None"
    assert 'Did you mean "list_dir"?' in third
    names = {call.name for message in stage.model.requests[1].messages for call in message.tool_calls}
    assert names == {"multi_tool_use_parallel", "list_dir", "functions_list_dir", "unnamed"}
    stage.check()


async def test_a_name_that_only_looks_like_a_tools_does_not_run_it() -> None:
    call = ToolCallPart(id="c", name="list.dir", arguments={}, raw_arguments="{}")
    stage = Stage(ScriptedModel([Reply(tool_calls=[call]), "done"]), [echo("list_dir")])
    await stage.ask()
    assert stage.of("tool.failed")
    assert "list.dir" in results(stage.session.messages)[0]


async def test_d08_an_empty_reply_is_kept_and_not_sent() -> None:
    stage = Stage(ScriptedModel(["", " \n", "hello"]))
    assert (await stage.ask("one")).text == ""
    await stage.ask("two")
    await stage.ask("three")
    assert [message.role for message in stage.session.messages] == ["user", "assistant"] * 3
    assert [message.role for message in stage.model.requests[2].messages] == ["system", "user", "user", "user"]


async def test_a_reply_that_a_content_filter_ended_says_so() -> None:
    stage = Stage(ScriptedModel([Reply(content="", finish_reason="content_filter")]))
    assert (await stage.ask()).status == "completed"
    assert [(event.level, event.code) for event in stage.of("notice")] == [("warning", "content_filter")]
    stage.check()


async def test_a_model_that_paused_is_asked_to_go_on() -> None:
    replies = [Reply(content="I search.", finish_reason="pause_turn"), Reply(content="Found.")]
    stage = Stage(ScriptedModel(replies))
    result = await stage.ask()
    assert (result.text, result.steps, result.status) == ("Found.", 2, "completed")
    assert stage.model.requests[1].messages[-1].content == "I search."
    stage.check()


async def test_calls_of_a_reply_that_was_cut_off_never_run() -> None:
    replies = [Reply(tool_calls=[("echo", {"x": 1}), ("echo", {"x": 2})], finish_reason="length"), "done"]
    stage = Stage(ScriptedModel(replies), [echo()])
    result = await stage.ask()
    assert result.status == "completed"
    assert all("cut off" in text for text in results(stage.session.messages))
    assert not stage.of("tool.started")
    assert [event.code for event in stage.of("notice")] == ["cut_off"]
    stage.check()


@pytest.mark.parametrize("raw", ['{"x": 1', '{"x": NaN}', '["x"]', "null", '{"x":1}{"x":2}', "[" * 5000])
async def test_arguments_that_do_not_parse_never_run(raw: str) -> None:
    stage = Stage(ScriptedModel([Reply(tool_calls=[("echo", raw)]), "done"]), [echo()])
    await stage.ask()
    assert results(stage.session.messages)[0].startswith('Invalid arguments for "echo": the arguments')
    call = stage.model.requests[1].messages[2].tool_calls[0]
    assert call.raw_arguments == raw
    stage.check()


async def test_terminate_ends_the_run_and_its_siblings() -> None:
    finish = FunctionTool("finish", lambda *_: ToolExecutionResult(content="all done", terminate=True))
    calls = [("echo", {"x": 1}), ("finish", {}), ("echo", {"x": 2}), ("echo", {"x": 3})]
    stage = Stage(ScriptedModel([Reply(content="so", tool_calls=calls)]), [echo(), finish])
    result = await stage.ask()
    assert (result.status, result.text) == ("completed", "all done")
    assert results(stage.session.messages)[2:] == ["not run: the run was finished"] * 2
    assert [event.cause for event in stage.of("tool.skipped")] == ["not_run"] * 2
    stage.check()


async def test_terminate_inside_a_parallel_batch_keeps_the_batch() -> None:
    tools = [
        FunctionTool("finish", lambda *_: ToolExecutionResult(content="f", terminate=True), parallel_safe=True),
        echo(parallel_safe=True),
    ]
    stage = Stage(ScriptedModel([Reply(tool_calls=[("finish", {}), ("echo", {"x": 1}), ("nope", {})])]), tools)
    result = await stage.ask()
    assert result.text == "f"
    assert results(stage.session.messages) == ["f", "echo 1", "not run: the run was finished"]
    stage.check()


async def test_max_steps() -> None:
    replies = [Reply(tool_calls=[("echo", {"x": n})]) for n in range(3)]
    stage = Stage(ScriptedModel(replies), [echo()], max_steps=5)
    result = await stage.ask(options=RunOptions(max_steps=3))
    assert (result.status, result.steps) == ("max_steps", 3)
    stage.check()
    with pytest.raises(UsageError):
        RunOptions(max_steps=0)


async def test_usage_is_added_up_and_priced() -> None:
    one, two = Usage(input_tokens=3, output_tokens=1), Usage(input_tokens=5, output_tokens=2)
    model = ScriptedModel([Reply(tool_calls=[("echo", {})], usage=one), Reply("x", usage=two)])
    stage = Stage(model, [echo()], price=lambda model, usage: usage.total_tokens / 10)
    result = await stage.ask()
    assert result.usage == one + two == stage.session.usage
    assert [event.cost for event in stage.of("usage.updated")] == [0.4, 1.1]


# ---- failures of the model --------------------------------------------------------------------------------------


async def test_a_failure_rejects_after_run_failed() -> None:
    stage = Stage(ScriptedModel([Reply(error=ModelRequestError("no such key", status=401))]))
    run = stage.session.start("go")
    with pytest.raises(ModelRequestError, match="no such key"):
        await run
    assert stage.types()[-2:] == ["run.failed", "session.updated"]
    assert stage.of("run.failed")[0].code == "model_request_failed"
    assert not stage.session.is_running
    stage.check()


async def test_a_failure_that_nobody_awaits_is_consumed() -> None:
    stage = Stage(ScriptedModel([Reply(error=RuntimeError("gone"))]))
    stage.session.start("go")
    failed = await stage.until("run.failed")
    assert (failed.code, failed.message) == ("internal_error", "RuntimeError: gone")


async def test_retries_before_the_first_token() -> None:
    busy = ModelRequestError("busy", status=503, retryable=True)
    replies = [Reply(error=busy), Reply(error=ModelRequestError("limit", retryable=True, retry_after_ms=2)), "done"]
    stage = Stage(ScriptedModel(replies), retry=FAST)
    assert (await stage.ask()).text == "done"
    notices = stage.of("notice")
    assert [event.code for event in notices] == ["retry", "retry"]
    assert "busy Trying again in 0.0 s, attempt 2 of 3." in notices[0].text
    assert len(stage.of("step.started")) == 1
    stage.check()


@pytest.mark.parametrize(
    "replies",
    [
        [Reply(error=ModelRequestError("no", retryable=False))],
        [Reply(error=ValueError("no"))],
        [Reply(content="some text", error=ModelRequestError("no", retryable=True), error_after=1)],
        [Reply(error=ModelRequestError("no", retryable=True))] * 3,
        [Reply(content="no", finish_reason="error")],
    ],
    ids=["not retryable", "no request error", "after a token", "too often", "finished with error"],
)
async def test_what_is_not_tried_again(replies: list[Reply]) -> None:
    stage = Stage(ScriptedModel(replies), retry=FAST)
    with pytest.raises((ModelRequestError, ValueError)):
        await stage.ask()
    stage.model.assert_complete()
    stage.check()


async def test_retry_after_is_capped() -> None:
    error = ModelRequestError("limit", retryable=True, retry_after_ms=10_000_000)
    stage = Stage(ScriptedModel([Reply(error=error), "ok"]), retry=FAST)
    async with asyncio.timeout(5):
        await stage.ask()


async def test_a_failing_step_keeps_the_transcript_usable() -> None:
    replies = [Reply(tool_calls=[("echo", {"x": 1})]), Reply(error=ModelRequestError("no")), "fine"]
    stage = Stage(ScriptedModel(replies), [echo()])
    with pytest.raises(ModelRequestError):
        await stage.ask()
    assert (await stage.ask("again")).text == "fine"
    stage.check()


class OddModel:
    """A model that does what ``generate`` does."""

    def __init__(self, generate: Any) -> None:
        self.info = ScriptedModel([]).info
        self._generate = generate

    async def generate(self, request: Any, on_delta: Any = None) -> Any:
        return await self._generate(request, on_delta)


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError(), GeneratorExit(), StopAsyncIteration()])
async def test_nothing_that_a_model_raises_ends_the_process(error: BaseException) -> None:
    async def generate(request: Any, on_delta: Any) -> Any:
        raise error

    stage = Stage(OddModel(generate))
    with pytest.raises(Exception):  # noqa: B017, PT011 - any ordinary exception will do
        await stage.ask()
    assert stage.of("run.failed")
    stage.check()


async def test_keyboard_interrupt_in_a_model_is_a_cancel() -> None:
    async def generate(request: Any, on_delta: Any) -> Any:
        raise KeyboardInterrupt

    stage = Stage(OddModel(generate))
    assert (await stage.ask()).status == "cancelled"


@pytest.mark.parametrize("value", [None, "text", {"content": "x"}])
async def test_a_model_that_answers_with_something_else(value: Any) -> None:
    async def generate(request: Any, on_delta: Any) -> Any:
        return value

    stage = Stage(OddModel(generate))
    with pytest.raises(ModelRequestError, match="not a CompletionResponse"):
        await stage.ask()


async def test_a_model_that_was_left_behind_tells_nothing_more() -> None:
    go_on = asyncio.Event()

    async def generate(request: Any, on_delta: Any) -> Any:
        on_delta(TokenDelta(text="first"))
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                continue
        on_delta(TokenDelta(text="too late"))
        return CompletionResponse(content="too late")

    stage = Stage(OddModel(generate))
    run = stage.session.start("go")
    await stage.until("message.delta")
    stage.session.cancel()
    assert (await run).status == "cancelled"
    count = len(stage.events)
    go_on.set()
    await asyncio.sleep(0.05)
    assert len(stage.events) == count


async def test_a_model_that_streams_from_a_thread() -> None:
    async def generate(request: Any, on_delta: Any) -> Any:
        await asyncio.to_thread(on_delta, TokenDelta(text="ab"))
        return CompletionResponse(content="ab")

    stage = Stage(OddModel(generate))
    assert (await stage.ask()).text == "ab"
    assert [event.text for event in stage.of("message.delta")] == ["ab"]
    stage.check()


async def test_p01_lone_surrogates_of_a_model_are_replaced() -> None:
    broken = "ok \ud83d end"
    call = ToolCallPart(id="c\ud800", name="echo", arguments={"x": 1}, raw_arguments='{"x":1}')
    stage = Stage(ScriptedModel([Reply(content=broken, reasoning=broken, tool_calls=[call]), "done"]), [echo()])
    await stage.ask(broken)
    said = repr([stage.model.requests[1].messages, [e for e in stage.events if e.type != "tool.delta"]])
    assert "\\ud83d" not in said
    assert stage.session.messages[0].content == "ok � end"
    stage.check()


async def test_the_model_of_a_run_stays_while_the_session_gets_another() -> None:
    other = ScriptedModel(["from the other"], id="other")

    async def switch(args: Any, context: Any) -> str:
        stage.session.set_model("other")
        return "switched"

    stage = Stage(ScriptedModel([Reply(tool_calls=[("switch", {})]), "one"]), [AsyncFunctionTool("switch", switch)])
    stage.manager._options.models.register(other)
    assert (await stage.ask()).text == "one"
    assert [request.model for request in stage.model.requests] == ["scripted", "scripted"]
    assert (await stage.ask()).text == "from the other"
    assert other.requests[0].model == "other"


async def test_a_run_waits_for_what_is_not_ready_and_fails_with_it() -> None:
    async def ready() -> None:
        raise PluginError("plugin x could not start")

    stage = Stage(ScriptedModel(["never"]), ready=ready)
    with pytest.raises(PluginError):
        await stage.ask()
    stage.check()


async def test_options_of_one_run() -> None:
    stage = Stage(
        ScriptedModel([Reply(tool_calls=[("a", {}), ("b", {})]), "done", "done"]),
        [echo("a"), echo("b", permission="ask")],
    )
    approve = lambda request, signal: ApprovalDecision(approved=True)  # noqa: E731
    await stage.ask(options=RunOptions(tools=("b",), approve=approve))
    assert [schema.name for schema in stage.model.requests[0].tools] == ["b"]
    assert results(stage.session.messages) == ['Unknown tool "a". Available tools: b.', "b None"]
    await stage.ask()
    assert [schema.name for schema in stage.model.requests[2].tools] == ["a", "b"]
