"""How a value of the user is told to a model, at a level.

``schema``: names, types and shapes, never a value. ``describe``: statistics of a table. ``head``: its first rows.
``full``: as much as there is room for. Nothing here raises, runs long or changes a value; what an object answers to
its own methods is bounded and not trusted. Every text has the keys of the environment masked before it is cut, and
what stands below a name that looks like a key's is ``***`` at every level.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

from ..runtime.secrets import MASK, Masker
from .disclosure_kinds import (
    attribute,
    brief,
    dtype_text,
    hides,
    is_a,
    kind_of,
    length_of,
    name_text,
    read,
    shape_of,
    sizes_of,
    type_name,
)
from .disclosure_objects import told_of
from .disclosure_tables import (
    COLUMNS,
    COUNTED_CELLS,
    DESCRIBED_CELLS,
    DESCRIBED_ROWS,
    STATISTICS,
    Table,
    name_hides,
    table_of,
)
from .disclosure_values import Limits, Mask, Writer, cell_text

__all__ = ["HEAD_ROWS", "LEVELS", "Disclosed", "Level", "brief", "disclose", "is_table", "shape_of", "type_name"]

Level = Literal["schema", "describe", "head", "full"]
LEVELS: Final[tuple[Level, ...]] = ("schema", "describe", "head", "full")  # each may say more than the one before

HEAD_ROWS = 100  # rows of the longest head
FULL_ROWS = 2_000
HEAD_CHARS, FULL_CHARS = 20_000, 60_000
HEAD_CELL, FULL_CELL = 100, 500  # characters of one cell

_UNASKED = Limits(chars=8_000, items=100, depth=5, text=500)  # a plain value without a level
_ASKED = Limits(chars=FULL_CHARS, items=2_000, depth=8, text=8_000)


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


def is_table(value: Any) -> bool:
    """True for what gives its schema when no level is asked for: tables, columns, arrays."""
    return kind_of(value) != ""


def disclose(value: Any, level: Level | None = None, *, rows: int = 5, name: str = "") -> Disclosed:
    """``value`` at ``level``; without one a table gives its schema, anything else itself, bounded.

    ``rows``: of a head, at most ``HEAD_ROWS``. ``name``: of the variable, attribute or key that holds it; it may
    hide the value.
    """
    table = is_table(value)
    asked: Level = level or ("schema" if table else "full")
    if hides(name, value) and not (table and asked == "schema"):
        return Disclosed(MASK, asked, 0, hidden=1)
    mask = Masker.from_environment().mask
    limits = _UNASKED if level is None else _ASKED
    rows = max(1, min(rows, HEAD_ROWS))
    work = _table if table else _plain
    told = read(lambda: work(value, asked, rows, limits, mask), None)
    return told or Disclosed(mask(brief(value)), "schema", 0, block=table)


# ---- plain values -------------------------------------------------------------------------------------------------


def _plain(value: Any, level: Level, rows: int, limits: Limits, mask: Mask) -> Disclosed:
    if level in ("schema", "describe"):
        return Disclosed(mask(told_of(value) or _types(value)), level, 0)
    if level == "head" and is_a(value, str):
        value = "\n".join(str.__str__(value).split("\n", rows)[:rows])
    writer = Writer(limits, mask, first=rows if level == "head" else None)
    text = writer.write(value)
    return Disclosed(text, level, writer.values, writer.hidden, writer.cut)


def _types(value: Any) -> str:
    """``list of 3: 2 str, 1 DataFrame 5 × 2``."""
    if is_a(value, dict):
        items: Iterator[Any] = iter(dict.values(value))
    elif is_a(value, list, tuple, set, frozenset):
        base = next(base for base in (list, tuple, set, frozenset) if is_a(value, base))
        items = base.__iter__(value)
    else:
        return brief(value)
    found: dict[str, int] = {}
    for item in itertools.islice(items, 1_000):
        told = brief(item) if is_table(item) else type_name(item)
        found[told] = found.get(told, 0) + 1
    more = (length_of(value) or 0) > 1_000 or len(found) > 20
    said = ", ".join(f"{count:,} {told}" for told, count in itertools.islice(found.items(), 20))
    return f"{brief(value)}: {said}{', …' if more else ''}" if said else brief(value)


# ---- tables -------------------------------------------------------------------------------------------------------


def _table(value: Any, level: Level, rows: int, limits: Limits, mask: Mask) -> Disclosed | None:
    if kind_of(value) == "array":
        return _array(value, level, rows, mask)
    table = table_of(value)
    if table is None:
        return Disclosed(mask(_opaque(value)), "schema", 0, block=True)
    forms: dict[Level, Callable[[Table, int, Mask], Disclosed]] = {
        "schema": _schema,
        "describe": _describe,
        "head": _head,
        "full": _full,
    }
    return forms[level](table, rows, mask)


def _opaque(value: Any) -> str:
    """What is not computed, or lies where reading it is dear."""
    dtype = attribute(value, "dtype", attribute(value, "type"))
    told = f"{brief(value)}, {dtype_text(dtype)}" if kind_of(value) == "tensor" and dtype is not None else brief(value)
    return f"{told} (not looked into)" if kind_of(value) == "lazy" else told


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
        cells = ["" if found.get(key) is None else _number(found[key], mask) for key in STATISTICS]
        named = "" if name is None else mask(name_text(name))
        if not grid.add([named, dtype_text(dtype), *cells], sum(map(bool, cells))):
            break
    lines = [
        f"{table.kind}, {table.size}; statistics of {of}",
        *grid.lines,
        *_more_columns(table),
        *_hidden_note(table, mask),
    ]
    return Disclosed("\n".join(lines), "describe", grid.values, cut=grid.full or bool(_more_columns(table)), block=True)


def _number(value: Any, mask: Mask) -> str:
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
    grid = _Grid([*map(mask, heads), *(mask(_heading(table, name)) for name in table.names)], room)
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


# ---- arrays -------------------------------------------------------------------------------------------------------


def _array(array: Any, level: Level, rows: int, mask: Mask) -> Disclosed:
    sizes = sizes_of(array) or ()
    fields = read(lambda: tuple(array.dtype.names or ()), ())
    told = f"{brief(array)}{'' if sizes else ' 0-d'}, "
    if fields:
        told += f"{len(fields):,} fields: " + ", ".join(
            f"{name_text(name)} {dtype_text(array.dtype[name])}" for name in fields[:COLUMNS]
        )
    else:
        told += dtype_text(array.dtype)
    if level == "schema":
        return Disclosed(mask(told), level, 0, block=True)
    if level == "describe":
        return _array_statistics(array, told, mask)
    return _array_items(array, sizes, fields, level, rows, told, mask)


def _array_statistics(array: Any, told: str, mask: Mask) -> Disclosed:
    found: dict[str, Any] = {}
    part = array.flat[:DESCRIBED_ROWS]
    if array.dtype.kind in "iuf" and len(part):
        good = part.compressed() if attribute(part, "compressed") else part
        good = good[good == good]
        found = {"count": len(good), "missing": len(part) - len(good)}
        if len(good):
            found |= {name: read(getattr(good, name), None) for name in ("mean", "std", "min", "max")}
    of = f" of the first {len(part):,} values" if len(part) < array.size else ""
    said = [f"{name} {_number(value, mask)}" for name, value in found.items() if value is not None]
    line = f"statistics{of}: {', '.join(said)}" if said else "no statistics: the values are not numbers"
    return Disclosed(f"{mask(told)}\n{line}", "describe", len(said), block=True)


def _array_items(
    array: Any, sizes: tuple[int, ...], fields: tuple[str, ...], level: Level, rows: int, told: str, mask: Mask
) -> Disclosed:
    full = level == "full"
    writer = Writer(Limits(FULL_CHARS if full else HEAD_CHARS, COLUMNS, 8, FULL_CELL if full else HEAD_CELL), mask)
    if not sizes:
        return Disclosed(f"{mask(told)}\n{writer.item(array[()])}", level, writer.values, cut=writer.cut, block=True)
    count = min(sizes[0], FULL_ROWS if full else rows)
    part = array[(slice(count), *(slice(COLUMNS) for _ in sizes[1:]))]
    hidden = [hides(name) for name in fields]
    lines: list[str] = []
    for item in part.tolist():
        if lines and not writer.has_room:
            break
        if fields and is_a(item, tuple):
            item = tuple(MASK if hide else cell for cell, hide in zip(item, hidden, strict=True))
        lines.append(writer.item(item))
    left = (sizes[0] if full else count) - len(lines)
    wide = [f"{size:,}" for size in sizes[1:] if size > COLUMNS]
    more = [f"… {left:,} more rows"] if left else []
    more += [f"… only the first {COLUMNS} of {' and '.join(wide)} columns"] if wide else []
    text = "\n".join([mask(told), *lines, *more])
    return Disclosed(text, level, writer.values, writer.hidden, writer.cut or bool(more), block=True)
