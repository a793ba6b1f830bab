"""References in a prompt: ``{name}``, ``{name.attr}``, ``{name[key]}``, chains of them, perhaps with ``:level``.

A reference that resolves among the user's variables is replaced by what ``disclosure`` says of its value. Everything
else in braces is text and stays as it was typed, byte for byte. ``{{name}}`` is ``{name}`` where that would resolve.
Text that was put in is not read again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, cast

from ..protocol.suggest import suggestion
from ..runtime.secrets import Masker
from ..runtime.truncation import clean_text
from .disclosure import HEAD_ROWS, LEVELS, Disclosed, Level, brief, disclose, is_table, type_name
from .disclosure_kinds import hides
from .reference_notes import NearNames, code_in, in_formula, spoken_level
from .references import NAME, STEP, steps_of
from .resolving import Unresolved, attribute_of, item_of
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
_LEVEL_WORDS = "the levels are :schema, :describe, :head N and :full"


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
        self._in_code = code_in(prompt)
        self._changed_code: set[str] = set()  # the names that were told of
        self._near = NearNames(namespace, self._is_users)

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
            self._tell_near(at, match)
            return None
        try:
            if at and self._prompt[at - 1] == "$":
                raise Unresolved("${…} is left to shells and templates")
            value = self._value(match)
            level, rows = _level_of(match, value)
        except Unresolved as error:
            self._typed(match, str(error))
            return None
        text = self._replace(match, value, level, rows)
        if self._in_code(at):
            self._tell_code(match)
        return match.end(), text

    def _typed(self, match: re.Match[str], why: str) -> None:
        if why:
            self._notes[Note("info", f"{one_line(match[0], _SHOWN)} was sent as typed: {why}")] = None

    def _tell_code(self, match: re.Match[str]) -> None:
        """Code that a reference has changed looks as if it had been typed so."""
        if match["name"] in self._changed_code:
            return
        self._changed_code.add(match["name"])
        by = "its value" if self._sent[-1].values else "what is told of it"
        said = one_line(match[0], _SHOWN)
        self._notes[
            Note("info", f"`{said}` inside code was replaced by {by}; write {{{said}}} to send it as typed")
        ] = None

    def _tell_near(self, at: int, match: re.Match[str] | None) -> None:
        """What stays as typed and was probably meant: a name that is nearly a variable's, a level in other words."""
        if match is None:
            self._tell_level(at)
        elif not match["steps"] and match["name"] not in self._namespace and not in_formula(self._prompt, at):
            level = match["level"]
            near = "" if self._in_code(at) or (level and level not in LEVELS) else self._near.near(match["name"])
            if near:
                self._typed(match, f"did you mean {{{near}{match[0][1 + len(match['name']) : -1]}}}?")

    def _tell_level(self, at: int) -> None:
        spoken = spoken_level(self._prompt, at)
        if spoken is None or in_formula(self._prompt, at) or not self._is_users(spoken["name"]):
            return
        with suppress(Unresolved):
            if is_table(self._value(spoken)):
                self._typed(spoken, _LEVEL_WORDS)

    def _would_resolve(self, match: re.Match[str]) -> bool:
        try:
            return self._is_users(match["name"]) and bool(_level_of(match, self._value(match)))
        except Unresolved:
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
            value = attribute_of(value, str(step.key)) if step.dotted else item_of(value, step.key)
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


# ---- words --------------------------------------------------------------------------------------------------------


def _level_of(match: re.Match[str], value: Any) -> tuple[Level | None, int]:
    """The level that was asked for, and the rows of a head. Raises Unresolved for any other word."""
    word, rows = match["level"], match["rows"]
    if word is None:
        return None, DEFAULT_HEAD
    if word not in LEVELS:
        if not is_table(value) or len(word) == 1:  # one letter is a format of Python
            raise Unresolved("")
        raise Unresolved(suggestion(word, LEVELS, _LEVEL_WORDS, shape=":{}"))
    if rows is not None and (word != "head" or int(rows) < 1):
        raise Unresolved(":head takes a number from 1 on, the other levels none")
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
