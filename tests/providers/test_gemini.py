"""Gemini: what a request looks like, to the byte where that matters."""

from __future__ import annotations

import json
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
from kestrel_nb.providers.gemini import GeminiWire
from kestrel_nb.providers.gemini_contents import NO_SIGNATURE
from kestrel_nb.runtime.models import CompletionRequest

PIXEL = "iVBORw0KGgo="
PNG = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
LOOK = ToolSchema(name="look", description="Looks", parameters={"type": "object", "properties": {}})
SIGNED = {"thoughtSignature": "c2ln+/=="}


def wire(model: str = "gemini-x", **options: Any) -> GeminiWire:
    return GeminiWire(model, stamp="gemini", **options)


def said(*parts: Part, provider: str | None = "gemini") -> ChatMessage:
    return replace(create_message("assistant", parts), provider=provider)


def asked(*parts: Part | str) -> ChatMessage:
    return create_message("user", [TextPart(text=part) if isinstance(part, str) else part for part in parts])


def call(id: str, raw: str = "{}", arguments: dict[str, Any] | None = None, **more: Any) -> ToolCallPart:
    return ToolCallPart(id=id, name=more.pop("name", "look"), arguments=arguments, raw_arguments=raw, **more)


def result(id: str, content: str, **more: Any) -> ChatMessage:
    return create_message("tool", [ToolResultPart(call_id=id, name=more.pop("name", "look"), content=content, **more)])


def answered(content: str, **more: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": "look", "response": {"output": content}, **more}}


def called(args: Any, **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": "look", "args": args, **more}}


EVERYTHING = (
    create_message("system", "Be brief."),
    asked("What is this?", ImagePart(data=PIXEL), ImagePart(url="https://example.org/a.png")),
    asked("", ImagePart(url=f"data:image/webp;base64,{PIXEL}")),
    said(TextPart(text="Elsewhere."), call("call_0", arguments={}), provider="anthropic"),
    result("call_0", "old"),
    asked("Go on."),
    said(
        ReasoningPart(text="Hm."),
        ReasoningPart(text="Signed.", extra=SIGNED),
        TextPart(text="I"),
        TextPart(text=" look.", extra=SIGNED),
        TextPart(text=""),
        TextPart(text="", extra=SIGNED),
        OpaquePart(api="gemini", value={"executableCode": {"code": "1+1"}, **SIGNED}),
        call("srv-1", '{"x":  1.0}', {"x": 1.0}, extra={"id": "srv-1", **SIGNED}),
        call("call_2", " ", {}),
        call("call_3", '{"x": ', problem="not JSON"),
    ),
    result("srv-1", "seen", images=(ImagePart(data=PIXEL), ImagePart(url="gs://a/b.png"))),
    result("call_2", ""),
    result("call_3", "bad arguments", is_error=True),
    said(
        ReasoningPart(text="Hm.", extra={"signature": "theirs"}),
        TextPart(text=""),
        OpaquePart(api="anthropic", value={"type": "server_tool_use"}),
        call("call_4", arguments={}),
        call("call_5", arguments={}),
        provider="anthropic",
    ),
    result("call_4", "four"),
    result("call_5", "five"),
)


def body_of(made: GeminiWire, *messages: ChatMessage, **options: Any) -> Any:
    return json.loads(made.encode(CompletionRequest(model="id", messages=messages, **options), stream=True).body)


def test_a_conversation_with_everything_in_it() -> None:
    made = wire(extra_body={"generationConfig": {"thinkingConfig": {"includeThoughts": True}}, "labels": {"a": "b"}})
    request = CompletionRequest(model="id", messages=EVERYTHING, tools=(LOOK,), temperature=0.5, max_tokens=99)
    sent = made.encode(request, stream=True)
    assert sent.path == "/v1beta/models/gemini-x:streamGenerateContent?alt=sse"
    assert b'"args":{"x":  1.0}' in sent.body
    files = [PNG, {"fileData": {"mimeType": "image/png", "fileUri": "gs://a/b.png"}}]
    failed = {"functionResponse": {"name": "look", "response": {"error": "bad arguments"}}}
    assert json.loads(sent.body) == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "look",
                        "description": "Looks",
                        "parametersJsonSchema": {"type": "object", "properties": {}},
                    }
                ]
            }
        ],
        "generationConfig": {
            "temperature": 0.5,
            "maxOutputTokens": 99,
            "thinkingConfig": {"includeThoughts": True},
        },
        "labels": {"a": "b"},
        "contents": [
            {
                "role": "user",
                "parts": [
                    {"text": "What is this?"},
                    PNG,
                    {"fileData": {"mimeType": "image/png", "fileUri": "https://example.org/a.png"}},
                    {"inlineData": {"mimeType": "image/webp", "data": PIXEL}},
                ],
            },
            {"role": "model", "parts": [{"text": "Elsewhere."}, called({})]},
            {"role": "user", "parts": [answered("old"), {"text": "Go on."}]},
            {
                "role": "model",
                "parts": [
                    {"text": "Hm.", "thought": True},
                    {"text": "Signed.", "thought": True, **SIGNED},
                    {"text": "I"},
                    {"text": " look.", **SIGNED},
                    {"text": "", **SIGNED},
                    {"executableCode": {"code": "1+1"}, **SIGNED},
                    {**called({"x": 1.0}, id="srv-1"), **SIGNED},
                    called({}),
                    called({"arguments": '{"x": '}),
                ],
            },
            {"role": "user", "parts": [answered("seen", id="srv-1", parts=files), answered(""), failed]},
            {
                "role": "model",
                "parts": [{**called({}), "thoughtSignature": NO_SIGNATURE}, called({})],
            },
            {"role": "user", "parts": [answered("four"), answered("five")]},
        ],
    }


