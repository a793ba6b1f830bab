"""References in a prompt: ``{name}``, ``{name.attr}``, ``{name[key]}``, chains of them, perhaps with ``:level``.

A reference that resolves among the user's variables is replaced by what ``disclosure`` says of its value. Everything
else in braces is text and stays as it was typed, byte for byte. ``{{name}}`` is ``{name}`` where that would resolve.
Text that was put in is not read again.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import Any, Final, Literal, NamedTuple, cast

from ..runtime.secrets import Masker
from ..runtime.truncation import clean_text
from .disclosure import HEAD_ROWS, LEVELS, Disclosed, Level, brief, disclose, is_table, type_name
from .disclosure_kinds import hides, is_a, kind_of, name_text, read
from .references import NAME, STEP, steps_of
from .visible import one_line

_REFERENCE = rf"(?P<path>(?P<name>{NAME})(?P<steps>(?:{STEP})*))(?::(?P<level>[A-Za-z]+)(?: +(?P<rows>\d{{1,9}}))?)?"
_SINGLE = re.compile(rf"\{{{_REFERENCE}\}}")
_DOUBLE = re.compile(rf"\{{\{{{_REFERENCE}\}}\}}")

# What IPython itself keeps in the user's namespace.
_SHELL_NAMES = frozenset(("In", "Out", "exit", "quit", "get_ipython", "open"))
_SHELL_FAMILY = re.compile(r"_{1,3}|_i{1,3}|_i?\d+|_[iod]h|_exit_code|__\w+__")

DEFAULT_HEAD: Final = 5
NOTES: Final = 5  # a prompt full of code may hold many that fail alike
_SHOWN = 80  # characters of a reference in a note


@dataclass(frozen=True, slots=True)
class Sent:
    """A row of what was sent. ``disclosed``: the level in words; ``values``: how many values went out;
    ``characters``: how many stand in the prompt for the reference."""

    variable: str
    type: str
    disclosed: str
    values: int
    characters: int


class Note(NamedTuple):
    """What a person should know of one reference."""

    level: Literal["info", "warning"]
    text: str


@dataclass(frozen=True, slots=True)
class Interpolated:
    """The prompt as it is sent, a row for each reference that was replaced, notes, and by name of a variable that was
    disclosed as such the highest level."""

    text: str
    sent: tuple[Sent, ...] = ()
    notes: tuple[Note, ...] = ()
    levels: Mapping[str, Level] | None = None


def interpolate(prompt: str, namespace: Mapping[str, Any], hidden: Mapping[str, Any] | None = None) -> Interpolated:
    """Replace the references of ``prompt`` that resolve in ``namespace``.

    ``hidden``: what the shell itself has put there (``user_ns_hidden``); a name that still holds that is not the
    user's. Without it the well-known names of IPython count as the shell's.
    """
    if "{" not in prompt:
        return Interpolated(prompt)
    return _Work(prompt, namespace, hidden).done()


class _Unresolved(Exception):
    """The reference stays as typed; the text says why, "" when there is nothing to tell."""


class _Work:
    """One prompt, from its beginning to its end."""

    def __init__(self, prompt: str, namespace: Mapping[str, Any], hidden: Mapping[str, Any] | None) -> None:
        self._prompt, self._namespace, self._hidden = prompt, namespace, hidden
        self._parts: list[str] = []
        self._copied = 0  # the prompt up to here is in the parts
        self._sent: list[Sent] = []
        self._notes: dict[Note, None] = {}
        self._levels: dict[str, Level] = {}
        self._known: dict[str, Disclosed] = {}  # by reference: the same one may stand there a thousand times

    def done(self) -> Interpolated:
        """The whole prompt."""
        prompt, at = self._prompt, self._prompt.find("{")
        while at >= 0:
            found = self._at(at)
            if found is not None:
                self._parts += [prompt[self._copied : at], found[1]]
                self._copied = found[0]
            at = prompt.find("{", found[0] if found else at + 1)
        text = "".join([*self._parts, prompt[self._copied :]])
        return Interpolated(text, tuple(self._sent), self._told(), self._levels)

    def _told(self) -> tuple[Note, ...]:
        notes = list(self._notes)
        left = len(notes) - NOTES
        more = [Note("info", f"{left:,} more notes on references are left out")] if left > 0 else []
        mask = Masker.from_environment().mask
        return tuple(Note(note.level, mask(note.text)) for note in (*notes[:NOTES], *more))

    def _at(self, at: int) -> tuple[int, str] | None:
        """Where the reference at ``at`` ends and what stands for it; None when there is none."""
        double = _DOUBLE.match(self._prompt, at)
        if double is not None:
            return (double.end(), double[0][1:-1]) if self._would_resolve(double) else None
        match = _SINGLE.match(self._prompt, at)
        if match is None or not self._is_users(match["name"]):
            return None
        try:
            if at and self._prompt[at - 1] == "$":
                raise _Unresolved("${…} is left to shells and templates")
            value = self._value(match)
            level, rows = _level_of(match, value)
        except _Unresolved as error:
            if str(error):
                self._notes[Note("info", f"{one_line(match[0], _SHOWN)} was sent as typed: {error}")] = None
            return None
        return match.end(), self._replace(match, value, level, rows)

    def _would_resolve(self, match: re.Match[str]) -> bool:
        try:
            return self._is_users(match["name"]) and bool(_level_of(match, self._value(match)))
        except _Unresolved:
            return False

    # ---- finding the value ------------------------------------------------------------------------------------

    def _is_users(self, name: str) -> bool:
        if name not in self._namespace or _SHELL_FAMILY.fullmatch(name):
            return False
        if self._hidden is not None:
            return name not in self._hidden or self._hidden[name] is not self._namespace[name]
        return name not in _SHELL_NAMES

    def _value(self, match: re.Match[str]) -> Any:
        value = self._namespace[match["name"]]
        for step in steps_of(match["steps"]):
            value = _attribute(value, str(step.key)) if step.dotted else _item(value, step.key)
        return value

    # ---- saying it --------------------------------------------------------------------------------------------

    def _replace(self, match: re.Match[str], value: Any, level: Level | None, rows: int) -> str:
        told = self._known.get(match[0]) or disclose(value, level, rows=rows, name=_telling_name(match, value))
        self._known[match[0]] = told
        mask = Masker.from_environment().mask
        text = clean_text(mask(told.text))
        if told.block:
            text = self._as_block(match, text)
        secret = told.hidden and not told.values and not told.block
        kind = type_name(value) if secret else brief(value)
        words = "hidden" if secret else _words(told, rows)
        self._sent.append(Sent(one_line(mask(match["path"]), _SHOWN), mask(kind), words, told.values, len(text)))
        if told.hidden:
            self._notes[Note("info", _hidden(match, told))] = None
        if not match["steps"] and not secret:
            self._raise_level(match["name"], told.level)
        return text

    def _as_block(self, match: re.Match[str], text: str) -> str:
        """On lines of its own, the first one naming the reference."""
        before = self._prompt[self._copied : match.start()] or next(filter(None, reversed(self._parts)), "")
        after = self._prompt[match.end() : match.end() + 2]
        start = "" if not before or before.endswith("\n") else "\n"
        end = "" if not after or after.startswith(("\n", "\r\n")) else "\n"
        return f"{start}{match['path']}: {text}{end}"

    def _raise_level(self, name: str, level: Level) -> None:
        before = self._levels.get(name, LEVELS[0])
        self._levels[name] = max(before, level, key=LEVELS.index)


# ---- one step -----------------------------------------------------------------------------------------------------


def _attribute(value: Any, name: str) -> Any:
    """An attribute, a column of a frame first. Raises _Unresolved."""
    if name.startswith("_"):
        raise _Unresolved("a name that begins with _ is private")
    if kind_of(value) == "frame" and read(lambda: name in value.columns, False):
        return _got(lambda: value[name], "")
    near = _near(value, name) if kind_of(value) else ""
    return _got(lambda: getattr(value, name), f"{type_name(value)} has no {name}{near}")


def _item(value: Any, key: Any) -> Any:
    """What ``value`` holds under ``key``; containers are asked as their built-in type would be. Raises _Unresolved."""
    missing = f"there is no [{key!r}] in it{_near(value, key)}"
    for base in (dict, list, tuple, str):
        if is_a(value, base):
            if base is dict and not read(lambda: dict.__contains__(value, key), False):
                raise _Unresolved(missing)  # a dict that makes what it lacks would be changed by asking
            return _got(partial(base.__getitem__, value, key), missing)
    if kind_of(value) == "frame" and not read(lambda: key in value.columns, False):
        raise _Unresolved(missing)
    if kind_of(value) == "series" and is_a(key, int) and not read(lambda: key in value.index, False):
        return _got(lambda: value.iloc[key], missing)
    return _got(lambda: value[key], missing)


def _got(work: Callable[[], Any], missing: str) -> Any:
    """What ``work`` gives. Raises _Unresolved: ``missing`` for what isn't there, else the type of what it raised."""
    try:
        return work()
    except KeyboardInterrupt:
        raise
    except (AttributeError, LookupError, TypeError):
        raise _Unresolved(missing) from None
    except BaseException as error:
        raise _Unresolved(f"reading it raised {type_name(error)}") from None


