"""Finding the lines that a regular expression matches, quickly, and never for ever.

The ``regex`` library is used because it lets other threads run while it matches and gives up after a time limit;
``re`` does neither. Patterns mean what they mean to Python. A line is what stands between line feeds; a carriage return
before one belongs to the line end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from ...protocol.errors import ToolCallError
from .text import decode, is_wide

SEARCH_S = 5.0  # for one call of the engine; ordinary patterns take milliseconds for a block
BLOCK = 4 << 20
MAX_WIDE = 64 << 20  # of a file in UTF-16 or UTF-32, which is read whole
# A match of a pattern without these begins in the text wherever it begins in the line alone.
_NEEDS_LINE_ALONE = re.compile(r"\(\?(?![:#]|P?<\w|P=|[aiLmux]+\))|\\[AZzGKRXp]|[*+?}]\+")
_CLASSES = "bBdDsSwW"


class LineMatcher:
    """One pattern, ready to search."""

    def __init__(self, pattern: str, *, ignore_case: bool = False) -> None:
        self._pattern = _compiled(pattern, ignore_case)
        self._alone = bool(_NEEDS_LINE_ALONE.search(pattern))
        self._literal = None if ignore_case else needed_literal(pattern)

    def matching(self, text: str) -> Iterator[tuple[int, int, int]]:
        """Number, start and end of each line of ``text`` that matches. ``text`` has no CRLF.

        Raises ToolCallError when the engine takes too long.
        """
        return self._each_line(text) if self._alone else self._leaping(text)

    def may_match(self, data: bytes) -> bool:
        """False when no line of ``data`` (in a superset of ASCII) can match, told without the engine."""
        return self._literal is None or self._literal in data

    def _found(self, *where: Any) -> Any:
        try:
            return self._pattern.search(*where, timeout=SEARCH_S, concurrent=True)
        except TimeoutError:
            raise ToolCallError(
                f"pattern: took more than {SEARCH_S:g} s in one file; make it simpler, without nested repetition",
                code="pattern_too_slow",
            ) from None

    def _each_line(self, text: str) -> Iterator[tuple[int, int, int]]:
        start, number = 0, 1
        while start < len(text):
            end = text.find("\n", start)
            end = len(text) if end < 0 else end
            if self._found(text[start:end]):
                yield number, start, end
            start, number = end + 1, number + 1

    def _leaping(self, text: str) -> Iterator[tuple[int, int, int]]:
        """Search the whole text, and the line alone only when a match reaches beyond its line."""
        at, number = 0, 1
        while at < len(text):
            found = self._found(text, at)
            if not found or (found.start() >= len(text) and text.endswith("\n")):
                return
            start = text.rfind("\n", at, found.start()) + 1 or at
            end = text.find("\n", found.start())
            end = len(text) if end < 0 else end
            number += text.count("\n", at, start)
            if found.end() <= end or self._found(text[start:end]):
                yield number, start, end
            at, number = end + 1, number + 1


def _compiled(pattern: str, ignore_case: bool) -> Any:
    import regex

    try:
        return regex.compile(pattern, regex.MULTILINE | (regex.IGNORECASE if ignore_case else 0))
    except (regex.error, OverflowError, RecursionError, ValueError) as error:
        raise ToolCallError(
            f"pattern: is no regular expression: {error}; put \\ before characters that stand for themselves",
            code="invalid_pattern",
        ) from None


def needed_literal(pattern: str) -> bytes | None:
    """An ASCII text that every match must contain, None when that is not plain to see."""
    runs: list[str] = []
    run, at = "", 0
    while at < len(pattern):
        char, at = pattern[at], at + 1
        if char == "\\":
            char, at = pattern[at : at + 1], at + 1
            if char in _CLASSES and char:
                runs, run = [*runs, run], ""
            elif not char or char.isalnum():
                return None
            else:
                run += char
        elif char in "|([)":
            return None
        elif char in "*?{":  # what stands before it may be missing
            runs, run = [*runs, run[:-1]], ""
            at = pattern.find("}", at) + 1 if char == "{" else at
            if not at:
                return None
        elif char in ".^$+":
            runs, run = [*runs, run], ""
        else:
            run += char
    longest = max([*runs, run], key=len)
    return longest.encode("ascii") if longest and longest.isascii() else None


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole lines of a file, without CRLF; ``first`` is the number of the first."""

    text: str
    first: int


def chunks(file: BinaryIO, matcher: LineMatcher) -> Iterator[Chunk]:
    """The text of ``file`` in blocks of whole lines; blocks that can't match, and binary files, are left out."""
    data = file.read(BLOCK)
    if is_wide(data):
        whole = decode(data + file.read(MAX_WIDE), guess=False)
        if whole:
            yield Chunk(_plain(whole.text), 1)
        return
    rest, first, data = b"", 1, data.removeprefix(b"\xef\xbb\xbf")
    while data or rest:
        block, rest = _whole_lines(rest + data) if data else (rest, b"")
        if b"\0" in block:
            return
        if matcher.may_match(block):
            found = decode(block, guess=False)
            if found:
                yield Chunk(_plain(found.text), first)
        first += block.count(b"\n")
        data = file.read(BLOCK) if data else b""


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n") if "\r" in text else text


def _whole_lines(data: bytes) -> tuple[bytes, bytes]:
    end = data.rfind(b"\n") + 1
    return data[:end], data[end:]
