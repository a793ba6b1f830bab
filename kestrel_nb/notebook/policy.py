"""``%kestrel policy``: the permission rules, shown, said, taken back and explained. Nothing here runs a tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from difflib import get_close_matches
from typing import Any

from ..protocol.errors import UsageError
from ..protocol.sessions import PermissionRule
from ..protocol.suggest import suggestion
from ..protocol.tools import PermissionDecision, ToolSchema
from ..runtime.permissions import CHANGING, UnreadableRules, named
from ..runtime.rule_checks import rule_problem
from .cell import split_words
from .command import Command, Text
from .explaining import explain
from .policy_view import Policy, tool_lines
from .rule_book import SCOPES, Numbered, Scope, scoped
from .state import NotebookState
from .visible import one_line, visible

ACTIONS: tuple[PermissionDecision, ...] = ("auto", "ask", "deny")
ADD_USAGE = f"usage: %kestrel policy add TOOL {'|'.join(ACTIONS)} [MATCH] [--scope {'|'.join(SCOPES)}]"
_WHERE: dict[Scope, str] = {
    "session": "in this session",
    "notebook": "in this notebook",
    "user": "in all your notebooks",
}
_HOLDS = {**_WHERE, "notebook": "in this notebook, until its kernel ends"}
_USUAL: dict[Scope, str] = {"notebook": " (where none is named)", "user": "; --user means the same"}
_WHAT = {"auto": "run by themselves", "ask": "ask first", "deny": "are refused, also when somebody approves them"}


async def _policy(state: NotebookState, words: list[str]) -> Any:
    rest = words[0] if words else ""
    word, _, rest = rest.strip().partition(" ")
    if not word:
        return await _show(state)
    work = _WORDS.get(word)
    if work is None:
        hint = suggestion(word, _WORDS, f"there are: {', '.join(_WORDS)}", shape="%kestrel policy {}")
        raise UsageError(f'no word "{one_line(word, 40)}" of policy; {hint}')
    return await work(state, rest)


async def _show(state: NotebookState) -> Policy:
    await state.app.initialize()
    session = state.begun
    rules = state.rules.numbered(session or state.app.sessions)
    state.rules.tell_all(rules)
    policy = state.app.tool_policy
    tools = [
        tool
        for tool in state.app.tools.list()
        if session is None or session.offers(tool.schema.name) or policy.refusal(tool.schema.name)
    ]
    notes = state.rules.news()
    if left_out := state.rules.user.left_out(state.app.workspace):
        notes.append(f"{left_out} of your rules that let run don't count here: their file lies in the workspace")
    if state.app.sessions.has_resolver:
        notes.append("The application's own function decides after the rules.")
    return Policy(rules, tool_lines(rules, tools, policy), notes)


# ---- the preset ---------------------------------------------------------------------------------------------------


async def _careful(state: NotebookState, line: str) -> Text:
    """Let every tool ask that is not marked as reading only; approvals "for this session" are taken back."""
    rule = PermissionRule(tool=CHANGING, action="ask", scope=_preset_scope(line, "careful"))
    await _come_to_life(state)
    state.rules.put(rule, None)
    lines = [f"Careful {_HOLDS[rule.scope]}: every tool that is not marked read_only asks before it runs."]
    session = state.begun
    back = [own for own in session.own_rules if own.action == "auto"] if session is not None else []
    if session is not None and back:
        session.set_rules(own for own in session.own_rules if own.action != "auto")
        lines.append(f"Taken back in this session: {', '.join(f'{own.tool}: auto' for own in back)}.")
    if session is not None or state.can_wait:
        rules = state.rules.numbered(session or state.app.sessions)
        for tool in tool_lines(rules, state.app.tools.list(), state.app.tool_policy):
            if not tool.read_only and tool.decision == "auto":
                lines.append(f"{tool.tool} still runs by itself, by a later rule: %kestrel policy remove {tool.rule}")
    return Text("\n".join(lines))


async def _default(state: NotebookState, line: str) -> Text:
    rule = PermissionRule(tool=CHANGING, action="ask", scope=_preset_scope(line, "default"))
    await _come_to_life(state)
    taken = state.rules.take(rule, None)
    text = f"No longer careful {_WHERE[rule.scope]}." if taken else "That was the default already."
    other: Scope = "notebook" if rule.scope == "user" else "user"
    known = state.rules.notebook if other == "notebook" else state.rules.user.rules(state.app.workspace)
    if scoped(rule, other) in known:
        how = "%kestrel policy default" + (" --user" if other == "user" else "")
        text += f" It is still careful {_HOLDS[other]}: {how}"
    return Text(text)


def _preset_scope(line: str, word: str) -> Scope:
    words = split_words(line)
    if words not in ([], ["--user"]):
        raise UsageError(f"usage: %kestrel policy {word} [--user]; --user means all your notebooks")
    return "user" if words else "notebook"


async def _come_to_life(state: NotebookState) -> None:
    """Have the application's tools; where nothing can be awaited the rules are taken without a look at them."""
    if state.can_wait:
        await state.app.initialize()


