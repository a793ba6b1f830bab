"""Arrays of numpy as text for a model: shape and dtype, statistics, or items of each axis."""

from __future__ import annotations

from typing import Any

from .disclosure_forms import (
    FULL_CELL,
    FULL_CHARS,
    FULL_ROWS,
    HEAD_CELL,
    HEAD_CHARS,
    Disclosed,
    Level,
    number_text,
)
from .disclosure_kinds import (
    attribute,
    brief,
    dtype_text,
    name_text,
    read,
    sizes_of,
)
from .disclosure_objects import without_hidden
from .disclosure_tables import (
    COLUMNS,
    DESCRIBED_ROWS,
)
from .disclosure_values import Limits, Mask, Writer


def tell_array(array: Any, level: Level, rows: int, mask: Mask) -> Disclosed:
    """``array`` at ``level``; ``rows`` of a head."""
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
    said = [f"{name} {number_text(value, mask)}" for name, value in found.items() if value is not None]
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
    lines: list[str] = []
    for item in part.tolist():
        if lines and not writer.has_room:
            break
        lines.append(writer.item(without_hidden(item, array.dtype) if fields else item))
    left = (sizes[0] if full else count) - len(lines)
    wide = [f"{size:,}" for size in sizes[1:] if size > COLUMNS]
    more = [f"… {left:,} more rows"] if left else []
    more += [f"… only the first {COLUMNS} of {' and '.join(wide)} columns"] if wide else []
    text = "\n".join([mask(told), *lines, *more])
    return Disclosed(text, level, writer.values, writer.hidden, writer.cut or bool(more), block=True)
