"""Gemini: what a reply is made into, and what goes back of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from replies import Played
from written import body_of, played

from kestrel_nb.protocol.codec import decode, encode
from kestrel_nb.protocol.errors import ModelRequestError
from kestrel_nb.protocol.messages import ChatMessage, create_message
from kestrel_nb.protocol.sessions import Usage
from kestrel_nb.providers.gemini import GeminiWire
from kestrel_nb.runtime.models import CompletionRequest, CompletionResponse
from kestrel_nb.runtime.prompts import assistant_message

WIRE = GeminiWire("gemini-x", stamp="gemini")
SPENT = Usage(input_tokens=105, output_tokens=50, cache_read_tokens=80, reasoning_tokens=30)


def replayed(name: str) -> Played:
    return played(GeminiWire("gemini-x", stamp="gemini"), body_of(name))


def sent_back(response: CompletionResponse) -> list[Any]:
    """The parts of ``response`` in the next request, after a trip through the store's JSON."""
    message = decode(ChatMessage, json.loads(json.dumps(encode(assistant_message(response)))))
    request = CompletionRequest(model="id", messages=(create_message("user", "a"), message))
    parts: list[Any] = json.loads(WIRE.encode(request, stream=True).body)["contents"][1]["parts"]
    return parts


def chunk(*parts: Any, finish: Any = None, **fields: Any) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    return {"candidates": [candidate | ({"finishReason": finish} if finish else {})], **fields}


def stream(*events: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


@pytest.mark.parametrize("name", ["gemini-signatures.sse", "gemini-signatures-crlf.sse"])
def test_signatures_go_back_on_the_parts_where_they_came(name: str) -> None:
    found = replayed(name)
    response = found.response
    assert response is not None, found.error
    assert response.content == found.text == "I look closely. So."
    assert response.reasoning == found.reasoning == "Let me think.Signed thought."
    assert (response.finish_reason, response.usage) == ("tool_calls", SPENT)
    first, second = response.tool_calls
    assert (first.id, first.arguments) == ("srv-1", {"x": 1, "ö": "é"})
    assert second.id.startswith("call_")
    assert sent_back(response) == [
        {"text": "Let me think.", "thought": True},
        {"text": "Signed thought.", "thought": True, "thoughtSignature": "c2lnLXRob3VnaHQ="},
        {"text": "I look"},
        {"text": " closely.", "thoughtSignature": "c2lnLXRleHQ="},
        {"text": " So."},
        {
            "functionCall": {"id": "srv-1", "name": "look", "args": {"x": 1, "ö": "é"}},
            "thoughtSignature": "c2lnLWNhbGw+/w==",
        },
        {"functionCall": {"name": "look", "args": {}}},
        {"executableCode": {"language": "PYTHON", "code": "1+1"}, "thoughtSignature": "c2lnLWNvZGU="},
        {"text": "", "thoughtSignature": "c2lnLWVtcHR5"},
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [("gemini-error-after-text.sse", "one "), ("gemini-error-array.sse", ""), ("gemini-error-array.json", "")],
)
def test_errors_inside_a_stream(name: str, text: str) -> None:
    found = replayed(name)
    assert found.error is not None
    assert "The model is overloaded." in str(found.error)
    assert (found.error.status, found.error.retryable, found.error.retry_after_ms) == (503, True, 3500)
    assert found.text == text


def test_a_blocked_prompt_is_a_content_filter() -> None:
    response = replayed("gemini-prompt-blocked.sse").response
    assert response is not None
    assert (response.content, response.finish_reason, response.usage.input_tokens) == ("", "content_filter", 9)


def test_a_malformed_call_is_worth_another_try() -> None:
    found = replayed("gemini-malformed-call.sse")
    assert found.error is not None
    assert "MALFORMED_FUNCTION_CALL: Malformed function call: print" in str(found.error)
    assert found.error.retryable


@pytest.mark.parametrize(
    "finish",
    [
        "OTHER",
        "error",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MALFORMED_RESPONSE",
        "MISSING_THOUGHT_SIGNATURE",
    ],
)
def test_a_finish_that_is_a_failure(finish: str) -> None:
    found = played(WIRE, stream(chunk({"text": "a"}), chunk({"functionCall": {"name": "look"}}, finish=finish)))
    assert found.error is not None
    assert finish in str(found.error)
    assert not found.error.retryable


@pytest.mark.parametrize(
    ("finish", "without", "with_call"),
    [
        ("STOP", "stop", "tool_calls"),
        ("FUNCTION_CALL", "FUNCTION_CALL", "tool_calls"),
        ("SOMETHING_NEW", "SOMETHING_NEW", "tool_calls"),
        ("MAX_TOKENS", "length", "length"),
        ("CONTINUATION", "length", "length"),
        ("length", "length", "length"),
        ("CONTENT_FILTER", "content_filter", "content_filter"),
        *((word, "content_filter", "content_filter") for word in ("SAFETY", "RECITATION", "SPII", "IMAGE_SAFETY")),
    ],
)
def test_why_a_reply_ended(finish: str, without: str, with_call: str) -> None:
    for part, expected in (({"text": "a"}, without), ({"functionCall": {"name": "look"}}, with_call)):
        found = played(WIRE, stream(chunk(part, finish=finish)))
        assert found.response is not None
        assert found.response.finish_reason == expected
        assert WIRE.whole(json.dumps(chunk(part, finish=finish)).encode()).finish_reason == expected


@pytest.mark.parametrize(
    ("indexes", "more"), [((0, 1), {}), ((None, 1), {}), ((None, None), {}), ((None, None), {"index": None})]
)
def test_of_several_candidates_the_first_counts(indexes: tuple[int | None, ...], more: dict[str, Any]) -> None:
    texts = (["Hi", " there"], ["Bye", " now"])
    events = []
    for at in range(2):
        candidates = [
            {"content": {"parts": [{"text": pieces[at]}]}, "finishReason": "STOP"}
            | ({} if index is None else {"index": index})
            | more
            for index, pieces in zip(indexes, texts, strict=True)
        ]
        events.append({"candidates": candidates})
    found = played(WIRE, stream(*events))
    assert found.response is not None
    assert found.response.content == found.text == "Hi there"


def test_a_reason_that_is_not_set_is_none() -> None:
    prompt = {"promptFeedback": {"blockReason": "BLOCK_REASON_UNSPECIFIED"}}
    found = played(WIRE, stream({**chunk({"text": "Hi"}, finish="FINISH_REASON_UNSPECIFIED"), **prompt}))
    assert found.error is not None
    assert found.error.code == "truncated_reply"
    found = played(WIRE, stream(chunk({"text": "Hi"}, finish="STOP"), chunk(finish="FINISH_REASON_UNSPECIFIED")))
    assert found.response is not None
    assert found.response.finish_reason == "stop"


def test_what_follows_the_finish_is_not_lost() -> None:
    response = replayed("gemini-usage-last.sse").response
    assert response is not None
    assert (response.content, response.usage) == ("Hi", SPENT)


def test_a_reply_without_content_is_empty() -> None:
    response = replayed("gemini-no-content.sse").response
    assert response is not None
    assert (response.parts, response.finish_reason, response.usage) == ((), "stop", Usage())


@pytest.mark.parametrize("finish", [None, "", "FINISH_REASON_UNSPECIFIED"])
def test_a_stream_without_a_finish_was_cut(finish: str | None) -> None:
    event = {"candidates": [{"content": {"parts": [{"functionCall": {"name": "look"}}]}, "finishReason": finish}]}
    found = played(WIRE, stream(event))
    assert found.error is not None
    assert (found.error.code, found.error.retryable) == ("truncated_reply", True)


@pytest.mark.parametrize(
    ("args", "arguments", "raw"),
    [
        ({}, {}, "{}"),
        (None, {}, "{}"),
        ({"a": [1, 2.5, None, "é\u2028"]}, {"a": [1, 2.5, None, "é\u2028"]}, '{"a":[1,2.5,null,"é\u2028"]}'),
        ([1], None, "[1]"),
        ('{"a": 1}', {"a": 1}, '{"a": 1}'),
        ("x", None, "x"),
        ([], {}, "{}"),
    ],
)
def test_the_arguments_of_a_call(args: Any, arguments: Any, raw: str) -> None:
    found = played(WIRE, stream(chunk({"functionCall": {"name": "look", "args": args}}, finish="STOP")))
    assert found.response is not None
    (call,) = found.response.tool_calls
    assert (call.arguments, call.raw_arguments) == (arguments, raw)
    assert (call.problem is None) is (arguments is not None)
    assert found.calls == {call.id: ("look", raw)}
    if arguments is not None:
        assert sent_back(found.response)[0]["functionCall"]["args"] == arguments


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b"{}", b'{"error": {}}', b'[{"error": "no"}]', b"\xff", b"[" * 5_000]
)
def test_a_body_that_is_no_reply_is_an_error(data: bytes) -> None:
    with pytest.raises(ModelRequestError):
        WIRE.whole(data)
    assert played(WIRE, data).error is not None