# ---- single rules -------------------------------------------------------------------------------------------------


async def _add(state: NotebookState, line: str) -> Text:
    rule = _rule(split_words(line))
    await _come_to_life(state)
    schema = _schema(state, rule.tool)
    problem = rule_problem(rule, schema)
    if problem:
        raise UsageError(visible(problem))
    session = state.session() if rule.scope == "session" else state.begun
    state.rules.put(rule, session)
    if session is None and not state.can_wait:
        return Text(_about(state, rule, schema))
    numbered = state.rules.numbered(session or state.app.sessions)
    item = next((item for item in reversed(numbered) if item.rule == rule), None)
    if item is None:  # the file lies in the workspace
        return Text("Kept, but it does not count here: the file of your rules lies in the workspace.")
    state.rules.tell(item)
    return Text(f"Rule {item.number}: {_about(state, rule, schema)}{_held_back(numbered, item)}")


def _rule(words: list[str]) -> PermissionRule:
    words, scope = _take_scope(words)
    if len(words) < 2:
        raise UsageError(ADD_USAGE)
    tool, action = words[0], words[1]
    if action not in ACTIONS:
        hint = " (to allow is auto)" if action in ("allow", "approve", "yes", "run", "always") else ""
        raise UsageError(f'an action is one of {", ".join(ACTIONS)}, not "{one_line(action, 40)}"{hint}')
    if len(words) > 3:
        raise UsageError(f'put a match of several words into quotes: "{one_line(" ".join(words[2:]), 80)}"')
    return PermissionRule(
        tool=tool, action=action, match=words[2] if len(words) > 2 else None, scope=scope or "notebook"
    )


def _take_scope(words: list[str]) -> tuple[list[str], Scope | None]:
    """The words without ``--scope WORD`` or ``--user``, and that scope; None when none is named."""
    rest: list[str] = []
    scope: str | None = None
    left = iter(words)
    for word in left:
        name, equals, value = word.partition("=")
        if name == "--scope":
            scope = value if equals else next(left, "")
        elif word == "--user":
            scope = "user"
        elif word.startswith("--") and " " not in word:
            raise UsageError(f"unknown option {one_line(word, 40)}; there is --scope {'|'.join(SCOPES)}")
        else:
            rest.append(word)
    if scope is not None and scope not in SCOPES:
        raise UsageError(f'--scope is one of {", ".join(SCOPES)}, not "{one_line(scope, 40)}"')
    return rest, scope


def _schema(state: NotebookState, name: str) -> ToolSchema | None:
    tool = state.app.tools.get(name)
    return tool.schema if tool is not None else None


