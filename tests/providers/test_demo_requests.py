"""What the demo model makes of plain requests: a table of wordings in the real loop, and what it must not act on."""

from __future__ import annotations

import json
import string
import time
from pathlib import Path
from typing import Any

import pytest

from kestrel_nb.app import Kestrel
from kestrel_nb.protocol.tools import ToolSchema
from kestrel_nb.providers.demo.requests import understand
from kestrel_nb.runtime.run import RunOptions

TABLE = json.loads((Path(__file__).parents[1] / "data/demo/requests.json").read_text(encoding="utf-8"))


async def decline(*_: Any) -> bool:
    return False


def test_the_table_is_large_and_has_no_row_twice() -> None:
    requests = [row["request"] for row in TABLE]
    assert len(requests) >= 60
    assert len(set(requests)) == len(requests)


@pytest.mark.parametrize("row", TABLE, ids=[row["request"][:50] for row in TABLE])
async def test_requests_lead_to_the_right_calls(row: dict[str, Any], opened: Kestrel) -> None:
    session = opened.sessions.create()
    await session.start(row["request"], options=RunOptions(approve=decline))
    calls = [[call.name, dict(call.arguments or {})] for m in session.detail().messages for call in m.tool_calls]
    assert (calls or "unknown") == row["calls"]
    if row["calls"] == "unknown":
        assert "rule model and no AI" in session.detail().messages[-1].content


def tool(name: str, description: str, required: list[str], /, **properties: dict[str, Any]) -> ToolSchema:
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return ToolSchema(name=name, description=description, parameters=schema)


NUMBER, TEXT = {"type": "number"}, {"type": "string"}
OWN = (
    tool("add", "Add two numbers.", ["a", "b"], a=NUMBER, b=NUMBER),
    tool("word_count", "Count the words of a text.", ["text"], text=TEXT),
    tool("greet", "Greet a person by name.", ["name"], name=TEXT, loud={"type": "boolean"}),
    tool(
        "convert_temperature",
        "Convert a temperature between units.",
        ["value", "from_unit", "to_unit"],
        value=NUMBER,
        from_unit={"enum": ["celsius", "fahrenheit"]},
        to_unit={"enum": ["celsius", "fahrenheit"]},
    ),
    tool("mean", "The mean of numbers.", ["numbers"], numbers={"type": "array", "items": NUMBER}),
    tool("ping", "Say that all is well.", []),
    tool("grep", "Search.", ["pattern"], pattern=TEXT, path=TEXT, glob=TEXT),
    tool("get_weather", "Current weather of a city.", ["city"], city=TEXT),
    tool("roll_dice", "Roll dice.", ["count", "sides"], count={"type": "integer"}, sides={"type": "integer"}),
)


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("call add with a=1, b=2", "add", {"a": 1, "b": 2}),
        ("use the tool add with a = 1.5 and b = -2", "add", {"a": 1.5, "b": -2}),
        ("add(2, 3)", "add", {"a": 2, "b": 3}),
        ("add 2 and 3", "add", {"a": 2, "b": 3}),
        ("Could you add 17 to 4, please?", "add", {"a": 17, "b": 4}),
        ('call `add` with {"a": 1, "b": 2}', "add", {"a": 1, "b": 2}),
        ("call word_count with text='a b c'", "word_count", {"text": "a b c"}),
        ('run word_count on "one two three"', "word_count", {"text": "one two three"}),
        ("count the words in “one two”", "word_count", {"text": "one two"}),
        ("greet Ada", "greet", {"name": "Ada"}),
        ("greet name=Ada, loud=true", "greet", {"name": "Ada", "loud": True}),
        (
            "convert the temperature 20 from celsius to fahrenheit",
            "convert_temperature",
            {"value": 20, "from_unit": "celsius", "to_unit": "fahrenheit"},
        ),
        (
            "convert the temperature to celsius from fahrenheit: 68",
            "convert_temperature",
            {"value": 68, "from_unit": "fahrenheit", "to_unit": "celsius"},
        ),
        ("what is the mean of 1, 2 and 4?", "mean", {"numbers": [1, 2, 4]}),
        ("ping", "ping", {}),
        ("what's the weather in Paris?", "get_weather", {"city": "Paris"}),
        ("get the weather for 'New York'", "get_weather", {"city": "New York"}),
        ("call get_weather for city Rome", "get_weather", {"city": "Rome"}),
        ("roll 2 dice with 6 sides", "roll_dice", {"count": 2, "sides": 6}),
        ("roll_dice with count 3 and sides 20", "roll_dice", {"count": 3, "sides": 20}),
        ("call grep with pattern=await, glob='*.py'", "grep", {"pattern": "await", "glob": "*.py"}),
    ],
)
def test_tools_of_a_users_own(text: str, name: str, arguments: dict[str, Any]) -> None:
    steps = understand(text, OWN).steps
    assert [(step.tool, step.arguments) for step in steps] == [(name, arguments)]


@pytest.mark.parametrize(
    "text",
    [
        "call add with a=1",
        "add 2 and three apples",
        "call add with a='x', b=1",
        "call nothing_such with a=1",
        "convert 3 pears",
    ],
)
def test_arguments_that_do_not_fit_make_no_call(text: str) -> None:
    assert understand(text, OWN).steps == ()


