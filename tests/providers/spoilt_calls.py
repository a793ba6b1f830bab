"""Replies that ask for calls in other ways than their formats say, and the calls that they mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dialects import (
    APIS,
    added,
    arguments,
    block,
    completed,
    delta,
    done,
    item,
    json_delta,
    last,
    line,
    parts,
    start,
    stop,
    use,
)

Expected = list[tuple[str, Any]]

A, B = {"x": 1}, {"y": 2}
AT, BT = '{"x": 1}', '{"y": 2}'
JA, JB = json_delta(AT), json_delta(BT)
HALVES = (json_delta('{"x"'), json_delta(": 1}"))
LOOK, PEEK = use("a", "look"), use("b", "peek")
ITEM_A, ITEM_B = item("a", "look", AT), item("b", "peek", BT)
BARE_A, BARE_B = item("a", "look", ""), item("b", "peek", "")


def without(event: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key not in keys}


def stripped(events: Sequence[Any], *keys: str) -> list[Any]:
    return [without(event, *keys) for event in events]


def only(*asked: dict[str, Any]) -> dict[str, Any]:
    return line(tool_calls=list(asked))


def function(name: Any, given: Any, **fields: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": given}, **fields}


BOTH: Expected = [("look", A), ("peek", B)]
ONE: Expected = [("look", A)]
NONE: Expected = [("look", {})]
STOP = {"type": "content_block_stop"}

ANTHROPIC: list[tuple[str, list[Any], Expected]] = [
    ("no index anywhere", stripped([*block(0, LOOK, *HALVES), *block(0, PEEK, JB), *stop()], "index"), BOTH),
    ("no index in pieces", [start(0, LOOK), without(delta(0, JA), "index"), {**STOP, "index": 0}, *stop()], ONE),
    ("an index in pieces alone", [start(None, LOOK), delta(0, JA), STOP, *stop()], ONE),
    ("an unknown index in pieces", [start(0, LOOK), delta(7, JA), {**STOP, "index": 7}, *stop()], ONE),
    ("an index as text", [start("0", LOOK), delta(0, JA), *stop()], ONE),
    ("one index for all", [*block(0, LOOK, JA), *block(0, PEEK, JB), *stop()], BOTH),
    (
        "one index for all, nothing closed",
        [start(0, LOOK), delta(0, JA), start(0, PEEK), delta(0, JB), *stop()],
        BOTH,
    ),
    (
        "interleaved",
        [start(0, LOOK), start(1, PEEK), delta(1, JB), *(delta(0, half) for half in HALVES), *stop()],
        BOTH,
    ),
    ("indexes out of order", [*block(5, LOOK, JA), *block(2, PEEK, JB), *stop()], BOTH),
    (
        "text under the index of a call",
        [*block(0, LOOK, JA), delta(0, {"type": "text_delta", "text": "t"}), *stop()],
        ONE,
    ),
    ("pieces behind the end of their block", [start(0, LOOK), {**STOP, "index": 0}, delta(0, JA), *stop()], ONE),
    ("announced twice", [start(0, LOOK), *block(0, LOOK, JA), *stop()], ONE),
    ("said twice", [*block(0, LOOK, JA), *block(0, LOOK, JA), *stop()], ONE),
    ("one id for two calls", [*block(0, LOOK, JA), *block(1, {**PEEK, "id": "a"}, JB), *stop()], BOTH),
    ("no id", [*block(0, without(LOOK, "id"), JA), *block(1, {**PEEK, "id": None}, JB), *stop()], BOTH),
    ("an id that is a number", [*block(0, {**LOOK, "id": 4}, JA), *stop()], ONE),
    ("no type of a block", [*block(0, without(LOOK, "type"), JA), *stop()], ONE),
    ("no type of a piece", [*block(0, LOOK, without(JA, "type")), *stop()], ONE),
    ("a piece as an object", [*block(0, LOOK, json_delta(A)), *stop()], ONE),
    ("all at the beginning", [*block(0, {**LOOK, "input": A}), *stop()], ONE),
    ("all at the beginning, nothing closed", [start(0, {**LOOK, "input": A}), *stop()], ONE),
    ("all at the beginning as text", [*block(0, {**LOOK, "input": AT}), *stop()], ONE),
    ("all at the beginning and in pieces", [*block(0, {**LOOK, "input": A}, JA), *stop()], ONE),
    ("input of null", [*block(0, {**LOOK, "input": None}), *stop()], NONE),
    ("input left out", [*block(0, without(LOOK, "input")), *stop()], NONE),
    ("an empty array", [*block(0, {**LOOK, "input": []}), *stop()], NONE),
    ("empty pieces", [*block(0, LOOK, json_delta(""), json_delta(" \n"), json_delta(None)), *stop()], NONE),
    ("nothing closed, no arguments", [start(0, LOOK), *stop()], NONE),
    ("no reason", [*block(0, LOOK, JA), {"type": "message_stop"}], ONE),
    ("the wrong reason", [*block(0, LOOK, JA), *stop("end_turn")], ONE),
    ("an unknown reason", [*block(0, LOOK, JA), *stop("enough")], ONE),
    ("cut", [*block(0, LOOK, json_delta('{"x": ')), *block(1, PEEK, JB), *stop()], [("look", None), ("peek", B)]),
    (
        "a whole reply in one event",
        [{"type": "message", "content": [{**LOOK, "input": A}], "stop_reason": "tool_use"}],
        ONE,
    ),
]
RESPONSES: list[tuple[str, list[Any], Expected]] = [
    (
        "no index anywhere",
        stripped([added(0, BARE_A), done(0, ITEM_A), added(1, BARE_B), done(1, ITEM_B), completed()], "output_index"),
        BOTH,
    ),
    (
        "one index for all",
        [added(0, BARE_A), done(0, ITEM_A), added(0, BARE_B), done(0, ITEM_B), completed()],
        BOTH,
    ),
    (
        "one index for all, announced first",
        [added(0, BARE_A), added(0, BARE_B), done(0, ITEM_A), done(0, ITEM_B), completed()],
        BOTH,
    ),
    (
        "interleaved",
        [
            added(0, BARE_A),
            added(1, BARE_B),
            arguments(BT, output_index=1),
            arguments(AT, output_index=0),
            completed(),
        ],
        BOTH,
    ),
    (
        "interleaved by id",
        [
            added(0, BARE_A),
            added(1, BARE_B),
            arguments(BT, item_id="fc_b"),
            arguments(AT, item_id="fc_a"),
            completed(),
        ],
        BOTH,
    ),
    (
        "closed in another order",
        [added(0, BARE_A), added(1, BARE_B), done(1, ITEM_B), done(0, ITEM_A), completed()],
        BOTH,
    ),
    ("only finished items", [done(0, ITEM_A), done(1, ITEM_B), completed()], BOTH),
    ("only finished items, one index", [done(0, ITEM_A), done(0, ITEM_B), completed()], BOTH),
    ("only in the last event", [completed(ITEM_A, ITEM_B)], BOTH),
    (
        "only in the last event, without ids",
        [completed(without(ITEM_A, "id", "call_id"), without(ITEM_B, "id", "call_id"))],
        BOTH,
    ),
    ("said twice", [added(0, BARE_A), done(0, ITEM_A), done(0, ITEM_A), completed()], ONE),
    ("announced twice", [added(0, BARE_A), added(0, BARE_A), done(0, ITEM_A), completed(ITEM_A)], ONE),
    (
        "one call id for two calls",
        [
            added(0, BARE_A),
            done(0, ITEM_A),
            added(1, {**BARE_B, "call_id": "a"}),
            done(1, {**ITEM_B, "call_id": "a"}),
            completed(),
        ],
        BOTH,
    ),
    (
        "one item id for two calls",
        [
            added(0, BARE_A),
            added(1, {**BARE_B, "id": "fc_a"}),
            done(0, ITEM_A),
            done(1, {**ITEM_B, "id": "fc_a"}),
            completed(),
        ],
        BOTH,
    ),
    (
        "no ids",
        [added(0, without(BARE_A, "id", "call_id")), done(0, without(ITEM_A, "id", "call_id")), completed()],
        ONE,
    ),
    (
        "an id for each event",
        [
            added(0, {**BARE_A, "id": "p"}),
            arguments(AT, item_id="q", output_index=0),
            done(0, {**ITEM_A, "id": "r"}),
            completed({**ITEM_A, "id": "s"}),
        ],
        ONE,
    ),
    (
        "an id for each event, no index",
        [
            added(None, {**BARE_A, "id": "p"}),
            arguments(AT, item_id="q"),
            done(None, {**ITEM_A, "id": "r"}),
            completed(),
        ],
        ONE,
    ),
    (
        "arguments in pieces alone",
        [
            added(0, BARE_A),
            arguments('{"x"', item_id="fc_a"),
            arguments(": 1}", item_id="fc_a"),
            done(0, BARE_A),
            completed(),
        ],
        ONE,
    ),
    (
        "arguments in pieces, left out at the end",
        [added(0, BARE_A), arguments(AT, item_id="fc_a"), done(0, without(ITEM_A, "arguments")), completed()],
        ONE,
    ),
    (
        "arguments in one event of their own",
        [
            added(0, BARE_A),
            {"type": "response.function_call_arguments.done", "item_id": "fc_a", "arguments": AT},
            done(0, BARE_A),
            completed(),
        ],
        ONE,
    ),
    (
        "arguments told again",
        [
            added(0, BARE_A),
            arguments(AT, item_id="fc_a"),
            {"type": "response.function_call_arguments.done", "item_id": "fc_a", "arguments": AT},
            completed(),
        ],
        ONE,
    ),
    ("arguments as an object", [done(0, {**ITEM_A, "arguments": A}), completed()], ONE),
    ("a piece as an object", [added(0, BARE_A), arguments(A, item_id="fc_a"), completed()], ONE),
    ("arguments of null", [done(0, {**ITEM_A, "arguments": None}), completed()], NONE),
    ("arguments left out", [done(0, without(ITEM_A, "arguments")), completed()], NONE),
    ("an empty array", [done(0, {**ITEM_A, "arguments": []}), completed()], NONE),
    ("blank arguments", [done(0, {**ITEM_A, "arguments": " \n"}), completed()], NONE),
    ("named at the beginning alone", [added(0, BARE_A), done(0, without(ITEM_A, "name")), completed()], ONE),
    ("no type of an item", [done(0, without(ITEM_A, "type")), completed()], ONE),
    ("no status", [done(0, ITEM_A), {"type": "response.completed"}], ONE),
    ("a whole reply in one event", [{"object": "response", "status": "completed", "output": [ITEM_A]}], ONE),
    ("announced whole, nothing closed", [added(0, ITEM_A), completed()], ONE),
    ("announced whole and in pieces", [added(0, ITEM_A), arguments(AT, item_id="fc_a"), completed()], ONE),
    (
        "the whole differs from the pieces, nothing closed",
        [
            added(0, BARE_A),
            arguments('{"x"', item_id="fc_a"),
            {"type": "response.function_call_arguments.done", "item_id": "fc_a", "arguments": AT},
            completed(),
        ],
        ONE,
    ),
    (
        "a piece ahead of its announcement",
        [
            arguments('{"x"', item_id="fc_a"),
            added(0, BARE_A),
            arguments(": 1}", item_id="fc_a"),
            completed(),
        ],
        ONE,
    ),
    (
        "named with the whole of the arguments alone",
        [
            added(0, without(BARE_A, "name")),
            {"type": "response.function_call_arguments.done", "item_id": "fc_a", "name": "look", "arguments": AT},
            completed(),
        ],
        ONE,
    ),
    (
        "a call id for each event and no id of the item",
        [added(0, without(BARE_A, "id")), done(0, {**without(ITEM_A, "id"), "call_id": "z"}), completed()],
        ONE,
    ),
    ("a call id for each event", [added(0, BARE_A), done(0, {**ITEM_A, "call_id": "z"}), completed()], ONE),
    (
        "a call id for each event, in the last event alone",
        [added(0, BARE_A), arguments(AT, item_id="fc_a"), completed({**ITEM_A, "call_id": "z"})],
        ONE,
    ),
    ("said twice in the last event", [done(0, ITEM_A), completed(ITEM_A, ITEM_A)], ONE),
    (
        "one item id for two calls, one in the last event",
        [done(0, ITEM_A), completed(ITEM_A, {**ITEM_B, "id": "fc_a"})],
        BOTH,
    ),
    (
        "an item of its own that is not complete",
        [done(0, {**ITEM_A, "status": "incomplete"}), completed()],
        [("look", None)],
    ),
    ("another name of the end", [done(0, ITEM_A), {**completed(), "type": "response.done"}], ONE),
    (
        "text between",
        [added(0, BARE_A), {"type": "response.output_text.delta", "delta": "t"}, arguments(AT), completed()],
        ONE,
    ),
    (
        "cut",
        [done(0, {**ITEM_A, "arguments": '{"x": '}), done(1, ITEM_B), completed()],
        [("look", None), ("peek", B)],
    ),
]
GEMINI: list[tuple[str, list[Any], Expected]] = [
    (
        "two in one",
        [
            parts(
                {"functionCall": {"name": "look", "args": A}},
                {"functionCall": {"name": "peek", "args": B}},
                finish="STOP",
            )
        ],
        BOTH,
    ),
    (
        "one id for two calls",
        [
            parts({"functionCall": {"id": "a", "name": "look", "args": A}}),
            parts({"functionCall": {"id": "a", "name": "peek", "args": B}}, finish="STOP"),
        ],
        BOTH,
    ),
    (
        "said twice",
        [
            parts({"functionCall": {"id": "a", "name": "look", "args": A}}),
            parts({"functionCall": {"id": "a", "name": "look", "args": A}}, finish="STOP"),
        ],
        ONE,
    ),
    (
        "two alike without ids",
        [
            parts(
                {"functionCall": {"name": "look", "args": A}},
                {"functionCall": {"name": "look", "args": A}},
                finish="STOP",
            )
        ],
        [*ONE, *ONE],
    ),
    ("arguments as text", [parts({"functionCall": {"name": "look", "args": AT}}, finish="STOP")], ONE),
    ("arguments of null", [parts({"functionCall": {"name": "look", "args": None}}, finish="STOP")], NONE),
    ("arguments left out", [parts({"functionCall": {"name": "look"}}, finish="STOP")], NONE),
    ("an empty array", [parts({"functionCall": {"name": "look", "args": []}}, finish="STOP")], NONE),
    ("blank arguments", [parts({"functionCall": {"name": "look", "args": " "}}, finish="STOP")], NONE),
    ("a list", [parts({"functionCall": {"name": "look", "args": [1]}}, finish="STOP")], [("look", None)]),
    (
        "text in the same part",
        [parts({"text": "t", "functionCall": {"name": "look", "args": A}}, finish="STOP")],
        ONE,
    ),
    (
        "null beside it",
        [
            parts(
                {"text": None, "functionCall": {"id": None, "name": "look", "args": A}, "thoughtSignature": None},
                finish="STOP",
            )
        ],
        ONE,
    ),
    (
        "a second candidate",
        [
            {"candidates": [{"index": 1, "content": {"parts": [{"functionCall": {"name": "peek"}}]}}]},
            parts({"functionCall": {"name": "look", "args": A}}, finish="STOP"),
        ],
        ONE,
    ),
    ("an unknown finish", [parts({"functionCall": {"name": "look", "args": A}}, finish="TOOL")], ONE),
    ("behind the finish", [parts(finish="STOP"), parts({"functionCall": {"name": "look", "args": A}})], ONE),
]
OLLAMA: list[tuple[str, list[Any], Expected]] = [
    ("two in one", [only(function("look", A), function("peek", B)), last()], BOTH),
    ("a line each", [only(function("look", A)), only(function("peek", B)), last()], BOTH),
    ("in the last line", [last(message={"tool_calls": [function("look", A)]})], ONE),
    ("one index for all", [only(function("look", A, index=0), function("peek", B, index=0)), last()], BOTH),
    ("one id for two calls", [only(function("look", A, id="a"), function("peek", B, id="a")), last()], BOTH),
    (
        "said twice",
        [only(function("look", A, id="a")), last(message={"tool_calls": [function("look", A, id="a")]})],
        ONE,
    ),
    ("two alike without ids", [only(function("look", A), function("look", A)), last()], [*ONE, *ONE]),
    ("arguments as text", [only(function("look", AT)), last()], ONE),
    ("arguments of null", [only(function("look", None)), last()], NONE),
    ("arguments left out", [only({"function": {"name": "look"}}), last()], NONE),
    ("an empty array", [only(function("look", [])), last()], NONE),
    ("blank arguments", [only(function("look", "")), last()], NONE),
    ("a list", [only(function("look", [1])), last()], [("look", None)]),
    ("the wrong reason", [only(function("look", A)), last("load")], ONE),
    ("no reason", [only(function("look", A)), last(None)], ONE),
    ("an unknown reason", [only(function("look", A)), last("tool")], ONE),
    ("one object and not a list", [line(tool_calls=function("look", A)), last()], ONE),
    ("null in the list", [line(tool_calls=[None, function("look", A), 3]), last()], ONE),
    ("no function around it", [only({"name": "look", "arguments": A}), last()], ONE),
    ("nothing in it", [only(function("look", A), {}), last()], ONE),
    (
        "arguments in pieces of text",
        [only(function("look", '{"x"', id="a", index=0)), only(function(None, ": 1}", index=0)), last()],
        ONE,
    ),
    (
        "blank ahead of pieces of text",
        [only(function("look", "")), only({"function": {"arguments": AT}}), only(function("peek", B)), last()],
        BOTH,
    ),
    ("done as text", [only(function("look", A)), {**last(), "done": "true"}], ONE),
    ("a reason and no word of done", [only(function("look", A)), without(last(), "done")], ONE),
    ("as server-sent events", [only(function("look", A)), last()], ONE),
]
ROWS = {
    f"{api}: {name}": (api, events, expected)
    for api, table in zip(APIS, (ANTHROPIC, RESPONSES, GEMINI, OLLAMA), strict=True)
    for name, events, expected in table
}
