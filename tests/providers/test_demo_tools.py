"""Plain requests for the built-in tools: which calls they become, what is said of the results, what to enable."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kestrel_nb.protocol.messages import ToolCallPart, ToolResultPart, create_message
from kestrel_nb.protocol.tools import ToolSchema
from kestrel_nb.providers.demo.model import reply
from kestrel_nb.providers.demo.offered import CANDIDATES, EXAMPLES
from kestrel_nb.runtime.models import CompletionRequest

TEXT = {"type": "string"}


def tool(name: str, required: str, /, **more: Any) -> ToolSchema:
    properties = {**dict.fromkeys(required.split(), TEXT), **more}
    schema = {"type": "object", "properties": properties, "required": required.split(), "additionalProperties": False}
    return ToolSchema(name=name, description=name, parameters=schema)


TOOLS = (
    tool("code-eval", "code"),
    tool("database-query", "query", params={"type": "array"}),
    tool("date-time", "", format=TEXT, timezone=TEXT),
    tool("file-read", "path", encoding=TEXT),
    tool("file-write", "path content", append={"type": "boolean"}),
    tool("http-fetch", "url", method=TEXT, headers={"type": "object"}, body=TEXT),
    tool("image-describe", "url", prompt=TEXT),
    tool("json-parse", "input", path=TEXT, transform=TEXT),
    tool("math-eval", "expression"),
    tool("read_file", "path"),
    tool("regex-match", "text pattern", flags=TEXT, replace=TEXT),
    tool("shell", "command"),
    tool("shell-exec", "command", cwd=TEXT),
    tool("web-search", "query", maxResults={"type": "number"}),
    tool("web_fetch", "url"),
    tool("write_file", "path content"),
)


def ask(text: str, *leave_out: str, results: tuple[Any, ...] = (), is_error: bool = False) -> tuple[str, list[Any]]:
    """What is said and called next, after calls that gave ``results``: JSON or text."""
    tools = tuple(tool for tool in TOOLS if tool.name not in leave_out)
    messages = [create_message("user", text)]
    for number, result in enumerate(results):
        _, steps = reply(CompletionRequest(model="demo", messages=tuple(messages), tools=tools, signal=None))
        call = ToolCallPart(id=f"c{number}", name=steps[0].tool, arguments=steps[0].arguments, raw_arguments="{}")
        content = result if isinstance(result, str) else json.dumps(result)
        messages.append(create_message("assistant", [call]))
        messages.append(
            create_message(
                "tool", [ToolResultPart(call_id=call.id, name=call.name, content=content, is_error=is_error)]
            )
        )
    said, steps = reply(CompletionRequest(model="demo", messages=tuple(messages), tools=tools, signal=None))
    return said, [(step.tool, step.arguments) for step in steps]


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("what is 2 * pi + sqrt(16)", "math-eval", {"expression": "2 * pi + sqrt(16)"}),
        ("Could you compute max(10, 20, 30) * 2, please?", "math-eval", {"expression": "max(10, 20, 30) * 2"}),
        ("what is 15% of 80?", "math-eval", {"expression": "15 / 100 * 80"}),
        ("what time is it in Tokyo?", "date-time", {"timezone": "Asia/Tokyo"}),
        ("what's the time in America/New_York", "date-time", {"timezone": "America/New_York"}),
        ("what day is it today?", "date-time", {}),
        ('parse this JSON {"a": {"b": 1}}', "json-parse", {"input": '{"a": {"b": 1}}'}),
        ("""extract a.b from '{"a": {"b": 1}}'""", "json-parse", {"input": '{"a": {"b": 1}}', "path": "a.b"}),
        ('flatten the JSON {"a": {"b": 1}}', "json-parse", {"input": '{"a": {"b": 1}}', "transform": "flatten"}),
        ('list the keys of this JSON: {"a": 1}', "json-parse", {"input": '{"a": 1}', "transform": "keys"}),
        ("pretty-print the JSON [1, 2]", "json-parse", {"input": "[1, 2]", "transform": "pretty"}),
        (r'match /\d+/ in "room 12"', "regex-match", {"text": "room 12", "pattern": r"\d+"}),
        ("match /[a-z]+/gi in 'A b'", "regex-match", {"text": "A b", "pattern": "[a-z]+", "flags": "gi"}),
        (r'find all matches of /\d/ in "a1 b2"', "regex-match", {"text": "a1 b2", "pattern": r"\d", "flags": "g"}),
        (r"match the regex `\d+` against `room 12`", "regex-match", {"text": "room 12", "pattern": r"\d+"}),
        (
            r'replace /\d/g with "x" in the text "a1b2"',
            "regex-match",
            {"text": "a1b2", "pattern": r"\d", "flags": "g", "replace": "x"},
        ),
        ("run the JavaScript [1, 2].map(n => n * n)", "code-eval", {"code": "[1, 2].map(n => n * n)"}),
        ("run the JavaScript `[1, 2].length`", "code-eval", {"code": "[1, 2].length"}),
        (
            "run the JavaScript:\n```js\nconst a = 1; a + 1\n```",
            "code-eval",
            {"code": "const a = 1; a + 1"},
        ),
        ("query: SELECT a, b FROM t WHERE a = 'x' and b > 1", "database-query", {}),
        ("query:\nSELECT a\nFROM t", "database-query", {"query": "SELECT a\nFROM t"}),
        ("SELECT 1", "database-query", {"query": "SELECT 1"}),
        ("run the query `select count(*) from sales`", "database-query", {"query": "select count(*) from sales"}),
        ("query: DELETE FROM users", "database-query", {"query": "DELETE FROM users"}),
        ("describe the image https://example.org/a.png", "image-describe", {"url": "https://example.org/a.png"}),
        ("what is in the picture data:image/png;base64,aGk=", "image-describe", {"url": "data:image/png;base64,aGk="}),
        ("search the web for jupyter widgets", "web-search", {"query": "jupyter widgets"}),
        ("fetch https://example.org/", "web_fetch", {"url": "https://example.org/"}),
        ("fetch https://example.org/ with http-fetch", "http-fetch", {"url": "https://example.org/"}),
        (
            """post '{"a": 1}' to https://example.org/""",
            "http-fetch",
            {"url": "https://example.org/", "method": "POST", "body": '{"a": 1}'},
        ),
        ("delete https://example.org/1", "http-fetch", {"url": "https://example.org/1", "method": "DELETE"}),
        ("run `ls` with shell-exec", "shell-exec", {"command": "ls"}),
        ("read notes.txt with file-read", "file-read", {"path": "notes.txt"}),
    ],
)
def test_a_plain_request_becomes_a_call(text: str, name: str, arguments: dict[str, Any]) -> None:
    _, [(called, given)] = ask(text)
    assert called == name
    assert given == (arguments or given)
    if "query:" in text and not arguments:
        assert given == {"query": text.removeprefix("query: ")}


