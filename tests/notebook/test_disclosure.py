"""What each level says of a value, and that nothing which a value does can break it."""

import asyncio
import collections
import dataclasses
import datetime
import io
import re
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kestrel_nb import Kestrel
from kestrel_nb.notebook.disclosure import LEVELS, Level, brief, disclose, shape_of, type_name
from kestrel_nb.notebook.handle import RunHandle
from kestrel_nb.testing import ScriptedModel

MARK = "SENTINEL"
FRAME = pd.DataFrame(
    {
        "id": [1, 2, 3],
        "city": [f"{MARK}-a", f"{MARK}|b\nline", None],
        "kind": pd.Categorical([f"{MARK}-c"] * 3),
        "api_key": ["hush-1", "hush-2", "hush-3"],
        "when": pd.to_datetime(pd.Series(["2020-01-01", "2020-01-02", None]).to_numpy()),
    },
    index=pd.Index([f"{MARK}-x", f"{MARK}-y", f"{MARK}-z"], name="row"),
)


@dataclasses.dataclass
class Login:
    user: str
    password: str = "hunter2"
    table: Any = None
    quiet: str = dataclasses.field(default="unseen", repr=False)


class Point(NamedTuple):
    x: int
    token: str


class Hostile:
    """Everything that may raise does."""

    def __repr__(self) -> str:
        raise SystemExit("no")

    def __len__(self) -> int:
        raise ValueError

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __iter__(self) -> Iterator[int]:
        raise RuntimeError


class Faceless(Hostile):
    """Its class can't be asked for either."""

    @property
    def __class__(self) -> Any:
        raise RuntimeError

    @__class__.setter
    def __class__(self, value: Any) -> None: ...


class Liar(list):  # type: ignore[type-arg]
    """A list whose own methods never end."""

    def __len__(self) -> int:
        return 10**9

    def __iter__(self) -> Iterator[int]:
        while True:
            yield 1

    def __getitem__(self, key: Any) -> Any:
        raise RuntimeError


class Sprawling:
    def __repr__(self) -> str:
        return "x" * 5_000_000


class Plain:
    def __init__(self) -> None:
        self.size, self.token, self.me = 3, "hush", self


def cycle() -> list[Any]:
    made: list[Any] = [1]
    made.append({"again": made})
    return made


def chain() -> Any:
    made: Any = None
    for _ in range(5_000):
        made = types.SimpleNamespace(next=made)
    return made


def ragged() -> Any:
    made = np.empty(2, dtype=object)
    made[:] = [FRAME, {"a": 1}]
    return made


STRANGE: list[Any] = [
    Hostile(),
    [Hostile(), {"a": Hostile()}],
    pd.Series([Hostile(), 1], dtype=object),
    pd.DataFrame({"a": [Hostile()], "b": [Liar([1])]}),
    Liar([1, 2]),
    type("Mute", (dict,), {"items": None, "__len__": None})({"a": 1}),
    Sprawling(),
    [Sprawling()] * 50,
    Plain(),
    object(),
    cycle(),
    chain(),
    ragged(),
    type("Long\nName" * 50, (), {})(),
    10**100_000,
    -(10**100_000),
    float("nan"),
    b"\x00" * 1_000_000,
    "x" * 1_000_000,
    {str(i): i for i in range(100_000)},
    [[[[[[[[[[1]]]]]]]]]] * 1_000,
    range(10**12),
    iter([1]),
    (i for i in "ab"),
    io.StringIO("text"),
    lambda x=FRAME: x,
    Hostile,
    Login,
    np,
    print,
    FRAME.head,
    FRAME.groupby("id"),
    np.array(5),
    np.array([(1, "a")], dtype=[("x", int), ("token", "U3")]),
    np.ma.array([1, 2], mask=[False, True]),
    np.zeros((3, 5_000)),
    np.zeros((2, 2, 2, 2)),
    np.zeros((0, 4)),
    np.array([["a", "b"]]),
    pd.DataFrame(),
    pd.DataFrame(index=range(3)),
    pd.DataFrame([[1, 2]], columns=["a", "a"]),
    pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "x"), ("b", "y")])),
    pd.DataFrame({Hostile: [1], None: [2], "n\nl": [3], "x" * 500: [4]}),
    FRAME.set_index(["id", "city"]),
    FRAME.index,
    FRAME.set_index(["id", "city"]).index,
    FRAME["kind"],
    pd.array([1, None], dtype="Int64"),
    pd.Series(pd.arrays.SparseArray([0, 0, 77])),
    pd.Series(pd.interval_range(0, 3)),
    pd.Series(pd.period_range("2020-01", periods=3, freq="M")),
    pd.Series([1 + 2j]),
    pd.NA,
    pd.NaT,
    collections.OrderedDict(a=1),
    collections.defaultdict(list),
    collections.deque([1]),
    types.MappingProxyType({"a": 1}),
    Exception("no"),
    {"a", 1, None},
]


