"""todo_write and finish: how an agent shows its plan and ends its run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...protocol.tools import TodoItem, ToolSchema
from ...runtime.tools import ToolContext, ToolExecutionResult
from ...sandbox.output import plural
from ..shapes import parameters, table

_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


class TodoWrite:
    """``data``: columns text and state, a row for each task."""

    schema = ToolSchema(
        name="todo_write",
        description=(
            "Replace the visible task list of this run. Give all tasks each time, in order; keep one in_progress. "
            "Use it for work of three steps or more."
        ),
        category="progress",
        read_only=True,
        parameters=parameters(
            {
                "todos": {
                    "type": "array",
                    "maxItems": 100,
                    "description": "The whole list.",
                    "items": {
                        **parameters(
                            {
                                "text": {"type": "string", "minLength": 1, "description": "The task in a few words."},
                                "state": {
                                    "type": "string",
                                    "enum": list(_MARKS),
                                    "description": "pending, in_progress or completed.",
                                },
                            },
                            required=("text", "state"),
                        )
                    },
                }
            },
            required=("todos",),
        ),
    )

    def execute(self, args: Mapping[str, Any], context: ToolContext) -> ToolExecutionResult:
        """Show the list."""
        items = tuple(TodoItem(text=todo["text"], state=todo["state"]) for todo in args["todos"])
        context.set_todos(items)
        done = sum(item.state == "completed" for item in items)
        lines = [f"{plural(len(items), 'task')}, {done:,} completed", *(f"{_MARKS[i.state]} {i.text}" for i in items)]
        return ToolExecutionResult(
            content="\n".join(lines), data=table(("text", "state"), [[item.text, item.state] for item in items])
        )


class Finish:
    """Ends the run; its content is the summary, it has no data."""

    schema = ToolSchema(
        name="finish",
        description="End this run with a final summary for the person. Call it alone, when everything is done.",
        category="progress",
        read_only=True,
        parameters=parameters(
            {"summary": {"type": "string", "minLength": 1, "description": "What was done and found."}},
            required=("summary",),
        ),
    )

    def execute(self, args: Mapping[str, Any], context: ToolContext) -> ToolExecutionResult:
        """End the run."""
        return ToolExecutionResult(content=args["summary"], terminate=True)