def _about(state: NotebookState, rule: PermissionRule, schema: ToolSchema | None) -> str:
    """What the rule does, in a sentence or two."""
    calls = {"*": "calls of every tool", CHANGING: "calls of every tool that is not marked read_only"}.get(
        rule.tool, f"calls of {rule.tool}"
    )
    if rule.match is not None:
        calls += f" that match `{one_line(rule.match, 80)}`"
    text = f"{calls} {_WHAT[rule.action]}, {_HOLDS[rule.scope]}."
    if schema is None and rule.tool not in ("*", CHANGING) and state.app.tools.size:
        near = get_close_matches(rule.tool, [schema.name for schema in state.app.tools.schemas()], n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        text += f" There is no tool {rule.tool} yet{hint}; the rule holds as soon as there is."
    return text


def _held_back(rules: list[Numbered], item: Numbered) -> str:
    """Why a rule has no effect at all: an earlier deny, or a later rule, about every such call."""
    rule = item.rule
    for other in rules:
        whole = other.rule.match is None and other.rule.tool in ("*", rule.tool)
        denies = other.rule.action == "deny" and not isinstance(other.rule, UnreadableRules)
        if whole and other is not item and rule.action != "deny" and (denies or other.number > item.number):
            return f" It has no effect: rule {other.number} decides ({other.rule.tool}: {other.rule.action})."
    return ""


async def _remove(state: NotebookState, line: str) -> Text:
    words, scope = _take_scope(split_words(line))
    if not 1 <= len(words) <= 2:
        raise UsageError("usage: %kestrel policy remove N, or TOOL [MATCH]; %kestrel policy shows the rules")
    await state.app.initialize()
    session = state.begun
    rules = state.rules.numbered(session or state.app.sessions)
    if words[0].isascii() and words[0].isdecimal() and len(words) == 1 and len(words[0]) < 9:
        item = state.rules.by_number(int(words[0]), rules)
    else:
        item = _find(rules, words, scope)
    if isinstance(item.rule, UnreadableRules):
        raise UsageError(state.rules.user.problem or "the user's rules can be read again; look at %kestrel policy")
    if item.owner == "application" or not state.rules.take(item.rule, session):
        raise UsageError(f"rule {item.number} was given in code with the application; it can't be removed here")
    return Text(visible(f"Removed {named(item.rule)}; it held {_WHERE[item.rule.scope]}."))


def _find(rules: list[Numbered], words: list[str], scope: Scope | None) -> Numbered:
    """The one rule about this tool and match. Raises UsageError when there is none, or more than one."""
    mine = [item for item in rules if item.rule.tool == words[0] and scope in (None, item.owner)]
    if len(words) > 1:
        mine = [item for item in mine if item.rule.match == words[1]]
    whole = [item for item in mine if item.rule.match is None]
    found = whole if len(mine) > 1 and whole else mine
    if len(found) == 1:
        return found[0]
    if found:
        numbers = ", ".join(str(item.number) for item in found)
        raise UsageError(f"rules {numbers} speak about that; remove one by its number")
    near = get_close_matches(words[0], [item.rule.tool for item in rules], n=1)
    hint = f'did you mean "{near[0]}"?' if near and near[0] != words[0] else "%kestrel policy shows the rules"
    raise UsageError(f'no rule about "{one_line(" ".join(words), 80)}"; {hint}')


_WORDS: dict[str, Callable[[NotebookState, str], Awaitable[Any]]] = {
    "careful": _careful,
    "default": _default,
    "add": _add,
    "remove": _remove,
    "explain": explain,
}
_MORE = (
    ("policy", "the rules in force, numbered, and what every tool does by them"),
    ("policy careful [--user]", "every tool asks that is not marked as reading only; --user: in all your notebooks"),
    ("policy default [--user]", "no longer careful"),
    ("policy add TOOL ACTION [MATCH]", "a rule about a tool's calls; put a MATCH of several words into quotes"),
    ("policy remove N", "take a rule back, by its number"),
    ("policy remove TOOL [MATCH]", "or by what it is about"),
    ("policy explain TOOL NAME=VALUE", "what would happen to exactly this call, and why; nothing runs"),
    ("TOOL", f"a tool's name, * for every tool, {CHANGING} for every one that is not marked as reading only"),
    *((f"ACTION {action}", f"its calls {does}") for action, does in _WHAT.items()),
    (
        "MATCH",
        "only the calls that match: word by word with a command, with the first text argument (a path, an "
        "address) of another tool; * stands for anything",
    ),
    *((f"--scope {scope}", f"the rule holds {_HOLDS[scope]}{_USUAL.get(scope, '')}") for scope in SCOPES),
)
COMMANDS = {
    "policy": Command(
        "[WORD ...]",
        "what may run, what asks and what is refused: the rules, and words to change them",
        99,
        _policy,
        ("|".join(f"={word}" for word in _WORDS), "tool|=--user", "|".join(f"={action}" for action in ACTIONS)),
        more=_MORE,
        raw=True,
    )
}
