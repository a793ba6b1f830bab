"""Requests that name a tool, or whose words are those of a tool's name: any tool, by its schema alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...protocol.tools import ToolSchema
from .offered import KNOWN_TOOLS
from .phrases import FILE, FLAGS, Op, match
from .text import LITERAL, Masked

_NUMBER = r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_CALL = r"(?:(?:call|use|run|invoke|execute|try|apply|do|start|trigger)\s+)"


def parse_call_by_name(part: str, masked: Masked, tools: Sequence[ToolSchema]) -> list[Op] | None:
    """``call word_count with text="a b"``, ``use add: 2 and 3``, ``add(2, 3)``."""
    for tool in sorted(tools, key=lambda tool: -len(tool.name)):
        name = f"(?:{LITERAL}|{re.escape(tool.name)})"
        found = match(rf"{_CALL}(?:the\s+)?(?:tool\s+)?({name})(?:\s+tool)?(?P<rest>(?:[\s:(,].*)?)", part) or match(
            rf"({name})(?P<rest>\(.*\))", part
        )
        if not found and re.search(r"[_-]", tool.name):  # a name like that is no English word
            found = match(rf"({name})(?P<rest>\s+(?:with|on|for|using)\s.+)", part)
        if not found or masked.plain(found[1]).lower() != tool.name.lower():
            continue
        explicit = (
            "tool" in part.lower()
            or "_" in tool.name
            or "-" in tool.name
            or tool.name not in KNOWN_TOOLS
            or "=" in found["rest"]
        )
        rest = re.sub(
            r"^\s*(?:with(?:\s+(?:the\s+)?(?:arguments?|parameters?|args|inputs?|values?))?|using|on|for|of|and)\b\s*",
            "",
            found["rest"].strip(),
            flags=re.I,
        )
        rest = rest.strip(" :,").removeprefix("(").removesuffix(")") if not masked.literal(rest) else rest
        arguments = _arguments(rest.strip(), masked, tool)
        if arguments is not None and explicit:
            return [Op("call", {"tool": tool.name, "arguments": arguments}, part)]
    return None


def _properties(tool: ToolSchema) -> dict[str, Mapping[str, Any]]:
    properties = tool.parameters.get("properties", {})
    return {name: schema if isinstance(schema, Mapping) else {} for name, schema in properties.items()}


def _required(tool: ToolSchema) -> list[str]:
    return [name for name in tool.parameters.get("required", ()) if isinstance(name, str)]


def _arguments(text: str, masked: Masked, tool: ToolSchema) -> dict[str, Any] | None:
    """What ``text`` gives for the parameters of ``tool``; None when something is missing or left over."""
    literal = masked.literal(text)
    if literal is not None and literal.quote in ("json", "fence", "tick"):
        given = _json_object(literal.text)
        if given is not None:
            return _complete(given, tool)
    named = _named_arguments(text, masked, tool)
    return _complete(named, tool) if named is not None else _positional(text, masked, tool)


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _complete(arguments: dict[str, Any], tool: ToolSchema) -> dict[str, Any] | None:
    missing = [name for name in _required(tool) if name not in arguments]
    unknown = [name for name in arguments if name not in _properties(tool)]
    return None if missing or (unknown and tool.parameters.get("additionalProperties") is False) else arguments


_SET = re.compile(
    (
        r"(?:^|[\s,;]|\band\s)\s*(?P<name>[A-Za-z_]\w*)\s*(?:=|:|\s(?:is|of|as|to|set\s+to|equal\s+to)\s)\s*"
        rf"(?P<value>{LITERAL}|[^,;\s]+)"
    ),
    re.I,
)


def _named_arguments(text: str, masked: Masked, tool: ToolSchema) -> dict[str, Any] | None:
    properties = _properties(tool)
    rest, found = text, {}
    for item in _SET.finditer(text):
        name = next((name for name in properties if name.lower() == item["name"].lower()), None)
        if name is None:
            return None
        value = _value(item["value"], masked, properties[name])
        if value is _BAD:
            return None
        found[name] = value
        rest = rest.replace(item[0], " ", 1)
    for item in re.finditer(
        rf"(?:^|[\s,;])(?P<name>{'|'.join(map(re.escape, properties)) or '(?!)'})\s+(?P<value>{LITERAL}|{_NUMBER})",
        rest,
        re.I,
    ):
        name = next(name for name in properties if name.lower() == item["name"].lower())
        value = _value(item["value"], masked, properties[name])
        if value is _BAD:
            return None
        found[name] = value
        rest = rest.replace(item[0], " ", 1)
    leftover = re.sub(r"\b(?:and|with|the)\b|[\s,;.]+", "", rest, flags=re.I)
    return found if found and not leftover else None


_BAD = object()


def _value(text: str, masked: Masked, schema: Mapping[str, Any]) -> Any:
    """``text`` as a value that ``schema`` takes, or _BAD."""
    literal = masked.literal(text)
    bare = literal.text if literal else text
    kind = schema.get("type") or _kind_of_union(schema)
    if schema.get("enum"):
        return next((option for option in schema["enum"] if str(option).lower() == bare.lower()), _BAD)
    if kind == "integer":
        return int(bare) if re.fullmatch(r"-?\d+", bare) else _BAD
    if kind == "number":
        return _as_number(bare)
    if kind == "boolean":
        return {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}.get(
            bare.lower(), _BAD
        )
    if kind in ("array", "object"):
        return _as_json(bare, kind)
    return bare


def _kind_of_union(schema: Mapping[str, Any]) -> str | None:
    options = schema.get("anyOf") or schema.get("oneOf") or ()
    kinds = [option.get("type") for option in options if isinstance(option, Mapping) and option.get("type") != "null"]
    return kinds[0] if len(kinds) == 1 else None


def _as_number(text: str) -> Any:
    if not re.fullmatch(_NUMBER, text):
        return _BAD
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def _as_json(text: str, kind: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return _BAD
    return value if isinstance(value, list if kind == "array" else dict) else _BAD


_TOKENS = re.compile(rf"{LITERAL}|{FILE}|{_NUMBER}(?![\w.])|[A-Za-z_]\w*", FLAGS)


def _positional(text: str, masked: Masked, tool: ToolSchema) -> dict[str, Any] | None:
    """Values without names, each for the first open parameter that takes it."""
    properties, required = _properties(tool), _required(tool)
    if not text:
        return {} if not required else None
    order = required + [name for name in properties if name not in required]
    array = next((name for name in required if properties[name].get("type") == "array"), None)
    numbers = re.findall(rf"(?<![\w.]){_NUMBER}(?![\w.]*\w)", text)
    if array and len(required) == 1 and len(numbers) > 1:
        return {array: [_as_number(item) for item in numbers]}
    return _assign(_TOKENS.findall(text), order, properties, masked, tool)


_SKIP = frozenset(
    [
        "and",
        "the",
        "a",
        "an",
        "of",
        "with",
        "for",
        "to",
        "from",
        "in",
        "into",
        "by",
        "on",
        "as",
        "please",
        "times",
        "plus",
        "value",
        "values",
        "number",
        "numbers",
        "text",
    ]
)


def _assign(
    tokens: list[str], order: list[str], properties: Mapping[str, Mapping[str, Any]], masked: Masked, tool: ToolSchema
) -> dict[str, Any] | None:
    arguments: dict[str, Any] = {}
    hint = ""
    for token in tokens:
        if token.lower() in _SKIP:
            hint = token.lower()
            continue
        quoted = masked.literal(token) is not None
        names = [n for n in order if n not in arguments and _takes(token, quoted, properties[n], masked)]
        names.sort(
            key=lambda name: (bool(hint) and hint not in name.lower().split("_"), _is_free_text(properties[name]))
        )
        if not names:
            return None
        arguments[names[0]] = _value(token, masked, properties[names[0]])
        hint = ""
    return _complete(arguments, tool)


def _is_free_text(schema: Mapping[str, Any]) -> bool:
    return not schema.get("enum") and schema.get("type", "string") == "string"


def _takes(token: str, quoted: bool, schema: Mapping[str, Any], masked: Masked) -> bool:
    if _value(token, masked, schema) is _BAD:
        return False
    number = re.fullmatch(_NUMBER, token) is not None
    return not (_is_free_text(schema) and number and not quoted)


def parse_call_by_words(
    part: str, masked: Masked, tools: Sequence[ToolSchema], *, loose: bool = False
) -> list[Op] | None:
    """A request in the words of a user's own tool, when exactly one tool and all its values fit.

    Strict: every word of the tool's name occurs. ``loose``: two or more words of its description do.
    """
    spoken = {_stem(word) for word in re.findall(r"[A-Za-z]+", re.sub(LITERAL, " ", part))}
    fitting: list[Op] = []
    for tool in tools:
        if tool.name in KNOWN_TOOLS:
            continue
        name_words = _words([tool.name])
        if not (name_words and {_stem(w) for w in name_words} <= spoken) and not (loose and _described(tool, spoken)):
            continue
        own = {_stem(w) for w in _words([tool.name, *(_properties(tool)), *([tool.description] if loose else [])])}
        arguments = _from_words(part, masked, tool, own, loose)
        if arguments is not None:
            fitting.append(Op("call", {"tool": tool.name, "arguments": arguments}, part))
    return fitting if len(fitting) == 1 else None


_STOP = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "at",
        "be",
        "by",
        "do",
        "does",
        "for",
        "from",
        "give",
        "get",
        "how",
        "i",
        "in",
        "into",
        "is",
        "it",
        "its",
        "like",
        "me",
        "many",
        "much",
        "my",
        "of",
        "on",
        "or",
        "our",
        "please",
        "result",
        "returns",
        "return",
        "show",
        "tell",
        "that",
        "the",
        "this",
        "to",
        "us",
        "was",
        "we",
        "what",
        "when",
        "which",
        "who",
        "will",
        "with",
        "you",
        "your",
        "as",
        "if",
        "then",
        "there",
        "now",
    ]
)


def _words(texts: Iterable[str]) -> set[str]:
    split = re.sub(r"([a-z])([A-Z])", r"\1 \2", " ".join(texts))
    return {word.lower() for word in re.findall(r"[A-Za-z]+", split)} - _STOP


def _stem(word: str) -> str:
    word = word.lower()
    for ending in ("ing", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def _described(tool: ToolSchema, spoken: set[str]) -> bool:
    about = {_stem(word) for word in _words([tool.name, tool.description])}
    content = {word for word in spoken if word not in _STOP}
    return len(about & content) >= 2 and len(about & content) * 5 >= len(content) * 3


def _from_words(part: str, masked: Masked, tool: ToolSchema, own: set[str], loose: bool) -> dict[str, Any] | None:
    values = [
        token
        for token in _TOKENS.findall(re.sub(r"(?<=\w)['’]s\b", "", part))
        if token.lower() in _PREPOSITIONS or not _is_noise(token, own, tool)
    ]
    arguments = _positional(" ".join(values), masked, tool) if any(v.lower() not in _SKIP for v in values) else None
    if arguments is None and not _required(tool):
        return {} if all(value.lower() in _SKIP for value in values) else None
    free = [name for name in _required(tool) if _is_free_text(_properties(tool)[name])]
    if arguments is None and len(_required(tool)) == len(free) == 1 and not loose:
        rest = " ".join(value for value in values if value.lower() not in _PREPOSITIONS)
        return {free[0]: rest} if rest and not re.search(LITERAL, rest) else None
    return arguments


_PREPOSITIONS = frozenset({"from", "to", "in", "by", "as"})


def _is_noise(token: str, own: set[str], tool: ToolSchema) -> bool:
    """True for a word that is no value: of the tool's own, or one without a meaning here."""
    if token.lower() == tool.name.lower():
        return True
    options = {str(option).lower() for schema in _properties(tool).values() for option in schema.get("enum") or ()}
    if not token.isalpha() or token.lower() in options:
        return False
    return (
        token.lower() in _STOP
        or _stem(token) in own
        or token.lower() in ("call", "use", "run", "compute", "calculate", "using", "tool")
    )
