"""Requests to search in files."""

from __future__ import annotations

import re
from typing import Any

from .files import ASK, SHOW
from .phrases import KIND, LITERAL_PART, Op, file_name, folder_name, kind_glob, match, pattern_of, take_place
from .text import Masked
from .words import NUMBER, number

_OPTIONS = (
    (
        r",?\s*(?:\(\s*)?(?:case[\s-]*insensitive(?:ly)?|ignor(?:e|ing)\s+(?:the\s+)?"
        r"(?:upper\s+and\s+lower\s+)?case|regardless\s+of\s+case"
        r"|(?:in\s+)?(?:upper|lower)\s+or\s+(?:upper|lower)\s*case|in\s+any\s+case|no\s+matter\s+the\s+case)(?:\s*\))?",
        lambda n: {"ignore_case": True},
    ),
    (
        (
            rf",?\s*with\s+({NUMBER})\s+lines?\s+of\s+context|,?\s*with\s+({NUMBER})\s+lines?\s+(?:around"
            r"|before\s+and\s+after)(?:\s+(?:it|each|them))?"
        ),
        lambda n: {"context": n},
    ),
    (
        (
            r",?\s*(?:\(\s*)?(?:at\s+most|no\s+more\s+than|max(?:imum)?|limited?\s+(?:it\s+)?to|up\s+to)\s+"
            rf"({NUMBER})(?:\s+(?:results?|match(?:es)?|hits?|lines?))?(?:\s*\))?"
        ),
        lambda n: {"max_results": n},
    ),
    (
        rf"\b(?:the\s+)?first\s+({NUMBER})\s+(?=(?:match(?:es)?|hits?|results?|occurrences|mentions|lines?)\b)",
        lambda n: {"max_results": n},
    ),
)


def take_options(text: str) -> tuple[str, dict[str, Any]]:
    args: dict[str, Any] = {}
    for pattern, build in _OPTIONS:
        found = re.search(pattern, text, re.I)
        if found:
            amount = next((number(group) for group in found.groups() if group), 0)
            args |= build(amount)
            text = re.sub(r"\s+", " ", text[: found.start()] + " " + text[found.end() :]).strip()
    return text, args


HITS = (
    r"(?:(?:all|any|every|each|the|places?|spots?)\s+)*(?:occurrences?|mentions?|uses?|usages?|instances?"
    r"|references?|appearances?|matches|hits|calls?|hits)\s+(?:of|to|for)\s+"
)
LINES = r"(?:(?:all|any|every|each|the|those|only)\s+)*(?:lines?|places?|rows?|spots?|sentences?|paragraphs?)\s*"
HAVING = (
    r"(?:(?:that|which|who)\s+)?(?:contain(?:s|ing)?|mention(?:s|ing)?|match(?:es|ing)?|includ(?:e|es"
    r"|ing)|ha(?:ve|s)|having|with|us(?:e|es|ing)"
    r"|call(?:s|ing)?|say(?:s|ing)?|refer(?:s|ring|ences?|encing)?(?:\s+to)?|talk(?:s|ing)?\s+about|do(?:es)?\s+use)\s+"
)
FILES = r"(?:(?:all|any|every|each|the|of|our|my)\s+)*(?:files?|modules?|scripts?|documents?|docs|pages?|ones|code)"
WHERE = (
    r"(?:(?:show|tell|find|see|know|look|check|find\s+out|let\s+me\s+know|list)(?:\s+me)?\s+)?(?:where"
    r"|wherever|everywhere)\s+(?:do\s+(?:we|i|you|they)\s+|does\s+it\s+|(?:is|are)\s+)?"
)
USED = (
    r"(?:used|called|mentioned|referenced|imported|raised|appears?|occurs?|found|set|written|happens?|needed"
    r"|shows?\s+up|comes?\s+up|invoked|documented|described)"
)
GREP = r"(?:search|grep|rg|look|scan|hunt|query|ripgrep)"


def parse_search(part: str, masked: Masked) -> list[Op] | None:
    """Search in files for a text or a regular expression."""
    text, options = take_options(part)
    text, there = take_there(text)
    text = re.sub(
        r"^(.*\bwhere)\s+((?:in|inside|under|within)\s+.+?)\s+((?:do|does|is|are|did)\s+.+)$",
        r"\1 \3 \2",
        text,
        flags=re.I,
    )
    found = (
        at_edge(text, masked)
        or _two_sided(text, masked)
        or _definition(text, masked)
        or _imports(text, masked)
        or _by_subject(text, masked)
        or _plain(text, masked)
    )
    if found is None:
        return None
    pattern, where = found
    return [Op("search", {"pattern": pattern, **where, **options}, part, needs=there)]


_THERE = re.compile(
    r"\s+(?:in|of|from|inside|within)\s+(?:it|there|them|(?:that|this|those|these)\s+files?|the\s+same\s+files?)$", re.I
)


