"""A workspace with something to steal beside it, and every tool that takes a path, called through the real runtime."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from stage import Stage

from kestrel_nb.plugins.builtin_tools.config import BuiltInToolConfig
from kestrel_nb.plugins.builtin_tools.files import FileRead, FileWrite
from kestrel_nb.plugins.builtin_tools.shell_exec import ShellExec
from kestrel_nb.plugins.core_tools.plugin import core_tools
from kestrel_nb.plugins.core_tools.settings import CoreSettings
from kestrel_nb.protocol.codec import parse_call
from kestrel_nb.runtime.tool_calls import CallOutcome
from kestrel_nb.testing import ScriptedModel

OUTSIDE = "a thing that lies outside"
INSIDE = "a thing that lies inside"
READERS = ("read_file", "file-read", "grep")
LISTERS = ("list_dir", "glob")
WRITERS = ("write_file", "file-write", "file-append", "edit_file")
SHELLS = ("shell", "shell-exec")
TOOLS = (*READERS, *LISTERS, *WRITERS, *SHELLS)
_STEALS = 'ls -a; for f in *; do [ -f "$f" ] && cat "$f"; done; true'
_ARGUMENTS: dict[str, dict[str, Any]] = {
    "read_file": {},
    "file-read": {},
    "list_dir": {},
    "glob": {"pattern": "**"},
    "grep": {"pattern": "."},
    "write_file": {"content": "w"},
    "edit_file": {"old_string": "a", "new_string": "b"},
    "file-write": {"content": "w"},
    "file-append": {"content": "w", "append": True},
    "shell": {"command": _STEALS},
    "shell-exec": {"command": _STEALS},
}
_ids = itertools.count()


class World:
    """``base``/ROOT is the workspace (or a link to it), built from a row's ``fs``; all else in ``base`` is outside."""

    def __init__(self, base: Path, fs: Iterable[str] = (), *, restrict: bool = True, linked: bool = False) -> None:
        self.base = base
        self.real = base / ("REAL" if linked else "ROOT")
        self.root = base / "ROOT"
        self.real.mkdir(parents=True)
        if linked:
            self.root.symlink_to("REAL")
        for outside in ("OUT/f", "f", "target", "ROOT_private/target", "ROOT-private/secret.txt", "cousin/target"):
            self._file(base / outside, OUTSIDE)
        for entry in fs:
            self._add(entry)
        settings = CoreSettings(restrict_to_workspace=restrict)
        config = BuiltInToolConfig()
        tools = [*core_tools(settings), FileRead(config), FileWrite(config), ShellExec(config)]
        self.stage = Stage(ScriptedModel([]), tools, default_workspace=str(self.root))

    def text(self, template: str) -> str:
        """``template`` with the corpus' names for places filled in."""
        places = {"$OUT": self.base / "OUT", "$PARENT": self.base, "$ABS": self.root}
        for name, place in places.items():
            template = template.replace(name, str(place))
        return template

    def _add(self, entry: str) -> None:
        if entry.startswith("SIBLING "):
            return self._file(self.base / entry.removeprefix("SIBLING "), OUTSIDE)
        name, link, target = self.text(entry).partition(" => ")
        path = self.real / name.removesuffix(" FIFO")
        if link:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(target)
        elif entry.endswith(" FIFO"):
            os.mkfifo(path)
        elif entry.endswith("/"):
            path.mkdir(parents=True)
        else:
            self._file(path, INSIDE)
        return None

    def _file(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")

    async def call(self, tool: str, path: str | None = None, **more: Any) -> CallOutcome:
        """One call of ``tool`` (file-append: file-write that appends) about ``path``."""
        args = {**_ARGUMENTS[tool], **more}
        if path is not None:
            args["cwd" if tool in SHELLS else "path"] = path
        name = "file-write" if tool == "file-append" else tool
        return await self.stage.session.use_tool(parse_call(f"call_{next(_ids)}", name, json.dumps(args)))

    def outside(self) -> str:
        """A hash over everything outside: names, kinds, contents, targets of links."""
        digest = hashlib.sha256()
        for path, status in sorted(_below(self.base, leave_out=self.real)):
            digest.update(
                f"{path}\0{stat.S_IFMT(status.st_mode)}\0{status.st_size}\0".encode("utf-8", "surrogateescape")
            )
            if stat.S_ISREG(status.st_mode):
                digest.update(Path(path).read_bytes())
            elif stat.S_ISLNK(status.st_mode):
                digest.update(os.fsencode(os.readlink(path)))
        return digest.hexdigest()

    def inside(self) -> dict[str, str]:
        """The regular files of the workspace and what is in them."""
        found = {}
        for path, status in _below(self.real):
            if stat.S_ISREG(status.st_mode):
                found[os.path.relpath(path, self.real)] = Path(path).read_text("utf-8", "replace")
        return found


def _below(folder: Path, leave_out: Path | None = None) -> Iterator[tuple[str, os.stat_result]]:
    for place, folders, files in os.walk(folder):
        if leave_out is not None and place == str(leave_out.parent):
            folders.remove(leave_out.name)
        for name in [*folders, *files]:
            path = os.path.join(place, name)
            yield path, os.lstat(path)


def told(outcome: CallOutcome) -> str:
    """Everything that a call gave to anyone."""
    return f"{outcome.content}\n{json.dumps(outcome.data, ensure_ascii=False)}"


def reveals(outcome: CallOutcome) -> bool:
    """Whether a call gave away what lies outside."""
    passwd = Path("/etc/passwd").read_text().split("\n")[0]
    return any(secret in told(outcome) for secret in (OUTSIDE, passwd, json.dumps(passwd)[1:-1]))


def is_violation(outcome: CallOutcome) -> bool:
    """Whether the tool refused to leave the workspace."""
    return outcome.state == "failed" and outcome.content.startswith("SANDBOX_VIOLATION")


def failed(outcome: CallOutcome) -> bool:
    """Whether the call did not do what it was asked."""
    data = outcome.data
    unstarted = isinstance(data, Mapping) and "exitCode" in data and data["exitCode"] is None
    return outcome.state == "failed" or outcome.is_error or unstarted
