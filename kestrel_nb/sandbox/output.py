"""Text that comes from outside: decoding it, cutting it, and taking out what only a terminal understands."""

from __future__ import annotations

import codecs
import re

# CSI (colours, cursor), OSC (titles, links) up to BEL or ST, and the two-character escapes: ECMA-48.
_TERMINAL_CODES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-Z\\-_]")


def decode_output(data: bytes, *, complete: bool = True) -> str:
    """``data`` as UTF-8 text; bytes that are none, and NUL, become U+FFFD.

    When not ``complete``, a last character of which only a part is there is left out.
    """
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(data, final=complete)
    return text.replace("\0", "\ufffd")


def without_terminal_codes(text: str) -> str:
    """``text`` without colour, cursor and title sequences."""
    return _TERMINAL_CODES.sub("", text) if "\x1b" in text else text


def clip(text: str, limit: int, total: int | None = None) -> str:
    """``text``, or its first ``limit`` characters and a line that says how many there are (``total``, if known)."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[cut: {limit:,} of {total or len(text):,} characters shown]"


def plural(count: int, one: str, many: str | None = None) -> str:
    """ "1 match", "1,204 matches"."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def size_text(size: int) -> str:
    """``size`` bytes as "812 B", "1.2 kB", "4.1 MB"; steps of 1,000."""
    if size < 1000:
        return f"{size} B"
    for unit, step in (("kB", 1e3), ("MB", 1e6)):
        if size < 999.95 * step:
            return f"{size / step:.1f} {unit}"
    return f"{size / 1e9:.1f} GB"
