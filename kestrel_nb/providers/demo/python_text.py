"""Python source for text."""

from __future__ import annotations

import json


def quoted(text: str) -> str:
    """``text`` as a string literal in double quotes."""
    return json.dumps(text, ensure_ascii=False)