@pytest.mark.parametrize("number", range(len(STRANGE)))
@pytest.mark.parametrize("level", [None, *LEVELS])
def test_nothing_breaks_it_and_everything_is_bounded(number: int, level: Level | None) -> None:
    value = STRANGE[number]
    told = disclose(value, level)
    assert 0 < len(told.text) < 80_000
    assert not re.search(r"0x[0-9a-fA-F]{6}", told.text)
    assert "\n" not in brief(value)
    assert len(brief(value)) < 150
    assert told.values == 0 or told.level not in ("schema",)
    assert "hush" not in told.text
    assert told == disclose(value, level)


def test_an_object_whose_class_cannot_be_asked_for() -> None:
    for level in (None, *LEVELS):
        assert "Faceless" in disclose(Faceless(), level).text
        assert disclose({"a": [Faceless()]}, level).text.startswith(("{'a': [<Faceless", "dict of 1"))


@pytest.mark.parametrize(
    ("value", "name", "shape", "short"),
    [
        (FRAME, "DataFrame", "3 × 5", "DataFrame 3 × 5"),
        (FRAME["id"], "Series", "3", "Series 3"),
        (np.zeros((3, 4)), "ndarray", "3 × 4", "ndarray 3 × 4"),
        (np.array(5), "ndarray", "", "ndarray"),
        (5, "int", "", "int"),
        (None, "NoneType", "", "NoneType"),
        ("abc", "str", "3", "str of 3 characters"),
        ([1] * 1_234, "list", "1,234", "list of 1,234"),
        ({}, "dict", "0", "dict of 0"),
        (Liar([1, 2]), "Liar", "2", "Liar of 2"),
    ],
)
def test_type_and_shape(value: Any, name: str, shape: str, short: str) -> None:
    assert (type_name(value), shape_of(value), brief(value)) == (name, shape, short)


def test_the_levels_of_a_frame() -> None:
    schema = disclose(FRAME)
    assert schema == disclose(FRAME, "schema")
    assert schema.text == (
        "DataFrame, 3 rows × 5 columns\nindex: Index (str), named row\n- id: int64\n- city: str, 1 missing\n"
        "- kind: category (1)\n- api_key: str\n- when: datetime64[us], 1 missing"
    )
    described = disclose(FRAME, "describe")
    assert MARK not in described.text
    assert "| id | int64 | 3 | 0 |  | 2 | 1 | 1 | 1.5 | 2 | 2.5 | 3 |" in described.text
    head = disclose(FRAME, "head", rows=2)
    assert f"| {MARK}-x | 1 | {MARK}-a | {MARK}-c | *** | 2020-01-01 00:00:00 |" in head.text
    assert f"{MARK}\\|b\\nline" in head.text
    assert f"{MARK}-z" not in head.text
    assert (head.values, head.hidden) == (10, 2)
    assert "api_key: not shown" in head.text
    full = disclose(FRAME, "full")
    assert (full.values, full.hidden, full.cut) == (15, 3, False)


