"""OpenAI Responses: what a request looks like, to the byte where that matters."""

from __future__ import annotations

import gc
import json
import weakref
from dataclasses import replace
from typing import Any

import pytest

from kestrel_nb.protocol.errors import ModelRequestError, UsageError
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
from kestrel_nb.providers.openai_responses import OpenAIResponsesWire
from kestrel_nb.runtime.models import CompletionRequest

PIXEL = "iVBORw0KGgo="
LOOK = ToolSchema(name="look", description="Looks", parameters={"type": "object", "properties": {}})
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gA+/=é"}
MESSAGE = {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "phase": "commentary"}
NOTE = {"type": "output_text", "annotations": [{"type": "url_citation", "url": "https://example.org"}]}
PLAIN = {"type": "output_text", "annotations": []}


def wire(**options: Any) -> OpenAIResponsesWire:
    return OpenAIResponsesWire("gpt-x", stamp="openai-responses", **options)


def said(*parts: Part, provider: str | None = "openai-responses") -> ChatMessage:
    return replace(create_message("assistant", parts), provider=provider)


def call(id: str, raw: str, arguments: dict[str, Any] | None, **more: Any) -> ToolCallPart:
    return ToolCallPart(id=id, name="look", arguments=arguments, raw_arguments=raw, **more)


def result(id: str, content: str, **more: Any) -> ChatMessage:
    return create_message("tool", [ToolResultPart(call_id=id, name="look", content=content, **more)])


EVERYTHING = (
    create_message("system", "Be brief."),
    create_message(
        "user",
        [TextPart(text="What is this?"), ImagePart(data=PIXEL), ImagePart(url="https://example.org/a.png")],
    ),
    create_message("user", [TextPart(text=""), ImagePart(url=f"data:image/webp;base64,{PIXEL}")]),
    said(
        ReasoningPart(text="", redacted=True, extra={"item": REASONING}),
        TextPart(text="I look.", extra={"item": MESSAGE, "content": NOTE}),
        TextPart(text=" Now.", extra={"item": MESSAGE, "content": PLAIN}),
        OpaquePart(api="openai-responses", value={"type": "web_search_call", "id": "ws_1", "status": "completed"}),
        call("call_1", '{"x":  1.0}', {"x": 1.0}, extra={"item": {"id": "fc_1", "status": "completed"}}),
        call("call_2", " ", {}),
        call("call_3", '{"x": ', None, problem="not JSON"),
    ),
    result("call_1", "seen", images=(ImagePart(data=PIXEL),)),
    result("call_2", ""),
    result("call_3", "bad arguments", is_error=True),
    said(
        ReasoningPart(text="Hm.", extra={"signature": "theirs"}),
        TextPart(text=""),
        TextPart(text="Elsewhere.", extra={"citations": []}),
        OpaquePart(api="anthropic", value={"type": "server_tool_use"}),
        call("x" * 80, "{}", {}),
        provider="anthropic",
    ),
    result("x" * 80, "ok"),
    create_message("user", "Thanks."),
)


def test_a_conversation_with_everything_in_it() -> None:
    request = CompletionRequest(model="id", messages=EVERYTHING, tools=(LOOK,), temperature=0.5, max_tokens=99)
    sent = wire(extra_body={"reasoning": {"effort": "low"}, "prompt_cache_key": "k"}).encode(request, stream=True)
    assert sent.path == "/responses"
    body = json.loads(sent.body)
    long = next(item for item in body["input"] if item.get("output") == "ok")["call_id"]
    assert len(long) <= 64
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"}
    assert body == {
        "model": "gpt-x",
        "instructions": "Be brief.",
        "tools": [
            {
                "type": "function",
                "name": "look",
                "description": "Looks",
                "parameters": {"type": "object", "properties": {}},
                "strict": False,
            }
        ],
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "stream": True,
        "temperature": 0.5,
        "max_output_tokens": 99,
        "reasoning": {"effort": "low"},
        "prompt_cache_key": "k",
        "input": [
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "What is this?"},
                    image,
                    {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "auto"},
                ],
            },
            {
                "type": "message",
                "role": "user",
                "content": [{**image, "image_url": f"data:image/webp;base64,{PIXEL}"}],
            },
            REASONING,
            {**MESSAGE, "content": [{**NOTE, "text": "I look."}, {**PLAIN, "text": " Now."}]},
            {"type": "web_search_call", "id": "ws_1", "status": "completed"},
            {
                "type": "function_call",
                "id": "fc_1",
                "status": "completed",
                "call_id": "call_1",
                "name": "look",
                "arguments": '{"x":  1.0}',
            },
            {"type": "function_call", "call_id": "call_2", "name": "look", "arguments": "{}"},
            {"type": "function_call", "call_id": "call_3", "name": "look", "arguments": "{}"},
            {
                "type": "function_call_output",
                "call_id": "call_1",
                "output": [{"type": "input_text", "text": "seen"}, image],
            },
            {"type": "function_call_output", "call_id": "call_2", "output": ""},
            {"type": "function_call_output", "call_id": "call_3", "output": "Error: bad arguments"},
            {"type": "message", "role": "assistant", "content": [{**PLAIN, "text": "Elsewhere."}]},
            {"type": "function_call", "call_id": long, "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": long, "output": "ok"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Thanks."}]},
        ],
    }


def items(*messages: ChatMessage) -> list[Any]:
    request = CompletionRequest(model="id", messages=messages)
    found: list[Any] = json.loads(wire().encode(request, stream=False).body)["input"]
    return found


