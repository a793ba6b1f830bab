"""Short forms of a call: its arguments on one line, its result in a few words, a number as people read it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from ..protocol.codec import jsonable
from .tables import Table
from .visible import dense, one_line, visible

ARGUMENTS = 200  # characters of the line of arguments
RESULT = 60  # characters of the result in a row
_SINGULAR = {"matches": "match", "entries": "entry", "files": "file", "results": "result", "rows": "row"}


def as_json(value: Any, indent: int | None = None) -> str:
    """``value`` as JSON text with its own letters; never raises."""
    try:
        return json.dumps(
            jsonable(value), ensure_ascii=False, indent=indent, separators=(",", ": ") if indent else None
        )
    except (ValueError, TypeError, RecursionError):
        return f"[{type(value).__name__} that JSON cannot hold]"


def arguments_line(arguments: Mapping[str, Any], *, alone: bool = True) -> str:
    """``name=value`` for each argument; a lone string stands as its value, if ``alone``; of code its first line."""
    code = code_of(arguments)
    if code is not None:
        return _first_line(code)
    values = list(arguments.values())
    if alone and len(values) == 1 and isinstance(values[0], str):
        return one_line(values[0], ARGUMENTS)
    return one_line(" ".join(f"{name}={_short(value)}" for name, value in arguments.items()), ARGUMENTS)


def is_whole(line: str) -> bool:
    """Whether a line of arguments holds all of them, as a person may read them."""
    return "…" not in line and "\\n" not in line


def code_of(arguments: Mapping[str, Any]) -> str | None:
    """The program of a call that gets nothing but one, as ``code``."""
    code = arguments.get("code")
    return code if isinstance(code, str) and len(arguments) == 1 else None


def _first_line(code: str) -> str:
    """The first line that says something; ``…`` stands for the rest."""
    head, more, _ = code.strip().partition("\n")
    return one_line(head.rstrip(), ARGUMENTS) + (" …" if more else "")


def _short(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) and len(value) < 2 * ARGUMENTS else as_json(value)


def arguments_text(arguments: Mapping[str, Any]) -> str:
    """All arguments, one a line; text of several lines stands below its name behind bars, so that no value can pose
    as another argument. A lone ``code`` is the text itself, ready to be copied."""
    code = code_of(arguments)
    if code is not None:
        return visible(code)
    lines: list[str] = []
    for name, value in arguments.items():
        if isinstance(value, str) and "\n" in value:
            lines += [f"{visible(str(name))}:", *(f"  | {line}" for line in dense(value).split("\n"))]
        else:
            lines.append(visible(f"{name}: {as_json(value)}").replace("\n", "\\n"))
    return "\n".join(lines)


def result_line(tool: str, content: str, data: Any, table: Table | None, images: int = 0) -> str:
    """What stands in the row of a call that ran."""
    code = exit_code(data)
    if code is not None:
        return f"exit code {code}"
    if images:
        return figure_count(images)
    if table is not None and table["columns"] != ["key", "value"]:
        total = data.get("total") if tool == "grep" and isinstance(data, Mapping) else None
        return _matches(total) if isinstance(total, int) else _rows(tool, table)
    text = content.strip()
    lines = text.count("\n") + 1
    return one_line(text, RESULT) if lines == 1 else f"{lines:,} lines"


def figure_count(count: int) -> str:
    """``2 figures``."""
    return "1 figure" if count == 1 else f"{count:,} figures"


def exit_code(data: Any) -> int | None:
    """The exit code in the data of a command."""
    if isinstance(data, Mapping):
        code = data.get("exit_code", data.get("exitCode"))
        if isinstance(code, int) and not isinstance(code, bool):
            return code
    return None


def _matches(count: int) -> str:
    return f"{count:,} {'match' if count == 1 else 'matches'}"


def _rows(tool: str, table: Table) -> str:
    count, noun = table["total_rows"], table["noun"]
    if tool == "grep":
        return _matches(count)
    if noun == "rows" and table["total_columns"] > 1:
        return f"{count:,} {'row' if count == 1 else 'rows'} × {table['total_columns']:,}"
    return f"{count:,} {_SINGULAR.get(noun, noun) if count == 1 else noun}"


def shape(table: Table) -> str:
    """``3 rows × 3 columns``."""
    rows, columns = table["total_rows"], table["total_columns"]
    return f"{rows:,} {'row' if rows == 1 else 'rows'} × {columns:,} {'column' if columns == 1 else 'columns'}"


def duration(seconds: float) -> str:
    """``0.04 s``, ``6.2 s``, ``41 s``, ``1 min 08 s``."""
    if not math.isfinite(seconds) or seconds < 0:
        return ""
    if seconds < 0.995:
        return f"{seconds:.2f} s"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    return clock(seconds)


def clock(seconds: float) -> str:
    """A time in whole seconds: ``3 s``, ``1 min 08 s``."""
    whole = round(max(0.0, seconds))
    return f"{whole} s" if whole < 60 else f"{whole // 60:,} min {whole % 60:02d} s"


def money(dollars: float) -> str:
    """``$0.004``; two digits from one dollar on, and as many as it takes for what is less than half a thousandth."""
    if not dollars:
        return "$0"
    if 0 < dollars < 0.0005:
        return f"${dollars:.{min(1 - math.floor(math.log10(dollars)), 12)}f}".rstrip("0")
    return f"${dollars:,.2f}" if dollars >= 1 else f"${dollars:.3f}"