def _near(value: Any, name: Any) -> str:
    """``; did you mean "price"?`` when a column or a key is called nearly so."""
    names: list[Any] = []
    if is_a(value, dict):
        names = list(itertools.islice(dict.keys(value), 1_000))
    elif kind_of(value) == "frame":
        names = read(lambda: list(value.columns[:1_000]), [])
    known = [str.__str__(key) for key in names if is_a(key, str)]
    near = get_close_matches(name, known, n=1) if is_a(name, str) else []
    return f'; did you mean "{name_text(near[0])}"?' if near else ""


# ---- words --------------------------------------------------------------------------------------------------------


def _level_of(match: re.Match[str], value: Any) -> tuple[Level | None, int]:
    """The level that was asked for, and the rows of a head. Raises _Unresolved for any other word."""
    word, rows = match["level"], match["rows"]
    if word is None:
        return None, DEFAULT_HEAD
    if word not in LEVELS:
        near = get_close_matches(word, LEVELS, n=1)
        raise _Unresolved(f"did you mean :{near[0]}?" if near and is_table(value) else "")
    if rows is not None and (word != "head" or int(rows) < 1):
        raise _Unresolved(":head takes a number from 1 on, the other levels none")
    return cast(Level, word), min(int(rows or DEFAULT_HEAD), HEAD_ROWS)


def _telling_name(match: re.Match[str], value: Any) -> str:
    """The first name on the path that hides the value, else ""."""
    names = [match["name"], *(str(step.key) for step in steps_of(match["steps"]))]
    return next((name for name in names if hides(name, value)), "")


def _words(told: Disclosed, rows: int) -> str:
    """The level as a person reads it."""
    if told.level == "head":
        return f"head {rows}"
    if told.level != "full":
        return told.level
    return f"{'all values' if told.block else 'value'}{', shortened' if told.cut else ''}"


def _hidden(match: re.Match[str], told: Disclosed) -> str:
    name = one_line(match["path"], _SHOWN)
    if told.values or told.block:
        return f"{name}: {told.hidden:,} of its values went out as ***, below a name that looks like a key's"
    return f"{name} was sent as ***: its name looks like a key's"
