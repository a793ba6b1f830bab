"""What the demo model says: before a call, at the end, and when it did not understand."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...protocol.tools import ToolSchema
from .data_replies import told
from .enabling import how_to_enable
from .endings import declined, deed, not_run
from .json_results import in_words
from .offered import CANDIDATES, Step, examples
from .outcomes import Outcome
from .phrases import Op
from .quoting import MAX_LINES, block, code, inline
from .requests import Understanding

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
    "request": "Sending a request to {url}.",
    "compute": "Computing {expression}.",
    "time": "Looking at the clock.",
    "json": "Reading the JSON.",
    "regex": "Matching {pattern}.",
    "javascript": "Running the JavaScript.",
    "sql": "Querying the database.",
    "web_search": "Searching the web for {query}.",
    "image": "Looking at the image.",
    "computed": "Computing the {what}.",
    "drawn": "Drawing the {what}.",
    "variables": "Looking at the variables.",
    "variable": "Looking at {name}.",
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
    "image": "The image:",
    "computed": "The {what}:",
    "variables": "The variables:",
    "variable": "{name}:",
}


def before(steps: Sequence[Step]) -> str:
    """One line that says what happens now."""
    return " ".join(dict.fromkeys(_fill(_before(step), step) for step in steps))


def _before(step: Step) -> str:
    if step.op.kind == "count" and step.arguments.get("pattern") == "^":
        return "Counting the lines."
    return _BEFORE.get(step.op.kind, "Calling {tool}.")


def _fill(template: str, step: Step) -> str:
    values: dict[str, Any] = {**step.op.args, **step.arguments, "tool": step.tool}
    return re.sub(r"\{(\w+)\}", lambda found: _value(found[1], values), template)


def _value(name: str, values: Mapping[str, Any]) -> str:
    text = str(values.get(name, "."))
    return text if name == "what" else code(text)  # that is the model's own wording, with names as code in it


def final(outcomes: Sequence[Outcome]) -> str:
    """The answer when every step has come to its end; the more steps, the fewer lines of each."""
    told = [o for n, o in enumerate(outcomes) if not (_is_older_todo(n, outcomes) or _is_on_the_way(o))]
    rooms = _rooms([outcome.text.count("\n") + 1 if outcome.state == "done" else 0 for outcome in told])
    return "\n\n".join(_tell(*pair) for pair in zip(told, rooms, strict=True)) or "There was nothing to do."


def _rooms(wanted: list[int]) -> list[int]:
    """MAX_LINES shared out, one line to each in turn, nobody getting more than is ``wanted``."""
    rooms = [0] * len(wanted)
    for _ in range(MAX_LINES):
        open_ones = [n for n, lines in enumerate(wanted) if rooms[n] < lines]
        if open_ones:
            rooms[min(open_ones, key=lambda n: rooms[n])] += 1
    return rooms


def _is_on_the_way(outcome: Outcome) -> bool:
    """A look that only a later step needs."""
    return outcome.state == "done" and bool(outcome.step.op.args.get("on_the_way"))


def _is_older_todo(number: int, outcomes: Sequence[Outcome]) -> bool:
    later = (o.step.op.kind == "todo" and o.state == "done" for o in outcomes[number + 1 :])
    return outcomes[number].step.op.kind == "todo" and outcomes[number].state == "done" and any(later)


def _tell(outcome: Outcome, room: int) -> str:
    parts = [_edited(outcome)] if outcome.edited else []
    match outcome.state:
        case "done":
            parts.append(_done(outcome, room))
        case "failed":
            parts.append(_failed(outcome))
        case "declined":
            parts.append(declined(outcome))
        case "not_run":
            parts.append(not_run(outcome))
        case "left":
            parts.append(f"Not done, {outcome.text}: {inline(outcome.step.op.text)}")
    return "\n\n".join(parts)


def _edited(outcome: Outcome) -> str:
    tool = code(outcome.step.tool)
    return f"A person changed the arguments of {tool} before it ran, so this is not quite what I asked for."


_HEADED = frozenset({"list", "find", "search", "count", "count_files", "run"})
"""Work whose result begins with a line that sums it up: how many there are, how a command ended."""


def _done(outcome: Outcome, room: int) -> str:
    kind, text = outcome.step.op.kind, outcome.text.strip("\n")
    said = told(outcome) or _said_of_json(outcome, room)
    if said is not None:
        return said
    if kind in ("count", "count_files"):
        head, text = _counted(outcome), text.partition("\n")[2]
    else:
        head = _fill("{tool} gave:" if outcome.edited else _AFTER.get(kind, "{tool} gave:"), outcome.step)
        if kind in _HEADED and not outcome.edited and text:
            first, _, text = text.partition("\n")
            head = f"{head} {_sentence(first)}"
        elif kind in ("edit", "write") and not outcome.edited and "\n" not in text and text:
            head, text = f"{head} {_sentence(_without_path(text, outcome))}", ""
        elif not text.strip():
            head = f"{head} nothing."
    if not text.strip():
        return head
    return f"{head}\n\n{block(text, room, output=kind == 'run')}" if room else f"{head} See the tool's result."


def _without_path(line: str, outcome: Outcome) -> str:
    """What the tool says of its change, without the file that is named before."""
    path = re.escape(str(outcome.step.arguments.get("path", "")))
    return re.sub(rf"^(?:edited {path}: |(\w+) {path}(?=, ))", r"\1", line)


def _said_of_json(outcome: Outcome, room: int) -> str | None:
    if outcome.data is None or outcome.edited:
        return None
    return in_words(outcome.step.tool, outcome.step.arguments, outcome.data, room)


def _sentence(line: str) -> str:
    """The tool's own words about its result, where they are plain; else quoted."""
    return f"{line}." if re.fullmatch(r"[\w ,;:]+", line) else f"{code(line)}."


