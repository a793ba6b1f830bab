"""The words behind ``%%kestrel``: options, their help, and errors that name the nearest match."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, cast

from ..protocol.errors import UsageError
from .answering import POLICIES, HeadlessPolicy


@dataclass(frozen=True, kw_only=True)
class CellOptions:
    """What a ``%%kestrel`` line says."""

    model: str | None = None
    session: str | None = None
    output: str | None = None
    tools: tuple[str, ...] | None = None
    max_steps: int | None = None
    headless: HeadlessPolicy | None = None
    background: bool = False


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its names, the name of its value (None for a switch), what it does, and how to take the value."""

    names: tuple[str, ...]
    value: str | None
    help: str
    field: str
    read: Callable[[str], Any]


def _name(text: str) -> str:
    if not text.isidentifier():
        raise UsageError(f'-o needs a name for a variable, "{text}" is none')
    return text


def _steps(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f'--max-steps needs a whole number from 1 on, not "{text}"')
    return int(text)


def _policy(text: str) -> HeadlessPolicy:
    if text not in POLICIES:
        raise UsageError(f'--headless is one of {", ".join(POLICIES)}, not "{text}"')
    return cast(HeadlessPolicy, text)


def _tools(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


OPTIONS = (
    Option(("-m", "--model"), "ID", "the model of this run", "model", str),
    Option(("-s", "--session"), "NAME", "make or go on with a session of that name", "session", str),
    Option(("-o", "--output"), "NAME", "bind the run to a variable (it is always _ as well)", "output", _name),
    Option(("-t", "--tools"), "NAMES", "offer only these tools, separated by commas", "tools", _tools),
    Option(("--max-steps",), "N", "stop after N model calls", "max_steps", _steps),
    Option(("--headless",), "POLICY", "ask nobody: deny, approve or fail", "headless", _policy),
    Option(("-b", "--background"), None, "return at once; the run goes on in this cell", "background", bool),
)
_BY_NAME = {name: option for option in OPTIONS for name in option.names}
USAGE = "usage: %%kestrel [-m MODEL] [-s SESSION] [-o NAME] [-t TOOLS] [--max-steps N] [--headless POLICY] [-b]"


def parse_cell(line: str) -> CellOptions:
    """The options in ``line``. Raises UsageError: one line that says what is known."""
    chosen: dict[str, Any] = {}
    words = split_words(line)
    while words:
        word = words.pop(0)
        name, _, attached = word.partition("=")
        option = _BY_NAME.get(name)
        if option is None:
            raise UsageError(_unknown(word))
        if option.value is None:
            chosen[option.field] = True
            continue
        value = attached or (words.pop(0) if words else "")
        if not value:
            raise UsageError(f"{name} needs a value: {name} {option.value}")
        chosen[option.field] = option.read(value)
    return CellOptions(**chosen)


def split_words(line: str) -> list[str]:
    """``line`` as words; quotes hold words together. Raises UsageError for a quote that is not closed."""
    try:
        return shlex.split(line)
    except ValueError:
        raise UsageError(f"a quote is not closed in: {line.strip()}") from None


def _unknown(word: str) -> str:
    if not word.startswith("-"):
        return f'"{word}" is no option; the request itself goes below the %%kestrel line. {USAGE}'
    near = get_close_matches(word.partition("=")[0], _BY_NAME, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"options: {', '.join(_BY_NAME)}"
    return f"unknown option {word}; {hint}"
