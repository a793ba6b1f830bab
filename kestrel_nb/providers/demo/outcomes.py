"""What became of the calls so far, read from the transcript, and which call comes next."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import PurePosixPath
from typing import Literal

from ...protocol.messages import ChatMessage, ToolCallPart, ToolResultPart
from ...protocol.tools import ToolSchema
from .assignments import setting_change
from .columns import Unclear
from .data_steps import computed, either, table_named
from .json_results import Data, as_text, read_json
from .offered import Step, to_step
from .phrases import Op

State = Literal["done", "failed", "declined", "not_run", "left"]
CHANGING = frozenset(
    {
        "write",
        "append",
        "edit",
        "run",
        "call",
        "python",
        "computed",
        "drawn",
        "javascript",
        "request",
        "remember",
        "forget",
        "cell",
        "finish",
        "delegate",
    }
)
"""Work that is not begun once an earlier part went wrong; looking and reading goes on."""
MOST_FILES = 5  # how many found files "read them" opens
_EDITED = re.compile(r"A person changed the arguments before approving\.[^\n]*\n?")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One step with its result. ``edited``: a person changed its arguments. ``text`` is the result or the reason.

    ``data`` is what a tool gave that answers in JSON; ``text`` then says the same in plain text.
    """

    step: Step
    state: State
    text: str = ""
    edited: str = ""
    near: tuple[str, ...] = ()
    data: Data | None = None


@dataclass(slots=True)
class Progress:
    """How far a request has come: outcomes so far, and the calls to make now (none: all is done)."""

    outcomes: list[Outcome] = field(default_factory=list)
    calls: list[Step] = field(default_factory=list)
    question: str = ""


def exchanges(messages: Sequence[ChatMessage]) -> list[tuple[ToolCallPart, ToolResultPart | None]]:
    """The calls since the last user message, in order, each with its result."""
    start = max((n for n, message in enumerate(messages) if message.role == "user"), default=-1) + 1
    results = {result.call_id: result for message in messages[start:] for result in message.tool_results}
    return [(call, results.get(call.id)) for message in messages[start:] for call in message.tool_calls]


def follow(
    steps: Sequence[Step], done: Sequence[tuple[ToolCallPart, ToolResultPart | None]], tools: Sequence[ToolSchema]
) -> Progress:
    """Go through ``steps`` along the calls already made, up to the first that was not."""
    progress, made, looked = Progress(), iter(done), False
    for group in _groups(steps):
        ready = _resolve(group, progress, tools)
        outcomes = _take(ready, made)
        if outcomes is None:
            progress.calls = ready
            return progress
        lost = next((o for o in outcomes if _is_lost(o)), None)
        if lost is not None and not looked:
            looked = True
            search = _near_search(lost, tools)
            found = _take([search], made) if search else []
            if found is None and search:
                progress.calls = [search]
                return progress
            near = _nearest(lost, found[0].text) if found and found[0].state == "done" else ()
            outcomes = [replace(o, near=near) if o is lost else o for o in outcomes]
        progress.outcomes += outcomes
    return progress


def _groups(steps: Sequence[Step]) -> Iterator[list[Step]]:
    group: list[Step] = []
    for step in steps:
        if group and not step.op.together:
            yield group
            group = []
        group.append(step)
    if group:
        yield group


def _take(steps: list[Step], made: Iterator[tuple[ToolCallPart, ToolResultPart | None]]) -> list[Outcome] | None:
    """The outcomes of ``steps`` from the next calls made, or None when they were not made yet."""
    outcomes = []
    for step in steps:
        call, result = next(made, (None, None))
        if call is None:
            return None
        outcomes.append(_outcome(step, call, result))
    return outcomes


def _outcome(step: Step, call: ToolCallPart, result: ToolResultPart | None) -> Outcome:
    if result is None:
        return Outcome(step, "not_run", "there is no result")
    note = _EDITED.match(result.content)
    text = result.content[note.end() :] if note else result.content
    edited = note[0].strip() if note else ""
    data = read_json(step.tool, text)
    if result.is_error and not text.startswith("not run:"):
        return Outcome(step, "failed", as_text(step.tool, data) if data is not None else text, edited)
    if text.startswith("declined:"):
        return Outcome(step, "declined", text.removeprefix("declined:").strip(), edited)
    if re.match(r"(?:not run|not decided|cancelled|interrupted):", text):
        return Outcome(step, "not_run", text, edited)
    if data is not None:
        return Outcome(step, "done", as_text(step.tool, data), edited, data=data)
    return Outcome(step, "done", text, edited)


def _is_lost(outcome: Outcome) -> bool:
    missing = re.search(r"file not found|no such file", outcome.text, re.I)
    return outcome.state == "failed" and bool(missing) and outcome.step.op.kind in ("read", "summary", "edit")


