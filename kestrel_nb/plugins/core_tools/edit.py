"""write_file and edit_file, and what a person is shown before they change a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...protocol.errors import ToolCallError
from ...protocol.tools import DiffPreview, ToolSchema
from ...runtime.tools import ToolContext, ToolExecutionResult
from ...sandbox.output import plural, size_text
from ...sandbox.workspace import Workspace
from ..changes import Change, current
from ..shapes import parameters, table
from .files import PATH, decoded_or_refused
from .replacing import replaced
from .settings import CoreSettings
from .text import Decoded

_MARK = "\ufeff"  # a byte order mark that came along with the text is not put into the file again


class WriteFile:
    """``data``: columns path, bytes and created, one row; ``diff`` is the change unless it is very long."""

    schema = ToolSchema(
        name="write_file",
        description=(
            "Create a text file in the workspace, or replace all of it; missing folders are made. "
            "To change a part of a file use edit_file."
        ),
        category="filesystem",
        deterministic=False,  # what comes of it depends on what was there
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
        created = change.write(workspace, args["path"], context)
        verb = "created" if created else "replaced"
        return ToolExecutionResult(
            content=f"{verb} {change.shown}, {size_text(len(change.new))}",
            data=table(("path", "bytes", "created"), [[change.shown, len(change.new), created]], **change.told()),
        )

    def left(self, args: Mapping[str, Any], context: ToolContext) -> str:
        """The file as it is now."""
        return current(self._settings.workspace(context), args["path"]).state

    def repeat(
        self, args: Mapping[str, Any], context: ToolContext, recorded: ToolExecutionResult, left: frozenset[str]
    ) -> None:
        """Write it once more; a file that has become another one since then stays as it is."""
        workspace = self._settings.workspace(context)
        self._change(workspace, args).repeat(workspace, args["path"], context, recorded, left)

    def _change(self, workspace: Workspace, args: Mapping[str, Any]) -> Change:
        try:
            new = str(args["content"]).encode("utf-8")
        except UnicodeEncodeError:
            raise ToolCallError("content: must be valid Unicode, without lone surrogates") from None
        return Change(current(workspace, args["path"]), new)


class EditFile:
    """``data``: columns path and line, a row for each replacement; ``diff`` is the change unless it is very long."""

    schema = ToolSchema(
        name="edit_file",
        description=(
            "Replace exact text in a file of the workspace. old_string must occur just once, unless replace_all is "
            "set: add lines around it until it is unique. Line ends, byte order mark and encoding are kept."
        ),
        category="filesystem",
        deterministic=False,  # what comes of it depends on what was there
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
        change.write(workspace, args["path"], context)
        lines = ", ".join(f"{line:,}" for line in change.places[:10]) + ("…" if len(change.places) > 10 else "")
        noun = "line" if len(change.places) == 1 else "lines"
        return ToolExecutionResult(
            content=f"edited {change.shown}: {plural(len(change.places), 'replacement')} at {noun} {lines}",
            data=table(("path", "line"), [[change.shown, line] for line in change.places], **change.told()),
        )

    def left(self, args: Mapping[str, Any], context: ToolContext) -> str:
        """The file as it is now."""
        return current(self._settings.workspace(context), args["path"]).state

    def repeat(
        self, args: Mapping[str, Any], context: ToolContext, recorded: ToolExecutionResult, left: frozenset[str]
    ) -> None:
        """Make the edit once more where it is the same edit; any other file stays as it is."""
        workspace = self._settings.workspace(context)
        self._change(workspace, args).repeat(workspace, args["path"], context, recorded)

    def _change(self, workspace: Workspace, args: Mapping[str, Any], context: ToolContext | None = None) -> Change:
        found = current(workspace, args["path"])
        shown, old = found.shown, found.data
        if context:
            found.check(context)  # a changed file explains itself better than a text not found
        if old is None:
            raise ToolCallError(f"File not found: {shown}; write_file makes new files", code="file_not_found")
        decoded = decoded_or_refused(old, shown)
        if decoded.encode(decoded.text) != old:
            raise ToolCallError(f"{shown}: its encoding can't be kept; convert the file to UTF-8 first")
        mark = _MARK if decoded.mark else ""
        wanted = (args["old_string"].removeprefix(mark), args["new_string"].removeprefix(mark))
        _check_unicode(wanted[1])
        text, places = replaced(decoded.text, *wanted, every=bool(args.get("replace_all")), shown=shown)
        return Change(found, _encoded(decoded, text, shown), places)


def _check_unicode(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ToolCallError("new_string: must be valid Unicode, without lone surrogates") from None


def _encoded(decoded: Decoded, text: str, shown: str) -> bytes:
    try:
        return decoded.encode(text)
    except UnicodeEncodeError as error:
        raise ToolCallError(
            f'new_string: "{error.object[error.start]}" can\'t be written in {decoded.encoding}, the encoding of '
            f"{shown}; the file was left alone"
        ) from None
