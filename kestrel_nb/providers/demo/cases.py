"""A failed cell as the rules see it, and what a rule gives."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Case:
    """What failed: the cell, the type of its error and what that says, and the last line of the cell it came through
    (from 1 on; 0: unknown)."""

    source: str
    type: str
    message: str
    line: int

    @property
    def failing(self) -> str:
        """The text of the line that failed."""
        lines = self.source.split("\n")
        return lines[self.line - 1].strip() if 0 < self.line <= len(lines) else ""


@dataclass(frozen=True, slots=True)
class Mend:
    """A corrected cell and a sentence that says what was changed."""

    code: str
    why: str


@dataclass(frozen=True, slots=True)
class Look:
    """What has to be known first: the names of all variables, or what one of them is like."""

    variable: str = ""


Known = Callable[[Look], str | None]
"""What a look has shown; None when it was not taken, an empty text when it can't be or showed nothing."""


def tree_of(source: str) -> ast.Module | None:
    """The cell as Python reads it, lines of magics and of the shell set aside; None when it can't be read."""
    lines = source.split("\n")
    plain = "\n".join(re.sub(r"^(\s*)(?:%%|[%!?]).*", r"\1pass", line) for line in lines)
    try:
        return ast.parse(plain)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
