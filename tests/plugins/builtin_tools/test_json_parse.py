"""json-parse: the collected texts, paths, transforms, and what is refused."""

from __future__ import annotations

import base64
import json
import logging
from typing import Any

import pytest
from calling import call, calls, is_failure, rows_of

from kestrel_nb.plugins.builtin_tools.json_parse import JsonParse
from kestrel_nb.plugins.builtin_tools.json_paths import extract
from kestrel_nb.plugins.builtin_tools.json_reading import MAX_INPUT, MAX_LEVELS, MAX_VALUES
from kestrel_nb.plugins.builtin_tools.json_transforms import flatten
from kestrel_nb.runtime.signals import CancelSignal
from kestrel_nb.runtime.tools import ToolContext

PEOPLE = '{"data":{"users":[{"name":"Alice","age":30},{"name":"Bob"}],"a.b":1,"":2,"x y":{},"0":"zero","π":3.14}}'


def text_of(given: dict[str, Any]) -> str:
    if "generator" in given:
        return str(eval(given["generator"]))
    if "input_b64" in given:
        return base64.b64decode(given["input_b64"]).decode("utf-8", "surrogateescape")
    return str(given["input"])


async def test_every_row_of_json_parsing() -> None:
    rows, excluded = rows_of("json-parsing")
    assert len(rows) + len(excluded) == 159
    answers = await calls(JsonParse(), [{"input": text_of(row["input"])} for row in rows])
    for row, data in zip(rows, answers, strict=True):
        outcome = row["expect"]["outcome"]
        assert "result" in data if outcome == "parsed" else outcome != "error_object" or is_failure(data), row["id"]
        if outcome == "parsed":
            assert data == {"result": json.loads(text_of(row["input"]))}
        assert set(data) == {"result"} or is_failure(data)


@pytest.mark.parametrize(
    ("path", "result"),
    [
        ("data.users[0].name", "Alice"),
        ("data.users.1.name", "Bob"),
        ("data.users[-1].name", "Bob"),
        ('data["a.b"]', 1),
        ("data['a.b']", 1),
        ('data[""]', 2),
        ("data.x y", {}),
        ("data[0]", "zero"),
        ("data.0", "zero"),
        ("data.π", 3.14),
        ('data["\\u03c0"]', 3.14),
        ("", json.loads(PEOPLE)),
    ],
)
async def test_a_path_leads_to_a_part(path: str, result: Any) -> None:
    assert await call(JsonParse(), input=PEOPLE, path=path) == {"result": result}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("data.user", 'path: no key "user" in data; did you mean "users"?'),
        ("data.users.name", "path: data.users is an array of 2 items; write an index, as in data.users[0]"),
        ("data.users[2]", "path: no item 2 in data.users, an array of 2 items"),
        ("data.users[-3]", "path: no item -3 in data.users, an array of 2 items"),
        ("data.users[0].name.first", "path: data.users[0].name is a text, so there is no first in it"),
        ("data.a.b", 'path: no key "a" in data; a key with dots goes in brackets: data["a.b"]'),
        ("nothing", 'path: no key "nothing" in the input; its keys: "data"'),
        ('data["x y"].z', 'path: no key "z" in data["x y"], an empty object'),
        ("__proto__", 'path: no key "__proto__" in the input; its keys: "data"'),
        ("data..users", 'path: a key is missing at character 6; an empty key is [""]'),
        ("data.users[*]", 'path: in brackets goes an index or a key in quotes, as in [0] or ["a.b"] (character 11)'),
        ("data.users[0", 'path: in brackets goes an index or a key in quotes, as in [0] or ["a.b"] (character 11)'),
        ("." * 20_000, "path: too long, 20,000 characters of at most 10,000"),
    ],
)
async def test_a_path_that_leads_nowhere_says_where_it_ends_and_what_is_there(path: str, message: str) -> None:
    data = await call(JsonParse(), input=PEOPLE, path=path)
    assert is_failure(data)
    assert data["message"] == message


