"""Calls in streams of Chat Completions as servers send them: none lost, none merged, each run once with its arguments.

Each test named after a case runs the collected stream through the real loop and a server of raw sockets, and then the
other streams of its kind.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_server import DONE, ModelServer, chat_event, chat_text, streamed
from replies import play, wire_of
from stage import FunctionTool, Stage, results

from kestrel_nb.protocol.sessions import RunResult
from kestrel_nb.providers.remote import OpenAIChatModel

CASES = Path(__file__).parents[1] / "data/cases"
ANYTHING = {"type": "object"}
END = [chat_event({}, "tool_calls"), DONE]


def case(name: str) -> bytes:
    return (CASES / f"{name}.sse").read_bytes()


def piece(name: str | None = None, arguments: Any = None, **keys: Any) -> bytes:
    """One event with one piece of a call; what is None is left out."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return chat_event({"tool_calls": [{**keys, "function": function}]})


class Desk:
    """A session whose model is on a server, with tools that note how they were called."""

    def __init__(self, server: ModelServer, names: Sequence[str]) -> None:
        self.server = server
        self.ran: list[tuple[str, Mapping[str, Any]]] = []
        tools = [FunctionTool(name, self.note(name), parameters=ANYTHING) for name in names]
        self.stage = Stage(OpenAIChatModel("m", base_url=server.url), tools)

    def note(self, name: str) -> Any:
        def function(args: Mapping[str, Any], _: Any) -> str:
            self.ran.append((name, dict(args)))
            return f"{name} was here"

        return function

    @property
    def next_request(self) -> list[dict[str, Any]]:
        """The messages that the model was sent after the reply under test."""
        messages: list[dict[str, Any]] = self.server.requests[1].json["messages"]
        return messages


NAMES = ("clock_now", "list_dir", "read_file", "write_file")


@asynccontextmanager
async def asked(*events: bytes) -> AsyncIterator[tuple[Desk, RunResult]]:
    """A run whose first reply is ``events`` and whose second one says that all is done."""
    async with ModelServer([streamed(*events), streamed(*chat_text("done"))]) as server:
        desk = Desk(server, NAMES)
        result = await desk.stage.ask()
        yield desk, result
        desk.stage.check()


async def ran(*events: bytes) -> list[tuple[str, Mapping[str, Any]]]:
    async with asked(*events) as (desk, result):
        assert (result.status, result.text) == ("completed", "done")
        return desk.ran


# ---- the cases -----------------------------------------------------------------------------------------------------


async def test_a01_pieces_without_an_index_are_one_call() -> None:
    assert await ran(case("A01")) == [("read_file", {"path": "data/a.csv"})]


@pytest.mark.parametrize("keys", [{}, {"index": None}, {"index": 0}, {"index": 3}, {"index": "0"}, {"index": False}])
@pytest.mark.parametrize("id", [{}, {"id": "call_1"}, {"id": ""}, {"id": None}])
async def test_a01_whatever_stands_for_the_index(keys: dict[str, Any], id: dict[str, Any]) -> None:
    events = [piece("read_file", "", **keys, **id), piece(None, '{"pa', **keys), piece(None, 'th":"a"}', **keys)]
    assert await ran(*events, *END) == [("read_file", {"path": "a"})]


async def test_a02_a_new_id_begins_a_new_call_without_an_index() -> None:
    assert await ran(case("A02")) == [("read_file", {"path": "a.txt"}), ("read_file", {"path": "b.txt"})]


async def test_a03_another_id_at_the_same_index_is_another_call() -> None:
    assert await ran(case("A03")) == [("read_file", {"path": "a"}), ("read_file", {"path": "b"})]


async def test_a03_two_calls_without_ids_at_one_index() -> None:
    one, two = '{"path":"a"}', '{"path":"b"}'
    both = [("read_file", {"path": "a"}), ("read_file", {"path": "b"})]
    assert await ran(piece("read_file", one, index=0), piece("read_file", two, index=0), *END) == both
    assert await ran(piece("read_file", one), piece("read_file", two), *END) == both
    empty = [("clock_now", {}), ("list_dir", {})]
    assert await ran(piece("clock_now", "", index=0), piece("list_dir", "", index=0), *END) == empty


async def test_a03_two_calls_in_one_event() -> None:
    calls = [{"function": {"name": "read_file", "arguments": f'{{"path":"{name}"}}'}} for name in "ab"]
    both = [("read_file", {"path": "a"}), ("read_file", {"path": "b"})]
    for more in ({}, {"index": 0}, {"index": None}, {"id": "same"}, {"id": "same", "index": 0}):
        event = chat_event({"tool_calls": [{**call, **more} for call in calls]})
        assert await ran(event, *END) == both, more


