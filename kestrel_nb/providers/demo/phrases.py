"""Phrases that name things: paths, kinds of files, places to look, terms to look for, line ranges."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from .text import LITERAL, Masked
from .words import EXTENSIONLESS, KINDS, NUMBER, SELF_NAMED, number

FLAGS = re.I | re.S
DET = (
    r"(?:(?:the|my|our|your|this|that|these|those|a|an|any|some|all|every|each|of|whole|entire|current|only|just)\s+)*"
)
NAMED = "|".join(EXTENSIONLESS)
FILE = (
    rf"(?:{LITERAL}|(?:[~\w.\-+@]*/)*[\w\-+@]*\.?[\w\-+@.]*\.[A-Za-z]\w*|(?:[~\w.\-+@]*/)+(?:Makefile|LICENSE"
    r"|README)\b|(?<![\w.~/])(?:~|\.\.)?/(?:[\w.\-+@]+/)*[\w.\-+@]*[\w\-+@])"
)
FOLDER = r"(?:[~\w.\-+@]*/)*[\w.\-+@]+/?|[~.]+/?"
KIND_NAMES = "|".join(sorted(KINDS, key=len, reverse=True))
KIND = (
    rf"(?:(?P<kind>{KIND_NAMES})[\s-]+(?:source\s+|code\s+|data\s+)?(?:files?|scripts?|modules?|sources?"
    r"|documents?|pages?|ones|images?|pictures?|code)"
    rf"|(?P<plural>{SELF_NAMED})s|(?P<ext>\*?\*?/?\*?\.(?:\w+|\{{[\w,]+\}}))(?:\s+files?|\s+ones)?"
    r"|(?:(?P<code>source|code)\s+files))(?!\w)"
)
EVERYWHERE = (
    r"(?:(?:all|every|each|any)?\s*(?:of\s+)?(?:the|my|our|this|that|these)?\s*(?:whole|entire|current|working)?\s*"
    r"(?:workspace|project|repo(?:sitory)?|code\s?base|code|sources?(?:\s+code)?|files?|everything|tree|root"
    r"|(?:this|current|working|here|root|top)?\s*(?:folder|directory|dir))(?:\s+tree)?|here|there|everywhere|it\s+all)"
)
IT = (
    r"(?:it|that(?:\s+(?:one|file))?|this(?:\s+(?:one|file))?|the\s+file|(?:the\s+)?first(?:\s+(?:one|file"
    r"|match|of\s+(?:them|those|these)))?|its\s+contents?)"
)
THEM = (
    r"(?:them(?:\s+all)?|each(?:\s+(?:one|of\s+(?:them|those)))?|all\s+of\s+them|those(?:\s+files)?|these(?:\s+files)?)"
)


@dataclass(frozen=True, slots=True)
class Op:
    """One thing to do, still free of any tool's name.

    ``needs`` says what of earlier results it waits for: "file" or "files" (paths found), "result" (their text).
    ``together`` ops are asked for in one turn with the op before.
    """

    kind: str
    args: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    needs: str = ""
    together: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where to look: a folder or file, names that fit ``glob``, or (both None) everywhere."""

    path: str | None = None
    glob: str | None = None

    def args(self) -> dict[str, Any]:
        """As arguments of a search."""
        return {key: value for key, value in (("path", self.path), ("glob", self.glob)) if value}


def match(pattern: str, text: str) -> re.Match[str] | None:
    """The whole ``text`` as ``pattern``, in any case of letters."""
    return re.fullmatch(pattern, text.strip(), FLAGS)


def file_name(text: str, masked: Masked) -> str | None:
    """The path that ``text`` names, or None: ``"notes.txt"``, ``the file src/app.py``, ``the README``."""
    bare = re.sub(
        r"^(?:the|my|our|this|that|a)\s+|^(?:file|document|script|module)\s+(?=\S)", "", text.strip(), flags=re.I
    )
    bare = re.sub(r"^(?:(?:file|document|script|module|named|called|at|path)\s+)+(?=\S)", "", bare, flags=re.I)
    bare = re.sub(r"(?<=\S)\s+(?:file|document|script|module)$", "", bare, flags=re.I)
    literal = masked.literal(bare)
    if literal is not None:
        return literal.text.strip() if _is_path(literal.text) else None
    if match(FILE, bare) and not re.fullmatch(r"[\d.]+", bare):
        return bare
    return EXTENSIONLESS.get(bare.lower())


