"""The files that a search looks at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ...protocol.errors import ToolCallError
from ...runtime.signals import CancelSignal
from ...sandbox.walk import Walked
from ...sandbox.workspace import Workspace
from .patterns import Ignored


class Found(NamedTuple):
    """A name of a walk: its folder, still open, its workspace path, and its path below the start of the walk."""

    folder: Walked
    name: str
    shown: str
    below: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Where to look. Links are never followed and .git is never entered; ``hidden`` says whether dot names count."""

    workspace: Workspace
    start: str
    signal: CancelSignal
    hidden: bool = False
    ignored: Ignored | None = None

    def files(self, *, links: bool = False) -> Iterator[Found]:
        """Every regular file, by name; ``links`` adds links that lead to files inside the workspace."""
        for folder in self._folders():
            more = [name for name in folder.links if links and self._leads_to_file(folder, name)]
            names = sorted([*folder.files, *more]) if more else folder.files
            yield from (found for found in self._each(folder, names) if not self._left_out(found.shown))

    def folders(self) -> Iterator[Found]:
        """Every folder below the start, by name."""
        for folder in self._folders():
            yield from (found for found in self._each(folder, folder.folders) if self._enter(found.shown))

    def _folders(self) -> Iterator[Walked]:
        for folder in self.workspace.walk(self.start, enter=self._enter):
            self.signal.raise_if_cancelled()
            if self.ignored:
                self.ignored.read(folder)
            yield folder

    def _each(self, folder: Walked, names: tuple[str, ...] | list[str]) -> Iterator[Found]:
        prefix = "" if self.start == "." else f"{self.start.rstrip('/')}/"
        for name in names:
            if self.hidden or not name.startswith("."):
                shown = folder.path_of(name)
                yield Found(folder, name, shown, shown[len(prefix) :])

    def _enter(self, shown: str) -> bool:
        name = shown.rpartition("/")[2]
        if name == ".git" or (name.startswith(".") and not self.hidden):
            return False
        return not (self.ignored and self.ignored.leaves_out(shown, folder=True))

    def _left_out(self, shown: str) -> bool:
        return self.ignored is not None and self.ignored.leaves_out(shown)

    def _leads_to_file(self, folder: Walked, name: str) -> bool:
        try:
            return self.workspace.resolve(folder.path_of(name)).is_file()
        except (ToolCallError, OSError):
            return False
