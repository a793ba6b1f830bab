"""Values to pandas DataFrames and back.

``to_frame(data)`` makes a frame of whatever a tool gave. It never raises, and no cell ever differs from its source:
ids beside a missing value stay exact (``Int64``, not float), integers beyond 64 bits, mixed types, dates of several
zones, bytes and nested values stay the objects they are. What stands beside the rows goes to ``frame.attrs``.

``frame_data(frame)`` is the way back into JSON: columns, rows, dtypes. ``to_frame`` of it gives an equal frame for
integers, floats, booleans, text, categories, dates, durations, periods and the nullable types, index included. Other
objects become their text, missing ones None; a frequency of the index and ``attrs`` are not kept.

pandas is imported when a function here is called.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from .protocol.codec import jsonable
from .protocol.errors import KestrelError
from .protocol.events import SessionEvent
from .protocol.messages import ChatMessage
from .protocol.sessions import ApprovalRecord
from .runtime.secrets import Masker
from .runtime.session_tables import approvals_table, events_table, messages_table, usage_table
from .runtime.tables import Table, table_of

if TYPE_CHECKING:
    import pandas as pd
    from pandas import DataFrame as DataFrame  # for annotations elsewhere: only this file knows pandas

_EXACT_FLOAT = 2**53  # the integers up to here are the same as floats
_INT64 = range(-(2**63), 2**63)


def _pandas() -> Any:
    """pandas, loaded now. As Any: its stubs know fewer dtypes than it does. Raises KestrelError when it is broken."""
    try:
        import pandas

        _ = pandas.DataFrame  # not another file of that name
    except (Exception, SystemExit) as error:
        place = getattr(sys.modules.get("pandas"), "__file__", None)
        where = f" from {place}" if place else ""
        why = f"{type(error).__name__}: {error}"
        raise KestrelError(f"tables need pandas, which can't be loaded{where} ({why}); see %kestrel doctor") from error
    return pandas


def to_frame(data: Any) -> pd.DataFrame:
    """A DataFrame of ``data``; see ``runtime.tables.table_of`` for the shapes. A frame comes back as it is."""
    frame: pd.DataFrame
    try:
        frame = _any_frame(data)
    except Exception:
        # Data of any tool may hold objects that misbehave; a run must not end for that.
        frame = _pandas().DataFrame({"value": _objects([data])})
    return frame


def whole_texts(frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """``frame``, whose texts in ``columns`` are not cut where a cell shows it as HTML, those in others as ever.

    What is made of it shows as any other frame.
    """
    pd, kind = _pandas(), cast("Any", type(frame))

    def drawn() -> Any:
        most = pd.get_option("display.max_colwidth")
        others = frame.columns.difference(list(columns))
        short = {name: [_short(cell, most) for cell in frame[name]] for name in others}
        with pd.option_context("display.max_colwidth", None):
            return kind._repr_html_(frame.assign(**short))

    object.__setattr__(frame, "_repr_html_", drawn)
    return frame


def _short(cell: Any, most: int | None) -> Any:
    return f"{cell[: most - 4]}..." if isinstance(cell, str) and most and len(cell) >= most > 4 else cell


def _any_frame(data: Any) -> Any:
    pd = _pandas()
    if isinstance(data, pd.DataFrame):
        return data
    if isinstance(data, pd.Series):
        return data.to_frame()
    return _frame(table_of(data.tolist() if type(data).__module__ == "numpy" else data))


def events_frame(events: Iterable[SessionEvent]) -> pd.DataFrame:
    """One row per event; ``at`` in UTC."""
    return _frame(_masked(events_table(events)))


def messages_frame(messages: Iterable[ChatMessage]) -> pd.DataFrame:
    """One row per message; ``at`` in UTC."""
    return _frame(_masked(messages_table(messages)))


def approvals_frame(records: Iterable[ApprovalRecord]) -> pd.DataFrame:
    """One row per answered question: when (UTC), who, what, decision, reason."""
    return _frame(_masked(approvals_table(records)))


def usage_frame(items: Iterable[Any] | Mapping[str, Any]) -> pd.DataFrame:
    """One row per item: anything with tokens, such as session summaries, run results, ``UsageUpdated`` or ``Usage``.

    A mapping gives the rows their names. ``cost`` is in US dollars, missing where unknown.
    """
    return _frame(usage_table(items))


def _masked(table: Table) -> Table:
    """Without keys: arguments of calls have them as they ran, and a frame is shown and saved."""
    mask = Masker.from_environment().mask_json
    return replace(table, columns=[[mask(value) for value in column] for column in table.columns])


# ---- a table as a frame -----------------------------------------------------------------------------------------


def _frame(table: Table) -> pd.DataFrame:
    pandas = _pandas()

    dtypes = _dtypes(table)
    series = [_series(values, dtype) for values, dtype in zip(table.columns, dtypes, strict=True)]
    frame: pd.DataFrame = pandas.DataFrame(dict(enumerate(series)), index=pandas.RangeIndex(table.height))
    if table.names and not table.numbered:
        frame.columns = _labels(table.names)
    if isinstance(table.index, Mapping):
        frame.index = _index(table.index)
    elif table.index is not None:
        frame.attrs["index"] = table.index
    frame.attrs.update(table.extra)
    return frame


def _dtypes(table: Table) -> list[Any]:
    """The dtype given for each column, by position or by name; None where nothing was given."""
    given = table.dtypes
    if isinstance(given, Mapping):
        return [given.get(name) if isinstance(name, str) else None for name in table.names]
    if isinstance(given, (list, tuple)):
        return [*given, *[None] * len(table.names)][: len(table.names)]
    return [None] * len(table.names)


def _labels(names: list[Any]) -> Any:
    pd = _pandas()

    if names and all(type(name) is str for name in names):
        return _series(names).pipe(pd.Index)
    if names and all(isinstance(name, (list, tuple)) and len(name) == len(names[0]) > 1 for name in names):
        return pd.MultiIndex.from_tuples([tuple(name) for name in names])
    if names and all(type(name) is int for name in names):
        return pd.Index(names)
    return pd.Index([_label(name) for name in names], dtype=object, tupleize_cols=False)


def _label(name: Any) -> Any:
    """A label must be hashable."""
    try:
        hash(name)
    except TypeError:
        return str(name)
    return name


def _series(values: list[Any], dtype: Any = None) -> Any:
    """The column of ``values``: with ``dtype`` if they have that form, otherwise with what fits all of them exactly."""
    if dtype is not None:
        try:
            return _restored(values, dtype)
        except Exception:  # a dtype that is unknown here, or cells that aren't of it
            return _series(values)
    pd = _pandas()

    plain = [value.item() if _is_number_of_numpy(value) else value for value in values]
    kinds = {type(value) for value in plain if value is not None and value is not pd.NA}
    missing = len(plain) > 0 and any(value is None or value is pd.NA for value in plain)
    guess = _guess(plain, kinds, missing)
    if guess is None:
        return _objects(values)
    try:
        made = pd.Series(plain, dtype=guess) if guess != "infer" else pd.Series(plain)
    except Exception:  # text with lone surrogates, dates beyond the calendar
        return _objects(values)
    return made if guess != "infer" or _same(made, plain) else _objects(values)


def _is_number_of_numpy(value: Any) -> bool:
    return type(value).__module__ == "numpy" and getattr(getattr(value, "dtype", None), "kind", "") in "biuf"


def _guess(values: list[Any], kinds: set[type], missing: bool) -> str | None:
    """A dtype that keeps every value; "infer" when pandas has to look, None for objects."""
    if kinds == {bool}:
        return "boolean" if missing else "bool"
    if kinds == {int}:
        fits = all(value in _INT64 for value in values if type(value) is int)
        return None if not fits else "Int64" if missing else "int64"
    if kinds and kinds <= {int, float} and all(_is_exact_float(value) for value in values):
        if not missing:
            return "float64"
        # Beside a missing value, NaN would become one too.
        return None if any(value != value for value in values if type(value) is float) else "Float64"
    if len(kinds) == 1 and next(iter(kinds)).__name__ in ("str", "datetime", "timedelta", "Timestamp", "Timedelta"):
        return "infer"
    return None


def _is_exact_float(value: Any) -> bool:
    return type(value) is not int or -_EXACT_FLOAT <= value <= _EXACT_FLOAT


def _same(made: Any, values: list[Any]) -> bool:
    """True when every cell equals its source and knows the same offset from UTC."""
    for cell, value in zip(made.tolist(), values, strict=True):
        if value is None:
            continue
        if cell != value or getattr(value, "tzinfo", None) != getattr(cell, "tzinfo", None):
            return False
    return True


def _objects(values: list[Any]) -> Any:
    """A column of the very objects. Built cell by cell: the constructor would look into lists."""
    pd = _pandas()

    series = pd.Series([None] * len(values), dtype=object)
    array: Any = series.array.to_numpy().copy()
    for position, value in enumerate(values):
        array[position] = value
    return pd.Series(array, dtype=object)


# ---- frames as JSON ---------------------------------------------------------------------------------------------


def frame_data(frame: pd.DataFrame) -> dict[str, Any]:
    """JSON data of ``frame``: ``columns``, ``rows``, ``dtypes``, one per column, ``index`` unless that is 0, 1 ..."""
    columns = [frame.iloc[:, position] for position in range(frame.shape[1])]
    cells = [_json_cells(column) for column in columns]
    rows = [list(row) for row in zip(*cells, strict=True)] if cells else [[] for _ in range(len(frame))]
    data: dict[str, Any] = {
        "columns": [_json_label(label) for label in frame.columns],
        "rows": rows,
        "dtypes": [_dtype_data(column) for column in columns],
    }
    plain = _pandas().RangeIndex(len(frame))
    if type(frame.index) is not type(plain) or not frame.index.equals(plain) or frame.index.name is not None:
        data["index"] = _index_data(frame.index)
    return data


def _index_data(index: Any) -> dict[str, Any]:
    """The levels of ``index`` as the columns of a frame, and their names."""
    pd = _pandas()
    levels = [index.get_level_values(level) for level in range(index.nlevels)]
    frame = pd.DataFrame({number: pd.Series(level) for number, level in enumerate(levels)})
    return {**frame_data(frame), "names": [_json_label(name) for name in index.names]}


def _index(data: Mapping[str, Any]) -> Any:
    pd = _pandas()

    levels = _frame(table_of(data))
    names = [tuple(name) if isinstance(name, list) else name for name in data.get("names", [])]
    if levels.shape[1] == 1:
        return pd.Index(levels.iloc[:, 0]).set_names(names[:1] or [None])
    return pd.MultiIndex.from_frame(levels, names=names or None)


def _json_label(label: Any) -> Any:
    if isinstance(label, tuple):
        return [_json_label(part) for part in label]
    if label is None or isinstance(label, (str, int)):
        return label
    return label.item() if _is_number_of_numpy(label) else str(label)


def _dtype_data(column: Any) -> Any:
    """The dtype's name; of a category all that makes it."""
    pd = _pandas()

    if isinstance(column.dtype, pd.CategoricalDtype):
        categories = pd.Series(column.dtype.categories)
        return {
            "name": "category",
            "categories": _json_cells(categories),
            "dtype": _dtype_data(categories),
            "ordered": bool(column.dtype.ordered),
        }
    return str(column.dtype)


