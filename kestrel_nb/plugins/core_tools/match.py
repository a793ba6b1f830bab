"""Finding the lines that a regular expression matches, quickly, and never for ever.

The ``regex`` library is used because it lets other threads run while it matches and gives up after a time limit;
``re`` does neither. Patterns mean what they mean to Python. A line is what stands between line feeds; a carriage return
before one belongs to the line end.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from ...protocol.errors import ToolCallError
from .chunks import Chunk
from .needed import needed_texts

SEARCH_S = 2.0  # CPU time for one call of the engine; ordinary patterns take milliseconds for a block
MAX_LONG = 50  # matches over several lines; with more of them in a block, leaping costs more than it saves
MAX_REPEATED = 3  # further matches in a line that is counted already, before the search starts anew behind it
# How the lines of a whole text may be found without looking at each alone. Where nothing in the pattern can match a
# line feed, searching the text is the same as searching its lines. Where something can, a line matches in the text if
# it matches alone (but not the other way round), as long as the engine may try every way to match.
_ALONE = re.compile(r"\\[AZzGKRX]|\(\?(?!i\))[a-zA-Z-]+[:)]|\{(?![0-9,]+\})")
_LINE_FEED = re.compile(r"\\[sWDnvhpPxuUN0-9]|\\t-|\[\^|\[:|[\x00-\x1f]")
_PLAIN = re.compile(r"(?:[\w =:;,\"'/<>@!%&~`#-]|\\[^\w\s])+\Z", re.ASCII)  # nothing in it is more than itself
_NAMED = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?P?<(\w+)>", re.DOTALL)  # escapes and classes are skipped
_ONE_WAY = re.compile(r"\(\?(?!:|P?<\w|P=|i\))|[*+?}]\+")


class LineMatcher:
    """One pattern, ready to search. ``tick`` is called often and may end a long search by raising."""

    def __init__(self, pattern: str, *, ignore_case: bool = False, tick: Callable[[], None] = lambda: None) -> None:
        self._tick = tick
        self._pattern = _compiled(pattern, ignore_case)
        self._spans = bool(_LINE_FEED.search(pattern))
        self._alone = bool(_ALONE.search(pattern)) or (self._spans and bool(_ONE_WAY.search(pattern)))
        self._needed = None if ignore_case else needed_texts(pattern)
        self._plain = re.sub(r"\\(.)", r"\1", pattern).encode() if not ignore_case and _PLAIN.match(pattern) else b""

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

    def may_match(self, chunk: Chunk) -> bool:
        """False when no line of ``chunk`` can match, told without the engine."""
        if self._needed is None or chunk.wide:
            return True
        data = chunk.data
        return self._needed[0] in data or any(text in data for text in self._needed[1:])

    def count(self, chunk: Chunk) -> int:
        """How many lines of ``chunk`` match; for a plain text without reading it as characters."""
        if not self._plain or chunk.wide:
            return sum(1 for _ in self.matching(chunk.text))
        data, plain = chunk.data, self._plain
        count, at = 0, data.find(plain)
        while at >= 0:
            count += 1
            end = data.find(b"\n", at)
            at = data.find(plain, end) if end >= 0 else -1
        return count

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
        compiled = regex.compile(pattern, regex.MULTILINE | (regex.IGNORECASE if ignore_case else 0))
    except (regex.error, OverflowError, RecursionError, ValueError, MemoryError) as error:
        problem = str(error) or type(error).__name__
        raise _invalid(f"{problem}; put \\ before characters that stand for themselves") from None
    twice = [name for name, count in Counter(_NAMED.findall(pattern)).items() if count > 1 and name]
    if twice and twice[0] in compiled.groupindex:  # Python refuses this, the library allows it
        raise _invalid(f"two groups are called {twice[0]}; give each a name of its own")
    return compiled


def _invalid(problem: str) -> ToolCallError:
    return ToolCallError(f"invalid regex: {problem}", code="invalid_pattern")
