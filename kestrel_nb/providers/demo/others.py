"""Requests for the tools beside files and commands: time, sums, the web, memory, helpers, code, data."""

from __future__ import annotations

import re
from collections.abc import Callable

from .phrases import FILE, Op, match
from .text import LITERAL, Masked

ZONES = {
    "utc": "UTC",
    "gmt": "UTC",
    "london": "Europe/London",
    "berlin": "Europe/Berlin",
    "paris": "Europe/Paris",
    "rome": "Europe/Rome",
    "madrid": "Europe/Madrid",
    "vienna": "Europe/Vienna",
    "zurich": "Europe/Zurich",
    "amsterdam": "Europe/Amsterdam",
    "stockholm": "Europe/Stockholm",
    "moscow": "Europe/Moscow",
    "istanbul": "Europe/Istanbul",
    "new york": "America/New_York",
    "boston": "America/New_York",
    "chicago": "America/Chicago",
    "denver": "America/Denver",
    "los angeles": "America/Los_Angeles",
    "san francisco": "America/Los_Angeles",
    "seattle": "America/Los_Angeles",
    "toronto": "America/Toronto",
    "sao paulo": "America/Sao_Paulo",
    "mexico city": "America/Mexico_City",
    "tokyo": "Asia/Tokyo",
    "seoul": "Asia/Seoul",
    "beijing": "Asia/Shanghai",
    "shanghai": "Asia/Shanghai",
    "hong kong": "Asia/Hong_Kong",
    "singapore": "Asia/Singapore",
    "delhi": "Asia/Kolkata",
    "mumbai": "Asia/Kolkata",
    "dubai": "Asia/Dubai",
    "sydney": "Australia/Sydney",
    "melbourne": "Australia/Melbourne",
    "auckland": "Pacific/Auckland",
    "cairo": "Africa/Cairo",
    "nairobi": "Africa/Nairobi",
    "johannesburg": "Africa/Johannesburg",
}
"""City -> IANA zone."""

WHAT = r"(?:(?:tell|show|give)\s+me\s+|know\s+|find\s+out\s+|get\s+|print\s+|check\s+|see\s+)?"


def parse_time(part: str, masked: Masked) -> list[Op] | None:
    """The date or the time, here or in a city or zone."""
    found = match(
        rf"{WHAT}(?:what(?:['’]?s|\s+is)?\s+)?(?:(?:the\s+)?(?:current\s+|present\s+)?(?:local\s+)?"
        r"(?:date\s+and\s+time|time\s+and\s+date|date|time|day|weekday|day\s+of\s+the\s+week)"
        r"(?:\s+(?:is\s+it|it\s+is|is\s+today|today))?|today(?:['’]?s\s+date)?|the\s+clock|time\s+zone)"
        r"(?:\s+(?:now|today|right\s+now))?(?:\s+in\s+(?P<where>.+?))?(?:\s+(?:now|today))?",
        part,
    )
    if not found:
        return None
    if not found["where"]:
        return [Op("time", {}, part)]
    where = masked.plain(found["where"])
    zone = ZONES.get(where.lower()) or (where if re.fullmatch(r"[A-Z]\w+/[A-Z][\w/]+", where) else None)
    return [Op("time", {"timezone": zone}, part)] if zone else None


_SPOKEN = (
    (r"\bplus\b", "+"),
    (r"\bminus\b", "-"),
    (r"\b(?:times|multiplied\s+by)\b", "*"),
    (r"\b(?:divided\s+by|over)\b", "/"),
    (r"\bto\s+the\s+power\s+of\b", "^"),
    (r"\bsquared\b", "^2"),
    (r"\bcubed\b", "^3"),
    (r"[×·]", "*"),
    ("÷", "/"),
    ("−", "-"),
    (r"(?:the\s+)?square\s+root\s+of\s+(\S+)", r"sqrt(\1)"),
    (r"([\d.]+)\s*(?:%|percent)\s+of\s+([\d.]+)", r"\1 / 100 * \2"),
    (r"\*\*", "^"),
)
_SUM = re.compile(
    (
        r"(?=.*\d)(?=.*(?:[-+*/^%]|\w\())(?:[\d\s.+\-*/^%(),]|\b(?:sqrt|sin|cos|tan|asin|acos|atan|log|log2"
        r"|log10|ln|exp|abs|round|floor|ceil|min|max|pow|pi|e)\b|\de[+-]?\d)+"
    ),
    re.I,
)


