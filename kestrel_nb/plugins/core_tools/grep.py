"""grep: lines in the workspace, counted exactly also beyond what is shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, BinaryIO

from ...protocol.errors import ToolCallError
from ...protocol.tools import ToolSchema
from ...runtime.signals import CancelSignal
from ...runtime.tools import ToolContext, ToolExecutionResult
from ...sandbox.output import clip, plural
from ...sandbox.paths import explained
from ...sandbox.walk import read_listed
from ...sandbox.workspace import Workspace
from ..shapes import parameters, table
from .approximate import approximation, wide_approximation
from .chunks import BLOCK, Chunk, chunks
from .ignoring import Ignored
from .match import LineMatcher
from .patterns import NamePattern
from .ripgrep import ALONE_FILES, Advice
from .search import WHERE
from .settings import CoreSettings
from .tally import Tally
from .walking import Found, Search

MAX_MATCHES = 150  # the specification's cap
MAX_FILES_SHOWN = 300
MAX_CONTEXT = 20
TOTAL_S = 60.0


_File = tuple[Callable[[], str], bytes, BinaryIO | None]


class OutOfTime(Exception):
    """The search took all the time it may take."""


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
        deterministic=False,
        read_only=True,
        parameters=parameters(
            {
                "pattern": {
                    "type": "string",
                    "minLength": 1,
                    "description": "Regular expression, applied to each line.",
                },
                "path": {**WHERE, "description": 'Folder or file, relative to the workspace. Default ".".'},
                "glob": {
                    "type": "string",
                    "minLength": 1,
                    "description": 'Only files like this, such as "*.py"; with "!" before it, all others.',
                },
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
                "respect_gitignore": {
                    "type": "boolean",
                    "description": "Leave out files that .gitignore files name. Default false.",
                },
                "counts": {"type": "boolean", "description": "Give only the number of matching lines by file."},
            },
            required=("pattern",),
        ),
    )

    def __init__(self, settings: CoreSettings, *, total_s: float = TOTAL_S, alone_files: int = ALONE_FILES) -> None:
        self._settings = settings
        self._total_s = total_s
        self._alone_files = alone_files

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
            for path, data, more in self._files(workspace, args, context.signal, tally, tick):
                with suppress(OSError):  # a disk that fails in the middle of a file
                    _search(path, chunks(data, more), matcher, tally, tick)
        except OutOfTime:
            tally.stopped_after_s = self._total_s
        return self._result(tally, only_counts)

    def _files(
        self,
        workspace: Workspace,
        args: Mapping[str, Any],
        signal: CancelSignal,
        tally: Tally,
        tick: Callable[[], None],
    ) -> Iterator[_File]:
        """Every file to look at: how to get its workspace path, its beginning, and the rest when it is large."""
        start = args.get("path") or "."
        real = workspace.resolve(start)
        pattern, others = _name_pattern(args.get("glob") or "", workspace)
        with explained(workspace.shown(real)):  # what is not to be looked at, or too deep
            no_folder = real.exists() and not real.is_dir()
        if no_folder:
            with workspace.open_file(start) as single:
                yield lambda: workspace.shown(real), single.read(BLOCK), single
            return
        shown = workspace.shown(real)
        hidden = pattern is not None and pattern.hidden and not others
        advice = Advice(
            workspace,
            real,
            _expression(args["pattern"], bool(args.get("ignore_case"))),
            names=args.get("glob"),
            hidden=hidden,
            tick=tick,
            after_files=self._alone_files,
            hits=lambda: len(tally.counts),
        )
        search = Search(
            workspace=workspace,
            start=shown,
            signal=signal,
            hidden=hidden,
            ignored=Ignored(workspace, shown) if args.get("respect_gitignore") else None,
            holds=advice.holds,
        )
        for found in search.files():
            names = _fitting(pattern, found, others=others) if pattern else found.names
            for name in advice.among(found.below, names):
                try:
                    data, more = read_listed(found.folder, name, BLOCK)
                except (OSError, ToolCallError):  # it has vanished or become something else meanwhile
                    continue
                advice.saw(len(data))
                yield partial(found.folder.path_of, name), data, more
                if more:
                    more.close()

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


def _expression(pattern: str, ignore_case: bool) -> str | None:
    """What ripgrep is asked for, None when it can't help."""
    found = approximation(pattern, ignore_case=ignore_case)
    return f"{found}|{wide_approximation(pattern, ignore_case=ignore_case)}" if found else None


def _name_pattern(glob: str, workspace: Workspace) -> tuple[NamePattern | None, bool]:
    """The pattern of names, if there is one, and whether files that do not fit it are meant."""
    others = glob.startswith("!") and not glob.startswith("!(")  # that is a group, of what a name may not be
    glob = glob[1:] if others else glob
    glob = f"{glob}**" if glob.endswith("/") else glob  # a folder stands for what is in it
    return (NamePattern(glob, workspace, anywhere=True), others) if glob or others else (None, False)


def _fitting(pattern: NamePattern, found: Found, *, others: bool) -> Sequence[str]:
    """The names that fit ``pattern``, be it meant from where the search starts or from the workspace; or the others."""
    fitting = pattern.select(found.below, found.names)
    if found.folder.shown != found.below:
        more = pattern.select(found.folder.shown, found.names)
        fitting = sorted({*fitting, *more}) if more else fitting
    if others:
        out = frozenset(fitting)
        return [name for name in found.names if name not in out]
    return fitting


def _search(
    path: Callable[[], str], found: Iterator[Chunk], matcher: LineMatcher, tally: Tally, tick: Callable[[], None]
) -> None:
    for chunk in found:
        tick()
        if matcher.may_match(chunk):
            tally.take(path(), chunk, matcher)
        elif tally.context and tally.expects(path()):
            tally.pass_over(path(), chunk)


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
