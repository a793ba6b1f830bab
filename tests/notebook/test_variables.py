"""The user's variables and what became of them: told without a value, cheaply, and whatever the objects do."""

from __future__ import annotations

import gc
import types
import weakref
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kestrel_nb.notebook.mutations import changed_names
from kestrel_nb.notebook.variables import Changes, changes, snapshot, user_variables


class Shell:
    def __init__(self, **names: Any) -> None:
        self.user_ns_hidden: dict[str, Any] = {"In": ["x"], "quit": quit}
        self.user_ns: dict[str, Any] = {**self.user_ns_hidden, "__name__": "__main__", "_": 1, **names}


def after(before: dict[str, Any], change: Any) -> Changes:
    """What ``change(namespace)`` does."""
    shell = Shell(**before)
    then = snapshot(user_variables(shell))
    change(shell.user_ns)
    return changes(then, snapshot(user_variables(shell)))


def named(found: Changes) -> tuple[list[str], list[str], list[str]]:
    groups = (found.new, found.changed, found.gone)
    return tuple([variable.name for variable in group] for group in groups)  # type: ignore[return-value]


def test_what_the_user_has_defined() -> None:
    shell = Shell(x=1, f=len, pd=pd, _private=2, lazy=type("Lazy", (types.ModuleType,), {})("lazy"), quit=3)
    shell.user_ns[5] = "no name"  # type: ignore[index]
    assert sorted(user_variables(shell)) == ["f", "quit", "x"]


CHANGES = {
    "new": ({}, "b = 1", (["b"], [], [])),
    "gone": ({"a": 1}, "del a", ([], [], ["a"])),
    "same": ({"a": [1], "d": pd.DataFrame({"x": [1]})}, "c = a and None; del c", ([], [], [])),
    "another object": ({"a": [1]}, "a = [1]", ([], ["a"], [])),
    "an equal small number": ({"a": 1}, "a = 1", ([], [], [])),
    "append": ({"a": [1]}, "a.append(2)", ([], ["a"], [])),
    "an item": ({"a": [1, 2]}, "a[0] = 9", ([], ["a"], [])),
    "a key": ({"a": {"k": 1}}, "a['k'] = 2", ([], ["a"], [])),
    "a set": ({"a": {1}}, "a.add(2)", ([], ["a"], [])),
    "bytes": ({"a": bytearray(b"ab")}, "a[0] = 1", ([], ["a"], [])),
    "a column": ({"d": pd.DataFrame({"x": [1]})}, "d['y'] = 1", ([], ["d"], [])),
    "a name of a column": ({"d": pd.DataFrame({"x": [1]})}, "d.columns = ['z']", ([], ["d"], [])),
    "a dtype": ({"d": pd.DataFrame({"x": [1]})}, "d['x'] = d['x'].astype(float)", ([], ["d"], [])),
    "a row": ({"d": pd.DataFrame({"x": [1]})}, "d.loc[1] = 2", ([], ["d"], [])),
    "a small array": ({"a": np.zeros(3)}, "a[1] = 1", ([], ["a"], [])),
    "a shape": ({"a": np.zeros(4)}, "a.shape = (2, 2)", ([], ["a"], [])),
    "a series": ({"s": pd.Series([1])}, "s.name = 'n'", ([], ["s"], [])),
}


@pytest.mark.parametrize(("before", "code", "expected"), CHANGES.values(), ids=CHANGES)
def test_changes(before: dict[str, Any], code: str, expected: Any) -> None:
    assert named(after(before, lambda namespace: exec(code, namespace))) == expected


def test_words_never_hold_a_value() -> None:
    secret = "s3cr3t-value"
    found = after(
        {"old": secret},
        lambda ns: (ns.update(new={secret: [secret]}, frame=pd.DataFrame({"a": [secret]})), ns.pop("old")),
    )
    assert secret not in repr(found)
    assert [(v.name, v.type, v.shape) for v in found.new] == [("frame", "DataFrame", "1 × 1"), ("new", "dict", "1")]
    assert [(v.name, v.brief) for v in found.gone] == [("old", "str of 12 characters")]


def test_large_values_are_neither_kept_nor_copied() -> None:
    frame = pd.DataFrame({"x": range(10)})
    alive = weakref.ref(frame)
    then = snapshot({"frame": frame, "many": list(range(2_000))})
    del frame
    gc.collect()
    assert alive() is None
    assert then.traces["many"].signature is None
    assert named(changes(then, snapshot({"frame": pd.DataFrame({"x": range(10)})}))) == ([], ["frame"], ["many"])


class Hostile:
    """Raises wherever Python lets it."""

    def _raise(self, *_: Any) -> Any:
        raise SystemExit("no")

    __len__ = __repr__ = __str__ = __eq__ = __bool__ = __iter__ = __getattr__ = _raise  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]
    shape = columns = dtypes = property(_raise)


class LyingList(list):  # type: ignore[type-arg]
    def __len__(self) -> int:
        raise RuntimeError

    def __iter__(self) -> Any:
        while True:
            yield 1


class Meta(type):
    __module__ = property(lambda self: 1 / 0)  # type: ignore[assignment]

    def __getattribute__(cls, name: str) -> Any:
        raise RuntimeError(name)


class Posing:
    """Says that it is a frame."""

    __module__ = "pandas.core.frame"
    columns = property(lambda self: 1 / 0)
    dtypes = "?"


STRANGE = [Hostile(), LyingList([1]), Meta("M", (), {})(), Posing(), type("Slots", (), {"__slots__": ()})(), ..., print]


@pytest.mark.parametrize("value", STRANGE, ids=lambda value: type.__repr__(type(value)))
def test_strange_objects_do_no_harm(value: Any) -> None:
    then = snapshot({"a": value})
    assert not changes(then, snapshot({"a": value}))
    assert named(changes(then, snapshot({"a": 1, "b": value}))) == (["b"], ["a"], [])


def test_names_that_code_touches_count_as_changed() -> None:
    then = snapshot({"a": 1, "b": 2})
    assert named(changes(then, snapshot({"a": 1, "b": 2}), touched=["a", "zz"])) == ([], ["a"], [])


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("df['x'] = 1", {"df"}),
        ("df.loc[0, 'x'] = 1", {"df"}),
        ("del df['x']", {"df"}),
        ("a.b.c[0].d += 1", {"a"}),
        ("n += 1", {"n"}),
        ("df.drop(columns='x', inplace=True)", {"df"}),
        ("df.drop(columns='x', inplace=False)", set()),
        ("rows.sort()", {"rows"}),
        ("a, b[0] = 1, 2", {"b"}),
        ("for a[0] in range(3): pass", {"a"}),
        ("with open('f') as d['k']: pass", {"d"}),
        ("if x:\n    df['y'] = 2", {"df"}),
        ("def f():\n    df['x'] = 1", set()),
        ("lambda: rows.sort()", set()),
        ("class C:\n    a[0] = 1", {"a"}),
        ("x = df['a']", set()),
        ("get_ipython().run_cell_magic('time', '', 'df[0] = 1')", {"df"}),
        ("get_ipython().run_cell_magic('bash', '', 'df[0] = 1')", set()),
        ("get_ipython().run_cell_magic('time', '', 'not python at all')", set()),
        ("(make())[0] = 1", set()),
    ],
)
def test_names_that_are_visibly_changed(code: str, names: set[str]) -> None:
    import ast

    assert changed_names(ast.parse(code).body) == names
