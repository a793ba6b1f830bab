"""Replacing exact text, whatever line ends the file and the text to find have."""

from __future__ import annotations

import re
from bisect import bisect_left

from ...protocol.errors import ToolCallError
from .text import line_end_of

SHOWN_PLACES = 10


def replaced(text: str, old: str, new: str, *, every: bool, shown: str) -> tuple[str, tuple[int, ...]]:
    """``text`` with ``old`` replaced by ``new``, and the lines where that happened.

    Models see and write LF, so line ends match each other; what is put in gets those of the place, and nothing else
    changes. Raises ToolCallError when ``old`` is empty, missing, ambiguous (unless ``every``), or equal to ``new``.
    """
    plain, old, new = _plain(text), _plain(old), _plain(new)
    if not old:
        raise ToolCallError("old_string must not be empty; write_file replaces a whole file")
    if old == new:
        raise ToolCallError("old_string and new_string are the same; nothing was changed")
    places = _places(plain, old)
    if not places:
        raise ToolCallError(_missing(plain, old, shown))
    if len(places) > 1 and not every:
        lines = _numbers([_line(plain, place) for place in places])
        raise ToolCallError(
            f"old_string occurs {len(places):,} times; add context or set replace_all ({shown}, lines {lines})"
        )
    chosen = _apart(places, len(old))
    return _put(text, plain, chosen, len(old), new), tuple(_lines(plain, chosen))


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


def _put(text: str, plain: str, places: list[int], size: int, new: str) -> str:
    """Replace in ``text`` what was found at ``places`` of ``plain``, its form with LF only."""
    # Where in the plain form a CRLF stood: every one before a place shifts it by one character.
    ends = [match.start() - index for index, match in enumerate(re.finditer("\r\n", text))]
    usual = line_end_of(text)
    parts, last = [], 0
    for place in places:
        start = place + bisect_left(ends, place)
        stop = place + size + bisect_left(ends, place + size)
        piece = text[start:stop]
        end = line_end_of(piece) if "\n" in piece else usual
        parts += [text[last:start], new.replace("\n", end)]
        last = stop
    return "".join([*parts, text[last:]])


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _lines(text: str, places: list[int]) -> list[int]:
    lines, number, last = [], 1, 0
    for place in places:
        number += text.count("\n", last, place)
        lines.append(number)
        last = place
    return lines


def _numbers(lines: list[int]) -> str:
    shown = ", ".join(str(line) for line in lines[:SHOWN_PLACES])
    return f"{shown}, …" if len(lines) > SHOWN_PLACES else shown


def _missing(text: str, old: str, shown: str) -> str:
    """Why ``old`` was not found: other white space is the usual reason, and then the place is named."""
    wanted = [line.split() for line in old.strip("\n").split("\n")]
    lines = [line.split() for line in text.split("\n")]
    alike = [
        index + 1
        for index in range(len(lines) - len(wanted) + 1)
        if lines[index] == wanted[0] and lines[index : index + len(wanted)] == wanted
    ]
    if alike and any(wanted):
        where = f"line{'s' if len(alike) > 1 else ''} {_numbers(alike)}"
        return f"old_string was not found in {shown}; {where} differ only in white space: copy it exactly"
    return f"old_string was not found in {shown}; read the file again and copy the text exactly, with its indentation"
