"""Requests about a table: what is to be computed or drawn of which columns, once its columns are known."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from .columns import Table, Unclear, near_columns
from .data_words import (
    BY_WORDS,
    CHARTS,
    COMPARE,
    CORRELATED,
    DOWN,
    DRAW,
    HOLDS,
    LOOK,
    MISSING,
    NOISE,
    ORDERS,
    OWN_WORDS,
    ROWS,
    SORT,
    STATS,
    SUMMARY,
    UNIQUE,
    UP,
    VERSUS,
)
from .mentions import Token, tokens_of
from .quoting import code
from .text import Masked


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked of a table.

    ``action`` is one of look, stat, count, rows, missing, correlation, sort, unique, distinct, head, tail, summary,
    plot. ``measures`` and ``by`` are numbers of columns, ``where`` a column, an operator and a value.
    """

    action: str
    measures: tuple[int, ...] = ()
    by: tuple[int, ...] = ()
    stats: tuple[str, ...] = ()
    n: int | None = None
    descending: bool = False
    chart: str = ""
    flipped: bool = False
    where: tuple[int, str, str | int | float] | None = None


def read(part: str, masked: Masked, table: Table) -> Ask | None:
    """What ``part`` asks of ``table``; None when it asks for nothing known. Raises Unclear with the reason."""
    text = re.sub(r"\bstandard\s+deviations?\b", "std", part, flags=re.I)
    text = re.sub(r"\b(box|bar|scatter)[\s-]?(?:plots?|charts?)\b", r"\1 plot", text, flags=re.I)
    if not re.search(r"[a-z]", text, re.I):
        return None
    tokens = tokens_of(text, masked, table)
    where, tokens = _take_where(tokens)
    by, over, tokens = _take_by(tokens)
    words = {token.text.lower() for token in tokens if token.kind == "word"}
    measures = tuple(dict.fromkeys(token.column for token in tokens if token.kind == "column"))
    number = next((int(float(token.text)) for token in tokens if token.kind == "number"), None)
    ask = _action(words, _Heard(tokens, measures, by, number, over))
    if ask is None:
        return None
    _nothing_left(tokens, ask, table)
    return replace(ask, where=where)


@dataclass(frozen=True, slots=True)
class _Heard:
    """The roles found before the action is known. ``over``: the last grouping stood behind "over"."""

    tokens: Sequence[Token]
    measures: tuple[int, ...]
    by: tuple[int, ...]
    number: int | None
    over: bool

    @property
    def about_rows(self) -> bool:
        """Whether rows are spoken of, or the things that the table is named after."""
        return any(token.kind == "table" or token.text.lower() in ROWS for token in self.tokens)


def _action(words: set[str], heard: _Heard) -> Ask | None:
    for reading in (_plot, _missing, _correlation, _sort, _unique, _ends, _summary, _stat, _count, _look):
        ask = reading(words, heard)
        if ask is not None:
            return ask
    return None


def _plot(words: set[str], heard: _Heard) -> Ask | None:
    if not words & DRAW:
        return None
    chart = next((CHARTS[word] for word in sorted(words) if word in CHARTS), "line" if heard.over else "")
    counted = words & {"count", "counts", "number", "many"}
    stats = ("count",) if counted else _stats(words)
    return Ask(
        "plot", heard.measures, heard.by, stats, chart=chart, flipped=bool(words & VERSUS or "function" in words)
    )


def _missing(words: set[str], heard: _Heard) -> Ask | None:
    return Ask("missing", heard.measures, heard.by) if words & MISSING else None


def _correlation(words: set[str], heard: _Heard) -> Ask | None:
    return Ask("correlation", heard.measures, heard.by) if words & CORRELATED else None


def _sort(words: set[str], heard: _Heard) -> Ask | None:
    sided, asked = words & (UP | DOWN), words & SORT
    single = bool(words & {"which", "what"}) and heard.about_rows and not heard.by and len(heard.measures) == 1
    listed = bool(sided) and (heard.number is not None or bool(words & ROWS))
    if not (asked or listed or (sided and single and _nearest_noun(heard.tokens))):
        return None
    keys = heard.by or heard.measures  # "top 3 customers by price": the price decides
    if not keys:
        return None
    n = heard.number if heard.number is not None else 1 if single and not asked else 5 if sided - ORDERS else None
    aside = heard.measures if heard.by else ()
    return Ask("sort", keys, aside, n=n, descending=bool(words & DOWN))


def _nearest_noun(tokens: Sequence[Token]) -> bool:
    """ "which penguin has ...": the table or its rows stand right behind the question word."""
    for token, follower in pairwise(tokens):
        if token.text.lower() in ("which", "what"):
            return follower.kind == "table" or follower.text.lower() in ROWS
    return False


def _unique(words: set[str], heard: _Heard) -> Ask | None:
    if len(heard.measures) != 1 or heard.by or words & set(STATS):
        return None
    asked = words & {"what", "which"} and words & {"there", "exist", "are"} and not words & {"many", "count", "number"}
    if words & {"many", "number", "count"}:
        whole = all(token.whole for token in heard.tokens)  # orders are no column "Order Date"
        return Ask("distinct", heard.measures) if words & UNIQUE or ("many" in words and whole) else None
    return Ask("unique", heard.measures) if words & UNIQUE or asked else None