def take_there(text: str) -> tuple[str, str]:
    """``text`` without "in it" at its end; then the place is what an earlier part named."""
    rest = _THERE.sub("", text)
    return rest, "there" if rest != text else ""


Found = tuple[str, dict[str, Any]]


def at_edge(text: str, masked: Masked) -> Found | None:
    """``lines that start with X`` or end with it."""
    rest, place = take_place(text, masked)
    found = match(
        r"(?:.*\s)?lines?\s+(?:(?:that|which)\s+)?(?:(start|begin)|end)(?:s|ing|ning)?\s+(?:with|in|by)\s+(.+)", rest
    )
    pattern = pattern_of(found[2], masked) if found else None
    if not found or not pattern:
        return None
    return (f"^{pattern}" if found[1] else f"{pattern}$"), place.args()


def _two_sided(text: str, masked: Masked) -> Found | None:
    """``search the docs for X``, ``look in config.toml for X``, ``grep X src``, ``in app.py find X``."""
    for pattern, term, where in (
        (rf"(?:{GREP}|check)\s+(?:(?:in(?:side)?|through|within)\s+)?((?!for\b).+?)\s+for\s+(.+)", 2, 1),
        (rf"(?:in|inside|within|under)\s+(.+?)\s*,?\s+(?:{GREP}|find|locate)\s+(?:for\s+)?(.+)", 2, 1),
        (r"(?:grep|rg)(?:\s+-\w+)*\s+(\S+)\s+(?:in\s+)?(\S+)", 1, 2),
    ):
        found = match(pattern, text)
        if not found:
            continue
        rest, place = take_place(f"x in {found[where]}", masked)
        goal = re.sub(rf"^(?:{HITS}|{LINES}{HAVING})", "", found[term], flags=re.I)
        wanted = pattern_of(goal, masked)
        if rest == "x" and wanted and (masked.literal(goal) or not file_name(goal, masked)):
            flags = {"ignore_case": True} if re.match(r"(?:grep|rg)\s+-\w*i", text) else {}
            return wanted, {**place.args(), **flags}
    return None


def _definition(text: str, masked: Masked) -> Found | None:
    rest, place = take_place(text, masked)
    found = match(
        rf"{WHERE}(?:the\s+)?(.+?)\s+(?:is\s+|are\s+|gets?\s+)?(?:defined|declared|implemented)", rest
    ) or match(
        (
            r"(?:find|show(?:\s+me)?|locate|search\s+for|look\s+for|where\s+is)\s+the\s+(?:definition"
            r"|declaration|implementation)\s+of\s+(.+)"
        ),
        rest,
    )
    if not found:
        return None
    name = masked.plain(
        re.sub(r"^(?:the\s+)?(?:function|class|method|variable|constant)\s+", "", found[1], flags=re.I)
    ).strip()
    name = name.removesuffix("()")
    return (rf"\b(def|class)\s+{name}\b|^\s*{name}\s*=", place.args()) if re.fullmatch(r"\w+", name) else None


def _imports(text: str, masked: Masked) -> Found | None:
    rest, place = take_place(text, masked)
    found = match(
        (
            rf"(?:{ASK}|{SHOW}|who)\s+(?:(?:all|any|of|the|our|my|every)\s+)*(?:(?:{FILES}|{KIND})\s+)?"
            r"(?:that\s+|which\s+)?import(?:s|ing)?\s+(.+)"
        ),
        rest,
    )
    where = match(rf"{WHERE}(?:we\s+)?(?:import\s+)?(.+?)(?:\s+is)?\s+imported", rest)
    name = masked.plain((found or where)[found.lastindex or 1 if found else 1]).strip() if (found or where) else ""  # type: ignore[index]
    if not re.fullmatch(r"[\w.]+", name):
        return None
    glob = {"glob": kind_glob(found)} if found and (found["kind"] or found["ext"]) else {}
    return rf"^\s*(import|from)\s+{name.replace('.', chr(92) + '.')}\b", {**place.args(), **glob}


_USAGES = (
    rf"{SHOW}\s+(?:{LINES})(?:where|in\s+which)\s+(?:we|it|they|you|i)\s+(?:(?:use|call|mention|say)\s+)?(?P<term>.+)",
    r"where\s+(?:does|do)\s+(?P<term>.+?)\s+(?:occur|appear|show\s+up|come\s+up)",
    rf"(?:are\s+there|is\s+there|do\s+we\s+have)\s+(?:{HITS})(?P<term>.+?)(?:\s+(?:left|remaining))?",
    rf"{WHERE}(?P<term>.+?)\s+(?:is\s+|are\s+|gets?\s+|being\s+)?{USED}",
    rf"(?:is|are|does|do)\s+(?P<term>.+?)\s+(?:{USED}|occur|appear)(?:\s+anywhere)?",
    rf"{WHERE}(?:{LINES})?(?:we\s+|it\s+)?(?:says?|uses?|calls?|mentions?|contains?|reads?|use)\s+(?P<term>.+)",
    r"who\s+(?:uses?|calls?)\s+(?P<term>.+)",
)