def _counted(outcome: Outcome) -> str:
    total = total_of(outcome.text)
    pattern = str(outcome.step.arguments.get("pattern", ""))
    one = total == 1
    if total is None:
        return "Counted:"
    if outcome.step.op.kind == "count_files":
        return f"{total:,} file{'' if one else 's'} match{'es' if one else ''} {code(pattern)}."
    path = str(outcome.step.arguments.get("path", ""))
    rows = re.search(r"\b(?:rows?|records?|entries)\b", outcome.step.op.text, re.I)
    if rows and pattern == "^" and total and path.lower().endswith((".csv", ".tsv")):
        lines = f"{total:,} line{'' if one else 's'}, the first a header"
        return f"{total - 1:,} row{'' if total == 2 else 's'} in {code(path)} ({lines})."
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
    outside = re.match(r"SANDBOX_VIOLATION: (.*)", outcome.text, re.S)
    if outside:
        return f"I could not {deed(outcome)}, as that is not allowed here: {_reason(outside[1])}"
    text = f"{code(outcome.step.tool)} failed: {_error_of(outcome.text)}"
    if outcome.near:
        text += f"\n\nFiles with a name like that: {', '.join(map(code, outcome.near))}. Say which one you mean."
    return text


_RAISED = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Iteration|Warning)\b(?!\s*[=(]).*")


def _error_of(text: str) -> str:
    """A message of one line; of a longer one, which its row shows with its lines, the line that names the error."""
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) < 2:
        return inline(text)
    raised = [line for line in lines if _RAISED.fullmatch(line)]
    return f"{code(raised[-1] if raised else lines[0])}. The call above has the whole message."


def _reason(text: str) -> str:
    """The refusal of a tool in plain words."""
    for folder in ("workspace", "sandbox folder"):
        if f"is outside the {folder}" in text:
            return f"it lies outside the {folder}. Give a path inside the {folder}."
    return inline(text)


def not_understood(understanding: Understanding, tools: Sequence[ToolSchema]) -> str:
    """That and what was not understood, and what would be, with the tools that are there."""
    if understanding.misfit is not None:
        return f"{understanding.misfit}\n\nI did nothing. {WHAT_I_AM}"
    if understanding.alone:
        part = code(str(understanding.unknown))
        return (
            f"I understand {part} only as a request of its own. I did nothing; ask for it in another cell. {WHAT_I_AM}"
        )
    if understanding.missing is not None:
        head = _no_tool(understanding.missing)
    elif understanding.unknown is not None:
        head = f"I did not understand {code(understanding.unknown)}, so I did nothing. {WHAT_I_AM}"
    else:
        head = WHAT_I_AM
    known = examples(tools)
    if not known:
        return f"{head}\n\nThis run offers no tools, so there is nothing that I can do here."
    return f"{head}\n\nWhat I understand here, for example:\n\n" + "\n".join(f"- {code(text)}" for text in known)


def _no_tool(op: Op) -> str:
    tool = CANDIDATES[op.kind][0]
    head = f"I understood {code(op.text)}, but it needs the tool {code(tool)}, which this run does not offer."
    return " ".join(filter(None, (head, how_to_enable(tool), WHAT_I_AM)))
