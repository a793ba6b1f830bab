"""Requests of Chat Completions: the exact JSON of a conversation with everything in it, and what each part costs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replies import WIRES, wire_of
from test_any_transcript import body_of as strict_body
from test_any_transcript import transcripts

from kestrel_nb.protocol.codec import parse_call
from kestrel_nb.protocol.errors import UsageError
from kestrel_nb.protocol.messages import (
    ChatMessage,
    ImagePart,
    OpaquePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    create_message,
    tool_message,
)
from kestrel_nb.protocol.tools import ToolSchema
from kestrel_nb.providers.openai_chat import OpenAIChatWire
from kestrel_nb.runtime.models import CompletionRequest

HERE = "openai-chat@localhost"
TOOLS = (
    ToolSchema(name="grep", description="Searches.", parameters={"type": "object", "properties": {"b": {}, "a": {}}}),
    ToolSchema(name="list_dir", description="Lists."),
)
PICTURE = ImagePart(media_type="image/png", data="iVBORw0KGgo=")


def assistant(*parts: Part, provider: str | None = HERE) -> ChatMessage:
    return replace(create_message("assistant", parts), provider=provider)


def body_of(wire: OpenAIChatWire, *messages: ChatMessage, stream: bool = True, **options: Any) -> dict[str, Any]:
    request = CompletionRequest(model="ignored", messages=messages, **options)
    body: dict[str, Any] = json.loads(wire.encode(request, stream=stream).body)
    return body


def sent(*messages: ChatMessage, stamp: str = HERE) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = body_of(OpenAIChatWire("m", stamp=stamp), *messages)["messages"]
    return found


# ---- the whole of it ----------------------------------------------------------------------------------------------


def conversation() -> tuple[ChatMessage, ...]:
    """A person with an image, a reply that thinks and calls twice, a failing tool, one that shows images, an answer."""
    calls = parse_call("call_1", "grep", '{ "b":1,\n"a": "\\u00fc" }'), parse_call("call_2", "list_dir", " ")
    return (
        create_message("system", "Be brief."),
        create_message("user", [TextPart(text="What is this?"), PICTURE, ImagePart(url="https://example.org/a.png")]),
        assistant(
            ReasoningPart(text="Let me ", extra={"reasoning_field": "reasoning_content"}),
            ReasoningPart(text="look.", extra={"reasoning_field": "reasoning_content"}),
            TextPart(text="I look "),
            calls[0],
            TextPart(text="at it."),
            calls[1],
        ),
        tool_message(calls[0], "no such pattern", is_error=True),
        tool_message(calls[1], "two files", images=(PICTURE, replace(PICTURE, media_type="image/gif"))),
        assistant(TextPart(text="A bird: 🦅 naïve")),
        create_message("user", "Thanks"),
    )


MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        ],
    },
    {
        "role": "assistant",
        "content": "I look at it.",
        "reasoning_content": "Let me look.",
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "grep", "arguments": '{ "b":1,\n"a": "\\u00fc" }'},
            },
            {"id": "call_2", "type": "function", "function": {"name": "list_dir", "arguments": "{}"}},
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "Error: no such pattern"},
    {"role": "tool", "tool_call_id": "call_2", "content": "two files\n[2 images follow in the next user message]"},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "Images from the tool list_dir (call call_2):"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
            {"type": "image_url", "image_url": {"url": "data:image/gif;base64,iVBORw0KGgo="}},
        ],
    },
    {"role": "assistant", "content": "A bird: 🦅 naïve"},
    {"role": "user", "content": "Thanks"},
]


def test_a_conversation_with_everything_in_it() -> None:
    wire = OpenAIChatWire("some/model", stamp=HERE, extra_body={"reasoning_effort": "low"})
    request = CompletionRequest(model="id", messages=conversation(), tools=TOOLS, temperature=0.0, max_tokens=100)
    encoded = wire.encode(request, stream=True)
    assert encoded.path == "/chat/completions"
    assert json.loads(encoded.body) == {
        "model": "some/model",
        "messages": MESSAGES,
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "grep",
                    "description": "Searches.",
                    "parameters": {"type": "object", "properties": {"b": {}, "a": {}}},
                },
            },
            {
                "type": "function",
                "function": {
                    "name": "list_dir",
                    "description": "Lists.",
                    "parameters": {"type": "object", "properties": {}},
                },
            },
        ],
        "temperature": 0.0,
        "max_tokens": 100,
        "stream": True,
        "stream_options": {"include_usage": True},
        "reasoning_effort": "low",
    }
    assert wire.key_headers("k") == {"Authorization": "Bearer k"}


def test_nothing_is_sent_unasked() -> None:
    wire = OpenAIChatWire("m", stamp=HERE)
    body = body_of(wire, create_message("user", "hi"), stream=False)
    assert body == {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def test_openai_itself_takes_the_new_names() -> None:
    wire = OpenAIChatWire("m", stamp="openai-chat")
    body = body_of(wire, create_message("user", "hi"), max_tokens=5)
    assert (body["max_completion_tokens"], "max_tokens" in body) == (5, False)
    assert body["stream_options"] == {"include_usage": True, "include_obfuscation": False}
    other = OpenAIChatWire("m", stamp=HERE, max_tokens_field="max_completion_tokens")
    assert body_of(other, create_message("user", "hi"), max_tokens=5)["max_completion_tokens"] == 5


def test_a_field_that_is_none_is_left_out() -> None:
    wire = OpenAIChatWire("m", stamp=HERE, extra_body={"stream_options": None, "temperature": 1, "top_k": 4})
    body = body_of(wire, create_message("user", "hi"), temperature=0.5)
    assert "stream_options" not in body
    assert (body["temperature"], body["top_k"], body["stream"]) == (1, 4, True)


@pytest.mark.parametrize("extra", [{"messages": []}, {"tools": [], "top_k": 1}, {"x": object()}, {"x": float("nan")}])
def test_an_extra_body_that_can_not_be_sent_is_refused(extra: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="extra_body"):
        OpenAIChatWire("m", stamp=HERE, extra_body=extra)


def test_a_tool_name_that_the_format_does_not_take_is_refused() -> None:
    for name in ("a.b", "", "x" * 65, "né"):
        with pytest.raises(UsageError, match="takes no tool named"):
            body_of(OpenAIChatWire("m", stamp=HERE), tools=(ToolSchema(name=name, description=""),))


# ---- messages -----------------------------------------------------------------------------------------------------


def test_images_of_parallel_tools_follow_all_results() -> None:
    calls = [parse_call(f"c{n}", "shot", "{}") for n in range(3)]
    shots = [tool_message(call, "", images=(PICTURE,) * (n % 2)) for n, call in enumerate(calls, 1)]
    turn = (create_message("user", "go"), assistant(*calls), *shots)
    roles = ["user", "assistant", "tool", "tool", "tool", "user", "user"]
    for after in ((), (assistant(TextPart(text="ok")),)):
        messages = sent(*turn, *after)
        assert [message["role"] for message in messages] == [*roles, *(["assistant"] if after else [])]
        assert messages[2]["content"] == "[1 image follows in the next user message]"
        assert messages[3]["content"] == ""
        assert "c0" in messages[5]["content"][0]["text"]
        assert "c2" in messages[6]["content"][0]["text"]


def test_a_turn_that_said_nothing_is_left_out() -> None:
    thought = ReasoningPart(text="hm", extra={"reasoning_field": "reasoning"})
    for parts in ((), (TextPart(text=""),), (thought,), (thought, TextPart(text=""))):
        assert [message["role"] for message in sent(create_message("user", "a"), assistant(*parts))] == ["user"]
    assert [m["role"] for m in sent(assistant(), create_message("user", "a"), assistant())] == ["user"]


def test_content_is_null_only_beside_calls() -> None:
    [message] = sent(assistant(parse_call("c", "f", "{}")))
    assert message["content"] is None
    assert all(message["content"] is not None for message in sent(*conversation()))


def test_a_refusal_goes_back_as_one_to_its_own_server_and_as_text_to_others() -> None:
    message = assistant(TextPart(text="I won't.", extra={"refusal": True}))
    assert sent(message) == [{"role": "assistant", "content": "", "refusal": "I won't."}]
    assert sent(message, stamp="openai-chat") == [{"role": "assistant", "content": "I won't."}]


def test_reasoning_goes_back_under_the_names_it_came_with() -> None:
    details = [{"type": "reasoning.text", "index": 0, "text": "hm", "signature": "s"}]
    part = ReasoningPart(text="hm", extra={"reasoning_field": "reasoning", "reasoning_details": details})
    hidden = ReasoningPart(text="", redacted=True, extra={"reasoning_details": details})
    assert sent(assistant(part, TextPart(text="k"))) == [
        {"role": "assistant", "content": "k", "reasoning": "hm", "reasoning_details": details}
    ]
    assert sent(assistant(hidden, TextPart(text="k")))[0]["reasoning_details"] == details


def test_what_gemini_puts_on_a_call_goes_back_on_it() -> None:
    signed = {"extra_content": {"google": {"thought_signature": "abc"}}}
    call = replace(parse_call("c", "f", "{}"), extra=signed)
    assert sent(assistant(call))[0]["tool_calls"][0]["extra_content"] == signed["extra_content"]
    assert "extra_content" not in sent(assistant(call, provider="gemini"))[0]["tool_calls"][0]


def test_odd_names_ids_and_characters_make_no_bad_request() -> None:
    call = ToolCallPart(id="", name="né.x", arguments=None, raw_arguments='{"a": "\ud83d"', problem="cut")
    unnamed = ToolCallPart(id="b", name="", arguments={}, raw_arguments="{}")
    [message] = sent(assistant(call, unnamed, TextPart(text="\ud83d")))
    assert [entry["function"]["name"] for entry in message["tool_calls"]] == ["n__x", "unnamed"]
    assert message["content"] == "\ufffd"


@pytest.mark.parametrize("raw", ["", " ", '{"a": ', "null", "[1]", '"x"', '{"a":1}{"a":2}', '{"a":NaN}', "[" * 9000])
def test_arguments_that_are_no_object_are_never_sent(raw: str) -> None:
    """Servers that read the arguments of earlier calls refuse the whole request for such ones."""
    (message,) = sent(assistant(parse_call("c", "f", raw)))
    assert message["tool_calls"][0]["function"]["arguments"] == "{}"


@pytest.mark.parametrize("raw", ['{"a":  1.0}', ' {"a":"é\\n"}\n', "{}"])
def test_arguments_go_back_as_they_came(raw: str) -> None:
    (message,) = sent(assistant(parse_call("c", "f", raw)))
    assert message["tool_calls"][0]["function"]["arguments"] == raw.strip()


def check_chat(messages: list[Any]) -> None:
    """As a strict server reads a conversation."""
    asked: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == asked.pop(0)
            assert isinstance(message["content"], str)
            continue
        assert not asked
        assert message["role"] in ("system", "user", "assistant")
        calls = message.get("tool_calls", [])
        assert message["content"] is not None or calls
        for call in calls:
            assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", call["function"]["name"])
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
        asked = [call["id"] for call in calls]
        assert len(set(asked)) == len(asked)
        assert all(asked)
    assert not asked


@settings(max_examples=200, deadline=None)
@given(transcripts(), st.sampled_from(["openai-chat", HERE, "openai-chat@api.mistral.ai"]))
def test_any_transcript_makes_a_conversation_that_strict_servers_take(
    messages: tuple[ChatMessage, ...], stamp: str
) -> None:
    check_chat(strict_body(OpenAIChatWire("m", stamp=stamp), messages)["messages"])


@pytest.mark.parametrize(
    ("stamp", "id", "kept"),
    [
        ("openai-chat", "call_abc", True),
        ("openai-chat", "functions.look:0", True),
        ("openai-chat", "chatcmpl-tool-" + "0" * 32, False),
        (HERE, "chatcmpl-tool-" + "0" * 32, True),
        ("openai-chat@api.mistral.ai", "a1B2c3D4e", True),
        ("openai-chat@api.mistral.ai", "call_abc", False),
    ],
)
def test_ids_of_calls_that_another_server_gave(stamp: str, id: str, kept: bool) -> None:
    calls = [parse_call(id, "f", "{}"), parse_call("call_other", "f", "{}")]
    turn = (create_message("user", "go"), assistant(*calls), *(tool_message(call, "ok") for call in calls))
    messages = sent(*turn, stamp=stamp)
    ids = [call["id"] for call in messages[1]["tool_calls"]]
    assert [message["tool_call_id"] for message in messages[2:]] == ids
    assert (ids[0] == id) is kept
    assert len(set(ids)) == 2
    if not kept:
        assert all(len(id) == (9 if "mistral" in stamp else 40) or id == "call_other" for id in ids)


def test_an_image_given_as_a_data_url_stays_one() -> None:
    image = ImagePart(data="data:image/webp;base64,UklG Rg==")
    [message] = sent(create_message("user", [image]))
    assert message["content"][0]["image_url"]["url"] == "data:image/webp;base64,UklGRg=="


# ---- whose data goes where ----------------------------------------------------------------------------------------

SECRET = "opaque-"
STAMPS = ("openai-chat", HERE, "openai-chat@elsewhere", "anthropic", "openai-responses", "gemini", None)
EXTRAS = st.fixed_dictionaries(
    {},
    optional={
        "reasoning_field": st.just("reasoning_content"),
        "reasoning_details": st.just([{"type": "reasoning.encrypted", "data": SECRET + "details"}]),
        "signature": st.just(SECRET + "signature"),
        "thoughtSignature": st.just(SECRET + "thought"),
        "encrypted_content": st.just(SECRET + "encrypted"),
        "extra_content": st.just({"google": {"thought_signature": SECRET + "extra"}}),
    },
)
PARTS = st.one_of(
    st.builds(lambda extra: ReasoningPart(text=SECRET + "thoughts", extra=extra), EXTRAS),
    st.builds(lambda extra: TextPart(text="said", extra=extra), EXTRAS),
    st.builds(lambda api: OpaquePart(api=api, value={"data": SECRET + "value"}), st.sampled_from(list(WIRES))),
)


@st.composite
def turns(draw: st.DrawFn) -> list[ChatMessage]:
    """Turns of models of many servers, each with opaque data, and calls with their results."""
    messages: list[ChatMessage] = []
    for number in range(draw(st.integers(1, 4))):
        call = replace(parse_call(f"call_{number}", "f", f'{{"n":{number}}}'), extra=draw(EXTRAS))
        calls = [call] if draw(st.booleans()) else []
        parts = [*draw(st.lists(PARTS, max_size=3)), *calls]
        messages += [create_message("user", f"question {number}")]
        messages += [assistant(*parts, provider=draw(st.sampled_from(STAMPS)))]
        messages += [tool_message(call, f"result {number}") for call in calls]
    return messages


@settings(max_examples=150, deadline=None)
@given(turns(), st.sampled_from([stamp for stamp in STAMPS if stamp and stamp.startswith("openai-chat")]))
def test_opaque_data_goes_to_its_own_server_alone(messages: list[ChatMessage], stamp: str) -> None:
    wire = OpenAIChatWire("m", stamp=stamp)
    own = [message for message in messages if message.provider == stamp]
    foreign = [message for message in messages if message.provider != stamp]
    assert SECRET not in json.dumps(body_of(wire, *foreign))
    everything = body_of(wire, *messages)["messages"]
    kept = body_of(OpenAIChatWire("m", stamp=stamp), *own)["messages"]
    assert json.dumps(everything).count(SECRET) == json.dumps(kept).count(SECRET)
    assert [m["content"] for m in everything if m["role"] == "tool"] == [
        part.content for message in messages for part in message.tool_results
    ]
    calls = [call["function"]["arguments"] for m in everything for call in m.get("tool_calls", ())]
    assert calls == [call.raw_arguments for message in messages for call in message.tool_calls]
    said = "".join(m["content"] or "" for m in everything if m["role"] == "assistant")
    assert said == "".join(message.content for message in messages if message.role == "assistant")


@pytest.mark.parametrize("api", list(WIRES))
def test_no_wire_sends_opaque_data_of_another(api: str) -> None:
    messages: list[ChatMessage] = []
    extra = {name: SECRET + name for name in ("signature", "encrypted_content", "thoughtSignature", "data", "id")}
    extra |= {
        "reasoning_details": [{"data": SECRET}],
        "item": {"encrypted_content": SECRET},
        "reasoning_field": "reasoning",
    }
    for number, stamp in enumerate(("openai-chat", "openai-responses", "anthropic", "gemini", "ollama", "x@y", None)):
        call = replace(parse_call(f"call_{number}", "f", "{}"), extra=extra)
        thought = ReasoningPart(text=SECRET + "thoughts", extra=extra)
        redacted = ReasoningPart(text="", redacted=True, extra=extra)
        opaque = [OpaquePart(api=name, value={"type": "x", "data": SECRET}, extra=extra) for name in WIRES]
        parts = (thought, redacted, TextPart(text=f"said {number}", extra=extra), *opaque, call)
        messages += [
            create_message("user", "go"),
            assistant(*parts, provider=stamp),
            tool_message(call, f"gave {number}"),
        ]
    request = CompletionRequest(model="m", messages=tuple(messages))
    body = wire_of(api).encode(request, stream=True).body.decode()
    assert SECRET not in body
    assert all(f"said {number}" in body and f"gave {number}" in body for number in range(7))


# ---- encoded once -------------------------------------------------------------------------------------------------


class Read(dict[str, Any]):
    """Data of a part that counts how often it is read."""

    times = 0

    def get(self, key: str, default: Any = None) -> Any:
        self.times += 1
        return super().get(key, default)


def test_a_message_is_encoded_once_however_often_it_is_sent() -> None:
    wire = OpenAIChatWire("m", stamp=HERE)
    read = Read()
    messages = (*conversation(), assistant(TextPart(text="ok", extra=read)), create_message("user", "next"))
    body_of(wire, *messages)
    times = read.times
    assert times > 0
    for end in (len(messages), 5, 9, 8):  # also after a rewind, and with another session in turn
        body_of(wire, *messages[:end])
        body_of(wire, create_message("user", "another session"))
    assert read.times == times


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=6), st.integers(0, 3))
def test_what_is_joined_before_changes_nothing(ends: list[int], swapped: int) -> None:
    """Growing, shrinking and changed transcripts give what a fresh wire gives."""
    call = [parse_call(f"c{n}", "shot", "{}") for n in range(4)]
    turn: list[ChatMessage] = [create_message("system", "s"), create_message("user", "u")]
    for n in (0, 2):
        turn.append(assistant(call[n], call[n + 1]))
        turn += [tool_message(call[n], "a", images=(PICTURE,)), tool_message(call[n + 1], "b", images=(PICTURE,))]
        turn += [assistant(), create_message("user", "next")]
    wire = OpenAIChatWire("m", stamp=HERE)
    for place, end in enumerate(ends):
        if place == swapped:
            turn[3] = tool_message(call[0], "shortened")
        turn[0] = create_message("system", "s", id="system", created_at=0.0)
        assert body_of(wire, *turn[:end]) == body_of(OpenAIChatWire("m", stamp=HERE), *turn[:end])
