"""Patterns of names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from ...protocol.errors import SandboxViolationError, ToolCallError
from ...sandbox.paths import printable_name, quoted
from ...sandbox.workspace import Workspace

MATCH_S = 1.0  # for one name; ordinary patterns take microseconds
_MAGIC = re.compile(r"[*?\[\]{}()|!+@\\]")
_GROUP = re.compile(r"[{(|]")


class NamePattern:
    """A glob with ``**``, braces and extended groups. Hidden names match only where it names them."""

    def __init__(self, pattern: str, workspace: Workspace, *, anywhere: bool = False) -> None:
        pattern = _below(pattern, workspace)
        self.folders = pattern.endswith("/")
        self.hidden = bool(re.search(r"(^|[/{,(|])\.[^./]", pattern))
        self._by_name = anywhere and "/" not in pattern
        pattern = pattern.rstrip("/")
        self._patterns = _compiled(pattern)
        grouped = bool(_GROUP.search(pattern))
        self._tail = "" if grouped else _MAGIC.split(pattern)[-1].rpartition("/")[2]
        self._all_with_tail = pattern.removeprefix("**/") == f"*{self._tail}"
        self._everywhere = self._by_name or pattern.startswith("**/")
        *folders, _ = pattern.split("/")
        odd = grouped or self._by_name or any(folder in ("", ".") for folder in folders)
        deep = any(part.startswith("**") for part in pattern.split("/"))
        self._depth = None if odd or deep else len(folders)
        self._first = () if odd else tuple(takewhile(lambda folder: not _MAGIC.search(folder), folders))

    def select(self, folder: str, names: Sequence[str]) -> Sequence[str]:
        """Those of ``names`` that fit; they lie in ``folder``, a path without slashes at its ends or "".

        None of them may be hidden unless ``hidden`` is true.
        """
        near = [name for name in names if name.endswith(self._tail)] if self._tail else names
        if self._all_with_tail:  # what most patterns are, told without the engine
            return near if self._everywhere or not folder else ()
        prefix = "" if self._by_name or not folder else f"{folder}/"
        try:
            return [name for name in near if self._fits(prefix + printable_name(name))]
        except TimeoutError:
            raise ToolCallError("pattern: takes too long to match; use fewer stars") from None

    def may_hold(self, folder: str) -> bool:
        """False when nothing in or below ``folder`` can fit."""
        parts = folder.split("/")
        if self._depth is not None and len(parts) > self._depth:
            return False
        return all(part == first for part, first in zip(parts, self._first, strict=False))

    def _fits(self, text: str) -> bool:
        return any(pattern.match(text, timeout=MATCH_S, concurrent=True) for pattern in self._patterns)


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


def _compiled(pattern: str) -> list[Any]:
    import regex
    from wcmatch import glob

    flags = glob.GLOBSTAR | glob.BRACE | glob.EXTGLOB | glob.FORCEUNIX
    try:
        return [regex.compile(text) for text in glob.translate(pattern, flags=flags)[0]]
    except Exception as error:  # a brace pattern that stands for too many, or a class that is none
        raise ToolCallError(f"pattern {quoted(pattern)}: {error}") from None