@pytest.mark.parametrize(
    "event",
    [
        None,
        [],
        "x",
        {},
        {"candidates": None},
        {"candidates": []},
        {"candidates": [None, 3]},
        {"candidates": [{"content": None}]},
        {"candidates": [{"content": {"parts": [None, 3, {}]}}]},
        {"candidates": [{"content": {"parts": [{"text": None}, {"text": 3}]}}]},
        {"usageMetadata": {"promptTokenCount": None, "candidatesTokenCount": "x", "thoughtsTokenCount": -1}},
        {"promptFeedback": None, "error": None},
    ],
)
def test_odd_events_do_no_harm(event: Any) -> None:
    found = played(WIRE, stream(event, chunk({"text": "Hi"}, finish="STOP")))
    assert found.response is not None, found.error
    assert (found.response.content, found.response.usage) == ("Hi", Usage())


def test_a_stream_as_one_array_and_a_whole_reply_instead_of_a_stream() -> None:
    array = [chunk({"text": "a"}), chunk({"text": "b"}, finish="STOP")]
    for body in (json.dumps(array).encode(), stream(array), json.dumps(chunk({"text": "ab"}, finish="STOP")).encode()):
        found = played(WIRE, body)
        assert found.response is not None
        assert found.response.content == "ab"


def test_a_character_in_two_chunks_is_one() -> None:
    found = played(WIRE, stream(chunk({"text": "a\ud83d"}), chunk({"text": "\ude00b"}, finish="STOP")))
    assert found.response is not None
    assert found.text == found.response.content == "a\U0001f600b"