def test_names_that_look_like_a_keys_hide_what_they_hold() -> None:
    assert disclose("hunter2", name="password").text == "***"
    assert disclose(FRAME, "head", name="tokens").text == "***"
    assert disclose(FRAME, name="tokens").text == disclose(FRAME).text
    assert disclose(100, name="max_tokens").text == "100"
    assert disclose(None, name="api_key").text == "None"
    held = {"a": 1, "apiKey": "hush", "deep": [{"secret": "hush"}]}
    assert disclose(held).text == "{'a': 1, 'apiKey': ***, 'deep': [{'secret': ***}]}"
    assert disclose(held).hidden == 2
    assert disclose(Login("ann", table=FRAME)).text == "Login(user='ann', password=***, table=<DataFrame 3 × 5>)"
    assert "hunter2" not in disclose(Login, "full").text
    row = pd.Series({"name": "x", "password": "hush"})
    assert "hush" not in disclose(row, "full").text
    assert "hush" not in disclose(FRAME.T, "full").text
    point = Point(1, "hush")
    assert disclose(point, "head").text == "Point(x=1, token=***)"


def test_keys_of_the_environment_are_masked_before_a_text_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-TESTKEY-1234567890"
    monkeypatch.setenv("ACME_API_KEY", key)
    values: list[Any] = [
        key,
        ["a" * at + key + "b" * 600 for at in range(480, 510)],
        {key: key},
        pd.DataFrame({key: [key]}),
        Bad(key),
    ]
    values.append(pd.DataFrame({"x" * at + key + "y" * 90: [1] for at in range(10, 70)}))
    for value in (*values, pd.DataFrame({"a": ["x" * at + key + "y" * 90 for at in range(30, 70)]}), key.encode()):
        for level in LEVELS:
            text = disclose(value, level, rows=100).text
            assert key[:8] not in text
            assert key[-6:] not in text
    assert disclose(key).values == 0


class Bad:
    def __init__(self, said: str) -> None:
        self.said = said

    def __repr__(self) -> str:
        return self.said


def test_plain_values_read_as_they_are() -> None:
    assert disclose("a {b}\nc").text == "a {b}\nc"
    assert disclose(np.float64(0.1)).text == "0.1"
    assert disclose(datetime.date(2024, 2, 29)).text == "2024-02-29"
    assert disclose({3, 1, 2}).text == "{1, 2, 3}"
    assert disclose(list(range(1_000))).text.endswith("99, … 900 more]")
    assert disclose(list(range(1_000)), "head", rows=3).text == "[0, 1, 2, … 997 more]"
    assert disclose([1, [2], {"a": FRAME}], "schema").text == "list of 3: 1 int, 1 list, 1 dict"
    long = disclose("a" * 5_000 + "b" * 5_000)
    assert long.cut
    assert long.text.startswith("aaa")
    assert long.text.endswith("bbb")
    assert "characters left out" in long.text


def test_nothing_is_consumed_or_changed() -> None:
    one, two = iter([1, 2]), (i for i in "ab")
    made: collections.defaultdict[str, int] = collections.defaultdict(int)
    before = FRAME.copy(deep=True)
    for level in LEVELS:
        for value in (one, two, made, FRAME, [one, two]):
            disclose(value, level)
    assert (list(one), list(two), dict(made)) == ([1, 2], ["a", "b"], {})
    pd.testing.assert_frame_equal(FRAME, before)


def test_large_tables_are_bounded() -> None:
    wide = pd.DataFrame(np.zeros((200, 5_000)))
    long = pd.DataFrame({"n": np.zeros(3_000_000, dtype="int8")})
    for value in (wide, long, long["n"], long.index, wide.to_numpy(), long.to_numpy()):
        for level in LEVELS:
            assert len(disclose(value, level, rows=10**9).text) < 70_000
    assert disclose(wide).text.endswith("… 4,940 more columns")
    assert "statistics of the first 1,000,000 rows" in disclose(long, "describe").text
    full = disclose(long, "full")
    assert full.cut
    assert full.text.endswith("more rows")


class _Column:
    """As much of a column of polars or pyarrow as is used."""

    def __init__(self, cells: list[Any]) -> None:
        self.cells = cells

    def __getitem__(self, part: slice) -> "_Column":
        return _Column(self.cells[part])

    def __len__(self) -> int:
        return len(self.cells)

    def to_pylist(self) -> list[Any]:
        return self.cells

    @property
    def null_count(self) -> int:
        return self.cells.count(None)


