"""Tables as the notebook tells them: in a request (``{penguins}``), or in what a tool gave back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from .columns import Column, Table

_HEAD = (
    r"(?:(?P<name>[^\W\d]\w*(?:\.\w+|\[[^\]\n]*\])*): )?(?P<type>[A-Za-z]\w*), (?P<rows>[\d,]+) "
    r"(?:rows? × (?P<width>[\d,]+) columns?|values?)(?:; (?P<form>[^\n]*))?"
)
_BLOCK = re.compile(rf"(?:^|\n){_HEAD}(?=\n|$)")
_PLAIN = re.compile(r"[^\W\d_][^\\…\n]*")
_MORE = re.compile(r"index: |\| |\|--|… [\d,]+ more (?:row|column)")
FRAMES = ("DataFrame", "GeoDataFrame")


_NEWS = re.compile(r"\n\nVariables of the notebook since you were last told[^\n]*:(?:\n- [^\n]*)+(?:\n… [^\n]*)?\s*$")


def take_tables(text: str) -> tuple[str, tuple[Table, ...]]:
    """``text`` with the name in the place of each table that is told in it, and those tables.

    The news of the variables below a request are no part of it.
    """
    text = _NEWS.sub("", text)
    parts: list[str] = []
    tables: dict[str, Table] = {}
    at = 0
    for found in _BLOCK.finditer(text):
        if found.start() < at or not found["name"]:
            continue
        table, end = _table(text, found, found["name"])
        tables[table.name] = table
        said = table.name if table.name.isidentifier() else f"``{table.name}``"
        parts += [text[at : found.start()], f" {said} "]
        at = end + 1 if text[end : end + 1] == "\n" else end
    return ("".join([*parts, text[at:]]), tuple(tables.values())) if tables else (text, ())


def told_table(text: str, name: str) -> Table | None:
    """The table that ``text``, a tool's result, tells of the variable ``name``."""
    found = _BLOCK.search(text)
    return _table(text, found, name)[0] if found else None


def _table(text: str, found: re.Match[str], name: str) -> tuple[Table, int]:
    """The table whose first line is ``found``, and where its text ends."""
    width, lines, end = int((found["width"] or "1").replace(",", "")), [], found.end()
    for line in _lines(text, end):
        lines.append(line)
        is_row = line.startswith("| ") or line.startswith("|--")
        named = sum(kept.startswith("- ") for kept in lines)
        if not (
            is_row or re.match(r"index: |… [\d,]+ more (?:row|column)", line) or (line[:2] == "- " and named <= width)
        ):
            break
        end += 1 + len(line)
    kept = text[found.end() : end].split("\n")[1:]
    in_pandas = found["type"] in FRAMES and (found["form"] or any(line.startswith("index: ") for line in kept))
    kind = found["type"] if in_pandas else f"{found['type']} that is not of pandas"
    rows = int(found["rows"].replace(",", ""))
    if found["width"] is None:
        return Table(name, (), found["type"], rows, alone=True), end
    return Table(name, tuple(_columns(kept, name, width)), kind, rows), end


def _lines(text: str, start: int) -> Iterator[str]:
    """The lines below the one that ends at ``start``."""
    while start < len(text):
        end = text.find("\n", start + 1)
        end = len(text) if end < 0 else end
        yield text[start + 1 : end]
        start = end


def _columns(lines: list[str], name: str, width: int) -> Iterator[Column]:
    listed = [line[2:] for line in lines if line.startswith("- ")]
    if listed:
        for place, line in enumerate(islice(listed, width)):
            said, _, dtype = line.rpartition(": ")
            yield _column(said, re.sub(r", [\d,]+ missing$", "", dtype), name, place)
        return
    rows = [_cells(line) for line in lines if line.startswith("| ")]
    if rows and rows[0][:2] == ["column", "type"]:
        for place, row in enumerate(rows[1:]):
            yield _column(row[0], row[1], name, place)
    elif rows:
        for place, said in enumerate(rows[0][-width:]):
            yield _column(said, "", name, place)


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def _column(said: str, dtype: str, table: str, place: int) -> Column:
    """A name that may not be told as it is (a number, a line break, cut off) is taken from the table by its place."""
    plain = _PLAIN.fullmatch(said) is not None
    return Column(said, dtype, "" if plain else f"{table}.columns[{place}]")
