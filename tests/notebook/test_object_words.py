"""What objects say of themselves carries no table and no secret; what hides a value by its name; hostile classes."""

import asyncio
import collections
import dataclasses
import enum
import functools
import types
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kestrel_nb.notebook.disclosure import LEVELS, brief, disclose
from kestrel_nb.notebook.disclosure_kinds import hides
from kestrel_nb.notebook.interpolation import interpolate
from kestrel_nb.notebook.placeholders import placeholder_offers
from kestrel_nb.notebook.variables import changes, snapshot

MARK, SECRET = "SENTINEL", "hush-hush"
FRAME = pd.DataFrame({"a": [MARK]})


class Speaks:
    """Prints all that it holds."""

    def __init__(self, held: Any, password: str = SECRET) -> None:
        self.held, self.password = held, password

    def __repr__(self) -> str:
        return f"Speaks({self.held!r}, {self.password})"


class Slots:
    __slots__ = ("held", "token")

    def __init__(self, held: Any) -> None:
        self.held, self.token = held, SECRET

    def __repr__(self) -> str:
        return f"Slots({self.held}, {self.token})"


@dataclasses.dataclass
class Record:
    held: Any
    password: str = SECRET

    def __repr__(self) -> str:
        return f"Record({self.held}, {self.password})"


class Computed:
    """Says a secret that it doesn't keep."""

    def __repr__(self) -> str:
        return f"Computed(size=3, api_key={SECRET!r}, \"token\": b'{SECRET}')"


def finished() -> Any:
    loop = asyncio.new_event_loop()
    future = loop.create_future()
    future.set_result(FRAME)
    loop.close()
    return future


class Cell(enum.Enum):
    PASSWORD = 1


HOLDERS: dict[str, Any] = {
    "user dict": collections.UserDict({"f": FRAME, "password": SECRET}),
    "user list": collections.UserList([FRAME]),
    "chain": collections.ChainMap({"f": FRAME, "password": SECRET}),
    "items": {"f": FRAME, "password": SECRET}.items(),
    "values": collections.OrderedDict(f=FRAME).values(),
    "partial": functools.partial(print, FRAME, password=SECRET),
    "bound": functools.partial(FRAME.head),
    "slice": slice(FRAME),
    "error": ValueError(FRAME),
    "future": finished(),
    "object": Speaks(FRAME),
    "object in object": Speaks([{"k": Speaks(FRAME)}]),
    "slots": Slots(FRAME),
    "record": Record(FRAME),
    "array": Speaks(np.array([MARK])),
    "very many": Speaks([[i] for i in range(3_000)] + [FRAME]),
}
SECRETS: dict[str, Any] = {
    "object": Speaks(1),
    "slots": Slots(1),
    "record": Record(1),
    "computed": Computed(),
    "user dict": collections.UserDict({"password": SECRET}),
    "pairs": [("Authorization", SECRET), ("Accept", "text/html")],
    "items": {"password": SECRET}.items(),
    "bytes as a key": {b"password": SECRET},
    "several parts": {("db", "password"): SECRET},
    "a member": {Cell.PASSWORD: SECRET},
    "pwd": {"pwd": SECRET},
    "url": f"postgres://bob:{SECRET}@db.example.org/x and http://h:80/a@b",
    "url inside": [f"amqp://bob:{SECRET}@h"],
    "row": np.array([(SECRET, 1)], dtype=[("password", "U10"), ("n", "i8")])[0],
    "rows of rows": np.array([[(SECRET, 1)]], dtype=[("password", "U10"), ("n", "i8")]),
    "fields in fields": np.array([((SECRET, 1), 1)], dtype=[("p", [("password", "U10"), ("m", "i8")]), ("n", "i8")]),
    "no array": np.array((SECRET, 1), dtype=[("password", "U10"), ("n", "i8")]),
    "object in a cell": pd.DataFrame({"c": [Speaks(1)]}),
}


@pytest.mark.parametrize("value", HOLDERS.values(), ids=HOLDERS)
@pytest.mark.parametrize("level", [None, *LEVELS])
def test_the_words_of_an_object_carry_no_table(value: Any, level: Any) -> None:
    for held in (value, [value], {"k": value}):
        text = disclose(held, level).text
        assert MARK not in text
        assert SECRET not in text