def _by_subject(text: str, masked: Masked) -> Found | None:
    """``which Python files mention X``, ``lines with X``, ``where is X used``, ``is X mentioned anywhere``."""
    middle = match(
        (
            r"(.*?\b(?:lines?|files?|places?|rows?|pages?|documents?))\s+((?:in|of|under|inside|from"
            rf"|within)\s+.+?)\s+({HAVING}.+)"
        ),
        text,
    )
    rest, place = take_place(f"{middle[1]} {middle[3]} {middle[2]}" if middle else text, masked)
    where = place.args()
    subject = match(
        rf"(?:(?:{SHOW}|{ASK}|print|in\s+which|who|how\s+many)\s+)(?:names\s+of\s+)?(?:(?:all|any|the"
        r"|every|of|each|our|my|also)\s+)*"
        rf"(?:{KIND}|(?P<all>{FILES})|(?P<lines>{LINES}))\s*(?:there\s+are\s+|are\s+there\s+)?(?:{HAVING}"
        r"|(?:is|are|does|do)\s+)(?P<term>.+)",
        rest,
    )
    if subject:
        term = re.sub(rf"\s+{USED}$", "", subject["term"], flags=re.I)
        pattern = pattern_of(term, masked)
        kind = subject["kind"] or subject["plural"] or subject["ext"] or subject["code"]
        return (pattern, {**where, **({"glob": kind_glob(subject)} if kind else {})}) if pattern else None
    inside = _inside_file(text, masked)
    if inside:
        return inside
    usage = next((found for shape in _USAGES if (found := match(shape, rest))), None)
    pattern = pattern_of(usage["term"], masked) if usage else None
    return (pattern, where) if pattern else None


def _inside_file(text: str, masked: Masked) -> Found | None:
    """``does config.toml contain X``, ``check whether config.toml mentions X``."""
    found = match(
        (
            r"(?:(?:check|see|tell\s+me|find\s+out|know|look)\s+)?(?:whether|if|does|do)\s+(?:the\s+)?"
            r"(.+?)\s+(?:contains?|mentions?|ha(?:s|ve)|includes?|uses?|says?|refers?\s+to)\s+(.+)"
        ),
        text,
    )
    path = file_name(found[1], masked) or _folder(found[1], masked) if found else None
    pattern = pattern_of(re.sub(r"\s+(?:anywhere|somewhere|in\s+it)$", "", found[2]), masked) if found else None
    return (pattern, {"path": path}) if path and pattern else None


def _folder(text: str, masked: Masked) -> str | None:
    return folder_name(text, masked) if re.search(r"\b(?:folder|directory|dir)\b|/$", text, re.I) else None


def _plain(text: str, masked: Masked) -> Found | None:
    """``search for X in Y``, ``find X``, ``grep X``."""
    rest, place = take_place(text, masked)
    found = match(
        (
            rf"(?P<verb>{GREP}(?:\s+through)?|look\s+up|find|locate|list|show(?:\s+me)?|print|display|give\s+me"
            r"|extract)(?:\s+for)?(?:\s+(?:me|up))?\s+(?P<term>.+)"
        ),
        rest,
    )
    if not found or match(r"look(?:ing)?\s+(?!for\b|up\b).*", rest):
        return None
    term = re.sub(rf"^(?:{HITS}|{LINES}{HAVING})", "", found["term"], flags=re.I)
    explicit = term != found["term"]
    pattern = pattern_of(term, masked)
    if pattern is None:
        return None
    verb = found["verb"].lower()
    bare_search = re.match(r"(?:search|scan|look|hunt|query)\s+(?!for\b)", rest, re.I)
    if bare_search and not explicit and not LITERAL_PART.search(term) and (" " in term or not place.args()):
        return None  # "search src" says where, not what for
    if not explicit and re.match(r"list|show|print|display|give|extract", verb):
        marker = re.fullmatch(r"(?:(?:all|any|every|each|the)\s+)*([A-Z]{3,}s?)", term)
        if marker:  # "show every TODO"
            return marker[1].removesuffix("s"), place.args()
        return (pattern, place.args()) if pattern != escaped_words(term) and not masked.literal(term) else None
    if not explicit and verb in ("find", "locate") and not _searchable(term, pattern, masked, place.args()):
        return None
    if not explicit and file_name(term, masked) and masked.literal(term) is None and term[0] != "/":
        return None
    return pattern, place.args()


def escaped_words(term: str) -> str:
    return re.sub(r"([\\.^$*+?{}\[\]()|])", r"\\\1", term)


def _searchable(term: str, pattern: str, masked: Masked, where: dict[str, Any]) -> bool:
    """``find X``: a quoted text, a known thing, one that a noun announces, or one word with a place to look in."""
    if masked.literal(term) or pattern != escaped_words(term):
        return True
    return " " not in term and (bool(where) or bool(re.search(r"[_()A-Z.]", term[1:])))
