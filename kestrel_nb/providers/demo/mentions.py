"""A request about a table as tokens: which of its words mean columns, the table itself, numbers or plain words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .columns import Table, column_at, column_named, part_at, singular, words_of
from .data_words import GRAMMAR, NOISE
from .text import LITERAL, Masked
from .words import NUMBERS

Kind = Literal["word", "column", "table", "number", "value", "mark"]
_TOKEN = re.compile(rf"{LITERAL}|-?\d+(?:\.\d+)?(?![\w.])|[^\W_]\w*|[<>=!]=|\S")
_NO_NUMBERS = frozenset(("zero", "hundred", "dozen"))


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a request. ``text`` is what was typed, ``column`` the number of the column that it means,
    ``whole``: by its whole name."""

    kind: Kind
    text: str
    column: int = -1
    whole: bool = True


def tokens_of(part: str, masked: Masked, table: Table) -> list[Token]:
    """``part`` with its columns and its table found. Raises Unclear when words could mean several columns."""
    return _parts(_wholes(_split(part, masked, table), table), table)


def _split(part: str, masked: Masked, table: Table) -> list[Token]:
    tokens: list[Token] = []
    for piece in _TOKEN.findall(part):
        literal = masked.literal(piece)
        if literal is not None:
            column = column_named(literal.text, table.columns)
            kind: Kind = "column" if column is not None else "table" if literal.text == table.name else "value"
            tokens.append(Token(kind, literal.text, -1 if column is None else column))
        elif re.fullmatch(r"-?\d+(?:\.\d+)?", piece):
            tokens.append(Token("number", piece))
        elif piece.lower() in NUMBERS and piece.lower() not in _NO_NUMBERS:
            tokens.append(Token("number", str(NUMBERS[piece.lower()])))
        else:
            tokens.append(Token("word" if re.match(r"\w", piece) else "mark", piece))
    return tokens


def _wholes(tokens: Sequence[Token], table: Table) -> list[Token]:
    """Whole names of columns, and the table's name."""
    done: list[Token] = []
    rest = list(tokens)
    while rest:
        before = done[-1].text.lower() if done else ""
        if _is_table(rest[0], table, sure=before in ("in", "from", "on", "for", "using")):
            done.append(Token("table", rest.pop(0).text))
            continue
        found = _column(rest, table, begins=not done)
        if found is not None:
            column, count = found
            done.append(Token("column", " ".join(token.text for token in rest[:count]), column))
            del rest[:count]
        elif _is_table(rest[0], table, sure=True):
            done.append(Token("table", rest.pop(0).text))
        else:
            done.append(rest.pop(0))
    return done


def _is_table(token: Token, table: Table, *, sure: bool) -> bool:
    if token.kind != "word":
        return token.kind == "table"
    return sure and (token.text == table.name or singular(token.text) == singular(table.name))


def _column(tokens: Sequence[Token], table: Table, *, begins: bool) -> tuple[int, int] | None:
    """The column that ``tokens`` begin with, and how many of them are its name."""
    if tokens[0].kind not in ("word", "number"):
        return None
    words, ends = _run(tokens)
    found = column_at(words, table.columns)
    while found is not None and found[1] not in ends and found[1] > 1:
        found = column_at(words[: found[1] - 1], table.columns)
    if found is None or found[1] not in ends:
        return None
    bare = ends.index(found[1]) + 1
    is_grammar = bare == 1 and tokens[0].text.lower() in GRAMMAR
    if is_grammar and (begins or tokens[0].text != table.columns[found[0]].name):
        return None
    return found[0], bare + _unit(tokens[bare:], table.columns[found[0]].name)


def _run(tokens: Sequence[Token]) -> tuple[list[str], list[int]]:
    """The words of the tokens up to the first that is none, and how many words there are after each token."""
    words: list[str] = []
    ends: list[int] = []
    for token in tokens:
        if token.kind not in ("word", "number"):
            break
        words += words_of(token.text)
        ends.append(len(words))
    return words, ends


def _unit(tokens: Sequence[Token], name: str) -> int:
    """How many tokens behind a column's words repeat the unit that its name has in brackets."""
    unit = re.search(r"[(\[](.*)[)\]]\s*$", name)
    typed = "".join(token.text for token in tokens[:8])
    if unit is None or not typed.startswith(unit[0].replace(" ", "")):
        return 0
    length, count = 0, 0
    while length < len(unit[0].replace(" ", "")):
        length += len(tokens[count].text)
        count += 1
    return count


def _parts(tokens: Sequence[Token], table: Table) -> list[Token]:
    """Parts of names, among the words that say nothing else."""
    done: list[Token] = []
    rest = list(tokens)
    while rest:
        words: list[str] = []
        for token in rest:
            if token.kind != "word" or token.text.lower() in GRAMMAR | NOISE or len(words_of(token.text)) != 1:
                break
            words += words_of(token.text)
        found = part_at(words, table.columns) if words else None
        if found is None:
            done.append(rest.pop(0))
            continue
        column, count = found
        done.append(Token("column", " ".join(token.text for token in rest[:count]), column, whole=False))
        del rest[:count]
    return done
