"""The transcript is always valid: whatever a model asks for, whatever its calls do, and whenever it is stopped."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stage import AsyncFunctionTool, FunctionTool, Stage, assert_valid, results

from kestrel_nb.protocol.errors import ModelRequestError
from kestrel_nb.protocol.messages import (
    ChatMessage,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    create_message,
    tool_message,
)
from kestrel_nb.protocol.sessions import ApprovalDecision
from kestrel_nb.runtime.approvals import ApprovalBroker
from kestrel_nb.runtime.tools import ToolExecutionResult
from kestrel_nb.runtime.transcript import Transcript
from kestrel_nb.testing import Reply, ScriptedModel

EXCLUDED = json.loads((Path(__file__).parent.parent / "data/transcript/excluded.json").read_text(encoding="utf-8"))
RELEASE = threading.Event()


def call(name: str, id: str = "c", arguments: Any = None) -> ToolCallPart:
    return ToolCallPart(id=id, name=name, arguments=arguments or {}, raw_arguments="{}")


# ---- random runs ------------------------------------------------------------------------------------------------


def fail(*_: Any) -> Any:
    raise ValueError("no")


def leave(*_: Any) -> Any:
    raise SystemExit


async def pause(*_: Any) -> str:
    await asyncio.sleep(0.001)
    return "paused"


async def hang(*_: Any) -> str:
    await asyncio.sleep(3600)
    return "never"


TOOLS = [
    FunctionTool("good", lambda *_: "ok"),
    FunctionTool("safe", lambda *_: "ok", parallel_safe=True),
    AsyncFunctionTool("pause", pause, parallel_safe=True),
    AsyncFunctionTool("hang", hang),
    FunctionTool("hang_thread", lambda *_: RELEASE.wait() and "late", parallel_safe=True),
    FunctionTool("ask", lambda *_: "ok", permission="ask"),
    FunctionTool("ask_safe", lambda *_: "ok", permission="ask", parallel_safe=True),
    FunctionTool("bad", fail, parallel_safe=True),
    AsyncFunctionTool("leave", leave),
    FunctionTool("wrong", lambda *_: 3),
    FunctionTool("finish", lambda *_: ToolExecutionResult(content="fin", terminate=True)),
    FunctionTool("finish_safe", lambda *_: ToolExecutionResult(content="fin", terminate=True), parallel_safe=True),
]
QUICK = [tool.schema.name for tool in TOOLS if not tool.schema.name.startswith("hang")]
NAMES = [*(tool.schema.name for tool in TOOLS), "unknown", "dotted.name", "", "x" * 90]


def calls_of(names: list[str]) -> st.SearchStrategy[ToolCallPart | tuple[str, str]]:
    name = st.sampled_from(names)
    odd = st.builds(call, name, st.sampled_from(["same", "", "call_1"]))
    return st.tuples(name, st.sampled_from(["{}", '{"x": 1}', '{"x": "a"}', "{", "[]"])) | odd


def replies_of(names: list[str]) -> st.SearchStrategy[Reply]:
    return st.builds(
        Reply,
        content=st.sampled_from(["", "text"]),
        tool_calls=st.lists(calls_of(names), max_size=5),
        finish_reason=st.sampled_from([None, None, None, "length", "content_filter", "error"]),
        error=st.sampled_from([None] * 6 + [ModelRequestError("no")]),
    )


async def run_script(replies: list[Reply], answers: list[bool | None], cancel_after: int | None) -> None:
    given_answers = iter(answers * 20)

    async def answer(request: Any, signal: Any) -> Any:
        decision = next(given_answers, False)
        if decision is None:
            await asyncio.sleep(3600)
        return ApprovalDecision(approved=bool(decision))

    broker = ApprovalBroker(timeout_s=0.02)
    stage = Stage(ScriptedModel([*replies, "end"]), TOOLS, approve=answer, approvals=broker)
    run = stage.session.start("go")
    if cancel_after is not None:
        for _ in range(cancel_after):
            await asyncio.sleep(0)
        stage.session.cancel()
    try:
        async with asyncio.timeout(30):
            result = await run
        assert result.status in ("completed", "cancelled")
    except ModelRequestError:
        assert stage.of("run.failed")
    stage.check()
    assert not broker.pending()
    assert not stage.session.detail().started
    stage.model._replies = [*stage.model._replies[: stage.model._played], "after"]
    assert (await stage.ask("next")).text == "after"
    stage.check()
    stored = await stage.manager._store.load(stage.session.id)
    assert stored == stage.session.detail()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(replies_of(QUICK), min_size=1, max_size=4),
    st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=4),
)
def test_random_runs_to_their_end(replies: list[Reply], answers: list[bool | None]) -> None:
    asyncio.run(run_script(replies, answers, None))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(replies_of(NAMES), min_size=1, max_size=3),
    st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=4),
    st.integers(0, 60),
)
def test_random_runs_stopped_at_random(replies: list[Reply], answers: list[bool | None], cancel_after: int) -> None:
    asyncio.run(run_script(replies, answers, cancel_after))


# ---- one rule each ----------------------------------------------------------------------------------------------


def test_call_ids_become_unique_within_and_across_messages() -> None:
    transcript = Transcript()
    for _ in range(2):
        message = transcript.adopt(
            ChatMessage(id="m", role="assistant", parts=(call("a", "same"), call("b", "same"), call("c", "")))
        )
        transcript.append(message)
        for part in message.tool_calls:
            transcript.append(tool_message(part, "ok"))
    ids = [part.id for message in transcript.messages for part in message.tool_calls]
    assert ids[0] == "same"
    assert len(set(ids)) == 6
    assert "" not in ids
    assert_valid(transcript.request(""))


def test_d08_empty_assistant_messages_are_kept_but_not_sent() -> None:
    transcript = Transcript([create_message("user", "hi"), create_message("assistant", "  ")])
    assert len(transcript.messages) == 2
    assert [message.role for message in transcript.request("be brief")] == ["system", "user"]
    thought = create_message("assistant", [ReasoningPart(text="hm")])
    transcript.append(thought)
    assert transcript.request("")[-1] is thought


def test_what_a_stored_transcript_left_open_in_its_middle_is_sent_with_a_result() -> None:
    asked = create_message("assistant", [call("a", "1"), call("b", "2")])
    transcript = Transcript(
        [create_message("user", "hi"), asked, tool_message(call("a", "1"), "A"), create_message("user", "go on")]
    )
    assert results(transcript.request("")) == ["A", "the result of this call is lost"]
    assert_valid(transcript.request(""))
    assert transcript.unanswered() == ()


def test_results_that_answer_nothing_are_not_sent() -> None:
    asked = create_message("assistant", [call("a", "1")])
    answer = tool_message(call("a", "1"), "A")
    orphans = [tool_message(call("a", "9"), "orphan"), answer]
    transcript = Transcript([create_message("user", "hi"), *orphans[:1], asked, *orphans, answer])
    assert results(transcript.request("")) == ["A"]
    assert_valid(transcript.request(""))


def test_p01_lone_surrogates_are_replaced_in_every_part() -> None:
    bad = "a\ud800"
    parts = (TextPart(text=bad), ReasoningPart(text=bad), call(bad, bad))
    message = Transcript().adopt(ChatMessage(id="m", role="assistant", parts=parts))
    assert "\\ud800" not in repr(message)
    result = Transcript().adopt(tool_message(call("a"), bad))
    assert result.tool_results[0].content == "a�"


def test_a_pair_of_surrogates_is_joined() -> None:
    message = Transcript().adopt(create_message("user", "\ud83d\ude00"))
    assert message.content == "😀"


async def test_p01_a_tool_result_with_a_lone_surrogate() -> None:
    stage = Stage(
        ScriptedModel([Reply(tool_calls=[("t", {})]), "done"]), [FunctionTool("t", lambda *_: "ok \ud83d end")]
    )
    await stage.ask()
    sent = json.dumps([part.content for part in stage.model.requests[1].messages[-1].tool_results], ensure_ascii=False)
    assert sent.encode("utf-8") == '["ok � end"]'.encode()


@pytest.mark.parametrize("id", sorted(EXCLUDED))
def test_cases_that_are_held_elsewhere_name_where(id: str) -> None:
    assert (Path(__file__).parents[2] / EXCLUDED[id]).exists()
