"""Requests that end in code, SQL, JSON or a pattern, without quotes around it: that is handed over as it was typed."""

from __future__ import annotations

import re
from collections.abc import Callable

from .phrases import Op
from .text import LITERAL, POLITE, Masked

_GIVEN = r"(?:(?:this|the|following|these|piece|of|bit|some|a|as)\s+)*"
_JSON = rf"{_GIVEN}json(?:\s+(?:text|string|data|document))?\s*:?\s*"
_TEXT = rf"\s+(?:the\s+)?(?:text\s+|string\s+)?:?\s*(?P<text>{LITERAL})"
_PATTERN = r"/(?P<pattern>[^\n]+)/(?P<flags>[a-z]*)"
_REGEX = r"(?:(?:regex|regexp|regular\s+expression|pattern)\s+)?"
_VERBS = r"(?:run|execute|evaluate|eval|try)"

Args = Callable[[re.Match[str], Masked], dict[str, object]]


def _code(found: re.Match[str], masked: Masked) -> dict[str, object]:
    return {"code": masked.restore(found["code"]).strip()}


def _query(found: re.Match[str], masked: Masked) -> dict[str, object]:
    return {"query": masked.restore(found["code"]).strip()}


def _json(found: re.Match[str], masked: Masked) -> dict[str, object]:
    transform = re.sub(r"\W.*|-.*", "", found["transform"].lower())
    return {"input": masked.plain(found["code"]).strip(), "transform": transform}


def _regex(found: re.Match[str], masked: Masked) -> dict[str, object]:
    given = found.groupdict()
    args: dict[str, object] = {"text": masked.plain(found["text"]), "pattern": masked.restore(found["pattern"])}
    flags = (given.get("flags") or "") + ("g" if given.get("all") and "g" not in (given.get("flags") or "") else "")
    if flags:
        args["flags"] = flags
    if given.get("new"):
        args["replace"] = masked.plain(given["new"])
    return args


_SHAPES: tuple[tuple[re.Pattern[str], str, Args], ...] = tuple(
    (re.compile(pattern, re.I | re.S), kind, args)
    for pattern, kind, args in (
        (
            rf"{_VERBS}\s+{_GIVEN}(?:javascript|js)(?:\s+(?:code|snippet|expression|program))?\s*:?\s+(?P<code>.+)",
            "javascript",
            _code,
        ),
        (
            r"(?:(?:run|execute|make|try)\s+)?(?:(?:this|the|a|following|sql)\s+)*(?:query|sql|statement)"
            r"(?:\s+(?:on\s+|against\s+)?the\s+(?:database|db))?(?:\s+with)?\s*:?\s+"
            r"(?P<code>(?:select|with|explain|values|pragma|insert|update|delete|drop|alter|create|replace|attach)\b.+)",
            "sql",
            _query,
        ),
        (r"(?-i:(?P<code>(?:EXPLAIN\s+(?:QUERY\s+PLAN\s+)?)?(?:SELECT\s.+|WITH\s.+\sAS\s.+)))", "sql", _query),
        (
            rf"(?P<transform>flatten|pretty[\s-]?print)\s+{_JSON}(?P<code>{LITERAL})",
            "json",
            _json,
        ),
        (
            r"(?:(?:get|list|show|give|what\s+are|extract|find)\s+)?(?:me\s+)?(?:all\s+)?(?:the\s+)?"
            rf"(?P<transform>keys|values)\s+(?:of|in|from)\s+{_JSON}(?P<code>{LITERAL})",
            "json",
            _json,
        ),
        (
            rf"(?:match|test|apply|check|try)\s+(?:the\s+)?{_REGEX}{_PATTERN}\s+(?:in|against|on|with|to){_TEXT}",
            "regex",
            _regex,
        ),
        (
            rf"find\s+(?P<all>all\s+)?(?:the\s+)?(?:matches\s+(?:of|for)\s+)?{_PATTERN}\s+(?:in|of){_TEXT}",
            "regex",
            _regex,
        ),
        (
            r"(?:match|test|apply|check|try)\s+(?:the\s+)?(?:regex|regexp|regular\s+expression)\s+"
            rf"(?P<pattern>[^\s/{LITERAL[0]}]\S*)\s+(?:in|against|on|with|to){_TEXT}",
            "regex",
            _regex,
        ),
        (
            rf"replace\s+(?P<all>all\s+)?{_PATTERN}\s+(?:with|by)\s+(?P<new>{LITERAL})\s+in\s+"
            rf"(?:the\s+)?(?:text|string)\s*:?\s+(?P<text>{LITERAL})",
            "regex",
            _regex,
        ),
    )
)


def parse_verbatim(masked: Masked) -> Op | None:
    """The one op of a request that is such a thing as a whole. It is not split into parts, as code is no sentence."""
    text = masked.text.strip()
    while opening := POLITE.match(text):
        text = text[opening.end() :]
    for pattern, kind, args in _SHAPES:
        found = pattern.fullmatch(text)
        if found and not (kind == "javascript" and _is_quoted(found["code"], masked)):
            return Op(kind, args(found, masked), masked.restore(text))
    return None


def _is_quoted(code: str, masked: Masked) -> bool:
    """True when ``code`` stands in quotes, perhaps with more of the request behind: the parts tell how that goes on."""
    found = re.match(rf"({LITERAL})(?:\s|$)", code)
    literal = masked.literal(found[1]) if found else None
    return literal is not None and literal.quote != "json"
