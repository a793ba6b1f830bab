"""Chunks of Chat Completions as servers send them: empty, null, cut, wrong, or with an error under status 200."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_server import DONE, ModelServer, chat_event, chat_text, data_event, streamed
from replies import STAMP, play, wire_of
from stage import Stage

from kestrel_nb.protocol.errors import ModelRequestError
from kestrel_nb.protocol.sessions import RunResult, Usage
from kestrel_nb.providers.openai_chat import OpenAIChatWire
from kestrel_nb.providers.remote import OpenAIChatModel
from kestrel_nb.runtime.models import CompletionResponse
from kestrel_nb.runtime.retry import RetryOptions

CASES = Path(__file__).parents[1] / "data/cases"
FAST = RetryOptions(attempts=2, base_delay_ms=1)
CHAT = wire_of("openai-chat")


def case(name: str) -> bytes:
    return (CASES / f"{name}.sse").read_bytes()


@asynccontextmanager
async def talking(*replies: list[bytes]) -> AsyncIterator[tuple[ModelServer, Stage]]:
    async with ModelServer([streamed(*events) for events in replies]) as server:
        stage = Stage(OpenAIChatModel("m", base_url=server.url), retry=FAST)
        yield server, stage
        stage.check()


async def said(*events: bytes) -> RunResult:
    """The run whose only reply is ``events``."""
    async with talking(list(events)) as (_, stage):
        result = await stage.ask()
        assert "".join(event.text for event in stage.of("message.delta")) == result.text
        assert stage.of("notice") == []
        return result


def reply(*events: bytes) -> CompletionResponse:
    played = play(CHAT, events)
    assert played.response is not None, played.error
    return played.response


def failure(*events: bytes) -> ModelRequestError:
    error = play(CHAT, events).error
    assert error is not None
    return error


# ---- the cases ----------------------------------------------------------------------------------------------------


async def test_b01_chunks_without_choices_are_passed_over() -> None:
    assert (await said(case("B01"))).text == "Hello"


@pytest.mark.parametrize("extra", [{"choices": []}, {"choices": None}, {}, {"choices": [], "usage": None}])
async def test_b01_wherever_such_a_chunk_stands(extra: dict[str, Any]) -> None:
    chunk = data_event({"id": "", "prompt_filter_results": [{"prompt_index": 0}], **extra})
    events = [event for piece in chat_text("Hel", "lo") for event in (chunk, piece)]
    assert (await said(*events)).text == "Hello"


async def test_b03_usage_comes_behind_the_finish_reason() -> None:
    result = await said(case("B03"))
    assert (result.text, result.status) == ("ok", "completed")
    assert result.usage == Usage(input_tokens=12, output_tokens=3)


USAGES = {
    "plain": (
        {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
        Usage(input_tokens=12, output_tokens=3),
    ),
    "details": (
        {
            "prompt_tokens": 12,
            "completion_tokens": 9,
            "total_tokens": 21,
            "prompt_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 2},
            "completion_tokens_details": {"reasoning_tokens": 5},
        },
        Usage(input_tokens=12, output_tokens=9, cache_read_tokens=8, cache_write_tokens=2, reasoning_tokens=5),
    ),
    "reasoning counted apart": (
        {
            "prompt_tokens": 12,
            "completion_tokens": 4,
            "total_tokens": 21,
            "completion_tokens_details": {"reasoning_tokens": 5},
        },
        Usage(input_tokens=12, output_tokens=9, reasoning_tokens=5),
    ),
    "DeepSeek's cache": (
        {"prompt_tokens": 12, "completion_tokens": 3, "prompt_cache_hit_tokens": 7, "prompt_cache_miss_tokens": 5},
        Usage(input_tokens=12, output_tokens=3, cache_read_tokens=7),
    ),
    "nulls": (
        {"prompt_tokens": 12, "completion_tokens": None, "prompt_tokens_details": None},
        Usage(input_tokens=12),
    ),
    "nonsense": ({"prompt_tokens": "12", "completion_tokens": -3, "prompt_tokens_details": []}, Usage()),
    "null": (None, Usage()),
    "a list": ([], Usage()),
}


@pytest.mark.parametrize("name", USAGES)
def test_b03_usage_in_all_its_forms_and_places(name: str) -> None:
    given, expected = USAGES[name]
    text, *_ = chat_text("ok")[1:]
    choice = {"index": 0, "delta": {}, "finish_reason": "stop"}
    places = (
        [data_event({"choices": [choice]}), data_event({"choices": [], "usage": given})],
        [data_event({"choices": [choice], "usage": given})],
        [data_event({"choices": [choice], "usage": given}), data_event({"choices": [], "usage": None})],
        [data_event({"choices": [{**choice, "usage": given}]})],
        [data_event({"choices": [choice]}), data_event({"usage": given})],
    )
    for events in places:
        assert reply(text, *events, DONE).usage == expected


async def test_b04_an_error_under_status_200_is_no_empty_answer() -> None:
    async with talking([case("B04")]) as (server, stage):
        with pytest.raises(ModelRequestError, match="Upstream worker limit reached"):
            await stage.ask()
        assert len(server.requests) == 2
        assert [event.code for event in stage.of("notice")] == ["retry"]
        assert "Upstream worker limit reached" in stage.of("run.failed")[0].message
        assert stage.of("message.completed")[1:] == []


async def test_b04_the_next_try_may_do() -> None:
    async with talking([case("B04")], chat_text("fine")) as (_, stage):
        assert (await stage.ask()).text == "fine"


async def test_b04_after_the_first_token_it_is_not_tried_again() -> None:
    async with talking([*chat_text("Hel")[:2], case("B04")]) as (server, stage):
        with pytest.raises(ModelRequestError, match="Upstream worker limit reached"):
            await stage.ask()
        assert len(server.requests) == 1


ERRORS: tuple[tuple[Mapping[str, Any], bool], ...] = (
    ({"error": {"message": "it broke", "code": 502}, "choices": []}, True),
    ({"error": {"message": "it broke", "code": "503"}}, True),
    ({"error": {"message": "it broke", "type": "server_error", "param": None, "code": None}}, True),
    ({"error": {"message": "it broke", "type": "rate_limit_error", "code": "rate_limit_exceeded"}}, True),
    ({"error": {"message": "it broke", "type": "insufficient_quota", "code": "insufficient_quota"}}, False),
    ({"error": {"message": "it broke", "type": "invalid_request_error", "code": "context_length_exceeded"}}, False),
    ({"error": {"message": "it broke", "type": "BadRequestError", "code": 400}}, False),
    ({"error": {"message": "it broke", "code": 401}}, False),
    ({"error": "it broke"}, True),
    ({"error": ["it broke"]}, True),
    ({"object": "error", "message": "it broke", "type": "BadRequestError", "code": 400}, False),
    ({"object": "error", "message": "it broke"}, True),
    ({"type": "error", "message": "it broke"}, True),
    ({"error": {"message": "it broke"}, "choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]}, True),
    ({"choices": [{"index": 0, "delta": {}, "finish_reason": "error", "error": {"message": "it broke"}}]}, True),
    ({"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}]}, True),
    ({"choices": [{"index": 0, "delta": {}, "finish_reason": "insufficient_system_resource"}]}, True),
    ({"error": {}}, True),
)


@pytest.mark.parametrize(("event", "retryable"), ERRORS)
def test_b04_errors_of_every_form(event: Mapping[str, Any], retryable: bool) -> None:
    for before in ([], [chat_event({"role": "assistant", "content": ""})]):
        error = failure(*before, data_event(event), DONE)
        assert error.retryable is retryable
        if "it broke" in json.dumps(event) and event.get("error") != ["it broke"]:
            assert "it broke" in str(error)
    with pytest.raises(ModelRequestError):
        CHAT.whole(json.dumps(event).encode())


def test_b04_an_event_that_is_named_error() -> None:
    assert "it broke" in str(failure(b'event: error\ndata: {"message": "it broke"}\n\n'))


def test_b04_what_was_said_before_an_error_in_the_same_bytes_is_told() -> None:
    body = b"".join([*chat_text("Hel", "lo")[:3], case("B04")])
    for size in (1, 7, len(body)):
        played = play(CHAT, [body[i : i + size] for i in range(0, len(body), size)])
        assert played.text == "Hello"
        assert "Upstream worker limit reached" in str(played.error)


def test_b04_an_error_of_null_is_none() -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}]}
    for error in (None, {}, ""):
        assert reply(data_event({**chunk, "error": error}), DONE).content == "ok"


async def test_b06_null_is_the_same_as_absent() -> None:
    async with talking([case("B06")]) as (_, stage):
        assert (await stage.ask()).text == "Hi there"
        assert "None" not in repr([event.text for event in stage.of("message.delta")])


NULLS = ("role", "content", "tool_calls", "reasoning_content", "reasoning", "refusal", "function_call", "logprobs")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sets(st.sampled_from(NULLS)), min_size=3, max_size=3), st.booleans())
def test_b06_nulls_anywhere(nulls: list[set[str]], empty_lists: bool) -> None:
    deltas: list[dict[str, Any]] = [{"role": "assistant"}, {"content": "Hi"}, {"content": " there"}]
    events = []
    for delta, names in zip(deltas, nulls, strict=True):
        void: dict[str, Any] = {name: [] if empty_lists and name == "tool_calls" else None for name in names}
        choice = {"index": 0, "delta": {**void, **delta}, "finish_reason": None, "logprobs": None}
        events.append(data_event({"choices": [choice], "usage": None, "service_tier": None}))
    events.append(data_event({"choices": [{"index": None, "delta": None, "finish_reason": "stop"}]}))
    response = reply(*events, DONE)
    assert (response.content, response.reasoning, response.tool_calls) == ("Hi there", "", ())


async def test_b08_characters_that_are_cut_in_half() -> None:
    pieces = [base64.b64decode(piece) for piece in json.loads((CASES / "B08.pieces.json").read_text("utf-8"))]
    assert (await said(*pieces)).text == "你好世界 🌍"
    body = b"".join(pieces)
    for place in range(len(body)):
        assert play(CHAT, [body[:place], body[place:]]).text == "你好世界 🌍"


async def test_b09_only_cr_and_lf_end_lines() -> None:
    assert (await said(case("B09"))).text == "one\u2028two\u2029three\x85four\x0cfive"


@pytest.mark.parametrize("character", "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e\x7f\xa0\ufeff\u200b")
async def test_b09_whatever_else_splits_lines_elsewhere(character: str) -> None:
    text = f"{character}one{character}{character}two{character}"
    events = chat_text(text)
    raw = json.dumps({"choices": [{"delta": {"content": text}}]}, ensure_ascii=False).encode()
    if character >= " ":
        events[1] = b"data: " + raw + b"\n\n"
    assert reply(*events).content == text
    assert reply(*(event.replace(b"\n", b"\r\n") for event in events)).content == text


async def test_b13_reasoning_alone_is_a_reply() -> None:
    async with talking([case("B13")], chat_text("hello")) as (server, stage):
        result = await stage.ask()
        assert (result.status, result.text) == ("completed", "")
        assert "".join(event.text for event in stage.of("reasoning.delta")) == "thinking more"
        assert (await stage.ask("again")).text == "hello"
        sent = server.requests[1].json["messages"]
        assert [message["role"] for message in sent if message["role"] != "system"] == ["user", "user"]


# ---- how a reply ends ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "finish"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content_filter"),
        ("tool_calls", "stop"),
        ("function_call", "stop"),
        ("eos", "stop"),
        ("something_new", "something_new"),
    ],
)
def test_the_word_at_the_end(word: str, finish: str) -> None:
    assert reply(*chat_text("ok", finish=word)).finish_reason == finish
    body = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": word}]}
    assert CHAT.whole(json.dumps(body).encode()).finish_reason == finish


def test_a_finish_reason_without_done_is_an_end_and_done_without_one_too() -> None:
    assert reply(*chat_text("ok")[:-1]) == reply(*chat_text("ok"))
    assert reply(*chat_text("ok")[:2], DONE).content == "ok"


@pytest.mark.parametrize("events", [[], chat_text("ok")[:2], [b": comment\n\n"], [b"data: {}\n\n"], [b"data: [DONE]"]])
def test_an_end_that_nobody_announced_is_a_cut(events: list[bytes]) -> None:
    error = failure(*events)
    assert (error.code, error.retryable) == ("truncated_reply", True)


def test_what_follows_done_is_ignored() -> None:
    assert reply(*chat_text("ok"), chat_event({"content": "more"}), b"data: {nonsense\n\n").content == "ok"


@pytest.mark.parametrize("data", ["{", "nonsense", '{"a":1}}', "[]", "1", '"text"', "null", "[" * 100_000, "DONE"])
def test_an_event_that_is_no_object_breaks_the_reply(data: str) -> None:
    error = failure(f"data: {data}\n\n".encode(), *chat_text("ok"))
    assert (error.code, error.retryable) == ("broken_reply", True)


def test_only_the_first_of_several_answers_counts() -> None:
    def event(index: int, text: str, finish: str | None = None) -> bytes:
        return data_event({"choices": [{"index": index, "delta": {"content": text}, "finish_reason": finish}]})

    assert reply(event(1, "no"), event(0, "yes"), event(1, "no", "length"), event(0, "", "stop"), DONE).content == "yes"


def test_a_refusal_is_text_and_its_finish_is_content_filter() -> None:
    deltas = [{"role": "assistant", "content": None, "refusal": ""}, {"refusal": "I "}, {"refusal": "won't."}]
    response = reply(*map(chat_event, deltas), chat_event({}, "stop"), DONE)
    assert (response.content, response.finish_reason) == ("I won't.", "content_filter")
    assert response.parts[0].extra == {"refusal": True}


def test_a_whole_reply_inside_a_stream() -> None:
    message = {"role": "assistant", "content": "ok", "reasoning": "hm"}
    event = data_event({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
    response = reply(event, DONE)
    assert (response.content, response.reasoning) == ("ok", "hm")
    assert reply(*chat_text("ok")[:2], event, DONE).content == "ok"


# ---- reasoning ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_comes_under_either_name(field: str) -> None:
    response = reply(chat_event({field: "first "}), chat_event({field: "think"}), *chat_text("then say"))
    assert (response.reasoning, response.content) == ("first think", "then say")
    assert response.parts[0].extra == {"reasoning_field": field}
    assert response.provider == STAMP.format(api="openai-chat")


def test_both_names_at_once_are_one_text() -> None:
    assert reply(chat_event({"reasoning_content": "hm", "reasoning": "hm"}), *chat_text("ok")).reasoning == "hm"


def test_reasoning_details_are_joined_by_index_and_kept_whole() -> None:
    one = {"type": "reasoning.text", "index": 0, "format": "f", "text": "one "}
    deltas = [
        {"reasoning": "one ", "reasoning_details": [one]},
        {"reasoning": "two", "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "two"}]},
        {"reasoning_details": [{"type": "reasoning.text", "index": 0, "signature": "s=="}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": "abc", "id": "r1"}]},
    ]
    response = reply(*map(chat_event, deltas), *chat_text("ok"))
    assert response.reasoning == "one two"
    assert response.parts[0].extra["reasoning_details"] == [
        {"type": "reasoning.text", "index": 0, "format": "f", "text": "one two", "signature": "s=="},
        {"type": "reasoning.encrypted", "index": 1, "data": "abc", "id": "r1"},
    ]


def test_details_alone_are_shown_and_those_that_can_not_be_are_kept() -> None:
    shown = reply(
        chat_event({"reasoning_details": [{"type": "reasoning.summary", "summary": "in short"}]}), *chat_text("k")
    )
    assert shown.reasoning == "in short"
    hidden = reply(chat_event({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]}), *chat_text("k"))
    assert (hidden.reasoning, hidden.parts[0].extra["reasoning_details"][0]["data"]) == ("", "x")


def test_content_in_a_list_of_text_and_thinking() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    events = [chat_event({"content": [thinking]}), chat_event({"content": [{"type": "text", "text": "ok"}]})]
    response = reply(*events, chat_event({}, "stop"), DONE)
    assert (response.reasoning, response.content) == ("hm", "ok")


# ---- characters in two pieces -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["content", "reasoning_content", "refusal"])
def test_a_surrogate_pair_in_two_deltas_is_one_character(kind: str) -> None:
    halves = [chat_event({kind: "a\ud83d"}), chat_event({kind: "\ude00b"})]
    events = [*halves, chat_event({}, "stop"), DONE]
    for pieces in (events, [b"".join(events)]):
        played = play(CHAT, pieces)
        assert played.text + played.reasoning == "a😀b"
        assert played.response is not None
        assert (played.response.content or played.response.reasoning) == "a😀b"


def test_a_surrogate_pair_in_two_pieces_of_arguments() -> None:
    texts = ('{"path":"\ud83d', '\ude00"}')
    events = [
        chat_event({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": text}}]}) for text in texts
    ]
    [call] = reply(*events, chat_event({}, "tool_calls"), DONE).tool_calls
    assert call.arguments == {"path": "😀"}


# ---- whatever comes -----------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = ("choices", "delta", "content", "tool_calls", "function", "name", "arguments", "index", "id", "finish_reason")
KEYS += ("usage", "error", "message", "reasoning", "reasoning_details", "function_call", "refusal", "text", "thinking")
ODD = st.recursive(
    JSON,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(ODD, ODD, ODD)
def test_no_event_raises_anything_but_a_model_error(event: Any, delta: Any, call: Any) -> None:
    odd = {"choices": [{"index": 0, "delta": {"tool_calls": [call, {"function": delta}], "content": call}}]}
    for value in (event, {"choices": event}, {"choices": [{"delta": delta, "finish_reason": call}]}, odd):
        body = json.dumps(value).encode()
        play(CHAT, [b"data: " + body + b"\n\n", DONE])
        with suppress(ModelRequestError):
            CHAT.whole(body)


# ---- the list of models -------------------------------------------------------------------------------------------


def test_models_say_what_their_servers_know() -> None:
    wire = OpenAIChatWire("m", stamp="openai-chat")
    rows = [
        {"id": "plain", "object": "model", "owned_by": "x"},
        {"id": "vllm", "max_model_len": 4096},
        {"id": "llama.cpp", "meta": {"n_ctx_train": 8192}},
        {
            "id": "maker/router",
            "name": "Maker: Router",
            "context_length": 200_000,
            "architecture": {"input_modalities": ["text", "image"]},
            "supported_parameters": ["tools", "temperature"],
        },
        {"id": "odd", "max_model_len": "many", "meta": [], "architecture": None},
        {"id": ""},
        {},
        "text",
    ]
    models, page = wire.models({"object": "list", "data": rows})
    assert page is None
    assert [(model.id, model.context_window) for model in models] == [
        ("plain", None),
        ("vllm", 4096),
        ("llama.cpp", 8192),
        ("maker/router", 200_000),
        ("odd", None),
    ]
    router = models[3]
    assert (router.label, router.supports_images, router.supports_tools, router.supports_reasoning) == (
        "Maker: Router",
        True,
        True,
        False,
    )
    assert wire.models(rows)[0] == models
    for listing in (None, [], {}, {"data": None}, "text", 3):
        assert wire.models(listing) == ((), None)
