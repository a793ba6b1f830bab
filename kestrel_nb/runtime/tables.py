"""Any tool data as a table: names, columns of cells, and what does not fit into either.

Cells are the values of the data themselves, never copies or conversions. ``None`` fills what is not there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

# Under these names a tool that found nothing still has a table, one without rows.
_ROW_KEYS: Final = frozenset(
    ("rows", "items", "matches", "result", "results", "data", "entries", "files", "records", "hits", "values", "todos")
)


@dataclass(slots=True, kw_only=True)
class Table:
    """``columns`` are lists of equal length, ``height``; ``names`` may be any values, also the same one twice.

    ``numbered`` says that the names are mere positions. ``dtypes`` and ``index`` are those of ``frames.frame_data``.
    """

    names: list[Any]
    columns: list[list[Any]]
    height: int
    extra: dict[str, Any] = field(default_factory=dict)
    numbered: bool = False
    dtypes: Any = None
    index: Any = None


def table_of(data: Any) -> Table:
    """The table in ``data``.

    A list of mappings is one row each, nested mappings flattened one level (``a.b``); ``{"columns", "rows"}`` is what
    it says; a mapping with one list of mappings is that list, its other values go to ``extra``; a mapping of equally
    long lists is its columns, single values beside them go to ``extra``; a mapping of nothing but a ``result`` that is
    a mapping is that one; a list of lists has numbered columns, another list one column ``value``; any other mapping is
    ``key`` and ``value``, nested mappings flattened one level, and any other value a single cell. Figures go to
    ``extra`` in every shape.
    """
    data = _plain(data)
    if isinstance(data, Mapping):
        table = _from_mapping(without_figures(data))
        if figures_in(data):
            table.extra["figures"] = data["figures"]
        return table
    if isinstance(data, list):
        return _from_list(data)
    return _column("value", [] if data is None else [data])


def figures_in(data: Any) -> Sequence[Mapping[str, Any]]:
    """The images that stand beside data as ``figures``: mappings with ``type`` ("image/png") and ``data`` (base64),
    perhaps ``width`` and ``height`` in pixels. Empty when that key is missing or means something else."""
    found = data.get("figures") if isinstance(data, Mapping) else None
    if isinstance(found, (list, tuple)) and all(_is_figure(figure) for figure in found):
        return found
    return ()


def without_figures(data: Any) -> Any:
    """``data`` without the images beside it: the same object when there are none."""
    return {key: value for key, value in data.items() if key != "figures"} if figures_in(data) else data


def _is_figure(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    kind, data = value.get("type"), value.get("data")
    return isinstance(kind, str) and kind.startswith("image/") and isinstance(data, str)


def _plain(data: Any) -> Any:
    """Sequences and sets as lists, dataclasses as mappings, one level deep."""
    if dataclasses.is_dataclass(data) and not isinstance(data, type):
        return {item.name: getattr(data, item.name) for item in dataclasses.fields(data)}
    if isinstance(data, (tuple, set, frozenset, range)):
        return list(data)
    return data


def _column(name: str, values: list[Any]) -> Table:
    return Table(names=[name], columns=[values], height=len(values))


def _from_list(items: list[Any]) -> Table:
    rows = [_plain(item) if dataclasses.is_dataclass(item) else item for item in items]
    if any(isinstance(row, Mapping) for row in rows):
        return _from_records(rows)
    if rows and all(isinstance(row, (list, tuple)) for row in rows):
        return _from_rows([], rows)
    if not rows:
        return Table(names=[], columns=[], height=0)
    return _column("value", rows)


def _from_mapping(data: Mapping[Any, Any]) -> Table:
    columns, rows = data.get("columns"), data.get("rows")
    if isinstance(columns, (list, tuple)) and isinstance(rows, (list, tuple)):
        table = _from_rows([_name_of(column) for column in columns], rows)
        table.dtypes, table.index = data.get("dtypes"), data.get("index")
        table.extra = _others(data, "columns", "rows", "dtypes", "index")
        return table
    names = side_by_side(data)
    if names:
        return columns_of(data, names)
    key = _records_key(data)
    if key is not None:
        table = _from_list(list(data[key]))
        table.extra = _others(data, key)
        return table
    inner = data.get("result") if len(data) == 1 else None
    pairs = pairs_of(inner if isinstance(inner, Mapping) and inner else data)
    return Table(names=["key", "value"], columns=[[k for k, _ in pairs], [v for _, v in pairs]], height=len(pairs))


def side_by_side(data: Mapping[Any, Any]) -> list[Any]:
    """The keys of the lists in ``data`` that stand side by side, as the columns of one table.

    They are equally long, and either they are all there is, or one is called by a name that tells of rows and only
    single values and lists of nothing are beside them. A list of mappings alone is no column.
    """
    lists = {key: value for key, value in data.items() if isinstance(value, (list, tuple))}
    full = {key: value for key, value in lists.items() if value}
    if len({len(value) for value in full.values()}) > 1 or (full and all(map(_is_records, full.values()))):
        return []
    if len(lists) == len(data):
        return list(lists) if len(full) in (0, len(lists)) else []
    named = [key for key in full or lists if isinstance(key, str) and key in _ROW_KEYS and not _is_records(lists[key])]
    alone = len(lists) == 1 and not full  # of nothing: without a column, as nobody knows what it would be
    return list(full or named) if named and not alone and not any(map(_is_mapping, data.values())) else []


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def columns_of(data: Mapping[Any, Any], names: list[Any]) -> Table:
    """The lists under ``names`` as columns, those of mappings flattened."""
    table = Table(names=[], columns=[], height=len(data[names[0]]))
    for name in names:
        part = _from_records([{name: cell} for cell in data[name]]) if _is_records(data[name]) else None
        table.names += part.names if part else [name]
        table.columns += part.columns if part else [list(data[name])]
    table.extra = _others(data, *names)
    return table


def pairs_of(data: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    """Each key with its value; a mapping inside, unless it is all there is, gives its own, ``a.b``."""
    pairs: list[tuple[Any, Any]] = []
    for key, value in data.items():
        nested = isinstance(value, Mapping) and len(data) > 1
        inner = [(f"{key}.{name}", cell) for name, cell in value.items()] if nested else []
        taken = len({name for name, _ in inner} - {name for name in data if isinstance(name, str)})
        pairs += inner if inner and taken == len(inner) else [(key, value)]
    return pairs


def _records_key(data: Mapping[Any, Any]) -> Any:
    """The key of the one list of mappings in ``data``, or None."""
    found = [key for key, value in data.items() if _is_records(value)]
    if len(found) == 1:
        return found[0]
    empty = [key for key, value in data.items() if isinstance(value, (list, tuple)) and not value]
    if not found and len(empty) == 1 and empty[0] in _ROW_KEYS and len(data) > 1:
        return empty[0]
    return None


def _is_records(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) > 0 and all(isinstance(item, Mapping) for item in value)


def _others(data: Mapping[Any, Any], *taken: Any) -> dict[str, Any]:
    return {str(key): value for key, value in data.items() if key not in taken}


def _name_of(column: Any) -> Any:
    """Some tools describe their columns: ``{"name": "id", "type": "integer"}``."""
    if isinstance(column, Mapping) and isinstance(column.get("name"), str):
        return column["name"]
    return column


def _from_rows(names: list[Any], rows: Sequence[Any]) -> Table:
    """Rows by position. What a row has beyond the names gets columns of its own, what it lacks stays empty."""
    numbered = not names and len(rows) > 0
    repeated = any(name in names[:position] for position, name in enumerate(names))
    lines = [_cells(row, names, repeated) for row in rows]
    width = max([len(names), *map(len, lines)])
    if numbered:
        names = list(range(width))
    names = names + [f"column {number + 1}" for number in range(len(names), width)]
    padded = [line + [None] * (width - len(line)) for line in lines]
    columns = [[line[position] for line in padded] for position in range(width)]
    return Table(names=names, columns=columns, height=len(padded), numbered=numbered)


def _cells(row: Any, names: list[Any], repeated: bool) -> list[Any]:
    if isinstance(row, (list, tuple)):
        return list(row)
    if isinstance(row, Mapping) and repeated and len(row) == len(names):
        return list(row.values())  # by position: a mapping can't have one name twice
    if isinstance(row, Mapping):
        known = [name for name in names if isinstance(name, (str, int)) or name is None]
        return [row.get(name) if name in known else None for name in names] + [
            value for key, value in row.items() if key not in known
        ]
    return [row]


# ---- lists of mappings ------------------------------------------------------------------------------------------


def _from_records(rows: list[Any]) -> Table:
    """One row per item; an item that is no mapping stands in a column ``value``."""
    keys = list(dict.fromkeys(key for row in rows if isinstance(row, Mapping) for key in row))
    split = {key: inner for key in keys if (inner := _inner_keys(rows, key, keys))}
    names: list[Any] = []
    columns: list[list[Any]] = []
    for key in keys:
        values = [row.get(key) if isinstance(row, Mapping) else None for row in rows]
        if key not in split:
            names.append(key)
            columns.append(values)
            continue
        for inner in split[key]:
            names.append(f"{key}.{inner}")
            columns.append([value.get(inner) if value is not None else None for value in values])
    if any(row is not None and not isinstance(row, Mapping) for row in rows):
        names.append("value" if "value" not in keys else "value of other items")
        columns.append([None if isinstance(row, Mapping) else row for row in rows])
    return Table(names=names, columns=columns, height=len(rows))


def _inner_keys(rows: Iterable[Any], key: Any, keys: list[Any]) -> list[Any]:
    """The keys inside ``key``, or nothing when its values can't be flattened without loss or confusion."""
    inner: dict[Any, None] = {}
    for row in rows:
        value = row.get(key) if isinstance(row, Mapping) else None
        if value is None:
            continue
        if not isinstance(value, Mapping) or not value:
            return []
        inner.update(dict.fromkeys(value))
    names = {f"{key}.{name}" for name in inner}
    return list(inner) if len(names) == len(inner) and names.isdisjoint(k for k in keys if isinstance(k, str)) else []
