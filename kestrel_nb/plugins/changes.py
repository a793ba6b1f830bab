"""Changing one file: what is there, what a person is shown of the change, and that nothing else is written."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from ..protocol.errors import ToolCallError
from ..protocol.tools import DiffPreview
from ..runtime.tools import ToolContext, ToolExecutionResult
from ..sandbox.output import size_text
from ..sandbox.paths import explained
from ..sandbox.workspace import ABSENT, Seen, Workspace, seen
from .core_tools.diff import unified
from .core_tools.text import decode

MAX_TOLD_DIFF = 40_000  # characters of a diff in a tool's data: as much as a record shows
MAX_CHANGED_BYTES = 16_000_000  # of a file before or after a change: it is held in memory, and shown as a diff
_NO_FILE = hashlib.sha256(b"kestrel: there is no such file").hexdigest()

_left: dict[str, str] = {}  # the files that were made or changed where a recording is played, and their digests


@dataclass(frozen=True, slots=True)
class Current:
    """A file as it is: its workspace path, its bytes (None when it is not there), and its state, to know it again."""

    shown: str
    data: bytes | None
    seen: Seen

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes; that of a fixed text when there is no file."""
        return _NO_FILE if self.data is None else hashlib.sha256(self.data).hexdigest()

    @property
    def state(self) -> str:
        """Its path and its digest."""
        return f"{self.shown} {self.digest}"

    def check(self, context: ToolContext) -> None:
        """Raise ToolCallError when a person was shown another file than this one, or another state of it."""
        shown = context.preview
        if isinstance(shown, DiffPreview) and (shown.path, shown.digest or self.digest) != (self.shown, self.digest):
            raise ToolCallError(
                f"{self.shown} was changed after the diff was shown, so it was left alone; read it and try again",
                code="file_changed",
            )


@dataclass(frozen=True, slots=True)
class Change:
    """One file as it is and as it shall be. Raises ToolCallError when it would be too large."""

    old: Current
    new: bytes
    places: tuple[int, ...] = ()  # lines of the old file where a replacement begins

    def __post_init__(self) -> None:
        check_size(self.shown, len(self.new), would_be=True)

    @property
    def shown(self) -> str:
        """The workspace path."""
        return self.old.shown

    def preview(self) -> DiffPreview:
        """The change as a diff."""
        diff, added, removed = unified(self.shown, _text(self.old.data), _text(self.new))
        return DiffPreview(path=self.shown, diff=diff, added=added, removed=removed, digest=self.old.digest)

    def told(self) -> dict[str, str]:
        """The change as a diff for a tool's data; nothing when it is empty or too long to be read."""
        diff = self.preview().diff
        return {"diff": diff} if 0 < len(diff) <= MAX_TOLD_DIFF else {}

    def repeat(
        self,
        workspace: Workspace,
        path: str,
        context: ToolContext,
        recorded: ToolExecutionResult,
        left: frozenset[str] = frozenset(),
    ) -> None:
        """Make a recorded change once more where nothing else is lost by it.

        That is where no file is, where it is just the change that ``recorded`` tells of, in a file as an earlier change
        of the recording left it here, and in one whose ``state`` is among those ``left``.
        """
        place, old = str(workspace.resolve(path)), self.old
        told, diff = recorded.data if isinstance(recorded.data, Mapping) else {}, self.told().get("diff")
        known = old.data is None or old.state in left or _left.get(place) == old.digest
        if known or (diff and diff == told.get("diff")):
            self.write(workspace, path, context)
            _left[place] = hashlib.sha256(self.new).hexdigest()

    def write(self, workspace: Workspace, path: str, context: ToolContext) -> bool:
        """Make the change; True when the file is new.

        Raises ToolCallError, and then the file is as it was: also when it is not the one that was shown or read.
        """
        self.old.check(context)
        context.signal.raise_if_cancelled()
        return workspace.write_file(path, self.new, expected=self.old.seen)


def current(workspace: Workspace, path: str) -> Current:
    """The file ``path``, there or not. Raises ToolCallError when it can't be changed."""
    shown = workspace.shown(workspace.resolve(path))
    if path.endswith("/"):
        raise ToolCallError('path: must name a file; it ends in "/", so it names a folder')
    try:
        with workspace.open_file(path) as file, explained(shown):
            found, data = seen(file), file.read(MAX_CHANGED_BYTES + 1)
    except ToolCallError as error:
        if error.code == "file_not_found":
            return Current(shown, None, ABSENT)
        raise
    check_size(shown, len(data))
    return Current(shown, data, found)


def check_size(shown: str, size: int, *, would_be: bool = False) -> None:
    """Raise ToolCallError when a file of ``size`` bytes is too large to be changed, or to be the outcome."""
    if size > MAX_CHANGED_BYTES:
        raise ToolCallError(
            f"{shown} {'would be' if would_be else 'is'} larger than {size_text(MAX_CHANGED_BYTES)}; "
            "change it with a command instead",
            code="file_too_large",
        )


def _text(data: bytes | None) -> str | None:
    """The file as text for a diff: "" for a missing one, None for a binary one."""
    if not data:
        return ""
    decoded = decode(data)
    return decoded.readable if decoded else None
