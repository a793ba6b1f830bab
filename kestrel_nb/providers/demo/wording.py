"""Other words for the same request, brought to the ones that the parsers know. Quoted text is never touched."""

from __future__ import annotations

import re

from .phrases import FILE
from .text import LITERAL
from .words import SELF_NAMED

_LOOK = (
    r"(?:(?:have|take|let\s+me\s+(?:have|take)|get|give\s+me)\s+(?:a\s+)?(?:\w+\s+)?(?:look|peek|glance|peep)"
    r"|let\s+me\s+(?:look|peek|view)|peek|glance|peep|gaze)"
)
_MENTION = (
    r"(?:(?:talk|speak)(?:s|ing)?\s+(?:about|of)|discuss(?:es|ing)?|cit(?:es?|ing)|quot(?:es?|ing)|deals?\s+with)"
)
_SOURCE = r"(?:files?|modules?|scripts?|documents?|places?|line|page)"
_DEFINED = r"(?:defined|declared|implemented|created|introduced|assigned)"
_WHOM = r"(?:function|class|method|variable|constant|symbol)"

_PLACED = r"mentions?|contains?|has|uses?|in|inside|under|below|within|of|are|there|here|do|we"
_OCCURS = (
    r"(?:do|does|is|are|can|did)\s+(?:the\s+)?(?:word\s+)?(.+?)\s+(?:appear|occur|show\s+up|come\s+up|used|mentioned|found"
    r"|present|be\s+(?:found|seen))"
)

_ANYWHERE = tuple(
    (re.compile(pattern, re.I), plain)
    for pattern, plain in (
        (rf"\b{_MENTION}\s+", "mention "),
        (r"\b(?:beneath|underneath|down\s+in|somewhere\s+(?:in|under|below))\s+", "under "),
        (r"\beach\s+and\s+every\b|\bevery\s+single\b|\bany\s+and\s+all\b", "every"),
        (r"\bhow\s+many\s+times\b", "how often"),
        (
            rf"\b(any|every|each|all|some|only|just|an?|which|what)\s+({SELF_NAMED}|py|python|toml|html|css|xml|txt)(?=$|\s+(?:{_PLACED})\b)",
            r"\1 \2 files",
        ),
        (r"\bjust\s+(?=the\b)", ""),
    )
)
"""Only for requests that look for something; what shall be written stays as it is."""

_THINGS = r"(?:files?|lines?|rows?|places?|ones|records?|entries)"
_HOLDS = (
    r"(?:(?:start|begin|end)(?:s|ing|ning)?\s+with|contain(?:s|ing)?|mention(?:s|ing)?|match(?:es|ing)?|includ(?:e|es|ing)"
    r"|have|has|having|hold(?:s|ing)?|say(?:s|ing)?)"
)

