"""Patterns of names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from ...protocol.errors import SandboxViolationError, ToolCallError
from ...sandbox.paths import quoted
from ...sandbox.workspace import Workspace
from .globs import Fits, NameGlob, chosen, name_test, parted, path_test

_GROUP = re.compile(r"[{(\\]")


class NamePattern:
    """A glob with ``**``, braces and extended groups. Hidden names match only where it names them."""

    def __init__(self, pattern: str, workspace: Workspace, *, anywhere: bool = False) -> None:
        pattern = _below(pattern, workspace)
        self.folders = pattern.endswith("/")
        self.hidden = bool(re.search(r"(^|[/{,(|])\.[^./]", pattern))
        pattern = pattern.rstrip("/")
        by_name = anywhere and "/" not in pattern
        parts = ("", pattern) if by_name else parted(pattern)
        folders = parts[0] if parts else pattern.rpartition("/")[0]
        self._everywhere = by_name or (folders == "**" and parts is not None and not self.hidden)
        self._depth: int | None = None
        self._parents: tuple[Fits, ...] = ()
        try:
            self._name = NameGlob(parts[1], hidden=self.hidden) if parts else None
            self._path: Fits = "x".__eq__  # of any name in a folder, when the pattern has parts
            if not parts or (folders and not self._everywhere):
                self._path = path_test(f"{folders}/x" if parts else pattern)
            if not self._everywhere and (parts or not _GROUP.search(pattern)):
                self._bound(folders)
        except Exception as error:  # a brace pattern that stands for too many, or a class that is none
            raise ToolCallError(f"pattern {quoted(pattern)}: {error}") from None

    def _bound(self, folders: str) -> None:
        """Note which folders need not be entered, as far as the pattern of the folders tells."""
        parts = folders.split("/") if folders else []
        if _GROUP.search(folders) or any(part in ("", ".") for part in parts):
            return
        near = tuple(takewhile(lambda part: "**" not in part, parts))
        self._depth = len(parts) if len(near) == len(parts) else None
        self._parents = tuple(map(name_test, near))

    def select(self, folder: str, names: Sequence[str]) -> Sequence[str]:
        """Those of ``names`` that fit; they lie in ``folder``, a path without slashes at its ends or "".

        Unless ``hidden`` is true, no part of ``folder`` may be hidden, and hidden names are for others to leave out.
        """
        try:
            if self._name and self._everywhere:
                return self._name.among(names)
            prefix = f"{folder}/" if folder else ""
            if not self._name:
                return chosen(self._path, names, prefix)
            if self._path(f"{prefix}x"):
                return self._name.among(names)
        except TimeoutError:
            raise _too_slow() from None
        return ()

    @property
    def bounded(self) -> bool:
        """Whether ``may_hold`` can be false."""
        return self._depth is not None or bool(self._parents)

    def may_hold(self, folder: str) -> bool:
        """False when nothing in or below ``folder`` can fit."""
        parts = folder.split("/")
        if self._depth is not None and len(parts) > self._depth:
            return False
        try:
            return all(fits(part) for part, fits in zip(parts, self._parents, strict=False))
        except TimeoutError:
            raise _too_slow() from None


def _too_slow() -> ToolCallError:
    return ToolCallError("pattern: takes too long to match; use fewer stars")


def _below(pattern: str, workspace: Workspace) -> str:
    """``pattern`` relative to where the search starts. Raises SandboxViolationError when it leads outside."""
    if "\0" in pattern or not pattern.strip():
        raise ToolCallError("pattern: must not be empty or contain a NUL character")
    root = f"{workspace.root.as_posix().rstrip('/')}/"
    pattern = pattern.removeprefix(root)
    while pattern.startswith("./"):
        pattern = pattern[2:].lstrip("/")
    if pattern.startswith("/") or re.search(r"(^|[/{,(|])\.\.($|[/},)|])", pattern):
        raise SandboxViolationError(
            f"pattern {quoted(pattern)} leads outside the place where the search starts; "
            'write it relative to that, such as "**/*.py", and choose the place with path'
        )
    return pattern