def _is_path(text: str) -> bool:
    return bool(text.strip()) and "\n" not in text and len(text) < 300


def files(text: str, masked: Masked) -> list[str] | None:
    """The paths of a list such as ``a.txt, b.txt and c.txt``; None when anything else stands in it."""
    pieces = re.split(r"\s*,\s*(?:and\s+)?|\s+(?:and|&|plus)\s+(?:also\s+)?", text.strip())
    names = [file_name(re.sub(r"^(?:both|files)\s+", "", piece, flags=re.I), masked) for piece in pieces]
    return [name for name in names if name] if all(names) else None


def folder_name(text: str, masked: Masked) -> str | None:
    """The folder that ``text`` names, or None."""
    bare = re.sub(rf"^{DET}", "", text.strip(), flags=re.I)
    bare = re.sub(r"^(?:sub)?(?:folder|directory|dir)\s+(?:named\s+|called\s+)?(?=\S)", "", bare, flags=re.I)
    bare = re.sub(r"(?<=\S)\s+(?:sub)?(?:folders?|director(?:y|ies)|dirs?|package|tree)$", "", bare, flags=re.I)
    literal = masked.literal(bare)
    if literal is not None:
        return literal.text if _is_path(literal.text) else None
    return bare if match(FOLDER, bare) and bare.lower() not in _NO_FOLDER else None


_NO_FOLDER = frozenset(
    [
        "it",
        "them",
        "which",
        "that",
        "this",
        "order",
        "file",
        "files",
        "line",
        "lines",
        "name",
        "names",
        "general",
        "detail",
        "case",
        "total",
        "parallel",
        "english",
        "all",
    ]
)


def kind_glob(found: re.Match[str]) -> str:
    """The glob of the KIND phrase that ``found`` holds."""
    name = found["kind"] or found["plural"]
    if name:
        return KINDS[re.sub(r"\s+", " ", name.lower())]
    return "*." + found["ext"].rpartition(".")[2] if found["ext"] else "*.{py,js,ts,rs,go,java,c,cpp,h}"


PREPOSITIONS = r"in|inside(?:\s+of)?|within|under|across|through(?:out)?|over|below|from|among(?:st)?"


def take_place(text: str, masked: Masked, prepositions: str = PREPOSITIONS) -> tuple[str, Place]:
    """``text`` without the place at its end, and that place."""
    path = glob = None
    while True:
        found = re.search(rf"^(.*?)(?:^|\s+)(?:{prepositions})\s+((?:(?!\s(?:{prepositions})\s).)+)$", text, FLAGS)
        if found is None:
            return _take_adverb(text), Place(path, glob)
        place = _place(found[2], masked)
        if place is None:
            return _take_adverb(text), Place(path, glob)
        text, path, glob = found[1], place.path or path, place.glob or glob


def _take_adverb(text: str) -> str:
    return re.sub(r"(?:^|\s+)(?:here|everywhere|recursively|anywhere)$", "", text, flags=re.I)


def _place(text: str, masked: Masked) -> Place | None:
    text = text.strip()
    if match(EVERYWHERE, text):
        return Place()
    kind = match(rf"{DET}{KIND}", text)
    if kind:
        return Place(glob=kind_glob(kind))
    folder = _kind_of_folder(text, masked)
    if folder:
        return folder
    several = match(rf"{DET}(?:files\s+)?(?:named|called|matching)?\s*(\S*\*\S*)(?:\s+files)?", text)
    if several:
        return Place(glob=masked.plain(several[1]))
    path = file_name(text, masked) or folder_name(text, masked)
    if path is None:
        return None
    return Place(glob=path) if "*" in path else Place(path=path)


_OF = r"(?:(?:that\s+are|which\s+are|living|located|stored)\s+)?(?:of|in|inside(?:\s+of)?|under|below|within|from)"


