"""The result of code as a tool gives it: ``content`` for the model, ``data`` for the notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..runtime.secrets import Masker
from ..runtime.tools import ToolExecutionResult
from ..sandbox.output import plural
from .disclosure import is_table
from .disclosure_kinds import attribute, hides, kind_of, read, sizes_of
from .pictures import figure_data
from .python_runs import Finished
from .scrolls import middle_cut, stable
from .variables import Variable
from .visible import one_line

LIMIT = 10_000  # characters for the model
CHANGES = 40  # variables that are told
NOTES = 2_000  # characters
ROWS, COLUMNS, CELLS = 5_000, 200, 100_000  # of the last value that go to the notebook: a tenth of a second

_SENT_NOTHING = "what it printed and returned is not sent: the person has chosen to send no data"


def result_of(done: Finished, masker: Masker, *, limit_s: float, no_data: bool) -> ToolExecutionResult:
    """``no_data``: the model reads how it ended and which variables changed; the rest goes to the notebook alone."""
    figures, left_out = figure_data(done.capture.pictures)
    output = _output(done, limit_s)
    data = _data(done, figures)
    notes = "\n".join([*_kept(data), *_drawn(done, len(figures), left_out), *_changes(done), *done.notes])
    head = "\n".join([_ending(done, limit_s), _SENT_NOTHING]) if no_data else middle_cut(output, LIMIT - NOTES)
    content = middle_cut("\n".join(part for part in (head, middle_cut(notes, NOTES)) if part), LIMIT)
    content, output = masker.mask(content), masker.mask(output)
    if no_data:
        data["unsent"] = output
    if data.get("rows") and (place := _place(done, masker, output if no_data else content)):
        data["value_at"] = place
    shown = masker.mask_json(data) or None
    return ToolExecutionResult(content=content, data=shown, is_error=_failed(done))


def _place(done: Finished, masker: Masker, text: str) -> list[int]:
    """From where to where the last value stands in ``text``, when it is a table and stands there whole."""
    value = masker.mask(stable(done.capture.value_text))
    start = text.rfind(value) if value else -1
    return [start, start + len(value)] if start >= 0 else []


def _failed(done: Finished) -> bool:
    return done.timed_out or bool(done.error_type)


def _ending(done: Finished, limit_s: float) -> str:
    if done.timed_out:
        return f"stopped after {limit_s:g} s"
    return f"raised {done.error_type}" if done.error_type else "the code ran"


def _output(done: Finished, limit_s: float) -> str:
    """What it wrote, displayed and gave, and how it failed: of a long one the head and the tail."""
    error = _ending(done, limit_s) if done.timed_out else done.error
    room = LIMIT - NOTES - len(error)
    written = stable(done.capture.scroll.text(room)).rstrip()
    return "\n".join(part for part in (written, error) if part) or "(no output)"


def _kept(data: Mapping[str, Any]) -> list[str]:
    """What the notebook keeps of a last value that is too large a table."""
    parts = [
        f"{len(data[noun]):,} of {data[total]:,} {noun}"
        for noun, total in (("rows", "total_rows"), ("columns", "total_columns"))
        if total in data
    ]
    return [f"the notebook keeps its first {' and '.join(parts)}"] if parts else []


def _drawn(done: Finished, shown: int, left_out: list[str]) -> list[str]:
    lines = []
    if shown:
        lines.append(f"{plural(shown, 'figure was', 'figures were')} drawn and shown to the person")
    if more := done.capture.drawn - shown:
        named = f": {'; '.join(left_out[:8])}" if left_out else ""
        lines.append(f"{plural(more, 'more figure was', 'more figures were')} drawn and not shown{named}")
    return lines


def _changes(done: Finished) -> list[str]:
    rows = _rows(done)
    lines = [f"{how} variable {name}: {brief}" for name, how, _, _, brief in rows[:CHANGES]]
    return lines if len(rows) <= CHANGES else [*lines, f"… {len(rows) - CHANGES:,} more variables"]


def _rows(done: Finished) -> list[tuple[str, str, str, str, str]]:
    """Name, change, type, shape and both in words, of each variable that changed."""
    found = done.changes
    groups = (("new", found.new), ("changed", found.changed), ("gone", found.gone))
    return [(*_told(variable, how), _brief(variable)) for how, variables in groups for variable in variables]


def _told(variable: Variable, how: str) -> tuple[str, str, str, str]:
    return one_line(variable.name, 80), how, variable.type, "" if hides(variable.name) else variable.shape


def _brief(variable: Variable) -> str:
    return variable.type if hides(variable.name) else variable.brief  # a password's length is its own affair


def _data(done: Finished, figures: list[dict[str, Any]]) -> dict[str, Any]:
    """Empty when there is nothing but text."""
    found = done.changes
    table = table_data(done.capture.value) if done.capture.has_value else None
    if table is None and found:
        table = {"columns": ["name", "change", "type", "shape"], "rows": [list(row[:4]) for row in _rows(done)]}
    data: dict[str, Any] = {"figures": figures} if figures else {}
    if table is not None:
        groups = (("new", found.new), ("changed", found.changed), ("gone", found.gone))
        names = {how: [one_line(variable.name, 80) for variable in group] for how, group in groups}
        data = {**table, "figures": figures, "variables": names}
    return data


def table_data(value: Any) -> dict[str, Any] | None:
    """The head of a table as JSON data; None for what is no table.

    ``total_rows`` and ``total_columns`` are there when it has more of them.
    """
    return read(lambda: _table_data(value), None) if is_table(value) else None


def _table_data(value: Any) -> dict[str, Any] | None:
    from ..frames import frame_data, to_frame

    kind, sizes = kind_of(value), sizes_of(value) or ()
    if not sizes or len(sizes) > 2:
        return None
    rows = min(ROWS, CELLS // max(1, min(COLUMNS, sizes[1] if len(sizes) > 1 else 1)))
    if kind in ("frame", "series", "index"):
        part = value[:rows] if kind == "index" else value.iloc[:rows]
        part = part.iloc[:, :COLUMNS] if kind == "frame" else part.to_frame()
    elif kind == "array":
        part = to_frame({str(number): column for number, column in enumerate(_columns(value, rows))})
    elif kind == "columnar":
        part = to_frame(_columnar(value, rows))
    else:
        return None
    data: dict[str, Any] = frame_data(part)
    if sizes[0] > rows:
        data["total_rows"] = sizes[0]
    width = _width(value, sizes)
    if width > COLUMNS:
        data["total_columns"] = width
    return data


def _width(value: Any, sizes: Sequence[int]) -> int:
    """How many columns its data would have."""
    if len(sizes) > 1:
        return sizes[1]
    fields: Any = read(lambda: value.dtype.names, None)
    return len(fields) if fields else 1


def _columns(array: Any, rows: int) -> list[list[Any]]:
    if array.dtype.names:
        return [array[name][:rows].tolist() for name in array.dtype.names[:COLUMNS]]
    if len(array.shape) == 1:
        return [array[:rows].tolist()]
    return [array[:rows, number].tolist() for number in range(min(array.shape[1], COLUMNS))]


def _columnar(value: Any, rows: int) -> Mapping[str, Any]:
    """A polars or pyarrow table, or a polars column, as columns."""
    part = value.head(rows) if attribute(value, "head") else value.slice(0, rows)
    for name in ("to_dict", "to_pydict"):
        if attribute(part, name):
            columns = part.to_dict(as_series=False) if name == "to_dict" else part.to_pydict()
            return dict(list(columns.items())[:COLUMNS])
    return {str(attribute(part, "name") or "value"): part.to_list()}
