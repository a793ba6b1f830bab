"""Text on its way into the transcript: cut to a limit, and free of what no encoder takes."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

MAX_TOOL_OUTPUT: Final = 60_000  # characters of a tool's result that a model reads

_ZWJ: Final = "\u200d"  # zero-width joiner: makes one emoji of two
_FLAG_LETTERS: Final = "".join(map(chr, range(0x1F1E6, 0x1F200)))
_SURROGATE = re.compile("[\ud800-\udfff]")


def truncate(text: str, limit: int = MAX_TOOL_OUTPUT) -> str:
    """``text`` unless it is longer than ``limit`` characters; then its head and a line that states the true total.

    Characters are Unicode code points, so none is ever split.
    """
    if len(text) <= limit:
        return text
    head = head_of(text, limit)
    return f"{head}\n[truncated: the first {len(head)} of {len(text)} characters are shown]"


def head_of(text: str, limit: int) -> str:
    """The first ``limit`` characters of ``text``.

    A joiner or mark that would be parted from its base is left out with it, which makes the head a few characters
    shorter at most.
    """
    return text if len(text) <= limit else text[: _safe_end(text, limit)]


def _safe_end(text: str, limit: int) -> int:
    """The last place at or shortly before ``limit`` where no visible character is cut in two."""
    for end in range(limit, max(0, limit - 16), -1):
        if not _joins(text[end]) and text[end - 1] != _ZWJ and not _halves_a_flag(text, end):
            return end
    return limit


def _joins(character: str) -> bool:
    """True for what belongs to the character before it: marks, variation selectors, joiners, skin tones."""
    if character.isascii():
        return False
    code = ord(character)
    if character == _ZWJ or 0x1F3FB <= code <= 0x1F3FF or 0xDC00 <= code <= 0xDFFF:
        return True
    return unicodedata.category(character).startswith("M")


def _halves_a_flag(text: str, end: int) -> bool:
    """True between the two letters that make a flag."""
    if not "\U0001f1e6" <= text[end] <= "\U0001f1ff":
        return False
    before = text[max(0, end - 64) : end]
    return (len(before) - len(before.rstrip(_FLAG_LETTERS))) % 2 == 1


def clean_text(text: str) -> str:
    """``text`` with each surrogate pair joined and every lone surrogate replaced by U+FFFD.

    A lone surrogate can't be written as UTF-8, and strict servers refuse the request that carries one.
    """
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
