"""How a value of the user is told to a model, at a level.

``schema``: names, types and shapes, never a value. ``describe``: statistics of a table. ``head``: its first rows.
``full``: as much as there is room for. Nothing here raises, runs long or changes a value; what an object answers to
its own methods is bounded and not trusted. Every text has the keys of the environment masked before it is cut, and
what stands below a name that looks like a key's is ``***`` at every level.
"""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Iterator
from typing import Any

from ..runtime.secrets import MASK, Masker
from .disclosure_arrays import tell_array
from .disclosure_forms import (
    FULL_CHARS,
    HEAD_ROWS,
    LEVELS,
    Disclosed,
    Level,
    tell_table,
)
from .disclosure_kinds import (
    attribute,
    brief,
    dtype_text,
    hides,
    is_a,
    kind_of,
    length_of,
    read,
    shape_of,
    type_name,
)
from .disclosure_objects import told_of
from .disclosure_tables import (
    table_of,
)
from .disclosure_values import Limits, Mask, Writer
from .handle import RunHandle

__all__ = ["HEAD_ROWS", "LEVELS", "Disclosed", "Level", "brief", "disclose", "is_table", "shape_of", "type_name"]

_URL_PASSWORD = re.compile(r"""(?<=://)([^\s/@:'"]*:)[^\s/?#'"<>]+@""")
_UNASKED = Limits(chars=8_000, items=100, depth=5, text=500)  # a plain value without a level
_ASKED = Limits(chars=FULL_CHARS, items=2_000, depth=8, text=8_000)


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
    mask = _masking()
    limits = _UNASKED if level is None else _ASKED
    rows = max(1, min(rows, HEAD_ROWS))
    work = _table if table else _plain
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # statistics of infinities warn
        told = read(lambda: work(value, asked, rows, limits, mask), None)
    return told or Disclosed(mask(brief(value)), "schema", 0, block=table)


def _masking() -> Mask:
    """Masks the keys of the environment and the passwords in URLs."""
    mask = Masker.from_environment().mask
    return lambda text: _URL_PASSWORD.sub(rf"\1{MASK}@", mask(text)) if "://" in text else mask(text)


# ---- plain values -------------------------------------------------------------------------------------------------


def _plain(value: Any, level: Level, rows: int, limits: Limits, mask: Mask) -> Disclosed:
    if is_a(value, RunHandle):
        value = value.text
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
        return tell_array(value, level, rows, mask)
    table = table_of(value)
    if table is None:
        return Disclosed(mask(_opaque(value)), "schema", 0, block=True)
    return tell_table(table, level, rows, mask)


def _opaque(value: Any) -> str:
    """What is not computed, or lies where reading it is dear."""
    dtype = attribute(value, "dtype", attribute(value, "type"))
    told = f"{brief(value)}, {dtype_text(dtype)}" if kind_of(value) == "tensor" and dtype is not None else brief(value)
    return f"{told} (not looked into)" if kind_of(value) == "lazy" else told
