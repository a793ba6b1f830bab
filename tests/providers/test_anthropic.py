"""Anthropic Messages: what a request looks like, to the byte where that matters."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from kestrel_nb.protocol.errors import UsageError
from kestrel_nb.protocol.messages import (
    ChatMessage,
    ImagePart,
    OpaquePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    create_message,
)
from kestrel_nb.protocol.tools import ToolSchema
from kestrel_nb.providers.anthropic import AnthropicWire
from kestrel_nb.runtime.models import CompletionRequest

PIXEL = "iVBORw0KGgo="
PNG = {"type": "base64", "media_type": "image/png", "data": PIXEL}
MARK = {"cache_control": {"type": "ephemeral"}}
LOOK = ToolSchema(name="look", description="Looks", parameters={"type": "object", "properties": {}})


def said(*parts: Part, provider: str | None = "anthropic") -> ChatMessage:
    return replace(create_message("assistant", parts), provider=provider)


def asked(*parts: Part | str) -> ChatMessage:
    return create_message("user", [TextPart(text=part) if isinstance(part, str) else part for part in parts])


def call(id: str, raw: str, arguments: dict[str, Any] | None, **more: Any) -> ToolCallPart:
    return ToolCallPart(id=id, name="look", arguments=arguments, raw_arguments=raw, **more)


def result(id: str, content: str, **more: Any) -> ChatMessage:
    return create_message("tool", [ToolResultPart(call_id=id, name="look", content=content, **more)])


EVERYTHING = (
    create_message("system", "Be brief."),
    asked("What is this?", ImagePart(data=PIXEL), ImagePart(url="https://example.org/a.png")),
    asked("And this?", ImagePart(url=f"data:image/webp;base64,{PIXEL}")),
    said(
        ReasoningPart(text="Let me see: 漢字\n", extra={"signature": "Sig1+/=="}),
        ReasoningPart(text="", redacted=True, extra={"data": "Red=="}),
        ReasoningPart(text="", extra={"signature": "Sig2"}),
        TextPart(text=" \n"),
        TextPart(text="I look."),
        OpaquePart(api="anthropic", value={"type": "server_tool_use", "id": "srv", "name": "s", "input": {}}),
        call("toolu_1", '{"x":  1.0}', {"x": 1.0}, extra={"caller": {"type": "direct"}}),
        call("toolu_2", '{"x": ', None, problem="the arguments are not valid JSON"),
        call("functions.look:0", "", {}),
    ),
    result("toolu_1", "one", images=(ImagePart(data=PIXEL), ImagePart(data="PHN2Zz4=", media_type="image/svg+xml"))),
    result("toolu_2", "the arguments are not valid JSON", is_error=True),
    result("functions.look:0", ""),
    asked("Go on."),
)


def body(*messages: ChatMessage, wire: AnthropicWire | None = None, **options: Any) -> Any:
    wire = wire or AnthropicWire("claude-sonnet-4-5", stamp="anthropic", cache=False)
    return json.loads(wire.encode(CompletionRequest(model="ours", messages=messages, **options), stream=True).body)


def test_a_conversation_with_everything_in_it() -> None:
    sent = AnthropicWire("claude-sonnet-4-5", stamp="anthropic").encode(
        CompletionRequest(model="anthropic:x", messages=EVERYTHING, tools=(LOOK,), temperature=0.5, max_tokens=99),
        stream=True,
    )
    assert (sent.path, dict(sent.headers)) == ("/v1/messages", {"anthropic-version": "2023-06-01"})
    made = json.loads(sent.body)
    strange = made["messages"][1]["content"][7]["id"]
    assert strange.startswith("call_")
    assert strange.isidentifier()
    assert made == {
        "model": "claude-sonnet-4-5",
        "max_tokens": 99,
        "system": [{"type": "text", "text": "Be brief.", **MARK}],
        "tools": [{"name": "look", "description": "Looks", "input_schema": {"type": "object", "properties": {}}}],
        "temperature": 0.5,
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image", "source": PNG},
                    {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
                    {"type": "text", "text": "And this?"},
                    {"type": "image", "source": {**PNG, "media_type": "image/webp"}, **MARK},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Let me see: 漢字\n", "signature": "Sig1+/=="},
                    {"type": "redacted_thinking", "data": "Red=="},
                    {"type": "thinking", "thinking": "", "signature": "Sig2"},
                    {"type": "text", "text": "I look."},
                    {"type": "server_tool_use", "id": "srv", "name": "s", "input": {}},
                    {
                        "type": "tool_use",
                        "id": "toolu_1",
                        "name": "look",
                        "input": {"x": 1.0},
                        "caller": {"type": "direct"},
                    },
                    {"type": "tool_use", "id": "toolu_2", "name": "look", "input": {}},
                    {"type": "tool_use", "id": strange, "name": "look", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_1",
                        "content": [
                            {"type": "text", "text": "one"},
                            {"type": "image", "source": PNG},
                            {
                                "type": "text",
                                "text": "(an image of type image/svg+xml, which can't be shown to this model)",
                            },
                        ],
                    },
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_2",
                        "content": "the arguments are not valid JSON",
                        "is_error": True,
                    },
                    {"type": "tool_result", "tool_use_id": strange},
                    {"type": "text", "text": "Go on.", **MARK},
                ],
            },
        ],
        "stream": True,
    }
    assert b'"input":{"x":  1.0}' in sent.body  # as the model wrote it


@pytest.mark.parametrize("stamp", ["anthropic@localhost", "openai-chat", None])
def test_another_servers_thoughts_and_blocks_are_not_sent(stamp: str | None) -> None:
    foreign = tuple(replace(message, provider=stamp and message.provider and stamp) for message in EVERYTHING)
    blocks = body(*foreign)["messages"][1]["content"]
    assert [block["type"] for block in blocks] == ["text", "tool_use", "tool_use", "tool_use"]
    assert "caller" not in blocks[1]


def test_a_message_that_was_all_thought_leaves_no_gap() -> None:
    thought = said(ReasoningPart(text="hm", extra={"signature": "s"}), provider="gemini")
    assert body(asked("a"), thought, asked("b"))["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    ]


def test_thinking_without_a_signature_goes_back_to_compatible_servers_alone() -> None:
    here, there = (
        said(ReasoningPart(text="hm"), TextPart(text="x"), provider=f"anthropic{at}") for at in ("", "@host")
    )
    assert [block["type"] for block in body(asked("a"), here)["messages"][1]["content"]] == ["text"]
    compatible = AnthropicWire("m", stamp="anthropic@host")
    assert body(asked("a"), there, wire=compatible)["messages"][1]["content"][0] == {
        "type": "thinking",
        "thinking": "hm",
    }


def test_a_failure_without_words_gets_some_since_the_server_wants_them() -> None:
    sent = body(asked("a"), said(call("t", "{}", {})), result("t", " ", is_error=True))
    assert sent["messages"][2]["content"][0]["content"].strip()


@pytest.mark.parametrize(
    ("model", "limit"),
    [
        ("claude-opus-4-1", 32_000),
        ("claude-3-5-haiku-latest", 8_192),
        ("claude-3-haiku-20240307", 4_096),
        ("x", 32_000),
    ],
)
def test_max_tokens_is_what_the_model_allows_unless_somebody_says(model: str, limit: int) -> None:
    assert body(asked("a"), wire=AnthropicWire(model, stamp="anthropic"))["max_tokens"] == limit
    assert body(asked("a"), wire=AnthropicWire(model, stamp="anthropic", max_tokens=7))["max_tokens"] == 7
    assert body(asked("a"), wire=AnthropicWire(model, stamp="anthropic", max_tokens=7), max_tokens=5)["max_tokens"] == 5


def test_models_of_other_makers_get_a_limit_that_fits_small_windows() -> None:
    assert body(asked("a"), wire=AnthropicWire("glm-x", stamp="anthropic@host"))["max_tokens"] == 8_192
    assert body(asked("a"), wire=AnthropicWire("anthropic/claude-x", stamp="anthropic@host"))["max_tokens"] == 32_000


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "many", True])
def test_max_tokens_that_can_not_be_are_refused_at_once(wrong: Any) -> None:
    with pytest.raises(UsageError, match="max_tokens is a number of tokens"):
        AnthropicWire("m", stamp="anthropic", max_tokens=wrong)


def test_what_is_not_asked_for_is_not_sent() -> None:
    assert set(body(asked("a"))) == {"model", "max_tokens", "messages", "stream"}


def test_extra_body_adds_and_replaces_fields() -> None:
    wire = AnthropicWire("m", stamp="x", extra_body={"thinking": {"type": "adaptive"}, "max_tokens": 3})
    made = body(asked("a"), wire=wire)
    assert (made["thinking"], made["max_tokens"]) == ({"type": "adaptive"}, 3)
    with pytest.raises(UsageError, match="extra_body"):
        AnthropicWire("m", stamp="x", extra_body={"thinking": {1, 2}})


def test_at_most_four_marks_and_none_for_servers_of_others() -> None:
    turns = [message for n in range(9) for message in (asked(f"q{n}"), said(TextPart(text=f"a{n}")))]
    messages = (create_message("system", "s"), *turns, asked("last"))
    own = body(*messages, wire=AnthropicWire("m", stamp="anthropic"), tools=(LOOK,))
    assert json.dumps(own).count("cache_control") == 3
    assert [MARK.items() <= own["messages"][at]["content"][-1].items() for at in (-1, -3, -5)] == [True, True, False]
    for other in (
        AnthropicWire("m", stamp="anthropic@host"),
        AnthropicWire("m", stamp="anthropic", cache=False),
    ):
        assert "cache_control" not in json.dumps(body(*messages, wire=other))
    by_hand = AnthropicWire("m", stamp="anthropic", extra_body={"cache_control": {"type": "ephemeral", "ttl": "1h"}})
    assert json.dumps(body(*messages, wire=by_hand)).count("cache_control") == 1


def test_earlier_messages_keep_their_bytes_from_request_to_request() -> None:
    wire = AnthropicWire("m", stamp="anthropic", cache=False)
    first = wire.encode(CompletionRequest(model="m", messages=EVERYTHING[:-4], tools=(LOOK,)), stream=True).body
    second = wire.encode(CompletionRequest(model="m", messages=EVERYTHING, tools=(LOOK,)), stream=True).body
    assert second.startswith(first.removesuffix(b"]}"))


def test_an_image_that_the_server_refuses_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="not image/svg\\+xml; convert the image"):
        body(asked(ImagePart(data="PHN2Zz4=", media_type="image/svg+xml")))


def test_base64_with_line_ends_is_sent_without() -> None:
    source = body(asked(ImagePart(data="iVBO\nRw0KGgo=\n")))["messages"][0]["content"][0]["source"]
    assert source == PNG


def test_lists_of_models() -> None:
    wire = AnthropicWire("m", stamp="anthropic")
    assert wire.models_path(None) == "/v1/models?limit=1000"
    assert wire.models_path("a/b") == "/v1/models?limit=1000&after_id=a%2Fb"
    able = {"thinking": {"supported": True}, "image_input": {"supported": False}}
    listing = {
        "data": [
            {"id": "claude-x", "display_name": "Claude X", "max_input_tokens": 200000, "capabilities": able},
            {"id": "claude-y", "max_input_tokens": None, "capabilities": None},
            {"no": "id"},
            None,
        ],
        "has_more": True,
        "last_id": "claude-y",
    }
    (x, y), page = wire.models(listing)
    assert (x.id, x.label, x.context_window, x.supports_reasoning, x.supports_images) == (
        "claude-x", "Claude X", 200000, True, False,
    )  # fmt: skip
    assert (y.id, y.context_window, y.supports_reasoning, page) == ("claude-y", None, None, "claude-y")
    odd: Any
    for odd in (None, [], {"data": None}, {"data": {}, "has_more": True}, {"data": [], "has_more": True, "last_id": 3}):
        assert wire.models(odd) == ((), None)


def test_the_key_and_the_version_are_headers() -> None:
    headers = AnthropicWire("m", stamp="anthropic").key_headers("dummy")
    assert headers == {"x-api-key": "dummy", "anthropic-version": "2023-06-01"}


def test_the_images_of_a_failed_call_stand_behind_the_results() -> None:
    failed = result("toolu_1", "no", is_error=True, images=(ImagePart(data=PIXEL),))
    asks = said(call("toolu_1", "{}", {}), call("toolu_2", "{}", {}))
    assert body(asked("a"), asks, failed, result("toolu_2", "yes"))["messages"][-1]["content"] == [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "no", "is_error": True},
        {"type": "tool_result", "tool_use_id": "toolu_2", "content": "yes"},
        {"type": "image", "source": PNG},
    ]


@pytest.mark.parametrize(
    "last",
    [
        ReasoningPart(text="Hm.", extra={"signature": "Sig"}),
        ReasoningPart(text="", redacted=True, extra={"data": "Red=="}),
    ],
)
def test_no_message_ends_with_a_thought(last: ReasoningPart) -> None:
    blank = TextPart(text="\n")
    content = [message["content"] for message in body(asked("a"), said(last, blank), asked("b"))["messages"]]
    assert content == [[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]]
    sent = body(asked("a"), said(last, TextPart(text="So."), last, blank), asked("b"))["messages"][1]["content"]
    assert [block["type"] for block in sent] == ["redacted_thinking" if last.redacted else "thinking", "text"]


def server_call(id: str, kind: str = "server_tool_use") -> OpaquePart:
    return OpaquePart(api="anthropic", value={"type": kind, "id": id, "name": "s", "input": {}})


def test_a_call_on_the_server_without_its_result_is_only_mentioned_once_the_turn_is_over() -> None:
    found = OpaquePart(api="anthropic", value={"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []})
    begun = (asked("a"), said(server_call("srv_1"), server_call("srv_2", "mcp_tool_use")), said(found))
    assert [block["type"] for block in body(*begun)["messages"][-1]["content"]] == [
        "server_tool_use",
        "mcp_tool_use",
        "web_search_tool_result",
    ]
    later = [asked("b"), said(TextPart(text="c"))] * 4
    for messages in ((*begun, asked("b")), (*begun, *later)):
        assert [block["type"] for block in body(*messages)["messages"][1]["content"]] == [
            "server_tool_use",
            "text",
            "web_search_tool_result",
        ]


def test_a_call_on_the_server_beside_one_that_runs_here_waits_for_it() -> None:
    asks = said(server_call("srv_1"), call("toolu_1", "{}", {}))
    sent = body(asked("a"), asks, result("toolu_1", "x"))["messages"][1]["content"]
    assert [block["type"] for block in sent] == ["server_tool_use", "tool_use"]


@pytest.mark.parametrize("word", ["oneOf", "anyOf", "allOf"])
def test_choices_at_the_top_of_a_schema_become_properties_since_the_server_refuses_them(word: str) -> None:
    parameters = {
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "$defs": {"B": {"properties": {"b": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}}},
        word: [{"required": ["a"]}, {"$ref": "#/$defs/B"}, {"$ref": "#/none"}, {"properties": {"a": {}}}, True],
    }
    tool = ToolSchema(name="look", description="", parameters=parameters)
    schema = body(asked("a"), tools=(tool,))["tools"][0]["input_schema"]
    assert schema == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
        "required": ["a"],
        "$defs": parameters["$defs"],
    }


@pytest.mark.parametrize("url", ["http://example.org/a.png", "data:image/svg+xml,%3Csvg/%3E", "a.png", "gs://a/b.png"])
def test_an_address_that_the_server_refuses_is_refused_at_once_and_only_mentioned_later(url: str) -> None:
    image = ImagePart(url=url)
    with pytest.raises(UsageError, match="download the image and attach its bytes"):
        body(asked("a", image))
    sent = body(asked("a", image), said(TextPart(text="b")), asked("c"))["messages"][0]["content"]
    assert [block["type"] for block in sent] == ["text", "text"]
    assert "can't read" in sent[1]["text"]