def _kind_of_folder(text: str, masked: Masked) -> Place | None:
    """``the Python files of src``, ``src's Python files``, ``the files under docs``."""
    for pattern in (
        rf"{DET}(?:{KIND}|files?|documents?)\s+{_OF}\s+(?P<folder>.+)",
        rf"(?P<folder>\S+?)['’]s\s+(?:{KIND}|files?|documents?)",
        rf"{DET}(?P<folder>[\w./-]+)\s+(?:folder|directory|package)['’]s\s+(?:{KIND}|files?)",
    ):
        found = match(pattern, text)
        if not found:
            continue
        everywhere = match(EVERYWHERE, found["folder"])
        path = None if everywhere else folder_name(found["folder"], masked)
        if path or everywhere:
            named = found["kind"] or found["plural"] or found["ext"] or found["code"]
            return Place(path, kind_glob(found) if named else None)
    return None


TERM_NOUN = (
    r"(?:(?:the|a|an|any|all|every|each)\s+)*(?:exact\s+|literal\s+)?(?:words?|strings?|texts?|phrases?"
    r"|terms?|names?|identifiers?|symbols?"
    r"|functions?|class(?:es)?|methods?|variables?|keywords?|characters?|letters?|substrings?"
    r"|expressions?|patterns?|decorators?)\s+"
)
REGEX_NOUN = r"(?:the\s+)?(?:regex(?:p|es)?|regular\s+expressions?|regex\s+pattern)\s*:?\s+"
_VAGUE = re.compile(
    r"(?:bugs?|problems?|issues?|mistakes?|anything|something|everything|nothing|ways?|solutions?"
    r"|answers?|reasons?|it|them"
    r"|this|that|one|information|details|stuff|things|you|me|us|files?|lines?|flaws?|holes?"
    r"|vulnerabilities|love|happiness)\b"
    r"|(?:i|we|they|he|she|there|a|an|any|some|the|my|your|our|its|how|why|who|what|when|which|where|if"
    r"|whether|for|in|of|to|all|every)\s",
    re.I,
)


def escape(text: str) -> str:
    """``text`` as a pattern that matches exactly it; spaces and quotes stay readable."""
    return re.sub(r"([\\.^$*+?{}\[\]()|])", r"\\\1", text)


def pattern_of(text: str, masked: Masked) -> str | None:
    """The search pattern that ``text`` names, or None when it names none for sure."""
    text = text.strip().rstrip(":,").strip()
    regex = re.match(REGEX_NOUN, text, re.I)
    if regex:
        rest = text[regex.end() :]
        literal = masked.literal(rest)
        return literal.text if literal else rest if rest and " " not in rest else None
    slashed = re.fullmatch(r"/(.+)/", text)
    if slashed:
        return slashed[1]
    options = re.split(r"\s+or\s+", re.sub(r"^either\s+", "", text), flags=re.I)
    patterns = [_one_pattern(option, masked) for option in options]
    return "|".join(p for p in patterns if p) if all(patterns) else None


def _one_pattern(text: str, masked: Masked) -> str | None:
    known = _KNOWN_TERMS.get(re.sub(r"^(?:the|all|any|every|a)\s+", "", text.lower()))
    if known:
        return known
    bare = re.sub(rf"^{TERM_NOUN}(?:of\s+|like\s+|called\s+|named\s+)?(?=\S)", "", text, flags=re.I)
    bare = re.sub(rf"^(?:(?:a|an|the|some|any|this|that)\s+)+(?={LITERAL})", "", bare, flags=re.I)
    bare = re.sub(r"^(?:(?:all|any|every|each|the)\s+)+(?=[A-Z]{3,}s?$)", "", bare)
    bare = re.sub(
        r"^(\S+)\s+(?:statements?|keywords?|comments?|markers?|tags?|values?|entries)$", r"\1", bare, flags=re.I
    )
    literal = masked.literal(bare)
    if literal is not None:
        return escape(literal.text) if literal.text and "\n" not in literal.text else None
    if LITERAL_PART.search(bare) or not bare or len(bare.split()) > 6 or _VAGUE.match(bare + " "):
        return None
    if " " in bare and (_SENTENCE.search(bare) or any("/" in word or match(FILE, word) for word in bare.split())):
        return None  # more than a name stands there, and no quotes tell where it ends
    return escape(bare)


