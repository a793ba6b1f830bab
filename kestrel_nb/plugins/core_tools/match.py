"""Finding the lines that a regular expression matches, quickly, and never for ever.

The ``regex`` library is used because it lets other threads run while it matches and gives up after a time limit;
``re`` does neither. Patterns mean what they mean to Python. A line is what stands between line feeds; a carriage return
before one belongs to the line end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from ...protocol.errors import ToolCallError
from .needed import needed_texts
from .text import decode, is_wide

SEARCH_S = 5.0  # for one call of the engine; ordinary patterns take milliseconds for a block
BLOCK = 1 << 20
MAX_LONG = 50  # matches over several lines; with more of them in a block, leaping costs more than it saves
MAX_REPEATED = 3  # further matches in a line that is counted already, before the search starts anew behind it
MAX_WIDE = 64 << 20  # of a file in UTF-16 or UTF-32, which is read whole
# How the lines of a whole text may be found without looking at each alone. Where nothing in the pattern can match a
# line feed, searching the text is the same as searching its lines. Where something can, a line matches in the text if
# it matches alone (but not the other way round), as long as the engine may try every way to match.
_ALONE = re.compile(r"\\[AZzGKRX]|\(\?(?!i\))[a-zA-Z-]+[:)]|\{(?![0-9,]+\})")
_LINE_FEED = re.compile(r"\\[sWDnvhpPxuUN0-9]|\\t-|\[\^|\[:|[\x00-\x1f]")
_ONE_WAY = re.compile(r"\(\?(?!:|P?<\w|P=|i\))|[*+?}]\+")


class LineMatcher:
    """One pattern, ready to search. ``tick`` is called often and may end a long search by raising."""

    def __init__(self, pattern: str, *, ignore_case: bool = False, tick: Callable[[], None] = lambda: None) -> None:
        self._tick = tick
        self._pattern = _compiled(pattern, ignore_case)
        self._spans = bool(_LINE_FEED.search(pattern))
        self._alone = bool(_ALONE.search(pattern)) or (self._spans and bool(_ONE_WAY.search(pattern)))
        self._needed = None if ignore_case else needed_texts(pattern)

    def matching(self, text: str) -> Iterator[tuple[int, int, int]]:
        """Number, start and end of each line of ``text`` that matches. ``text`` has no CRLF.

        Raises ToolCallError when the engine takes too long.
        """
        try:
            yield from self._each_line(text) if self._alone else self._leaping(text)
        except TimeoutError:
            raise ToolCallError(
                f"pattern: took more than {SEARCH_S:g} s in one file; make it simpler, without nested repetition",
                code="pattern_too_slow",
            ) from None

    def may_match(self, data: bytes) -> bool:
        """False when no line of ``data`` (in a superset of ASCII) can match, told without the engine."""
        return self._needed is None or any(text in data for text in self._needed)

    def _each_line(self, text: str, start: int = 0, number: int = 1) -> Iterator[tuple[int, int, int]]:
        while start < len(text):
            self._tick()
            end = text.find("\n", start)
            end = len(text) if end < 0 else end
            if self._fits(text[start:end]):
                yield number, start, end
            start, number = end + 1, number + 1

    def _leaping(self, text: str) -> Iterator[tuple[int, int, int]]:
        """Search the whole text, and a line alone only where a match reaches beyond it."""
        at, number, long_ones = 0, 1, 0  # the line to go on with, and matches over several lines
        while long_ones < MAX_LONG and at < len(text):
            self._tick()
            repeated = 0
            for found in self._pattern.finditer(text, at, timeout=SEARCH_S, concurrent=True):
                place = found.start()
                if place < at:
                    repeated += 1
                    if repeated > MAX_REPEATED:
                        break
                else:
                    start = text.rfind("\n", at, place) + 1 or at
                    if start == len(text):  # behind the last line feed there is no line
                        return
                    end = text.find("\n", place)
                    end = len(text) if end < 0 else end
                    number += text.count("\n", at, start)
                    if not self._spans or found.end() <= end or self._fits(text[start:end]):
                        yield number, start, end
                    at, number = end + 1, number + 1
                if self._spans and found.end() >= at:
                    long_ones += found.end() > at
                    break  # it took a part of the lines that follow
            else:
                return
        yield from self._each_line(text, at, number)

    def _fits(self, line: str) -> bool:
        return bool(self._pattern.search(line, timeout=SEARCH_S, concurrent=True))


def _compiled(pattern: str, ignore_case: bool) -> Any:
    import regex

    try:
        return regex.compile(pattern, regex.MULTILINE | (regex.IGNORECASE if ignore_case else 0))
    except (regex.error, OverflowError, RecursionError, ValueError) as error:
        raise ToolCallError(
            f"pattern: is no regular expression: {error}; put \\ before characters that stand for themselves",
            code="invalid_pattern",
        ) from None


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
        if b"\0" in data:
            return
        block, rest = _whole_lines(rest + data) if data else (rest, b"")
        if matcher.may_match(block):
            found = decode(block, guess=False)
            if found:
                yield Chunk(_plain(found.text), first)
        data = file.read(BLOCK) if data else b""
        if data or rest:
            first += block.count(b"\n")


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n") if "\r" in text else text


def _whole_lines(data: bytes) -> tuple[bytes, bytes]:
    end = data.rfind(b"\n") + 1
    return data[:end], data[end:]
