"""The files that a search looks at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...protocol.errors import ToolCallError
from ...runtime.signals import CancelSignal
from ...sandbox.walk import Walked
from ...sandbox.workspace import Workspace
from .ignoring import Ignored


class Found(NamedTuple):
    """Names in one folder of a walk, which is still open; ``below`` is its path below the start, "" for the start."""

    folder: Walked
    below: str
    names: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Where to look. Links are never followed and .git is never entered; ``hidden`` says whether dot names count.

    ``holds`` is asked about each folder, by its path below the start, and may keep the search out of it; ``choose``,
    about the names in a folder of such a path.
    """

    workspace: Workspace
    start: str
    signal: CancelSignal
    hidden: bool = False
    ignored: Ignored | None = None
    holds: Callable[[str], bool] | None = None
    choose: Callable[[str, Sequence[str]], Sequence[str]] | None = None

    def files(self, *, links: bool = False) -> Iterator[Found]:
        """The regular files of each folder, by name; ``links`` adds links that lead to files inside the workspace."""
        for folder in self._walk():
            below = self._met(folder)
            names = self._visible(below, folder.files)
            if links and folder.links:
                more = self._visible(below, folder.links)
                names = sorted([*names, *(name for name in more if self._leads_to_file(folder, name))])
            if self.ignored:
                names = [name for name in names if not self.ignored.leaves_out(folder.path_of(name))]
            if names:
                yield Found(folder, below, names)

    def folders(self) -> Iterator[Found]:
        """The folders in each folder, by name."""
        for folder in self._walk():
            below = self._met(folder)
            chosen = self.choose(below, folder.folders) if self.choose else folder.folders
            yield Found(folder, below, [name for name in chosen if self._counts(folder.path_of(name))])

    def _walk(self) -> Iterator[Walked]:
        return self.workspace.walk(self.start, enter=self._enter)

    def _met(self, folder: Walked) -> str:
        """Take a folder up; the answer is its path below the start."""
        self.signal.raise_if_cancelled()
        if self.ignored:
            self.ignored.read(folder)
        return self._below(folder.shown)

    def _below(self, shown: str) -> str:
        return shown if self.start == "." else shown[len(self.start) :].lstrip("/")

    def _visible(self, below: str, names: Sequence[str]) -> Sequence[str]:
        chosen = self.choose(below, names) if self.choose else names
        return chosen if self.hidden else [name for name in chosen if name[0] != "."]

    def _enter(self, shown: str) -> bool:
        return self._counts(shown) and (not self.holds or self.holds(self._below(shown)))

    def _counts(self, shown: str) -> bool:
        name = shown[shown.rfind("/") + 1 :]
        if name[0] == "." and (name == ".git" or not self.hidden):
            return False
        return not (self.ignored and self.ignored.leaves_out(shown, folder=True))

    def _leads_to_file(self, folder: Walked, name: str) -> bool:
        try:
            return self.workspace.resolve(folder.path_of(name)).is_file()
        except (ToolCallError, OSError):
            return False