def test_the_least_request_holds_no_more_than_it_must() -> None:
    request = CompletionRequest(model="id", messages=(create_message("user", "Hi"),))
    body = json.loads(wire().encode(request, stream=False).body)
    assert sorted(body) == ["include", "input", "model", "store", "stream"]
    assert body["stream"] is False


def test_a_turn_that_says_nothing_is_not_sent() -> None:
    opaque = OpaquePart(api="gemini", value={})
    foreign = said(ReasoningPart(text="Hm."), TextPart(text=""), opaque, provider="gemini")
    assert items(foreign, said(TextPart(text="")), said(provider=None)) == []


def test_reasoning_that_nothing_follows_is_not_sent() -> None:
    """The API refuses a reasoning item without the item that it led to, which a cut reply lacks."""
    thought = ReasoningPart(text="Hm.", extra={"item": REASONING})
    assert items(said(thought, thought)) == []
    kept = items(said(thought, TextPart(text="a"), thought))
    assert [item["type"] for item in kept] == ["reasoning", "message"]


@pytest.mark.parametrize("held", [{"encrypted_content": "E"}, {"content": [{"type": "reasoning_text", "text": "Hm."}]}])
def test_reasoning_of_which_there_is_only_an_id_is_not_sent(held: dict[str, Any]) -> None:
    """Nothing is stored at the server, so it knows no item by its id."""
    bare = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]}
    for more, kinds in (
        ({}, ["message"]),
        ({"encrypted_content": None}, ["message"]),
        (held, ["reasoning", "message"]),
    ):
        thought = ReasoningPart(text="Hm.", extra={"item": {**bare, **more}})
        assert [item["type"] for item in items(said(thought, TextPart(text="a")))] == kinds


def test_a_refusal_goes_back_as_one() -> None:
    extra = {"item": MESSAGE, "content": {"type": "refusal"}}
    assert items(said(TextPart(text="No.", extra=extra))) == [
        {**MESSAGE, "content": [{"type": "refusal", "refusal": "No."}]}
    ]
    assert items(said(TextPart(text="No.", extra=extra), provider="openai")) == [
        {"type": "message", "role": "assistant", "content": [{**PLAIN, "text": "No."}]}
    ]


def test_a_later_system_message_stays_in_its_place() -> None:
    sent = items(create_message("user", "a"), create_message("system", "b"))
    assert sent[1] == {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "b"}]}


def test_what_was_sent_before_is_sent_byte_for_byte_again_and_forgotten_with_its_message() -> None:
    made = wire()
    short = made.encode(CompletionRequest(model="id", messages=EVERYTHING[:-2]), stream=True).body
    longer = made.encode(CompletionRequest(model="id", messages=EVERYTHING), stream=True).body
    assert longer.startswith(short.removesuffix(b"]}"))
    own = create_message("user", "soon gone")
    made.encode(CompletionRequest(model="id", messages=(own,)), stream=True)
    gone = weakref.ref(own)
    del own
    made.encode(CompletionRequest(model="id", messages=EVERYTHING), stream=True)
    gc.collect()
    assert gone() is None


def test_extra_fields_win_but_for_the_input_and_tools_are_joined() -> None:
    made = wire(extra_body={"include": [], "store": True, "input": "x", "tools": [{"type": "web_search"}]})
    messages = (create_message("user", "Hi"),)
    body = json.loads(made.encode(CompletionRequest(model="id", messages=messages, tools=(LOOK,)), stream=True).body)
    assert (body["include"], body["store"], len(body["input"])) == ([], True, 1)
    assert [tool.get("name", tool["type"]) for tool in body["tools"]] == ["look", "web_search"]
    body = json.loads(made.encode(CompletionRequest(model="id", messages=messages), stream=True).body)
    assert body["tools"] == [{"type": "web_search"}]


@pytest.mark.parametrize("name", ["a.b", "mcp/tool", "x" * 65, "", "naïve"])
def test_a_tool_name_that_cannot_be_sent_is_refused(name: str) -> None:
    request = CompletionRequest(model="id", messages=(), tools=(ToolSchema(name=name, description=""),))
    with pytest.raises(UsageError, match="64 letters"):
        wire().encode(request, stream=True)


def test_a_lone_surrogate_and_control_characters_make_valid_utf8() -> None:
    sent = wire().encode(
        CompletionRequest(model="id", messages=(create_message("user", "a\ud83d\u2028\x00"),)), stream=True
    )
    assert json.loads(sent.body.decode("utf-8"))["input"][0]["content"][0]["text"] == "a\ufffd\u2028\x00"


def test_models() -> None:
    listing = {"data": [{"id": "gpt-x"}, {"id": "q", "max_model_len": 32768}, {"id": ""}, {"id": 3}, "x"]}
    found, page = wire().models(listing)
    assert [(model.id, model.context_window) for model in found] == [("gpt-x", None), ("q", 32768)]
    assert page is None
    assert wire().models_path(None) == "/models"


@pytest.mark.parametrize("listing", [None, [], {}, {"data": {}}, "x"])
def test_a_list_of_models_that_is_none_is_an_error(listing: Any) -> None:
    with pytest.raises(ModelRequestError):
        wire().models(listing)


def test_the_key_is_a_bearer_token() -> None:
    assert wire().key_headers("k") == {"Authorization": "Bearer k"}
