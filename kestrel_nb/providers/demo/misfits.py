"""Calls of a named tool that can't be made as they stand: which parameter is unknown, missing or has a wrong value."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from ...protocol.tools import ToolSchema
from .calls import CALL, SET, UNFIT, given_object, named_tool, properties_of, required_of, value_for, values_of
from .offered import KNOWN_TOOLS
from .phrases import Op, match
from .quoting import code
from .text import Masked

MOST_NAMES = 20  # tools that an answer lists by name
_KINDS = {"integer": "a whole number", "number": "a number", "boolean": "true or false", "array": "a JSON list"}


def misfit(part: str, masked: Masked, tools: Sequence[ToolSchema], *, sure: bool) -> list[Op] | None:
    """What is wrong with the call that ``part`` asks for, as the reason for doing nothing; None: it asks for none.

    ``sure``: only where nothing but a call can be meant, as ``name=value`` or a name that is no English word shows.
    """
    named = named_tool(part, masked, tools)
    if named is None:
        why = None if sure else _no_such_tool(part, masked, tools)
        return [Op("misfit", {"why": why}, part)] if why else None
    tool, rest = named
    own, no_word = tool.name not in KNOWN_TOOLS, re.search(r"[_-]", tool.name) is not None
    plain = re.search(r"\w\s*=", rest) or (own and (no_word or re.match(r"(?:call|use|invoke)\b", part, re.I)))
    if plain or (not sure and (own or no_word or match(rf"{CALL}.*\btool\b.*", part))):
        return [Op("misfit", {"why": _why(values_of(rest, masked)[0], masked, tool)}, part)]
    return None


def _why(rest: str, masked: Masked, tool: ToolSchema) -> str:
    properties = properties_of(tool)
    given = _given(rest, masked)
    for name, value in given.items():
        known = next((key for key in properties if key.lower() == name.lower()), None)
        if known is None:
            names = f"it has: {', '.join(properties)}" if properties else "it takes none"
            return f"{tool.name} has no parameter {name}; {names}."
        if isinstance(value, str) and value_for(value, masked, properties[known]) is UNFIT:
            return f"{tool.name} can't take {code(masked.restore(value))} for {known}; {_wanted(properties[known])}."
    lower = {name.lower() for name in given}
    missing = [name for name in required_of(tool) if name.lower() not in lower]
    shown = required_of(tool) or list(properties)[:1]
    example = f"use {tool.name}" + (f" with {', '.join(f'{name}=...' for name in shown)}" if shown else "")
    if missing:
        return f"{tool.name} needs {' and '.join(missing)}; for example: {example}"
    return f"I could not tell which parameters of {tool.name} the values are for; for example: {example}"


def _given(rest: str, masked: Masked) -> dict[str, Any]:
    """The names with their values that ``rest`` states, in JSON or as ``name=value``."""
    literal = masked.literal(rest)
    stated = given_object(literal) if literal else None
    if stated is not None:
        return {re.sub(r"\s+", " ", str(name))[:60]: None for name in stated}
    return {
        item["name"]: item["value"]
        for item in SET.finditer(rest)
        if rest[item.end("name") : item.start("value")].strip() in ("=", ":")
    }


def _wanted(schema: Mapping[str, Any]) -> str:
    if schema.get("enum"):
        return f"it takes one of: {', '.join(code(str(option)) for option in schema['enum'][:MOST_NAMES])}"
    return f"it takes {_KINDS.get(str(schema.get('type')), 'a JSON object')}"


def _no_such_tool(part: str, masked: Masked, tools: Sequence[ToolSchema]) -> str | None:
    """For ``use by_town with month=jan``: that no such tool is there, and which are."""
    found = match(
        rf"{CALL}(?:the\s+)?(?P<noun>tool\s+)?(?P<name>[A-Za-z][\w-]*)(?P<after>\s+tool)?(?P<rest>(?:[\s:(,].*)?)", part
    )
    if not found or not tools:
        return None
    name, said = found["name"], found["noun"] or found["after"]
    looks = re.match(r"(?:call|use|invoke)\b", part, re.I) and (
        re.search(r"[a-z]_[a-z]", name, re.I) or name in KNOWN_TOOLS or re.search(r"^\s*\S*\s*\w+\s*=", found["rest"])
    )
    if not (said or looks):
        return None
    names = [tool.name for tool in tools]
    lower = {tool.lower(): tool for tool in names}
    close = get_close_matches(name.lower(), lower, n=1, cutoff=0.5)
    nearest = f" The nearest is {code(lower[close[0]])}." if close else ""
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    there = ", ".join(map(code, names[:MOST_NAMES]))
    return f"There is no tool {code(name)} here.{nearest} The tools here: {there}{more}."
