"""What .gitignore files leave out, by git's own rules.

A rule is about a name, or about a path when it has a slash before its end. The last rule of a file that fits decides,
and a file in a deeper folder wins over one further out. What lies in a folder that is left out is never asked about.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import NamedTuple

from ...protocol.errors import ToolCallError
from ...sandbox.paths import printable_name
from ...sandbox.walk import Walked, open_listed
from ...sandbox.workspace import Workspace

MAX_BYTES = 1_000_000  # of one .gitignore
MATCH_S = 1.0  # for one name; ordinary rules take microseconds
_MAGIC = re.compile(r"[*?\[\\]")
_TOKEN = re.compile(
    r"(?P<start>^\*\*/)|(?P<end>/\*\*$)|(?P<middle>/\*\*/)|(?P<star>\*+)|(?P<one>\?)"
    r"|(?P<set>\[[!^]?\]?(?:\[:\w+:\]|\\.|[^\]\\])*\])|\\(?P<escaped>.)|(?P<plain>.)",
    re.DOTALL,
)


class Rule(NamedTuple):
    """One line: whether ``fits(path)`` lets a path be left out or kept, and of which paths it speaks."""

    leaves_out: bool
    only_folders: bool
    by_name: bool
    fits: Callable[[str], bool]


class Ignored:
    """The .gitignore files of a workspace, read as a walk comes to their folders."""

    def __init__(self, workspace: Workspace, start: str) -> None:
        self._rules: dict[str, list[Rule]] = {}
        above = [*reversed(PurePosixPath(start).parents)] if start else []
        for folder in above:
            shown = "" if str(folder) == "." else str(folder)
            for walked in workspace.walk(shown or ".", enter=lambda _: False):
                self.read(walked)

    def read(self, walked: Walked) -> None:
        """Take in the .gitignore of this folder, if it has one."""
        if ".gitignore" not in walked.files:
            return
        try:
            with open_listed(walked, ".gitignore") as file:
                data = file.read(MAX_BYTES) or b""
        except (OSError, ToolCallError):  # one unreadable file of rules leaves the search as it is without it
            return
        lines = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape").split("\n")
        rules = [rule for line in lines if (rule := _rule(printable_name(line.removesuffix("\r"))))]
        if rules:
            self._rules[walked.shown] = rules[::-1]

    def leaves_out(self, path: str, *, folder: bool = False) -> bool:
        """True when the rules read so far leave ``path`` (of the workspace) out."""
        name = path.rpartition("/")[2]
        base = path
        while base:
            base = base.rpartition("/")[0]
            for rule in self._rules.get(base, ()):
                if rule.only_folders and not folder:
                    continue
                if rule.fits(name if rule.by_name else path[len(base) :].lstrip("/")):
                    return rule.leaves_out
        return False


def _rule(line: str) -> Rule | None:
    line = re.sub(r"(?<!\\)((?:\\\\)*) +$", r"\1", line)
    if not line or line.startswith("#"):
        return None
    leaves_out = not line.startswith("!")
    pattern = line if leaves_out else line[1:]
    only_folders = pattern.endswith("/")
    pattern = pattern.removesuffix("/")
    by_name = "/" not in pattern
    fits = _fitting(pattern.removeprefix("/")) if pattern else None
    return Rule(leaves_out, only_folders, by_name, fits) if fits else None


def _fitting(pattern: str) -> Callable[[str], bool] | None:
    """The test of a name or a path; None for a pattern that fits nothing."""
    import regex

    if not _MAGIC.search(pattern):
        return pattern.__eq__
    if pattern.startswith("*") and "/" not in pattern and not _MAGIC.search(pattern[1:]):
        return lambda path: path.endswith(pattern[1:]) and "/" not in path
    try:
        compiled = regex.compile("".join(map(_translated, _TOKEN.finditer(pattern))), regex.DOTALL)
    except regex.error:
        return None

    def fits(path: str) -> bool:
        try:
            return bool(compiled.fullmatch(path, timeout=MATCH_S, concurrent=True))
        except TimeoutError:
            raise ToolCallError("a rule in a .gitignore takes too long to match; it has too many stars") from None

    return fits


def _translated(token: re.Match[str]) -> str:
    kind, text = str(token.lastgroup), token[0]
    if kind == "set":
        negated = text[1] in "!^"
        inner = text[1 + negated : -1]
        inner = f"\\]{inner[1:]}" if inner.startswith("]") else inner
        inner = re.sub(r"(?<!\\)\[(?!:)|&&|\|\||~~|--", lambda found: re.escape(found[0]), inner)
        return f"(?!/)[{'^' if negated else ''}{inner}]"
    if kind in ("escaped", "plain"):
        return re.escape(token[kind])
    known = {"start": "(?:.*/)?", "end": "/.+", "middle": "/(?:.*/)?", "star": "[^/]*", "one": "[^/]"}
    return known[kind]
