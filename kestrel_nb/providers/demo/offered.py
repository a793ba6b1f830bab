"""Which of the offered tools does what, and what its arguments are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...protocol.tools import ToolSchema
from .phrases import Op

CANDIDATES: dict[str, tuple[str, ...]] = {
    "list": ("list_dir",),
    "find": ("glob",),
    "count_files": ("glob",),
    "read": ("read_file", "file-read"),
    "summary": ("read_file", "file-read"),
    "search": ("grep",),
    "count": ("grep",),
    "write": ("write_file", "file-write"),
    "append": ("file-write",),
    "edit": ("edit_file",),
    "run": ("shell", "shell-exec"),
    "todo": ("todo_write",),
    "fetch": ("web_fetch", "http-fetch"),
    "request": ("http-fetch",),
    "web_search": ("web-search",),
    "time": ("date-time", "clock_now"),
    "compute": ("math-eval",),
    "json": ("json-parse",),
    "regex": ("regex-match",),
    "image": ("image-describe",),
    "python": ("run_python",),
    "computed": ("run_python",),
    "drawn": ("run_python",),
    "javascript": ("code-eval",),
    "sql": ("database-query",),
    "variables": ("list_variables",),
    "variable": ("inspect_variable",),
    "cell": ("insert_cell",),
    "remember": ("memory_save",),
    "memories": ("memory_list",),
    "recall": ("memory_search",),
    "forget": ("memory_forget",),
    "delegate": ("delegate",),
    "skill": ("use_skill",),
    "finish": ("finish",),
}
"""Kind of work -> the tools that can do it, best first."""

EXAMPLES: dict[str, tuple[str, ...]] = {
    "list": ("list the files in docs",),
    "find": ("find all Python files",),
    "read": ("read README.md", "show lines 10-20 of app.py"),
    "search": ('search for "await" in the Python files',),
    "count": ('count the lines that contain "TODO" in src',),
    "write": ('write notes.txt with "hello"',),
    "append": ('append "one more line" to notes.txt',),
    "edit": ('replace "foo" with "bar" in app.py',),
    "run": ("run `git status`",),
    "todo": ("make a plan: read the data, check it, write a report",),
    "fetch": ("fetch https://example.org/",),
    "request": ('post `{"a": 1}` to https://example.org/',),
    "web_search": ("search the web for jupyter widgets",),
    "time": ("what time is it in Tokyo?",),
    "compute": ("what is 2 * pi + sqrt(16)?",),
    "json": ("""extract a.b from '{"a": {"b": 1}}'""", """flatten the JSON {"a": {"b": 1}}"""),
    "regex": ("""match /\\d+/g in "room 12, floor 3\"""",),
    "image": ("describe the image https://example.org/chart.png",),
    "python": ("run the Python code `len(rows)`",),
    "computed": (
        "compute the mean price by city of {sales}",
        "how many rows of sales are there per city?",
        "correlation of price and weight in sales",
    ),
    "drawn": ("plot price against weight by city in sales", "histogram of price in sales"),
    "javascript": ("run the JavaScript [1, 2, 3].map(n => n * n)",),
    "sql": ("query: SELECT count(*) FROM sales",),
    "variables": ("list the variables",),
    "variable": ("inspect the variable df",),
    "cell": ("insert a cell with `df.head()`",),
    "remember": ("remember that the report is due on Friday",),
    "recall": ("recall report",),
    "memories": ("list the memories",),
    "delegate": ("delegate: count the lines in app.py",),
    "skill": ("use the release skill",),
}
"""Kind of work -> requests that lead to it."""

KNOWN_TOOLS = frozenset(name for names in CANDIDATES.values() for name in names)


@dataclass(frozen=True, slots=True)
class Step:
    """One call to make: the tool, its arguments, and the work that it stands for."""

    op: Op
    tool: str
    arguments: dict[str, Any]


def tool_for(kind: str, tools: Sequence[ToolSchema]) -> ToolSchema | None:
    """The best offered tool for ``kind`` of work."""
    by_name = {tool.name: tool for tool in tools}
    return next((by_name[name] for name in CANDIDATES.get(kind, ()) if name in by_name), None)


def to_step(op: Op, tools: Sequence[ToolSchema]) -> Step | None:
    """``op`` as a call of an offered tool, or None when there is none for it."""
    if op.kind == "call":
        return Step(op, op.args["tool"], op.args["arguments"])
    tool = tool_for(op.kind, tools)
    return Step(op, tool.name, fit(op.args, tool)) if tool else None


def fit(args: dict[str, Any], tool: ToolSchema) -> dict[str, Any]:
    """``args`` under the names that ``tool`` declares; what it does not know is left out."""
    properties = tool.parameters.get("properties", {})
    fitted = {name: value for name, value in args.items() if name in properties}
    strange = [name for name in args if name not in properties]
    open_names = [
        name
        for name in tool.parameters.get("required", ())
        if name not in fitted and properties.get(name, {}).get("type", "string") == "string"
    ]
    if len(open_names) == 1 and strange:
        fitted[open_names[0]] = args[strange[0]]
    return fitted


def examples(tools: Sequence[ToolSchema]) -> list[str]:
    """Requests that work with ``tools``, one for each thing that can be done and each tool of a user's own."""
    lines = [text for kind, texts in EXAMPLES.items() if tool_for(kind, tools) for text in texts]
    return lines + [_call_example(tool) for tool in tools if tool.name not in KNOWN_TOOLS]


def _call_example(tool: ToolSchema) -> str:
    properties = tool.parameters.get("properties", {})
    shown = list(tool.parameters.get("required", ())) or list(properties)[:1]
    values = ", ".join(f"{name}={_sample(properties.get(name, {}))}" for name in shown)
    return f"use {tool.name}" + (f" with {values}" if values else "")


def _sample(schema: Any) -> str:
    if isinstance(schema, dict):
        if schema.get("enum"):
            return f"'{schema['enum'][0]}'"
        known = {"integer": "3", "number": "1.5", "boolean": "true", "array": "[]", "object": "{}"}
        return known.get(str(schema.get("type")), "'text'")
    return "'text'"