def test_without_the_core_tool_the_built_in_one_fetches_and_reads() -> None:
    assert ask("fetch https://example.org/", "web_fetch")[1] == [("http-fetch", {"url": "https://example.org/"})]
    assert ask("read notes.txt", "read_file")[1] == [("file-read", {"path": "notes.txt"})]


def test_every_example_of_a_built_in_tool_leads_to_it() -> None:
    kinds = [kind for kind, names in CANDIDATES.items() if any("-" in name for name in names)]
    assert len(kinds) >= 14
    for kind in kinds:
        for text in EXAMPLES.get(kind, ()):
            (name, _), *_ = ask(text, "read_file", "write_file", "shell", "web_fetch")[1]
            assert name in CANDIDATES[kind], text


@pytest.mark.parametrize(
    ("text", "name", "advice"),
    [
        ("run the JavaScript 1 + 1", "code-eval", 'enabled=[*DEFAULT_BUILT_IN_TOOLS, "code-eval"]'),
        ("query: SELECT 1", "database-query", 'database_path="my.db"'),
        ("search the web for cats", "web-search", "web_search_provider="),
        ("describe the image https://example.org/a.png", "image-describe", "a model that sees images"),
        ("what is 1 + 1", "math-eval", "on by default"),
    ],
)
def test_what_is_not_offered_is_told_with_what_to_enable(text: str, name: str, advice: str) -> None:
    said, calls = ask(text, name)
    assert calls == []
    assert f"`{name}`, which this run does not offer" in said
    assert advice in said


