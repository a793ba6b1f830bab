"""Whole runs on Anthropic's format: what a reply signed comes back unchanged, whatever happened in between."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from model_server import Asked, ModelServer, Steps, streamed
from stage import FunctionTool, Stage

from kestrel_nb.app import Kestrel
from kestrel_nb.protocol.errors import ModelRequestError
from kestrel_nb.protocol.sessions import ApprovalDecision
from kestrel_nb.providers import AnthropicModel
from kestrel_nb.runtime.file_store import FileSessionStore
from kestrel_nb.runtime.tools import ToolExecutionResult

WRITTEN = Path(__file__).parents[1] / "data" / "wire-written"
THINKING = (WRITTEN / "anthropic-thinking.sse").read_bytes()
SIGNED = (
    b'{"type":"thinking","thinking":"Let me see: \xe6\xbc\xa2\xe5\xad\x97\\n","signature":"EqoBCkgIAxABGAIiQL+/=="}',
    b'{"type":"redacted_thinking","data":"EmwKAhgBEgy3va3pzix/Lafp=="}',
    b'{"type":"thinking","thinking":"","signature":"EuYBempty"}',
)


def events(*items: dict[str, Any]) -> Steps:
    return streamed(*(b"data: " + json.dumps(item).encode() + b"\n\n" for item in items))


def text(said: str) -> Steps:
    return events(
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": said}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    )


def signed(request: Asked) -> bool:
    """True when the three thoughts stand in ``request``, together and in order; False when none of them does."""
    there = [thought in request.body for thought in SIGNED]
    assert len(set(there)) == 1
    assert there[0] == (b",".join(SIGNED) in request.body)
    return there[0]


async def test_signed_thoughts_come_back_unchanged_to_their_server_alone(tmp_path: Path) -> None:
    look = FunctionTool("look", lambda *_: "seen")
    options: dict[str, Any] = {"tools": [look], "workspace": tmp_path, "store": FileSessionStore(tmp_path / "store")}
    async with ModelServer([streamed(THINKING), text("done")]) as server:
        other_host = server.url.replace("127.0.0.1", "localhost")

        def models() -> tuple[AnthropicModel, AnthropicModel]:
            here = AnthropicModel("m", base_url=server.url, id="here")
            return here, AnthropicModel("m", base_url=other_host, id="there")

        here, there = models()
        async with Kestrel(model=here, **options) as app:
            app.models.register(there)
            session = app.sessions.create()
            assert (await session.start("go")).text == "done"
            for model in ("there", "here"):
                session.set_model(model)
                assert (await session.start("more")).text == "done"
        here, there = models()
        options["store"] = FileSessionStore(tmp_path / "store")
        async with Kestrel(model=here, **options) as app:
            app.models.register(there)
            assert (await app.sessions.get(session.id).start("again")).text == "done"
    assert [signed(request) for request in server.requests] == [False, True, False, True, True]


async def test_two_calls_one_failing_and_one_declined_are_answered_together_and_in_order() -> None:
    def look(args: Any, _: Any) -> ToolExecutionResult:
        return ToolExecutionResult(content="nothing to see", is_error=True)

    parallel = {"parallel_safe": True}
    calls = THINKING.replace(b'"id":"toolu_02","name":"look"', b'"id":"toolu_02","name":"act"')
    async with ModelServer([streamed(calls), text("done")]) as server:
        tools = [FunctionTool("look", look, **parallel), FunctionTool("act", look, permission="ask", **parallel)]
        stage = Stage(AnthropicModel("m", base_url=server.url), tools)
        run = stage.session.start("go")
        request = await stage.question()
        stage.manager.approvals.resolve(request.id, ApprovalDecision(approved=False, reason="not now"))
        assert (await run).text == "done"
    stage.check()
    first, second, third = server.requests[1].json["messages"]
    assert [message["role"] for message in (first, second, third)] == ["user", "assistant", "user"]
    assert [(block["type"], block["tool_use_id"], block.get("is_error")) for block in third["content"]] == [
        ("tool_result", "toolu_01", True),
        ("tool_result", "toolu_02", None),
    ]
    assert third["content"][0]["content"] == "nothing to see"
    assert "not now" in third["content"][1]["content"]


async def test_a_failure_before_the_first_token_is_tried_again_and_one_behind_it_is_not() -> None:
    after, first = (path.read_bytes() for path in sorted(WRITTEN.glob("anthropic-overloaded-*.sse")))
    async with ModelServer([streamed(first), text("done")]) as server:
        stage = Stage(AnthropicModel("m", base_url=server.url))
        assert (await stage.ask()).text == "done"
        assert len(server.requests) == 2
    async with ModelServer([streamed(after), text("done")]) as server:
        stage = Stage(AnthropicModel("m", base_url=server.url))
        with pytest.raises(ModelRequestError, match="529: Overloaded"):
            await stage.ask()
        assert len(server.requests) == 1


SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "kestrel"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"encrypted_content": "Eq=="}]}


def paused(*blocks: dict[str, Any]) -> Steps:
    return events(
        *({"type": "content_block_start", "index": at, "content_block": block} for at, block in enumerate(blocks)),
        {"type": "message_delta", "delta": {"stop_reason": "pause_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    )


async def test_a_turn_that_was_paused_goes_on_with_what_was_said_so_far() -> None:
    goes_on = events(
        {"type": "content_block_start", "index": 0, "content_block": FOUND},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": "Found."}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    )
    async with ModelServer([paused({"type": "text", "text": "I search."}, SEARCH), goes_on, text("done")]) as server:
        stage = Stage(AnthropicModel("m", base_url=server.url))
        result = await stage.ask()
        assert (result.text, result.status, result.steps, result.usage.output_tokens) == ("Found.", "completed", 2, 5)
        await stage.ask("more")
    stage.check()
    said = [{"type": "text", "text": "I search."}, SEARCH]
    assert server.requests[1].json["messages"][-1] == {"role": "assistant", "content": said}
    assert server.requests[2].json["messages"][1]["content"] == [*said, FOUND, {"type": "text", "text": "Found."}]


async def test_a_turn_that_pauses_to_no_end_is_stopped_by_the_step_limit_and_can_be_left() -> None:
    async with ModelServer([*[paused(SEARCH)] * 3, text("done")]) as server:
        stage = Stage(AnthropicModel("m", base_url=server.url), max_steps=3)
        assert (await stage.ask()).status == "max_steps"
        assert (await stage.ask("never mind")).text == "done"
    broken = server.requests[3].json["messages"][1]["content"]
    assert [block["type"] for block in broken] == ["text"] * 3
    assert "broken off" in broken[0]["text"]
