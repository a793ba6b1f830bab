"""Pieces of Python source: strings, lists, the choice of columns."""

from __future__ import annotations

import json
from collections.abc import Sequence


def quoted(text: str) -> str:
    """``text`` as a string literal in double quotes."""
    return json.dumps(text, ensure_ascii=False)


def listed(texts: Sequence[str]) -> str:
    """``texts`` as a list of string literals."""
    return f"[{', '.join(map(quoted, texts))}]"


def pick(names: Sequence[str]) -> str:
    """The subscript that chooses these columns: one is a Series, several a frame, none leaves all."""
    if not names:
        return ""
    return f"[{quoted(names[0])}]" if len(names) == 1 else f"[{listed(names)}]"