async def test_a05_a_name_that_is_said_again_is_the_same_name() -> None:
    assert await ran(case("A05")) == [("read_file", {"path": "a.txt"})]


@pytest.mark.parametrize("keys", [{"index": 0}, {"id": "c"}, {"id": "c", "index": 0}, {}])
async def test_a05_with_and_without_ids_and_indexes(keys: dict[str, Any]) -> None:
    pieces = ["", '{"path":', '{"deep":', '"a"}', "}", ""]
    assert await ran(*(piece("read_file", text, **keys) for text in pieces), *END) == [
        ("read_file", {"path": {"deep": "a"}})
    ]


async def test_a05_a_whole_call_that_is_said_again_runs_once() -> None:
    again = piece("read_file", '{"path":"a"}', id="c", index=0)
    assert await ran(again, again, *END) == [("read_file", {"path": "a"})]


@pytest.mark.parametrize("arguments", ["", None, " \n", "{}", {}, "null-key"])
async def test_a07_no_arguments_mean_an_empty_object(arguments: Any) -> None:
    function = {"name": "clock_now", "arguments": arguments}
    if arguments == "null-key":
        del function["arguments"]
    event = chat_event({"tool_calls": [{"index": 0, "id": "call_1", "function": function}]})
    for events in ([case("A07")], [event, *END]):
        async with asked(*events) as (desk, _):
            assert desk.ran == [("clock_now", {})]
            [call] = desk.next_request[-2]["tool_calls"]
            assert json.loads(call["function"]["arguments"]) == {}
            assert desk.next_request[-2]["content"] is None


async def test_a09_a_call_cut_off_by_the_token_limit_is_not_run() -> None:
    async with asked(case("A09")) as (desk, result):
        assert desk.ran == []
        assert result.status == "completed"
        assert "cut off at its token limit" in desk.next_request[-1]["content"]
        assert [event.text for event in desk.stage.of("notice")] == ["The reply was cut off at its token limit."]


@pytest.mark.parametrize("finish", ["length", "max_tokens", "model_length", "MAX_TOKENS"])
@pytest.mark.parametrize("end", [0, 1, 12, 24, 36])
async def test_a09_wherever_and_however_it_is_cut(end: int, finish: str) -> None:
    arguments = '{"path":"README.md","content":"# T"}'[:end]
    events = [piece("write_file", arguments, index=0, id="call_1"), chat_event({}, finish), DONE]
    async with asked(*events) as (desk, _):
        assert desk.ran == []
        assert isinstance(json.loads(desk.next_request[-2]["tool_calls"][0]["function"]["arguments"]), dict)


async def test_a10_a_broken_call_does_not_sink_its_sibling() -> None:
    async with asked(case("A10")) as (desk, _):
        assert desk.ran == [("list_dir", {"path": "."})]
        broken, fine = results(desk.stage.session.messages)
        assert "not valid JSON" in broken
        assert fine == "list_dir was here"
        assert [message["tool_call_id"] for message in desk.next_request[-2:]] == ["call_1", "call_2"]


@pytest.mark.parametrize(
    "arguments", ['{"a":1}{"a":2}', "[1]", "null", '"text"', "{'a': 1}", "NaN", "[" * 100_000, "{"]
)
async def test_a10_arguments_that_are_no_object_never_reach_a_tool(arguments: str) -> None:
    events = [piece("list_dir", '{"n":1}', index=0, id="x"), piece("write_file", arguments, index=1, id="y"), *END]
    async with asked(*events) as (desk, _):
        assert desk.ran == [("list_dir", {"n": 1})]
        sent = [call["function"]["arguments"] for call in desk.next_request[-3]["tool_calls"]]
        assert sent == ['{"n":1}', "{}"]  # servers that read them refuse each later request with them


async def test_a11_calls_decide_and_not_the_finish_word() -> None:
    assert await ran(case("A11")) == [("list_dir", {"path": "."})]


@pytest.mark.parametrize("finish", ["stop", "function_call", "eos", "end_turn", "something", "", None])
async def test_a11_whatever_the_finish_word(finish: str | None) -> None:
    event = piece("list_dir", '{"path":"."}', index=0, id="call_1")
    assert await ran(event, chat_event({}, finish), DONE) == [("list_dir", {"path": "."})]