LITERAL_PART = re.compile(LITERAL)
_SENTENCE = re.compile(
    r"\b(?:is|are|was|were|do|does|did|has|have|that|which|whose|where|when|who|how|many|often|contain(?:s|ing)?"
    r"|(?:defin|declar|implement|call|nam|us|mention|import)ed|files?|lines?|folders?|director(?:y|ies)|case|only|and|but"
    r"|except|without|please|then|it|them|please|everywhere|anywhere|starting|ending|matching|recursively)\b",
    re.I,
)
_DEFINITION = r"^\s*(async\s+)?def\s"
_KNOWN_TERMS = {
    "functions": _DEFINITION,
    "function definitions": _DEFINITION,
    "classes": r"^\s*class\s",
    "class definitions": r"^\s*class\s",
    "functions and classes": r"^\s*(async\s+)?(def|class)\s",
    "import statements": r"^\s*(import|from)\s",
    "imports": r"^\s*(import|from)\s",
    "todos": "TODO",
    "todo comments": "TODO",
    "fixmes": "FIXME",
    "headings": r"^#+\s",
    "empty lines": r"^\s*$",
    "blank lines": r"^\s*$",
    "comments": r"^\s*#",
}
"""Things that have a pattern of their own, as Python and Markdown write them."""


def take_lines(text: str) -> tuple[str, dict[str, int]] | None:
    """``text`` without the line range in it, and that as ``offset`` and ``limit``. None: a range that can't be had."""
    if re.search(r"\b(?:last|final|bottom)\s+(?:\S+\s+)?lines?\b|\btail\b|\bend\s+of\b", text, re.I):
        return None
    for pattern, build in _RANGES:
        found = re.search(pattern, text, re.I)
        if found:
            rest = f"{text[: found.start()]} {text[found.end() :]}"
            return re.sub(r"\s+", " ", rest).strip(), build([number(group) for group in found.groups() if group])
    return text, {}


def _span(numbers: list[int]) -> dict[str, int]:
    first, last = numbers[0], numbers[-1]
    return {"offset": first, "limit": max(last - first + 1, 1)}


_N = rf"({NUMBER})"
_RANGES = (
    (
        (
            rf"(?:\b(?:from|between|only|just)\s+)?(?:the\s+)?\b(?:lines?|rows?)\s+{_N}\s*(?:-|–|—|to|through|thru"
            rf"|until|till|and|\.\.)\s*(?:line\s+)?{_N}(?:\s+(?:of|from|in))?\b"
        ),
        _span,
    ),
    (
        rf"\b(?:from|starting\s+(?:at|from|with))\s+line\s+{_N}(?:\s+on(?:wards?)?)?(?:\s+(?:of|in))?\b",
        lambda n: {"offset": n[0]},
    ),
    (
        rf"(?:\bonly\s+|\bjust\s+)?(?:the\s+)?\blines?\s+(?:number\s+)?{_N}(?:\s+(?:of|from|in))?\b",
        lambda n: {"offset": n[0], "limit": 1},
    ),
    (
        (
            rf"(?:\bonly\s+|\bjust\s+)?(?:the\s+)?\b(?:first|top|initial|opening)\s+{_N}\s+(?:lines?|rows?"
            r"|records?)(?:\s+(?:of|from|in))?\b"
        ),
        lambda n: {"limit": n[0]},
    ),
    (
        rf"(?:the\s+)?\b{_N}\s+(?:first|top)\s+(?:lines?|rows?)(?:\s+(?:of|from|in))?\b",
        lambda n: {"limit": n[0]},
    ),
    (
        r"(?:\bonly\s+|\bjust\s+)?(?:the\s+)?\b(?:very\s+)?first\s+(?:line|row)(?:\s+(?:of|from|in))?\b",
        lambda n: {"limit": 1},
    ),
    (rf"(?:the\s+)?\b{_N}\s+(?:lines?|rows?|records?)\s+(?:of|from|in)\b", lambda n: {"limit": n[0]}),
    (r"(?:the\s+)?\b(?:head|start|beginning|top)\s+of\b|^head\b(?=\s)", lambda n: {"limit": 10}),
)
