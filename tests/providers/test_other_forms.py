"""Replies of Responses and of Ollama in the forms that only some servers have: text, ends, counts and errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from dialects import added, body, completed, done, item, last, line, message
from replies import Played, play, wire_of

from kestrel_nb.protocol.errors import ModelRequestError
from kestrel_nb.protocol.messages import ReasoningPart
from kestrel_nb.protocol.sessions import Usage
from kestrel_nb.runtime.models import CompletionResponse

OPEN = message("", content=[])
HELLO = message("hello")
THOUGHT = {"type": "reasoning", "id": "rs_1", "encrypted_content": "E"}


def played(api: str, *events: Any) -> Played:
    return play(wire_of(api), [body(api, [event]) for event in events])


def reply(api: str, *events: Any) -> CompletionResponse:
    found = played(api, *events)
    assert found.response is not None, found.error
    return found.response


def failure(api: str, *events: Any) -> ModelRequestError:
    error = played(api, *events).error
    assert error is not None
    return error


def text_event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "item_id": "msg_1", "output_index": 0, **fields}


def piece(text: Any, **fields: Any) -> dict[str, Any]:
    return text_event("output_text.delta", delta=text, **fields)


# ---- Responses ----------------------------------------------------------------------------------------------------

PART = {"type": "output_text", "text": "hello"}


@pytest.mark.parametrize(
    "events",
    [
        [added(0, OPEN), piece("hel"), text_event("output_text.done", text="hello")],
        [added(0, OPEN), piece("xyz"), text_event("output_text.done", text="hello")],
        [added(0, OPEN), text_event("content_part.done", part=PART)],
        [added(0, OPEN), piece("hel"), text_event("content_part.done", part=PART)],
        [added(0, OPEN), piece("hello"), text_event("output_text.done", text="hello"), text_event("x.done", part=PART)],
        [
            added(0, OPEN),
            piece("hel", content_index=0),
            piece("lo", content_index=1),
            text_event("output_text.done", text="lo", content_index=1),
        ],
        [
            added(0, OPEN),
            piece("hel"),
            text_event("output_text.done", text="hel"),
            piece("lo"),
            text_event("output_text.done", text="lo"),
        ],
        [added(0, OPEN), piece({"text": "hello"})],
        [added(0, HELLO)],
        [piece("hel"), added(0, OPEN), piece("lo")],
        [added(0, OPEN), piece("hello"), done(0, message(""))],
        [added(0, OPEN), piece("hello"), done(0, {**OPEN, "content": None})],
        [done(0, {**OPEN, "content": "hello"})],
        [done(0, {**OPEN, "content": ["hello"]})],
        [done(0, {**OPEN, "content": PART})],
        [done(0, HELLO), done(0, HELLO)],
    ],
)
@pytest.mark.parametrize("output", [[], None, "as it came"])
def test_text_of_responses_in_odd_forms(events: list[Any], output: Any) -> None:
    end = completed()
    if output is None:
        end = {"type": "response.completed", "response": {"status": "completed", "output": None}}
    elif output and any(event["type"].endswith("item.done") for event in events):
        item = events[-1]["item"]
        end = completed(item, item)
    found = played("openai-responses", *events, end)
    assert found.response is not None
    assert (found.response.content, found.response.finish_reason) == ("hello", "stop")
    assert found.text in ("hello", "xyz")


@pytest.mark.parametrize(
    "events",
    [
        [text_event("reasoning_text.delta", item_id="rs_1", delta="hm")],
        [text_event("reasoning.delta", item_id="rs_1", delta="hm")],
        [text_event("reasoning_summary.delta", item_id="rs_1", delta={"text": "hm"})],
        [text_event("reasoning_summary_part.done", item_id="rs_1", part={"type": "summary_text", "text": "hm"})],
        [done(0, {**THOUGHT, "summary": "hm"})],
        [done(0, {**THOUGHT, "summary": ["hm"]})],
        [done(0, {**THOUGHT, "summary": {"type": "summary_text", "text": "hm"}})],
        [done(0, {**THOUGHT, "summary": None, "content": [{"type": "reasoning_text", "text": "hm"}]})],
        [added(0, {**THOUGHT, "summary": [{"type": "summary_text", "text": "hm"}]})],
    ],
)
def test_reasoning_of_responses_in_odd_forms(events: list[Any]) -> None:
    response = reply("openai-responses", *events, done(1, HELLO), completed())
    assert (response.reasoning, response.content) == ("hm", "hello")
    assert isinstance(response.parts[0], ReasoningPart)


@pytest.mark.parametrize(
    ("details", "finish"),
    [
        ({"reason": "max_output_tokens"}, "length"),
        ({"reason": "max_tokens"}, "length"),
        ("max_output_tokens", "length"),
        (None, "length"),
        ({"reason": "content_filter"}, "content_filter"),
        ({"reason": "unheard_of"}, "unheard_of"),
    ],
)
def test_why_a_response_is_incomplete(details: Any, finish: str) -> None:
    response = {"status": "incomplete", "incomplete_details": details}
    end = {"type": "response.incomplete", "response": response}
    assert reply("openai-responses", done(0, HELLO), end).finish_reason == finish
    cut = wire_of("openai-responses").whole(json.dumps({**response, "output": [item("a", "look", "{}")]}).encode())
    assert (cut.finish_reason, cut.tool_calls[0].arguments) == (finish, None)


@pytest.mark.parametrize(
    ("name", "status", "finish"),
    [
        ("completed", "incomplete", "length"),
        ("incomplete", "completed", "length"),
        ("incomplete", "done", "length"),
        ("failed", "completed", "error"),
        ("completed", "failed", "error"),
        ("completed", "done", "stop"),
    ],
)
def test_the_worse_of_two_words_for_the_end_counts(name: str, status: str, finish: str) -> None:
    end = {"type": f"response.{name}", "response": {"status": status}}
    assert reply("openai-responses", done(0, HELLO), end).finish_reason == finish


def test_a_response_that_was_cancelled() -> None:
    end = {"type": "response.cancelled", "response": {"status": "cancelled", "output": []}}
    assert reply("openai-responses", done(0, HELLO), end).finish_reason == "cancelled"


@pytest.mark.parametrize(
    ("event", "status"),
    [
        ({"type": "error", "status": 429, "error": {"message": "boo"}}, 429),
        ({"type": "error", "code": "rate_limit_exceeded", "message": "boo"}, 429),
        ({"type": "response.error", "error": {"code": "rate_limit_exceeded", "message": "boo"}}, 429),
        ({"type": "response.failed", "error": {"code": "rate_limit_exceeded", "message": "boo"}}, 429),
        ({"type": "response.failed", "status": "failed", "error": {"message": "boo"}}, 500),
        ({"type": "response.failed", "response": {"error": "boo"}}, 500),
        ({"error": {"message": "boo"}, "code": 503}, 503),
        ({"error": "boo", "code": 503}, 503),
        ({"object": "error", "message": "boo", "code": 503}, 503),
        ({"message": "boo"}, 500),
        ({"detail": "boo"}, 500),
        ({"errors": [{"message": "boo", "code": 401}]}, 401),
        ([{"error": {"message": "boo", "code": 503}}], 503),
    ],
)
def test_errors_of_responses_in_odd_forms(event: Any, status: int) -> None:
    error = failure("openai-responses", event)
    assert (error.status, "boo" in str(error)) == (status, True)
    if isinstance(event, list) or "type" not in event:
        with pytest.raises(ModelRequestError, match="boo"):
            wire_of("openai-responses").whole(json.dumps(event).encode())


@pytest.mark.parametrize(
    "usage", [{"input_tokens": 5, "output_tokens": 3}, {"prompt_tokens": 5, "completion_tokens": 3}]
)
def test_counts_under_the_names_of_either_format(usage: Any) -> None:
    assert reply("openai-responses", completed(HELLO, usage=usage)).usage == Usage(input_tokens=5, output_tokens=3)


def test_the_finished_item_counts_where_its_pieces_differ() -> None:
    asked = item("a", "look", '{"x": 1}')
    pieces = {"type": "response.function_call_arguments.delta", "item_id": "fc_a", "delta": '{"z": 1}'}
    (call,) = reply("openai-responses", added(0, item("a", "look", "")), pieces, done(0, asked), completed()).tool_calls
    assert (call.id, call.arguments) == ("a", {"x": 1})


# ---- Ollama -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"thinking": "hm"},
        {"reasoning": "hm"},
        {"reasoning_content": "hm", "thinking": None},
        {"thinking": "", "reasoning": "hm"},
        {"content": [{"type": "thinking", "thinking": "hm"}]},
    ],
)
@pytest.mark.parametrize("content", ["hello", [{"type": "text", "text": "hello"}], ["hel", "lo"]])
def test_messages_of_ollama_in_odd_forms(fields: dict[str, Any], content: Any) -> None:
    found = played("ollama", line(**fields), line(content=content), line(content=None), last(message=None))
    assert found.response is not None
    assert (found.response.reasoning, found.response.content) == ("hm", "hello") == (found.reasoning, found.text)


@pytest.mark.parametrize(
    ("word", "finish"),
    [
        ("LENGTH", "length"),
        ("max_tokens", "length"),
        ("STOP", "stop"),
        ("end_turn", "stop"),
        (None, "stop"),
        (3, "stop"),
    ],
)
def test_other_words_for_the_end_of_ollama(word: Any, finish: str) -> None:
    assert reply("ollama", line(content="hi"), last(word)).finish_reason == finish
    assert reply("ollama", line(content="hi"), {**last(word), "done": 1}).finish_reason == finish


@pytest.mark.parametrize(
    ("event", "status"),
    [
        ({"error": "boo"}, 500),
        ({"error": "boo", "status_code": 404}, 404),
        ({"error": {"message": "boo", "code": 503}}, 503),
        ({"error": {"message": "boo"}, "status": 503}, 503),
        ({"error": "boo", "done": True}, 500),
        ({"error": "boo", "message": {"content": ""}}, 500),
        ({"message": "boo"}, 500),
        ({"detail": "boo"}, 500),
        ({"errors": ["boo"]}, 500),
        ([{"error": "boo"}], 500),
    ],
)
def test_errors_of_ollama_in_odd_forms(event: Any, status: int) -> None:
    error = failure("ollama", event)
    assert (error.status, "boo" in str(error)) == (status, True)
    with pytest.raises(ModelRequestError, match="boo"):
        wire_of("ollama").whole(json.dumps(event).encode())


def test_an_unfinished_line_of_ollama_is_no_end() -> None:
    assert failure("ollama", line(content="hi"), {"done": False, "done_reason": "stop"}).code == "truncated_reply"
