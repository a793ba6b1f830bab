"""glob: names in the workspace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...protocol.tools import ToolSchema
from ...runtime.tools import ToolContext, ToolExecutionResult
from ...sandbox.output import plural
from ...sandbox.places import stat_in
from ...sandbox.walk import Walked
from ..shapes import parameters, table
from .ignoring import Ignored
from .patterns import NamePattern
from .settings import CoreSettings
from .walking import Search

MAX_PATHS = 300  # the specification's cap
WHERE = {"type": "string", "minLength": 1, "description": 'Folder to search, relative to the workspace. Default ".".'}


class Glob:
    """``data``: columns path and size in bytes, beside total and truncated."""

    schema = ToolSchema(
        name="glob",
        description=(
            'Find files of the workspace by name, such as "**/*.py" or "src/*.{js,ts}". A pattern that ends in "/" '
            f"finds folders. Hidden names must be named. At most {MAX_PATHS} are given, the total is exact."
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
                    "description": "Glob, relative to path. ** is any depth.",
                },
                "path": WHERE,
                "respect_gitignore": {
                    "type": "boolean",
                    "description": "Leave out what .gitignore files name. Default false.",
                },
            },
            required=("pattern",),
        ),
    )

    def __init__(self, settings: CoreSettings) -> None:
        self._settings = settings

    def execute(self, args: Mapping[str, Any], context: ToolContext) -> ToolExecutionResult:
        """Find the names."""
        workspace = self._settings.workspace(context)
        start = workspace.shown(workspace.resolve(args.get("path") or "."))
        pattern = NamePattern(args["pattern"], workspace)
        ignored = Ignored(workspace, start) if args.get("respect_gitignore") else None
        search = Search(
            workspace=workspace,
            start=start,
            signal=context.signal,
            hidden=pattern.hidden,
            ignored=ignored,
            holds=pattern.may_hold if pattern.bounded else None,
            choose=pattern.select,
        )
        total = 0
        rows: list[list[Any]] = []
        for found in search.folders() if pattern.folders else search.files(links=True):
            total += len(found.names)
            for name in found.names[: MAX_PATHS - len(rows)]:
                shown = found.folder.path_of(name)
                rows.append([f"{shown}/", None] if pattern.folders else [shown, _size(found.folder, name)])
        return ToolExecutionResult(
            content=_content(rows, total, "folder" if pattern.folders else "file"),
            data=table(("path", "size"), sorted(rows), total=total, truncated=total > len(rows)),
        )


def _size(folder: Walked, name: str) -> int | None:
    try:
        return stat_in(folder.place, name).st_size
    except OSError:  # it vanished while we looked
        return None


def _content(rows: list[list[Any]], total: int, noun: str) -> str:
    if not total:
        return f"no {noun}s match"
    shown = f", the first {len(rows)} shown; make the pattern narrower" if total > len(rows) else ""
    return "\n".join([f"{plural(total, noun)}{shown}", *(path for path, _ in sorted(rows))])
