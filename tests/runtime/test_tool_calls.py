"""The way to a tool: arguments, what a tool may return or raise, sizes, data, and that each call ends exactly once."""

from __future__ import annotations

import asyncio
import json
import math
import re
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from stage import AsyncFunctionTool, FunctionTool, Stage, results

from kestrel_nb.protocol.codec import dumps, encode
from kestrel_nb.protocol.messages import ImagePart
from kestrel_nb.protocol.sessions import PermissionRule
from kestrel_nb.protocol.tools import TodoItem
from kestrel_nb.runtime.file_store import FileSessionStore
from kestrel_nb.runtime.secrets import Masker
from kestrel_nb.runtime.tools import ToolExecutionResult
from kestrel_nb.testing import Reply, ScriptedModel


def once(*calls: tuple[str, Any]) -> ScriptedModel:
    return ScriptedModel([Reply(tool_calls=calls), "done"])


async def result_of(tool: Any, arguments: Any = None, **options: Any) -> tuple[Stage, str]:
    """The content of one call of ``tool``, after everything that must always hold was checked."""
    stage = Stage(once((tool.schema.name, arguments or {})), [tool], **options)
    assert (await stage.ask()).status == "completed"
    stage.check()
    return stage, results(stage.session.messages)[0]


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


RAISED = [
    (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero"),
    (KeyError("k"), "KeyError: 'k'"),
    (SystemExit(3), "SystemExit: 3"),
    (GeneratorExit(), "GeneratorExit"),
    (BaseException("base"), "BaseException: base"),
    (asyncio.CancelledError(), "the tool was cancelled from within"),
    (StopIteration(), "RuntimeError: coroutine raised StopIteration"),
    (MemoryError(), "MemoryError"),
    (Unprintable(), "Unprintable"),
    (ValueError("bad \ud800"), "ValueError: bad �"),
    (RecursionError("deep"), "RecursionError: deep"),
]


@pytest.mark.parametrize("kind", [FunctionTool, AsyncFunctionTool])
@pytest.mark.parametrize(("error", "text"), RAISED, ids=[type(error).__name__ for error, _ in RAISED])
async def test_d07_what_a_tool_raises_is_a_failed_result(kind: Any, error: BaseException, text: str) -> None:
    def fail(*_: Any) -> Any:
        raise error

    async def fail_later(*_: Any) -> Any:
        await asyncio.sleep(0)
        raise error

    if kind is FunctionTool:  # only a coroutine can't raise a StopIteration
        text = text.removeprefix("RuntimeError: coroutine raised ")
    stage, content = await result_of(kind("bad", fail if kind is FunctionTool else fail_later))
    assert content == text
    assert [event.error for event in stage.of("tool.failed")] == [text]
    assert stage.session.messages[2].tool_results[0].is_error


@pytest.mark.parametrize("kind", [FunctionTool, AsyncFunctionTool])
async def test_d07_keyboard_interrupt_in_a_tool_is_a_cancel(kind: Any) -> None:
    def fail(*_: Any) -> Any:
        raise KeyboardInterrupt

    async def fail_later(*_: Any) -> Any:
        raise KeyboardInterrupt

    tool = kind("bad", fail if kind is FunctionTool else fail_later)
    stage = Stage(ScriptedModel([Reply(tool_calls=[("bad", {}), ("bad", {})]), "next"]), [tool])
    assert (await stage.ask()).status == "cancelled"
    assert (await stage.ask()).text == "next"
    stage.check()


async def test_a_tool_that_cancels_its_own_task() -> None:
    async def cancel_me(*_: Any) -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1)
        return "never"

    _, content = await result_of(AsyncFunctionTool("bad", cancel_me))
    assert content == "the tool was cancelled from within"


@pytest.mark.parametrize("value", [None, 3, ["x"], {"content": "x"}, object()])
async def test_a_tool_that_returns_something_else(value: Any) -> None:
    stage, content = await result_of(FunctionTool("bad", lambda *_: value))
    assert "and not a ToolExecutionResult" in content
    assert stage.of("tool.failed")


