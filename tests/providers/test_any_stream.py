"""Streams spoilt by chance, in four wire formats: a reply or a model error, the same in every cut, and a transcript
that can be kept and sent on. What comes in one piece too."""

from __future__ import annotations

import copy
import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from dialects import APIS, MODELS, body, calls, parts, text
from hypothesis import given, settings
from hypothesis import strategies as st
from model_server import ModelServer, whole
from replies import FOLDER, play, wire_of
from stage import FunctionTool, Stage
from test_any_transcript import CHECKS, body_of, wire

from kestrel_nb.protocol.codec import decode, dumps, encode, loads
from kestrel_nb.protocol.errors import ModelRequestError
from kestrel_nb.protocol.json_text import DOCUMENT_DEPTH
from kestrel_nb.protocol.messages import ChatMessage, create_message, tool_message
from kestrel_nb.runtime.models import CompletionResponse
from kestrel_nb.runtime.prompts import assistant_message
from kestrel_nb.runtime.transcript import Transcript

WRITTEN = Path(__file__).parents[1] / "data/wire-written"
ODD: list[Any] = [
    *(None, 0, 1, -1, 3.5, True, False, "", " ", "x", "null", "{}", '{"a":1}', "\ud83d", "\ude00", "stop", "error"),
    *([], {}, [None], {"a": None}, [1], {"type": "text", "text": "t"}, {"error": {"message": "boo"}}, {"input": {}}),
    *([{"type": "text", "text": "q"}], {"args": [1]}, json.loads("[" * 150 + "]" * 150)),
]
TOKENS = [
    *(
        b"\r",
        b"\n",
        b"\r\n",
        b"\n\n",
        b":",
        b"data:",
        b"event: error\n",
        b"event: ping\n",
        b"id: 1\x00\n",
        b"retry: 5\n",
    ),
    *(b"\xef\xbb\xbf", b"\xff", b"\x00", b"\xe2\x80\xa8", b"{", b"}", b"[", b"]", b'"', b"\\", b"\\ud83d", b"null"),
    *(b"NaN", b"1e999", b"data: [DONE]\n\n", b"data:\n\n", b"<html>", b"9" * 50),
]


@cache
def streams(api: str) -> list[list[Any]]:
    """The events of every recorded and written stream of ``api``."""
    name = {"openai-responses": "responses"}.get(api, api)
    files = [*sorted(FOLDER.glob(f"*-{api}__*.*s*")), *sorted(WRITTEN.glob(f"{name}-*"))]
    found = [events_in(path.read_bytes()) for path in files if path.suffix in (".sse", ".ndjson")]
    return [events for events in found if events]


def events_in(data: bytes) -> list[Any]:
    lines = [line.removeprefix(b"data:").strip() for line in data.replace(b"\r\n", b"\n").split(b"\n")]
    try:
        return [json.loads(line) for line in lines if line.startswith(b"{")]
    except ValueError:
        return []


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


def spoilt(events: list[Any], dice: random.Random) -> list[Any]:
    """``events`` with some lost, repeated or swapped, and some of their values lost or replaced."""
    events = copy.deepcopy(events)
    for _ in range(dice.choice([1, 1, 2, 3, 5])):
        at = dice.randrange(len(events))
        kind = dice.choice(["again", "gone", "swap", "odd", "key", "key", "value", "value", "value", "value"])
        if kind == "again":
            events.insert(dice.randrange(len(events) + 1), copy.deepcopy(events[at]))
        elif kind == "gone" and len(events) > 1:
            del events[at]
        elif kind == "swap":
            other = dice.randrange(len(events))
            events[at], events[other] = events[other], events[at]
        elif kind == "odd":
            events.insert(at, copy.deepcopy(dice.choice(ODD)))
        elif inner := [place for place in places(events[at]) if place]:
            *path, key = dice.choice(inner)
            holder = events[at]
            for step in path:
                holder = holder[step]
            if kind == "key" and isinstance(holder, dict):
                del holder[key]
            else:
                holder[key] = copy.deepcopy(dice.choice(ODD))
    return events


def bytes_spoilt(data: bytes, dice: random.Random) -> bytes:
    for _ in range(dice.choice([1, 1, 2, 4])):
        at = dice.randrange(len(data) + 1)
        kind = dice.choice(["put", "put", "cut", "end", "change", "lines"])
        if kind == "put":
            data = data[:at] + dice.choice(TOKENS) + data[at:]
        elif kind == "cut":
            data = data[:at] + data[at + dice.choice([1, 2, 10, 100]) :]
        elif kind == "end":
            data = data[:at]
        elif kind == "change":
            data = data[:at] + bytes([dice.randrange(256)]) + data[at + 1 :]
        else:
            data = data.replace(b"\n", dice.choice([b"\r\n", b"\r"]))
    return data


