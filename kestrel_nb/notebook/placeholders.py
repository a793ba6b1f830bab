"""Tab inside ``{``: the user's variables, their attributes, keys and columns, and the levels after a colon.

Nothing of the user's is run for it: see ``static``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from .offers import MOST, Offer, Offers, matching
from .static import classes_of, from_library, member_value, public_names, type_word

WIDEST = 2_000  # columns and keys that are looked at
LEVELS = (
    Offer("schema", "names and types"),
    Offer("head 5", "the first 5 rows"),
    Offer("describe", "statistics of each column"),
    Offer("full", "every value"),
)
_BRACE = re.compile(r"(?P<braces>\{+)(?P<inside>[^{}]*)$")
_STEP = r"""(?:\.[^\W\d]\w*|\[(?:"[^"]*"|'[^']*'|-?\d+)\])"""
_STEPS = re.compile(_STEP)
_INSIDE = re.compile(
    rf"""(?P<path>[^\W\d]\w*{_STEP}*?)(?:\.(?P<attribute>\w*)|\[(?P<key>"[^"]*|'[^']*|[^\]"':]*)|:(?P<level>[^:]*))"""
)


def placeholder_offers(variables: Mapping[str, Any], before: str, after: str) -> Offers | None:
    """What fits the placeholder that is open at the end of ``before``; None when none is."""
    brace = _BRACE.search(before)
    if brace is None or len(brace["braces"]) % 2 == 0:  # {{ is a brace as it stands
        return None
    inside = brace["inside"]
    if not inside or inside.isidentifier():
        named = sorted(variables.items())
        return _first(matching(inside, (Offer(name, type_word(value)) for name, value in named)))
    found = _INSIDE.fullmatch(inside)
    if found is None:
        return None
    root, *steps = re.findall(rf"^[^\W\d]\w*|{_STEP}", found["path"])
    if root not in variables:
        return None
    if found["level"] is not None:
        return matching(found["level"].lstrip(), LEVELS)
    value = _value(variables[root], steps)
    if found["attribute"] is not None:
        return _first(matching(found["attribute"], _attributes(value)))
    return _first(_keys(value, found["key"], after))


def _first(offers: Offers) -> Offers:
    return Offers(offers.fragment, offers.items[:MOST])


def _value(value: Any, steps: list[str]) -> Any:
    """The value that ``steps`` lead to, or None when only code could say it."""
    for step in steps:
        if step.startswith("."):
            found = member_value(value, step[1:])
            value = _item(value, step[1:]) if found is None and step[1:] in _columns(value) else found
        else:
            word = step[1:-1]
            value = _item(value, int(word) if word[-1].isdigit() else word[1:-1])
    return value


def _item(value: Any, key: str | int) -> Any:
    """The item of a plain container or a column of a frame; None for anything else."""
    kinds = classes_of(value)
    if dict in kinds:
        return dict.get(value, key)
    if type(value) in (list, tuple):
        return value[key] if isinstance(key, int) and -len(value) <= key < len(value) else None
    library = str(kinds[0].__module__).partition(".")[0] if kinds[0].__class__ is type else ""
    return value[key] if library in ("pandas", "polars") and key in _columns(value) else None


def _columns(value: Any) -> list[str]:
    found = from_library(value, "columns")
    return [] if found is None else [name for name in islice(found, WIDEST) if type(name) is str]


def _attributes(value: Any) -> Iterator[Offer]:
    if value is None:
        return
    columns = [name for name in _columns(value) if name.isidentifier()]
    yield from (Offer(name, "column") for name in columns)
    yield from (Offer(name, "attribute") for name in public_names(value) if name not in columns)


def _keys(value: Any, typed: str, after: str) -> Offers:
    """The strings that can stand in the brackets, quoted as the user began to; the rest of the bracket is added."""
    if dict in classes_of(value):
        about, names = "key", [key for key in islice(dict.keys(value), WIDEST) if type(key) is str]
    else:
        about, names = "column", _columns(value)
    quote, word = (typed[0], typed[1:]) if typed[:1] in ("'", '"') and typed else ("", typed)
    items = []
    for name in names:
        mark = quote or ("'" if '"' in name else '"')
        if name.startswith(word) and mark not in name and not re.search(r"[{}\]\n]", name):
            end = "" if after.startswith((mark, "]")) else mark
            items.append(Offer(f"{mark}{name}{end}" + ("" if "]" in after[:2] else "]" if end else ""), about))
    return Offers(typed, tuple(items))
