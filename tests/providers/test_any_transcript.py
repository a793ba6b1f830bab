"""Requests of any transcript, in every wire format: valid to a strict server, whoever wrote what stands in it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from itertools import pairwise
from typing import Any

import pytest
from dialects import APIS, MODELS, reply, text
from hypothesis import given, settings
from hypothesis import strategies as st
from model_server import ModelServer
from replies import WIRES
from stage import Stage

from kestrel_nb.protocol.codec import parse_call
from kestrel_nb.protocol.errors import UsageError
from kestrel_nb.protocol.messages import (
    ChatMessage,
    ImageAttachment,
    ImagePart,
    OpaquePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    create_message,
    tool_message,
)
from kestrel_nb.protocol.tools import ToolSchema
from kestrel_nb.runtime.models import CompletionRequest
from kestrel_nb.runtime.transcript import Transcript

LOOK = ToolSchema(name="look", description="Looks \ud83d", parameters={})
SECRET = "S3CRET"
STAMPS = [None, "demo", "openai-chat", *APIS, *(f"{api}@host" for api in APIS)]
TEXTS = st.sampled_from(
    ["", " \n", "a", "é\u2028\x00\ufffe", "\ud83d", "\ud83d\ude00", 'quote " \\ \\ud83d', "x" * 3000]
)
IDS = st.sampled_from(["call_1", "toolu_1", "functions.look:0", "a" * 200, "é ö", "", "\ud83d", "x/y+z=="])
TOOLS = st.sampled_from(["look", "functions.look", "1up", "-x", "é", "", "x" * 100, "\ud83d", "a b"])
RAWS = st.sampled_from(
    [
        *("", " ", "{}", '{"x":  1.0}', '{"x": ', "null", "[]", '{"a":1}{"a":2}', '{"x":NaN}', '{"a":"\n"}', "[" * 300),
        *('{"a":1,"a":2}', '{"b":{"a":1,"a":2}}', '{"x":"\\ud83d"}', '{"x":"\\ud83d\\ude00"}', '{"x":"\ud83d"}'),
        *('{"\\udead":1}', '{"x":1e400}', '{"x":123456789012345678901234567890}', "\ufeff{}", '{"x":"\u2028"}'),
    ]
)
IMAGES = st.sampled_from(
    [
        ImagePart(data="iVBORw0KGgo="),
        ImagePart(data="PHN2Zz4=", media_type="image/svg+xml"),
        ImagePart(url="https://example.org/a.png"),
        ImagePart(url="data:image/PNG;base64,iVBO\nRw0KGgo="),
    ]
)
SAID = st.one_of(
    st.builds(lambda text: TextPart(text=text), TEXTS),
    st.builds(lambda text: TextPart(text=text, extra={"thoughtSignature": SECRET, "citations": [SECRET]}), TEXTS),
    st.builds(lambda text: TextPart(text=text, extra={"item": {"type": "message", "id": SECRET}}), TEXTS),
    st.builds(lambda text: ReasoningPart(text=text + SECRET), TEXTS),
    st.builds(lambda text: ReasoningPart(text=text, extra={"signature": SECRET}), TEXTS),
    st.just(ReasoningPart(text="", redacted=True, extra={"data": SECRET})),
    st.just(
        ReasoningPart(
            text="", redacted=True, extra={"item": {"type": "reasoning", "id": "rs", "encrypted_content": SECRET}}
        )
    ),
    st.builds(lambda api: OpaquePart(api=api, value={"type": "x", "value": SECRET}), st.sampled_from(APIS)),
    st.builds(lambda id, name, raw: parse_call(id, name, raw), IDS, TOOLS, RAWS),
    st.builds(lambda id: replace(parse_call(id, "look", "{}"), extra={"id": SECRET, "item": {"id": SECRET}}), IDS),
)
PERSON = st.lists(st.one_of(st.builds(lambda text: TextPart(text=text), TEXTS), IMAGES), max_size=3)


@st.composite
def transcripts(draw: st.DrawFn) -> tuple[ChatMessage, ...]:
    """What a session would send: any roles in any order, calls answered, left open or answered twice."""
    transcript = Transcript()
    for _ in range(draw(st.integers(1, 10))):
        role = draw(st.sampled_from(["system", "user", "assistant", "assistant", "results", "results"]))
        if role == "results":
            for call in transcript.unanswered()[: draw(st.integers(0, 3))]:
                images = tuple(draw(st.lists(IMAGES, max_size=2)))
                said = tool_message(call, draw(TEXTS), is_error=draw(st.booleans()), images=images)
                transcript.append(transcript.adopt(said))
        elif role == "assistant":
            parts: list[Part] = draw(st.lists(SAID, max_size=5))
            said = replace(create_message("assistant", parts), provider=draw(st.sampled_from(STAMPS)))
            transcript.append(transcript.adopt(said))
        else:
            parts = [*draw(PERSON)] if role == "user" else [TextPart(text=draw(TEXTS))]
            transcript.append(transcript.adopt(create_message(role, parts)))  # type: ignore[arg-type]
    for call in transcript.unanswered():
        transcript.append(tool_message(call, "cancelled"))
    transcript.append(create_message("user", "go on"))
    return transcript.request(draw(st.sampled_from(["", " ", "Be brief. \ud83d"])))


def wire(api: str, stamp: str | None = None) -> Any:
    module, name = WIRES[api]
    return getattr(import_module(f"kestrel_nb.providers.{module}"), name)("m", stamp=stamp or api)


def body_of(made: Any, messages: Sequence[ChatMessage], tools: Sequence[ToolSchema] = (LOOK,)) -> Any:
    request = CompletionRequest(model="ours", messages=tuple(messages), tools=tuple(tools))
    return json.loads(made.encode(request, stream=True).body.decode(), object_pairs_hook=unique, parse_constant=refuse)


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """As a strict server reads an object."""
    assert len(dict(pairs)) == len(pairs), "a key stands twice"
    json.dumps(pairs, ensure_ascii=False).encode()  # no half characters
    return dict(pairs)


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def check_anthropic(body: Any) -> None:
    assert body["messages"][0]["role"] == "user"
    assert all(one["role"] != other["role"] for one, other in pairwise(body["messages"]))
    asked: list[str] = []
    for message in body["messages"]:
        blocks = message["content"]
        assert blocks
        assert [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"] == asked
        assert all(block["text"].strip() for block in blocks if block["type"] == "text")
        kinds = [block["type"] == "tool_result" for block in blocks]
        assert kinds == sorted(kinds, reverse=True)  # results first
        used = [block for block in blocks if block["type"] == "tool_use"]
        asked = [block["id"] for block in used]
        assert len(set(asked)) == len(asked)
        assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", text) for block in used for text in (block["id"], block["name"]))
        assert all(isinstance(block["input"], dict) for block in used)
    assert not asked
    if any(block["type"] == "tool_use" for message in body["messages"] for block in message["content"]):
        assert body["tools"]


def check_responses(body: Any) -> None:
    items = body["input"]
    calls = [item["call_id"] for item in items if item["type"] == "function_call"]
    assert calls == [item["call_id"] for item in items if item["type"] == "function_call_output"]
    assert len(set(calls)) == len(calls)
    assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", id) for id in calls)
    for item in items:
        if item["type"] == "message":
            assert item["content"]
        if item["type"] == "function_call":
            assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", item["name"])
            assert item["arguments"].strip()


def check_gemini(body: Any) -> None:
    contents = body["contents"]
    assert contents[0]["role"] == "user"
    assert all(one["role"] != other["role"] for one, other in pairwise(contents))
    asked: list[str] = []
    for content in contents:
        assert content["parts"]
        assert [part["functionResponse"]["name"] for part in content["parts"] if "functionResponse" in part] == asked
        used = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        asked = [call["name"] for call in used]
        assert all(re.fullmatch("[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}", name) for name in asked)
        assert all(isinstance(call["args"], dict) for call in used)
    assert not asked


def check_ollama(body: Any) -> None:
    asked = 0
    for message in body["messages"]:
        assert isinstance(message["content"], str)
        if message["role"] == "tool":
            asked -= 1
            continue
        assert asked == 0
        calls = message.get("tool_calls", ())
        asked = len(calls)
        assert all(isinstance(call["function"]["arguments"], dict) for call in calls)
        assert all(re.fullmatch("[A-Za-z0-9+/=]+", image) for image in message.get("images", ()))
    assert asked == 0


CHECKS = {
    "anthropic": check_anthropic,
    "openai-responses": check_responses,
    "gemini": check_gemini,
    "ollama": check_ollama,
}


@pytest.mark.parametrize("api", APIS)
@settings(max_examples=150, deadline=None)
@given(messages=transcripts(), with_tools=st.booleans())
def test_any_transcript_makes_a_valid_request(api: str, messages: tuple[ChatMessage, ...], with_tools: bool) -> None:
    for stamp in (api, f"{api}@host"):
        CHECKS[api](body_of(wire(api, stamp), messages, (LOOK,) if with_tools else ()))


@pytest.mark.parametrize("api", APIS)
@settings(max_examples=80, deadline=None)
@given(messages=transcripts(), data=st.data())
def test_a_request_that_goes_on_is_the_one_that_begins_anew(
    api: str, messages: tuple[ChatMessage, ...], data: st.DataObject
) -> None:
    kept = wire(api)
    for end in data.draw(st.lists(st.integers(0, len(messages)), max_size=6)):
        if acceptable(api, messages[:end]):
            assert body_of(kept, messages[:end]) == body_of(wire(api), messages[:end])
    assert body_of(kept, messages) == body_of(wire(api), messages)


@pytest.mark.parametrize("api", APIS)
@settings(max_examples=40, deadline=None)
@given(one=transcripts(), other=transcripts())
def test_sessions_that_share_a_model_do_not_mix(
    api: str, one: tuple[ChatMessage, ...], other: tuple[ChatMessage, ...]
) -> None:
    kept = wire(api)
    for messages in (one, other, one[:1] + other[1:], one):
        if acceptable(api, messages):
            assert body_of(kept, messages) == body_of(wire(api), messages)


def acceptable(api: str, messages: Sequence[ChatMessage]) -> bool:
    try:
        body_of(wire(api), messages)
    except UsageError:  # an image that the format does not know, just now
        return False
    return True


@pytest.mark.parametrize("api", APIS)
@settings(max_examples=100, deadline=None)
@given(messages=transcripts())
def test_what_is_opaque_goes_to_no_other_server(api: str, messages: tuple[ChatMessage, ...]) -> None:
    for stamp in (api, f"{api}@host"):
        foreign = [replace(said, provider=None) if said.provider == stamp else said for said in messages]
        made = wire(api, stamp)
        request = CompletionRequest(model="ours", messages=tuple(foreign))
        assert SECRET.encode() not in made.encode(request, stream=True).body


@pytest.mark.parametrize("api", APIS)
@settings(max_examples=100, deadline=None)
@given(
    parts=st.lists(st.one_of(SAID, IMAGES), max_size=4), role=st.sampled_from(["system", "user", "assistant", "tool"])
)
def test_messages_that_no_session_would_send_raise_nothing_but_a_usage_error(
    api: str, parts: list[Part], role: Any
) -> None:
    orphan = ToolResultPart(call_id="gone", name="", content="\ud83d")
    made = wire(api)
    for messages in (
        [create_message(role, parts)],
        [create_message("tool", [orphan]), create_message(role, parts)],
        [],
    ):
        for said in (*messages, *(replace(message, provider=api) for message in messages)):
            try:
                body_of(made, [said])
            except UsageError:
                assert any(isinstance(part, ImagePart) for part in said.parts)
        body_of(made, [])


@pytest.mark.parametrize("api", APIS)
def test_calls_without_tools(api: str) -> None:
    call = parse_call("c", "look", '{"x":1}')
    said = replace(create_message("assistant", [call]), provider=api)
    body = body_of(
        wire(api), [create_message("user", "a"), said, tool_message(call, "seen"), create_message("user", "b")], ()
    )
    if api == "anthropic":
        assert body["tools"] == [{"name": "look", "input_schema": {"type": "object", "properties": {}}}]
        assert body["tool_choice"] == {"type": "none"}
    else:
        assert "tools" not in body
    assert "tools" not in body_of(wire(api), [create_message("user", "a")], ())


@pytest.mark.parametrize("api", APIS)
def test_a_schema_without_type_and_properties_gets_them(api: str) -> None:
    tools = [
        ToolSchema(name="bare", description="", parameters={}),
        ToolSchema(name="typed", description="", parameters={"type": "object"}),
    ]
    sent = json.dumps(body_of(wire(api), [create_message("user", "a")], tools))
    assert sent.count('{"type": "object", "properties": {}}') + sent.count('{"properties": {}, "type": "object"}') == 2


@pytest.mark.parametrize("api", APIS)
def test_extra_fields_add_replace_and_take_away(api: str) -> None:
    module, name = WIRES[api]
    made = getattr(import_module(f"kestrel_nb.providers.{module}"), name)(
        "m",
        stamp=api,
        extra_body={
            "stream": None,
            "store": None,
            "max_tokens": None,
            "x": 1,
            "tools": [{"type": "own"}],
            "messages": [],
            "input": "",
            "contents": [],
        },
    )
    body = body_of(made, [create_message("user", "hello")])
    assert body["x"] == 1
    assert None not in body.values()
    assert "hello" in json.dumps(body)
    assert body["tools"][-1] == {"type": "own"}
    assert "look" in json.dumps(body["tools"][0])


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": math.nan},
        {"temperature": math.inf},
        {"tools": (ToolSchema(name="t", description="", parameters={"x": {1}}),)},
    ],
)
async def test_what_json_can_not_say_is_told_in_one_line(api: str, wrong: Any) -> None:
    async with ModelServer([b""]) as server:
        model = MODELS[api]("m", base_url=server.url)
        with pytest.raises(UsageError, match="can't be written as JSON"):
            await model.generate(CompletionRequest(model="m", messages=(create_message("user", "a"),), **wrong))
        assert server.requests == []


@pytest.mark.parametrize("api", ["anthropic", "gemini", "ollama"])
async def test_an_image_that_can_not_be_sent_is_told_once_and_only_mentioned_later(api: str) -> None:
    image = {
        "anthropic": ImageAttachment(data="PHN2Zz4=", media_type="image/svg+xml"),
        "gemini": ImageAttachment(data="PHN2Zz4=", media_type="image/svg+xml"),
        "ollama": ImageAttachment(url="https://example.org/a.png"),
    }[api]
    async with ModelServer([reply(api, text(api, "done"))]) as server:
        stage = Stage(MODELS[api]("m", base_url=server.url))
        with pytest.raises(UsageError, match="image"):
            await stage.ask("look", images=[image])
        assert (await stage.ask("never mind")).text == "done"
        assert (
            b"which can't be shown" in server.requests[0].body
            or b"can't be shown to this model" in server.requests[0].body
        )


@pytest.mark.parametrize(
    ("model", "asked"),
    [
        ("gpt-5.4", True),
        ("o4-mini", True),
        ("gpt-7-nano", True),
        ("gpt-4o", False),
        ("ft:gpt-4.1:me", False),
        ("gpt-3.5-turbo", False),
        ("chatgpt-4o-latest", False),
        ("gpt-5-chat-latest", False),
        ("gpt-5.2-chat-latest", False),
        ("openai/gpt-4o", False),
        ("my-gpt-4", True),
    ],
)
def test_encrypted_reasoning_is_asked_of_models_that_reason(model: str, asked: bool) -> None:
    from kestrel_nb.providers.openai_responses import OpenAIResponsesWire

    body = body_of(OpenAIResponsesWire(model, stamp="openai-responses"), [create_message("user", "a")])
    assert ("include" in body) is asked


@pytest.mark.parametrize(
    ("raw", "sent"),
    [
        ('{ "x" :  1.0, "y": "\\u00e9\\n" }', '{ "x" :  1.0, "y": "\\u00e9\\n" }'),
        ('{"a":1,"b":2,"a":3}', '{"a":3,"b":2}'),
        ('{"x":"\\ud83d"}', '{"x":"\ufffd"}'),
        ('{"x":"\\ud83d\\ude00"}', '{"x":"\\ud83d\\ude00"}'),
        ('{"x":"\\\\ud83d"}', '{"x":"\\\\ud83d"}'),
    ],
)
@pytest.mark.parametrize("api", ["anthropic", "gemini", "ollama"])
def test_arguments_go_back_as_they_came_unless_a_strict_server_would_refuse_them(api: str, raw: str, sent: str) -> None:
    call = parse_call("c", "look", raw)
    assert isinstance(call, ToolCallPart)
    messages = (create_message("user", "a"), create_message("assistant", [call]), tool_message(call, "seen"))
    request = CompletionRequest(model="ours", messages=messages)
    assert sent.encode() in wire(api).encode(request, stream=True).body
