"""Tables of any library in one form, read by position and only as far as they are shown."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .disclosure_kinds import attribute, dtype_text, hides, kind_of, name_text, read, type_name

COLUMNS = 60  # columns that are named, shown or summarised
DESCRIBED_ROWS = 1_000_000  # rows that statistics are made from
DESCRIBED_CELLS = 20_000_000  # cells, so that a wide table takes a second or two as well
COUNTED_CELLS = 5_000_000  # cells of the largest table whose missing values are counted

STATISTICS = ("count", "missing", "distinct", "mean", "std", "min", "25%", "50%", "75%", "max")


@dataclass(frozen=True, slots=True)
class Table:
    """Columns by position: ``names`` and ``dtypes`` of the first ``COLUMNS``, ``width`` of all. ``column(i, n)`` and
    ``labels(n)`` give the first ``n`` cells and labels as Python values; ``labels`` one list for each index level."""

    kind: str
    rows: int
    width: int | None  # None for one column of its own
    names: list[Any]
    dtypes: list[Any]
    column: Callable[[int, int], list[Any]]
    missing: Callable[[int], int]
    statistics: Callable[[int, int], dict[str, Any]]
    index: str = ""
    label_names: tuple[Any, ...] = ()
    labels: Callable[[int], list[list[Any]]] = lambda n: []

    @property
    def size(self) -> str:
        """``120 rows × 4 columns``."""
        rows = f"{self.rows:,} {'row' if self.rows == 1 else 'rows'}"
        if self.width is None:
            return rows.replace("row", "value")
        return f"{rows} × {self.width:,} {'column' if self.width == 1 else 'columns'}"

    @property
    def cells(self) -> int:
        """How many cells there are in all."""
        return self.rows * (1 if self.width is None else self.width)

    def hidden(self, index: int) -> bool:
        """True for a column whose name looks like the name of a key."""
        number = attribute(self.dtypes[index], "kind") in ("i", "u", "f")
        return name_hides(self.names[index], number)


def name_hides(name: Any, number: bool = False) -> bool:
    """True when cells below that name are not to be shown; a name of several levels counts by each of them."""
    return hides(name, 0 if number else "")


def table_of(value: Any) -> Table | None:
    """The value as a table; None for an array and for what isn't one or can't be read."""
    makers = {"frame": _frame, "series": _series, "index": _index, "columnar": _columnar}
    maker = makers.get(kind_of(value))
    return read(lambda: maker(value), None) if maker else None


# ---- pandas -------------------------------------------------------------------------------------------------------


def _frame(frame: Any) -> Table:
    rows, width = (int(size) for size in frame.shape)
    shown = frame.iloc[:, :COLUMNS]
    return Table(
        kind=type_name(frame),
        rows=rows,
        width=width,
        names=list(shown.columns),
        dtypes=list(shown.dtypes),
        column=lambda i, n: _listed(frame.iloc[:n, i]),
        missing=lambda i: int(frame.iloc[:, i].isna().sum()),
        statistics=lambda i, n: statistics_of(frame.iloc[:n, i]),
        **_labels(frame.index),
    )


def _series(series: Any) -> Table:
    return Table(
        kind=type_name(series),
        rows=len(series),
        width=None,
        names=[series.name],
        dtypes=[series.dtype],
        column=lambda i, n: _listed(series.iloc[:n]),
        missing=lambda i: int(series.isna().sum()),
        statistics=lambda i, n: statistics_of(series.iloc[:n]),
        **_labels(series.index),
    )


def _labels(index: Any) -> dict[str, Any]:
    names = tuple(index.names)
    if kind_of(index) and attribute(index, "nlevels", 1) > 1:
        dtypes = [level.dtype for level in index.levels]
        levels = ", ".join(f"{_level(name, i)} ({dtype_text(d)})" for i, (name, d) in enumerate(zip(names, dtypes)))  # noqa: B905
        told = f"{type_name(index)} of {len(names)} levels: {levels}"
    else:
        named = "" if names[0] is None else f", named {name_text(names[0])}"
        told = f"{type_name(index)} ({dtype_text(index.dtype)}){named}"
    return {"index": told, "label_names": names, "labels": lambda n: _level_values(index[:n])}


def _level(name: Any, number: int) -> str:
    return f"level {number}" if name is None else name_text(name)


def _level_values(index: Any) -> list[list[Any]]:
    if attribute(index, "nlevels", 1) == 1:
        return [_listed(index)]
    return [_listed(index.get_level_values(level)) for level in range(index.nlevels)]


def _index(index: Any) -> Table:
    """An Index, each level of a MultiIndex as a column, or an extension array."""
    several = attribute(index, "nlevels", 1) > 1
    levels = int(index.nlevels) if several else 1
    return Table(
        kind=type_name(index),
        rows=len(index),
        width=levels if several else None,
        names=list(index.names)[:COLUMNS] if several else [attribute(index, "name")],
        dtypes=[level.dtype for level in index.levels][:COLUMNS] if several else [index.dtype],
        column=lambda i, n: _level_values(index[:n])[i],
        missing=lambda i: int((index.get_level_values(i) if several else index).isna().sum()),
        statistics=lambda i, n: statistics_of(_as_series(index[:n].get_level_values(i) if several else index[:n])),
    )


def _as_series(values: Any) -> Any:
    return sys.modules["pandas"].Series(values)  # a value of pandas is there, so pandas is


def _listed(values: Sequence[Any]) -> list[Any]:
    make = attribute(values, "tolist")
    return list(make() if make is not None else values)


def statistics_of(column: Any) -> dict[str, Any]:
    """Statistics of a pandas column: numbers in full, times by their bounds, all else counted only."""
    missing = int(column.isna().sum())
    found: dict[str, Any] = {"count": len(column) - missing, "missing": missing}
    kind = attribute(column.dtype, "kind")
    if kind not in ("i", "u", "f", "M", "m"):
        return {**found, "distinct": read(lambda: int(column.nunique()), None)}
    if not found["count"]:
        return found
    if kind in ("i", "u", "f"):
        found |= {"mean": read(column.mean, None), "std": read(column.std, None)}
        found |= {f"{p}%": read(lambda p=p: column.quantile(p / 100), None) for p in (25, 50, 75)}  # type: ignore[misc]
    return {**found, "min": read(column.min, None), "max": read(column.max, None)}


# ---- polars and pyarrow -------------------------------------------------------------------------------------------


def _columnar(value: Any) -> Table:
    """By what their tables have in common; a polars Series is a table of one column."""
    single = attribute(value, "to_series") is None and attribute(value, "to_list") is not None
    names = [value.name] if single else list(attribute(value, "column_names") or value.columns)
    dtypes = [value.dtype] if single else list(attribute(value, "dtypes") or value.schema.types)

    def column(i: int) -> Any:
        return value if single else value.to_series(i) if attribute(value, "to_series") else value.column(i)

    def cells(i: int, n: int) -> list[Any]:
        part = column(i)[:n]
        return list(part.to_list() if attribute(part, "to_list") else part.to_pylist())

    def missing(i: int) -> int:
        count = column(i).null_count
        return int(count() if callable(count) else count)

    return Table(
        kind=type_name(value),
        rows=len(value),
        width=None if single else len(names),
        names=names[:COLUMNS],
        dtypes=dtypes[:COLUMNS],
        column=cells,
        missing=missing,
        statistics=lambda i, n: _columnar_statistics(column(i)[:n]),
    )


def _columnar_statistics(column: Any) -> dict[str, Any]:
    count = column.null_count
    missing = int(count() if callable(count) else count)
    found: dict[str, Any] = {"count": len(column) - missing, "missing": missing}
    numeric = read(lambda: column.dtype.is_numeric(), False)
    if numeric is not True:
        return found
    return {**found, **{name: read(getattr(column, name), None) for name in ("mean", "std", "min", "max")}}
