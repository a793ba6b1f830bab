"""Requests to count: lines that match, lines of a file, files."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from .files import NAME_CONDITIONS, parse_find
from .phrases import FLAGS, KIND, Op, kind_glob, match, pattern_of, take_place
from .search import FILES, HAVING, HITS, LINES, USED, at_edge, escaped_words, take_options, take_there
from .text import Masked

HOW_MANY = (
    r"(?:(?:tell\s+me|show\s+me|know|find\s+out|see|compute|report|give\s+me|get|check|determine)\s+)?"
    r"(?:count\s+(?:how\s+(?:often|many)|the\s+(?:total\s+)?number\s+of)|in\s+how\s+many\s+(?:lines|files"
    r"|places)|how\s+many|count(?:\s+up)?|"
    r"(?:the\s+)?(?:total\s+)?(?:number|count|amount)\s+of"
    r"|count\s+(?:the\s+)?(?:total\s+)?number\s+of|count\s+how\s+many|how\s+often|what\s+is\s+the\s+number\s+of)"
)


def parse_count(part: str, masked: Masked) -> list[Op] | None:
    """Count lines, matches or files."""
    text, options = take_options(part)
    text, there = take_there(text)
    text = re.sub(r"^(?:tell\s+me\s+|know\s+|see\s+)?how\s+long\s+is\s+", "count the lines of ", text, flags=re.I)
    head = re.match(rf"{HOW_MANY}\s+", text, re.I)
    if not head:
        return None
    edge = at_edge(text, masked)
    if edge:
        return [Op("count", {"pattern": edge[0], **edge[1], **options, "counts": True}, part, needs=there)]
    often = "often" in head[0].lower()
    body = re.sub(r"^(?:the|all|all\s+the|of|of\s+the|different|total)\s+", "", text[head.end() :], flags=re.I)
    ops = (
        _count_files(body, part, masked)
        or _count_lines(body, part, options, masked)
        or _count_term(body, part, options, often, masked)
    )
    if ops is None or re.match(r"(?:words|characters|chars|letters|bytes|columns)\b", body, re.I):
        return None
    return [replace(op, args={**op.args, **_counting(op)}, needs=there) for op in ops]


def _counting(op: Op) -> dict[str, Any]:
    return {"counts": True} if op.kind == "count" else {}


def _count_files(body: str, part: str, masked: Masked) -> list[Op] | None:
    bare = re.sub(r"\s+(?:are|is|do)\s+(?:there|we\s+have|i\s+have)\b", "", body, flags=re.I)
    bare = re.sub(r"\s+(?:exist|live|are|there)(?=\s|$)", "", bare, flags=re.I)
    if re.search(rf"\b(?:{HAVING.removesuffix(chr(92) + 's+')})\s", bare, re.I) and not any(
        re.search(condition, bare, FLAGS) for condition, _ in NAME_CONDITIONS[:-1]
    ):
        return None
    _, place = take_place(bare, masked)
    if match(rf"{FILES}", take_place(bare, masked)[0]) and not place.glob:
        return [Op("count_files", {"pattern": "**/*", **place.args()}, part)]
    ops = parse_find(f"find {bare}", masked)
    return [Op("count_files", ops[0].args, part)] if ops and ops[0].args["pattern"] != "**/lines" else None


def _count_lines(body: str, part: str, options: dict[str, Any], masked: Masked) -> list[Op] | None:
    """``lines in F``, ``lines of the Python files that contain X``, ``lines F has``."""
    found = match(rf"(?:(?P<empty>empty|blank)\s+)?(?:{LINES})(?:of\s+(?:code|text)\s*)?(?P<rest>.*)", body)
    if not found:
        return None
    rest = re.sub(
        r"^(?:are\s+there|there\s+are|are|do\s+we\s+have|is)\s*(?=in\b|that\b|with\b|$)", "", found["rest"], flags=re.I
    )
    rest = re.sub(r"\s+are\s+there$", "", rest, flags=re.I)
    own = match(r"(?:does\s+|do\s+)?(.+?)\s+ha(?:ve|s)(?:\s+got)?", rest)
    pattern: str | None = r"^\s*$" if found["empty"] else "^"
    contained = re.search(rf"(?:^|\s){HAVING}(?P<term>.+)$", rest, FLAGS)
    if own:
        rest = f"in {own[1]}"
    elif contained:
        before = rest[: contained.start()].strip()
        term, after = take_place(contained["term"], masked)
        pattern = pattern_of(re.sub(r"^(?:in\s+them\s+)", "", term), masked)
        lines_rest, place = (
            take_place(f"x {before}", masked, "in|of|inside|from|across|within|under|over") if before else ("x", after)
        )
        where = {**after.args(), **place.args()}
        return [Op("count", {"pattern": pattern, **where, **options}, part)] if pattern and lines_rest == "x" else None
    bare, place = take_place(f"x {rest}".strip(), masked, "in|of|inside|from|across|within|under|over")
    if bare != "x" or not pattern or (rest == "" and pattern == "^"):
        return None
    return [Op("count", {"pattern": pattern, **place.args(), **options}, part)]


def _count_term(body: str, part: str, options: dict[str, Any], often: bool, masked: Masked) -> list[Op] | None:
    """``occurrences of X in F``, ``TODOs in src``, ``how often is X used``, ``how many times does X occur``."""
    body = re.sub(r"^times\s+", "", body, flags=re.I)
    files_with = match(rf"(?:{KIND}|(?P<all>{FILES}))\s+(?:{HAVING})(?P<term>.+)", body)
    if files_with:
        term, place = take_place(files_with["term"], masked)
        pattern = pattern_of(term, masked)
        kind = {} if files_with["all"] else {"glob": kind_glob(files_with)}
        return [Op("count", {"pattern": pattern, **place.args(), **kind, **options}, part)] if pattern else None
    body = re.sub(
        r"\s+(?:(?:are|is)\s+)?(?:there|defined|declared|implemented)(?:\s+are)?(?=\s|$)", "", body, flags=re.I
    )
    term, place = take_place(body, masked)
    usage = match(
        (
            r"(?:is\s+|are\s+|does\s+|do\s+|has\s+|have\s+|do\s+we\s+)?(?P<term>.+?)\s+(?:is\s+|are\s+"
            rf"|been\s+)?(?:{USED}|occur|appear|come\s+up|show\s+up)"
        ),
        term,
    )
    calls = match(r"(?:do\s+we\s+|do\s+i\s+|does\s+it\s+)(?:use|call|mention|import)\s+(?P<term>.+)", term)
    wanted = (calls or usage or {"term": re.sub(rf"^(?:{HITS})", "", term, flags=re.I)})["term"]
    wanted = re.sub(r"\s+(?:are|is|do\s+we\s+have|exist)$", "", wanted, flags=re.I)
    pattern = pattern_of(wanted, masked)
    announced = often or calls or usage or wanted != term or masked.literal(wanted) is not None
    if pattern is None or (not announced and pattern == escaped_words(wanted) and not place.args()):
        return None
    glob = (
        {"glob": "*.py"}
        if re.search(r"def|class|import", pattern)
        and pattern.startswith("^")
        and not place.args().get("path", "").count(".")
        else {}
    )
    return [Op("count", {"pattern": pattern, **glob, **place.args(), **options}, part)]
