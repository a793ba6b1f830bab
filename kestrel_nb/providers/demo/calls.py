"""Requests that name a tool, or whose words are those of a tool's name: any tool, by its schema alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...protocol.tools import ToolSchema
from .offered import KNOWN_TOOLS
from .phrases import FILE, FLAGS, Op, match
from .text import LITERAL, Literal, Masked

_NUMBER = r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
CALL = r"(?:(?:call|use|run|invoke|execute|try|apply|do|start|trigger)\s+)"


def named_tool(part: str, masked: Masked, tools: Sequence[ToolSchema]) -> tuple[ToolSchema, str] | None:
    """The offered tool that ``part`` names for a call, and what is said behind its name."""
    for tool in sorted(tools, key=lambda tool: -len(tool.name)):
        name = f"(?:{LITERAL}|{re.escape(tool.name)})"
        found = match(rf"{CALL}(?:the\s+)?(?:tool\s+)?({name})(?:\s+tool)?(?P<rest>(?:[\s:(,].*)?)", part) or match(
            rf"({name})(?P<rest>\(.*\))", part
        )
        found = found or match(rf"({name})(?P<rest>\s+[A-Za-z_]\w*\s*=.*)", part)
        if not found and re.search(r"[_-]", tool.name):  # a name like that is no English word
            found = match(rf"({name})(?P<rest>(?:[\s:].*)?)", part)
        if found and masked.plain(found[1]).lower() == tool.name.lower():
            return tool, found["rest"]
    return None


def parse_call_by_name(part: str, masked: Masked, tools: Sequence[ToolSchema]) -> list[Op] | None:
    """``call word_count with text="a b"``, ``use add: 2 and 3``, ``add(2, 3)``."""
    named = named_tool(part, masked, tools)
    if named is None:
        return None
    tool, said = named
    explicit = "tool" in part.lower() or re.search(r"[_-]", tool.name) or tool.name not in KNOWN_TOOLS or "=" in said
    if not explicit:
        return None
    rest, clear = values_of(said, masked)
    arguments = _arguments(rest, masked, tool, clear)
    if arguments is None and tool.name not in KNOWN_TOOLS and not _HAS_NAMES.search(said) and not _gives(rest, masked):
        own = {_stem(word) for word in _words([tool.name, *properties_of(tool)])}
        arguments = _from_words(part, masked, tool, own, loose=False)
    return None if arguments is None else [Op("call", {"tool": tool.name, "arguments": arguments}, part)]


def values_of(said: str, masked: Masked) -> tuple[str, bool]:
    """What is ``said`` behind a tool's name without "with" or brackets, and whether one of them stood there."""
    rest = _LEAD.sub("", said.strip())
    clear = rest != said.strip() or said.strip()[:1] in (":", "(")
    if not masked.literal(rest):
        rest = rest.strip(" :,").removeprefix("(").removesuffix(")").strip()
    return rest, clear


def _gives(text: str, masked: Masked) -> bool:
    literal = masked.literal(text)
    return literal is not None and given_object(literal) is not None


_LEAD = re.compile(
    r"^(?:(?:with(?:\s+(?:the\s+)?(?:arguments?|parameters?|args|inputs?|values?))?|using|on|for|of)\b|and\b)\s*", re.I
)
_HAS_NAMES = re.compile(r"[A-Za-z_]\w*\s*=")


def properties_of(tool: ToolSchema) -> dict[str, Mapping[str, Any]]:
    properties = tool.parameters.get("properties", {})
    return {name: schema if isinstance(schema, Mapping) else {} for name, schema in properties.items()}


def required_of(tool: ToolSchema) -> list[str]:
    return [name for name in tool.parameters.get("required", ()) if isinstance(name, str)]


def _arguments(text: str, masked: Masked, tool: ToolSchema, clear: bool) -> dict[str, Any] | None:
    """What ``text`` gives for the parameters of ``tool``; None when something is missing or left over.

    ``clear``: a single bare word can only be a value there, as it follows "with" or the like.
    """
    literal = masked.literal(text)
    given = given_object(literal) if literal else None
    if given is not None:
        return _complete(given, tool)
    named = _named_arguments(text, masked, tool)
    if named is not None:
        return _complete(named, tool)
    return None if _HAS_NAMES.search(text) else _positional(text, masked, tool, most_words=1 if clear else 0)