def _near_search(lost: Outcome, tools: Sequence[ToolSchema]) -> Step | None:
    """A search for names near the one that was not found."""
    path = PurePosixPath(str(lost.step.arguments.get("path", "")))
    if not re.fullmatch(r"[\w.-]{2,}", path.stem) or not re.fullmatch(r"[\w.]*", path.suffix):
        return None
    alike = f"{{*{path.stem}*,*{path.suffix}}}" if path.suffix else f"*{path.stem}*"
    return to_step(Op("find", {"pattern": f"**/{alike}"}, "near"), tools)


def _nearest(outcome: Outcome, found: str) -> tuple[str, ...]:
    """The paths in ``found`` whose names are most like the one that was not found."""
    wanted = PurePosixPath(str(outcome.step.arguments.get("path", "")))
    names = {path: PurePosixPath(path) for path in paths_in(found)}
    stems = [path for path, name in names.items() if name.stem.lower() == wanted.stem.lower()]
    close = get_close_matches(wanted.name, [name.name for name in names.values()], n=MOST_FILES, cutoff=0.6)
    ranked = [*stems, *(path for word in close for path, name in names.items() if name.name == word)]
    ranked += [path for path, name in names.items() if wanted.stem.lower() in name.name.lower()]
    return tuple(dict.fromkeys(ranked))[:MOST_FILES]


def _resolve(group: list[Step], progress: Progress, tools: Sequence[ToolSchema]) -> list[Step]:
    """``group`` with what earlier results decide filled in; steps that can't be taken become outcomes "left"."""
    broken = any(o.state != "done" for o in progress.outcomes)
    ready: list[Step] = []
    for step in group:
        if broken and (step.op.kind in CHANGING or step.op.needs):
            progress.outcomes.append(Outcome(step, "left", "an earlier part did not work"))
        elif step.op.needs:
            ready += _filled(step, progress, tools)
        else:
            ready.append(step)
    return ready


def _filled(step: Step, progress: Progress, tools: Sequence[ToolSchema]) -> list[Step]:
    last = next((o for o in reversed(progress.outcomes) if o.step.op.kind != "todo"), None)
    if last is None:
        progress.outcomes.append(Outcome(step, "left", "there is nothing before it that it could mean"))
        return []
    if step.op.needs == "setting":
        return _set(step, last, progress, tools)
    if step.op.needs == "either":
        return [to_step(replace(either(last.text, str(step.op.args["name"])), text=step.op.text), tools) or step]
    if step.op.needs in ("table", "columns"):
        return _about_table(step, last, progress, tools)
    if step.op.needs == "result":
        return [_with(step, tools, content=last.text.rstrip("\n") + "\n")]
    paths = list(dict.fromkeys(paths_in(last.text)))
    if len(paths) == 1 or (paths and "first" in step.op.text.lower()):
        return [_with(step, tools, path=paths[0])]
    if paths and step.op.needs == "files":
        return [_with(step, tools, path=path) for path in paths[:MOST_FILES]]
    reason = f"{len(paths)} files were found, say which one" if paths else "no file was found"
    progress.outcomes.append(Outcome(step, "left", reason))
    return []


def _about_table(step: Step, last: Outcome, progress: Progress, tools: Sequence[ToolSchema]) -> list[Step]:
    """The look at the table that is meant, or what is computed from its columns."""
    ask = str(step.op.args["ask"])
    try:
        if step.op.needs == "table":
            return [_with(step, tools, name=table_named(last.text, ask))]
        op = computed(last.text, str(last.step.arguments["name"]), ask)
        return [to_step(op, tools) or step]
    except Unclear as problem:
        progress.outcomes.append(Outcome(step, "left", str(problem)))
        return []


def _set(step: Step, last: Outcome, progress: Progress, tools: Sequence[ToolSchema]) -> list[Step]:
    key, new = str(step.op.args["old_string"]), str(step.op.args["new_string"])
    change = setting_change(last.text, key, new)
    if change is None:
        progress.outcomes.append(Outcome(step, "left", f"there is not exactly one line that sets {key}"))
        return []
    return [_with(step, tools, old_string=change[0], new_string=change[1])]


def _with(step: Step, tools: Sequence[ToolSchema], **args: str) -> Step:
    op = replace(step.op, args={**step.op.args, **args}, needs="")
    return to_step(op, tools) or step


_PATH_LINE = re.compile(
    r"\s*(?:[-*]\s+)?((?:[^\s:,\[\]]|(?<=\w) (?=\w))*\.\w+)(?:[:\-]\d+\b.*|:|\s{2,}.*|\s*\(.*\)|: \d.*)?$"
)


def paths_in(text: str) -> Iterator[str]:
    """The paths that a result of glob or grep lists, in order, each once."""
    seen = set()
    for line in text.splitlines():
        found = _PATH_LINE.match(line)
        if found and found[1] not in seen:
            seen.add(found[1])
            yield found[1]