@pytest.mark.parametrize("value", [None, 3, b"x", ["x"]])
async def test_a_result_whose_content_is_no_text(value: Any) -> None:
    _, content = await result_of(FunctionTool("bad", lambda *_: ToolExecutionResult(content=value)))
    assert "is no text" in content or "and not text" in content


async def test_a_plain_function_may_return_an_awaitable() -> None:
    async def later() -> ToolExecutionResult:
        return ToolExecutionResult(content="later")

    _, content = await result_of(FunctionTool("odd", lambda *_: later()))
    assert content == "later"


async def test_an_error_that_is_expected_is_no_failure() -> None:
    stage, _ = await result_of(FunctionTool("grep", lambda *_: ToolExecutionResult(content="none", is_error=True)))
    assert stage.of("tool.executed")[0].is_error
    assert stage.session.messages[2].tool_results[0].is_error


async def test_images_of_a_result_reach_the_model() -> None:
    image = ImagePart(data="aGk=")
    stage, _ = await result_of(FunctionTool("look", lambda *_: ToolExecutionResult(content="see", images=(image,))))
    assert stage.model.requests[1].messages[-1].tool_results[0].images == (image,)


# ---- arguments --------------------------------------------------------------------------------------------------


async def test_invalid_arguments_never_reach_the_tool() -> None:
    ran: list[Any] = []
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    tool = FunctionTool("word_count", lambda args, _: ran.append(args) or "x", parameters=schema)
    stage, content = await result_of(tool, {"text": 3})
    assert content == 'Invalid arguments for "word_count": text: must be a string'
    assert not ran
    assert not stage.of("tool.started")


async def test_a_wrong_name_of_an_argument_gets_the_right_ones() -> None:
    names = {"command": {"type": "string"}, "timeout_ms": {"type": "integer"}}
    schema = {"type": "object", "properties": names, "additionalProperties": False}
    _, content = await result_of(FunctionTool("run", lambda *_: "x", parameters=schema), {"timeout": 3})
    assert content == 'Invalid arguments for "run": timeout: is not allowed; it takes: command, timeout_ms'


async def test_a_tool_that_changes_its_arguments_changes_nobody_elses() -> None:
    def spoil(args: Any, context: Any) -> str:
        args["x"].append("spoilt")
        args["y"] = 1
        return "ok"

    tool = FunctionTool("spoil", spoil, parameters={"type": "object"})
    stage, _ = await result_of(tool, {"x": [1]})
    assert stage.of("tool.started")[0].arguments == {"x": [1]}
    assert stage.session.messages[1].tool_calls[0].arguments == {"x": [1]}


async def test_whole_floats_arrive_as_integers() -> None:
    got: list[Any] = []
    await result_of(FunctionTool("count", lambda args, _: got.append(args["x"]) or "ok"), {"x": 3.0})
    assert got == [3]
    assert type(got[0]) is int


# ---- sizes and data ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "cut"),
    [("a" * 60_000, False), ("a" * 60_001, True), ("🤖" * 60_000, False), ("🤖" * 60_001, True), ("", False)],
    ids=["exact", "longer", "robots", "one robot more", "empty"],
)
async def test_p03_content_is_cut_at_60_000_characters_and_whole_in_data(text: str, cut: bool) -> None:
    stage, content = await result_of(FunctionTool("long", lambda *_: text))
    data = stage.of("tool.executed")[0].data
    if cut:
        assert content.startswith(text[:60_000])
        assert re.search("first 60,?000 of 60,?001 characters", content[60_000:])
        assert data == text
    else:
        assert (content, data) == (text, None)


