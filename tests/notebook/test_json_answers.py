"""How view and record show the answers of the built-in tools: in words where words say more, else as a table."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sample_events import call, ended, play, ran, started

from kestrel_nb.notebook.record import render

RESPONSE = {
    "status": 200,
    "statusText": "OK",
    "headers": {"content-type": "text/plain", "date": "today", "set-cookie": "a=b", "etag": "1"},
    "body": "hello\nworld",
}
COMMAND = {"stdout": "hi\n", "stderr": "warning\n", "exitCode": 2, "timedOut": False, "error": None}


def row(data: Any, **more: Any) -> dict[str, Any]:
    """The row of a call that answered with ``data``."""
    content = more.pop("content", None) or json.dumps(data)
    state = play([*started(), *call("some-tool", {"x": 1}), *ran("some-tool", content, data, **more)])
    return next(dict(block) for block in state["blocks"] if block["kind"] == "tool")


@pytest.mark.parametrize(
    ("data", "line", "detail"),
    [
        (COMMAND, "exit code 2", "exit code 2\nhi\nwarning"),
        (
            {**COMMAND, "exitCode": 143, "timedOut": True, "error": "Process timed out after 1000ms", "stderr": ""},
            "exit code 143",
            "exit code 143 (Process timed out after 1000ms)\nhi",
        ),
        (RESPONSE, "200 OK · 11 characters", "200 OK\ncontent-type: text/plain\n\nhello\nworld"),
        (
            {**RESPONSE, "headers": {}, "truncated": True}, "200 OK · 11 characters (cut off)",
            "200 OK\n\nhello\nworld",
        ),
        (
            {**RESPONSE, "body": "aGk=", "bodyEncoding": "base64"}, "200 OK · 4 characters of base64",
            "200 OK\ncontent-type: text/plain\n\n(4 characters of base64)",
        ),
        ({**COMMAND, "exitCode": None, "error": "File not found: x"}, "3 lines", "File not found: x\nhi\nwarning"),
        ({"result": 3, "stdout": "", "executionMs": 12}, "3", "3"),
        ({"result": "x", "stdout": "a\nb\n", "executionMs": 12}, "x", "a\nb\nx"),
        ({"expression": "1/3", "result": 0.5}, "0.5", "0.5"),
        ({"result": "a-b", "replacements": 1}, "1 replacement", "a-b"),
        ({"path": "a.txt", "content": "one\ntwo\n", "size": 8}, "2 lines", "one\ntwo\n"),
        ({"path": "a.txt", "bytesWritten": 1, "append": False, "success": True}, "wrote 1 byte", "wrote 1 byte"),
        ({"description": "A chart.", "url": "https://x"}, "A chart.", "A chart."),
        ({"result": "Alice"}, "Alice", "Alice"),
        ({"result": None}, "null", "null"),
        ({"query": "q", "results": [], "message": "No provider"}, "No provider", "No provider"),
    ],
)  # fmt: skip
def test_words_in_the_place_of_json(data: Any, line: str, detail: str) -> None:
    shown = row(data)
    assert (shown["result"], shown["detail"], shown["table"]) == (line, detail, None)


@pytest.mark.parametrize(
    ("data", "line", "columns", "rows"),
    [
        ({"rows": [{"b": 1, "a": None}], "rowCount": 1, "columns": ["b", "a"]}, "1 row × 2", ["b", "a"], [["1", None]]),
        ({"matches": ["x", "y"], "groups": [], "matchCount": 2}, "2 matches", ["matches"], [["x"], ["y"]]),
        ({"result": {"a": 1}, "stdout": "", "executionMs": 5}, "5 lines", ["key", "value"], [["a", "1"]]),
        ({"result": [{"a": 1}, {"a": 2}], "stdout": "", "executionMs": 5}, "2 rows", ["a"], [["1"], ["2"]]),
        ({"result": {"a": {"b": 1}}}, "5 lines", ["key", "value"], [["a", '{"b": 1}']]),
        (
            {"query": "q", "results": [{"title": "T", "url": "u", "snippet": "s"}], "resultCount": 1},
            "1 result",
            ["title", "url", "snippet"],
            [["T", "u", "s"]],
        ),
    ],
)
def test_a_table_in_the_place_of_json(data: Any, line: str, columns: list[str], rows: list[list[str]]) -> None:
    shown = row(data)
    assert (shown["table"]["columns"], shown["table"]["rows"]) == (columns, rows)
    assert not shown["text_too"]


def test_what_code_printed_stands_beside_the_table() -> None:
    shown = row({"result": [1, 2], "stdout": "hi\n", "executionMs": 5})
    assert (shown["table"]["rows"], shown["detail"], shown["text_too"]) == ([["1"], ["2"]], "hi", True)


def test_an_error_object_is_its_message() -> None:
    shown = row({"error": True, "message": "Only SELECT", "executionMs": 3}, is_error=True)
    assert (shown["state"], shown["detail"], shown["detail_kind"]) == ("failed", "Only SELECT", "error")


@pytest.mark.parametrize(
    "data",
    [
        {**RESPONSE, "body": "b", "own": 1},
        {"expression": "x", "result": 1, "unit": "m"},
        {"error": True, "message": "m", "details": [1, 2]},
        {"result": 1, "unit": "m"},
    ],
)
def test_a_shape_with_more_in_it_stays_a_table_with_all_of_it(data: dict[str, Any]) -> None:
    shown = row(data)
    cells = [cell for line in shown["table"]["rows"] for cell in line]
    assert all(str(value) in cells for value in data.values() if not isinstance(value, (dict, list)))


def test_a_page_in_the_one_row_of_a_table_is_read_as_text() -> None:
    data = {"columns": ["url", "text"], "rows": [["https://x", "one\ntwo\n"]]}
    shown = row(data, content="a notice\n\none\ntwo")
    assert (shown["table"], shown["detail"]) == (None, "a notice\n\none\ntwo")


def test_text_that_is_no_json_of_the_data_stays() -> None:
    assert row(COMMAND, content="exit code 2, as it was told")["detail"] == "exit code 2, as it was told"


def test_a_record_has_neither_the_time_that_code_took_nor_the_wall_of_headers() -> None:
    took = {"stdout": "hi", "executionMs": 4321}
    for data in (RESPONSE, {"result": [1], **took}, {"result": {"a": 1}, **took}, {"result": 1, **took}):
        state = play([*started(), *call("t", {"x": 1}), *ran("t", json.dumps(data), data), *ended()])
        for text in render(state).values():
            assert "4321" not in text
            assert "set-cookie" not in text


@pytest.mark.parametrize(
    "data",
    [
        {"result": "y" * 900_000, "stdout": "", "executionMs": 1},
        {**RESPONSE, "statusText": "z" * 90_000},
        {"result": "y" * 900_000},
        {"description": "w" * 90_000, "url": "https://x"},
    ],
)
def test_a_row_stays_a_row(data: dict[str, Any]) -> None:
    assert len(row(data)["result"]) <= 60
