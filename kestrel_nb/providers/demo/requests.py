"""From a person's words to the calls that answer them, or to the honest news that they were not understood."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...protocol.tools import ToolSchema
from .assignments import parse_setting
from .calls import CALL, parse_call_by_name, parse_call_by_words
from .changes import parse_edit, parse_filler, parse_plan, parse_write
from .commands import parse_bare_command, parse_run
from .counting import parse_count
from .data_steps import drawn_again, parse_data, parse_look
from .files import parse_find, parse_list, parse_read, parse_summary
from .misfits import misfit
from .offered import CANDIDATES, KNOWN_TOOLS, Step, fit, to_step
from .others import parse_other, parse_sum, parse_time, parse_web
from .phrases import FILE, Op, Place, match, take_place
from .schemas import take_tables
from .search import parse_search
from .text import Masked, mask, split_parts, strip_polite, without_marks
from .verbatim import parse_verbatim
from .wording import plain_wording
from .words import STARTS

LONGEST_REQUEST = 20_000  # characters; nothing that long is one of the requests understood here
LONGEST_UNQUOTED = 4_000  # characters beside the quoted ones
LONGEST_PART = 400  # characters, quoted text aside; it keeps the search for a meaning short
MOST_STEPS = 30

PARSERS: tuple[Callable[[str, Masked], list[Op] | None], ...] = (
    parse_filler,
    parse_other,
    parse_web,
    parse_time,
    parse_sum,
    parse_count,
    parse_setting,
    parse_edit,
    parse_write,
    parse_run,
    parse_bare_command,
    parse_list,
    parse_find,
    parse_summary,
    parse_read,
    parse_search,
)


@dataclass(frozen=True, slots=True)
class Understanding:
    """What a request comes to: ``steps``, or why there are none.

    ``unknown`` is the part that was not understood, as it was typed; ``alone`` says that it would be as a whole
    request. ``missing`` is the kind of work for which no tool is offered, ``misfit`` what is wrong with the call of a
    tool that was named.
    """

    steps: tuple[Step, ...] = ()
    unknown: str | None = None
    alone: bool = False
    missing: Op | None = None
    misfit: str | None = None
    help: bool = False


def understand(text: str, tools: Sequence[ToolSchema]) -> Understanding:
    """The steps that ``text`` asks for. All of it must be understood, else nothing is done."""
    text, tables = take_tables(without_marks(text))
    if len(text) > LONGEST_REQUEST:
        return Understanding(unknown=text[:200])
    masked = replace(mask(text), tables=tables)
    if len(masked.text) > LONGEST_UNQUOTED:
        return Understanding(unknown=text[:200])
    whole = strip_polite(masked.text)
    if not whole or _asks_for_help(whole):
        return Understanding(help=True)
    verbatim = parse_verbatim(masked)
    ops = [verbatim] if verbatim else _plan(masked, tools) or _all_parts(masked, tools)
    if isinstance(ops, str):
        if len(split_parts(masked.text, STARTS)) == 1:
            return Understanding(unknown=text.strip())
        part = mask(ops)
        return Understanding(unknown=ops, alone=bool(parse_verbatim(part) or _plan(part, tools)))
    return _lower(ops, tools) if ops else Understanding(unknown=text.strip())


def _asks_for_help(text: str) -> bool:
    return bool(
        match(
            r"help(?:\s+me)?|hi|hello|hey|(?:good\s+)?(?:morning|afternoon|evening)|what\s+(?:else\s+)?"
            r"(?:can|do)\s+you\s+(?:do|understand)(?:\s+for\s+me)?|who\s+are\s+you"
            r"|what\s+are\s+you|(?:what|which)\s+(?:tools|commands|requests)\s+.*(?:you|there|available"
            r"|offer).*|are\s+you\s+(?:an?\s+)?(?:ai|llm|real|human|bot|language\s+model).*"
            r"|(?:list|show)\s+(?:me\s+)?(?:all\s+)?(?:the\s+|your\s+)?(?:available\s+)?(?:tools"
            r"|commands)|how\s+do\s+(?:you|i\s+use\s+you)(?:\s+work)?|test(?:ing)?|start|thanks?"
            r"|thank\s+you.*",
            text,
        )
    )


def _all_parts(masked: Masked, tools: Sequence[ToolSchema]) -> list[Op] | str:
    """The ops of every part, or the first part that was not understood, as it was typed."""
    whole = strip_polite(masked.text)
    if "\n" not in masked.text.strip():
        alone = None if len(split_parts(masked.text, STARTS)) == 1 else _delegated(whole, masked)
        if alone and not any(op.needs for op in alone):
            return [_unmasked(op, masked) for op in alone]
    ops: list[Op] = []
    place = ""
    for said, typed in split_parts(masked.text, STARTS):
        part = drawn_again(said, ops)
        if _only_place(part, masked):
            place = re.sub(r"^(?:for|edit|modify|change|update)\s+", "in ", part, flags=re.I)
            continue
        placed = (f"{part} {place}", f"{place} {part}") if place else (_place_last(part), part, _in_last(part, ops))
        found = next((read for text in placed if (read := _part(text, masked, tools)) is not None), None)
        if found is None and not _is_bare_verb(part):
            return masked.restore(typed)
        found = _shown_file(part, ops) or found
        for op in found or ():
            ops.append(_refer(op, ops))
            if ops[-1].needs == "there" or (ops[-1].needs and len(ops) == 1):
                return masked.restore(typed)
    return ops


_FRONT = re.compile(
    rf"((?:in(?!\s+(?:how|which|what)\b)|inside|within|under|from|of)\s+\S.*?)\s*[,:]?\s+(?=(?:{STARTS.pattern}))", re.I
)


def _in_last(part: str, ops: list[Op]) -> str:
    """ "open a.txt and replace x with y": y is written in the file that was opened."""
    path = ops[-1].args.get("path") if ops and ops[-1].kind in ("read", "write", "edit") else None
    return f"{part} in {path}" if path and re.fullmatch(r"\S+", path) else part


def _place_last(part: str) -> str:
    """ "in src find X" as "find X in src"."""
    front = _FRONT.match(part)
    return f"{part[front.end() :]} {front[1]}" if front else part


def _only_place(part: str, masked: Masked) -> bool:
    """ "In config.toml, ...", "edit config.toml, ...": a place for the part that follows."""
    part = re.sub(rf"^(?:edit|modify|change|update)\s+(?={FILE}$)", "in ", part, flags=re.I)
    part = re.sub(r"^for\s+(?=(?:each|every|all)\b)", "in ", part, flags=re.I)
    text, place = take_place(f"x {part}", masked, "in|inside|within|under")
    return text == "x" and part != "here" and place != Place()


def _delegated(text: str, masked: Masked) -> list[Op] | None:
    """A task for a helper is handed over whole, with its commas and its "and then"."""
    ops = parse_other(text, masked)
    return ops if ops and ops[0].kind in ("delegate", "remember") else None


def _shown_file(part: str, ops: list[Op]) -> list[Op] | None:
    """ "find app.py and show it": its text, as the search alone would show no more than its name."""
    sought = ops[-1].args.get("pattern", "") if ops and ops[-1].kind == "find" else ""
    single = re.fullmatch(r"(?:\*\*/)?[\w.-]+\.\w+", sought)
    shown = match(
        r"(?:show|display|print|give|cat|view|output)(?:\s+me)?\s+(?:it|its\s+(?:text|contents?))(?:\s+to\s+me)?", part
    )
    return [Op("read", {}, part, needs="file")] if single and shown else None


def _is_bare_verb(part: str) -> bool:
    """ "open and read x": the first verb says nothing that the second does not."""
    return bool(match(r"open|go|look|find|get|take|load|search|see|check|come", part))


def _part(part: str, masked: Masked, tools: Sequence[ToolSchema]) -> list[Op] | None:
    if len(part) > LONGEST_PART:
        return None
    ops = _ops(plain_wording(part), masked, tools)
    return None if ops is None else [_unmasked(op, masked) for op in ops]


def _ops(part: str, masked: Masked, tools: Sequence[ToolSchema]) -> list[Op] | None:
    named = parse_call_by_name(part, masked, tools) or _with_tool(part, masked, tools)
    if named:
        return named
    wrong = misfit(part, masked, tools, sure=True)
    if wrong:
        return wrong
    spoken = parse_call_by_words(part, masked, tools) or parse_data(part, masked, tools, masked.tables)
    spoken = spoken or parse_look(part, masked, tools)
    if spoken:
        return spoken
    for parse in PARSERS:
        ops = parse(part, masked)
        if ops is not None:
            return ops
    by_tool = match(rf"{CALL}(?:the\s+)?(?:{'|'.join(KNOWN_TOOLS)})(?:\s+tool)?\s+to\s+(?P<work>.+)", part)
    if by_tool:  # "use the grep tool to search for X"
        return _ops(by_tool["work"], masked, tools)
    return parse_call_by_words(part, masked, tools, loose=True) or misfit(part, masked, tools, sure=False)


_WITH_TOOL = re.compile(
    r"(?P<work>.+?)\s+(?:with|using|via|through)\s+(?:the\s+)?"
    rf"(?P<tool>{'|'.join(sorted(name for name in KNOWN_TOOLS if '-' in name))}|web_fetch)(?:\s+tool)?",
    re.I | re.S,
)


def _with_tool(part: str, masked: Masked, tools: Sequence[ToolSchema]) -> list[Op] | None:
    """ "run `ls` with shell-exec": the tool that was named, where several could do it."""
    found = _WITH_TOOL.fullmatch(part)
    tool = next((tool for tool in tools if found and tool.name == found["tool"].lower()), None)
    ops = _ops(found["work"], masked, tools) if found and tool else None
    if tool is None or ops is None or len(ops) != 1 or tool.name not in CANDIDATES.get(ops[0].kind, ()):
        return None
    return [Op("call", {"tool": tool.name, "arguments": fit(ops[0].args, tool)}, part)]


def _unmasked(op: Op, masked: Masked) -> Op:
    """``op`` without any placeholder: what is left of quoted parts stands there as it was typed."""
    return replace(
        op, text=masked.restore(op.text), args={key: _typed(value, masked) for key, value in op.args.items()}
    )


def _typed(value: Any, masked: Masked) -> Any:
    if isinstance(value, str):
        return masked.restore(value)
    if isinstance(value, list):
        return [_typed(item, masked) for item in value]
    if isinstance(value, dict):
        return {masked.restore(key): _typed(item, masked) for key, item in value.items()}
    return value


def _refer(op: Op, before: list[Op]) -> Op:
    """ "read it": the file that an earlier part named, if it named one; found files are known only later."""
    if op.kind == "count" or op.kind == "search":
        return _refer_search(op, before)
    if op.needs not in ("file", "files") or not before:
        return op
    named = before[-1].args.get("path")
    if op.kind == "read" and op.needs == "file" and before[-1].kind == "read" and set(before[-1].args) == {"path"}:
        before.pop()  # "open x and show the first five lines" is one reading
        return replace(op, args={**op.args, "path": named}, needs="")
    if before[-1].kind in ("read", "summary", "write", "edit", "append") and named:
        return replace(op, args={**op.args, "path": named}, needs="")
    return op


def _refer_search(op: Op, before: list[Op]) -> Op:
    """ "list the Python files and count the lines that contain X": X is counted in those files."""
    if not before or op.args.get("path") or op.args.get("glob"):
        return op
    there, op = bool(op.needs), replace(op, needs="")
    last = before[-1]
    if last.kind in ("find", "count_files"):
        name = last.args["pattern"].removeprefix("**/")
        where = {"glob": name} if name != "*" else {}
        return replace(op, args={**op.args, **where, **({"path": last.args["path"]} if "path" in last.args else {})})
    if last.kind in ("read", "summary", "list") and "path" in last.args and there:
        return replace(op, args={**op.args, "path": last.args["path"]})
    return op


def _plan(masked: Masked, tools: Sequence[ToolSchema]) -> list[Op] | None:
    text = masked.text.strip()
    planned = parse_plan(_strip_lines(text), masked)
    if planned is None or not planned[0]:
        return None
    items, do_it = planned
    if not do_it:
        return [Op("todo", {"todos": _todos(items, -1)}, "plan")]
    ops: list[Op] = []
    for number, item in enumerate(items):
        part_masked = mask(item)
        work = _part(strip_polite(part_masked.text), part_masked, tools)
        if not work:
            return [Op("todo", {"todos": _todos(items, -1)}, "plan")]
        ops += [Op("todo", {"todos": _todos(items, number)}, "plan"), *(_refer(op, ops) for op in work)]
    return [*ops, Op("todo", {"todos": _todos(items, len(items))}, "plan")]


def _strip_lines(text: str) -> str:
    """The polite words go from the first line; the others are the tasks and stay lines."""
    first, newline, rest = text.partition("\n")
    colon = ":" if first.rstrip().endswith(":") else ""
    return strip_polite(first.rstrip().rstrip(":")) + colon + newline + rest


def _todos(items: list[str], current: int) -> list[dict[str, str]]:
    """``items`` with those before ``current`` done and that one begun; -1: none begun."""
    states = ["completed" if n < current else "in_progress" if n == current else "pending" for n in range(len(items))]
    return [{"text": item, "state": state} for item, state in zip(items, states, strict=True)]


def _lower(ops: list[Op], tools: Sequence[ToolSchema]) -> Understanding:
    steps: list[Step] = []
    if len(ops) > MOST_STEPS:
        return Understanding(unknown=f"more than {MOST_STEPS} things at once")
    wrong = next((op for op in ops if op.kind == "misfit"), None)
    if wrong is not None:
        return Understanding(misfit=wrong.args["why"])
    for op in ops:
        step = to_step(op, tools)
        if step is None:
            return Understanding(missing=op)
        steps.append(step)
    return Understanding(steps=tuple(steps)) if steps else Understanding(help=True)
