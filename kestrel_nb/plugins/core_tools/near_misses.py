"""Why a text was not found in a file, though something much like it stands there."""

from __future__ import annotations

import json
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate

SHOWN_PLACES = 10
MAX_SHOWN_LINE = 120  # characters of the line that is shown as it really is
_NUMBERED = re.compile(r"^ *\d+\t", re.MULTILINE)
# Quotation marks, dashes and apostrophes that are typed as others, and characters that can't be seen.
_TYPED = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u00b4", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff", ""),
    }
)


def why_missing(text: str, old: str, shown: str) -> str:
    """What to tell when ``old`` is not in ``text``, the file ``shown`` with LF only: where it differs from what is."""
    unnumbered = _NUMBERED.sub("", old)
    if unnumbered and all(map(_NUMBERED.match, old.strip("\n").split("\n"))) and unnumbered in text:
        return f"old_string was not found in {shown}; leave out the line numbers, they are no part of the file"
    lines = text.split("\n")
    for fold, what in (
        (_without_space, "white space"),
        (_typed, "the way characters are written, such as accents, quotation marks, dashes or invisible ones"),
        (_caseless, "upper and lower case"),
    ):
        alike = _alike(lines, old, fold)
        if alike:
            where = f"line{'s' if len(alike) > 1 else ''} {numbers(alike)} differ{'' if len(alike) > 1 else 's'}"
            line = lines[alike[0] - 1][:MAX_SHOWN_LINE]
            odd = fold is _typed or any(char.isspace() and not char.isascii() for char in line)
            real = json.dumps(line, ensure_ascii=odd)
            return f"old_string was not found in {shown}; {where} only in {what}: copy it exactly, it begins {real}"
    return f"old_string was not found in {shown}; read the file again and copy the text exactly, with its indentation"


def numbers(lines: list[int]) -> str:
    """The first ten of these, and whether there are more."""
    shown = ", ".join(str(line) for line in lines[:SHOWN_PLACES])
    return f"{shown}, …" if len(lines) > SHOWN_PLACES else shown


def _alike(lines: list[str], old: str, fold: Callable[[str], str]) -> list[int]:
    """Numbers of the first lines where ``old`` would be found if both were folded."""
    wanted = "".join(map(fold, old.split("\n")))
    if not wanted:
        return []
    folded = [fold(line) for line in lines]
    whole, starts = "".join(folded), [0, *accumulate(map(len, folded))]
    found: list[int] = []
    place = whole.find(wanted)
    while place >= 0 and len(found) <= SHOWN_PLACES:
        found.append(bisect_right(starts, place))
        place = whole.find(wanted, place + len(wanted))
    return found


def _without_space(line: str) -> str:
    return "".join(line.split())


def _typed(line: str) -> str:
    if not line.isascii():
        line = unicodedata.normalize("NFKC", line).translate(_TYPED)
    return _without_space(line)


def _caseless(line: str) -> str:
    return _typed(line).casefold()
