"""Patterns of names: globs, and what .gitignore files leave out."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from ...protocol.errors import SandboxViolationError, ToolCallError
from ...sandbox.paths import quoted
from ...sandbox.walk import Walked, open_listed
from ...sandbox.workspace import Workspace

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

MATCH_S = 1.0  # for one name; ordinary patterns take microseconds
_MAGIC = re.compile(r"[*?\[\]{}()|!+@\\]")


class NamePattern:
    """A glob with ``**``, braces and extended groups. Hidden names match only where it names them."""

    def __init__(self, pattern: str, workspace: Workspace, *, anywhere: bool = False) -> None:
        pattern = _below(pattern, workspace)
        self.folders = pattern.endswith("/")
        self.hidden = bool(re.search(r"(^|[/{,(|])\.[^./]", pattern))
        self._by_name = anywhere and "/" not in pattern
        plain = _MAGIC.split(pattern.rstrip("/"))[-1]
        self._tail = "" if re.search(r"[{(|]", pattern) else plain.rpartition("/")[2]
        self._patterns = _compiled(pattern.rstrip("/"))

    def matches(self, path: str) -> bool:
        """True when ``path``, without a leading or trailing "/", fits."""
        if not path.endswith(self._tail):
            return False
        text = path.rpartition("/")[2] if self._by_name else path
        try:
            return any(pattern.match(text, timeout=MATCH_S, concurrent=True) for pattern in self._patterns)
        except TimeoutError:
            raise ToolCallError("pattern: takes too long to match; use fewer stars") from None


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


class Ignored:
    """The .gitignore files of a workspace, read as a walk comes to their folders; a deeper one wins."""

    def __init__(self, workspace: Workspace, start: str) -> None:
        self._specs: dict[str, GitIgnoreSpec] = {}
        above = [*reversed(PurePosixPath(start).parents)] if start else []
        for folder in above:
            shown = "" if str(folder) == "." else str(folder)
            for walked in workspace.walk(shown or ".", enter=lambda _: False):
                self.read(walked)

    def read(self, walked: Walked) -> None:
        """Take in the .gitignore of this folder, if it has one."""
        if ".gitignore" not in walked.files:
            return
        from pathspec import GitIgnoreSpec

        try:
            with open_listed(walked, ".gitignore") as file:
                lines = (file.read(1_000_000) or b"").decode("utf-8", "replace").split("\n")
            self._specs[walked.shown] = GitIgnoreSpec.from_lines(lines)
        except (OSError, ValueError):  # one unreadable file of rules leaves the search as it is without it
            return

    def leaves_out(self, path: str, *, folder: bool = False) -> bool:
        """True when the rules read so far leave ``path`` (of the workspace) out."""
        verdict = False
        for base, spec in self._specs.items():  # in the order of the walk: outer ones first
            if base and not path.startswith(f"{base}/"):
                continue
            below = path[len(base) :].lstrip("/")
            found = spec.check_file(f"{below}/" if folder else below).include
            verdict = verdict if found is None else found
        return verdict
