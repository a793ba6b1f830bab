"""write_file and edit_file, and what a person is shown before they change a file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...protocol.errors import ToolCallError
from ...protocol.tools import DiffPreview, ToolSchema
from ...runtime.tools import ToolContext, ToolExecutionResult
from ...sandbox.output import plural, size_text
from ...sandbox.paths import explained
from ...sandbox.workspace import Workspace
from ..shapes import parameters, table
from .diff import unified
from .files import PATH, decoded_or_refused
from .replacing import replaced
from .settings import CoreSettings
from .text import Decoded, decode

MAX_EDIT_BYTES = 16_000_000
ABSENT = hashlib.sha256(b"kestrel: there is no such file").hexdigest()


@dataclass(frozen=True, slots=True)
class Change:
    """One file as it is (None when it is not there) and as it shall be."""

    shown: str
    old: bytes | None
    new: bytes
    places: tuple[int, ...] = ()  # lines of the old file where a replacement begins

    @property
    def digest(self) -> str:
        """SHA-256 of the old bytes; ABSENT when there is no file."""
        return ABSENT if self.old is None else hashlib.sha256(self.old).hexdigest()

    def preview(self) -> DiffPreview:
        """The change as a diff."""
        diff, added, removed = unified(self.shown, _text(self.old), _text(self.new))
        return DiffPreview(path=self.shown, diff=diff, added=added, removed=removed, digest=self.digest)

    def check(self, context: ToolContext) -> None:
        """Raise ToolCallError when a person was shown another state of the file than this one."""
        shown = context.preview
        if isinstance(shown, DiffPreview) and shown.digest and shown.digest != self.digest:
            raise ToolCallError(
                f"{self.shown} was changed after the diff was shown, so it was left alone; read it and try again",
                code="file_changed",
            )


def _text(data: bytes | None) -> str | None:
    """The file as text for a diff: "" for a missing one, None for a binary one."""
    if not data:
        return ""
    decoded = decode(data)
    return decoded.text if decoded else None


class WriteFile:
    """``data``: columns path, bytes and created, one row."""

    schema = ToolSchema(
        name="write_file",
        description=(
            "Create a text file in the workspace, or replace all of it; missing folders are made. "
            "To change a part of a file use edit_file."
        ),
        category="filesystem",
        parameters=parameters(
            {"path": PATH, "content": {"type": "string", "description": "The whole text of the file."}},
            required=("path", "content"),
        ),
    )

    def __init__(self, settings: CoreSettings) -> None:
        self._settings = settings

    def preview(self, args: Mapping[str, Any], context: ToolContext) -> DiffPreview:
        """The diff from what is there now."""
        return self._change(self._settings.workspace(context), args).preview()

    def execute(self, args: Mapping[str, Any], context: ToolContext) -> ToolExecutionResult:
        """Write the file in one step."""
        workspace = self._settings.workspace(context)
        change = self._change(workspace, args)
        change.check(context)
        context.signal.raise_if_cancelled()
        created = workspace.write_file(args["path"], change.new)
        verb = "created" if created else "replaced"
        return ToolExecutionResult(
            content=f"{verb} {change.shown}, {size_text(len(change.new))}",
            data=table(("path", "bytes", "created"), [[change.shown, len(change.new), created]]),
        )

    def _change(self, workspace: Workspace, args: Mapping[str, Any]) -> Change:
        if args["path"].endswith("/"):
            raise ToolCallError('path: must name a file; it ends in "/", so it names a folder')
        try:
            new = str(args["content"]).encode("utf-8")
        except UnicodeEncodeError:
            raise ToolCallError("content: must be valid Unicode, without lone surrogates") from None
        shown, old = _current(workspace, args["path"])
        return Change(shown, old, new)


class EditFile:
    """``data``: columns path and line, a row for each replacement."""

    schema = ToolSchema(
        name="edit_file",
        description=(
            "Replace exact text in a file of the workspace. old_string must occur just once, unless replace_all is "
            "set: add lines around it until it is unique. Line ends, byte order mark and encoding are kept."
        ),
        category="filesystem",
        parameters=parameters(
            {
                "path": PATH,
                "old_string": {
                    "type": "string",
                    "description": "The text to replace, exactly as it is, with indentation.",
                },
                "new_string": {"type": "string", "description": "The text to put there, taken literally."},
                "replace_all": {"type": "boolean", "description": "Replace every occurrence. Default false."},
            },
            required=("path", "old_string", "new_string"),
        ),
    )

    def __init__(self, settings: CoreSettings) -> None:
        self._settings = settings

    def preview(self, args: Mapping[str, Any], context: ToolContext) -> DiffPreview:
        """The diff that the edit would make. Raises ToolCallError when it can't be made."""
        return self._change(self._settings.workspace(context), args).preview()

    def execute(self, args: Mapping[str, Any], context: ToolContext) -> ToolExecutionResult:
        """Make the edit; the file is replaced in one step, or stays as it is."""
        workspace = self._settings.workspace(context)
        change = self._change(workspace, args, context)
        context.signal.raise_if_cancelled()
        workspace.write_file(args["path"], change.new)
        lines = ", ".join(f"{line:,}" for line in change.places[:10]) + ("…" if len(change.places) > 10 else "")
        noun = "line" if len(change.places) == 1 else "lines"
        return ToolExecutionResult(
            content=f"edited {change.shown}: {plural(len(change.places), 'replacement')} at {noun} {lines}",
            data=table(("path", "line"), [[change.shown, line] for line in change.places]),
        )

    def _change(self, workspace: Workspace, args: Mapping[str, Any], context: ToolContext | None = None) -> Change:
        shown, old = _current(workspace, args["path"])
        if context:
            Change(shown, old, b"").check(context)  # a changed file explains itself better than a text not found
        if old is None:
            raise ToolCallError(f"File not found: {shown}; write_file makes new files", code="file_not_found")
        decoded = decoded_or_refused(old, shown)
        if decoded.encode(decoded.text) != old:
            raise ToolCallError(f"{shown}: its encoding can't be kept; convert the file to UTF-8 first")
        text, places = replaced(
            decoded.text, args["old_string"], args["new_string"], every=bool(args.get("replace_all")), shown=shown
        )
        return Change(shown, old, _encoded(decoded, text, shown), places)


def _encoded(decoded: Decoded, text: str, shown: str) -> bytes:
    try:
        return decoded.encode(text)
    except UnicodeEncodeError as error:
        character = error.object[error.start].encode("utf-8", "backslashreplace").decode()
        raise ToolCallError(
            f'new_string: "{character}" can\'t be written in {decoded.encoding}, the encoding of {shown}; '
            "the file was left alone"
        ) from None


def _current(workspace: Workspace, path: str) -> tuple[str, bytes | None]:
    """The file's name and bytes, None when there is none. Raises ToolCallError when it can't be changed."""
    shown = workspace.shown(workspace.resolve(path))
    try:
        with workspace.open_file(path) as file, explained(shown):
            data = file.read(MAX_EDIT_BYTES + 1)
    except ToolCallError as error:
        if error.code == "file_not_found":
            return shown, None
        raise
    if len(data) > MAX_EDIT_BYTES:
        raise ToolCallError(f"{shown} is larger than {size_text(MAX_EDIT_BYTES)}; change it with a command instead")
    return shown, data