def given_object(literal: Literal) -> dict[str, Any] | None:
    """The JSON object that stands in ``literal``, if it is one."""
    if literal.quote not in ("json", "fence", "tick"):
        return None
    try:
        value = json.loads(literal.text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _complete(arguments: dict[str, Any], tool: ToolSchema) -> dict[str, Any] | None:
    missing = [name for name in required_of(tool) if name not in arguments]
    unknown = [name for name in arguments if name not in properties_of(tool)]
    return None if missing or (unknown and not tool.parameters.get("additionalProperties")) else arguments


SET = re.compile(
    (
        r"(?:^|[\s,;]|\band\s)\s*(?P<name>[A-Za-z_]\w*)\s*(?:=|:|\s(?:is|of|as|to|set\s+to|equal\s+to)\s)\s*"
        rf"(?P<value>{LITERAL}|[^,;\s]+)"
    ),
    re.I,
)


def _named_arguments(text: str, masked: Masked, tool: ToolSchema) -> dict[str, Any] | None:
    properties = properties_of(tool)
    rest, found = text, {}
    for item in SET.finditer(text):
        name = next((name for name in properties if name.lower() == item["name"].lower()), None)
        if name is None:
            return None
        value = value_for(item["value"], masked, properties[name])
        if value is UNFIT:
            return None
        found[name] = value
        rest = rest.replace(item[0], " ", 1)
    for item in re.finditer(
        rf"(?:^|[\s,;])(?P<name>{'|'.join(map(re.escape, properties)) or '(?!)'})\s+"
        rf"(?P<value>{LITERAL}|{_NUMBER}|[\w-]+)",
        rest,
        re.I,
    ):
        if item["value"].lower() in {*_SKIP, tool.name.lower(), *(name.lower() for name in properties)}:
            return None
        name = next(name for name in properties if name.lower() == item["name"].lower())
        value = value_for(item["value"], masked, properties[name])
        if value is UNFIT:
            return None
        found[name] = value
        rest = rest.replace(item[0], " ", 1)
    leftover = re.sub(r"\b(?:and|with|the)\b|[\s,;.]+", "", rest, flags=re.I)
    return found if found and not leftover else None


UNFIT = object()


def value_for(text: str, masked: Masked, schema: Mapping[str, Any]) -> Any:
    """``text`` as a value that ``schema`` takes, or UNFIT."""
    literal = masked.literal(text)
    bare = literal.text if literal else text
    kind = schema.get("type") or _kind_of_union(schema)
    if schema.get("enum"):
        return next((option for option in schema["enum"] if str(option).lower() == bare.lower()), UNFIT)
    if kind == "integer":
        return int(bare) if re.fullmatch(r"-?\d+", bare) else UNFIT
    if kind == "number":
        return _as_number(bare)
    if kind == "boolean":
        return {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}.get(
            bare.lower(), UNFIT
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
        return UNFIT
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def _as_json(text: str, kind: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return UNFIT
    return value if isinstance(value, list if kind == "array" else dict) else UNFIT


_TOKENS = re.compile(rf"{LITERAL}|{FILE}|{_NUMBER}(?![\w.])|[^\W\d]\w*(?:-\w+)*", FLAGS)


def _positional(text: str, masked: Masked, tool: ToolSchema, most_words: int) -> dict[str, Any] | None:
    """Values without names, each for the first open parameter that takes it; of bare words at most ``most_words``."""
    properties, required = properties_of(tool), required_of(tool)
    if not text:
        return {} if not required else None
    order = required + [name for name in properties if name not in required]
    array = next((name for name in required if properties[name].get("type") == "array"), None)
    numbers = re.findall(rf"(?<![\w.]){_NUMBER}(?![\w.]*\w)", text)
    if array and len(required) == 1 and len(numbers) > 1:
        return {array: [_as_number(item) for item in numbers]}
    tokens = _TOKENS.findall(text)
    taken = {tool.name.lower(), *(name.lower() for name in properties)}
    options = {str(option).lower() for schema in properties.values() for option in schema.get("enum") or ()}
    words = [t.lower() for t in tokens if re.fullmatch(r"[^\W\d][\w-]*", t) and t.lower() not in _SKIP | options]
    if len(words) > most_words or taken & set(words):
        return None
    return _assign(tokens, order, properties, masked, tool)


_SKIP = frozenset(
    re.findall(
        r"\w+",
        "and the a an of with for to from in into by on over as please times plus value values number numbers text",
    )
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
        arguments[names[0]] = value_for(token, masked, properties[names[0]])
        hint = ""
    return _complete(arguments, tool)


def _is_free_text(schema: Mapping[str, Any]) -> bool:
    return not schema.get("enum") and schema.get("type", "string") == "string"


def _takes(token: str, quoted: bool, schema: Mapping[str, Any], masked: Masked) -> bool:
    if value_for(token, masked, schema) is UNFIT:
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
        own = {_stem(w) for w in _words([tool.name, *(properties_of(tool)), *([tool.description] if loose else [])])}
        arguments = _from_words(part, masked, tool, own, loose)
        if arguments is not None:
            fitting.append(Op("call", {"tool": tool.name, "arguments": arguments}, part))
    return fitting if len(fitting) == 1 else None


_STOP = frozenset(
    re.findall(
        r"\w+",
        "a an and are at be by do does for from give get how i in into is it its like me many much my of on or "
        "our please result returns return show tell that the this to us was we what when which who will with you "
        "your as if then there now",
    )
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
    if all(value.lower() in _SKIP for value in values):
        return None if required_of(tool) else {}
    rest = " ".join(value for value in values if value.lower() not in _PREPOSITIONS)
    clear = _is_clear(rest, part, tool)
    arguments = _positional(" ".join(values), masked, tool, most_words=1 if clear else 0)
    free = [name for name in required_of(tool) if _is_free_text(properties_of(tool)[name])]
    if arguments is None and clear and len(required_of(tool)) == len(free) == 1 and not loose:
        return {free[0]: rest}
    return arguments


def _is_clear(words: str, part: str, tool: ToolSchema) -> bool:
    """True when ``words`` can only be a value: one word, or a name of several, at the end, announced as one."""
    if not re.fullmatch(r"[^\W\d][\w-]*(?:\s[A-Z][\w-]*)*", words) or (" " in words and not words[0].isupper()):
        return False
    announced = rf"(?:^{re.escape(tool.name)}|\b(?:for|with|on|in|of|to|from|at|about)(?:\s+the)?(?:\s+\w+)?|:)\s+"
    return re.search(rf"{announced}{re.escape(words)}$", part, re.I) is not None


_PREPOSITIONS = frozenset({"from", "to", "in", "by", "as"})


def _is_noise(token: str, own: set[str], tool: ToolSchema) -> bool:
    """True for a word that is no value: of the tool's own, or one without a meaning here."""
    if token.lower() == tool.name.lower():
        return True
    options = {str(option).lower() for schema in properties_of(tool).values() for option in schema.get("enum") or ()}
    if not token.isalpha() or token.lower() in options:
        return False
    return (
        token.lower() in _STOP
        or _stem(token) in own
        or token.lower() in ("call", "use", "run", "compute", "calculate", "using", "tool")
    )