OTHERS = (
    tool("math-eval", "Evaluate.", ["expression"], expression=TEXT),
    tool("date-time", "Time.", [], format=TEXT, timezone=TEXT),
    tool("http-fetch", "Fetch.", ["url"], url=TEXT, method=TEXT),
    tool("json-parse", "Parse.", ["input"], input=TEXT, path=TEXT),
    tool("regex-match", "Match.", ["text", "pattern"], text=TEXT, pattern=TEXT),
    tool("database-query", "SQL.", ["query"], query=TEXT),
    tool("run_python", "Python.", ["code"], code=TEXT),
    tool("list_variables", "Variables.", []),
    tool("inspect_variable", "Variable.", ["name"], name=TEXT),
    tool("memory_save", "Save.", ["content"], content=TEXT),
    tool("memory_search", "Search.", ["query"], query=TEXT),
    tool("delegate", "Hand over.", ["task"], task=TEXT),
    tool("finish", "End.", ["summary"], summary=TEXT),
)


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("compute (2 + 3) * 4", "math-eval", {"expression": "(2 + 3) * 4"}),
        ("What is 17 times 3?", "math-eval", {"expression": "17 * 3"}),
        ("what's 15% of 80", "math-eval", {"expression": "15 / 100 * 80"}),
        ("calculate sqrt(16) plus 2", "math-eval", {"expression": "sqrt(16) + 2"}),
        ("2+2", "math-eval", {"expression": "2+2"}),
        ("What time is it in Tokyo?", "date-time", {"timezone": "Asia/Tokyo"}),
        ("what day is it today", "date-time", {}),
        ("fetch https://example.org/a?b=1", "http-fetch", {"url": "https://example.org/a?b=1"}),
        ("Please download the page at https://example.org/.", "http-fetch", {"url": "https://example.org/"}),
        (
            'extract user.name from \'{"user": {"name": "Ada"}}\'',
            "json-parse",
            {"input": '{"user": {"name": "Ada"}}', "path": "user.name"},
        ),
        ('parse this json: {"a": [1, 2]}', "json-parse", {"input": '{"a": [1, 2]}'}),
        ("match the regex `\\d+` against 'room 12'", "regex-match", {"pattern": "\\d+", "text": "room 12"}),
        ("run the query `select 1`", "database-query", {"query": "select 1"}),
        ("run this python code:\n```python\nx = 1\nprint(x)\n```", "run_python", {"code": "x = 1\nprint(x)"}),
        ("list the variables", "list_variables", {}),
        ("inspect the variable df", "inspect_variable", {"name": "df"}),
        ("remember that the report is due on Friday", "memory_save", {"content": "the report is due on Friday"}),
        ("what do you remember about the report?", "memory_search", {"query": "the report"}),
        ("delegate: list the files, then read README.md", "delegate", {"task": "list the files, then read README.md"}),
        ("finish with the summary 'all done'", "finish", {"summary": "all done"}),
    ],
)
def test_other_tools(text: str, name: str, arguments: dict[str, Any]) -> None:
    steps = understand(text, OTHERS).steps
    assert [(step.tool, step.arguments) for step in steps] == [(name, arguments)]


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n    return read(config.toml)\n\nfor i in list: print(i)",
        '{"read": "README.md", "then": ["list the files", {"run": "rm -r /"}]}',
        "Why does this fail?\n```sh\nrm -rf build\n```",
        "Explain `list the files` to me",
        'What does "read README.md" mean?',
        "{{{{ [[[ ((( ``` ' \" “",
        "if (a < b) { write('notes.txt', \"x\"); } else { delete everything; }",
        "SELECT * WHERE '; DROP TABLE users; --",
        "$",
        "!!!",
        "a" * 30_000,
        "list the files, " * 500,
        "\x00\x1b[31m list\ue000 0\ue001 \ue0000\ue001",
        "Don't list the files",
        "never run rm -r build",
        "Should I read README.md?",
        "remove all files",
        "Delete everything in data",
    ],
)
def test_code_quotes_and_refusals_are_no_requests(text: str) -> None:
    core = [tool(name, name, ["path"], path=TEXT) for name in ("list_dir", "read_file")]
    shell = tool("shell", "Run.", ["command"], command=TEXT)
    assert understand(text, [*core, shell]).steps == ()


@pytest.mark.parametrize(
    "unit", ["list the ", "a.b/", "in in of ", "'x' ", "the the ", "read a, ", "and ", "((", "files that ", "1+"]
)
def test_long_requests_are_read_in_a_short_time(unit: str) -> None:
    began = time.monotonic()
    for head in ("", "list ", "search for ", "write a.txt with ", "count "):
        understand(head + unit * 100, OWN)
    assert time.monotonic() - began < 20


def test_any_character_is_harmless() -> None:
    for char in string.printable + "“”‘’„«»\u202e\ud800":
        found = understand(f"read {char}x{char} and {char}", OWN)
        assert {step.tool for step in found.steps} <= {"read_file"}