def test_the_least_request_holds_no_more_than_it_must() -> None:
    request = CompletionRequest(model="id", messages=(asked("Hi"),))
    sent = wire().encode(request, stream=False)
    assert sent.path == "/v1beta/models/gemini-x:generateContent"
    assert sent.body == b'{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}'


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("gemini-x", "models/gemini-x"),
        ("models/gemini-x", "models/gemini-x"),
        ("tunedModels/mine", "tunedModels/mine"),
        ("a/../b?c#d:e é", "models/a%2F..%2Fb%3Fc%23d%3Ae%20%C3%A9"),
        ("..", "models/.."),
    ],
)
def test_the_model_in_the_path(model: str, path: str) -> None:
    request = CompletionRequest(model="id", messages=(asked("Hi"),))
    assert wire(model).encode(request, stream=False).path == f"/v1beta/{path}:generateContent"


def test_signatures_thoughts_and_ids_do_not_go_to_another_server() -> None:
    elsewhere = GeminiWire("gemini-x", stamp="gemini@example.org")
    text = json.dumps(body_of(elsewhere, *EVERYTHING))
    assert not any(mark in text for mark in ("c2ln", 'thought"', "srv-1", "executableCode", "Hm."))
    assert text.count(NO_SIGNATURE) == 2  # one for each step of the current turn


def test_the_word_for_no_signature_goes_when_the_turn_is_over() -> None:
    made = wire()
    foreign = said(call("call_1", arguments={}), provider="openai")
    turn = (asked("a"), foreign, result("call_1", "x"))
    assert NO_SIGNATURE in json.dumps(body_of(made, *turn))
    assert NO_SIGNATURE not in json.dumps(body_of(made, *turn, asked("b")))
    unsigned = said(call("call_1", arguments={}))
    assert NO_SIGNATURE not in json.dumps(body_of(made, asked("a"), unsigned, result("call_1", "x")))


def test_roles_alternate_whatever_was_left_out() -> None:
    silent = said(TextPart(text=""), ReasoningPart(text="Hm."), provider="openai")
    body = body_of(
        wire(), asked("a"), silent, asked("b"), said(TextPart(text="c")), said(TextPart(text="d")), asked("e")
    )
    assert [(content["role"], [part["text"] for part in content["parts"]]) for content in body["contents"]] == [
        ("user", ["a", "b"]),
        ("model", ["c", "d"]),
        ("user", ["e"]),
    ]


def test_what_was_sent_before_is_sent_byte_for_byte_again() -> None:
    made = wire()
    short = made.encode(CompletionRequest(model="id", messages=EVERYTHING[:-3]), stream=True).body
    longer = made.encode(CompletionRequest(model="id", messages=EVERYTHING), stream=True).body
    assert longer.startswith(short.removesuffix(b"]}"))


@pytest.mark.parametrize("name", ["look", "_", "_look", "3d", "-x", "_3d", "__-", "x-3", "9" * 64])
def test_a_name_that_gemini_does_not_take_is_sent_as_another_and_comes_back_as_itself(name: str) -> None:
    messages = (asked("a"), said(call("c", arguments={}, name=name)), result("c", "x", name=name))
    tool = ToolSchema(name=name, description="")
    body = body_of(wire(), *messages, tools=(tool,))
    sent = body["tools"][0]["functionDeclarations"][0]["name"]
    assert sent[0].isalpha() or sent[0] == "_"
    assert body["contents"][1]["parts"][0]["functionCall"]["name"] == sent
    assert body["contents"][2]["parts"][0]["functionResponse"]["name"] == sent
    part = {"functionCall": {"name": sent, "args": {}}}
    reply = {"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]}
    (back,) = wire().whole(json.dumps(reply).encode()).tool_calls
    assert back.name == name


@pytest.mark.parametrize("name", ["mcp/tool", "a b", "", "naïve", "x" * 200])
def test_a_name_that_cannot_be_sent_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="can't be sent to Gemini"):
        body_of(wire(), tools=(ToolSchema(name=name, description=""),))