async def test_data_never_reaches_the_model() -> None:
    tool = FunctionTool("rows", lambda *_: ToolExecutionResult(content="2 rows", data=[{"secret": 1}, {"secret": 2}]))
    stage, _ = await result_of(tool)
    assert "secret" not in repr(stage.model.requests)
    assert stage.of("tool.executed")[0].data == [{"secret": 1}, {"secret": 2}]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({1: (2, 3), None: {4}}, {"1": [2, 3], "None": [4]}),
        (["a\ud83d", {"\udc00k": "\ud83d\ude00"}], ["a�", {"�k": "😀"}]),
        ([10**40], [10**40]),
        (Path("x"), "x"),
        (False, False),
        ([], []),
    ],
)
async def test_data_is_strict_json(data: Any, expected: Any) -> None:
    stage, _ = await result_of(FunctionTool("odd", lambda *_: ToolExecutionResult(content="x", data=data)))
    got = stage.of("tool.executed")[0].data
    assert got == expected
    json.dumps(got, allow_nan=False, ensure_ascii=False).encode("utf-8")


async def test_nan_stays_in_the_data_and_never_leaves_the_process() -> None:
    data = {"n": math.nan, "i": math.inf}
    stage, _ = await result_of(FunctionTool("odd", lambda *_: ToolExecutionResult(content="x", data=data)))
    event = stage.of("tool.executed")[0]
    assert math.isnan(event.data["n"])
    assert math.isinf(event.data["i"])
    assert json.loads(dumps(encode(event)))["data"] == {"n": None, "i": None}


class Hostile:
    def __str__(self) -> str:
        raise RuntimeError("no")


def endless() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize("data", [Hostile(), endless(), [[[Hostile()]]]])
async def test_data_that_is_no_json_is_left_out_with_a_notice(data: Any) -> None:
    stage, content = await result_of(FunctionTool("odd", lambda *_: ToolExecutionResult(content="x", data=data)))
    assert content == "x"
    assert stage.of("tool.executed")[0].data is None
    assert [event.code for event in stage.of("notice")] == ["data_dropped"]


def stored(file: Path) -> tuple[Any, int]:
    return json.loads(file.read_text()), stat.S_IMODE(file.stat().st_mode)


async def test_huge_content_goes_to_a_file_of_the_session(tmp_path: Path) -> None:
    text = "0123456789" * 5_000_000
    stage, content = await result_of(FunctionTool("long", lambda *_: text), store=FileSessionStore(tmp_path))
    data = stage.of("tool.executed")[0].data
    file = Path(data["file"])
    assert stored(file) == (text, 0o600)
    assert file.parent.parent == tmp_path / "sessions" / stage.session.id
    assert len(content) < 61_000
    assert str(file) in content
    assert all(len(dumps(encode(event))) < 300_000 for event in stage.events)


async def test_huge_data_without_a_place_for_it_is_said_to_be_lost() -> None:
    big = ["x" * 1000] * 9000
    stage, content = await result_of(FunctionTool("big", lambda *_: ToolExecutionResult(content="ok", data=big)))
    assert stage.of("tool.executed")[0].data == {"truncated": True, "characters": 9_027_001, "file": None}
    assert "it was not kept" in content


async def test_secrets_are_masked_on_their_way_in() -> None:
    key = "sk-Secret-Value-0123456789"
    tool = FunctionTool("env", lambda *_: ToolExecutionResult(content=f"KEY={key}", data={"key": [key]}))
    stage, content = await result_of(tool, masker=Masker([key]))
    assert content == "KEY=***"
    assert key not in repr(stage.events)


async def test_secrets_are_masked_in_failures_but_not_in_arguments() -> None:
    key = "sk-Secret-Value-0123456789"
    got: list[Any] = []

    def fail(args: Any, context: Any) -> str:
        got.append(args["x"])
        raise ValueError(f"wrong key {args['x']}")

    tool = FunctionTool("use", fail, parameters={"type": "object"})
    _, content = await result_of(tool, {"x": key}, masker=Masker([key]))
    assert (content, got) == ("ValueError: wrong key ***", [key])


# ---- permission -------------------------------------------------------------------------------------------------


