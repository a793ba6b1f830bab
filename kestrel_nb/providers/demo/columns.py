"""Columns of a table, and which of them the words of a person mean: "body mass" is ``body_mass_g``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache

from .python_text import quoted
from .quoting import code

_NUMERIC = re.compile(r"u?int|float|double|decimal|bool", re.I)
_UNITS = frozenset(
    re.findall(
        r"\w+",
        "mm cm m km um nm g kg mg t lb oz s ms us ns min h hr hrs d l ml pct percent usd eur gbp c f k pa hpa w kw",
    )
)
_KEPT = frozenset(re.findall(r"\w+", "number count mean average sum total min max value by per of and in for the date"))
"""Words of a request's own grammar: alone they never mean a column, even when a column's name contains them."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, the dtype as it was told, and an expression for its name when that is no plain text."""

    name: str
    dtype: str = ""
    expression: str = ""

    @property
    def key(self) -> str:
        """Python source for the name."""
        return self.expression or quoted(self.name)

    @property
    def numeric(self) -> bool:
        """Whether one can compute with it; True also when its dtype is not known."""
        return not self.dtype or _NUMERIC.match(self.dtype) is not None

    @property
    def truth(self) -> bool:
        """Whether it holds True and False."""
        return self.dtype.lower().startswith("bool")

    @property
    def date(self) -> bool:
        """Whether it holds dates."""
        return self.dtype.lower().startswith("date")

    @property
    def ordered(self) -> bool:
        """Whether its values lie on an axis: numbers and times."""
        return self.numeric or self.dtype.lower().startswith(("date", "time", "period"))


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the user's: the expression that gives it, its columns, its type's name, how many rows it has.

    ``alone``: it is a single column, a Series of its own, and lists no columns.
    """

    name: str
    columns: tuple[Column, ...]
    type: str = "DataFrame"
    rows: int | None = None
    alone: bool = False


def keys(columns: Sequence[Column]) -> str:
    """Source for the name of a single column, or for the list of several."""
    return columns[0].key if len(columns) == 1 else f"[{', '.join(column.key for column in columns)}]"


def pick(columns: Sequence[Column]) -> str:
    """The subscript that chooses ``columns``: one gives a Series, several a frame, none leaves all."""
    return f"[{keys(columns)}]" if columns else ""


class Unclear(Exception):
    """Words that could mean several columns; its text says which."""


def words_of(text: str) -> tuple[str, ...]:
    """The words in ``text``, in the singular and small letters: ``bodyMass_g`` has body, mass and g."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    return tuple(singular(word) for word in re.findall(r"[^\W_]+", apart))


def singular(word: str) -> str:
    """``word`` without the ending of a plural; the same for both numbers is all that is needed."""
    word = word.lower()
    if len(word) > 3 and word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us")) else word


def column_named(text: str, columns: Sequence[Column]) -> int | None:
    """The column that a quoted ``text`` names: exactly, else by its words."""
    exact = [number for number, column in enumerate(columns) if column.name == text]
    spoken = [number for number, column in enumerate(columns) if words_of(text) in _spoken(column)]
    found = exact or (spoken if words_of(text) else [])
    return found[0] if len(found) == 1 or exact else None


def column_at(words: Sequence[str], columns: Sequence[Column]) -> tuple[int, int] | None:
    """The column that the first of ``words`` name wholly, the longest such name, and how many words that are."""
    for length in range(min(len(words), 8), 0, -1):
        heard = tuple(words[:length])
        found = [number for number, column in enumerate(columns) if heard in _spoken(column)]
        if found:
            full = [number for number in found if words_of(columns[number].name) == heard]
            return _only(full or found, heard, columns), length
    return None


def part_at(words: Sequence[str], columns: Sequence[Column]) -> tuple[int, int] | None:
    """Like ``column_at`` for a part of a name: "flipper" when one column alone has that word."""
    for length in range(min(len(words), 4), 0, -1):
        heard = tuple(words[:length])
        if heard[0] in _KEPT or heard[-1] in _KEPT or heard[0] in _UNITS:
            continue
        found = [number for number, column in enumerate(columns) if _contains(words_of(column.name), heard)]
        if found:
            return _only(found, heard, columns), length
    return None


def near_columns(heard: Sequence[str], columns: Sequence[Column]) -> list[Column]:
    """The columns that are called nearly as the words that were ``heard``, together or one of them; else those of
    which a word is near."""
    spoken = {" ".join(words_of(text)) for text in (*heard, " ".join(heard))}
    names = [{" ".join(name) for name in _spoken(column)} for column in columns]
    words = [set(words_of(column.name)) for column in columns]
    return _near(spoken, names, columns) or _near({word for text in spoken for word in text.split()}, words, columns)


def _near(spoken: set[str], names: Sequence[set[str]], columns: Sequence[Column]) -> list[Column]:
    known = sorted(set().union(*names))
    near = {name for said in spoken if len(said) > 2 for name in get_close_matches(said, known, n=3, cutoff=0.75)}
    return [column for column, own in zip(columns, names, strict=True) if own & near]


def _only(found: Sequence[int], heard: Sequence[str], columns: Sequence[Column]) -> int:
    if len(found) > 1:
        raise Unclear(f"{code(' '.join(heard))} could be {' or '.join(code(columns[number].name) for number in found)}")
    return found[0]


@lru_cache(1_000)
def _spoken(column: Column) -> tuple[tuple[str, ...], ...]:
    """The whole name in words, and without its unit: at the end, or in brackets."""
    whole = words_of(column.name)
    bare = words_of(re.sub(r"\s*[(\[].*?[)\]]\s*$", "", column.name))
    short = whole[:-1] if len(whole) > 1 and whole[-1] in _UNITS else whole
    return tuple(dict.fromkeys(name for name in (whole, bare, short) if name))


def _contains(name: Sequence[str], heard: Sequence[str]) -> bool:
    return any(tuple(name[start : start + len(heard)]) == tuple(heard) for start in range(len(name)))
