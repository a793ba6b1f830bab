"""What the demo model says: before a call, at the end, and when it did not understand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ...protocol.tools import ToolSchema
from .offered import CANDIDATES, Step, examples
from .outcomes import Outcome
from .phrases import Op
from .requests import Understanding

MAX_LINES, MAX_CHARS = 24, 2_000  # of a result that an answer repeats; all of it stands in the tool's row
WHAT_I_AM = "I am the demo, a rule model and no AI: I turn plain requests into tool calls by fixed rules."

_BEFORE = {
    "list": "Listing {path}.",
    "find": "Looking for files that match {pattern}.",
    "count_files": "Counting the files that match {pattern}.",
    "read": "Reading {path}.",
    "summary": "Reading the head of {path}.",
    "search": "Searching for {pattern}.",
    "count": "Counting the lines that match {pattern}.",
    "write": "Writing {path}.",
    "append": "Appending to {path}.",
    "edit": "Editing {path}.",
    "run": "Running {command}.",
    "todo": "Updating the task list.",
    "fetch": "Fetching {url}.",
    "compute": "Computing {expression}.",
}
_AFTER = {
    "list": "Contents of {path}:",
    "find": "Files that match {pattern}:",
    "read": "{path} reads:",
    "summary": "I can't summarise, that takes understanding. This is the head of {path}:",
    "search": "Search for {pattern}:",
    "write": "Wrote {path}:",
    "append": "Appended to {path}:",
    "edit": "Edited {path}:",
    "run": "{command} gave:",
    "todo": "The task list:",
    "fetch": "{url} gave:",
    "compute": "{expression} is:",
}
_INSTEAD = {
    "run": "You can run the command yourself, or ask me to read, search or list files instead.",
    "write": "I can show files instead, or write another text or another file.",
    "append": "I can show the file instead, or write another text.",
    "edit": "I can show the lines instead, or make another change.",
    "fetch": "You can paste the text, or ask for a file of the workspace instead.",
}


def before(steps: Sequence[Step]) -> str:
    """One line that says what happens now."""
    return " ".join(dict.fromkeys(_fill(_BEFORE.get(step.op.kind, "Calling {tool}."), step) for step in steps))


def _fill(template: str, step: Step) -> str:
    values: dict[str, Any] = {**step.op.args, **step.arguments, "tool": step.tool}
    return re.sub(r"\{(\w+)\}", lambda found: code(str(values.get(found[1], "."))), template)


def code(text: str) -> str:
    """``text`` as inline code, whatever backticks it holds, on one line and not too long."""
    line = re.sub(r"\s+", " ", text).strip()
    line = line if len(line) <= 120 else f"{line[:117]}..."
    longest = max((len(run) for run in re.findall(r"`+", line)), default=0)
    ticks, pad = "`" * (longest + 1), " " if longest else ""
    return f"{ticks}{pad}{line}{pad}{ticks}" if line else "an empty text"


def block(text: str) -> str:
    """``text`` as a code block, cut after some lines, inside a fence that nothing in it can close."""
    lines = text.rstrip("\n").split("\n")
    shown: list[str] = []
    for line in lines[:MAX_LINES]:
        if sum(map(len, shown)) + len(line) > MAX_CHARS:
            break
        shown.append(line)
    shown = shown or [lines[0][:MAX_CHARS] + " ..."]
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    left = len(lines) - len(shown)
    rest = f"\n{left:,} more line{'s' if left != 1 else ''} in the tool's result." if left else ""
    return f"{fence}text\n" + "\n".join(shown) + f"\n{fence}{rest}"


def final(outcomes: Sequence[Outcome]) -> str:
    """The answer when every step has come to its end."""
    told = [outcome for n, outcome in enumerate(outcomes) if not _is_older_todo(n, outcomes)]
    return "\n\n".join(_tell(outcome) for outcome in told) or "There was nothing to do."


def _is_older_todo(number: int, outcomes: Sequence[Outcome]) -> bool:
    later = (o.step.op.kind == "todo" and o.state == "done" for o in outcomes[number + 1 :])
    return outcomes[number].step.op.kind == "todo" and outcomes[number].state == "done" and any(later)


def _tell(outcome: Outcome) -> str:
    parts = [_edited(outcome)] if outcome.edited else []
    match outcome.state:
        case "done":
            parts.append(_done(outcome))
        case "failed":
            parts.append(_failed(outcome))
        case "declined":
            parts.append(_declined(outcome))
        case "not_run":
            parts.append(f"{code(outcome.step.tool)} has no result: {_inline(outcome.text)} I did not try it again.")
        case "left":
            parts.append(f"Not done, {outcome.text}: {_inline(outcome.step.op.text)}")
    return "\n\n".join(parts)


def _edited(outcome: Outcome) -> str:
    tool = code(outcome.step.tool)
    return f"A person changed the arguments of {tool} before it ran, so this is not quite what I asked for."


def _done(outcome: Outcome) -> str:
    kind = outcome.step.op.kind
    if kind in ("count", "count_files"):
        return f"{_counted(outcome)}\n\n{block(outcome.text)}"
    template = _AFTER.get(kind, "{tool} gave:")
    if outcome.edited:
        template = "{tool} gave:"
    return (
        f"{_fill(template, outcome.step)}\n\n{block(outcome.text)}"
        if outcome.text.strip()
        else f"{_fill(template, outcome.step)} nothing."
    )


def _counted(outcome: Outcome) -> str:
    total = total_of(outcome.text)
    pattern = str(outcome.step.arguments.get("pattern", ""))
    one = total == 1
    if total is None:
        return "The count:"
    if outcome.step.op.kind == "count_files":
        return f"{total:,} file{'' if one else 's'} match{'es' if one else ''} {code(pattern)}."
    what = "" if pattern == "^" else f" match{'es' if one else ''} {code(pattern)}"
    where = " in ".join(
        ["", *(code(str(outcome.step.arguments[key])) for key in ("glob", "path") if key in outcome.step.arguments)]
    )
    return f"{total:,} line{'' if one else 's'}{where}{what}."


def total_of(text: str) -> int | None:
    """The total that the first line of a glob or grep result states."""
    first = text.split("\n", 1)[0]
    if re.match(r"no\b", first, re.I):
        return 0
    stated = re.search(r"\d[\d,]*", first)
    return int(stated[0].replace(",", "")) if stated else None


def _failed(outcome: Outcome) -> str:
    text = f"{code(outcome.step.tool)} failed: {_inline(outcome.text)}"
    if outcome.near:
        text += f"\n\nFiles with a name like that: {', '.join(map(code, outcome.near))}. Say which one you mean."
    return text


def _declined(outcome: Outcome) -> str:
    instead = _INSTEAD.get(outcome.step.op.kind, "Ask for something else, or ask again if that was a mistake.")
    return f"{code(outcome.step.tool)} was declined: {_inline(outcome.text)} I did not try it again. {instead}"


def _inline(text: str) -> str:
    """Text of a tool or a person as quoted prose: one paragraph, nothing in it is Markdown."""
    line = re.sub(r"\s+", " ", text).strip()
    line = code(line if len(line) <= 400 else f"{line[:397]}...") if len(line) <= 120 else block(line)
    return line if len(line) <= 140 else f"\n\n{line}\n\n"


def not_understood(understanding: Understanding, tools: Sequence[ToolSchema]) -> str:
    """That and what was not understood, and what would be, with the tools that are there."""
    if understanding.missing is not None:
        head = _no_tool(understanding.missing)
    elif understanding.unknown is not None:
        head = f"I did not understand {code(understanding.unknown)}, so I did nothing. {WHAT_I_AM}"
    else:
        head = WHAT_I_AM
    known = examples(tools)
    if not known:
        return f"{head}\n\nNo tools are offered in this session, so there is nothing that I can do here."
    return f"{head}\n\nWhat I understand here, for example:\n\n" + "\n".join(f"- {code(text)}" for text in known)


def _no_tool(op: Op) -> str:
    names = " or ".join(code(name) for name in CANDIDATES.get(op.kind, ()))
    head = f"I understood {code(op.text)}, but it needs the tool {names}, which is not offered in this session."
    return f"{head} {WHAT_I_AM}"
