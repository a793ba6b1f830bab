"""Replacing exact text, whatever line ends the file and the text to find have."""

from __future__ import annotations

import re
from bisect import bisect_left

from ...protocol.errors import ToolCallError
from ..changes import check_size
from .near_misses import SHOWN_PLACES, numbers, why_missing
from .text import line_end_of


def replaced(text: str, old: str, new: str, *, every: bool, shown: str) -> tuple[str, tuple[int, ...]]:
    """``text`` with ``old`` replaced by ``new``, and the lines where that happened.

    Models see and write LF, so line ends match each other; what is put in gets those of the place, and nothing else
    changes. Raises ToolCallError when ``old`` is empty, missing, ambiguous (unless ``every``), or equal to ``new``, and
    when the outcome would be too large.
    """
    plain, old, new = _plain(text), _plain(old), _plain(new)
    if not old:
        raise ToolCallError("old_string must not be empty; write_file replaces a whole file")
    if old == new:
        raise ToolCallError("old_string and new_string are the same; nothing was changed")
    if "\0" in new:
        raise ToolCallError("new_string: must not contain a NUL character, which would make the file a binary one")
    places = _places(plain, old)
    if not places:
        raise ToolCallError(why_missing(plain, old, shown), code="not_found")
    if len(places) > 1 and not every:
        lines = numbers([_line(plain, place) for place in places[: SHOWN_PLACES + 1]])
        raise ToolCallError(
            f"old_string occurs {len(places):,} times; add context or set replace_all ({shown}, lines {lines})",
            code="ambiguous",
        )
    chosen = _apart(places, len(old))
    check_size(shown, len(text) + len(chosen) * (len(new) - len(old)), would_be=True)  # before it is made
    return _put(text, plain, chosen, old, new), tuple(_lines(plain, chosen))


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n")


def _places(text: str, old: str) -> list[int]:
    """Every place where ``old`` begins, overlapping ones too."""
    places, place = [], text.find(old)
    while place >= 0:
        places.append(place)
        place = text.find(old, place + 1)
    return places


def _apart(places: list[int], size: int) -> list[int]:
    chosen: list[int] = []
    for place in places:
        if not chosen or place >= chosen[-1] + size:
            chosen.append(place)
    return chosen


def _put(text: str, plain: str, places: list[int], old: str, new: str) -> str:
    """Replace in ``text`` what was found at ``places`` of ``plain``, its form with LF only.

    What ``old`` and ``new`` begin and end with alike is left alone, with the line ends that it has.
    """
    # Where in the plain form a CRLF stood: every one before a place shifts it by one character.
    ends = [match.start() - index for index, match in enumerate(re.finditer("\r\n", text))]
    usual = line_end_of(text)
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    inner = new[head : len(new) - tail]
    parts, last = [], 0
    for place in places:
        end = usual
        if "\n" in old and "\n" in inner:
            end = line_end_of(text[_shifted(place, ends) : _shifted(place + len(old), ends)])
        start, stop = _shifted(place + head, ends), _shifted(place + len(old) - tail, ends)
        parts += [text[last:start], inner.replace("\n", end)]
        last = stop
    return "".join([*parts, text[last:]])


def _common(one: str, two: str) -> int:
    """How many characters the two have in common at their beginning."""
    pairs = enumerate(zip(one, two, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(two)))


def _shifted(place: int, ends: list[int]) -> int:
    return place + bisect_left(ends, place)


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _lines(text: str, places: list[int]) -> list[int]:
    lines, number, last = [], 1, 0
    for place in places:
        number += text.count("\n", last, place)
        lines.append(number)
        last = place
    return lines
