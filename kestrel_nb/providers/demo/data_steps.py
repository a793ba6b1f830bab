"""From a request about data to calls: of what is told in the request at once, else after a look at the variables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress

from ...protocol.tools import ToolSchema
from .columns import Table, Unclear
from .data_code import code_for, title_of
from .data_requests import read
from .data_words import CORRELATED, MISSING, STATS, UNIQUE
from .offered import tool_for
from .phrases import FILE, Op, match
from .quoting import code
from .schemas import FRAMES, told_table
from .text import LITERAL, Masked, mask
from .words import SELF_NAMED

_NOT_DATA = re.compile(
    rf"\b(?:files?|folders?|director(?:y|ies)|scripts?|modules?|functions?|class(?:es)?|imports?|tests?|words?|notebooks?|commits?"
    rf"|characters?|occurrences?|memor(?:y|ies)|tools?|variables?|{SELF_NAMED})\b|\blines?\b(?!\s+(?:chart|plot|graph))",
    re.I,
)
_WORDS = {"std", "sort", "sorted", "statistics", "stats"}
_ABOUT = CORRELATED | MISSING | UNIQUE | _WORDS | (frozenset(STATS) - {"var", "sd"})
_DRAWN = re.compile(
    r"\b(?:plot|scatter\s?plot|histogram|(?:bar|line|box|scatter)[\s-]?(?:chart|plot|graph)|boxplot"
    r"|distribution|visuali[sz]e|(?:draw|make|show|create)\s+(?:me\s+)?(?:an?\s+|the\s+)?(?:chart|graph|plot|figure))\b",
    re.I,
)
_COUNTED = re.compile(
    r"\b(?:how\s+many|number\s+of|count)\b.*\b(?:per|by|(?:of|in|for)\s+each|rows?|observations|records)\b|\bhow\s+many\s+different\b",
    re.I,
)
_ROWS = re.compile(
    r"\b(?:first|last|top|bottom|head|tail)\b.*\brows?\b|\b(?:\d+|ten|five|three)\s+(?:rows|\w+est\s)", re.I
)
_VALUES = re.compile(r"(?:what|which)\s+(?:\w+\s+){1,3}are\s+there\s+(?:in|of)\s+\w+", re.I)
_OF = re.compile(r"\b(?:in|of|from|for|on|by|per|each|against|vs|versus|over|there)\b", re.I)


def parse_data(part: str, masked: Masked, tools: Sequence[ToolSchema], tables: Sequence[Table]) -> list[Op] | None:
    """A request about a table. What can't be done with its columns is a misfit that says why."""
    if tool_for("computed", tools) is None:
        return None
    if tables:
        return _known(part, masked, tables)
    if not is_about_data(part) or tool_for("variables", tools) is None:
        return None
    return [
        Op("variables", {"on_the_way": True}, part),
        Op("variable", {"name": "", "ask": part, "on_the_way": True}, part, needs="table"),
        Op("computed", {"code": "", "ask": part}, part, needs="columns"),
    ]


_NAME = r"(?P<name>[^\W\d]\w*)"
_NOUNS = r"(?:columns?|schema|structure|dtypes|types|shape|info)"
_LOOKS = (
    rf"(?:look\s+at|describe|show\s+me)\s+(?:my\s+)?{_NAME}",
    r"(?:describe|list|show(?:\s+me)?|look\s+at|inspect|what\s+(?:are|is))\s+(?:the\s+)?"
    rf"{_NOUNS}\s+(?:of|in)\s+(?:the\s+)?{_NAME}",
    rf"(?:what|which)\s+{_NOUNS}\s+(?:does|do|has)\s+{_NAME}(?:\s+(?:have|has))?",
)
_NO_NAMES = frozenset(re.findall(r"\w+", "it this that them everything here data files readme yourself tools"))


def parse_look(part: str, masked: Masked, tools: Sequence[ToolSchema]) -> list[Op] | None:
    """ "look at penguins", "what columns does penguins have?": a variable, else a folder."""
    if tool_for("variable", tools) is None:
        return None
    found = next((found for pattern in _LOOKS if (found := match(pattern, part))), None)
    name = found["name"] if found else ""
    if not name or name.lower() in _NO_NAMES:
        return None
    if re.search(_NOUNS, part, re.I) or tool_for("variables", tools) is None:
        return [Op("variable", {"name": name}, part)]
    return [
        Op("variables", {"on_the_way": True}, part),
        Op("variable", {"name": name}, part, needs="either"),
    ]


def is_about_data(part: str) -> bool:
    """Whether ``part`` has the words of a request about a table, and none of one about files."""
    plain = re.sub(LITERAL, " ", part)
    if _NOT_DATA.search(plain) or re.search(rf"(?<!\S){FILE}(?!\S)", plain):
        return False
    if re.search(r"\d\s*(?:,|and|&)\s*-?\d", plain):
        return False  # numbers of its own
    words = {word.lower() for word in re.findall(r"[^\W\d]\w*", plain)}
    if words & {"standard", "deviation"} == {"standard", "deviation"}:
        return True
    if _DRAWN.search(plain) or _COUNTED.search(plain) or _ROWS.search(plain) or _VALUES.fullmatch(plain):
        return True
    return bool(words & _ABOUT) and _OF.search(plain) is not None


