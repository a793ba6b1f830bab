"""Tab inside ``{``: the user's variables, their attributes, keys and columns, and the levels after a colon.

Nothing of the user's is run for it: see ``static``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from .disclosure import LEVELS
from .disclosure_kinds import exactly, is_a
from .interpolation import DEFAULT_HEAD
from .offers import MOST, Offer, Offers, matching
from .references import NAME, STEP, Step, path_of, plain_key
from .static import classes_of, from_library, member_value, public_names, type_word

WIDEST = 2_000  # columns and keys that are looked at
_ABOUT = {
    "schema": "names and types",
    "describe": "statistics of each column",
    "head": "the first rows",
    "full": "every value",
}
LEVEL_OFFERS = tuple(Offer(f"{level} {DEFAULT_HEAD}" if level == "head" else level, _ABOUT[level]) for level in LEVELS)
_BRACE = re.compile(r"(?P<braces>\$?\{+)(?P<inside>[^{}]*)$")
_KEY = r"""(?:"(?:[^"\\]|\\.)*|'(?:[^'\\]|\\.)*|[^\]"':]*)"""  # one that has no end yet
_INSIDE = re.compile(rf"(?P<path>{NAME}(?:{STEP})*?)(?:\.(?P<attribute>\w*)|\[(?P<key>{_KEY})|:(?P<level>[^:]*))")


def placeholder_offers(variables: Mapping[str, Any], before: str, after: str) -> Offers | None:
    """What fits the placeholder that is open at the end of ``before``; None when none is."""
    brace = _BRACE.search(before)
    if brace is None or brace["braces"] != "{":  # {{ is a brace as it stands, ${ belongs to shells
        return None
    inside = brace["inside"]
    if not inside or inside.isidentifier():
        named = sorted(variables.items())
        return _first(matching(inside, (Offer(name, type_word(value)) for name, value in named)))
    found = _INSIDE.fullmatch(inside)
    if found is None:
        return None
    path = path_of(found["path"])
    if path is None or path[0] not in variables:
        return None
    if found["level"] is not None:
        return matching(found["level"], LEVEL_OFFERS)
    value = _value(variables[path[0]], path[1])
    if found["attribute"] is not None:
        return _first(matching(found["attribute"], _attributes(value)))
    return _first(_keys(value, found["key"], after))


def _first(offers: Offers) -> Offers:
    return Offers(offers.fragment, offers.items[:MOST])


def _value(value: Any, steps: list[Step]) -> Any:
    """The value that ``steps`` lead to, or None when only code could say it."""
    for key, dotted in steps:
        by_name = dotted and key not in _columns(value)
        value = member_value(value, str(key)) if by_name else _item(value, key)
    return value


def _item(value: Any, key: str | int) -> Any:
    """The item of a plain container or a column of a frame; None for anything else."""
    if is_a(value, dict):
        return dict.get(value, key)
    if exactly(value, list, tuple):
        return value[key] if isinstance(key, int) and -len(value) <= key < len(value) else None
    kinds = classes_of(value)
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
    if is_a(value, dict):
        about, names = "key", [key for key in islice(dict.keys(value), WIDEST) if type(key) is str]
    else:
        about, names = "column", _columns(value)
    quote = typed[:1] if typed.startswith(("'", '"')) else ""
    mark = quote or '"'
    end = "" if after.startswith((mark, "]")) else f"{mark}]"
    word = plain_key(typed[len(quote) :])
    texts = [re.sub(rf"([\\{mark}])", r"\\\1", name) for name in names if name.startswith(word) and name.isprintable()]
    return Offers(typed, tuple(Offer(f"{mark}{text}{end}", about) for text in texts))
