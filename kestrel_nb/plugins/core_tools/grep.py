"""grep: lines in the workspace, counted exactly also beyond what is shown."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from ...protocol.errors import ToolCallError
from ...protocol.tools import ToolSchema
from ...runtime.tools import ToolContext, ToolExecutionResult
from ...sandbox.output import clip, plural
from ...sandbox.walk import open_listed
from ...sandbox.workspace import Workspace
from ..shapes import parameters, table
from .match import Chunk, LineMatcher, chunks
from .patterns import NamePattern
from .search import WHERE
from .settings import CoreSettings
from .walking import Search

MAX_MATCHES = 150  # the specification's cap
MAX_FILES_SHOWN = 300
MAX_LINE = 300  # characters of a line in the text for the model
MAX_DATA_LINE = 2_000  # characters of a line in the data
MAX_CONTEXT = 20
TOTAL_S = 60.0


class OutOfTime(Exception):
    """The search took all the time it may take."""


@dataclass(slots=True)
class Tally:
    """What a search has found: the first ``room`` matches as rows and as text, and every file's count."""

    room: int
    context: int
    rows: list[list[Any]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    stopped_after_s: float | None = None

    @property
    def total(self) -> int:
        """All lines that match."""
        return sum(self.counts.values())

    def take(self, path: str, chunk: Chunk, matcher: LineMatcher) -> None:
        """Count the lines of ``chunk`` that match, and keep the first ones."""
        count = 0
        kept: list[tuple[int, str]] = []
        try:
            for number, start, end in matcher.matching(chunk.text):
                count += 1
                if len(self.rows) < self.room:
                    text = chunk.text[start:end]
                    self.rows.append([path, chunk.first + number - 1, text[:MAX_DATA_LINE]])
                    kept.append((number, text))
        finally:  # a search that is stopped keeps what it has
            if count:
                self.counts[path] = self.counts.get(path, 0) + count
            self.lines += self._shown(path, chunk, kept)

    def _shown(self, path: str, chunk: Chunk, kept: list[tuple[int, str]]) -> list[str]:
        if self.context:
            return self._with_context(path, chunk, [number for number, _ in kept])
        return [f"{path}:{chunk.first + number - 1}: {_short(text)}" for number, text in kept]

    def _with_context(self, path: str, chunk: Chunk, numbers: list[int]) -> list[str]:
        """The matches with the lines around them, parted by "--" where lines are left out."""
        all_lines = chunk.text.removesuffix("\n").split("\n")
        shown: list[str] = []
        matching, last = set(numbers), 0
        for number in numbers:
            for near in range(max(last + 1, number - self.context), min(len(all_lines), number + self.context) + 1):
                left_out = near > last + 1 if last else bool(self.lines)
                if left_out:
                    shown.append("--")
                mark = ":" if near in matching else "-"
                shown.append(f"{path}{mark}{chunk.first + near - 1}{mark} {_short(all_lines[near - 1])}")
                last = near
        return shown


def _short(line: str) -> str:
    return f"{line[:MAX_LINE]} [+{len(line) - MAX_LINE:,} characters]" if len(line) > MAX_LINE else line


class Grep:
    """``data``: columns path, line, text (with ``counts``: path, count), beside counts by file, total, truncated.

    ``counts`` and ``total`` are numbers of lines that match, exact whatever is shown; ``complete`` is false when the
    search was stopped by its time limit.
    """

    schema = ToolSchema(
        name="grep",
        description=(
            "Search the lines of text files in the workspace with a Python regular expression. Hidden files, .git, "
            f"binary files and links are passed over. At most {MAX_MATCHES} matches are shown; the counts are exact."
        ),
        category="filesystem",
        parallel_safe=True,
        read_only=True,
        parameters=parameters(
            {
                "pattern": {
                    "type": "string",
                    "minLength": 1,
                    "description": "Regular expression, applied to each line.",
                },
                "path": {**WHERE, "description": 'Folder or file, relative to the workspace. Default ".".'},
                "glob": {"type": "string", "minLength": 1, "description": 'Only files like this, such as "*.py".'},
                "ignore_case": {"type": "boolean", "description": "Default false."},
                "context": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": MAX_CONTEXT,
                    "description": "Lines to show around each match. Default 0.",
                },
                "max_results": {
                    "type": "integer",
                    "minimum": 1,
                    "description": f"Matches to show, at most and by default {MAX_MATCHES}.",
                },
                "counts": {"type": "boolean", "description": "Give only the number of matching lines by file."},
            },
            required=("pattern",),
        ),
    )

    def __init__(self, settings: CoreSettings, total_s: float = TOTAL_S) -> None:
        self._settings = settings
        self._total_s = total_s

    def execute(self, args: Mapping[str, Any], context: ToolContext) -> ToolExecutionResult:
        """Search, and count everything."""
        workspace = self._settings.workspace(context)
        end = time.monotonic() + self._total_s

        def tick() -> None:
            context.signal.raise_if_cancelled()
            if time.monotonic() > end:
                raise OutOfTime

        matcher = LineMatcher(args["pattern"], ignore_case=bool(args.get("ignore_case")), tick=tick)
        only_counts = bool(args.get("counts"))
        room = 0 if only_counts else min(int(args.get("max_results") or MAX_MATCHES), MAX_MATCHES)
        tally = Tally(room, min(int(args.get("context") or 0), MAX_CONTEXT))
        try:
            for path, file in self._opened(workspace, args, context):
                tick()
                for chunk in chunks(file, matcher):
                    tally.take(path, chunk, matcher)
        except OutOfTime:
            tally.stopped_after_s = self._total_s
        return self._result(tally, only_counts)

    def _opened(
        self, workspace: Workspace, args: Mapping[str, Any], context: ToolContext
    ) -> Iterator[tuple[str, BinaryIO]]:
        """Every file to look at, open, with its workspace path."""
        start = args.get("path") or "."
        real = workspace.resolve(start)
        pattern = NamePattern(args["glob"], workspace, anywhere=True) if args.get("glob") else None
        if real.is_file() or (real.exists() and not real.is_dir()):
            with workspace.open_file(start) as single:
                yield workspace.shown(real), single
            return
        search = Search(
            workspace=workspace,
            start=workspace.shown(real),
            signal=context.signal,
            hidden=pattern is not None and pattern.hidden,
        )
        for found in search.files():
            if pattern is None or pattern.matches(found.below) or pattern.matches(found.shown):
                with suppress(OSError), _opened_or_skipped(found.folder, found.name) as file:
                    yield found.shown, file

    def _result(self, tally: Tally, only_counts: bool) -> ToolExecutionResult:
        facts = {
            "counts": tally.counts,
            "total": tally.total,
            "truncated": not only_counts and tally.total > len(tally.rows),
            "complete": tally.stopped_after_s is None,
        }
        if only_counts:
            data = table(("path", "count"), [[path, count] for path, count in tally.counts.items()], **facts)
        else:
            data = table(("path", "line", "text"), tally.rows, **facts)
        return ToolExecutionResult(
            content=clip(_content(tally, only_counts), self._settings.max_output_chars), data=data
        )


def _opened_or_skipped(folder: Any, name: str) -> BinaryIO:
    """A file of the walk. Raises OSError also when it has become something else meanwhile."""
    try:
        return open_listed(folder, name)
    except ToolCallError as error:
        raise OSError(str(error)) from None


def _content(tally: Tally, only_counts: bool) -> str:
    head = f"{plural(tally.total, 'match', 'matches')} in {plural(len(tally.counts), 'file')}" if tally.total else ""
    head = head or "no matches"
    if not only_counts and tally.total > len(tally.rows):
        head += f", the first {len(tally.rows)} shown; narrow the search, or set counts for the number in each file"
    if tally.stopped_after_s is not None:
        head += f"; stopped after {tally.stopped_after_s:g} s, so this is not all: narrow the search"
    if not only_counts:
        return "\n".join([head, *tally.lines])
    shown = [f"{path}: {count:,}" for path, count in list(tally.counts.items())[:MAX_FILES_SHOWN]]
    more = [f"[{MAX_FILES_SHOWN} of {len(tally.counts):,} files shown]"] if len(tally.counts) > MAX_FILES_SHOWN else []
    return "\n".join([head, *shown, *more])