_HEADS = tuple(
    (re.compile(pattern, re.I), plain)
    for pattern, plain in (
        (
            r"^(?:check|see|find\s+out|determine|figure\s+out|work\s+out|i\s+wonder|list|identify)\s+(?:me\s+)?"
            r"(?=(?:which|where|who|how\s+(?:many|often)|in\s+which)\b)",
            "",
        ),
        (r"^(find|locate|search|list|grep|look\s+up)\s+me\s+", r"\1 "),
        (rf"^where['’]s\s+(?=.+\s{_DEFINED}$)", "where is "),
        (
            r"^search\s+(?:for\s+)?(?=(?:all|every|the|any)\s+(?:\w+\s+)?files?\s+(?:with\s+(?:the\s+|an?\s+)?(?:extension|suffix|prefix|name|ending)"
            r"|(?:that|whose|which)\s+(?:names?\s+)?(?:start|end|begin)|named|called|matching)\b)",
            "find ",
        ),
        (
            r"^((?:how|count|tell|give|show|report|find|search).*?)\s*,?\s+(?:per|by|for\s+each|for\s+every|in\s+each)\s+file$",
            r"\1",
        ),
        (r"^(?:list|show|find)\s+(?:me\s+)?(notebooks|csvs|images|jsons|logs|yamls)$", r"find all \1"),
        (r"^look\s+(?:up\s+)?(?=(?:what|which|where)\b)", "show me "),
        (r"\bout\s+of\s+(?=\S+$)", "of "),
        (rf"^{_LOOK}\s+(?:at|into|inside|in|through)\s+", "look at "),
        (r"^(?:preview|skim|page|dump|spit\s+out|pull\s+up|bring\s+up|echo\s+back)\s+(?:through\s+|me\s+)?", "show "),
        (
            r"^(?:i|we)\s+(?:\w+\s+)?(?:need|want|must|have|would\s+like)\s+(?:to\s+)?(?:see|view|know|have|get)\s+",
            "show ",
        ),
        (
            r"^(?:(?:is|are)\s+there\s+)?(?:anything|something|whatever|everything)\s+(?=(?:matching|called|named|that\s+match)\b)",
            "find files ",
        ),
        (r"^(?:what|which)\s+(?:all\s+)?(?:have|has)\s+(?:we|you|i)(?:\s+got)?(?=\s|$)", "what do we have"),
        (
            r"^(?:what|which)\s+(?:files\s+)?(?:do|does|have)\s+(?:we|you|i)\s+(?:have|got|store|keep)(?=\s|$)",
            "what do we have",
        ),
        (
            rf"^(?:in\s+)?(?:which|what)\s+{_SOURCE}\s+(?:is|are|was|has)\s+(?:the\s+)?(.+?)\s+(?:been\s+)?{_DEFINED}(?=\s|$)",
            r"where is \1 defined",
        ),
        (rf"^(?:in\s+)?(?:which|what)\s+{_SOURCE}\s+(?:defines?|declares?|implements?)\s+", "where is defined: "),
        (
            rf"^(?:show\s+me\s+|find\s+)?(?:the\s+)?(?:place|line|file|spot)\s+(?:where|in\s+which|that)\s+(.+?)\s+(?:is|are|gets?)\s+{_DEFINED}(?=\s|$)",
            r"where is \1 defined",
        ),
        (
            r"^where\s+(?:do|did|does)\s+(?:we|i|you|they|it|one)\s+(?:define|declare|implement|create|introduce)\s+",
            "where is defined: ",
        ),
        (
            rf"^where\s+(?:does|do)\s+(?:the\s+)?({_WHOM}\s+\S+)\s+(?:live|come\s+from|sit|reside)",
            r"where is \1 defined",
        ),
        (
            r"^(?:find|locate|show(?:\s+me)?|get|give\s+me|where\s+(?:is|are|can\s+i\s+find|do\s+i\s+find))\s+(?:me\s+)?(?:the\s+)?definitions?\s+(?:of|for)\s+",
            "where is defined: ",
        ),
        (r"^where\s+is\s+defined:\s+(.+?)((?:\s+(?:in|under|inside|within|below)\s+.+)?)$", r"where is \1 defined\2"),
        (
            rf"^(?:in\s+)?(?:which|what)\s+({_SOURCE})\s+(?:do|does|did)\s+(?:we|i|you|they|it)\s+(?:use|mention|call|import|say)\s+",
            r"which \1 mention ",
        ),
        (
            rf"^(?:in\s+)?(?:which|what)\s+({_SOURCE})\s+(?:do|does|is|are)\s+(.+?)\s+(?:appear|occur|show\s+up|come\s+up|used|mentioned|found)(?=\s|$)",
            r"where is \2 mentioned",
        ),
        (r"^how\s+(?:much|many)\s+lines?\b", "how many lines"),
        (
            rf"^(?:(?:are|is)\s+there\s+|do\s+we\s+have\s+|find\s+)?any\s+(?=(?-i:[A-Z]{{3,}})s?\b|{LITERAL})",
            "search for ",
        ),
        (
            rf"^((?:count|search|grep|look|find|list|show|give)(?:\s+me)?)\s+((?:in|inside|under|within|across)\s+.+)\s+"
            rf"((?:for\s+)?(?:(?:the|all|every|any|each)\s+)*(?:{_THINGS}|occurrences?|mentions?|how\s+(?:often|many))\b.*)$",
            r"\1 \3 \2",
        ),
        (
            rf"^(?!\w+\s+(?:in|inside|under|within|across)\s)(.*?\b{_THINGS})\s+(?:in|of|under|inside|from|within|below|across)"
            rf"\s+(\S.*?)\s+((?:(?:that|which)\s+)?{_HOLDS}\s+.+)$",
            r"\1 \3 in \2",
        ),
        (
            rf"^(?:in|on)\s+how\s+many\s+(lines|files|places)\s+(?:of|in|under)\s+(.+?)\s+{_OCCURS}$",
            r"how many \1 in \2 contain \3",
        ),
        (rf"^(?:in|on)\s+how\s+many\s+(lines|files|places)\s+{_OCCURS}(?=\s|$)", r"how many \1 contain \2"),
        (
            r"^(how\s+many\s+.+?)\s+(?:does|do|has|have)\s+(?!(?:we|you|i|they|it)\b)(?:the\s+)?(\S+(?:\s+(?:folder|directory|package|file))?)"
            r"\s+(?:have|has|contain|hold|got)$",
            r"\1 in \2",
        ),
        (r"^(?:wc\s+-l|line\s+count\s+(?:of|for)|length\s+of)\s+(?=\S+$)", "count the lines of "),
    )
)
_LOOKING = re.compile(
    r"(?:which|what|where|who|find|search|list|show|give|how|count|tell|look|grep|locate|are|is|do|does|any|in)\b", re.I
)


def plain_wording(part: str) -> str:
    """``part`` in the words that the parsers know; unchanged when nothing in it has another wording."""
    if _LOOKING.match(part):
        for pattern, plain in _ANYWHERE:
            part = pattern.sub(plain, part)
    for pattern, plain in _HEADS:
        part = pattern.sub(plain, part, count=1)
    several = re.fullmatch(rf"(?:cat|less|more|type|head)((?:\s+{FILE}){{2,}})", part)
    if several:
        part = "read " + ", ".join(several[1].split())
    return re.sub(r"\s+", " ", part).strip()