def test_a_table_of_another_library_is_known_by_its_module() -> None:
    def column(self: Any, i: int) -> _Column:
        return _Column([f"{MARK}-{i}", None])

    members = {
        "__module__": "pyarrow.lib",
        "__len__": lambda self: 2,
        "shape": (2, 2),
        "column_names": ["city", "token"],
        "schema": types.SimpleNamespace(types=["string", f"Enum(categories=['{MARK}'])"]),
        "column": column,
    }
    table = type("Table", (), members)()
    assert disclose(table).text == "Table, 2 rows × 2 columns\n- city: string, 1 missing\n- token: Enum, 1 missing"
    assert MARK not in disclose(table, "describe").text
    head = disclose(table, "head")
    assert f"| {MARK}-0 | *** |" in head.text
    assert (head.values, head.hidden) == (2, 2)
    lazy = type("LazyFrame", (), {"__module__": "polars.lazyframe.frame"})()
    assert disclose(lazy, "full").text == "LazyFrame (not looked into)"
    other = type("DataFrame", (), {"__module__": "somewhere.frames", "__repr__": lambda self: MARK})()
    assert disclose(other).text == "DataFrame (not looked into)"
    mine = type("DataFrame", (), {"__module__": "__main__", "__repr__": lambda self: MARK})()
    assert disclose(mine).text == MARK


# ---- properties ---------------------------------------------------------------------------------------------------

LEAVES = st.sampled_from(["text", "category", "object", "index", "list"])


@st.composite
def planted(draw: st.DrawFn) -> tuple[pd.DataFrame, list[str]]:
    """A frame of random columns in which every text cell and label is unlike any other."""
    rows, marks = draw(st.integers(0, 6)), []
    columns: dict[str, Any] = {}
    for number, kind in enumerate(draw(st.lists(LEAVES, min_size=1, max_size=4))):
        cells = [f"{MARK}-{number}-{row}-" for row in range(rows)]
        marks += cells
        made: Any = pd.Series(cells, dtype=object) if kind != "text" else pd.Series(cells, dtype="str")
        if kind == "category":
            made = made.astype("category")
        if kind == "list":
            made = pd.Series([[cell] for cell in cells], dtype=object)
        columns[f"c{number}"] = made
    labels = [f"{MARK}-i-{row}-" for row in range(rows)]
    return pd.DataFrame(columns).set_axis(pd.Index(labels, dtype="str")), marks + labels


@given(planted(), st.sampled_from(LEVELS), st.integers(1, 8), st.booleans())
@settings(max_examples=150, deadline=None)
def test_a_cell_stands_only_where_its_level_says(
    made: tuple[pd.DataFrame, list[str]], level: Level, rows: int, one: bool
) -> None:
    frame, marks = made
    value: Any = frame.iloc[:, 0] if one else frame
    told = disclose(value, level, rows=rows)
    found = sum(told.text.count(mark) for mark in marks)
    if level in ("schema", "describe"):
        assert found == 0
    else:
        shown = min(rows, len(frame)) if level == "head" else len(frame)
        assert found == told.values == shown * ((1 if one else frame.shape[1]) + 1)
    if level == "schema":
        assert told.values == 0


@given(st.recursive(st.integers(100, 999), lambda inner: st.lists(inner, max_size=5) | st.tuples(inner), max_leaves=30))
@settings(max_examples=150, deadline=None)
def test_values_are_counted_exactly(value: Any) -> None:
    told = disclose(value)
    assert told.values == len(re.findall(r"\d{3}", re.sub(r"… \d+ more|<[^>]*>", "", told.text)))


def test_a_run_is_told_by_what_it_said_and_an_application_by_its_name() -> None:
    async def ask() -> RunHandle:
        async with Kestrel(model=ScriptedModel(["Rain tomorrow."])) as app:
            handle = RunHandle(app.sessions.create())
            handle.result = await app.ask("weather?")
            assert disclose(app).text == "<Kestrel>"
            assert disclose({"app": app}).text == "{'app': <Kestrel>}"
            return handle

    handle = asyncio.run(ask())
    assert disclose(handle).text == "Rain tomorrow."
    assert disclose(handle, "head").text == "Rain tomorrow."
