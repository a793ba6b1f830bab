"""The user's variables: which there are, and which ones a piece of code has made, changed or removed.

Cheap however large the values are: a table is compared by its shape, columns and dtypes, a container by its length
and, when it is small, by its items; nothing is copied or printed. Strange objects can't break it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any

from .disclosure import brief, shape_of, type_name
from .disclosure_kinds import exactly, kind_of, read

SMALL = 1_000  # items up to which a container is compared item by item, and columns up to which they are compared
SMALL_BYTES = 64_000  # of an array up to which its content is compared

_ABSENT = object()


def user_variables(shell: Any) -> dict[str, Any]:
    """What the user has defined in ``shell``, by name: nothing of IPython's, no modules, no name that begins with _."""
    hidden = getattr(shell, "user_ns_hidden", {})
    return {
        name: value
        for name, value in dict(shell.user_ns).items()
        if type(name) is str
        and not name.startswith("_")
        and value is not hidden.get(name, _ABSENT)
        and not issubclass(type(value), ModuleType)
    }


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable in words: ``type`` and ``shape`` as ``disclosure`` says them, ``brief`` is both. Never a value."""

    name: str
    type: str
    shape: str
    brief: str


@dataclass(frozen=True, slots=True)
class Trace:
    """What is remembered of one value: in words, which object it is, and what differs when that is changed."""

    variable: Variable
    number: int = field(repr=False)
    is_alive: Callable[[], bool] = field(repr=False)
    signature: Any = field(repr=False)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The variables of one moment."""

    traces: Mapping[str, Trace]


@dataclass(frozen=True, slots=True)
class Changes:
    """What became of the variables, each group sorted by name. Those that are gone are told as they were."""

    new: tuple[Variable, ...] = ()
    changed: tuple[Variable, ...] = ()
    gone: tuple[Variable, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.gone)


def snapshot(variables: Mapping[str, Any]) -> Snapshot:
    """Remember ``variables`` as they are. Large values are not kept alive by it."""
    return Snapshot({name: _trace(name, value) for name, value in variables.items()})


def changes(before: Snapshot, after: Snapshot, *, touched: Iterable[str] = ()) -> Changes:
    """What differs between two moments.

    Changed is what is another object, differs in type, shape or signature, or is named in ``touched``.
    """
    old, new, touched = before.traces, after.traces, frozenset(touched)
    both = sorted(name for name in new if name in old)
    return Changes(
        new=tuple(new[name].variable for name in sorted(new) if name not in old),
        changed=tuple(new[name].variable for name in both if name in touched or _differs(old[name], new[name])),
        gone=tuple(old[name].variable for name in sorted(old) if name not in new),
    )


def _differs(old: Trace, new: Trace) -> bool:
    if old.number != new.number or not old.is_alive():
        return True
    return old.variable != new.variable or not _equal(old.signature, new.signature)


# ---- one value ----------------------------------------------------------------------------------------------------


def described(name: str, value: Any) -> Variable:
    """``value`` in words."""
    return Variable(name, type_name(value), shape_of(value), brief(value))


def _trace(name: str, value: Any) -> Trace:
    return Trace(described(name, value), id(value), _life_of(value), _signature(value))


def _life_of(value: Any) -> Callable[[], bool]:
    """Tells whether the object still is, so that its number means it, without keeping a large one alive."""
    try:
        reference = weakref.ref(value)
    except TypeError:
        size = _length(value)
        if size is not None and size > SMALL:
            return partial(
                _always, None
            )  # a number that was given to another object is found out by its length, or never
        return partial(_always, value)
    return lambda: reference() is not None


def _always(kept: Any) -> bool:
    """True: what is kept is alive."""
    return True


def _length(value: Any) -> int | None:
    return len(value) if exactly(value, list, tuple, dict, set, frozenset, str, bytes, bytearray) else None


def _signature(value: Any) -> Any:
    """What differs, as a rule, when the same object has been changed; None where there is nothing cheap to look at."""
    return read(lambda: _content(value), None)


def _content(value: Any) -> Any:
    kind = type(value)
    if exactly(value, list, tuple, set, dict) and len(value) <= SMALL:
        return _Items([*value, *value.values()] if kind is dict else list(value))
    if kind is bytearray and len(value) <= SMALL_BYTES:
        return bytes(value)
    told = kind_of(value)
    if told == "array":
        small = value.nbytes <= SMALL_BYTES and not value.dtype.hasobject
        return str(value.dtype), value.shape, value.tobytes() if small else None
    if told == "frame":
        columns, dtypes = list(value.columns[:SMALL]), value.dtypes.iloc[:SMALL]
        return value.shape, [str(name) for name in columns], [str(dtype) for dtype in dtypes]
    if told == "columnar":
        return str(getattr(value, "schema", "")), str(getattr(value, "dtype", "")), getattr(value, "name", "")
    if told in ("series", "index"):
        return str(value.dtype), value.shape, str(value.name)
    return None


class _Items:
    """The items of a small container, compared as objects: ``==`` of a user's class may do anything."""

    __slots__ = ("_items",)

    def __init__(self, items: list[Any]) -> None:
        self._items = items

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Items) or len(self._items) != len(other._items):
            return False
        return all(mine is theirs for mine, theirs in zip(self._items, other._items, strict=True))

    __hash__ = None  # type: ignore[assignment]


def _equal(old: Any, new: Any) -> bool:
    return read(lambda: bool(old == new), False)
