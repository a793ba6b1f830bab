"""A request as text: quoted parts set aside, polite words stripped, several parts told apart.

Quotes and code go first. Each is replaced by one placeholder character pair, so that a word inside of them can never be
taken for a verb, a path or a separator.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from .columns import Table

AHEAD = 120  # characters behind a separator that tell whether a new part begins there
OPEN, CLOSE = "\ue000", "\ue001"  # private use: no meaning of their own, and removed from what a person types
LITERAL = f"{OPEN}\\d+{CLOSE}"
_LITERAL = re.compile(f"{OPEN}(\\d+){CLOSE}")
_QUOTED = re.compile(
    r"(?P<fence>^[ \t]*(`{3,}|~{3,})[^\n]*\n(?P<fence_text>.*?)(?:\n[ \t]*\2[ \t]*$|\Z))"
    r"|``(?P<ticks>.+?)``|`(?P<tick>[^`\n]+)`"
    r'|"""(?P<triple>.*?)"""|“(?P<curly>[^“”]*)”|‘(?P<single_curly>[^‘’]*)’|«(?P<angle>[^«»]*)»|„(?P<low>[^„“”]*)[“”]'
    r'|(?<![\w"])"(?P<double>(?:\\.|[^"\\])*)"(?!\w)'
    r"|(?<![\w'])'(?P<single>(?:\\.|[^'\\])*?)'(?!\w)",
    re.S | re.M,
)
_JSON_START = re.compile(r"(?<![\w*./{\[])[{\[]")

POLITE = re.compile(
    r"(?:(?:hi|hello|hey)(?:\s+(?:there|kestrel|demo|friend|you|all))?\s*[,!.:]\s*|dear\s+\w+\s*,\s*"
    r"|(?:kestrel|demo|agent|assistant)\s*[,:]\s*"
    r"|(?:please|pls|plz|kindly|ok(?:ay)?|right|well|now|so|also|then|next|just|maybe|perhaps|quickly"
    r"|simply|finally|lastly"
    r"|first(?: of all)?|firstly|second(?:ly)?|third(?:ly)?|afterwards?|after (?:that|this)|as well|and"
    r"|last|once (?:that is )?done)\b\s*[,:]?\s+"
    r"|(?:could|can|would|will|might|may)\s+(?:you|u|we|i)\s+(?!mind\b|be\b)(?:(?:please|kindly|maybe|possibly|perhaps"
    r"|just|also|then|quickly)\s+)*"
    r"|(?:would|do)\s+you\s+mind\s+|would\s+you\s+be\s+(?:so\s+kind\s+as|able)\s+to\s+|be\s+so\s+kind\s+as\s+to\s+"
    r"|i(?:'d|’d| would| really)*\s+(?:like|want|need|love|wish)\s+(?:for\s+)?(?:you\s+)?to\s+"
    r"(?:please\s+)?(?!know\b|see\b)"
    r"|i(?:'d|’d| would| really)*\s+(?:like|want|need|love)\s+(?=(?:to\s+(?:know|see)|a\s+list|the\s+"
    r"(?:list|contents?|number))\b)"
    r"|i\s+(?:was|am|'m)\s+wondering\s+if\s+you\s+(?:could|can|would)\s+|i\s+wonder\s+if\s+you\s+(?:could|can)\s+"
    r"|(?:go\s+ahead\s+and|try\s+to|help\s+me\s+(?:to\s+)?|let\s+us|let'?s|let’s|you\s+(?:should|must"
    r"|need\s+to|can|could)|do\s+me\s+a\s+favou?r\s+and"
    r"|your\s+(?:task|job)\s+is\s+to|i\s+need\s+you\s+to|we\s+need\s+to|it\s+would\s+be\s+(?:nice"
    r"|great)\s+if\s+you\s+could)\s+)",
    re.I,
)
_TAIL = re.compile(
    r"(?:[\s,;]*(?:please\s+and\s+thank\s+you|please|pls|plz"
    r"|thanks?(?:\s+(?:you|a lot|so much|in advance))*|thx|cheers|for\s+me"
    r"|for\s+us|if\s+(?:you\s+can|possible|you\s+don['’]?t\s+mind)"
    r"|will\s+you|would\s+you|can\s+you|right\s+now|now|quickly|right\s+away|asap|right|ok(?:ay)?|alright"
    r"|if\s+you\s+(?:would|could|like)|when\s+you\s+(?:have|get|can|'ve\s+got)(?:\s+a(?:\s+\w+)?)?|:\)"
    r"|as\s+well|too|first|again|\([^\w()]{0,3}\)))+$",
    re.I,
)
_OPENINGS = tuple(
    (re.compile(start, re.I), verb)
    for start, verb in (
        (r"^i(?:\s+am|['’]m|\s+was)\s+(?:looking|searching|hunting)\s+for\s+", "find "),
        (r"^(?:i|we)(?:\s+(?:need|want|would\s+like)|['’]?d\s+like)\s+(?=(?:all|every|the|an?|any|both)\s)", "show "),
        (r"^i(?:\s+(?:need|want|would\s+like)|['’]?d\s+like)\s+to\s+(?:see|view|look\s+at|know)\s+", "show me "),
        (
            (
                r"^(?:i['’]d\s+(?:be\s+grateful|appreciate\s+it)|it['’]d\s+be\s+(?:great|nice)|any\s+chance"
                r"|how\s+about)(?:\s+if)?\s+(?:you\s+(?:could|can)\s+)?"
            ),
            "",
        ),
        (
            (
                r"^(?:would\s+it\s+be|is\s+it)\s+possible\s+(?:for\s+you\s+)?to\s+|^is\s+there\s+(?:a"
                r"|any)\s+way\s+to\s+|^if\s+you\s+(?:could|would),?\s+"
            ),
            "",
        ),
        (r"^feel\s+free\s+to\s+|^be\s+(?:a\s+\w+|kind|nice)\s+and\s+|^let\s+me\s+have\s+(?=(?:all|the|a)\s)", ""),
    )
)
_BULLET = re.compile(r"^\s*(?:[-*•]\s+|\(?\d{1,2}[.)]\s+|step\s+\d+\s*[:.)]\s*)", re.I)
_GERUND = re.compile(r"^(\w+?)ing\b", re.I)


@dataclass(frozen=True, slots=True)
class Literal:
    """Text that stood in quotes: ``quote`` is their kind, ``raw`` the text with them, as it was typed."""

    text: str
    quote: str
    raw: str


@dataclass(frozen=True, slots=True)
class Masked:
    """A request with its quoted parts set aside, and the tables that it tells."""

    text: str
    literals: tuple[Literal, ...]
    tables: tuple[Table, ...] = ()

    def literal(self, placeholder: str) -> Literal | None:
        """What stood there, when ``placeholder`` is exactly one quoted part."""
        found = _LITERAL.fullmatch(placeholder.strip())
        return self.literals[int(found[1])] if found else None

    def restore(self, text: str) -> str:
        """``text`` as the person typed it, quotes included."""
        return _LITERAL.sub(lambda found: self.literals[int(found[1])].raw, text)

    def plain(self, text: str) -> str:
        """``text`` with quoted parts put back without their quotes."""
        return _LITERAL.sub(lambda found: self.literals[int(found[1])].text, text)


_SLANG = tuple(
    (re.compile(rf"(?<![\w'\"`]){short}(?=\s)", re.I), plain)
    for short, plain in (("gimme", "give me"), ("lemme", "let me"), ("wanna", "want to"), ("gonna", "going to"))
)


def mask(text: str) -> Masked:
    """Set the quoted parts of ``text`` aside: fences, backticks, all kinds of quotes, JSON."""
    literals: list[Literal] = []

    def keep(quote: str, inner: str, raw: str) -> str:
        literals.append(Literal(inner, quote, raw))
        return f"{OPEN}{len(literals) - 1}{CLOSE}"

    def quoted(found: re.Match[str]) -> str:
        if found["fence"] is not None:
            return keep("fence", found["fence_text"], found[0])
        kind = next(name for name, value in found.groupdict().items() if value is not None)
        return keep(kind, found[kind], found[0])

    masked = _QUOTED.sub(quoted, without_marks(text).replace("\r\n", "\n"))
    restore = Masked("", tuple(literals)).restore
    json_text = _replace_json(masked, lambda inner: keep("json", restore(inner), restore(inner)))
    return Masked(json_text, tuple(literals))


def without_marks(text: str) -> str:
    """``text`` without the characters that placeholders are made of."""
    return text.replace(OPEN, "").replace(CLOSE, "")


def _replace_json(text: str, keep: Callable[[str], str]) -> str:
    """``text`` with every balanced ``{...}`` or ``[...]`` replaced by what ``keep`` gives for it."""
    done, position = "", 0
    while found := _JSON_START.search(text, position):
        end = _balanced(text, found.start())
        done += text[position : found.start()]
        if end is None:
            done += found[0]
            position = found.end()
        else:
            done += keep(text[found.start() : end])
            position = end
    return done + text[position:]


def _balanced(text: str, start: int) -> int | None:
    """Where the bracket that opens at ``start`` has closed, or None when it never does."""
    closers: list[str] = []
    for index in range(start, len(text)):
        char = text[index]
        if char in "{[":
            closers.append("}" if char == "{" else "]")
        elif char in "}]":
            if closers.pop() != char:
                return None
            if not closers:
                return index + 1
    return None


def strip_polite(text: str) -> str:
    """``text`` without greetings, polite words and closing punctuation."""
    text = _BULLET.sub("", text)
    for slang, plain in _SLANG:
        text = slang.sub(plain, text)
    before = None
    while before != text:
        before = text
        text = text.strip().rstrip("!?;,").rstrip()
        text = re.sub(r"(?<=[\w\ue001)])[.:…]+$|(?<=/)[.:…]$", "", text)
        for start, verb in _OPENINGS:
            text = start.sub(verb, text)
        opening = POLITE.match(text)
        if opening:
            text = _verb_of_gerund(text[opening.end() :]) if "mind" in opening[0].lower() else text[opening.end() :]
        text = _TAIL.sub("", text)
    return re.sub(r"\s+", " ", text)


def _verb_of_gerund(text: str) -> str:
    """ "listing the files" as "list the files"; for the verbs that the demo knows."""
    irregular = {
        "writ": "write",
        "creat": "create",
        "replac": "replace",
        "renam": "rename",
        "runn": "run",
        "locat": "locate",
    }
    irregular |= {
        "chang": "change",
        "sav": "save",
        "comput": "compute",
        "calculat": "calculate",
        "summaris": "summarise",
    }
    irregular |= {
        "summariz": "summarize",
        "mak": "make",
        "execut": "execute",
        "giv": "give",
        "plann": "plan",
        "us": "use",
    }
    return _GERUND.sub(lambda found: irregular.get(found[1].lower(), found[1]), text)


def split_parts(text: str, starts: re.Pattern[str]) -> list[tuple[str, str]]:
    """The parts of a masked request, each without polite words and as it was typed.

    A separator counts only where ``starts`` says that a new part begins: "search for bread and butter" is one part,
    "list the files and count the lines" are two.
    """
    parts: list[str] = []
    for line in _lines(text):
        rest, begin = line, 0
        for separator in _SEPARATOR.finditer(line):
            follows = strip_polite(line[separator.end() : separator.end() + AHEAD])
            if separator.start() > begin and (starts.match(follows) or _STRONG.fullmatch(separator[0].strip(" ,"))):
                parts.append(line[begin : separator.start()])
                begin = separator.end()
                rest = line[begin:]
        parts.append(rest)
    cleaned = [(strip_polite(part), part.strip()) for part in parts]
    return [(part, typed) for part, typed in cleaned if part and not _GREETING.fullmatch(part)]


_GREETING = re.compile(
    r"(?:hi|hello|hey|good\s+\w+|dear\s+\w+)(?:\s+(?:there|kestrel|demo|all))?|please|thanks?|ok(?:ay)?", re.I
)


_SEPARATOR = re.compile(
    r"\s*[.!?;]\s+(?:and\s+)?(?:then\s+)?|\s*,?\s+and\s+(?:then|after(?:wards?| that))\s*,?\s+|\s*,?\s+then\s+"
    r"|\s*,\s*(?:and\s+|after(?:wards?| that),?\s+|finally,?\s+|next,?\s+)?|\s+(?:and|but)\s+(?:also\s+)?|\s+&\s+",
    re.I,
)
_STRONG = re.compile(r"(?:and )?then", re.I)


def _lines(text: str) -> list[str]:
    """Lines of the request; a line that ends in a colon goes on in the next when that is a quoted part."""
    lines: list[str] = []
    for line in text.split("\n"):
        if lines and _LITERAL.fullmatch(line.strip()):
            lines[-1] = f"{lines[-1]} {line.strip()}"
        elif line.strip():
            lines.append(line.strip())
    return lines
