"""Tables as text for a model, a form for each level, bounded in rows, columns and characters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

from ..runtime.secrets import MASK
from .disclosure_kinds import (
    dtype_text,
    is_a,
    name_text,
    read,
)
from .disclosure_tables import (
    COUNTED_CELLS,
    DESCRIBED_CELLS,
    DESCRIBED_ROWS,
    STATISTICS,
    Table,
    name_hides,
)
from .disclosure_values import Mask, cell_text

Level = Literal["schema", "describe", "head", "full"]
LEVELS: Final[tuple[Level, ...]] = ("schema", "describe", "head", "full")  # each may say more than the one before

HEAD_ROWS = 100  # rows of the longest head
FULL_ROWS = 2_000
HEAD_CHARS, FULL_CHARS = 20_000, 60_000
HEAD_CELL, FULL_CELL = 100, 500  # characters of one cell


@dataclass(frozen=True, slots=True)
class Disclosed:
    """``text`` for the model; ``values``: how many cells, labels, statistics or plain values stand in it.

    ``hidden``: how many a name that looks like a key's has hidden; ``cut``: some was left out; ``block``: the text
    has lines of its own.
    """

    text: str
    level: Level
    values: int
    hidden: int = 0
    cut: bool = False
    block: bool = False


def tell_table(table: Table, level: Level, rows: int, mask: Mask) -> Disclosed:
    """``table`` at ``level``; ``rows`` of a head."""
    forms: dict[Level, Callable[[Table, int, Mask], Disclosed]] = {
        "schema": _schema,
        "describe": _describe,
        "head": _head,
        "full": _full,
    }
    return forms[level](table, rows, mask)


def _schema(table: Table, rows: int, mask: Mask) -> Disclosed:
    lines = [f"{table.kind}, {table.size}", *([f"index: {table.index}"] if table.index else [])]
    counted = table.cells <= COUNTED_CELLS
    for i, (name, dtype) in enumerate(zip(table.names, table.dtypes, strict=True)):
        missing = read(partial(table.missing, i), 0) if counted else 0
        said = dtype_text(dtype) + (f", {missing:,} missing" if missing else "")
        named = "" if table.width is None and name is None else f"{name_text(name)}: "
        lines.append(f"- {named}{said}")
    return Disclosed(mask("\n".join([*lines, *_more_columns(table)])), "schema", 0, block=True)


def _more_columns(table: Table) -> list[str]:
    left = (table.width or 0) - len(table.names)
    return [f"… {left:,} more {'column' if left == 1 else 'columns'}"] if left > 0 else []


def _hidden_note(table: Table, mask: Mask) -> list[str]:
    names = [name_text(name) for i, name in enumerate(table.names) if table.hidden(i)]
    names += [name_text(name) for name in table.label_names if name_hides(name)]
    return [mask(f"{', '.join(names)}: not shown, the name looks like a key's")] if names else []


def _describe(table: Table, rows: int, mask: Mask) -> Disclosed:
    used = min(table.rows, DESCRIBED_ROWS, DESCRIBED_CELLS // max(1, len(table.names)))
    of = f"the first {used:,} rows" if used < table.rows else "all rows"
    grid = _Grid(["column", "type", *STATISTICS], FULL_CHARS)
    for i, (name, dtype) in enumerate(zip(table.names, table.dtypes, strict=True)):
        found: dict[str, Any] = {} if table.hidden(i) else read(partial(table.statistics, i, used), {})
        cells = ["" if found.get(key) is None else number_text(found[key], mask) for key in STATISTICS]
        named = "" if name is None else name_text(name)
        if not grid.add([named, dtype_text(dtype), *cells], sum(map(bool, cells))):
            break
    lines = [
        f"{table.kind}, {table.size}; statistics of {of}",
        *grid.lines,
        *_more_columns(table),
        *_hidden_note(table, mask),
    ]
    return Disclosed("\n".join(lines), "describe", grid.values, cut=grid.full or bool(_more_columns(table)), block=True)


def number_text(value: Any, mask: Mask) -> str:
    """A statistic: a float to six digits, anything else whole."""
    if is_a(value, float):
        return mask(f"{value:.6g}")
    return cell_text(value, HEAD_CELL, mask)


def _head(table: Table, rows: int, mask: Mask) -> Disclosed:
    count = min(rows, table.rows)
    return _rows(table, count, "head", f"first {count:,} {'row' if count == 1 else 'rows'}", mask)


def _heading(table: Table, name: Any) -> str:
    return "values" if name is None and table.width is None else name_text(name)


def _full(table: Table, rows: int, mask: Mask) -> Disclosed:
    return _rows(table, min(FULL_ROWS, table.rows), "full", "all values", mask)


def _rows(table: Table, count: int, level: Level, title: str, mask: Mask) -> Disclosed:
    limit, room = (FULL_CELL, FULL_CHARS) if level == "full" else (HEAD_CELL, HEAD_CHARS)
    heads = ["" if name is None else name_text(name) for name in table.label_names]
    grid = _Grid([*map(mask, heads), *(_heading(table, name) for name in table.names)], room)
    hidden = [*map(name_hides, table.label_names), *(table.hidden(i) for i in range(len(table.names)))]
    labels, masked = table.labels(count), 0
    columns = [*labels, *(table.column(i, count) for i in range(len(table.names)))]
    for row in range(count):
        in_row = any(name_hides(label[row]) for label in labels)  # a row of a frame has the columns as its labels
        pairs = zip(columns, hidden, strict=True)
        cells = [MASK if hide else cell_text(column[row], limit, mask) for column, hide in pairs]
        if in_row:
            cells[len(labels) :] = [MASK] * (len(cells) - len(labels))
        if not grid.add(cells, sum(cell != MASK for cell in cells)):
            break
        masked += cells.count(MASK)
    left = (count if level == "head" else table.rows) - grid.rows
    more = [f"… {left:,} more {'row' if left == 1 else 'rows'}"] if left else []
    cut = bool(more or _more_columns(table))
    lines = [f"{table.kind}, {table.size}; {'values' if cut and level == 'full' else title}", *grid.lines, *more]
    text = "\n".join([*lines, *_more_columns(table), *_hidden_note(table, mask)])
    return Disclosed(text, level, grid.values, masked, cut, block=True)


class _Grid:
    """Rows of a Markdown table as long as there is room; the first one always has."""

    def __init__(self, heads: list[str], room: int) -> None:
        self.lines = [self._line(heads), "|" + "---|" * len(heads)] if heads else []
        self.rows = self.values = 0
        self.full = False
        self._room = room

    def add(self, cells: list[str], values: int) -> bool:
        """Whether the row was taken."""
        line = self._line(cells)
        if self.rows and len(line) > self._room:
            self.full = True
            return False
        self._room -= len(line) + 1
        self.lines.append(line)
        self.rows, self.values = self.rows + 1, self.values + values
        return True

    @staticmethod
    def _line(cells: list[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