@pytest.mark.parametrize(
    ("text", "result", "said"),
    [
        ("what is 2^10", {"expression": "2^10", "result": 1024.0}, "`2^10` is `1024`."),
        (
            "what time is it in Tokyo?",
            {
                "iso": "2025-07-11T03:30:00+09:00", "unix": 1, "unixMs": 1000, "date": "2025-07-11", "time": "03:30:00",
                "timezone": "Asia/Tokyo", "offset": "+09:00", "dayOfWeek": "Friday",
            },
            "In Asia/Tokyo it is Friday, 2025-07-11, 03:30:00 (UTC+09:00).",
        ),
        ("""extract a from '{"a": 1}'""", {"result": 1}, "At `a` stands: `1`."),
        (r'match /\d+/g in "12 3"', {"matches": ["12", "3"], "groups": [], "matchCount": 2}, "of `\\d+`: `12`, `3`."),
        (r'match /x/ in "12 3"', {"matches": [], "groups": [], "matchCount": 0}, "Nothing matches `x`."),
        (r'replace /\d/g with "x" in the text "a1"', {"result": "ax", "replacements": 1}, "1 replacement of `\\d`"),
        (
            "query: SELECT a FROM t",
            {"rows": [{"a": 1}, {"a": None}], "rowCount": 2, "columns": ["a"]},
            "The query gave 2 rows with the column `a`.",
        ),
        ("query: SELECT count(*) FROM t", {"rows": [{"count(*)": 3}], "rowCount": 1, "columns": ["count(*)"]}, "`3`."),
        ("run the JavaScript 1 + 1", {"result": 2, "stdout": "", "executionMs": 1}, "The code gave `2`."),
        (
            "fetch https://example.org/ with http-fetch",
            {"status": 200, "statusText": "OK", "headers": {"content-type": "text/plain"}, "body": "hello"},
            "`https://example.org/` answered `200 OK` with 5 characters of `text/plain`:\n\n```text\nhello\n```",
        ),
        (
            "search the web for cats",
            {"query": "cats", "results": [{"title": "Cats", "url": "https://c", "snippet": "x"}], "resultCount": 1},
            "1 result for `cats`:\n\n- `Cats` `https://c`",
        ),
    ],
)  # fmt: skip
def test_a_result_is_told_in_words(text: str, result: dict[str, Any], said: str) -> None:
    assert said in ask(text, results=(result,))[0]


def test_an_error_object_is_told_by_its_message() -> None:
    result = {"error": True, "message": "Only SELECT queries are allowed."}
    assert ask("query: DELETE FROM t", results=(result,), is_error=True)[0] == (
        "`database-query` failed: `Only SELECT queries are allowed.`"
    )


def test_a_later_part_takes_the_text_and_not_the_json() -> None:
    found = {"path": "a.txt", "content": "one\n", "size": 4}
    _, [(name, given)] = ask("read a.txt and write the result to b.txt", "read_file", results=(found,))
    assert (name, given) == ("write_file", {"path": "b.txt", "content": "one\n"})


@pytest.mark.parametrize(
    "result",
    [
        "{", '{"rows": 3}',
        '{"rows": [1, null], "columns": [[]], "rowCount": 2}',
        '{"rows": [], "columns": [], "rowCount": 0}',
        '{"error": true}', '{"error": true, "message": null}', "[" * 3000, '{"a":' * 3000,
    ],
)  # fmt: skip
def test_a_result_of_an_odd_form_is_told_all_the_same(result: str) -> None:
    for text in ("query: SELECT 1", r'match /x/ in "y"', "run the JavaScript 1", "search the web for cats"):
        said, calls = ask(text, results=(result,))
        assert said
        assert calls == []


@pytest.mark.parametrize(
    "text",
    [
        "what is 2+2, then query: SELECT 1",
        'what is 2+2, then match /\\d+/g in "room 12"',
        """what is 2+2, then flatten the JSON {"a": {"b": 1}}""",
    ],
)
def test_what_is_understood_alone_says_so_in_a_longer_request(text: str) -> None:
    said, calls = ask(text)
    alone = text.partition(", then ")[2]
    assert not calls
    assert said.startswith(f"I understand `{alone}` only as a request of its own.")
    assert "for example" not in said
    assert ask(alone)[1]


def test_appending_is_told_in_a_sentence() -> None:
    data = {"path": "a.txt", "bytesWritten": 4, "append": True, "success": True}
    assert ask('append "more" to a.txt', results=(data,))[0] == "Appended to `a.txt`: 4 bytes."
