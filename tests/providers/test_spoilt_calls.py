"""Calls in replies that are not as the formats say: without indexes and ids, said again, interleaved, cut, in other
forms. Each stands for a kind of fault that servers show; what a tool gets is what counts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from dialects import (
    APIS,
    MODELS,
    added,
    arguments,
    block,
    body,
    calls,
    completed,
    delta,
    done,
    json_delta,
    last,
    parts,
    reply,
    start,
    stop,
    text,
)
from model_server import ModelServer
from replies import wire_of
from spoilt_calls import AT, BARE_A, BARE_B, BT, ITEM_A, JA, LOOK, PEEK, ROWS, A, B, function, only
from stage import FunctionTool, Stage, results
from written import played

from kestrel_nb.protocol.errors import ModelRequestError


def counted(runs: list[Any], *names: str) -> list[FunctionTool]:
    """Tools that note in ``runs`` what they were called with."""

    def run(args: Mapping[str, Any], _: Any) -> str:
        runs.append(args)
        return "seen"

    return [FunctionTool(name, run, parameters={"type": "object"}) for name in names]


@pytest.mark.parametrize("name", ROWS)
def test_what_is_asked_for(name: str) -> None:
    api, events, expected = ROWS[name]
    data = body(api, events)
    if name == "ollama: as server-sent events":
        data = b": hello\n\n" + b"".join(b"data: " + line + b"\n\n" for line in data.splitlines()) + b"data: [DONE]\n\n"
    found = played(wire_of(api), data)
    assert found.response is not None, found.error
    assert [(call.name, call.arguments) for call in found.tool_calls] == expected
    assert found.response.finish_reason == "tool_calls"
    unique = len({call.id for call in found.tool_calls}) == len(expected) and "twice" not in name
    for call in found.tool_calls if unique else ():  # what was shown is what runs
        shown_name, shown = found.calls[call.id]
        assert shown_name == call.name
        assert (
            call.arguments is None or "nothing closed" in name or (json.loads(shown.strip() or "{}") == call.arguments)
        )


@pytest.mark.parametrize("name", ROWS)
async def test_each_call_runs_once_and_the_next_request_is_valid(name: str) -> None:
    api, events, expected = ROWS[name]
    if name == "ollama: as server-sent events":
        return
    runs: list[Any] = []
    tools = counted(runs, "look", "peek")
    async with ModelServer([reply(api, events), reply(api, text(api, "done"))]) as server:
        stage = Stage(MODELS[api]("m", base_url=server.url), tools)
        assert (await stage.ask()).text == "done"
        stage.check()
        assert runs == [args for _, args in expected if args is not None]
        assert len(results(stage.session.messages)) == len(expected)
        assert len(server.requests) == 2
        json.dumps(server.requests[1].json, ensure_ascii=False).encode()


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("given", ["null", "[]", "3", '"x"'])
def test_arguments_that_are_no_object_never_run(api: str, given: str) -> None:
    if given == "[]" and api in ("gemini", "ollama"):
        return  # an empty array in the place of an object is one of PHP's
    found = played(wire_of(api), body(api, calls(api, ("look", given))))
    assert found.response is not None, found.error
    (call,) = found.tool_calls
    assert call.arguments == ({} if given == "null" and api in ("gemini", "ollama") else None)


@pytest.mark.parametrize("api", ["anthropic", "openai-responses"])
@pytest.mark.parametrize(
    "given", ['{"x": 1', '{"x": 1}{"x": 2}', '{"x": NaN}', "[" * 100_000, "{'x': 1}", '{"a":1e999}', '{"a":"\n"}']
)
async def test_arguments_that_are_not_json_never_run_and_the_sibling_does(api: str, given: str) -> None:
    runs: list[Any] = []
    tools = counted(runs, "look", "peek")
    asked = reply(api, calls(api, ("look", given), ("peek", BT)))
    async with ModelServer([asked, reply(api, text(api, "done"))]) as server:
        stage = Stage(MODELS[api]("m", base_url=server.url), tools)
        assert (await stage.ask()).text == "done"
    stage.check()
    assert runs == [B]
    first, second = results(stage.session.messages)
    assert "JSON" in first
    assert second == "seen"


@pytest.mark.parametrize("api", ["anthropic", "openai-responses"])
@pytest.mark.parametrize("pieces", [('{"x": "\ud83d', '\ude00"}'), ('{"x": "\\ud83d', '\\ude00"}')])
def test_halves_of_a_character_in_two_pieces_of_arguments(api: str, pieces: tuple[str, str]) -> None:
    if api == "anthropic":
        events = [*block(0, LOOK, *map(json_delta, pieces)), *stop()]
    else:
        events = [added(0, BARE_A), *(arguments(piece, item_id="fc_a") for piece in pieces), completed()]
    found = played(wire_of(api), body(api, events))
    (call,) = found.tool_calls
    assert call.arguments == {"x": "\U0001f600"}
    assert found.calls[call.id][1] == call.raw_arguments


CUT: dict[str, list[Any]] = {
    "anthropic": [*block(0, LOOK, JA), start(1, PEEK), delta(1, json_delta('{"y"')), *stop("max_tokens")],
    "openai-responses": [
        done(0, ITEM_A),
        added(1, BARE_B),
        arguments('{"y"', item_id="fc_b"),
        {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "max_output_tokens"}}},
    ],
    "gemini": [parts({"functionCall": {"name": "look", "args": A}}, finish="MAX_TOKENS")],
    "ollama": [only(function("look", A)), last("length")],
}


@pytest.mark.parametrize("api", APIS)
async def test_a_reply_that_its_limit_cut_runs_nothing(api: str) -> None:
    runs: list[Any] = []
    tools = counted(runs, "look", "peek")
    async with ModelServer([reply(api, CUT[api]), reply(api, text(api, "done"))]) as server:
        stage = Stage(MODELS[api]("m", base_url=server.url), tools)
        assert (await stage.ask()).text == "done"
    stage.check()
    assert runs == []
    assert all("token limit" in content for content in results(stage.session.messages))


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("name", ["functions.look", "multi_tool_use.parallel", "l o/o\nk", "", "x" * 200, "\ud83d"])
async def test_a_tool_that_does_not_exist_is_told_and_sent_under_a_name_that_is_taken(api: str, name: str) -> None:
    runs: list[Any] = []
    tools = counted(runs, "peek")
    async with ModelServer(
        [reply(api, calls(api, (name, "{}"), ("peek", BT))), reply(api, text(api, "done"))]
    ) as server:
        stage = Stage(MODELS[api]("m", base_url=server.url), tools)
        assert (await stage.ask()).text == "done"
        again = json.dumps(
            server.requests[1].json[
                "messages" if api in ("anthropic", "ollama") else "contents" if api == "gemini" else "input"
            ]
        )
    stage.check()
    assert runs == [B]
    assert "Unknown tool" in results(stage.session.messages)[0]
    names = {*(part.name for said in stage.session.messages for part in said.tool_calls)}
    assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", made) for made in names)
    assert all(f'"{made}"' in again for made in names)


@pytest.mark.parametrize("api", APIS)
async def test_ids_that_come_again_in_a_later_turn(api: str) -> None:
    runs: list[Any] = []
    tools = counted(runs, "look")
    asked = {
        "ollama": [only(function("look", A, id="call_1")), last()],
        "gemini": [parts({"functionCall": {"id": "call_1", "name": "look", "args": A}}, finish="STOP")],
    }.get(api) or calls(api, ("look", AT))
    async with ModelServer([*[reply(api, asked)] * 3, reply(api, text(api, "done"))]) as server:
        stage = Stage(MODELS[api]("m", base_url=server.url), tools)
        assert (await stage.ask()).text == "done"
    stage.check()
    assert runs == [A] * 3
    assert len({call.id for said in stage.session.messages for call in said.tool_calls}) == 3


@pytest.mark.parametrize("api", APIS)
async def test_a_call_whose_stream_breaks_never_runs(api: str) -> None:
    runs: list[Any] = []
    tools = counted(runs, "look")
    events = calls(api, ("look", AT))
    events = [parts({"functionCall": {"name": "look", "args": A}})] if api == "gemini" else events[:-1]
    async with ModelServer([reply(api, events), reply(api, text(api, "done"))]) as server:
        stage = Stage(MODELS[api]("m", base_url=server.url), tools)
        with pytest.raises(ModelRequestError, match="before it was complete"):
            await stage.ask()
        assert (await stage.ask("and now?")).text == "done"
    stage.check()
    assert runs == []
