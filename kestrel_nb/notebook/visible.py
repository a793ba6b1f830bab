"""Characters that a reader cannot see, spelled out, and long stretches of nothing, shortened.

Text of models and tools may hide words: terminal codes, reversed runs, tag characters, a screenful of empty lines.
Everything that is drawn or saved goes through here first.
"""

from __future__ import annotations

import re

_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_PICTURE = "\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff"
# Joiners are part of the spelling of these scripts.
_JOINED = "\u0600-\u08ff\u0900-\u0dff\u1780-\u17ff"
# A joiner or variation sign inside one pictogram or one joined word is no hiding place.
_HARMLESS = (
    f"(?<=[{_PICTURE}])\ufe0f?\u200d(?=[{_PICTURE}])|(?<=[{_PICTURE}#*0-9])\ufe0f(?=$|[^\ufe00-\ufe0f])"
    f"|(?<=[{_JOINED}])[\u200c\u200d](?=[{_JOINED}])"
)
_HIDDEN = re.compile(
    f"({_HARMLESS})|[\x00-\x08\x0b-\x1f\x7f-\x9f{_INVISIBLE}\ud800-\udfff]",
)
MARK = re.compile(r"\[(?:U\+[0-9A-F]{4,6}|ESC)\]")  # what ``visible`` writes
_EMPTY_LINES = re.compile(r"\n(?:[ \t]*\n){3,}")
_BLANKS = re.compile(r"[ \t\u00a0\u2000-\u200a\u3000]{81,}")


def visible(text: str) -> str:
    """``text`` with control, bidi, zero-width, tag and lone surrogate characters as ``[U+202E]``; ESC as ``[ESC]``.

    Line breaks and tabs stay. A carriage return before a line break goes.
    """
    if text.isascii() and text.isprintable():
        return text
    return _HIDDEN.sub(_spell, text.replace("\r\n", "\n"))


def _spell(match: re.Match[str]) -> str:
    if match.group(1) is not None:
        return match.group()
    return "[ESC]" if match.group() == "\x1b" else f"[U+{ord(match.group()):04X}]"


def one_line(text: str, limit: int) -> str:
    """``text`` on one line, hidden characters spelled out, line breaks as ``\\n``, cut in the middle at ``limit``."""
    head = text if len(text) <= 2 * limit else text[: limit + 1] + text[-limit:]
    return shorten(visible(head).replace("\n", "\\n").replace("\t", "\\t"), limit)


def shorten(text: str, limit: int) -> str:
    """``text`` of at most ``limit`` characters, with ``…`` in the middle where some were left out."""
    if len(text) <= limit:
        return text
    tail = (limit - 1) // 2
    return f"{text[: limit - 1 - tail]}…{text[len(text) - tail :]}"


def dense(text: str) -> str:
    """``visible`` text in which no stretch of nothing can push the rest out of sight."""
    text = _EMPTY_LINES.sub(lambda found: f"\n[{found.group().count(chr(10)) - 1:,} empty lines]\n", visible(text))
    return _BLANKS.sub(lambda found: f"[{len(found.group()):,} spaces]", text)


def whole(text: str) -> str:
    """``text`` without lone surrogates, which no UTF-8 channel carries."""
    if text.isascii():
        return text
    return re.sub("[\ud800-\udfff]", lambda found: f"[U+{ord(found.group()):04X}]", text)
