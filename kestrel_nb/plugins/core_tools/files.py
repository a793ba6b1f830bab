"""read_file and list_dir."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from ...protocol.errors import ToolCallError
from ...protocol.tools import ToolSchema
from ...runtime.signals import CancelSignal
from ...runtime.tools import ToolContext, ToolExecutionResult
from ...sandbox.output import plural, size_text
from ...sandbox.paths import explained, printable_name
from ...sandbox.places import stat_in
from ...sandbox.walk import Walked
from ...sandbox.workspace import Workspace
from ..shapes import parameters, table
from .settings import CoreSettings
from .text import BINARY_SAMPLE, Decoded, decode, lines_of, whole_characters

MAX_BYTES = 2_000_000  # of one result, the specification's 2 MB
MAX_LINES = 2_000  # of one result, the specification's
MAX_ENTRIES = 2_000  # shown of one folder
PATH = {"type": "string", "minLength": 1, "description": "File path, relative to the workspace."}
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Page:
    """Lines of a file, from line ``offset`` on, and how many lines the file has; the last lacks ``cut`` bytes."""

    lines: list[str]
    offset: int
    total: int
    encoding: str
    guessed: bool = False
    cut: int = 0


class ReadFile:
    """``data``: columns line and text, beside path, encoding, offset and total_lines."""

    schema = ToolSchema(
        name="read_file",
        description=(
            "Read a text file from the workspace, with line numbers. Long files come in pages: go on with offset. "
            "Binary files are refused."
        ),
        category="filesystem",
        parallel_safe=True,
        deterministic=False,
        read_only=True,
        parameters=parameters(
            {
                "path": PATH,
                "offset": {"type": "integer", "minimum": 1, "description": "First line, 1-based. Default 1."},
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "description": f"How many lines; at most and by default {MAX_LINES}.",
                },
            },
            required=("path",),
        ),
    )

    def __init__(self, settings: CoreSettings) -> None:
        self._settings = settings

    def execute(self, args: Mapping[str, Any], context: ToolContext) -> ToolExecutionResult:
        """Read one page of a file."""
        workspace = self._settings.workspace(context)
        shown = workspace.shown(workspace.resolve(args["path"]))
        offset, limit = int(args.get("offset") or 1), min(int(args.get("limit") or MAX_LINES), MAX_LINES)
        with workspace.open_file(args["path"]) as file, explained(shown):
            page = read_page(file, shown, offset, limit, context.signal)
        if page.total and offset > page.total:
            raise ToolCallError(f"{shown} has only {plural(page.total, 'line')}; offset {offset:,} is beyond its end")
        return self._result(shown, page)

    def _result(self, shown: str, page: Page) -> ToolExecutionResult:
        kept = _fitting(page, self._settings.max_output_chars)
        rows: list[list[Any]] = [[page.offset + index, line] for index, line in enumerate(kept)]
        body = "\n".join(f"{number:>6}\t{line}" for number, line in rows)
        head = _head(shown, page, len(kept))
        return ToolExecutionResult(
            content=head + (body if rows else f"{shown} is empty"),
            data=table(
                ("line", "text"),
                rows,
                path=shown,
                encoding=page.encoding,
                offset=page.offset,
                total_lines=page.total,
            ),
        )


def _head(shown: str, page: Page, count: int) -> str:
    """What must be said before the lines: that they are not all, or that the encoding is a guess."""
    last = page.offset + count - 1
    notes = []
    if page.guessed or page.encoding != "utf-8":
        notes.append(f"{page.encoding}{', guessed' if page.guessed else ''}")
    if last < page.total:
        notes.append(f"lines {page.offset:,} to {last:,} of {page.total:,}; go on with offset={last + 1}")
    return f"[{shown}: {'; '.join(notes)}]\n" if notes else ""


def _fitting(page: Page, limit: int) -> list[str]:
    """As many lines as fit into ``limit`` characters, at least the first, which is cut when it alone is too long."""
    used, lines = 0, page.lines
    for index, line in enumerate(lines):
        used += len(line) + 8
        whole = index < len(lines) - 1 or not page.cut
        if used > limit or not whole:
            size = f"of {len(line):,} characters" if whole else f"characters of {len(line.encode()) + page.cut:,} bytes"
            return lines[:index] or [f"{line[:limit]} [cut: {min(limit, len(line)):,} {size} of this line shown]"]
    return lines


def read_page(file: BinaryIO, shown: str, offset: int, limit: int, signal: CancelSignal) -> Page:
    """``limit`` lines from line ``offset`` on. Raises ToolCallError for binary files."""
    data = file.read(MAX_BYTES + 1)
    if len(data) <= MAX_BYTES:
        whole = decoded_or_refused(data, shown)
        lines = lines_of(whole.readable)
        return Page(lines[offset - 1 : offset - 1 + limit], offset, len(lines), whole.encoding, whole.guessed)
    sample = decode(data[:BINARY_SAMPLE].rpartition(b"\n")[0] or data[:BINARY_SAMPLE], guess=False)
    if sample is None or sample.encoding.startswith(("utf-16", "utf-32")):
        kind = "binary" if sample is None else f"{sample.encoding} text"
        raise ToolCallError(f"{shown} is {kind} of more than 2 MB; convert it or take a part of it first")
    return _page_of_large(file, shown, data, sample.mark, offset, limit, signal)


def _page_of_large(
    file: BinaryIO, shown: str, data: bytes, mark: bytes, offset: int, limit: int, signal: CancelSignal
) -> Page:
    """Goes through the file in blocks, keeps only what is asked for, and counts the lines.

    What is written to the file meanwhile does not count: it may be more than can be read.
    """
    end = os.fstat(file.fileno()).st_size
    kept, last, number, data = bytearray(), 0, 1, data[len(mark) :]
    cut, ended = 0, True
    while data:
        signal.raise_if_cancelled()
        count, start = data.count(b"\n"), 0
        while number + count >= offset and number < offset + limit and start < len(data):
            stop = data.find(b"\n", start) + 1 or len(data)
            if number >= offset and len(kept) < MAX_BYTES:
                kept += data[start:stop]
                last = number
            elif number == last:
                cut += len(data[start:stop].rstrip(b"\r\n"))
            number += data[stop - 1] == 0x0A
            start = stop
        number += data.count(b"\n", start) if start else count
        ended = data.endswith(b"\n")
        data = file.read(max(0, min(_BLOCK, end - file.tell())))
    text = decode(whole_characters(bytes(kept)))
    if text is None:
        raise ToolCallError(f"{shown}: these lines are binary; only text can be read", code="binary_file")
    return Page(lines_of(text.readable), offset, number - ended, text.encoding, text.guessed, cut)


def decoded_or_refused(data: bytes, shown: str) -> Decoded:
    """``data`` as text. Raises ToolCallError when it is binary."""
    text = decode(data)
    if text is None:
        raise ToolCallError(
            f"{shown} is a binary file ({size_text(len(data))}); only text can be read or edited", code="binary_file"
        )
    return text


class ListDir:
    """``data``: columns name, type (folder, file, link, other) and size in bytes (None for folders), beside path."""

    schema = ToolSchema(
        name="list_dir",
        description=(
            "List one folder of the workspace: folders first, then files with their sizes. Links are not followed."
        ),
        category="filesystem",
        parallel_safe=True,
        deterministic=False,
        read_only=True,
        parameters=parameters(
            {
                "path": {
                    "type": "string",
                    "minLength": 1,
                    "description": 'Folder, relative to the workspace. Default ".".',
                }
            }
        ),
    )

    def __init__(self, settings: CoreSettings) -> None:
        self._settings = settings

    def execute(self, args: Mapping[str, Any], context: ToolContext) -> ToolExecutionResult:
        """List one folder."""
        workspace = self._settings.workspace(context)
        path = args.get("path") or "."
        shown = workspace.shown(workspace.resolve(path))
        rows = _entries(workspace, path)
        head = f"{plural(len(rows), 'entry', 'entries')} in {'the workspace' if shown == '.' else shown}"
        lines = [_line(*row) for row in rows[:MAX_ENTRIES]]
        if len(rows) > MAX_ENTRIES:
            lines.append(f"[{MAX_ENTRIES:,} of {len(rows):,} shown; glob finds names by pattern]")
        return ToolExecutionResult(
            content="\n".join([head, *lines]), data=table(("name", "type", "size"), rows, path=shown)
        )


def _entries(workspace: Workspace, path: str) -> list[list[Any]]:
    for folder in workspace.walk(path, enter=lambda _: False):
        return [
            *([printable_name(name), "folder", None] for name in folder.folders),
            *sorted([*_sized(folder, folder.files), *_sized(folder, folder.links), *_sized(folder, folder.others)]),
        ]
    return []


def _sized(folder: Walked, names: tuple[str, ...]) -> list[list[Any]]:
    rows = []
    for name in names:
        try:
            status = stat_in(folder.place, name)
        except OSError:  # it vanished while we looked
            continue
        kind = "file" if stat.S_ISREG(status.st_mode) else "link" if stat.S_ISLNK(status.st_mode) else "other"
        rows.append([printable_name(name), kind, status.st_size])
    return rows


def _line(name: str, kind: str, size: int | None) -> str:
    if kind == "folder":
        return f"{name}/"
    return f"{name}  {size_text(size or 0)}" if kind == "file" else f"{name}  ({kind})"