async def test_the_old_form_of_a_call() -> None:
    pieces = ({"name": "list_dir", "arguments": ""}, {"arguments": '{"path"'}, {"arguments": ':"."}'})
    events = [*(chat_event({"function_call": piece}) for piece in pieces), chat_event({}, "function_call"), DONE]
    assert await ran(*events) == [("list_dir", {"path": "."})]


async def test_arguments_as_an_object_are_taken() -> None:
    assert await ran(piece("read_file", {"path": "ü", "n": [1, None]}, id="c"), *END) == [
        ("read_file", {"path": "ü", "n": [1, None]})
    ]


async def test_ids_that_come_twice_are_made_unique() -> None:
    one, two = piece("read_file", '{"n":1}', id="x", index=0), piece("read_file", '{"n":2}', id="x", index=1)
    async with asked(one, two, *END) as (desk, _):
        assert [args for _, args in desk.ran] == [{"n": 1}, {"n": 2}]
        ids = [call["id"] for call in desk.next_request[-3]["tool_calls"]]
        assert len(set(ids)) == 2
        assert [message["tool_call_id"] for message in desk.next_request[-2:]] == ids


# ---- calls of any kind, in any form that can be told apart ---------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
OBJECTS = st.dictionaries(st.text(max_size=4), VALUES, max_size=3)
CALLS = st.lists(st.tuples(st.sampled_from(("read_file", "list_dir", "a")), OBJECTS), min_size=1, max_size=4)
INDEXES: dict[str, Callable[[int], dict[str, Any]]] = {
    "real": lambda number: {"index": number},
    "from seven": lambda number: {"index": 7 + number},
    "zero": lambda _: {"index": 0},
    "null": lambda _: {"index": None},
    "missing": lambda _: {},
}


@st.composite
def call_streams(draw: st.DrawFn) -> tuple[list[tuple[str, str]], list[bytes]]:
    """Calls as names and argument texts, and events that say them in one of the forms that servers use."""
    calls = [(name, json.dumps(args, ensure_ascii=draw(st.booleans()))) for name, args in draw(CALLS)]
    index = draw(st.sampled_from(list(INDEXES)))
    ids = draw(st.sampled_from(("head", "every", "none")))
    restated = draw(st.booleans())
    blank_head = draw(st.booleans())
    streams: list[list[bytes]] = []
    for number, (name, arguments) in enumerate(calls):
        cuts = sorted(draw(st.lists(st.integers(1, len(arguments) - 1), max_size=4)))
        texts = [arguments[a:b] for a, b in zip([0, *cuts], [*cuts, len(arguments)], strict=True)]
        events: list[bytes] = []
        for place, text in enumerate(["", *texts] if blank_head else texts):
            keys: dict[str, Any] = {"real": {"index": number}, "null": {"index": None}, "zero": {"index": 0}}.get(
                index, {}
            )
            keys = {"index": 7 + number} if index == "from seven" else dict(keys)
            if ids == "every" or (ids == "head" and place == 0):
                keys["id"] = f"call_{number}"
            events.append(piece(name if restated or place == 0 else None, text, **keys))
        streams.append(events)
    mixed = index in ("real", "from seven") or ids == "every"
    return calls, draw(interleaved(streams)) if mixed else [event for events in streams for event in events]


@st.composite
def interleaved(draw: st.DrawFn, streams: list[list[bytes]]) -> list[bytes]:
    """All events; each stream in its order, and the first events of the streams in theirs."""
    heads = [events[0] for events in streams]
    rests = [list(events[1:]) for events in streams]
    if not draw(st.booleans()):
        return [event for events in streams for event in events]
    mixed = heads
    while any(rests):
        mixed.append(draw(st.sampled_from([rest for rest in rests if rest])).pop(0))
    return mixed


@settings(max_examples=300, deadline=None)
@given(call_streams(), st.sampled_from(("stop", "tool_calls", None)), st.integers(1, 400))
def test_calls_come_out_as_they_were_made(
    stream: tuple[list[tuple[str, str]], list[bytes]], finish: str | None, size: int
) -> None:
    calls, events = stream
    body = b"".join([*events, chat_event({}, finish), DONE])
    played = play(wire_of("openai-chat"), [body[i : i + size] for i in range(0, len(body), size)])
    assert [(call.name, call.raw_arguments) for call in played.tool_calls] == calls
    assert list(played.calls.values()) == calls
    assert list(played.calls) == [call.id for call in played.tool_calls]
    assert played.response is not None
    assert played.response.finish_reason == "tool_calls"
