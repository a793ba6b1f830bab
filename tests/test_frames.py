"""Tool data as frames: no value ever changes, nothing raises, and frames survive the way through JSON."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kestrel_nb.frames import approvals_frame, events_frame, frame_data, messages_frame, to_frame, usage_frame
from kestrel_nb.protocol import events as ev
from kestrel_nb.protocol.messages import ReasoningPart, TextPart, ToolCallPart, create_message, tool_message
from kestrel_nb.protocol.sessions import (
    ApprovalDecision,
    ApprovalRecord,
    ApprovalRequest,
    RunResult,
    SessionSummary,
    Usage,
)
from kestrel_nb.protocol.tools import TodoItem

NAN = math.nan
PLUS2 = timezone(timedelta(hours=2))


def is_missing(cell: Any) -> bool:
    return cell is None or cell is pd.NA or cell is pd.NaT or (isinstance(cell, float) and cell != cell)


def same(cell: Any, source: Any) -> bool:
    if is_missing(source):
        return is_missing(cell)
    if isinstance(source, np.bool_):
        source = bool(source)
    return bool(cell == source) and (isinstance(cell, bool) == isinstance(source, bool) or cell is source)


# ---- R01: digits ------------------------------------------------------------------------------------------------


def test_r01_ids_beside_none_are_exact_and_small_integers_look_like_integers() -> None:
    data = [{"id": 4873214862074861312, "n": 1}, {"id": None, "n": 2}, {"id": 4873214862074860545, "n": None}]
    before = json.dumps(data)
    frame = to_frame(data)
    assert frame["id"].tolist() == [4873214862074861312, pd.NA, 4873214862074860545]
    text = frame.to_string()
    for digits in ("4873214862074861312", "4873214862074860545", "<NA>"):
        assert digits in text
    assert "1.0" not in text
    assert "1.0" not in frame.to_html()
    assert json.dumps(data) == before


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1, 2], "int64"),
        ([1, None], "Int64"),
        ([2**63 - 1, -(2**63)], "int64"),
        ([2**63, 1], "object"),
        ([2**70, None], "object"),
        ([True, False], "bool"),
        ([True, None], "boolean"),
        ([True, 1], "object"),
        ([1.5, 2], "float64"),
        ([1.5, None], "Float64"),
        ([1.5, 2**53 + 1], "object"),
        ([NAN, math.inf, -math.inf], "float64"),
        ([NAN, None], "object"),
        ([1, NAN], "float64"),
        ([1, "a"], "object"),
        ([None, None], "object"),
        ([datetime(2024, 1, 1, tzinfo=UTC), None], "datetime64[us, UTC]"),
        ([datetime(2024, 1, 1), datetime(1, 1, 1)], "datetime64[us]"),
        ([datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=PLUS2)], "object"),
        ([datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=PLUS2)], "object"),
        ([date(2024, 1, 1)], "object"),
        ([timedelta(seconds=1)], "timedelta64[us]"),
        ([Decimal("1.10")], "object"),
        ([b"\xff", bytearray(b"a")], "object"),
        ([{1, 2}, (1, 2), [1, 2]], "object"),
        (["\ud800", "a"], None),
        ([np.int64(5), None], "Int64"),
        ([np.float64(1.5), np.float32(2.5)], "float64"),
        ([np.bool_(True)], "bool"),
    ],
)
def test_columns_keep_every_value(values: list[Any], dtype: str | None) -> None:
    for data in ([{"v": value} for value in values], {"v": values}, {"columns": ["v"], "rows": [[v] for v in values]}):
        frame = to_frame(data)
        assert frame.columns.tolist() == ["v"]
        assert dtype is None or str(frame["v"].dtype) == dtype
        assert all(same(cell, source) for cell, source in zip(frame["v"].tolist(), values, strict=True))


# ---- R02, R05, F08: shapes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "columns", "rows"),
    [
        ([{"a": {"x": 1}, "b": [1, 2]}, {"a": None, "b": "s"}], ["a.x", "b"], [[1, [1, 2]], [None, "s"]]),
        ({"a": {"x": 1}}, ["key", "value"], [["a", {"x": 1}]]),
        ({"a": {"x": 1, "y": {}}, "b": 2}, ["key", "value"], [["a.x", 1], ["a.y", {}], ["b", 2]]),
        ({"a": {"x": 1}, "a.x": 2}, ["key", "value"], [["a", {"x": 1}], ["a.x", 2]]),
        ({"a": {1: "i", "1": "s"}, "b": {}}, ["key", "value"], [["a", {1: "i", "1": "s"}], ["b", {}]]),
        ({"result": {"x": 1, "y": [1]}}, ["key", "value"], [["x", 1], ["y", [1]]]),
        ({"result": [1, None], "stdout": ""}, ["result"], [[1], [None]]),
        ({"matches": ["x", "y"], "groups": [], "count": 2}, ["matches"], [["x"], ["y"]]),
        ({"matches": ["x"], "groups": [{"g": "1"}], "count": 1}, ["matches", "groups.g"], [["x", "1"]]),
        ({"matches": [], "groups": [], "count": 0}, ["matches"], []),
        ({"name": "x", "tags": ["a", "b"]}, ["key", "value"], [["name", "x"], ["tags", ["a", "b"]]]),
        ({"rows": [[1, 2]], "columns": ["a", "a"]}, ["a", "a"], [[1, 2]]),
        ({"rows": [], "columns": ["a", "b"]}, ["a", "b"], []),
        ([], [], []),
        ({}, ["key", "value"], []),
        ("text", ["value"], [["text"]]),
        (5, ["value"], [[5]]),
        (None, ["value"], []),
        ([[1, 2], [3]], [0, 1], [[1, 2], [3, None]]),
        ([1, "a", None], ["value"], [[1], ["a"], [None]]),
        ([(1, "x"), (2, "y")], [0, 1], [[1, "x"], [2, "y"]]),
        ([[1], 2], ["value"], [[[1]], [2]]),
        ([[], []], [], [[], []]),
        ([{}, {}], [], [[], []]),
        ((1, 2), ["value"], [[1], [2]]),
        ({"k": 1, "s": "t"}, ["key", "value"], [["k", 1], ["s", "t"]]),
        ({"a": [1, 2], "b": ["x", None]}, ["a", "b"], [[1, "x"], [2, None]]),
        ({"a": [1, 2], "b": ["x"]}, ["key", "value"], [["a", [1, 2]], ["b", ["x"]]]),
        ({"columns": ["a"], "rows": [[1, 2], [3]]}, ["a", "column 2"], [[1, 2], [3, None]]),
        (
            {"columns": ["a", "b"], "rows": [{"b": 1}, {"a": 2, "c": 3}]},
            ["a", "b", "column 3"],
            [[None, 1, None], [2, None, 3]],
        ),
        ({"columns": ["x", "x"], "rows": [{"x": 1, "x_2": 2}]}, ["x", "x"], [[1, 2]]),
        ({"columns": [{"name": "a", "type": "int"}], "rows": [[1]]}, ["a"], [[1]]),
        ({"columns": ["a"], "rows": [1, 2]}, ["a"], [[1], [2]]),
        ({"columns": 3, "rows": 2}, ["key", "value"], [["columns", 3], ["rows", 2]]),
        ([{"a": {"x": {"y": 1}}}], ["a.x"], [[{"y": 1}]]),
        ([{"a": {"x": 1}}, {"a": 5}], ["a"], [[{"x": 1}], [5]]),
        ([{"a": {"x": 1}, "a.x": 2}], ["a", "a.x"], [[{"x": 1}, 2]]),
        ([{"a": {1: "i", "1": "s"}}], ["a"], [[{1: "i", "1": "s"}]]),
        ([{"a": {}}], ["a"], [[{}]]),
        ([{1: "a", "1": "b", None: "c", (1, 2): "d"}], [1, "1", None, (1, 2)], [["a", "b", "c", "d"]]),
        ([{"a": 1}, NAN, None, "x"], ["a", "value"], [[1, None], [None, NAN], [None, None], [None, "x"]]),
        ([{"value": 1}, 2], ["value", "value of other items"], [[1, None], [None, 2]]),
        ([{"d": Decimal("1.10"), "b": b"\xff", "s": {1, 2}}], ["d", "b", "s"], [[Decimal("1.10"), b"\xff", {1, 2}]]),
        ({"rows": [{"a": NAN}, {"a": math.inf}, {"a": 1.5}]}, ["a"], [[NAN], [math.inf], [1.5]]),
        ({"columns": [["un", "hashable"]], "rows": [[1]]}, [("un", "hashable")], [[1]]),
    ],
)
def test_r02_r05_shapes(data: Any, columns: list[Any], rows: list[list[Any]]) -> None:
    frame = to_frame(data)
    assert frame.columns.tolist() == columns
    assert frame.shape == (len(rows), len(columns))
    for position, row in enumerate(rows):
        assert all(same(cell, source) for cell, source in zip(frame.iloc[position].tolist(), row, strict=True))
    frame.to_html()
    frame.to_string()


def test_r05_mixed_time_zones_are_not_shifted() -> None:
    values = [datetime(2024, 5, 1, 12, tzinfo=PLUS2), datetime(2024, 5, 1, 12), "x"]
    frame = to_frame([{"a": value} for value in values])
    assert frame["a"].tolist() == values
    assert "1.10" in to_frame([{"d": Decimal("1.10")}]).to_string()


def test_what_stands_beside_the_rows_goes_to_attrs() -> None:
    frame = to_frame({"matches": [{"path": "a", "line": 1}], "count": 1, "truncated": False})
    assert frame.columns.tolist() == ["path", "line"]
    assert frame.attrs == {"count": 1, "truncated": False}
    assert to_frame({"columns": ["a"], "rows": [[1]], "rowCount": 1}).attrs == {"rowCount": 1}
    nothing = to_frame({"matches": [], "count": 0})
    assert (nothing.shape, nothing.attrs) == ((0, 0), {"count": 0})
    two = to_frame({"a": [{"x": 1}], "b": [{"y": 1}, {"y": 2}]})
    assert two.columns.tolist() == ["key", "value"]


def test_other_values() -> None:
    @dataclasses.dataclass
    class Point:
        x: int
        y: str

    assert to_frame([Point(1, "a"), Point(2, "b")]).to_dict("list") == {"x": [1, 2], "y": ["a", "b"]}
    assert to_frame(Point(1, "a"))["key"].tolist() == ["x", "y"]
    frame = pd.DataFrame({"a": [1]})
    assert to_frame(frame) is frame
    assert to_frame(pd.Series([1, 2], name="s")).columns.tolist() == ["s"]
    assert to_frame(np.array([[1, 2], [3, 4]])).shape == (2, 2)
    assert to_frame(np.float64(1.5)).iloc[0, 0] == 1.5


class Hostile:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    def __hash__(self) -> int:
        raise RuntimeError("no")

    def __bool__(self) -> bool:
        raise RuntimeError("no")


class HostileMapping(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("no")

    def __iter__(self) -> Any:
        raise RuntimeError("no")

    def __len__(self) -> int:
        return 1


def test_objects_that_misbehave_never_raise() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for data in (Hostile(), [Hostile()], [{"a": Hostile()}], HostileMapping(), [HostileMapping()], deep, {"a": deep}):
        frame = to_frame(data)
        assert isinstance(frame, pd.DataFrame)
        assert frame.shape[0] == 1
    while deep:  # taken apart here: the garbage collector would need as deep a stack
        deep = deep.pop()


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=[]), max_size=4)
    | st.sampled_from([2**53 + 1, 2**63, -(2**63), 0, 1, 1.0, True])
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(JSON)
def test_any_json_gives_a_frame(data: Any) -> None:
    frame = to_frame(data)
    assert isinstance(frame, pd.DataFrame)
    json.dumps(frame_data(frame), allow_nan=False)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from("abcd"), SCALARS, max_size=4), min_size=1, max_size=5))
def test_every_cell_of_records_equals_its_source(rows: list[dict[str, Any]]) -> None:
    frame = to_frame(rows)
    assert len(frame) == len(rows)
    for name in frame.columns:
        for cell, row in zip(frame[name].tolist(), rows, strict=True):
            assert same(cell, row.get(name))


@settings(max_examples=120, deadline=None)
@given(st.lists(st.lists(SCALARS, max_size=4), min_size=1, max_size=5), st.lists(st.text(max_size=2), max_size=5))
def test_every_cell_of_rows_equals_its_source(rows: list[list[Any]], names: list[str]) -> None:
    frame = to_frame({"columns": names, "rows": rows})
    for position, row in enumerate(rows):
        for column, source in enumerate(row):
            assert same(frame.iloc[:, column].tolist()[position], source)


# ---- frames through JSON ----------------------------------------------------------------------------------------

BASE = pd.DataFrame(
    {
        "i": [1, 2, 3],
        "f": [1.5, NAN, -math.inf],
        "b": [True, False, True],
        "s": ["a", None, "c"],
        "cat": pd.Categorical(["x", None, "y"], ["y", "x", "z"], ordered=True),
    }
)
FRAMES = {
    "plain": BASE,
    "zone": pd.DataFrame(
        {
            "t": pd.to_datetime(["2024-01-01 00:00:00.0", "2024-07-01 12:00:00.123456", None]).tz_localize(
                "Europe/Berlin"
            )
        }
    ),
    "nanoseconds": pd.DataFrame(
        {"t": pd.to_datetime(["2024-01-01T00:00:00.123456789", None]).astype("datetime64[ns]")}
    ),
    "offset": pd.DataFrame({"t": pd.to_datetime(["2024-01-01T00:00+02:00"])}),
    "durations": pd.DataFrame({"d": pd.to_timedelta(["1 days 2:03:04.000005", None, "-1s"])}),
    "nullable": pd.DataFrame(
        {
            "a": pd.array([2**60 + 1, None], dtype="Int64"),
            "b": pd.array([True, None], dtype="boolean"),
            "c": pd.array(["a", None], dtype="string"),
            "d": pd.array([1.5, None], dtype="Float64"),
        }
    ),
    "sizes": pd.DataFrame(
        {"a": np.array([1, 2], "uint8"), "b": np.array([1.1, 2], "float32"), "c": np.array([2**64 - 1, 0], "uint64")}
    ),
    "nested": pd.DataFrame({"o": [[1, 2], {"a": 1}], "m": [1, "x"]}),
    "twice": pd.DataFrame([[1, "a"]], columns=["a", "a"]),
    "numbers": pd.DataFrame([[1, 2]], columns=[0, 1]),
    "levels": pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")])),
    "named index": BASE.set_index("s"),
    "two indexes": BASE.set_index(["i", "s"]),
    "shuffled": BASE.iloc[[2, 0]],
    "dates as index": pd.DataFrame(
        {"a": [1, 2]}, index=pd.DatetimeIndex(["2024-01-01", "2024-02-01"], tz="UTC", name="when")
    ),
    "categories as index": pd.DataFrame({"a": [1, 2]}, index=pd.CategoricalIndex(["a", "b"])),
    "range from 5": pd.DataFrame({"a": [1]}, index=pd.RangeIndex(5, 6)),
    "no rows": BASE.iloc[:0],
    "no columns": pd.DataFrame(index=[1, 2]),
    "nothing": pd.DataFrame(),
    "periods": pd.DataFrame({"p": pd.period_range("2024-01", periods=3, freq="M")}),
    "whole categories": pd.DataFrame(
        {"c": pd.Categorical([1, 2, 1]), "t": pd.Categorical(pd.to_datetime(["2024-01-01"] * 3))}
    ),
    "surrogates": pd.DataFrame({"s": pd.Series(["\ud800"], dtype=object)}),
}


@pytest.mark.parametrize("name", FRAMES)
def test_frames_come_back_equal(name: str) -> None:
    frame = FRAMES[name]
    before = frame.copy(deep=True)
    data = json.loads(json.dumps(frame_data(frame), allow_nan=False))
    pd.testing.assert_frame_equal(to_frame(data), frame, check_freq=False)
    pd.testing.assert_frame_equal(frame, before)


def test_other_objects_become_text() -> None:
    frame = pd.DataFrame({"a": [Decimal("1.10"), date(2024, 1, 2)], "b": pd.interval_range(0, 2)})
    back = to_frame(json.loads(json.dumps(frame_data(frame))))
    assert back["a"].tolist() == ["1.10", "2024-01-02"]
    assert back["b"].tolist() == ["(0, 1]", "(1, 2]"]


@pytest.mark.parametrize(
    "dtypes", [["int64"], ["no such"], ["datetime64[us]"], [5], "x", {"a": "int64"}, [{"name": "category"}], [None]]
)
def test_dtypes_that_do_not_fit_are_let_be(dtypes: Any) -> None:
    frame = to_frame({"columns": ["a", "b"], "rows": [["x", 1], [None, 2]], "dtypes": dtypes})
    assert frame["a"].tolist()[0] == "x"
    assert frame["b"].tolist() == [1, 2]


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=3, max_size=3),
    st.lists(st.floats(), min_size=3, max_size=3),
    st.lists(st.none() | st.text(max_size=5), min_size=3, max_size=3),
    st.lists(st.none() | st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1)), min_size=3, max_size=3),
)
def test_any_frame_comes_back_equal(whole: Any, floats: Any, texts: Any, times: Any) -> None:
    frame = pd.DataFrame(
        {"i": whole, "f": floats, "s": pd.Series(texts, dtype="str"), "t": pd.Series(times, dtype="datetime64[us]")}
    )
    data = json.loads(json.dumps(frame_data(frame), allow_nan=False))
    pd.testing.assert_frame_equal(to_frame(data), frame, check_exact=True)


# ---- frames of a session ----------------------------------------------------------------------------------------

REQUEST = ApprovalRequest(
    id="apr_1",
    session_id="s",
    run_id="r",
    call_id="c1",
    tool="shell",
    arguments={"command": "ls"},
    reason="asks",
    fingerprint="f",
    created_at=1_700_000_000.0,
)
SUMMARY = SessionSummary(id="s", title="T", model="demo", workspace=".", usage=Usage(input_tokens=3, output_tokens=4))


def _events() -> list[ev.SessionEvent]:
    common: dict[str, Any] = {"session_id": "s", "run_id": "r", "at": 1_700_000_000.5}
    call: dict[str, Any] = {"call_id": "c1", "tool": "grep"}
    return [
        ev.SessionCreated(session_id="s", summary=SUMMARY, seq=1),
        ev.SessionUpdated(session_id="s", summary=SUMMARY, seq=2),
        ev.SessionDeleted(session_id="s", summary=SUMMARY, seq=3),
        ev.SessionRewound(session_id="s", messages=(), removed=2, seq=4),
        ev.RunStarted(model="demo", input="hello", seq=5, **common),
        ev.StepStarted(step=1, seq=6, **common),
        ev.MessageDelta(message_id="m", text="he", seq=7, **common),
        ev.ReasoningDelta(message_id="m", text="hm", seq=8, **common),
        ev.MessageCompleted(message=create_message("assistant", "hello"), seq=9, **common),
        ev.ToolDelta(text="{", seq=10, **call, **common),
        ev.ToolStarted(arguments={"q": 1}, seq=11, **call, **common),
        ev.ToolProgress(message="half", seq=12, **call, **common),
        ev.ToolExecuted(content="found", duration_ms=1.5, seq=13, **call, **common),
        ev.ToolFailed(error="broke", seq=14, **call, **common),
        ev.ToolSkipped(reason="no", cause="declined", seq=15, **call, **common),
        ev.ApprovalRequested(request=REQUEST, seq=16, **common),
        ev.ApprovalResolved(
            request=REQUEST,
            decision=ApprovalDecision(approved=False, reason="no"),
            answered_by="button",
            seq=17,
            **common,
        ),
        ev.Notice(level="info", code="retry", text="waits", seq=18, **common),
        ev.UsageUpdated(usage=Usage(input_tokens=5, output_tokens=1), cost=0.25, seq=19, **common),
        ev.TodoUpdated(items=(TodoItem(text="a"),), seq=20, **common),
        ev.RunCompleted(status="completed", seq=21, **common),
        ev.RunFailed(code="x", message="y", seq=22, **common),
    ]


def test_events_frame() -> None:
    events = _events()
    assert {type(event) for event in events} == set(ev.EVENT_TYPES)
    frame = events_frame(events)
    assert frame["seq"].tolist() == list(range(1, 23))
    assert frame["type"].tolist() == [event.type for event in events]
    assert str(frame["at"].dtype) == "datetime64[us, UTC]"
    assert frame["at"].iloc[4] == pd.Timestamp("2023-11-14T22:13:20.5Z")
    assert frame["at"].isna().tolist()[:4] == [True] * 4
    assert not frame["text"].isna().any()
    executed = frame[frame["type"] == "tool.executed"].iloc[0]
    assert (executed["tool"], executed["text"], executed["duration_ms"], executed["is_error"]) == (
        "grep",
        "found",
        1.5,
        False,
    )
    assert frame[frame["type"] == "approval.resolved"]["text"].iloc[0] == "declined by button: no"
    assert frame[frame["type"] == "approval.requested"]["tool"].iloc[0] == "shell"


def test_messages_frame() -> None:
    call = ToolCallPart(id="c1", name="grep", arguments={"q": 1}, raw_arguments='{"q":1}')
    messages = [
        create_message("user", "hello", created_at=1_700_000_000.0),
        create_message("assistant", [ReasoningPart(text="hm"), TextPart(text="so"), call]),
        tool_message(call, "broke", is_error=True),
    ]
    frame = messages_frame(messages)
    assert frame["role"].tolist() == ["user", "assistant", "tool"]
    assert frame["text"].tolist() == ["hello", "so", "broke"]
    assert frame["calls"].tolist() == [[], ["grep"], []]
    assert frame["reasoning"].iloc[1] == "hm"
    assert frame["tool"].iloc[2] == "grep"
    assert frame["is_error"].tolist() == [pd.NA, pd.NA, True]
    assert frame["at"].iloc[0] == pd.Timestamp("2023-11-14T22:13:20Z")


def test_approvals_frame() -> None:
    records = [
        ApprovalRecord(
            request=REQUEST,
            decision=ApprovalDecision(approved=False, reason="no"),
            answered_by="button",
            at=1_700_000_009.0,
        ),
        ApprovalRecord(
            request=REQUEST,
            decision=ApprovalDecision(approved=True, arguments={"command": "ls -l"}, remember="session"),
            answered_by="stdin",
            at=1_700_000_010.0,
        ),
    ]
    frame = approvals_frame(records)
    assert frame["who"].tolist() == ["button", "stdin"]
    assert frame["decision"].tolist() == ["declined", "approved"]
    assert frame["what"].tolist() == ['shell {"command": "ls"}', 'shell {"command": "ls -l"}']
    assert frame["reason"].iloc[0] == "no"
    assert frame["edited"].tolist() == [False, True]
    assert frame["arguments"].iloc[1] == {"command": "ls -l"}
    assert (frame["when"] - frame["asked"]).tolist() == [pd.Timedelta(seconds=9), pd.Timedelta(seconds=10)]


def test_usage_frame() -> None:
    event = ev.UsageUpdated(session_id="s", run_id="r", usage=Usage(input_tokens=5, output_tokens=1), cost=0.25)
    frame = usage_frame(
        [SUMMARY, RunResult(run_id="r2", status="completed", usage=Usage(input_tokens=9)), event, Usage()]
    )
    assert frame["name"].tolist()[:3] == ["T", "r2", "r"]
    assert frame["total_tokens"].tolist() == [7, 9, 6, 0]
    assert frame["cost"].tolist() == [pd.NA, pd.NA, 0.25, pd.NA]
    assert frame["model"].iloc[0] == "demo"
    assert usage_frame({"all": Usage(output_tokens=2)})["name"].tolist() == ["all"]


@pytest.mark.parametrize(
    ("empty", "full"),
    [
        (events_frame([]), events_frame(_events())),
        (messages_frame([]), messages_frame([create_message("user", "x")])),
        (
            approvals_frame([]),
            approvals_frame(
                [ApprovalRecord(request=REQUEST, decision=ApprovalDecision(approved=True), answered_by="code", at=1.0)]
            ),
        ),
        (usage_frame([]), usage_frame([SUMMARY])),
    ],
)
def test_empty_frames_have_the_same_columns_and_types(empty: pd.DataFrame, full: pd.DataFrame) -> None:
    assert len(empty) == 0
    assert len(full) > 0
    pd.testing.assert_series_equal(empty.dtypes, full.dtypes)


def test_pandas_is_not_loaded_by_the_import() -> None:
    code = (
        "import sys, kestrel_nb.frames as frames\nassert 'pandas' not in sys.modules\n"
        "frames.to_frame([])\nassert 'pandas' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
