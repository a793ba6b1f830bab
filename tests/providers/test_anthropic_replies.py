"""Anthropic Messages: what is made of replies. The streams were written by hand; see the notice beside them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kestrel_nb.protocol.errors import ModelRequestError
from kestrel_nb.protocol.messages import OpaquePart, ReasoningPart, TextPart, ToolCallPart
from kestrel_nb.protocol.sessions import Usage
from kestrel_nb.providers.anthropic import AnthropicWire
from kestrel_nb.runtime.models import CompletionResponse, TokenDelta

WRITTEN = Path(__file__).parents[1] / "data" / "wire-written"
STREAMS = {path.name: path.read_bytes() for path in sorted(WRITTEN.glob("anthropic-*.sse"))}
WIRE = AnthropicWire("m", stamp="anthropic")


STOP = {"type": "message_stop"}


def read(stream: bytes, cuts: Sequence[int] = ()) -> tuple[list[TokenDelta], CompletionResponse | ModelRequestError]:
    """What ``stream``, cut at ``cuts``, shows and gives."""
    parser = WIRE.parser()
    deltas: list[TokenDelta] = []
    edges = [0, *sorted(cuts), len(stream)]
    try:
        for start, end in itertools.pairwise(edges):
            deltas += parser.feed(stream[start:end])
        return deltas, parser.end()
    except ModelRequestError as error:
        return deltas, error


def reply(name: str) -> CompletionResponse:
    response = read(STREAMS[name])[1]
    assert isinstance(response, CompletionResponse), response
    return response


def failure(stream: bytes) -> ModelRequestError:
    error = read(stream)[1]
    assert isinstance(error, ModelRequestError), error
    return error


def events(*items: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(item).encode() + b"\n\n" for item in items)


def test_thoughts_keep_their_order_and_their_signatures() -> None:
    response = reply("anthropic-thinking.sse")
    assert response.parts == (
        ReasoningPart(text="Let me see: 漢字\n", extra={"signature": "EqoBCkgIAxABGAIiQL+/=="}),
        ReasoningPart(text="", redacted=True, extra={"data": "EmwKAhgBEgy3va3pzix/Lafp=="}),
        ReasoningPart(text="", extra={"signature": "EuYBempty"}),
        TextPart(text="I look."),
        ToolCallPart(
            id="toolu_01",
            name="look",
            arguments={"x": 1},
            raw_arguments='{"x": 1}',
            extra={"caller": {"type": "direct"}},
        ),
        ToolCallPart(id="toolu_02", name="look", arguments={}, raw_arguments="{}"),
    )
    assert (response.finish_reason, response.provider) == ("tool_calls", "anthropic")
    assert response.usage == Usage(
        input_tokens=4320, output_tokens=90, cache_read_tokens=4000, cache_write_tokens=300, reasoning_tokens=60
    )


def test_deltas_join_to_the_reply() -> None:
    deltas, response = read(STREAMS["anthropic-thinking.sse"])
    assert isinstance(response, CompletionResponse)
    assert "".join(delta.text for delta in deltas) == response.content
    assert "".join(delta.reasoning for delta in deltas) == response.reasoning
    for call in response.tool_calls:
        own = [delta for delta in deltas if delta.call_id == call.id]
        assert (own[0].tool, "".join(delta.arguments for delta in own) or "{}") == (call.name, call.raw_arguments)
    assert all(delta != TokenDelta() for delta in deltas)


@pytest.mark.parametrize(
    ("name", "status", "retryable", "shown"),
    [
        ("anthropic-overloaded-first.sse", 529, True, ""),
        ("anthropic-overloaded-after-text.sse", 529, True, "Half a sen"),
        ("anthropic-rate-limit.sse", 429, True, ""),
        ("anthropic-invalid-request.sse", 400, False, ""),
    ],
)
def test_an_error_in_the_stream_is_the_one_that_its_status_would_be(
    name: str, status: int, retryable: bool, shown: str
) -> None:
    deltas, error = read(STREAMS[name])
    assert isinstance(error, ModelRequestError)
    assert (error.status, error.retryable) == (status, retryable)
    assert "".join(delta.text for delta in deltas) == shown


def test_a_refusal_says_why_and_its_reason_is_not_sent_back() -> None:
    response = reply("anthropic-refusal.sse")
    assert response.finish_reason == "content_filter"
    assert response.content == "Half a senThis request was declined under the usage policy."
    assert response.parts[-1].extra["stop_details"]["category"] == "cyber"


def test_a_call_that_a_refusal_cut_off_does_not_run() -> None:
    (call,) = reply("anthropic-refusal-in-call.sse").tool_calls
    assert call.arguments is None
    assert call.problem


def test_blocks_of_the_servers_own_are_kept_whole() -> None:
    response = reply("anthropic-server-tool.sse")
    assert response.finish_reason == "pause_turn"
    values = [part.value for part in response.parts if isinstance(part, OpaquePart)]
    assert [value["type"] for value in values] == ["server_tool_use", "web_search_tool_result", "compaction"]
    assert values[0]["input"] == {"query": "kestrel"}
    assert values[1]["content"][0]["encrypted_content"] == "Eq=="
    assert values[2]["content"] == "Short"
    assert response.parts[-1].extra["citations"][0]["cited_text"] == "k"


def test_a_full_window_is_a_cut_reply() -> None:
    assert reply("anthropic-window.sse").finish_reason == "length"


def test_line_ends_of_windows_and_odd_separators() -> None:
    response = reply("anthropic-crlf.sse")
    assert (response.content, response.finish_reason) == ("Half a sen \u2028\u0085 ", "stop")


@pytest.mark.parametrize("name", STREAMS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_stream_cut_anywhere_gives_the_same(name: str, data: st.DataObject) -> None:
    stream = STREAMS[name]
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=12))
    assert told(read(stream, cuts)) == told(read(stream)) == told(read(stream, range(1, len(stream))))


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_that_ends_early_is_never_an_answer(name: str) -> None:
    stream = STREAMS[name].rstrip()
    for end in range(0, len(stream), 7):
        assert failure(stream[:end]).retryable or "error" in name or b"event: error" in stream


def told(outcome: tuple[list[TokenDelta], CompletionResponse | ModelRequestError]) -> Any:
    deltas, end = outcome
    ended = (str(end), end.status) if isinstance(end, ModelRequestError) else end
    return deltas, ended


ODD: list[Any] = [
    None,
    [],
    "text",
    {},
    {"type": "content_block_start"},
    {"type": "content_block_start", "index": None, "content_block": {"type": "tool_use", "name": 3, "input": [1]}},
    {"type": "content_block_start", "index": [], "content_block": {"type": ["x"]}},
    {"type": "content_block_delta", "index": 7, "delta": {"type": "input_json_delta", "partial_json": "{"}},
    {"type": "content_block_delta", "index": {}, "delta": {"type": "text_delta", "text": None}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta"}},
    {"type": "content_block_delta", "index": 0, "delta": None},
    {"type": "content_block_stop", "index": 9},
    {"type": "message_start", "message": None},
    {"type": "message_start", "message": {"usage": {"input_tokens": "3", "output_tokens": -1}}},
    {"type": "message_delta", "delta": {"stop_reason": 4, "stop_details": "no"}, "usage": [1]},
    {"type": "something_new", "data": {}},
]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(ODD), max_size=8))
def test_events_of_any_form_give_a_reply_or_a_model_error(items: list[Any]) -> None:
    deltas, end = read(events(*items, {"type": "message_stop"}))
    assert isinstance(end, (CompletionResponse, ModelRequestError))
    assert all(delta != TokenDelta() for delta in deltas)


def test_a_text_whose_block_never_began_is_still_shown() -> None:
    piece = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}}
    deltas, response = read(events(piece, piece, {"type": "message_stop"}))
    assert isinstance(response, CompletionResponse)
    assert ("".join(delta.text for delta in deltas), response.content) == ("hihi", "hihi")


@pytest.mark.parametrize(
    "piece", [{"type": "input_json_delta", "partial_json": '{"x": 1}'}, {"partial_json": {"x": 1}}]
)
def test_arguments_of_a_call_that_never_began_are_no_answer(piece: dict[str, Any]) -> None:
    said = {"type": "content_block_delta", "index": 0, "delta": piece}
    error = failure(events(said, {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}, STOP))
    assert (error.code, error.retryable) == ("broken_reply", True)
    assert isinstance(
        read(events({**said, "delta": {"type": "input_json_delta", "partial_json": ""}}, STOP))[1], CompletionResponse
    )


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("MAX_TOKENS", "length"),
        ("length", "length"),
        ("content_filter", "content_filter"),
        ("tool_calls", "tool_calls"),
        ("END_TURN", "tool_calls"),
        (None, "tool_calls"),
        ("Something_new", "tool_calls"),
    ],
)
def test_reasons_in_the_words_of_servers_that_translate(word: str | None, reason: str) -> None:
    use = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"x": 1}}
    begun = {"type": "content_block_start", "index": 0, "content_block": use}
    response = read(events(begun, {"type": "message_delta", "delta": {"stop_reason": word}}, STOP))[1]
    assert isinstance(response, CompletionResponse)
    assert response.finish_reason == reason


def test_whole_replies() -> None:
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "Looking."},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"x": "é"}},
        {"type": "tool_use", "name": "look", "input": '{"x": 2}'},
    ]
    body = {"type": "message", "content": content, "stop_reason": "tool_use", "usage": {"input_tokens": 3}}
    response = WIRE.whole(json.dumps(body).encode())
    assert [call.raw_arguments for call in response.tool_calls] == ['{"x":"é"}', '{"x": 2}']
    assert response.tool_calls[1].id
    assert response.parts[0] == ReasoningPart(text="hm", extra={"signature": "s"})
    assert (response.finish_reason, response.usage.input_tokens) == ("tool_calls", 3)


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b'{"content": 3}', b"\xff", b"[" * 5000])
def test_what_is_no_reply_is_a_model_error(body: bytes) -> None:
    with pytest.raises(ModelRequestError):
        WIRE.whole(body)


def test_an_error_in_one_piece() -> None:
    body = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    with pytest.raises(ModelRequestError, match="529: Overloaded") as caught:
        WIRE.whole(json.dumps(body).encode())
    assert caught.value.retryable


@pytest.mark.parametrize("kind", ["error", None])
def test_an_error_event_needs_no_type(kind: str | None) -> None:
    error = failure(events({"type": kind, "error": {"type": "rate_limit_error", "message": "slow down"}}))
    assert (error.status, error.retryable) == (429, True)


def test_an_error_event_needs_no_error() -> None:
    error = failure(events({"type": "error"}, {"type": "message_stop"}))
    assert (error.status, error.retryable) == (500, True)