def _ends(words: set[str], heard: _Heard) -> Ask | None:
    if heard.measures or heard.by:
        return None
    if words & {"first", "head", "top"}:
        return Ask("head", n=heard.number)
    return Ask("tail", n=heard.number) if words & {"last", "tail", "bottom"} else None


def _summary(words: set[str], heard: _Heard) -> Ask | None:
    return Ask("summary", heard.measures, heard.by) if words & SUMMARY else None


def _stat(words: set[str], heard: _Heard) -> Ask | None:
    stats = _stats(words)
    if not stats:
        return None
    ranked = len(heard.measures) == 2 and not heard.by and bool(words & {"which", "what"}) and bool(words & (UP | DOWN))
    if ranked:
        return Ask("stat", heard.measures[1:], heard.measures[:1], stats, n=0, descending=bool(words & DOWN))
    return Ask("stat", heard.measures, heard.by, stats)


def _stats(words: set[str]) -> tuple[str, ...]:
    """The statistics named; "highest mean" is the mean."""
    plain = [STATS[word] for word in STATS if word in words and word not in UP | DOWN]
    return tuple(dict.fromkeys(plain or [STATS[word] for word in STATS if word in words]))


def _count(words: set[str], heard: _Heard) -> Ask | None:
    if not words & {"many", "count", "counts", "number"} or heard.measures:
        return None
    if heard.by:
        return Ask("count", by=heard.by)
    return Ask("rows") if heard.about_rows and not words & {"columns"} else None


def _look(words: set[str], heard: _Heard) -> Ask | None:
    named = any(token.kind == "table" for token in heard.tokens)
    asked = words & LOOK or (words & {"what", "whats"} and words <= NOISE | HOLDS)  # "what is in it?"
    return Ask("look") if asked and named and not heard.measures and not heard.by else None


def _nothing_left(tokens: Sequence[Token], ask: Ask, table: Table) -> None:
    """Raises Unclear when a word, number or quoted text has no part in ``ask``: nothing is silently left out."""
    known = NOISE | OWN_WORDS[ask.action]
    left: list[str] = []
    for token in tokens:
        strange = token.kind == "word" and token.text.lower() not in known
        strange |= token.kind == "value" or (token.kind == "number" and ask.action not in ("sort", "head", "tail"))
        strange |= token.kind == "mark" and token.text not in ",:;.'’?!-()"
        if strange:
            left.append(token.text)
    if left:
        names = ", ".join(code(column.name) for column in table.columns)
        near = near_columns(left, table.columns)
        hint = f"did you mean {code(near[0].name)}? Its" if len(near) == 1 else "its"
        raise Unclear(f"{code(table.name)} has no column like {code(' '.join(left))}; {hint} columns are: {names}")


def _take_where(tokens: list[Token]) -> tuple[tuple[int, str, str | int | float] | None, list[Token]]:
    """The condition of ``where sex is female``, and the tokens without it."""
    for at, token in enumerate(tokens[:-3]):
        column, sign, value = tokens[at + 1 : at + 4]
        if token.text.lower() not in ("where", "whose", "with", "if") or column.kind != "column":
            continue
        operator = COMPARE.get(sign.text.lower())
        if operator is None or value.kind not in ("word", "number", "value"):
            continue
        given: str | int | float = value.text
        if value.kind == "number":
            given = float(value.text) if "." in value.text else int(value.text)
        return (column.column, operator, given), [*tokens[:at], *tokens[at + 4 :]]
    return None, tokens


def _take_by(tokens: list[Token]) -> tuple[tuple[int, ...], bool, list[Token]]:
    """The columns behind "by", "per", "for each" ..., whether the last stood behind "over", and the other tokens."""
    by: list[int] = []
    over, rest, at = False, [], 0
    while at < len(tokens):
        said = next((phrase for phrase in BY_WORDS if _says(tokens[at:], phrase)), ())
        columns, length = _columns(tokens[at + len(said) :]) if said else ([], 0)
        if columns:
            by += columns
            over = over or said == ("over",)
            at += len(said) + length
        else:
            rest.append(tokens[at])
            at += 1
    return tuple(dict.fromkeys(by)), over, rest


def _says(tokens: Sequence[Token], phrase: tuple[str, ...]) -> bool:
    heard = tuple(token.text.lower() for token in tokens[: len(phrase)] if token.kind == "word")
    return heard == phrase


def _columns(tokens: Sequence[Token]) -> tuple[list[int], int]:
    """The columns that a list of them begins with, and how many tokens it takes."""
    found: list[int] = []
    at = length = 0
    while at < len(tokens):
        token = tokens[at]
        if token.kind == "column":
            found.append(token.column)
            length = at + 1
        elif token.text.lower() not in ("the", "and", ",", "by", "per", "each", "different", "column") or (
            not found and token.text.lower() not in ("the", "different", "each", "column")
        ):
            break
        at += 1
    return found, length
