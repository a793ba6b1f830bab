"""file-read and file-write."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from ...protocol.errors import ToolCallError
from ...protocol.messages import JsonObject
from ...protocol.tools import DiffPreview, ToolSchema
from ...runtime.tools import ToolContext, ToolExecutionResult
from ...sandbox.output import size_text
from ...sandbox.paths import explained
from ...sandbox.workspace import Workspace
from ..changes import Change, current
from ..shapes import parameters
from .answers import answer
from .config import BuiltInToolConfig
from .encodings import ENCODINGS, to_bytes, to_text
from .sandbox import SandboxFolder

MAX_READ_BYTES = 2_000_000  # of one file, as read_file; as hex it still fits into what clients are sent
_TRIES = 5  # to append while another process writes to the same file
_PATH: JsonObject = {"type": "string", "minLength": 1, "description": "File path, relative to the sandbox folder."}
_ENCODING: JsonObject = {
    "type": "string",
    "enum": list(ENCODINGS),
    "default": "utf-8",
    "description": "How content carries the bytes. Default utf-8.",
}
_appending = threading.Lock()  # two runs of this process must not both build on the same old file


class FileRead:
    """``data``: path (relative to the sandbox folder), content (in the encoding asked for), size (bytes of the file).

    The content is the file to the byte: a byte order mark and line ends stay. Files of more than 2 MB are refused, and
    so is what is no regular file. Raises SandboxViolationError, ToolCallError.
    """

    schema = ToolSchema(
        name="file-read",
        description="Read a whole file of the sandbox folder, as UTF-8 text or, for other bytes, as base64 or hex.",
        category="filesystem",
        parallel_safe=True,
        deterministic=False,
        read_only=True,
        parameters=parameters({"path": _PATH, "encoding": _ENCODING}, required=("path",)),
    )

    def __init__(self, config: BuiltInToolConfig) -> None:
        self._folder = SandboxFolder(config)

    def execute(self, args: Mapping[str, Any], context: ToolContext) -> ToolExecutionResult:
        """Read the file."""
        workspace = self._folder(context)
        shown = workspace.shown(workspace.resolve(args["path"]))
        with workspace.open_file(args["path"]) as file, explained(shown):
            data = file.read(MAX_READ_BYTES + 1)
        if len(data) > MAX_READ_BYTES:
            raise ToolCallError(
                f"{shown} is larger than {size_text(MAX_READ_BYTES)}; read_file or a command gives a part of it",
                code="file_too_large",
            )
        content = to_text(data, args.get("encoding") or "utf-8", shown)
        return answer({"path": shown, "content": content, "size": len(data)})


class FileWrite:
    """``data``: path (relative to the sandbox folder), bytesWritten (of content), append, success (always true).

    Missing folders are made. The file is replaced in one step, when appending too: it holds all of the content or is
    as it was. Up to 16 MB before and after. Raises SandboxViolationError, ToolCallError.
    """

    schema = ToolSchema(
        name="file-write",
        description=(
            "Write a file of the sandbox folder, or append to it; missing folders are made. "
            "content is text, or bytes as base64 or hex."
        ),
        category="filesystem",
        deterministic=False,
        parameters=parameters(
            {
                "path": _PATH,
                "content": {"type": "string", "description": "What to write."},
                "encoding": _ENCODING,
                "append": {
                    "type": "boolean",
                    "default": False,
                    "description": "Add to the end instead of replacing the file. Default false.",
                },
            },
            required=("path", "content"),
        ),
    )

    def __init__(self, config: BuiltInToolConfig) -> None:
        self._folder = SandboxFolder(config)

    def preview(self, args: Mapping[str, Any], context: ToolContext) -> DiffPreview:
        """The diff from what is there now."""
        return self._change(self._folder(context), args).preview()

    def execute(self, args: Mapping[str, Any], context: ToolContext) -> ToolExecutionResult:
        """Write the file in one step, or leave it as it is."""
        workspace, append = self._folder(context), bool(args.get("append"))
        with _appending:
            change = self._written(workspace, args, context, _TRIES if append else 1)
        added = len(change.new) - (len(change.old.data or b"") if append else 0)
        return answer({"path": change.shown, "bytesWritten": added, "append": append, "success": True})

    def left(self, args: Mapping[str, Any], context: ToolContext) -> str:
        """The file as it is now."""
        return current(self._folder(context), args["path"]).state

    def repeat(
        self, args: Mapping[str, Any], context: ToolContext, recorded: ToolExecutionResult, left: frozenset[str]
    ) -> None:
        """Write it once more; a file that has become another one since then stays as it is, and nothing is appended
        twice."""
        workspace, known = self._folder(context), frozenset[str]() if args.get("append") else left
        with _appending:
            self._change(workspace, args).repeat(workspace, args["path"], context, recorded, known)

    def _written(self, workspace: Workspace, args: Mapping[str, Any], context: ToolContext, tries: int) -> Change:
        while True:
            change = self._change(workspace, args)
            change.old.check(context)
            tries -= 1
            try:
                change.write(workspace, args["path"], context)
                return change
            except ToolCallError as error:
                if error.code != "file_changed" or not tries:
                    raise

    def _change(self, workspace: Workspace, args: Mapping[str, Any]) -> Change:
        new = to_bytes(args["content"], args.get("encoding") or "utf-8")
        old = current(workspace, args["path"])
        if args.get("append"):
            new = (old.data or b"") + new
        return Change(old, new)
