"""What is wrong with a rule before it is in force: above all that it could never match a call.

Whether a ``match`` can match is tried, not reasoned about: its globs are filled in, and the call that comes out is
compared with the rule by the same code that compares real calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from ..protocol.sessions import PermissionRule
from ..protocol.tools import ToolSchema
from .permissions import CHANGING, matches
from .tools import NAME

MAX_MATCH = 1000  # characters; no path, address or command that a person writes as a pattern is longer
_PLAIN = "abcxyz0123456789ABCXYZ_@+=:,./-"
_CLASS = re.compile(r"\[!?\]?[^\]]*\]")
_SYNTAX = re.compile(r"[^\w@+=:,./ \t*?\[\]-]")
_COMMAND = ToolSchema(
    name="x", description="", parameters={"type": "object", "properties": {"command": {"type": "string"}}}
)
_TEXT = ToolSchema(name="x", description="", parameters={"type": "object", "properties": {"x": {"type": "string"}}})


def rule_problem(rule: PermissionRule, schema: ToolSchema | None) -> str:
    """Why ``rule`` can't be meant so, in a few words; "" when it can. ``schema`` is its tool's, None if not known."""
    if rule.tool not in ("*", CHANGING) and not NAME.fullmatch(rule.tool):
        return f'no tool can be named "{rule.tool[:80]}"; say a name, * for every tool, or {CHANGING}'
    if rule.match is None:
        return ""
    if not rule.match.strip():
        return "the match is empty; leave it out for a rule about every call"
    if len(rule.match) > MAX_MATCH:
        return f"the match is longer than {MAX_MATCH:,} characters"
    if schema is not None and not _takes_text(schema):
        return f"{rule.tool} has no text argument that a match could be compared with; leave the match out"
    kinds = [_plain_kind(schema)] if schema is not None else [_COMMAND, _TEXT]
    if any(_can_match(rule, kind) for kind in kinds):
        return ""
    return _why_never(rule, shell=kinds == [_COMMAND])


def takes_command(schema: ToolSchema) -> bool:
    """True for a tool whose calls are compared word by word."""
    return "command" in schema.parameters.get("properties", {})


def _plain_kind(schema: ToolSchema) -> ToolSchema:
    return _COMMAND if takes_command(schema) else _TEXT


def _takes_text(schema: ToolSchema) -> bool:
    parameters = schema.parameters
    properties: Mapping[str, Any] = parameters.get("properties", {})
    return parameters.get("additionalProperties") is not False or any(map(may_be_text, properties.values()))


def may_be_text(declared: Any) -> bool:
    """Whether a value of this JSON Schema can be a string; unsure counts as yes."""
    if not isinstance(declared, Mapping):
        return True
    kind = declared.get("type")
    if kind is not None:
        return kind == "string" or (isinstance(kind, list) and "string" in kind)
    branches = declared.get("anyOf") or declared.get("oneOf")
    return not isinstance(branches, list) or any(map(may_be_text, branches))


def _can_match(rule: PermissionRule, schema: ToolSchema) -> bool:
    name = next(iter(schema.parameters["properties"]))
    plain = PermissionRule(tool="*", action=rule.action, match=rule.match)
    return any(matches(plain, schema, {name: value}) for value in _examples(rule.match or ""))


def _examples(match: str) -> Iterator[str]:
    for filling in ("x", ""):
        text = _CLASS.sub(lambda found: _one_of(found.group()), match)
        yield text.replace("*", filling).replace("?", "x")


def _one_of(group: str) -> str:
    """A plain character that the ``[...]`` of a glob takes, else the text itself."""
    return next((sign for sign in _PLAIN + group[1:-1] if sign.isprintable() and fnmatchcase(sign, group)), group)


def _why_never(rule: PermissionRule, *, shell: bool) -> str:
    never = f"a rule that {'lets run' if rule.action == 'auto' else 'says ' + rule.action} could never match "
    syntax = _SYNTAX.search(_CLASS.sub("", rule.match or ""))
    if shell and syntax:
        what = repr(syntax.group()) if not syntax.group().isprintable() else f"`{syntax.group()}`"
        return f"{never}a command with {what}: such commands can't be compared"
    if shell and rule.action == "auto":
        return (
            f"{never}`{rule.match}`: options must be spelled out, a glob takes no absolute path and no `..`, and no "
            "variable stands before the command"
        )
    if rule.action == "auto":
        return f"{never}`{rule.match}`: no match lets run what has `..`, control characters or an address with a user"
    return f"{never}`{rule.match}`"
