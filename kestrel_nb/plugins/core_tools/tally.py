"""What a search has found so far: counts of all, the first matches as rows and as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .chunks import Chunk
from .match import LineMatcher

MAX_LINE = 300  # characters of a line in the text for the model
MAX_DATA_LINE = 2_000  # characters of a line in the data


@dataclass(slots=True)
class Surroundings:
    """The lines around matches of one file, over the borders of its chunks."""

    size: int
    before: list[str] = field(default_factory=list)  # the last lines of the chunk before
    last: int = 0  # number of the line that was shown last
    until: int = 0  # up to here lines belong to a match that was shown

    def around(self, chunk: Chunk, matching: Sequence[int]) -> list[tuple[int, str]]:
        """The lines to show now, with their numbers: those near the lines ``matching`` and near earlier ones."""
        lines = [*self.before, *chunk.text.removesuffix("\n").split("\n")]
        first, end = chunk.first - len(self.before), chunk.first - len(self.before) + len(lines)
        shown: list[tuple[int, str]] = []
        for start, until in [(first, self.until), *((n - self.size, n + self.size) for n in matching)]:
            for number in range(max(start, first, self.last + 1), min(until + 1, end)):
                shown.append((number, lines[number - first]))
                self.last = number
            self.until = max(self.until, until)
        self.before = lines[-self.size :]
        return shown


@dataclass(slots=True)
class Tally:
    """The first ``room`` matches are kept, with ``context`` lines around them in the text."""

    room: int
    context: int
    rows: list[list[Any]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    stopped_after_s: float | None = None
    _path: str = ""
    _near: Surroundings = field(default_factory=lambda: Surroundings(0))

    @property
    def total(self) -> int:
        """All lines that match."""
        return sum(self.counts.values())

    @property
    def full(self) -> bool:
        """Whether further matches are only counted."""
        return len(self.rows) >= self.room

    def take(self, path: str, chunk: Chunk, matcher: LineMatcher) -> None:
        """Count the lines of ``chunk`` that match, and keep the first ones."""
        kept: list[tuple[int, str]] = []
        count = 0
        only_counted = self.full
        try:
            if only_counted:
                count = matcher.count(chunk)
                return
            for number, start, end in matcher.matching(chunk.text):
                count += 1
                if len(self.rows) < self.room:
                    text = chunk.text[start:end]
                    kept.append((chunk.first + number - 1, text))
                    self.rows.append([path, kept[-1][0], text[:MAX_DATA_LINE]])
        finally:  # a search that is stopped keeps what it has
            if count:
                self.counts[path] = self.counts.get(path, 0) + count
            if not self.context:
                self.lines += [f"{path}:{number}: {_short(text)}" for number, text in kept]
            elif not only_counted or self.expects(path):
                self._show_around(path, chunk, [number for number, _ in kept])

    def expects(self, path: str) -> bool:
        """Whether lines of this file may have to be shown that do not match, so that no chunk may be left out."""
        if not self.context:
            return False
        return not self.full or (path == self._path and self._near.last < self._near.until)

    def pass_over(self, path: str, chunk: Chunk) -> None:
        """Take in a chunk without matches, for the lines around matches in its neighbours."""
        self._show_around(path, chunk, [])

    def _show_around(self, path: str, chunk: Chunk, matching: list[int]) -> None:
        if path != self._path:
            self._path, self._near = path, Surroundings(self.context)
        last = self._near.last
        for number, text in self._near.around(chunk, matching):
            if number > last + 1 if last else self.lines:
                self.lines.append("--")
            mark = ":" if number in matching else "-"
            self.lines.append(f"{path}{mark}{number}{mark} {_short(text)}")
            last = number


def _short(line: str) -> str:
    return f"{line[:MAX_LINE]} [+{len(line) - MAX_LINE:,} characters]" if len(line) > MAX_LINE else line
