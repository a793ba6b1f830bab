"""Places that no file tool may open, wherever they lie: what the agents themselves are governed by.

Stored sessions hold what a person has allowed, and the user's rules hold what is denied. A workspace may hold both,
as the home folder does. Closing a place is for the whole process: each application keeps out of the others' places.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..protocol.errors import SandboxViolationError
from .paths import quoted

_places: dict[str, None] = {}


def close_off(path: str | os.PathLike[str]) -> None:
    """Let no tool open ``path``, a file or a folder with all that is in it, from now on; it need not exist."""
    _places[os.path.abspath(path)] = None


class Closed:
    """The closed places as a workspace at ``root`` meets them; one that the whole workspace lies in does not count."""

    def __init__(self, root: Path) -> None:
        found = (_plain(os.path.realpath(place)) for place in tuple(_places))
        inside = _plain(str(root))
        self._places = tuple(place for place in found if not _is_in(inside, place))
        self._parents = frozenset(os.path.dirname(place) for place in self._places)

    def check(self, real: Path, path: str) -> None:
        """Raise SandboxViolationError when ``real``, which ``path`` leads to, is closed."""
        if self.has(real):
            raise SandboxViolationError(f"{quoted(path)} belongs to the stored sessions and rules; no tool may use it")

    def has(self, real: Path) -> bool:
        """Whether ``real``, a path without links, is a closed place or lies in one."""
        name = _plain(str(real))
        return any(_is_in(name, place) for place in self._places)

    def holds(self, real: Path) -> bool:
        """Whether a closed place lies below ``real``, there or not: a file may not take its way."""
        name = _plain(str(real))
        return any(_is_in(place, name) for place in self._places)

    def open_names(self, folder: str, names: tuple[str, ...]) -> tuple[str, ...]:
        """Those of ``names`` in ``folder``, a path without links, that are not closed."""
        if _plain(folder) not in self._parents:
            return names
        return tuple(name for name in names if not self.has(Path(folder, name)))


def _plain(path: str) -> str:
    """For comparing: where case tells no files apart, another spelling is the same place."""
    return os.path.normcase(path).casefold()


def _is_in(path: str, place: str) -> bool:
    return path == place or path.startswith(place.rstrip(os.sep) + os.sep)