async def test_transforms() -> None:
    nested = '{"a":{"b":1,"c":{"d":2},"e":[],"f":[1,{"g":null}],"h":{}},"x.y":{"":true}}'
    flat = {"a.b": 1, "a.c.d": 2, "a.e": [], "a.f[0]": 1, "a.f[1].g": None, "a.h": {}, '["x.y"][""]': True}
    expected: list[tuple[dict[str, Any], Any]] = [
        ({"input": nested, "transform": "flatten"}, flat),
        ({"input": nested, "transform": "keys"}, ["a", "x.y"]),
        ({"input": nested, "path": "a", "transform": "values"}, [1, {"d": 2}, [], [1, {"g": None}], {}]),
        ({"input": "[7,[8]]", "transform": "keys"}, ["0", "1"]),
        ({"input": "[7,[8]]", "transform": "values"}, [7, [8]]),
        ({"input": "[7,[8]]", "transform": "flatten"}, {"[0]": 7, "[1][0]": 8}),
        ({"input": "{}", "transform": "flatten"}, {}),
        ({"input": "[]", "transform": "keys"}, []),
        ({"input": '{"b":[1],"ä":{}}', "transform": "pretty"}, '{\n  "b": [\n    1\n  ],\n  "ä": {}\n}'),
        ({"input": "3", "transform": "pretty"}, "3"),
    ]
    answers = await calls(JsonParse(), [args for args, _ in expected])
    for (args, result), data in zip(expected, answers, strict=True):
        assert data == {"result": result}, args
    for path, leaf in flat.items():
        assert extract(json.loads(nested), path) == leaf


async def test_scalars_have_no_keys_and_unknown_transforms_are_refused() -> None:
    asked = [{"input": "3", "transform": name} for name in ("keys", "values", "flatten")]
    asked += [{"input": "null", "transform": "keys"}, {"input": '"x"', "transform": "flatten"}]
    asked += [{"input": "{}", "transform": name} for name in ("upper", "", "Keys")]
    messages = [data["message"] for data in await calls(JsonParse(), asked) if is_failure(data)]
    assert len(messages) == len(asked)
    assert messages[0] == "keys: needs an object or an array, and this is a number"
    assert messages[-1] == "transform: must be one of keys, values, flatten, pretty"


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ('{"a": 1,\n "b": tru}', "not valid JSON at line 2, column 7: expecting value, near"),
        ('["NaN",\n  NaN]', "not valid JSON at line 2, column 3: NaN is not JSON"),
        ('{"n": "1e400",\n"m": 1e400}', "not valid JSON at line 2, column 6: the number is beyond what a double"),
        ("[1, -1e999]", "not valid JSON at line 1, column 5: the number is beyond"),
        ("1" * 5_000, "not valid JSON at line 1, column 1: the integer has more than"),
        ("{'a': 1}", "not valid JSON at line 1, column 2: expecting property name"),
        ("[1,]", "not valid JSON at line 1, column 4: expecting value"),
        ("[1] 2", "not valid JSON at line 1, column 5: something follows the value"),
        ("", "not valid JSON at line 1, column 1: expecting value, where the text ends"),
        ("\ufeff", "not valid JSON at line 1, column 1: expecting value, where the text ends"),
        ("// no\n{}", "not valid JSON at line 1, column 1"),
        ("[" * 100_000, "nested too deeply to be read"),
        ("[" * 500 + "]" * 500, f"nested deeper than {MAX_LEVELS} levels"),
    ],
)
async def test_a_text_that_is_no_json_says_where(text: str, start: str) -> None:
    data = await call(JsonParse(), input=text)
    assert is_failure(data)
    assert data["message"].startswith(start)