def check(api: str, data: bytes, dice: random.Random) -> None:
    """Whatever ``data`` are, they give a reply or a model error; a reply can be kept, and sent to anybody."""
    found = play(wire_of(api), [data])
    size = dice.choice([1, 2, 3, 7, 50, 500])
    assert play(wire_of(api), (data[at : at + size] for at in range(0, len(data), size))).outcome() == found.outcome()
    if found.response is not None:
        keep_and_send(api, found.response)


def keep_and_send(api: str, response: CompletionResponse) -> None:
    for call in response.tool_calls:
        assert call.id
        assert call.name
        assert (call.problem is None) is (call.arguments is not None)
    (response.content + response.reasoning + "".join(call.raw_arguments for call in response.tool_calls)).encode()
    transcript = Transcript()
    transcript.append(create_message("user", "q"))
    said = transcript.adopt(assistant_message(response))
    transcript.append(decode(ChatMessage, loads(dumps(encode(said)), DOCUMENT_DEPTH)))
    for call in transcript.unanswered():
        transcript.append(tool_message(call, "seen"))
    transcript.append(create_message("user", "more"))
    for other in APIS:
        for stamp in (other, f"{other}@127.0.0.1"):
            CHECKS[other](body_of(wire(other, stamp), transcript.request("Be brief.")))


@pytest.mark.parametrize("api", APIS)
@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**9))
def test_events_spoilt_by_chance(api: str, seed: int) -> None:
    dice = random.Random(seed)
    check(api, body(api, spoilt(dice.choice(streams(api)), dice)), dice)


@pytest.mark.parametrize("api", APIS)
@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**9))
def test_bytes_spoilt_by_chance(api: str, seed: int) -> None:
    dice = random.Random(seed)
    check(api, bytes_spoilt(body(api, dice.choice(streams(api))), dice), dice)


@pytest.mark.parametrize("api", APIS)
@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=60))
def test_any_bytes(api: str, data: bytes) -> None:
    check(api, data, random.Random(0))
    with pytest.raises(ModelRequestError):
        wire_of(api).whole(data)


def in_one_piece(api: str, answer: Any) -> dict[str, Any]:
    """A reply that was not streamed: text, or one call with these arguments."""
    called = isinstance(answer, dict)
    if api == "anthropic":
        block = (
            {"type": "tool_use", "id": "a", "name": "look", "input": answer}
            if called
            else {"type": "text", "text": answer}
        )
        return {"type": "message", "content": [block], "stop_reason": "tool_use" if called else "end_turn", "usage": {}}
    if api == "openai-responses":
        event = (calls(api, ("look", json.dumps(answer))) if called else text(api, answer))[-1]
        return dict(event["response"])
    if api == "gemini":
        return parts({"functionCall": {"name": "look", "args": answer}} if called else {"text": answer}, finish="STOP")
    message = {"tool_calls": [{"function": {"name": "look", "arguments": answer}}]} if called else {"content": answer}
    return {"message": message, "done": True, "done_reason": "stop"}


@pytest.mark.parametrize("api", APIS)
@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**9))
def test_replies_in_one_piece_spoilt_by_chance(api: str, seed: int) -> None:
    dice = random.Random(seed)
    (event,) = spoilt([in_one_piece(api, dice.choice(["Hello", {"x": 1}]))], dice)[:1]
    try:
        response = wire_of(api).whole(json.dumps(event).encode())
    except ModelRequestError:
        return
    keep_and_send(api, response)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("stream", [True, False])
async def test_a_run_on_replies_in_one_piece_asked_for_or_not(api: str, stream: bool) -> None:
    runs: list[Any] = []

    def run(args: Any, _: Any) -> str:
        runs.append(args)
        return "seen"

    look = FunctionTool("look", run, parameters={"type": "object"})
    async with ModelServer([whole(in_one_piece(api, {"x": 1})), whole(in_one_piece(api, "done"))]) as server:
        stage = Stage(MODELS[api]("m", base_url=server.url, stream=stream), [look])
        assert (await stage.ask()).text == "done"
    stage.check()
    assert runs == [{"x": 1}]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("base", ["", "/", "/v1", "/v1/", "/v1beta", "/api", "/proxy/v1"])
async def test_a_base_url_may_end_in_the_version(api: str, base: str) -> None:
    own = {"anthropic": "v1", "gemini": "v1beta", "ollama": "api"}.get(api)
    async with ModelServer([whole(in_one_piece(api, "done"))]) as server:
        stage = Stage(MODELS[api]("m", base_url=server.url + base))
        assert (await stage.ask()).text == "done"
        target = server.requests[0].target
    assert "//" not in target
    if own:
        assert target.count(f"/{own}/") == 1
