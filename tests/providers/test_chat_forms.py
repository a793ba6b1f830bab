"""Replies of Chat Completions in the forms that only some servers have: each gives the same as the form of the format.

Also spoilt by chance: a reply or a model error, the same in every cut, that can be kept and sent to anybody.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_server import DONE, chat_event, data_event
from replies import wire_of
from test_any_stream import bytes_spoilt, check, keep_and_send, spoilt, streams
from test_chat_chunks import failure, reply

from kestrel_nb.protocol.errors import ModelRequestError
from kestrel_nb.protocol.sessions import Usage

CHAT = wire_of("openai-chat")
X, Y = '{"x":1}', '{"y":2}'
LOOK, PEEK = ("look", X), ("peek", Y)
END = [chat_event({}, "tool_calls"), DONE]


def call(name: str | None = None, arguments: Any = None, **keys: Any) -> bytes:
    """An event with a piece of a call; what is None is left out."""
    return chat_event({"tool_calls": [piece(name, arguments, **keys)]})


def piece(name: str | None = None, arguments: Any = None, **keys: Any) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {**keys, "function": function}


def choice(**fields: Any) -> bytes:
    return data_event({"choices": [{"index": 0, **fields}]})


WHOLE = {"id": "a", "type": "function", "function": {"name": "look", "arguments": X}}
CALLS: dict[str, tuple[list[bytes], list[tuple[str, str]]]] = {
    "indexes as text": (
        [
            call("look", "", index="0", id="a"),
            call("peek", "", index="1", id="b"),
            call(None, X, index="0"),
            call(None, Y, index="1"),
        ],
        [LOOK, PEEK],
    ),
    "indexes as fractions": (
        [call("look", "", index=0.0), call("peek", "", index=1.0), call(None, X, index=0.0), call(None, Y, index=1.0)],
        [LOOK, PEEK],
    ),
    "a negative index": ([call("look", X, index=-1, id="a")], [LOOK]),
    "an index for each piece": (
        [call("look", "", index=0, id="a"), call(None, '{"x"', index=1), call(None, ":1}", index=2)],
        [LOOK],
    ),
    "an index for each piece, the id too": (
        [call("look", "", index=0, id="a"), call(None, '{"x"', index=1, id="a"), call(None, ":1}", index=2, id="a")],
        [LOOK],
    ),
    "another index at the head": ([call("look", "", index=1, id="a"), call(None, X, index=0)], [LOOK]),
    "an id for each piece": (
        [call("look", "", index=0, id="a"), call(None, '{"x"', index=0, id="b"), call("", ":1}", index=0, id="c")],
        [LOOK],
    ),
    "an id for each piece, no index": (
        [
            call("look", "", id="a"),
            call(None, '{"x"', id="b"),
            call(None, ":1}", id="c"),
            call(None, "", id="d"),
            call("peek", Y, id="e"),
        ],
        [LOOK, PEEK],
    ),
    "an id for each piece, the name again": (
        [call("look", '{"x"', index=0, id="a"), call("look", ":1}", index=0, id="b"), call("look", Y, index=0, id="c")],
        [LOOK, ("look", Y)],
    ),
    "an id that comes late": ([call("look", "", index=0), call(None, X, index=0, id="a")], [LOOK]),
    "an id that is a number": ([call("look", X, id=7)], [LOOK]),
    "an id that is none": ([call("look", X, id={"a": 1})], [LOOK]),
    "a name in pieces": (
        [call("lo", "", index=0, id="a"), call("ok", "", index=0), call(None, X, index=0)],
        [LOOK],
    ),
    "a name in pieces, the id with each": (
        [call("lo", "", index=0, id="a"), call("ok", "", index=0, id="a"), call(None, X, index=0, id="a")],
        [LOOK],
    ),
    "a name that grows": ([call("lo", index=0, id="a"), call("look", index=0, id="a"), call(None, X, index=0)], [LOOK]),
    "a name behind the id": ([call("", "", index=0, id="a"), call("look", X, index=0)], [LOOK]),
    "a name behind the arguments": ([call(None, X, index=0, id="a"), call("look", index=0)], [LOOK]),
    "two of one name, each head blank": (
        [call("look", "", index=0), call(None, X, index=0), call("look", "", index=0), call(None, Y, index=0)],
        [LOOK, ("look", Y)],
    ),
    "two of one name without indexes, each head bare": (
        [call("look"), call(None, X), call("look"), call(None, Y)],
        [LOOK, ("look", Y)],
    ),
    "two of one name, the first with blanks behind it": (
        [call("look", X, index=0), call(None, " \n", index=0), call("look", Y, index=0)],
        [("look", X + " \n"), ("look", Y)],
    ),
    "an index that begins anew behind text": (
        [call("look", X, index=0, id="a"), chat_event({"content": "t"}), call("peek", Y, index=0, id="b")],
        [LOOK, PEEK],
    ),
    "indexes downwards": ([call("look", X, index=5, id="a"), call("peek", Y, index=2, id="b")], [LOOK, PEEK]),
    "one object and not a list": ([chat_event({"tool_calls": piece("look", X, id="a")})], [LOOK]),
    "white space around the name": ([call(" look\n", X, index=0, id="a")], [LOOK]),
    "null in the list": ([chat_event({"tool_calls": [None, piece("look", X, id="a"), "x"]})], [LOOK]),
    "no function around it": ([chat_event({"tool_calls": [{"id": "a", "name": "look", "arguments": X}]})], [LOOK]),
    "a function of null at first": (
        [chat_event({"tool_calls": [{"index": 0, "id": "a", "function": None}]}), call("look", X, index=0)],
        [LOOK],
    ),
    "nothing in a piece": ([call("look", X, index=0, id="a"), chat_event({"tool_calls": [{}]})], [LOOK]),
    "a blank piece at a new index": ([call("look", X, index=0, id="a"), call("", "", index=1, id="")], [LOOK]),
    "arguments as an empty array": ([call("look", [], id="a")], [("look", "")]),
    "an empty object ahead of the arguments": ([call("look", "{}", index=0, id="a"), call(None, X, index=0)], [LOOK]),
    "an empty object ahead, as an object": ([call("look", {}, index=0, id="a"), call(None, X, index=0)], [LOOK]),
    "an empty object ahead, the name and the id again": ([call("look", "{}", id="a"), call("look", X, id="a")], [LOOK]),
    "said again at the end": (
        [
            call("look", X, index=0, id="a"),
            call("peek", Y, index=1, id="b"),
            chat_event({"tool_calls": [piece("look", X, index=0, id="a"), piece("peek", Y, index=1, id="b")]}),
        ],
        [LOOK, PEEK],
    ),
    "said again in another spelling": (
        [call("look", '{"x"', index=0, id="a"), call(None, ": 1}", index=0), call("look", {"x": 1}, index=0, id="a")],
        [("look", '{"x": 1}')],
    ),
    "said again at another index": ([call("look", X, index=0, id="a"), call("look", X, index=1, id="a")], [LOOK]),
    "in both forms at once": (
        [chat_event({"tool_calls": [piece("look", X, id="a")], "function_call": {"name": "look", "arguments": X}})],
        [LOOK],
    ),
    "whole at the end, only the text was streamed": (
        [chat_event({"content": "t"}), choice(message={"content": "t", "tool_calls": [WHOLE]})],
        [LOOK],
    ),
    "whole at the end, one of two was streamed": (
        [call("look", X, id="a"), choice(message={"tool_calls": [WHOLE, {**piece("peek", Y), "id": "b"}]})],
        [LOOK, PEEK],
    ),
    "behind the end": ([chat_event({"content": "t"}, "stop"), call("look", X, id="a")], [LOOK]),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_in_odd_forms(name: str) -> None:
    events, expected = CALLS[name]
    for pieces in ([*events, *END], [b"".join([*events, *END])]):
        response = reply(*pieces)
        assert [(call.name, call.raw_arguments) for call in response.tool_calls] == expected
        assert response.finish_reason == "tool_calls"
        assert len({call.id for call in response.tool_calls}) == len(expected)
        keep_and_send("openai-chat", response)


@pytest.mark.parametrize(
    "events",
    [
        [call("look", "", index=0, id="a"), call("look", "", index=0, id="b"), call(None, X, index=0, id="b")],
        [call("look", "{}", index=0, id="a"), call("look", X, index=0, id="b")],
        [call("look", "{}", index=0), call("look", X, index=0)],
    ],
)
def test_an_empty_call_ahead_of_another_stays_one(events: list[bytes]) -> None:
    assert [call.arguments for call in reply(*events, *END).tool_calls] == [{}, {"x": 1}]


@pytest.mark.parametrize("blank", [{}, {"index": 0, "id": "", "function": {"name": "", "arguments": ""}}, None])
def test_a_call_of_nothing_is_none(blank: Any) -> None:
    response = reply(chat_event({"content": "ok", "tool_calls": [blank]}), *END)
    assert (response.content, response.tool_calls, response.finish_reason) == ("ok", (), "stop")


def test_a_call_of_nothing_that_is_all_of_a_reply_is_told_to_the_model() -> None:
    (found,) = reply(chat_event({"tool_calls": [{"index": 0, "id": "a", "type": "function"}]}), *END).tool_calls
    assert (found.id, found.name) == ("a", "unnamed")


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), {"a": [float("nan")]}])
def test_what_goes_back_can_be_sent_back(odd: Any) -> None:
    events = [
        chat_event({"tool_calls": [{**piece("look", X, id="a"), "extra_content": {"google": odd}}]}),
        chat_event({"reasoning_details": [{"type": "reasoning.encrypted", "data": odd}]}),
    ]
    keep_and_send("openai-chat", reply(*events, *END))


def test_what_gemini_puts_on_a_later_piece_of_a_call_is_kept() -> None:
    signed = chat_event({"tool_calls": [{**piece(None, ":1}", index=0), "extra_content": {"google": "s"}}]})
    (found,) = reply(call("look", '{"x"', index=0, id="a"), signed, *END).tool_calls
    assert (found.raw_arguments, found.extra) == (X, {"extra_content": {"google": "s"}})


# ---- text and reasoning -------------------------------------------------------------------------------------------

TEXT = {"type": "text", "text": "ok"}


@pytest.mark.parametrize(
    "content",
    [
        ["o", "k"],
        [None, 3, TEXT],
        TEXT,
        [{"type": "text", "text": {"value": "ok", "annotations": []}}],
        [{"type": "reference", "reference_ids": [1]}, TEXT],
        [{"type": "output_text", "text": "ok"}],
    ],
)
def test_content_in_odd_forms(content: Any) -> None:
    response = reply(chat_event({"content": content}, "stop"), DONE)
    assert (response.content, response.reasoning) == ("ok", "")
    assert CHAT.whole(json.dumps({"choices": [{"message": {"content": content}}]}).encode()).content == "ok"


@pytest.mark.parametrize("content", [3, True, {}, [], [[]], {"type": "image"}])
def test_content_that_is_none(content: Any) -> None:
    assert reply(chat_event({"content": content}), chat_event({"content": "ok"}, "stop"), DONE).content == "ok"


def test_content_that_refuses() -> None:
    response = reply(chat_event({"content": [{"type": "refusal", "refusal": "no"}]}, "stop"), DONE)
    assert (response.content, response.finish_reason) == ("no", "content_filter")


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning_content": "hm"},
        {"reasoning": "hm"},
        {"thinking": "hm"},
        {"reasoning_text": "hm"},
        {"reasoning": "hm", "reasoning_content": "hm", "thinking": None},
        {"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
        {"reasoning_details": {"type": "reasoning.summary", "summary": "hm"}},
        {"reasoning": "hm", "reasoning_details": [None, {"type": "reasoning.text", "text": "hm"}]},
        {"content": [{"type": "thinking", "thinking": "hm"}]},
        {"content": [{"type": "thinking", "thinking": ["h", {"text": "m"}]}]},
        {"content": [{"type": "reasoning", "reasoning": "hm"}]},
        {"content": {"type": "thinking", "text": "hm"}},
    ],
)
def test_reasoning_under_each_of_its_names(delta: dict[str, Any]) -> None:
    response = reply(chat_event(delta), chat_event({"content": "ok"}, "stop"), DONE)
    assert (response.reasoning, response.content) == ("hm", "ok")
    keep_and_send("openai-chat", response)


def test_details_that_say_at_the_end_what_was_streamed_are_kept_and_not_shown_again() -> None:
    detail = {"type": "reasoning.text", "text": "hm", "signature": "s=="}
    events = [chat_event({"reasoning": "h"}), chat_event({"reasoning": "m"}), chat_event({"content": "ok"})]
    response = reply(*events, chat_event({"reasoning_details": [detail]}, "stop"), DONE)
    assert (response.reasoning, response.parts[0].extra["reasoning_details"]) == ("hm", [detail])


@pytest.mark.parametrize("odd", ["hm", 3, True, [1, "x", None], {}])
def test_reasoning_details_that_are_none(odd: Any) -> None:
    events = [chat_event({"reasoning_details": odd}), chat_event({"content": "ok"}, "stop")]
    assert reply(*events, DONE).content == "ok"


# ---- choices, ends and counts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "event",
    [
        {"choices": {"index": 0, "delta": {"content": "ok"}}},
        {"choices": [None, {"index": 0, "delta": {"content": "ok"}}]},
        {"choices": [{"index": "0", "delta": {"content": "ok"}}]},
        {"choices": [{"delta": {"content": "ok"}}]},
        {"choices": [{"delta": {}, "message": {"role": "assistant", "content": "ok"}}]},
        {"choices": [{"text": "ok"}]},
        [{"choices": [{"delta": {"content": "ok"}}]}],
    ],
)
def test_choices_in_odd_forms(event: Any) -> None:
    assert reply(data_event(event), chat_event({}, "stop"), DONE).content == "ok"
    assert CHAT.whole(json.dumps(event).encode()).content == "ok"


@pytest.mark.parametrize(
    ("word", "finish"),
    [
        ("STOP", "stop"),
        ("eos_token", "stop"),
        ("end_turn", "stop"),
        (7, "stop"),
        ("LENGTH", "length"),
        ("max_output_tokens", "length"),
        ("CONTENT_FILTER", "content_filter"),
        ("sensitive", "content_filter"),
        ("tool_use", "stop"),
    ],
)
def test_other_words_for_the_end(word: Any, finish: str) -> None:
    assert reply(chat_event({"content": "ok"}, word), DONE).finish_reason == finish


@pytest.mark.parametrize("word", ["error", "ERROR", "network_error", "failed"])
def test_an_end_that_is_an_error(word: str) -> None:
    assert failure(chat_event({"content": "ok"}, word), DONE).retryable
    told = choice(delta={"content": "ok"}, finish_reason=word, error={"message": "no room", "code": 400})
    assert "no room" in str(failure(told, DONE))


@pytest.mark.parametrize("cut", ["length", "max_tokens", "content_filter"])
@pytest.mark.parametrize("later", ["stop", "tool_calls", "unheard_of"])
def test_a_cut_is_not_taken_back(cut: str, later: str) -> None:
    response = reply(call("look", X, id="a"), chat_event({}, cut), chat_event({}, later), DONE)
    assert response.finish_reason == ("content_filter" if cut == "content_filter" else "length")
    assert reply(chat_event({"content": "ok"}, "stop"), chat_event({}, "length"), DONE).finish_reason == "length"


def counted(*usages: Any) -> Usage:
    return reply(
        *(data_event({"choices": [{"delta": {"content": "t"}}], "usage": usage}) for usage in usages), DONE
    ).usage


@pytest.mark.parametrize(
    "usages",
    [
        [{"prompt_tokens": 5, "completion_tokens": 3}],
        [{"input_tokens": 5, "output_tokens": 3}],
        [{"prompt_tokens": 5, "completion_tokens": 1}, {"prompt_tokens": 5, "completion_tokens": 3}],
        [{"prompt_tokens": 5, "completion_tokens": 3}, {"prompt_tokens": 0, "completion_tokens": 0}, None],
        [{"prompt_tokens": 5}, None, {"completion_tokens": 3}],
        [{"prompt_tokens": 5.0, "completion_tokens": 3.0}, [], "many"],
    ],
)
def test_usage_in_any_event(usages: list[Any]) -> None:
    assert counted(*usages) == Usage(input_tokens=5, output_tokens=3)


def test_nothing_is_waited_for_behind_a_usage_that_stands_alone() -> None:
    usage = data_event({"choices": [], "usage": {"prompt_tokens": 5}})
    for events, done in (([chat_event({"content": "ok"}, "stop"), usage], True), ([usage], False)):
        parser = CHAT.parser()
        for event in events:
            parser.feed(event)
        assert parser.done is done
    assert reply(usage, chat_event({"content": "ok"}, "stop"), DONE).usage == Usage(input_tokens=5)


def test_what_groq_tells_beside_the_reply() -> None:
    end = data_event({"choices": [{"delta": {}, "finish_reason": "stop"}], "x_groq": {"usage": {"prompt_tokens": 5}}})
    assert reply(chat_event({"content": "ok"}), end, DONE).usage == Usage(input_tokens=5)
    failed = data_event({"choices": [{"delta": {}}], "x_groq": {"error": "over capacity"}})
    assert "over capacity" in str(failure(failed, DONE))


# ---- errors and events that say nothing ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "event",
    [
        {"message": "boo", "code": 500},
        {"choices": [], "message": "boo"},
        {"detail": "boo"},
        {"detail": [{"msg": "boo"}]},
        {"error_msg": "boo", "error_code": 3},
        {"errors": [{"message": "boo"}]},
        {"errors": ["boo"]},
        [{"error": {"message": "boo", "code": 503}}],
        {"choices": [{"delta": {"content": ""}, "error": {"message": "boo"}}]},
        {"choices": [{"delta": {}, "error": "boo"}]},
        {"choices": [{"delta": {"error": {"message": "boo"}}}]},
    ],
)
def test_errors_in_odd_forms(event: Any) -> None:
    for events in ([data_event(event), DONE], [chat_event({"role": "assistant"}), data_event(event), DONE]):
        error = failure(*events)
        assert "boo" in str(error)
        assert error.retryable
    with pytest.raises(ModelRequestError, match="boo"):
        CHAT.whole(json.dumps(event).encode())


@pytest.mark.parametrize(
    "data", ["boo", '"boo"', '{"message": "boo"}', '{"error": "boo"}', '{"choices": [], "x": "boo"}']
)
def test_an_event_that_is_named_error(data: str) -> None:
    assert "boo" in str(failure(f"event: error\ndata: {data}\n\n".encode()))


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"message": "boo", "status": 429}, 429),
        ({"message": "boo", "code": "503"}, 503),
        ({"message": "boo", "type": "overloaded_error"}, 529),
        ({"message": "boo", "type": "BadRequestError"}, 400),
        ({"message": "boo", "code": "content_filter"}, 400),
        ({"message": "boo", "code": 1302}, 500),
        ({"message": "boo", "code": 200}, 500),
    ],
)
def test_the_status_of_an_error_inside_a_stream(error: dict[str, Any], status: int) -> None:
    assert failure(data_event({"error": error})).status == status
    beside = {"error": {"message": "boo"}, **{key: value for key, value in error.items() if key != "message"}}
    if "type" not in error:
        assert failure(data_event(beside)).status == status


@pytest.mark.parametrize("event", [{}, {"choices": []}, {"id": "c", "usage": {"prompt_tokens": 3}}, {"error": False}])
def test_an_end_without_any_answer_is_no_empty_answer(event: Any) -> None:
    error = failure(data_event(event), DONE)
    assert (error.code, error.retryable) == ("broken_reply", True)
    assert reply(data_event(event), chat_event({"content": "ok"}, "stop"), DONE).content == "ok"


@pytest.mark.parametrize(
    "nothing",
    [
        b"data:\n\n",
        b"data:   \n\n",
        b"event: ping\n\n",
        b'data: {"code": 0, "msg": "success"}\n\n',
        b'data: {"id": "c", "object": "chat.completion.chunk"}\n\n',
        b"event: ping\ndata: ping\n\n",
        b"event: keepalive\ndata: 1\n\n",
        b'event: ping\ndata: {"type": "ping"}\n\n',
        b": comment\n\nid: 3\n\nretry: 100\n\n",
    ],
)
def test_events_that_say_nothing(nothing: bytes) -> None:
    assert reply(nothing, chat_event({"content": "ok"}), nothing, chat_event({}, "stop"), nothing, DONE).content == "ok"


@pytest.mark.parametrize(
    "done", [b"data:[DONE]\n\n", b"data:  [DONE] \n\n", b'data: "[DONE]"\n\n', b"event: e\ndata: [DONE]\n\n"]
)
def test_done_in_odd_forms(done: bytes) -> None:
    assert reply(chat_event({"content": "ok"}), done).content == "ok"


# ---- spoilt by chance ---------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 10**9))
def test_chat_events_spoilt_by_chance(seed: int) -> None:
    dice = random.Random(seed)
    events = spoilt(dice.choice(streams("openai-chat")), dice)
    check("openai-chat", b"".join([*map(data_event, events), DONE]), dice)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**9))
def test_chat_bytes_spoilt_by_chance(seed: int) -> None:
    dice = random.Random(seed)
    check(
        "openai-chat", bytes_spoilt(b"".join([*map(data_event, dice.choice(streams("openai-chat"))), DONE]), dice), dice
    )
