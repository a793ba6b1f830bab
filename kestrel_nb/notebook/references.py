"""The way to a value as it is written: ``name``, ``name.attr``, ``name[0]``, ``name["key"]``, and chains of them."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

NAME: Final = r"[^\W\d]\w*"
STEP: Final = rf"""\.{NAME}|\[(?:-?\d{{1,18}}|"(?:[^"\\\r\n]|\\.)*"|'(?:[^'\\\r\n]|\\.)*')\]"""
_STEPS = re.compile(STEP)
_PATH = re.compile(rf"({NAME})((?:{STEP})*)")


class Step(NamedTuple):
    """An attribute's name, when ``dotted``, or the key that stands in brackets."""

    key: int | str
    dotted: bool


def steps_of(text: str) -> list[Step]:
    """The steps that ``text``, a chain of ``STEP``, is made of."""
    return [Step(step[1:], True) if step[0] == "." else Step(_key(step[1:-1]), False) for step in _STEPS.findall(text)]


def path_of(text: str) -> tuple[str, list[Step]] | None:
    """The name that ``text`` begins with and the steps from there; None when it is no path."""
    found = _PATH.fullmatch(text)
    return (found[1], steps_of(found[2])) if found else None


def plain_key(text: str) -> str:
    """What stands in quotes: a backslash keeps a quote or a backslash from its meaning, and is left out."""
    return re.sub(r"\\([\\'\"])", r"\1", text)


def _key(inside: str) -> int | str:
    return plain_key(inside[1:-1]) if inside[0] in "'\"" else int(inside)
