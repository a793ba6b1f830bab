"""What is near a reference: the code that a prompt holds, names that are nearly a variable's, words for levels."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any

from .references import NAME, STEP

_FENCE = re.compile(r"^[ \t>]*(?P<marks>`{3,}|~{3,})(?P<said>[^\n]*)$", re.M)
_TICKS = re.compile(r"`+|\n[ \t\r]*(?=\n)")
_SPOKEN = re.compile(
    rf"\{{(?P<path>(?P<name>{NAME})(?P<steps>(?:{STEP})*)):[ \t]*[A-Za-z]{{2,20}}(?:[ :]+[^\s{{}}:]{{1,20}})?[ \t]*\}}"
)
_FORMULA = re.compile(r"\\[A-Za-z]+\*?$")

NEAR = 0.8  # of two names with three letters each, all but one insertion
_LOOKED_UP = 50  # names of one prompt; each is compared with all variables
_COMPARED = 2_000  # variables
_LONGEST = 60  # characters of a name that is compared


def code_in(text: str) -> Callable[[int], bool]:
    """Whether a place in ``text`` lies inside a code fence or between backticks."""
    starts: list[int] = []
    ends: list[int] = []
    if "`" in text or "~~~" in text:
        for start, end in _code(text):
            starts.append(start)
            ends.append(end)
    return lambda at: bool(number := bisect_right(starts, at)) and at < ends[number - 1]


def _code(text: str) -> list[tuple[int, int]]:
    """From where to where code stands, in order. An open fence goes on to the end, as in Markdown."""
    found: list[tuple[int, int]] = []
    at, opened = 0, None
    for line in _FENCE.finditer(text):
        marks = line["marks"]
        if opened is None:
            if marks[0] == "`" and "`" in line["said"]:
                continue  # code between backticks, on one line
            found += _spans(text, at, line.start())
            opened = line
        elif marks[0] == opened["marks"][0] and len(marks) >= len(opened["marks"]) and not line["said"].strip():
            found.append((opened.start(), line.end()))
            at, opened = line.end(), None
    return [*found, (opened.start(), len(text))] if opened else [*found, *_spans(text, at, len(text))]


def _spans(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """The pairs of equally many backticks within one paragraph."""
    runs = list(_TICKS.finditer(text, start, end))
    closing: list[int | None] = [None] * len(runs)
    latest: dict[int, int] = {}  # by length, the nearest run to the right
    for number in range(len(runs) - 1, -1, -1):
        if runs[number][0][0] != "`":
            latest = {}
            continue
        closing[number] = latest.get(len(runs[number][0]))
        latest[len(runs[number][0])] = number
    found, number = [], 0
    while number < len(runs):
        close = closing[number]
        if close is not None:
            found.append((runs[number].start(), runs[close].end()))
        number = (number if close is None else close) + 1
    return found


class NearNames:
    """The user's variables whose names are nearly those of a prompt."""

    def __init__(self, names: Mapping[str, Any], is_users: Callable[[str], bool]) -> None:
        self._names, self._is_users = names, is_users
        self._known: dict[str, str] = {}
        self._folded: dict[str, str] | None = None

    def near(self, name: str) -> str:
        """The variable that ``name`` is probably meant for; "" when none is near enough."""
        if name not in self._known:
            if len(self._known) >= _LOOKED_UP or len(name) > _LONGEST:
                return ""
            self._known[name] = self._find(name)
        return self._known[name]

    def _find(self, name: str) -> str:
        if self._folded is None:
            users = (key for key in self._names if type(key) is str and key[:1] != "_" and self._is_users(key))
            self._folded = {key.casefold(): key for key in islice(users, _COMPARED) if len(key) <= _LONGEST}
        near = get_close_matches(name.casefold(), self._folded, n=1, cutoff=NEAR)
        return self._folded[near[0]] if near else ""


def in_formula(prompt: str, at: int) -> bool:
    r"""Whether the brace at ``at`` belongs to a template or a formula: ``{{x}}``, ``${x}``, ``\text{x}``, ``a_{x}``."""
    before = prompt[max(0, at - 30) : at]
    return before.endswith(("{", "$", "^", "_")) or _FORMULA.search(before) is not None


def spoken_level(prompt: str, at: int) -> re.Match[str] | None:
    """``{df:head x}`` at ``at``: a path and behind the colon a word or two, which no format of Python has."""
    return _SPOKEN.match(prompt, at)
