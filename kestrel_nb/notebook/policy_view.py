"""What ``%kestrel policy`` shows: the rules in force, what each tool does by them, and what one call would do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..protocol.messages import JsonObject
from ..protocol.sessions import PermissionRule
from ..protocol.tools import PermissionDecision
from ..runtime.permissions import UnreadableRules, concerns_tool, decide
from ..runtime.tool_policy import ToolPolicy
from ..runtime.tools import JudgingTool, Tool
from .rendering import escape_text
from .rule_book import Numbered
from .visible import one_line, visible

if TYPE_CHECKING:
    from ..frames import DataFrame

ORDER = "The last rule that speaks about a call wins; a deny always holds."
TOOLS = "What each does when the model calls it."
NO_RULES = "No rules: every tool does what it is made to do."
_TEXT_COLUMN = 60  # characters of a match in the text form


@dataclass(frozen=True, slots=True)
class ToolLine:
    """What calls of one tool do. ``some`` numbers the rules that decide on some of its calls only; ``judges`` is for a
    tool that decides from call to call, ``ruled_out`` for one that the application's tool policy excludes."""

    tool: str
    decision: PermissionDecision
    rule: int | None
    some: tuple[int, ...]
    read_only: bool
    judges: bool = False
    ruled_out: bool = False

    @property
    def why(self) -> str:
        """Where the decision comes from, in a few words."""
        if self.ruled_out:
            return "the application's tool policy"
        default = "its default; some calls run by themselves" if self.judges else "its default"
        why = default if self.rule is None else f"rule {self.rule}"
        if self.some:
            why += f"; some calls by rule {', '.join(map(str, self.some))}"
        return why


def tool_lines(rules: Sequence[Numbered], tools: Sequence[Tool], policy: ToolPolicy) -> list[ToolLine]:
    """What every tool does by ``rules`` and by the application's ``policy``."""
    return [_tool_line(rules, tool, ruled_out=policy.refusal(tool.schema.name) is not None) for tool in tools]


def _tool_line(rules: Sequence[Numbered], tool: Tool, *, ruled_out: bool) -> ToolLine:
    schema = tool.schema
    if ruled_out:
        return ToolLine(schema.name, "deny", None, (), schema.read_only is True, ruled_out=True)
    mine = [item for item in rules if concerns_tool(item.rule, schema)]
    decision, _, rule = decide([item.rule for item in mine if item.rule.match is None], schema, {})
    decider = number_of(mine, rule)
    some = () if decision == "deny" else tuple(item.number for item in mine if item.rule.match is not None)
    judges = isinstance(tool, JudgingTool) and decision == "ask"
    return ToolLine(schema.name, decision, decider, some, schema.read_only is True, judges=judges)


def number_of(rules: Sequence[Numbered], rule: PermissionRule | None) -> int | None:
    """The number of exactly this ``rule``."""
    return next((item.number for item in rules if item.rule is rule), None)


class Policy:
    """The rules in force and what every tool does by them. ``frame`` has the tools, ``rules_frame`` the rules."""

    def __init__(self, rules: Sequence[Numbered], tools: Sequence[ToolLine], notes: Sequence[str] = ()) -> None:
        self.rules = tuple(item.rule for item in rules)
        self.notes = tuple(notes)
        self._rules = tuple(rules)
        self._tools = tuple(tools)

    @property
    def frame(self) -> DataFrame:
        """The tools: name, decision, why, whether it only reads."""
        from ..frames import to_frame

        rows = [[line.tool, line.decision, line.why, line.read_only] for line in self._tools]
        return to_frame({"columns": ["tool", "decision", "why", "read_only"], "rows": rows})

    @property
    def rules_frame(self) -> DataFrame:
        """The rules: number, whose it is, tool, action, match."""
        from ..frames import to_frame

        rows = [[i.number, i.owner, i.rule.tool, i.rule.action, i.rule.match] for i in self._rules]
        return to_frame({"columns": ["rule", "scope", "tool", "action", "match"], "rows": rows})

    def __repr__(self) -> str:
        lines = [f"Rules. {ORDER}" if self._rules else NO_RULES]
        lines += _columns([[str(i.number), i.owner, _rule_text(i.rule)] for i in self._rules])
        lines += ["", f"Tools. {TOOLS}", *_columns([[line.tool, line.decision, line.why] for line in self._tools])]
        notes = [visible(note) for note in self.notes]
        return "\n".join([*lines, *(["", *notes] if notes else [])])

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._html()}

    def _html(self) -> str:
        from .sheet import record_sheet

        body = _title("Rules", ORDER if self._rules else NO_RULES)
        if self._rules:
            rules = [[str(i.number), i.owner, *_rule_cells(i.rule)] for i in self._rules]
            body += _table(("rule", "scope", "tool", "action", "match"), rules, code=(2, 4))
        tools = [[line.tool, line.decision, line.why] for line in self._tools]
        body += _title("Tools", TOOLS) + _table(("tool", "decision", "why"), tools, code=(0,))
        body += "".join(f'<p class="kestrel-label">{escape_text(note)}</p>' for note in self.notes)
        html = f'<div class="kestrel-view kestrel-inbox">{body}</div>'
        return f"<style>{record_sheet(html)}</style>{html}"


def _title(word: str, words: str) -> str:
    return f'<p class="kestrel-title"><b>{word}</b> {escape_text(words)}</p>'


def _rule_text(rule: PermissionRule) -> str:
    tool, action, match = _rule_cells(rule)
    return f"{tool}: {action}" + (f"  {match}" if match else "")


def _rule_cells(rule: PermissionRule) -> list[str]:
    if isinstance(rule, UnreadableRules):
        return ["*", "ask", "(rules that can't be read)"]
    return [rule.tool, rule.action, "" if rule.match is None else one_line(rule.match, _TEXT_COLUMN)]


def _columns(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)] if rows else []
    return ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True)) for row in rows]


def _table(names: Sequence[str], rows: Sequence[Sequence[str]], code: tuple[int, ...]) -> str:
    heads = "".join(f'<th class="kestrel-t">{name}</th>' for name in names)
    lines = ""
    for row in rows:
        cells = [
            f"<code>{escape_text(cell)}</code>" if column in code and cell else escape_text(cell)
            for column, cell in enumerate(row)
        ]
        lines += "<tr>" + "".join(f'<td class="kestrel-t">{cell}</td>' for cell in cells) + "</tr>"
    table = f'<table class="kestrel-table"><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>'
    return f'<div class="kestrel-scroll">{table}</div>'


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """What would happen to one exact call. ``rule`` is the rule behind it, None for the tool's default."""

    tool: str
    arguments: JsonObject
    decision: PermissionDecision
    reason: str
    rule: PermissionRule | None = None
    number: int | None = None

    def __repr__(self) -> str:
        where = f" (rule {self.number})" if self.number is not None else ""
        return visible(f"{self.decision}: {self.reason.removeprefix('denied by ')}{where}")