async def test_what_is_kept_exactly_and_what_is_decided() -> None:
    texts: dict[str, Any] = {
        "123456789012345678901234567890": 123456789012345678901234567890,
        "9007199254740993": 9007199254740993,
        '{"a": 1, "b": 2, "a": 3}': {"a": 3, "b": 2},
        "\ufeff[1]": [1],
        "[-0, -0.0, 1E2, 1e-999]": [0, -0.0, 100.0, 0.0],
        '"\\ud83d\\ude00"': "😀",
        '"\\ud800x"': "\ufffdx",
        '"\\u0000"': "\0",
    }
    answers = await calls(JsonParse(), [{"input": text} for text in texts])
    for (text, result), data in zip(texts.items(), answers, strict=True):
        assert data == {"result": result}, text


async def test_a_deep_part_of_a_deeper_text_can_be_read() -> None:
    text = '{"deep":' + "[" * 400 + "]" * 400 + ',"flat":{"a":[1]}}'
    assert await call(JsonParse(), input=text, path="flat.a[0]") == {"result": 1}
    assert is_failure(await call(JsonParse(), input=text, path="deep"))
    as_deep_as_may_be = "[" * MAX_LEVELS + "]" * MAX_LEVELS
    assert "result" in await call(JsonParse(), input=as_deep_as_may_be)


def directly(**args: Any) -> Any:
    """What the tool itself gives: for texts that take the loop long to stream."""
    session: Any = None
    context = ToolContext(session=session, call_id="c", signal=CancelSignal(), logger=logging.getLogger())
    return JsonParse().execute(args, context).data


def test_little_does_not_become_much() -> None:
    wide = '{"' + "k" * 500_000 + '":[' + "1," * 100_000 + "1]}"
    deep = "[" * 180 + "1," * 100_000 + "1" + "]" * 180
    for data in (directly(input=wide, transform="flatten"), directly(input=deep, transform="pretty")):
        assert is_failure(data)
        assert "extract a part with path" in data["message"]


def test_long_texts_and_many_values_are_refused() -> None:
    many = '{"some":[1],"all":[' + "1," * MAX_VALUES + "1]}"
    assert directly(input=many, path="some") == {"result": [1]}
    assert directly(input=many, transform="keys") == {"result": ["some", "all"]}
    for args in ({}, {"path": "all"}, {"transform": "flatten"}):
        data = directly(input=many, **args)
        assert is_failure(data)
        assert data["message"].startswith(f"the result has over {MAX_VALUES:,} values")
    longest = '"' + "x" * (MAX_INPUT - 2) + '"'
    assert directly(input=longest, path="") == {"result": longest[1:-1]}
    data = directly(input=f" {longest}")
    assert is_failure(data)
    assert data["message"].startswith("the input is too long")


def test_flattened_keys_are_paths_whatever_is_in_them() -> None:
    keys = ["a.b", "", "x[0]", 'q"q', "it's", "back\\slash", "tab\t", "ünï", "\u2028", "0", "-1", " ", "]"]
    value = {key: {key: [key]} for key in keys}
    for path, leaf in flatten(value).items():
        assert extract(value, path) == leaf
    assert len(flatten(value)) == len(keys)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\ufeff\ufeff{}", "line 1, column 1: a byte order mark can stand at the beginning only once"),
        ('"a\nb"', "line 1, column 3: a control character must be escaped in a text"),
        ('["a', "line 1, column 2: a text that does not end"),
        ('["1e400", 1e400y]', "line 1, column 11: the number is beyond what a double can hold"),
        (f"[1,{'9' * 4301},{'9' * 4302}]", "line 1, column 4: the integer has more than 4,300 digits"),
    ],
)
async def test_faults_are_said_in_words_and_placed(text: str, said: str) -> None:
    data = await call(JsonParse(), input=text)
    assert is_failure(data)
    assert said in data["message"]


async def test_an_endless_number_is_refused_at_once() -> None:
    with_digits = await call(JsonParse(), input="9" * 1_900_000)
    assert "more than 4,300 digits" in with_digits["message"]


async def test_keys_that_no_encoder_takes_are_all_kept() -> None:
    data = await call(JsonParse(), input='{"\\ud800": 1, "\\ud801": 2}')
    assert data == {"result": {"\ufffd": 1, "\ufffd (2)": 2}}