def parse_sum(part: str, masked: Masked) -> list[Op] | None:
    """An arithmetic expression, in signs or spoken."""
    found = match(
        rf"(?:{WHAT}(?:compute|calculate|evaluate|eval|solve|work\s+out|what(?:['’]?s|\s+is)"
        r"|how\s+much\s+is|the\s+(?:value|result)\s+of|do\s+the\s+math)\s*:?\s+)?"
        r"(?:the\s+)?(?:value\s+of\s+|result\s+of\s+|expression\s+|sum\s+)?(.+?)(?:\s*=\s*\??)?",
        part,
    )
    if not found:
        return None
    text = masked.plain(found[1]) if masked.literal(found[1]) and found[1] != part else found[1]
    for spoken, sign in _SPOKEN:
        text = re.sub(spoken, sign, text, flags=re.I)
    text = text.strip()
    if not _SUM.fullmatch(text) or (
        re.fullmatch(r"[\d./-]+", text.strip()) and found[1] == part and not re.search(r"\d\s*[+*/^]\s*\d", text)
    ):
        return None
    return [Op("compute", {"expression": text}, part)]


URL = rf"(?:https?://[^\s{chr(0xE000)}]+|www\.[^\s{chr(0xE000)}]+|{LITERAL})"


def parse_web(part: str, masked: Masked) -> list[Op] | None:
    """Describe an image, send a request, fetch an address, search the web."""
    image = match(
        (
            r"(?:describe|look\s+at|explain|what\s+(?:is|do\s+you\s+see)\s+(?:on|in))\s+(?:the\s+|this\s+)?"
            rf"(?:image|picture|photo|chart)\s+(?:at\s+|from\s+)?({URL}|data:image/\S+|{FILE})"
        ),
        part,
    )
    if image:
        return [Op("image", {"url": masked.plain(image[1])}, part)]
    return _request(part, masked) or _fetch(part, masked) or _web_search(part, masked)


def _request(part: str, masked: Masked) -> list[Op] | None:
    """``post '{"a": 1}' to https://...``: a request that sends or deletes."""
    sent = match(rf"(?P<method>post|put|patch|send)\s+(?P<body>{LITERAL})\s+to\s+(?P<url>{URL})", part)
    bare = match(rf"(?P<method>post|put|patch|delete)\s+(?:to\s+)?(?P<url>{URL})", part)
    found = sent or bare
    url = _address(masked.plain(found["url"])) if found else None
    if found is None or url is None:
        return None
    method = {"send": "POST"}.get(found["method"].lower(), found["method"].upper())
    body = {"body": masked.plain(sent["body"])} if sent else {}
    return [Op("request", {"url": url, "method": method, **body}, part)]


def _address(text: str) -> str | None:
    if not re.match(r"https?://\S+$|www\.\S+$", text):
        return None
    return text if "://" in text else f"https://{text}"


def _fetch(part: str, masked: Masked) -> list[Op] | None:
    found = match(
        (
            r"(?:fetch|download|get|open|load|read|retrieve|visit|request|show|go\s+to|browse(?:\s+to)?"
            rf"|look\s+at|pull|see|curl|what(?:['’]?s|\s+is)|call)\s+(?:me\s+)?(?P<what>(?:\w+\s+){{0,5}}?)"
            rf"(?:at\s+|of\s+|from\s+|on\s+|under\s+|in\s+)?(?P<url>{URL})(?:\s+(?:page|site|website"
            r"|for\s+me))?"
        ),
        part,
    )
    url = _address(masked.plain(found["url"])) if found else None
    return [Op("fetch", {"url": url}, part)] if url else None


def _web_search(part: str, masked: Masked) -> list[Op] | None:
    query = match(
        (
            r"(?:search|look|check|find|query)\s+(?:on\s+|in\s+)?(?:the\s+)?(?:web|internet|online|net)\s+"
            r"(?:for|about|to\s+find)\s+(.+)"
        ),
        part,
    ) or match(
        (
            r"(?:google|web\s+search(?:\s+for)?|(?:search(?:\s+for)?|look\s+up|find)\s+(?=.+\s(?:on\s+the\s+"
            r"(?:web|internet)|online)$))\s*(.+?)(?:\s+(?:on\s+the\s+(?:web|internet)|online))?"
        ),
        part,
    )
    return [Op("web_search", {"query": masked.plain(query[1])}, part)] if query else None


