"""OpenAI Responses: what a reply is made into, and what goes back of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from replies import Played
from written import body_of, played

from kestrel_nb.protocol.codec import decode, encode
from kestrel_nb.protocol.errors import ModelRequestError
from kestrel_nb.protocol.messages import ChatMessage, OpaquePart, ReasoningPart, TextPart, create_message
from kestrel_nb.protocol.sessions import Usage
from kestrel_nb.providers.openai_responses import OpenAIResponsesWire
from kestrel_nb.runtime.models import CompletionRequest, CompletionResponse
from kestrel_nb.runtime.prompts import assistant_message

WIRE = OpenAIResponsesWire("gpt-x", stamp="openai-responses")


def replayed(name: str) -> Played:
    return played(WIRE, body_of(name))


def reply_in(name: str) -> CompletionResponse:
    found = replayed(name)
    assert found.response is not None, found.error
    return found.response


def sent_back(response: CompletionResponse, wire: OpenAIResponsesWire = WIRE) -> list[Any]:
    """The items of ``response`` in the next request, after a trip through the store's JSON."""
    message = decode(ChatMessage, json.loads(json.dumps(encode(assistant_message(response)))))
    request = CompletionRequest(model="id", messages=(create_message("user", "a"), message))
    items: list[Any] = json.loads(wire.encode(request, stream=True).body)["input"]
    return items[1:]


def output_of(name: str) -> list[Any]:
    last = body_of(name).decode().replace("\r\n", "\n").rstrip().rpartition("data: ")[2]
    output: list[Any] = json.loads(last)["response"]["output"]
    return output


@pytest.mark.parametrize("name", ["responses-everything.sse", "responses-everything-crlf.sse"])
def test_a_reply_with_everything_in_it(name: str) -> None:
    found = replayed(name)
    response = found.response
    assert response is not None, found.error
    assert response.finish_reason == "tool_calls"
    assert response.reasoning == found.reasoning == "**Look first**\n\nThe folder is small."
    assert response.content == found.text == "I look into the folder. Then I answer."
    assert [(c.id, c.arguments, c.raw_arguments) for c in response.tool_calls] == [
        ("call_1", {"x": 1}, '{ "x" : 1 }'),
        ("call_2", {}, ""),
    ]
    assert found.calls == {"call_1": ("look", '{ "x" : 1 }'), "call_2": ("look", "")}
    assert response.usage == Usage(
        input_tokens=120, output_tokens=50, cache_read_tokens=100, cache_write_tokens=7, reasoning_tokens=30
    )


def test_every_item_goes_back_as_it_came_to_its_own_server_alone() -> None:
    response = reply_in("responses-everything.sse")
    expected = output_of("responses-everything.sse")
    for content in expected[1]["content"]:
        del content["logprobs"]
    expected[3]["arguments"] = "{}"
    assert sent_back(response) == expected
    elsewhere = OpenAIResponsesWire("gpt-x", stamp="openai-responses@example.org")
    assert [item["type"] for item in sent_back(response, elsewhere)] == ["message", "function_call", "function_call"]
    text = json.dumps(sent_back(response, elsewhere))
    assert not any(mark in text for mark in ("gAAAA", "rs_1", "fc_1", "msg_1", "phase", "citation"))


def test_the_finished_reasoning_item_counts_not_the_announced_one() -> None:
    (part,) = [part for part in reply_in("responses-everything.sse").parts if isinstance(part, ReasoningPart)]
    assert part.extra["item"]["encrypted_content"] == "gAAAAB-finished+/=é"


def test_pieces_are_joined_to_their_items_by_item_id_alone() -> None:
    found = replayed("responses-keyed-on-item.sse")
    assert found.response is not None
    assert [(c.id, c.name, c.arguments) for c in found.response.tool_calls] == [
        ("fc_a", "look", {"x": 1}),
        ("fc_b", "peek", {"y": 2}),
    ]
    assert found.calls == {"fc_a": ("look", '{"x":1}'), "fc_b": ("peek", '{"y":2}')}


@pytest.mark.parametrize("name", ["responses-never-closed.sse", "responses-never-closed-no-output.sse"])
def test_items_that_nothing_closed_come_from_the_last_event_or_from_their_pieces(name: str) -> None:
    response = reply_in(name)
    assert response.content == "Hello there"
    assert [(call.id, call.arguments) for call in response.tool_calls] == [("call_9", {"x": 1})]
    assert (response.finish_reason, response.usage) == ("tool_calls", Usage())


def test_a_call_that_was_cut_is_kept_and_not_to_be_run() -> None:
    response = reply_in("responses-cut-call.sse")
    (call,) = response.tool_calls
    assert response.finish_reason == "length"
    assert call.arguments is None
    assert call.problem


def test_a_refusal_is_text_and_a_content_filter() -> None:
    found = replayed("responses-refusal.sse")
    assert found.response is not None
    assert found.text == found.response.content == "I can't help with that."
    assert found.response.finish_reason == "content_filter"
    assert sent_back(found.response) == output_of("responses-refusal.sse")


