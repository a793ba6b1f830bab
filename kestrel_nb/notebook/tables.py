"""Tool data as a small table: columns, a few rows as text, and how many there are. No pandas, and it never raises."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, TypedDict

from ..protocol.codec import jsonable
from ..runtime.tables import columns_of, pairs_of, side_by_side
from .visible import one_line

COLUMNS = 12
CELL = 80  # characters
ROWS = 200  # kept for paging; the whole data is in the frame
_KEYS = 1000  # rows whose keys are looked at for columns
_NOTHING = object()


class Table(TypedDict):
    """``rows`` are texts; a missing value is None. ``text_columns`` says which columns align left.

    ``heads`` are the levels of each row's label, None when the rows are merely numbered; ``head_names`` and
    ``head_text`` are names and alignment of the levels.
    """

    columns: list[str]
    text_columns: list[bool]
    rows: list[list[str | None]]
    heads: list[list[str | None]] | None
    head_names: list[str]
    head_text: list[bool]
    total_rows: int
    total_columns: int
    noun: str


def table_of(data: Any) -> Table | None:
    """The table in ``data``, or None when there is nothing that a table shows better than text.

    Taken as tables: a list of dicts, ``{"columns": [...], "rows": [...]}``, a dict that holds exactly one list of
    dicts, a dict of equally long lists, a list of scalars, a plain dict (as keys and values, nested ones flattened).
    ``index`` beside ``columns`` and ``rows`` labels the rows, in the form of a frame's data; ``total_rows`` and
    ``total_columns`` say how many there were when only some are kept.
    """
    try:
        found = _grid(data)
        return None if found is None else {**_cut(*found), **_heads(data), **_totals(data)}
    except Exception:  # data of any tool: whatever is wrong with it, the run goes on and the text is shown
        return None


Grid = tuple[list[Any], Sequence[Any], int, str]  # columns, the rows that are kept, number of all rows, noun


def _grid(data: Any) -> Grid | None:
    if isinstance(data, Mapping):
        return _from_mapping(data)
    if _is_list(data) and data:
        return _from_list(data, "rows")
    return None


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _from_list(items: Sequence[Any], noun: str) -> Grid | None:
    if all(isinstance(item, Mapping) for item in islice(items, _KEYS)):
        columns = list(dict.fromkeys(key for item in islice(items, _KEYS) if isinstance(item, Mapping) for key in item))
        return columns, [_pick(item, columns[:COLUMNS]) for item in items[:ROWS]], len(items), noun
    if any(isinstance(item, (Mapping, list, tuple)) for item in islice(items, _KEYS)):
        return None
    return ["value"], [[item] for item in items[:ROWS]], len(items), noun


def _pick(item: Any, columns: list[Any]) -> list[Any]:
    if not isinstance(item, Mapping):
        return [item, *[_NOTHING] * (len(columns) - 1)]
    return [item.get(column, _NOTHING) for column in columns]


def _from_mapping(data: Mapping[Any, Any]) -> Grid | None:
    columns, rows = data.get("columns"), data.get("rows")
    if isinstance(columns, (list, tuple)) and isinstance(rows, (list, tuple)) and columns:
        return _from_rows(list(columns), rows)
    names = side_by_side(data)
    if names:
        return _from_columns(data, names)
    lists = {key: value for key, value in data.items() if _is_list(value)}
    tables = [key for key, value in lists.items() if value and all(isinstance(row, Mapping) for row in value[:_KEYS])]
    if len(tables) == 1:
        return _from_list(data[tables[0]], _noun(tables[0]))
    if not data:
        return None
    inner = data.get("result") if len(data) == 1 else None
    pairs = pairs_of(inner if isinstance(inner, Mapping) and inner else data)
    return ["key", "value"], [list(pair) for pair in pairs[:ROWS]], len(pairs), "rows"


def _from_rows(columns: list[Any], rows: Sequence[Any]) -> Grid:
    names = [column.get("name", column) if isinstance(column, Mapping) else column for column in columns]
    shown = names[:COLUMNS]
    repeated = any(name in names[:position] for position, name in enumerate(names))
    cut = []
    for row in rows[:ROWS]:
        if isinstance(row, Mapping) and repeated and len(row) == len(names):
            cut.append(list(row.values())[: len(shown)])  # by position: a mapping can't have one name twice
        elif isinstance(row, Mapping):
            cut.append(_pick(row, shown))
        else:
            cells = list(row[: len(shown)]) if _is_list(row) else [row]
            cut.append(cells + [_NOTHING] * (len(shown) - len(cells)))
    return names, cut, len(rows), "rows"


def _from_columns(data: Mapping[Any, Any], names: list[Any]) -> Grid:
    table = columns_of({name: data[name][:ROWS] for name in names}, names)
    rows = [[column[i] for column in table.columns[:COLUMNS]] for i in range(table.height)]
    noun = _noun(names[0]) if len(names) < len(data) else "rows"
    return table.names, rows, len(data[names[0]]), noun


def _noun(key: Any) -> str:
    """What the rows under ``key`` are called; "result" names no one row."""
    return "rows" if key == "result" else str(key)


def _cut(columns: list[Any], rows: Sequence[Any], total: int, noun: str) -> Table:
    shown = columns[:COLUMNS]
    return Table(
        columns=[_label(column) for column in shown],
        text_columns=[_is_text(row[i] for row in rows) for i in range(len(shown))],
        rows=[[_cell(value) for value in row[: len(shown)]] for row in rows],
        heads=None,
        head_names=[""],
        head_text=[False],
        total_rows=total,
        total_columns=len(columns),
        noun=one_line(noun, 24),
    )


def _label(name: Any) -> str:
    """The name of a column or level; the parts of a name in several levels are joined."""
    if _is_list(name):
        return one_line(" / ".join("" if part is None else str(part) for part in name), CELL)
    return one_line(str(name), CELL)


class _Totals(TypedDict, total=False):
    total_rows: int
    total_columns: int


def _totals(data: Any) -> _Totals:
    """What columns and rows say of a larger table that they were taken from."""
    found = _Totals()
    if isinstance(data, Mapping) and _is_list(data.get("columns")) and _is_list(data.get("rows")):
        rows, columns = data.get("total_rows"), data.get("total_columns")
        if type(rows) is int and rows > len(data["rows"]):
            found["total_rows"] = rows
        if type(columns) is int and columns > len(data["columns"]):
            found["total_columns"] = columns
    return found


class _Heads(TypedDict, total=False):
    heads: list[list[str | None]]
    head_names: list[str]
    head_text: list[bool]


def _heads(data: Any) -> _Heads:
    """The labels of the rows that ``data`` tells, or nothing."""
    if not isinstance(data, Mapping) or not _is_list(data.get("rows")) or not _is_list(data.get("columns")):
        return {}
    index = data.get("index")
    levels = index.get("rows") if isinstance(index, Mapping) else index
    if not _is_list(levels) or not levels or len(levels) != len(data["rows"]):
        return {}
    rows = [list(row[:COLUMNS]) if _is_list(row) else [row] for row in levels[:ROWS]]
    width = max(1, *map(len, rows))
    rows = [row + [None] * (width - len(row)) for row in rows]
    given = index.get("names") if isinstance(index, Mapping) else None
    names = [*given, *[None] * width][:width] if isinstance(given, (list, tuple)) else [None] * width
    return {
        "heads": [[_cell(value) for value in row] for row in rows],
        "head_names": ["" if name is None else _label(name) for name in names],
        "head_text": [_is_text(row[i] for row in rows) for i in range(width)],
    }


def _is_text(values: Iterable[Any]) -> bool:
    """Numbers, dates and the like align right; a column with any other text aligns left."""
    known = [value for value in values if value is not None and value is not _NOTHING]
    return not known or not all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in known)


def _cell(value: Any) -> str | None:
    if value is None or value is _NOTHING:
        return None
    if isinstance(value, str):
        return one_line(value, CELL)
    if isinstance(value, bool):
        return "True" if value else "False"
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, int):
        return one_line(_integer(value), CELL)
    return one_line(_nested(value), CELL)


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return repr(float(value))


def _integer(value: int) -> str:
    try:
        return str(int(value))
    except ValueError:  # Python refuses to print integers of more than 4,300 digits
        return hex(value)


def _nested(value: Any) -> str:
    try:
        text = json.dumps(_head(value, 200), ensure_ascii=False, allow_nan=True, default=str, separators=(", ", ": "))
    except (ValueError, TypeError, RecursionError):
        text = f"{type(value).__name__} that JSON cannot hold"
    return text


def _head(value: Any, budget: int) -> Any:
    """The first part of a nested value: enough for one cell, however long the value is."""
    if isinstance(value, Mapping):
        return {str(key): _head(value[key], budget // 2) for key in islice(value, max(1, budget))}
    if isinstance(value, (list, tuple)):
        return [_head(item, budget // 2) for item in value[: max(1, budget)]]
    if isinstance(value, str):
        return value[:budget] if len(value) > budget else value
    return value if value is None or isinstance(value, (bool, int, float)) else jsonable(value)