CODE = rf"(?P<code>{LITERAL})"
_GIVEN = r"(?:(?:this|the|following|these|piece|of|bit|some|a|as)\s+)*"
Args = Callable[[re.Match[str], Masked], dict[str, object]]


def _texts(**names: str) -> Args:
    """Arguments made of groups of the match: parameter -> group."""
    return lambda found, masked: {key: masked.plain(found[group]).strip() for key, group in names.items()}


_SHAPES: tuple[tuple[str, str, Args], ...] = (
    (
        (
            rf"(?:run|execute|evaluate|eval|try)\s+{_GIVEN}python(?:\s+(?:code|snippet|script|expression|cell"
            rf"|lines?))?\s*:?\s+{CODE}"
        ),
        "python",
        _texts(code="code"),
    ),
    (
        (
            rf"(?:run|execute|evaluate|eval|try)\s+{_GIVEN}(?:code\s*:?\s+)?{CODE}\s+(?:in|with|as|using)\s+"
            r"(?:python|the\s+(?:notebook|kernel))"
        ),
        "python",
        _texts(code="code"),
    ),
    (
        rf"(?:in|with|use|using)\s+python\s*[,:]?\s+(?:to\s+)?(?:run|compute|evaluate|execute)\s*:?\s+{CODE}",
        "python",
        _texts(code="code"),
    ),
    (rf"(?:run|execute|evaluate|eval)\s+{_GIVEN}code\s*:?\s+{CODE}", "python", _texts(code="code")),
    (
        rf"(?:run|execute|evaluate|eval)\s+{_GIVEN}(?:javascript|js)(?:\s+\w+)?\s*:?\s+{CODE}",
        "javascript",
        _texts(code="code"),
    ),
    (
        (
            rf"(?:(?:run|execute|make)\s+{_GIVEN}(?:sql\s+)?(?:query|sql|statement)(?:\s+(?:on"
            r"|against)\s+the\s+database)?|query(?:\s+the\s+(?:database|db))?(?:\s+(?:with"
            rf"|for))?)\s*:?\s+{CODE}"
        ),
        "sql",
        _texts(query="code"),
    ),
    (r"(?P<code>select\s+.+\s+from\s+.+)", "sql", lambda found, masked: {"query": masked.restore(found["code"])}),
    (
        (
            r"(?:list|show|what\s+are|give\s+me|print|display)\s+(?:me\s+)?(?:(?:all|the|my|our|notebook"
            r"|kernel|current|defined|global)\s+)*variables(?:\s+.{0,40})?"
        ),
        "variables",
        lambda f, m: {},
    ),
    (r"(?:what|which)\s+variables\s+(?:are|do|have|exist|did)\b.{0,40}", "variables", lambda f, m: {}),
    (
        (
            r"(?:inspect|describe|show|look\s+at|display|print|examine|explain)\s+(?:me\s+)?(?:the\s+|my\s+)?"
            r"(?:variable|dataframe|data\s+frame|frame|array)\s+(?P<name>\S+)"
        ),
        "variable",
        _texts(name="name"),
    ),
    (
        r"(?:inspect|examine)\s+(?:the\s+|my\s+)?(?P<name>[A-Za-z_]\w*|\ue000\d+\ue001)(?:\s+variable)?",
        "variable",
        _texts(name="name"),
    ),
    (r"what(?:['’]?s|\s+is)\s+(?:in\s+)?(?:the\s+)?variable\s+(?P<name>\S+)", "variable", _texts(name="name")),
    (
        (
            r"(?:insert|add|create|make|put)\s+(?:in\s+)?(?:a|an|one|the)?\s*(?:new\s+)?(?:code\s+"
            r"|notebook\s+)?cell\s*(?:below\s*)?(?:with|containing|that\s+(?:says|runs|contains)|:)?\s*"
            rf"(?:the\s+code\s*)?:?\s+{CODE}"
        ),
        "cell",
        _texts(code="code"),
    ),
    (
        (
            rf"(?:parse|read|decode|check|validate|pretty[\s-]?print|format)\s+{_GIVEN}json(?:\s+(?:text"
            rf"|string|data|document))?\s*:?\s+{CODE}"
        ),
        "json",
        _texts(input="code"),
    ),
    (
        (
            r"(?:extract|get|take|read|pull|find)\s+(?:the\s+)?(?:value\s+(?:of|at)\s+|field\s+|path\s+"
            rf"|key\s+)?(?P<path>[\w.\[\]]+|{LITERAL})\s+(?:from|in|out\s+of)\s+{_GIVEN}(?:json"
            rf"(?:\s+\w+)?\s*:?\s+)?{CODE}"
        ),
        "json",
        _texts(input="code", path="path"),
    ),
    (
        (
            r"(?:match|test|check|apply|try)\s+(?:the\s+)?(?:regex|regexp|regular\s+expression|pattern)\s+"
            rf"(?P<pattern>{LITERAL})\s+(?:against|on|in|with|to)\s+(?:the\s+)?(?:text\s+|string\s+)?"
            rf"(?P<text>{LITERAL})"
        ),
        "regex",
        _texts(pattern="pattern", text="text"),
    ),
    (
        (
            r"(?:delegate|outsource)\b\s*:?\s*(?:(?:the|this|a|following)\s+)*(?:(?:task|job|work)\s*)?:?\s*"
            r"(?:to\s+(?:a|the|an)\s+(?:sub-?\s?agent|helper|assistant|agent)\s*:?\s*)?(?:to\s+)?"
            r"(?P<task>.+?)(?:\s+to\s+(?:a|the|an)(?:\s+\w+)?\s+(?:sub-?\s?agent|helper|assistant|agent))?"
        ),
        "delegate",
        _texts(task="task"),
    ),
    (
        (
            r"(?:ask|tell|have|let|get|use|start|spawn|launch)\s+(?:a|the|an|another)\s+(?:sub-?\s?agent"
            r"|helper|second\s+agent|agent)\s+(?:to\s+|for\s+)?(?P<task>.+)"
        ),
        "delegate",
        _texts(task="task"),
    ),
    (
        (
            r"(?:remember|memori[sz]e|keep\s+in\s+mind|note|save\s+(?:to|in)\s+memory|don['’]?t\s+forget)\s*"
            r"(?:for\s+later\s*)?:?\s+(?:that\s+|this\s*:?\s+)?(?P<text>.+)"
        ),
        "remember",
        _texts(content="text"),
    ),
    (
        (
            r"(?:list|show|what\s+are)\s+(?:me\s+)?(?:all\s+)?(?:the\s+|your\s+|my\s+|of\s+your\s+)?"
            r"(?:saved\s+)?memor(?:ies|y)|what\s+do\s+you\s+remember"
        ),
        "memories",
        lambda f, m: {},
    ),
    (
        (
            r"(?:recall|what\s+do\s+you\s+(?:remember|know)\s+about|do\s+you\s+remember|search\s+(?:your\s+"
            r"|the\s+|my\s+)?memor(?:y|ies)\s+for)\s+(?P<text>.+)"
        ),
        "recall",
        _texts(query="text"),
    ),
    (r"forget\s+(?:(?:the\s+)?memory\s+|about\s+)?(?P<id>\S+)", "forget", _texts(id="id")),
    (
        r"(?:use|load|apply|follow|run)\s+(?:the\s+)?(?:skill\s+(?P<after>\S+)|(?P<before>\S+)\s+skill)",
        "skill",
        lambda f, m: {"name": m.plain(f["after"] or f["before"])},
    ),
    (
        (
            r"(?:finish|end|conclude|wrap\s+up|close)(?:\s+the\s+run)?(?:\s+(?:with|and\s+say|saying))?\s+"
            rf"(?:the\s+)?(?:summary\s+|message\s+)?:?\s*{CODE}"
        ),
        "finish",
        _texts(summary="code"),
    ),
)


def parse_other(part: str, masked: Masked) -> list[Op] | None:
    """Code, data, memory, helpers, skills: whatever has one fixed shape."""
    for pattern, kind, args in _SHAPES:
        found = match(pattern, part)
        if found:
            return [Op(kind, dict(args(found, masked)), part)]
    return None
