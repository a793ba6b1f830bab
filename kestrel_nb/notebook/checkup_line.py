"""One line of what ``%kestrel doctor`` tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that was looked at: its state, whether that is a problem, and what to do."""

    what: str
    state: str
    level: Literal["ok", "note", "problem"] = "ok"
    todo: str = ""
