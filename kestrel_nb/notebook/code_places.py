"""Where code comes from: the failed cell, another cell, a file of the user's, a library."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

_PACKAGES = re.compile(r".*[\\/](?:site-packages|dist-packages|python3\.\d+)[\\/]")

Kind = Literal["cell", "other", "file", "library"]


@dataclass(frozen=True, slots=True)
class Places:
    """Where code comes from. ``counts``: file name of a cell -> its execution count; ``count``: that of the failed
    cell, whose text as it was typed is ``source``. ``mask`` hides keys."""

    workspace: str
    source: str
    count: int | None
    counts: Mapping[str, int]
    mask: Callable[[str], str]

    def kind(self, file: str) -> Kind:
        """Whose code it is."""
        if file in self.counts:
            return "cell" if self.counts[file] == self.count else "other"
        if file == "<timed exec>":  # what %%time runs
            return "cell"
        if self.workspace and file.startswith(self.workspace + "/") and not _PACKAGES.match(file):
            return "file"
        return "library"

    def name(self, file: str) -> str:
        """The place as it is shown: nothing that tells about this machine."""
        kind = self.kind(file)
        if kind in ("cell", "other"):
            return "Cell" if kind == "cell" else "Another cell"
        if kind == "file":
            return f'File "{self.mask(file[len(self.workspace) + 1 :])}"'
        inside = _PACKAGES.sub("", file)
        short = inside if inside != file or file.startswith("<") else "/".join(re.split(r"[\\/]", file)[-2:])
        return f'File "{self.mask(short[-200:])}"'

    def line(self, file: str, number: int) -> int:
        """A line's number in the cell as it was typed: lines before the first are dropped when it runs."""
        if self.kind(file) != "cell":
            return number
        if file == "<timed exec>":
            return number + self._first() + 1
        return number + self._first()

    def _first(self) -> int:
        lines = self.source.split("\n")
        return next((index for index, line in enumerate(lines) if line.strip()), 0)

    def text(self, file: str, number: int) -> str:
        """The line ``number`` of ``file``, as it runs."""
        line = linecache.getline(file, number).rstrip("\r\n")
        typed = self.source.split("\n")
        index = self.line(file, number) - 1
        if self.kind(file) == "cell" and 0 <= index < len(typed):
            return typed[index]
        return line