def _json_cells(column: Any) -> list[Any]:
    pd = _pandas()

    if isinstance(column.dtype, pd.CategoricalDtype):
        column = pd.Series(column.tolist(), dtype=column.dtype.categories.dtype)
    missing = column.isna().tolist()
    write = _writer(column.dtype)
    return [None if empty else write(cell) for cell, empty in zip(column.tolist(), missing, strict=True)]


def _writer(dtype: Any) -> Callable[[Any], Any]:
    kind = getattr(dtype, "kind", "O")
    if kind in "biu":
        return lambda cell: bool(cell) if kind == "b" else int(cell)
    if kind == "f":
        return lambda cell: float(cell) if math.isfinite(cell) else "Infinity" if cell > 0 else "-Infinity"
    if kind == "M":
        return lambda cell: str(cell.isoformat())
    if kind == "m":
        return lambda cell: str(cell.isoformat())
    return jsonable


def _restored(values: list[Any], dtype: Any) -> Any:
    """The column of JSON cells that had ``dtype``. Raises what pandas raises when they don't fit."""
    pd = _pandas()

    if isinstance(dtype, Mapping):
        categories = _restored(list(dtype["categories"]), dtype["dtype"])
        kind = pd.CategoricalDtype(pd.Index(categories), ordered=bool(dtype.get("ordered")))
        codes = {value: code for code, value in enumerate(dtype["categories"])}
        made = pd.Categorical.from_codes([-1 if value is None else codes[value] for value in values], dtype=kind)
        return pd.Series(made)
    if dtype == "object":
        return _objects(values)
    if dtype == "str":
        return pd.Series(values, dtype="str") if int(pd.__version__.split(".")[0]) >= 3 else _objects(values)
    if "datetime64" in dtype:
        return _dates(values, dtype)
    if "timedelta64" in dtype:
        return pd.to_timedelta(pd.Series(values, dtype=object)).astype(dtype)
    if "float" in dtype.lower():
        values = [float(value) if value in ("Infinity", "-Infinity") else value for value in values]
    return pd.Series(values, dtype=dtype)


def _dates(values: list[Any], dtype: str) -> Any:
    pd = _pandas()

    zone = getattr(pd.api.types.pandas_dtype(dtype), "tz", None)
    texts = pd.Series(values, dtype=object)
    if zone is None:
        return pd.to_datetime(texts, format="ISO8601").astype(dtype)
    return pd.to_datetime(texts, format="ISO8601", utc=True).dt.tz_convert(zone).astype(dtype)
