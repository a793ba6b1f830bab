"""What a tool row shows of the result of its call: a line, text, a table, a difference, figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..protocol.events import ToolExecuted
from ..runtime.tables import without_figures
from ..runtime.tool_calls import EDITED
from .cards import diff_lines
from .figures import Figure, added, figures_of_data
from .json_answers import Said, said_by
from .summaries import RESULT, exit_code, result_line
from .tables import Table, table_of
from .visible import one_line, visible

Block = dict[str, Any]

DETAIL = 40_000  # characters of a result; the model's own limit is higher


def executed(row: Block, event: ToolExecuted, room: int) -> Block:
    """``row`` with the result of its call; ``room`` is the bytes of figures that the run has left."""
    row = {**row, "card": None, **with_figures(row, figures_of_data(event.data), room)}
    event = _without_note(row, event)
    said = said_by(event.content, event.data, is_error=event.is_error)
    diff = _diff(event.data)
    changed = diff is not None or row["diff"] is not None
    table = None if event.is_error or changed else _table(event, said)
    content = visible(said.text if said else _seen(event, beside_table=table is not None))
    line = one_line(said.line, RESULT) if said else ""
    result = line or result_line(event.tool, content if said else event.content, event.data, table, row["image_count"])
    return {
        **row,
        "state": "failed" if event.is_error else "done",
        "result": "" if event.is_error else result,
        "diff": None if _not_inserted(event.data) else diff or row["diff"],  # else the code is there to be copied
        "detail": content[:DETAIL],
        "detail_kind": "error" if event.is_error else "text",
        "cut": max(0, len(content) - DETAIL),
        "table": table,
        "text_too": said.beside if said else _says_more(event, row["image_count"]),
        "has_data": event.data is not None,
        "seconds": max(0.0, event.duration_ms / 1000) if event.duration_ms == event.duration_ms else None,
    }


def _table(event: ToolExecuted, said: Said | None) -> Table | None:
    """The data as a table, unless text says it better."""
    if said is not None:
        return None if said.data is None else table_of(said.data)
    inserted = event.data.get("inserted") if isinstance(event.data, Mapping) else None
    if exit_code(event.data) is not None or _is_kept_apart(event.data) or isinstance(inserted, bool):
        return None
    if _is_a_page(event.data):
        return None
    return table_of(without_figures(_without(event.data, "unsent", "value_at")))


def _is_a_page(data: Any) -> bool:
    """True for one row with a text of several lines in it: a cell would show its beginning alone."""
    rows = data.get("rows") if isinstance(data, Mapping) and "columns" in data else None
    if not isinstance(rows, list) or len(rows) != 1 or not isinstance(rows[0], (list, tuple)):
        return False
    return any(isinstance(cell, str) and "\n" in cell.strip() for cell in rows[0])


def _is_kept_apart(data: Any) -> bool:
    """True for what stands in the place of data that were too large for an event: the text says more."""
    return (
        isinstance(data, Mapping) and data.get("truncated") is True and set(data) == {"truncated", "characters", "file"}
    )


def _not_inserted(data: Any) -> bool:
    return isinstance(data, Mapping) and data.get("inserted") is False


def _without_note(row: Block, event: ToolExecuted) -> ToolExecuted:
    """``event`` without the line that tells the model what a person changed: the row and its decision say it."""
    if row["decision"] and row["decision"]["changed"] and event.content.startswith(EDITED):
        return replace(event, content=event.content.partition("\n")[2])
    return event


def _seen(event: ToolExecuted, *, beside_table: bool) -> str:
    """The text for the person. Data may say what else there is to read (``unsent``: what no model reads), and where
    in the text its own table stands (``value_at``), which is drawn once."""
    data = event.data if isinstance(event.data, Mapping) else {}
    unsent, place = data.get("unsent"), data.get("value_at") if beside_table else None
    if not isinstance(unsent, str):
        return _cut_out(event.content, place)
    rest = _cut_out(unsent, place)
    return f"{event.content}\n\nNot sent to the model:\n{rest or 'the table'}"


def _cut_out(text: str, place: Any) -> str:
    if not isinstance(place, (list, tuple)) or len(place) != 2 or not all(type(end) is int for end in place):
        return text
    start, end = place
    return "\n".join(filter(None, (text[:start].rstrip("\n"), text[end:].lstrip("\n")))) if 0 <= start < end else text


def _without(data: Any, *names: str) -> Any:
    """``data`` without what is there for the view alone."""
    return {key: value for key, value in data.items() if key not in names} if isinstance(data, Mapping) else data


def _says_more(event: ToolExecuted, figures: int) -> bool:
    """Whether the text of a result is shown beside its table: what code printed stands there alone."""
    if isinstance(event.data, Mapping) and isinstance(event.data.get("variables"), Mapping):
        return True
    return figures > 0 and not event.content.lstrip().startswith(("{", "["))  # JSON of the same data


def _diff(data: Any) -> dict[str, Any] | None:
    """The difference that a writing tool reports in its data."""
    text = data.get("diff") if isinstance(data, Mapping) else None
    return diff_lines(text) if isinstance(text, str) and text else None


def with_figures(row: Block, figures: Iterable[Figure], room: int) -> Block:
    """The fields of ``row`` with ``figures``."""
    images, count = added(row["images"], row["image_count"], figures, room)
    return {"images": images, "image_count": count}