@pytest.mark.parametrize("value", SECRETS.values(), ids=SECRETS)
@pytest.mark.parametrize("level", [None, *LEVELS])
def test_the_words_of_an_object_carry_no_secret(value: Any, level: Any) -> None:
    assert SECRET not in disclose(value, level).text


def test_what_is_told_instead() -> None:
    assert disclose(Speaks(FRAME)).text == "Speaks(held=<DataFrame 1 × 1>, password=***)"
    assert disclose(Speaks(7)).text == "Speaks(7, ***)"
    assert disclose(Computed()).text == 'Computed(size=3, api_key=***, "token": ***)'
    assert disclose({"f": FRAME, "n": 1}.items()).text == "dict_items([('f', <DataFrame 1 × 1>), ('n', 1)])"
    assert disclose([("token", SECRET), ("n", 1)]).text == "[('token', ***), ('n', 1)]"
    assert disclose("postgres://bob:pw@h/db http://h:80/a@b").text == "postgres://bob:***@h/db http://h:80/a@b"
    assert disclose(SECRETS["row"]).text == "('***', 1)"
    assert disclose(pd.SparseDtype(float, 98765.0)).text == "Sparse[float64]"
    assert disclose([pd.CategoricalDtype([MARK]), np.dtype("i8")]).text == "[category (1), int64]"
    assert disclose(FRAME.rolling(2)).text.startswith("Rolling [window=2")


@pytest.mark.parametrize("name", ["pwd", b"api_key", ("a", "token"), Cell.PASSWORD])
def test_names_of_every_kind_hide(name: Any) -> None:
    assert hides(name, "x")
    assert not hides(name, None)


def test_statistics_warn_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = disclose(pd.DataFrame({"x": [np.nan, np.inf, -np.inf]}), "describe").text
    assert "| x | float64 | 2 | 1 |" in text
    assert "| inf |" in text


def hostile() -> list[Any]:
    """Objects that raise wherever they are looked at; made here, as pytest looks at what a module holds."""

    class Meta(type):
        def __getattribute__(cls, name: str) -> Any:
            raise SystemExit(name)

        def __eq__(cls, other: object) -> bool:
            raise SystemExit

        __hash__ = type.__hash__

    class Shut(metaclass=Meta):
        pass

    class Unclassed:
        @property
        def __class__(self) -> Any:
            raise SystemExit

    class Cancels:
        def __repr__(self) -> str:
            raise asyncio.CancelledError

        def __getattr__(self, name: str) -> Any:
            raise asyncio.CancelledError

    class Stop(BaseException):
        pass

    class Hooked:
        def __getattribute__(self, name: str) -> Any:
            raise Stop(name)

        def __iter__(self) -> Iterator[int]:
            raise Stop

    return [Shut(), Unclassed(), Cancels(), Hooked(), Shut]


@pytest.mark.parametrize("number", range(5))
def test_hostile_classes_break_nothing(number: int) -> None:
    value = hostile()[number]
    assert brief(value)
    for level in (None, *LEVELS):
        assert disclose([value], level).text
    found = interpolate("{v} {v.x} {v[0]} {v:schema}", {"v": value})
    assert "{v}" not in found.text
    for typed in ("{v", "{v.", "{v[", "{v.x."):
        placeholder_offers({"v": value}, typed, "")
    state = snapshot({"v": value, "w": [value]})
    assert changes(snapshot({}), state).new[0].brief == brief(value)
    assert "v" not in [variable.name for variable in changes(state, snapshot({"v": value})).new]


def test_a_mock_reads_the_same_in_every_kernel() -> None:
    from unittest import mock

    assert disclose(mock.Mock()).text == "<Mock>"


def test_a_reference_that_stands_there_many_times_is_read_once() -> None:
    said: list[int] = []

    class Counts:
        def __repr__(self) -> str:
            said.append(1)
            return "Counts"

    found = interpolate("{c} " * 1_000, {"c": Counts()})
    assert found.text == "Counts " * 1_000
    assert len(found.sent) == 1_000
    assert len(said) == 1


def test_objects_that_would_be_used_up_are_not() -> None:
    def numbers() -> Iterator[int]:
        yield from (1, 2)

    held = types.SimpleNamespace(g=numbers(), m=map(str, [1]))
    disclose(Speaks(held))
    assert list(held.g) == [1, 2]
    assert list(held.m) == ["1"]
