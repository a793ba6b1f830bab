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
        ({"columns": ["a", "a"], "rows": [{"a": 5, "a_2": 6}]}, ["a", "a"], [["5", "6"]]),
        ({"matches": [{"p": 1}], "truncated": False}, ["p"], [["1"]]),
        ({"a": [1, 2], "b": ["x", "y"]}, ["a", "b"], [["1", "x"], ["2", "y"]]),
        ([1, "b", None], ["value"], [["1"], ["b"], [None]]),
        ({"k": 1, "v": {"n": [1]}}, ["key", "value"], [["k", "1"], ["v.n", "[1]"]]),
        ({"k": {"n": [1]}}, ["key", "value"], [["k", '{"n": [1]}']]),
        ({"matches": ["x", "y"], "groups": [], "matchCount": 2}, ["matches"], [["x"], ["y"]]),
        ({"matches": ["x"], "groups": [{"g": "1"}], "n": 1}, ["matches", "groups.g"], [["x", "1"]]),
        ({"matches": [], "groups": [], "matchCount": 0}, ["matches"], []),
        ({"result": [1, 2], "stdout": ""}, ["result"], [["1"], ["2"]]),
        ({"result": {"x": 1}}, ["key", "value"], [["x", "1"]]),
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
        assert table is not None
        assert table["rows"] == [["list that JSON cannot hold"]]


def frame_like(index: Any) -> dict[str, Any]:
    return {"columns": ["n"], "rows": [[7], [8]], "dtypes": ["int64"], "index": index}


@pytest.mark.parametrize(
    ("index", "heads", "names", "text"),
    [
        ({"columns": [0], "rows": [["Ghent"], [None]], "names": ["city"]}, [["Ghent"], [None]], ["city"], [True]),
        ({"columns": [0], "rows": [[4], [1]], "names": [None]}, [["4"], ["1"]], [""], [False]),
        (
            {"columns": [0, 1], "rows": [["a", 1], ["b", 2]], "names": ["k", None]},
            [["a", "1"], ["b", "2"]],
            ["k", ""],
            [True, False],
        ),
        (["x", "y"], [["x"], ["y"]], [""], [True]),
        (["one too few"], None, [""], [False]),
        ({"rows": 5}, None, [""], [False]),
        ("text", None, [""], [False]),
        (None, None, [""], [False]),
    ],
)
def test_the_labels_of_rows(index: Any, heads: Any, names: list[str], text: list[bool]) -> None:
    table = table_of(frame_like(index))
    assert table is not None
    assert (table["heads"], table["head_names"], table["head_text"]) == (heads, names, text)
    assert shape(table) == "2 rows × 1 column"


def test_the_index_of_a_frame_is_kept() -> None:
    pd = pytest.importorskip("pandas")
    from kestrel_nb.frames import frame_data

    frame = pd.DataFrame({"n": [1, 9, 5]})
    largest = table_of(frame_data(frame.nlargest(2, "n")))
    assert largest is not None
    assert largest["heads"] == [["1"], ["2"]]
    wide = frame.assign(k=["a", "b", "c"], m=[1, 2, 3]).groupby(["k", "m"]).agg({"n": ["min", "max"]})
    table = table_of(frame_data(wide))
    assert table is not None
    assert table["columns"] == ["n / min", "n / max"]
    assert table["head_names"] == ["k", "m"]
    assert table["heads"] == [["a", "1"], ["b", "2"], ["c", "3"]]
    plain = table_of(frame_data(frame))
    assert plain is not None
    assert plain["heads"] is None


def test_a_part_of_a_larger_table_says_how_large_that_was() -> None:
    table = table_of({"columns": ["a"], "rows": [[1], [2]], "total_rows": 900, "total_columns": 300})
    assert table is not None
    assert (table["total_rows"], table["total_columns"], len(table["rows"])) == (900, 300, 2)
    smaller = table_of({"columns": ["a"], "rows": [[1], [2]], "total_rows": 1, "total_columns": True})
    assert smaller is not None
    assert (smaller["total_rows"], smaller["total_columns"]) == (2, 1)
