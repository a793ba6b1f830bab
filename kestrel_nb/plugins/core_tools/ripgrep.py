"""ripgrep as an adviser: it names the files of a large tree that a search has to look at.

It is asked with a coarser pattern and fewer rules than ours, so that what it leaves out can't match. What it names is
looked up by the walk and matched by our own engine, as every file is: what is found never depends on it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ...sandbox.paths import printable_name
from ...sandbox.places import Place
from ...sandbox.workspace import Workspace

ALONE_FILES = 500  # so many are looked at before ripgrep is asked: starting it takes as long
ALONE_BYTES = 4 << 20
WAIT_S = 0.05
_NAMES = re.compile(r"(\*\*/)?\*\.\w+\Z", re.ASCII)  # patterns of names that mean the same to both
_HARMLESS = re.compile(r".*\(os error (2|13)\)")  # vanished, or not to be read: so it is for us
_Tick = Callable[[], None]


def find_ripgrep(root: Path) -> str | None:
    """The program on PATH, None when it is missing. One inside the workspace does not count: tools write there."""
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        program = shutil.which("rg", path=folder) if os.path.isabs(folder) else None
        if program and not Path(os.path.realpath(program)).is_relative_to(root) and not _is_below(program, root):
            return program
    return None


def _is_below(program: str, root: Path) -> bool:
    return Path(os.path.realpath(os.path.dirname(program))).is_relative_to(root)


class Advice:
    """Which files below ``start`` to look at: all, until the search turns out to be large and ripgrep is asked.

    ``hits`` tells in how many files something was found.
    """

    def __init__(
        self,
        workspace: Workspace,
        start: Path,
        expression: str | None,
        *,
        tick: _Tick,
        hidden: bool = False,
        names: str | None = None,
        after_files: int = ALONE_FILES,
        hits: Callable[[], int] = lambda: 0,
    ) -> None:
        self._workspace = workspace
        self._start = start
        self._expression = expression
        self._tick = tick
        self._hidden = hidden
        self._name_pattern = names
        self._hits = hits
        self._seen, self._seen_bytes, self._after_files = 0, 0, after_files
        self._files: frozenset[str] | None = None
        self._folders: frozenset[str] = frozenset()

    def holds(self, folder: str) -> bool:
        """False when no file in or below ``folder`` (below the start) can match."""
        return self._files is None or folder in self._folders

    def among(self, folder: str, names: Sequence[str]) -> Iterator[str]:
        """Those of the files ``names`` in ``folder`` that may match, as far as is known when it is their turn."""
        prefix = f"{folder}/" if folder else ""
        for name in names:
            if self._expression and (self._seen >= self._after_files or self._seen_bytes > ALONE_BYTES):
                self._hear(self._expression)
            if self._files is None or prefix + printable_name(name) in self._files:
                yield name

    def saw(self, size: int) -> None:
        """Note that a file of so many bytes was looked at."""
        self._seen += 1
        self._seen_bytes += size

    def _hear(self, expression: str) -> None:
        self._expression = None  # it is asked once
        if self._hits() * 2 > self._seen:
            return  # where most files match, to be told which costs more than it saves
        self._files = self._ask(expression)
        self._folders = frozenset(folder for path in self._files or () for folder in _above(path))

    def _ask(self, expression: str) -> frozenset[str] | None:
        program = find_ripgrep(self._workspace.root)
        if not program:
            return None
        names = ["-g", self._name_pattern] if self._name_pattern and _NAMES.match(self._name_pattern) else []
        hidden = ["--hidden", "-g", "!.git/"] if self._hidden else []
        command = [program, "--no-config", "--no-ignore", "--text", "--encoding=none", "--color=never"]
        command += [
            *hidden,
            *names,
            "--files-with-matches",
            "--null",
            "-e",
            f"(?-u)(?:{expression})",
            "--",
            "./",
        ]
        try:
            with self._workspace.open_folder(self._start) as place:
                output = _output(command, _path_of(place), self._tick)
        except OSError:
            return None
        return None if output is None else _names(output)


def _path_of(place: Place) -> str:
    """A path that leads to an open folder itself, where there is such a thing."""
    return f"/proc/self/fd/{place}" if isinstance(place, int) else place


def _output(command: list[str], folder: str, tick: _Tick) -> bytes | None:
    """What the command prints; None when it fails. It is ended when ``tick`` raises."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=folder, env={}, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, start_new_session=True
    ) as process:
        try:
            while True:
                try:
                    output, errors = process.communicate(timeout=WAIT_S)
                    break
                except subprocess.TimeoutExpired:
                    tick()
        except BaseException:
            process.kill()
            raise
    lines = errors.decode("utf-8", "replace").splitlines()
    well = process.returncode in (0, 1) or (process.returncode == 2 and lines)
    return output if well and all(_HARMLESS.fullmatch(line) for line in lines) else None


def _names(output: bytes) -> frozenset[str] | None:
    """The paths, as a walk shows them; None when this is no list of them."""
    if not output:
        return frozenset()
    paths = output.split(b"\0")
    if paths.pop() or not all(path.startswith(b"./") for path in paths):
        return None
    return frozenset(printable_name(os.fsdecode(path[2:])) for path in paths)


def _above(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]
