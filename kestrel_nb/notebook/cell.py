"""The words behind ``%%kestrel``: options, their help, and errors that name the nearest match."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any, cast

from ..protocol.errors import UsageError
from ..protocol.suggest import suggestion
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
    no_data: bool = False
    context: bool = False
    record: str | None = None
    replay: str | None = None
    help: bool = False


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its names, the name of its value (None for a switch), what it does, and how to take the value.

    ``completes`` says what Tab offers for the value, as in ``Command``; ``many``: several, separated by commas.
    """

    names: tuple[str, ...]
    value: str | None
    help: str
    field: str
    read: Callable[[str], Any]
    completes: tuple[str, ...] = ()
    many: bool = False


# Names that IPython itself moves on after each cell; a value that is put there stops that.
_SHELL_NAMES = re.compile(r"_{1,3}|_i{1,3}|_i?\d+|_[iod]h|In|Out|exit|quit|get_ipython")


def _name(text: str) -> str:
    if not text.isidentifier() or iskeyword(text):
        raise UsageError(f'-o needs a name for a variable, "{text}" is none')
    if _SHELL_NAMES.fullmatch(text):
        raise UsageError(f'-o needs a name of your own, "{text}" is IPython\'s; _ holds the run anyway')
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
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise UsageError("-t needs names of tools, separated by commas; %kestrel tools lists them")
    return names


_POLICY_WORDS = "|".join(f"={policy}" for policy in POLICIES)

OPTIONS = (
    Option(("-m", "--model"), "ID", "the model of this run", "model", str, ("model",)),
    Option(("-s", "--session"), "NAME", "make or go on with a session of that name", "session", str, ("session",)),
    Option(("-o", "--output"), "NAME", "bind the run to a variable (it is always _ as well)", "output", _name),
    Option(
        ("-t", "--tools"),
        "NAMES",
        "offer only these tools, separated by commas",
        "tools",
        _tools,
        ("tool|usertool",),
        many=True,
    ),
    Option(("--max-steps",), "N", "stop after N model calls", "max_steps", _steps),
    Option(("--headless",), "POLICY", "ask nobody: deny, approve or fail", "headless", _policy, (_POLICY_WORDS,)),
    Option(("-b", "--background"), None, "return at once; the run goes on in this cell", "background", bool),
    Option(
        ("--no-data",),
        None,
        "send names, types, shapes and schemas, no values of variables or of what code prints; files that a tool "
        "reads are not meant",
        "no_data",
        bool,
    ),
    Option(("--context",), None, "add the news of the variables: names, types and shapes", "context", bool),
    Option(
        ("--record",),
        "PATH",
        "record replies, answers and results into this cassette",
        "record",
        str,
        ("cassette",),
    ),
    Option(("--replay",), "PATH", "play this cassette, without model, key and network", "replay", str, ("cassette",)),
    Option(("-h", "--help"), None, "show this list", "help", bool),
)
BY_NAME = {name: option for option in OPTIONS for name in option.names}
USAGE = (
    "usage: %%kestrel [-m MODEL] [-s SESSION] [-o NAME] [-t TOOLS] [--max-steps N] [--headless POLICY] [-b] "
    "[--no-data] [--context] [--record PATH] [--replay PATH]"
)


def parse_cell(line: str) -> CellOptions:
    """The options in ``line``. Raises UsageError: one line that says what is known."""
    chosen: dict[str, Any] = {}
    words = split_words(line)
    while words:
        word = words.pop(0)
        name, equals, attached = word.partition("=")
        option = BY_NAME.get(name)
        if option is None:
            raise UsageError(_unknown(word))
        if option.value is None:
            if equals:
                raise UsageError(f"{name} takes no value")
            chosen[option.field] = True
            continue
        follows = bool(words) and not words[0].startswith("-")
        value = attached if equals else words.pop(0) if follows else ""
        if not value:
            raise UsageError(f"{name} needs a value: {name} {option.value}")
        chosen[option.field] = option.read(value)
    return CellOptions(**chosen)


def split_words(line: str, *, windows: bool = os.name == "nt") -> list[str]:
    """``line`` as words; quotes hold words together. On Windows a backslash is a part of a path.

    Raises UsageError for a quote that is not closed.
    """
    words = shlex.shlex(line, posix=True)
    words.whitespace_split, words.commenters = True, ""
    words.escape = "" if windows else words.escape
    try:
        return list(words)
    except ValueError as error:
        problem = "nothing follows the backslash" if "escape" in str(error) else "a quote is not closed"
        raise UsageError(f"{problem} in: {line.strip()}") from None


def _unknown(word: str) -> str:
    if not word.startswith("-"):
        return f'"{word}" is no option; the request itself goes below the %%kestrel line. {USAGE}'
    return f"unknown option {word}; {option_hint(word.partition('=')[0])}"


def option_hint(word: str) -> str:
    """What a person may have meant by an option that is none; one letter tells nothing."""
    names = BY_NAME if len(word) > 2 else ()
    return suggestion(word, names, f"options: {', '.join(BY_NAME)}", shape="{}", cutoff=0.5)