def test_extra_tools_stand_behind_ours() -> None:
    made = wire(extra_body={"tools": [{"googleSearch": {}}], "contents": "x"})
    assert [list(tool) for tool in body_of(made, asked("a"), tools=(LOOK,))["tools"]] == [
        ["functionDeclarations"],
        ["googleSearch"],
    ]
    body = body_of(made, asked("a"))
    assert body["tools"] == [{"googleSearch": {}}]
    assert body["contents"] == [{"role": "user", "parts": [{"text": "a"}]}]


@pytest.mark.parametrize("extra", [{"generationConfig": 3}, {"tools": {}}, {"x": float("nan")}, {"x": object()}])
def test_extra_fields_that_can_not_be_are_refused(extra: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="extra_body"):
        wire(extra_body=extra)


def test_models_in_pages() -> None:
    listing = {
        "models": [
            {
                "name": "models/gemini-x",
                "displayName": "Gemini X",
                "inputTokenLimit": 1_048_576,
                "supportedGenerationMethods": ["generateContent", "countTokens"],
                "thinking": True,
            },
            {"name": "models/embedding", "supportedGenerationMethods": ["embedContent"]},
            {"name": "tunedModels/mine"},
            {"displayName": "nameless"},
            None,
        ],
        "nextPageToken": "a/b=",
    }
    found, page = wire().models(listing)
    assert [(m.id, m.label, m.context_window, m.supports_reasoning) for m in found] == [
        ("gemini-x", "Gemini X", 1_048_576, True),
        ("tunedModels/mine", None, None, None),
    ]
    assert page == "a/b="
    assert wire().models_path(None) == "/v1beta/models?pageSize=1000"
    assert wire().models_path(page) == "/v1beta/models?pageSize=1000&pageToken=a%2Fb%3D"
    assert wire().models({}) == ((), None)


@pytest.mark.parametrize("listing", [None, [], {"models": {}}, "x"])
def test_a_list_of_models_that_is_none_is_an_error(listing: Any) -> None:
    with pytest.raises(ModelRequestError):
        wire().models(listing)


def test_the_key_stands_in_a_header_and_never_in_the_path() -> None:
    assert wire().key_headers("k") == {"x-goog-api-key": "k"}


def test_an_image_that_gemini_refuses_is_refused_at_once_and_only_mentioned_later() -> None:
    gif = ImagePart(data="R0lGODlh", media_type="image/gif")
    with pytest.raises(UsageError, match=r"Gemini takes PNG, JPEG, WebP and HEIC images .*, not image/gif"):
        body_of(wire(), asked("a", gif))
    drawn = result("c", "drawn", images=(gif, ImagePart(data=PIXEL)))
    contents = body_of(wire(), asked("a", gif), said(call("c", arguments={})), drawn, asked("b"))["contents"]
    words = "(an image of type image/gif, which can't be shown to this model)"
    assert contents[0]["parts"] == [{"text": "a"}, {"text": words}]
    assert contents[2]["parts"] == [answered(f"drawn\n{words}", parts=[PNG]), {"text": "b"}]


def test_jpg_is_another_word_for_jpeg() -> None:
    (part,) = body_of(wire(), asked(ImagePart(data="/9j/", media_type="image/jpg")))["contents"][0]["parts"]
    assert part["inlineData"]["mimeType"] == "image/jpeg"


@pytest.mark.parametrize("url", ["data:image/png,x", "a.png", "file:///a.png"])
def test_an_image_without_an_address_on_the_web_is_refused_at_once_and_only_mentioned_later(url: str) -> None:
    image = ImagePart(url=url)
    with pytest.raises(UsageError, match="download the image and attach its bytes"):
        body_of(wire(), asked("a", image))
    contents = body_of(
        wire(), asked(image), said(call("c", arguments={})), result("c", "d", images=(image,)), asked("b")
    )
    words = {"text": "(an image at an address that this model can't read)"}
    assert contents["contents"][0]["parts"] == [words]
    assert contents["contents"][2]["parts"] == [answered(f"d\n{words['text']}"), {"text": "b"}]
