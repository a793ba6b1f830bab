"""``insert_cell``: an agent proposes a code cell, a person approves it, the front end puts it below.

A cell that was inserted is never run by anything but the person's own hand.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..protocol.tools import DiffPreview, Preview, TextPreview, ToolSchema
from ..runtime.secrets import MASK
from ..runtime.tools import ToolContext, ToolExecutionResult

if TYPE_CHECKING:
    from .state import NotebookState

LONGEST = 100_000  # characters of a cell
WHOLE_DIFF = 60  # lines of a cell whose difference is shown with every line

_REQUEST = re.compile(
    r"^[ \t]*(?:[^#\n]*=[ \t]*|%{1,2}\w[^\n]*[ \t])?%{1,2}kestrel\b"
    r"|(?:run_(?:cell|line)_)?magic\([ \t]*(?:\w+[ \t]*=[ \t]*)?['\"][ \t%]*kestrel\b",
    re.MULTILINE,
)


class InsertCell:
    """The tool ``insert_cell``."""

    schema = ToolSchema(
        name="insert_cell",
        description=(
            "Propose a new code cell below the running cell. A person looks at it first; it is only inserted, never "
            "run. Give the complete code of the cell."
        ),
        parameters={
            "type": "object",
            "properties": {"code": {"type": "string", "description": "the complete code of the new cell"}},
            "required": ["code"],
            "additionalProperties": False,
        },
        permission="ask",
        category="notebook",
        deterministic=False,
    )

    def __init__(self, state: NotebookState) -> None:
        self._state = state

    def preview(self, args: Mapping[str, Any], context: ToolContext) -> Preview:
        """The code, or its difference from the cell that a fix is for. Raises ValueError for code that is refused."""
        code = _checked(args["code"])
        failure = self._state.failures.repairing.get(context.session.id)
        if failure is None or not failure.whole:
            return TextPreview(title="New cell", text=code)
        return difference(failure.source, code)

    async def execute(self, args: Mapping[str, Any], context: ToolContext) -> ToolExecutionResult:
        """Insert the code, or say that it was not inserted. Raises ValueError for code that is refused."""
        code = _checked(args["code"])
        failure = self._state.failures.repairing.get(context.session.id)
        if failure is not None:
            self._state.failures.proposed(code)
        inserted = self._state.cells.insert(code)
        said = "inserted below as a new cell, not run"
        if not inserted:
            said = "not inserted, nothing can be put below here; copy the code"
        if failure is not None and failure.masked and MASK in code:
            said += f". {MASK} in it stands for a key that was not sent: put it back by hand"
        return ToolExecutionResult(content=said, data={"inserted": inserted})


def difference(before: str, after: str) -> Preview:
    """From one cell to the next, with every line of a short one."""
    old, new = before.rstrip("\n").split("\n"), after.rstrip("\n").split("\n")
    context = max(len(old), len(new)) if max(len(old), len(new)) <= WHOLE_DIFF else 3
    lines = list(difflib.unified_diff(old, new, n=context, lineterm=""))[2:]
    if not lines:
        return TextPreview(title="New cell, the same as the one that failed", text=after)
    return DiffPreview(
        path="",
        diff="\n".join(lines),
        added=sum(line.startswith("+") for line in lines),
        removed=sum(line.startswith("-") for line in lines),
    )


def _checked(code: Any) -> str:
    if not isinstance(code, str) or not code.strip():
        raise ValueError("there is no code to insert; give the complete code of the cell")
    if len(code) > LONGEST:
        raise ValueError(f"a cell has at most {LONGEST:,} characters; this one has {len(code):,}")
    if _REQUEST.search(code):
        raise ValueError("a cell with %%kestrel or %kestrel in it is for a person to write; propose Python code")
    return code