_LOOKS_FOR = re.compile(r"(?:how|count|find|search|show|list|read|which|what|where|who|open|give|print|get)\b", re.I)
"""Otherwise these are requests about files, and a table that the request tells is none."""


def _known(part: str, masked: Masked, tables: Sequence[Table]) -> list[Op] | None:
    said = [table for table in tables if re.search(rf"(?<!\w){re.escape(table.name)}(?!\w)", masked.plain(part))]
    table = said[0] if said else tables[0]
    if len(said) > 1 and is_about_data(part):
        return [
            Op("misfit", {"why": f"Name one table at a time: {' or '.join(code(table.name) for table in said)}."}, part)
        ]
    try:
        ops = compute(part, masked, table)
        if ops is None and said and _LOOKS_FOR.match(part):
            raise Unclear(f"I do not understand what to compute of {code(table.name)}")
        return ops
    except Unclear as problem:
        return [Op("misfit", {"why": f"I can't do that: {problem}."}, part)]


def compute(part: str, masked: Masked, table: Table) -> list[Op] | None:
    """The call that answers ``part``. Raises Unclear when it can't be answered with the columns there are."""
    if table.alone:
        return _of_column(part, masked, table)
    ask = read(part, masked, table)
    if ask is None:
        return None
    if ask.action == "look":
        return [Op("variable", {"name": table.name}, part)]
    if table.type not in FRAMES:
        raise Unclear(f"{code(table.name)} is a {table.type}, and I write code for frames of pandas only")
    kind = "drawn" if ask.action == "plot" else "computed"
    return [Op(kind, {"code": code_for(ask, table), "what": title_of(ask, table)}, part)]


def _of_column(part: str, masked: Masked, table: Table) -> list[Op] | None:
    """A single column can be looked at. Raises Unclear when more is asked of it."""
    with suppress(Unclear):
        ask = read(part, masked, table)
        if ask is not None and ask.action in ("look", "missing", "summary"):
            return [Op("variable", {"name": table.name}, part)]
    if table.name not in masked.plain(part) and not is_about_data(part):
        return None
    raise Unclear(
        f"{code(table.name)} is a {table.type}, which I can describe; to compute or draw, name a DataFrame of pandas "
        "and its column, as in: the mean price of df"
    )


_VARIABLE = re.compile(r"^[-*|\s]*`?(?P<name>[^\W\d]\w*)`?\s*(?::|\||-|–|=)\s*(?:[\w.]*\.)?(?P<type>\w+)", re.M)


def table_named(listing: str, ask: str) -> str:
    """The frame in a list of variables that ``ask`` means: the one it names, else the only one. Raises Unclear."""
    frames = [found["name"] for found in _VARIABLE.finditer(listing) if found["type"] in FRAMES]
    said = [name for name in frames if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", ask)]
    if len(said) == 1:
        return said[0]
    if len(frames) == 1:
        return frames[0]
    if not frames:
        raise Unclear("there is no DataFrame among the variables")
    raise Unclear(f"there are several DataFrames, name one of them: {', '.join(map(code, said or frames))}")


def drawn_again(part: str, before: Sequence[Op]) -> str:
    """ "plot it" behind "compute the mean price by city": the same as a figure; anything else unchanged."""
    found = match(
        r"(?:plot|draw|visuali[sz]e|chart|show)\s+(?:it|that|this|them|the\s+(?:result|numbers))(?:\s+(?:as|in)\s+an?\s+(?P<how>\w+)"
        r"(?:[\s-]?(?:chart|plot|graph))?)?",
        part,
    )
    last = before[-1] if before else Op("")
    if found is None or last.kind != "computed" or (not found["how"] and part.lower().startswith("show")):
        return part
    return f"{found['how'] or ''} plot {last.text}".strip()


def either(listing: str, name: str) -> Op:
    """The look at the variable ``name`` if it is in the list of variables, else at the folder of that name."""
    variables = [found["name"] for found in _VARIABLE.finditer(listing)]
    return Op("variable", {"name": name}) if name in variables else Op("list", {"path": name})


def computed(told: str, name: str, ask: str) -> Op:
    """The call that answers ``ask``, from what inspect_variable ``told`` of ``name``. Raises Unclear."""
    table = told_table(told, name)
    if table is None:
        raise Unclear(f"{code(name)} is no table whose columns I can read")
    masked = mask(ask)
    ops = compute(masked.text, masked, table)
    if not ops or ops[0].kind == "variable":
        raise Unclear("I do not understand what to compute")
    return ops[0]