async def test_deny_is_an_error_result_without_asking() -> None:
    tool = FunctionTool("shell", lambda *_: "ran", permission="ask")
    stage, content = await result_of(tool, rules=(PermissionRule(tool="shell", action="deny"),))
    assert content.startswith("not run: ")
    assert stage.of("tool.skipped")[0].cause == "denied"
    assert stage.session.messages[2].tool_results[0].is_error
    assert not stage.of("approval.requested")


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("answer", ["auto", "deny", "yes", None, True, RuntimeError("x"), SystemExit()])
async def test_the_resolver_decides_and_fails_closed(kind: str, answer: Any) -> None:
    def decide(tool: Any, call: Any, session: Any) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def decide_later(tool: Any, call: Any, session: Any) -> Any:
        return decide(tool, call, session)

    resolver = decide if kind == "sync" else decide_later
    stage, content = await result_of(FunctionTool("t", lambda *_: "ran"), resolve_permission=resolver)
    assert (content == "ran") is (answer == "auto")
    assert bool(stage.of("tool.skipped")) is (answer != "auto")


async def test_a_deny_rule_is_not_overridden_by_a_resolver() -> None:
    _, content = await result_of(
        FunctionTool("t", lambda *_: "ran"),
        rules=(PermissionRule(tool="*", action="deny"),),
        resolve_permission=lambda *_: "auto",
    )
    assert content.startswith("not run")


# ---- what a tool tells while it runs ----------------------------------------------------------------------------


async def test_progress_and_todos_from_a_thread_with_a_loop_of_its_own() -> None:
    def work(args: Any, context: Any) -> str:
        async def inner() -> None:
            for number in range(50):
                context.progress(f"step {number} \ud800")
            context.set_todos([TodoItem(text="one")])

        asyncio.run(inner())
        return "ok"

    stage, _ = await result_of(FunctionTool("work", work))
    types = stage.types()
    assert types.count("tool.progress") == 50
    assert types.index("todo.updated") < types.index("tool.executed")
    assert stage.of("tool.progress")[0].message == "step 0 �"


async def test_progress_after_the_end_is_not_told() -> None:
    kept: list[Any] = []
    stage, _ = await result_of(FunctionTool("work", lambda args, context: kept.append(context) or "ok"))
    count = len(stage.events)
    kept[0].progress("late")
    kept[0].set_todos([])
    assert len(stage.events) == count


async def test_a_tool_sees_its_session_and_shares_metadata() -> None:
    def work(args: Any, context: Any) -> str:
        seen = context.session.metadata.setdefault("seen", [])
        seen.append(context.call_id)
        return f"{len(seen)} {context.session.id == stage.session.id} {len(context.session.messages)}"

    stage = Stage(once(("work", {}), ("work", {})), [FunctionTool("work", work)])
    await stage.ask()
    assert results(stage.session.messages) == ["1 True 2", "2 True 3"]


async def test_a_synchronous_tool_does_not_block_the_loop() -> None:
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.01)
            beats += 1

    task = asyncio.create_task(beat())
    await result_of(FunctionTool("slow", lambda *_: time.sleep(0.5) or "ok"))
    task.cancel()
    assert beats > 5


async def test_a_listener_that_raises_disturbs_nothing() -> None:
    stage = Stage(once(("t", {})), [FunctionTool("t", lambda *_: "ok")])

    def spoil(event: Any) -> None:
        raise (SystemExit, asyncio.CancelledError, ValueError)[event.seq % 3]

    heard: list[int] = []
    stage.session.subscribe(spoil)
    stage.session.subscribe(lambda event: heard.append(event.seq))
    assert (await stage.ask()).status == "completed"
    assert heard == list(range(2, len(heard) + 2))
    stage.check()


async def test_a_listener_that_causes_an_event_is_heard_in_order() -> None:
    stage = Stage(once(("t", {})), [FunctionTool("t", lambda *_: "ok")])
    heard: list[int] = []
    stage.session.subscribe(lambda event: stage.session.touch() if event.type == "tool.started" else None)
    stage.session.subscribe(lambda event: heard.append(event.seq))
    await stage.ask()
    assert heard == sorted(heard)
    stage.check()