@pytest.mark.parametrize(
    ("name", "words", "retryable", "text"),
    [
        ("responses-failed.sse", "Too many requests at once.", True, ""),
        ("responses-error-after-text.sse", "Something went wrong.", True, "Hello there"),
        ("responses-error-first.sse", "The input is too long.", False, ""),
    ],
)
def test_errors_inside_a_stream(name: str, words: str, retryable: bool, text: str) -> None:
    found = replayed(name)
    assert found.error is not None
    assert words in str(found.error)
    assert found.error.retryable is retryable
    assert found.text == text


def test_items_of_unknown_kinds_are_kept_and_sent_back() -> None:
    response = reply_in("responses-unknown-items.sse")
    assert [type(part) for part in response.parts] == [OpaquePart, OpaquePart, TextPart]
    assert sent_back(response) == output_of("responses-unknown-items.sse")
    assert response.finish_reason == "stop"


# ---- bodies and streams of other servers ------------------------------------------------------------------------


def body(**fields: Any) -> bytes:
    text = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}
    return json.dumps({"id": "r", "status": "completed", "output": [text], **fields}).encode()


def call_item(**fields: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}", **fields}


@pytest.mark.parametrize(
    ("fields", "finish"),
    [
        ({}, "stop"),
        ({"status": None}, "stop"),
        ({"output": [call_item()]}, "tool_calls"),
        ({"status": "incomplete"}, "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "content_filter"),
        ({"status": "incomplete", "incomplete_details": {"reason": "pause"}}, "pause"),
        ({"status": "failed"}, "error"),
        ({"status": "cancelled"}, "cancelled"),
        ({"error": None, "usage": None}, "stop"),
    ],
)
def test_why_a_reply_ended(fields: dict[str, Any], finish: str) -> None:
    assert WIRE.whole(body(**fields)).finish_reason == finish
    event = {"type": "response.completed", "response": json.loads(body(**fields))}
    found = played(WIRE, b"data: " + json.dumps(event).encode() + b"\n\n")
    assert found.response is not None
    assert found.response.finish_reason == finish


@pytest.mark.parametrize("arguments", ["", " \n", None])
def test_no_arguments_are_an_empty_object(arguments: str | None) -> None:
    (call,) = WIRE.whole(body(output=[call_item(arguments=arguments)])).tool_calls
    assert (call.arguments, call.problem) == ({}, None)


@pytest.mark.parametrize("arguments", ["null", "[]", '{"a":1}{"a":2}', '{"a": NaN}', "[" * 100_000, '{"a":1e999}'])
def test_arguments_that_are_no_object_are_kept_with_what_is_wrong(arguments: str) -> None:
    response = WIRE.whole(body(output=[call_item(arguments=arguments)]))
    (call,) = response.tool_calls
    assert call.arguments is None
    assert call.problem
    assert call.raw_arguments == arguments
    assert sent_back(response)[0]["arguments"] == "{}"


def test_a_call_without_an_id_gets_one_for_its_pieces_and_its_part() -> None:
    item = {"type": "function_call", "id": "fc_1", "name": "look"}
    events = [
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "arguments": ""}},
        {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "{}"},
        {"type": "response.output_item.done", "output_index": 0, "item": {**item, "arguments": "{}"}},
        {"type": "response.completed", "response": {"status": "completed"}},
    ]
    found = played(WIRE, b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events))
    assert found.response is not None
    (call,) = found.response.tool_calls
    assert call.id
    assert found.calls == {call.id: ("look", "{}")}
    assert sent_back(found.response)[0]["call_id"] == call.id


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"output": null}',
        b'{"error": {}}',
        b'{"error": "no"}',
        b'{"status": "queued", "output": []}',
        b"\xff\xfe",
        b"[" * 5_000,
    ],
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
        {"type": None},
        {"type": "response.output_item.done"},
        {"type": "response.output_item.done", "item": {}},
        {"type": "response.output_item.added", "item": {"id": ["x"], "type": {}}, "output_index": {}},
        {"type": "response.output_text.delta", "delta": None},
        {"type": "response.output_text.delta", "item_id": {}, "delta": 3},
        {"type": "response.function_call_arguments.delta", "delta": []},
        {"choices": []},
    ],
)
def test_odd_events_do_no_harm(event: Any) -> None:
    end = {"type": "response.completed", "response": json.loads(body())}
    stream = b"".join(b"data: " + json.dumps(item).encode() + b"\n\n" for item in (event, end))
    found = played(WIRE, stream)
    assert found.response is not None, found.error


def test_an_error_object_instead_of_a_stream_and_a_whole_reply_instead_of_one() -> None:
    found = played(WIRE, b'{"error": {"message": "No such model", "code": "model_not_found"}}')
    assert found.error is not None
    assert "No such model" in str(found.error)
    assert not found.error.retryable
    found = played(WIRE, body())
    assert found.response is not None
    assert found.response.content == "Hi"


def test_a_character_in_two_deltas_is_one() -> None:
    stream = (
        b'data: {"type":"response.output_text.delta","item_id":"m","delta":"a\\ud83d"}\n\n'
        b'data: {"type":"response.output_text.delta","item_id":"m","delta":"\\ude00b"}\n\n'
        b'data: {"type":"response.completed","response":{"status":"completed"}}\n\n'
    )
    found = played(WIRE, stream)
    assert found.response is not None
    assert found.text == found.response.content == "a\U0001f600b"
