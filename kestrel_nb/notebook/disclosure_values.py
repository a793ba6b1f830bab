"""Plain Python values as text for a model: bounded in depth, items and characters, each value counted as it is written.

Nothing is cut once it is counted: what no longer fits is left out before, and a marker says so.
"""

from __future__ import annotations

import itertools
import types
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from ..runtime.secrets import MASK
from .disclosure_holdings import holdings_of
from .disclosure_kinds import (
    VIEWS,
    attribute,
    brief,
    hides,
    is_a,
    kind_of,
    length_of,
    name_text,
    read,
    repr_of,
    str_of,
    type_name,
)
from .disclosure_objects import fields_of, is_a_row, is_record, public_fields, root_of, told_of, without_hidden
from .visible import one_line, shorten

Mask = Callable[[str], str]

_OPEN: dict[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
    deque: ("deque([", "])"),
    array: ("array([", "])"),
    **{view: (f"{view.__name__}([", "])") for view in VIEWS},
}
# Scalars of these are told best by str: numpy's 0.1 is np.float64(0.1) to repr.
_SPEAKING = ("numpy", "pandas", "datetime", "zoneinfo", "uuid", "pathlib", "ipaddress")
_NUMBERS = (int, float, complex, Decimal, Fraction)
_BITS = 10_000  # of a whole number: Python refuses to write one of more than 4,300 digits


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is said: characters in all, items of each container, levels of nesting, characters of a text inside."""

    chars: int
    items: int
    depth: int
    text: int


class Writer:
    """Writes one value. ``values`` and ``hidden`` count what stands in the text and what a name hid; ``cut``: some
    of it was left out. ``first``: only so many items of the value itself."""

    def __init__(self, limits: Limits, mask: Mask, *, first: int | None = None) -> None:
        self.values = self.hidden = 0
        self.cut = False
        self._limits, self._mask, self._first = limits, mask, first
        self._left = limits.chars
        self._open: list[int] = []

    def write(self, value: Any) -> str:
        """The value; a text without its quotes, an expression for everything else."""
        if is_a(value, str):
            return self._leaf(self._short(str.__str__(value), self._limits.chars))
        return self.item(value)

    @property
    def has_room(self) -> bool:
        """False once all characters are spent."""
        return self._left > 0

    def item(self, value: Any) -> str:
        """A value inside another."""
        if id(value) in self._open:
            return "…"
        if kind_of(value):
            return self._spend(f"<{brief(value)}>")
        self._open.append(id(value))
        try:
            return self._inner(value)
        finally:
            self._open.pop()

    def named(self, name: str, value: Any) -> str:
        """A value that has a name, which may hide it."""
        if kind_of(value) or not hides(name, value):
            return self.item(value)
        self.hidden += 1
        return self._spend(MASK)

    # ---- one value --------------------------------------------------------------------------------------------

    def _inner(self, value: Any) -> str:
        if is_a(value, str):
            return self._leaf(repr(self._short(str.__str__(value), self._limits.text)))
        if is_a(value, bytes, bytearray):
            return self._bytes(value)
        if is_a(value, int) and not is_a(value, bool) and int.bit_length(value) > _BITS:
            return self._spend(f"<{type_name(value)} of {int.bit_length(value):,} bits>")
        if value is None or is_a(value, *_NUMBERS):
            return self._leaf(self._mask(str.__str__(read(lambda: str(value), "?"))))
        if len(self._open) > self._limits.depth and (length_of(value) or is_record(value)):
            self.cut = True
            return self._spend(f"<{brief(value)}>")
        if is_a(value, dict, types.MappingProxyType):
            return self._mapping(value)
        for base, (start, end) in _OPEN.items():
            if is_a(value, base):
                return self._sequence(value, base, start, end)
        return self._object(value)

    def _object(self, value: Any) -> str:
        told = told_of(value)
        if told is not None:
            return self._spend(self._mask(told))
        if is_a_row(value):
            return self.item(without_hidden(value.item(), value.dtype))
        fields = fields_of(value)
        if fields is not None:
            return self._record(value, fields)
        room = max(self._limits.text, 2 * self._left // 3)
        if root_of(value) in _SPEAKING:
            return self._leaf(self._short(str_of(value), room))
        held = holdings_of(value)
        if held.tables:  # its own words may print them
            return self._record(value, public_fields(value))
        return self._leaf(self._short(held.masked(repr_of(value)), room))

    def _record(self, value: Any, fields: list[tuple[str, Any]]) -> str:
        pairs = ((f"{name_text(name)}=", name, item) for name, item in fields)
        return self._joined(f"{type_name(value)}(", self._pairs(pairs), ")", len(fields))

    def _bytes(self, value: Any) -> str:
        base, size = bytes if is_a(value, bytes) else bytearray, length_of(value) or 0
        head = self._short(repr(bytes(base.__getitem__(value, slice(0, 50_000)))), min(self._limits.text, 400))
        return self._leaf(f"{head} ({size:,} bytes)" if size > 50_000 else head)

    # ---- containers -------------------------------------------------------------------------------------------

    def _mapping(self, value: Any) -> str:
        items = dict.items(value) if is_a(value, dict) else value.items()
        pairs = ((None, key, item) for key, item in items)
        start, end = ("{", "}") if type(value) is dict else (f"{type_name(value)}({{", "})")
        return self._joined(start, self._pairs(pairs), end, length_of(value) or 0)

    def _pairs(self, pairs: Iterable[tuple[str | None, Any, Any]]) -> Iterator[str]:
        for label, key, value in pairs:
            said = label if label is not None else f"{self.item(key)}: "
            yield said + self.named(key, value)

    def _sequence(self, value: Any, base: type, start: str, end: str) -> str:
        names: Any = attribute(type(value), "_fields") if base is tuple else None
        iterate: Callable[[Any], Iterator[Any]] = base.__iter__  # type: ignore[attr-defined]
        items, size = iterate(value), length_of(value) or 0
        if is_a(names, tuple) and len(names) == size and all(is_a(name, str) for name in names):
            pairs = ((f"{name}=", name, item) for name, item in zip(names, items, strict=False))
            return self._joined(f"{type_name(value)}(", self._pairs(pairs), ")", size)
        if base is tuple and size == 2:
            return self._joined(start, self._named_pair(value), end, size)
        if base in (set, frozenset) and size == 0:
            return self._spend(f"{type_name(value)}()")
        if base in (set, frozenset):
            items = iter(_ordered(itertools.islice(items, 10_000)))
        comma = "," if base is tuple and size == 1 else ""
        return self._joined(start, map(self.item, items), comma + end, size)

    def _named_pair(self, pair: Any) -> Iterator[str]:
        """A pair may be a name and its value: the items of a mapping, the headers of a request."""
        first, second = tuple.__iter__(pair)
        yield self.item(first)
        yield self.named(first, second) if is_a(second, str, bytes) else self.item(second)

    def _joined(self, start: str, parts: Iterator[str], end: str, size: int) -> str:
        """The parts as far as there is room; a marker for the rest. Parts are made only when they are written."""
        self._spend(start + end)
        said: list[str] = []
        most = self._first if self._first is not None and len(self._open) == 1 else self._limits.items
        while len(said) < min(size, most) and (self._left > 0 or not said):
            part = read(lambda: next(parts, None), None)
            if part is None:
                break
            said.append(part)
            self._left -= 2
        if len(said) < size:
            self.cut = True
            said.append(f"… {size - len(said):,} more")
        return f"{start}{', '.join(said)}{end}"

    # ---- room -------------------------------------------------------------------------------------------------

    def _leaf(self, text: str) -> str:
        if text.strip("'\"") == MASK:
            self.hidden += 1
        else:
            self.values += 1
        return self._spend(text)

    def _spend(self, text: str) -> str:
        self._left -= len(text)
        return text

    def _short(self, text: str, limit: int) -> str:
        """``text`` masked, then cut in the middle: a key that is cut in two would no longer be found."""
        text = self._mask(text)
        if len(text) <= limit:
            return text
        self.cut = True
        mark = f" [… {len(text) - limit:,} of {len(text):,} characters left out …] "
        if limit < 4 * len(mark):
            return shorten(text, limit)
        head = limit * 2 // 3
        return text[:head] + mark + text[len(text) - (limit - head) :]


def cell_text(value: Any, limit: int, mask: Mask) -> str:
    """A cell of a table on one line."""
    if is_a(value, str):
        return one_line(mask(str.__str__(value)), limit)
    return one_line(Writer(Limits(limit, 10, 3, limit), mask).item(value), limit)


def _ordered(items: Iterable[Any]) -> list[Any]:
    """Members of a set in an order that is the same in each process."""
    listed = list(items)
    return read(lambda: sorted(listed), None) or read(lambda: sorted(listed, key=repr_of), listed)
