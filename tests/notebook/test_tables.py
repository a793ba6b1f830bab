"""Tool data as tables: every shape, no value changed, nothing raised."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kestrel_nb.notebook.summaries import shape
from kestrel_nb.notebook.tables import table_of


class Broken(dict[str, Any]):
    """Data whose every use raises."""

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("no")

    items = keys = values = __iter__  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("data", "columns", "rows"),
    [
        ([{"a": 1, "b": "x"}, {"a": 2}], ["a", "b"], [["1", "x"], ["2", None]]),
        ({"columns": ["a", "b"], "rows": [[1, 2], [3]]}, ["a", "b"], [["1", "2"], ["3", None]]),
        ({"columns": ["a"], "rows": [{"a": 5}]}, ["a"], [["5"]]),
        ({"matches": [{"p": 1}], "truncated": False}, ["p"], [["1"]]),
        ({"a": [1, 2], "b": ["x", "y"]}, ["a", "b"], [["1", "x"], ["2", "y"]]),
        ([1, "b", None], ["value"], [["1"], ["b"], [None]]),
        ({"k": 1, "v": {"n": [1]}}, ["key", "value"], [["k", "1"], ["v", '{"n": [1]}']]),
    ],
)
def test_shapes(data: Any, columns: list[str], rows: list[list[str | None]]) -> None:
    table = table_of(data)
    assert table is not None
    assert table["columns"] == columns
    assert table["rows"] == rows


@pytest.mark.parametrize(
    "data", [None, 5, "text", [], {}, [[1, 2], [3]], object(), Broken(a=1), [Broken(a=1)], float("nan")]
)
def test_what_is_no_table_is_none(data: Any) -> None:
    assert table_of(data) is None


def test_numbers_that_json_lacks_are_text() -> None:
    table = table_of({"rows": [{"a": float("nan")}, {"a": float("inf")}, {"a": 1.5}, {"a": -float("inf")}]})
    assert table is not None
    assert [row[0] for row in table["rows"]] == ["NaN", "inf", "1.5", "-inf"]
    assert table["text_columns"] == [False]
    json.dumps(table, allow_nan=False)


def test_integers_stay_exact_and_booleans_are_text() -> None:
    table = table_of([{"id": 2**63 + 1, "ok": True}, {"id": None, "ok": False}])
    assert table is not None
    assert table["rows"] == [[str(2**63 + 1), "True"], [None, "False"]]
    assert table["text_columns"] == [False, True]


def test_caps() -> None:
    table = table_of([{f"c{i}": "é" * 500 for i in range(40)} for _ in range(5_000)])
    assert table is not None
    assert len(table["columns"]) == 12
    assert len(table["rows"]) == 200
    assert table["rows"][0][0] is not None
    assert len(table["rows"][0][0]) == 80
    assert "…" in table["rows"][0][0]
    assert shape(table) == "5,000 rows × 40 columns"


def test_deep_and_endless_values_are_text() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    loop: list[Any] = []
    loop.append(loop)
    for value in (deep, loop):
        table = table_of([{"v": value}])
        assert table is None or len(table["rows"][0][0] or "") <= 80
