"""Requests that change something: write and edit files, run commands, keep a list of tasks."""

from __future__ import annotations

import re

from .files import parse_list
from .phrases import FILE, IT, TERM_NOUN, Op, file_name, match
from .text import LITERAL, Masked

RESULT = (
    r"(?:(?:all\s+(?:of\s+)?)?(?:it|that|this|them|these|those)(?:\s+all)?|(?:the|your|its|their|this"
    r"|that|these|those)\s+(?:\w+\s+)?(?:results?|output|list(?:ing)?|answers?|counts?|findings?"
    r"|matches|totals?|numbers?|summary|names?|hits|response)(?:\s+(?:of\s+that|you\s+(?:get|found|find"
    r"|got)))?|what\s+you\s+(?:find|found|get|got|see))"
)
FILE_NOUN = (
    r"(?:(?:a|an|the|my|one|another)\s+)?(?:new\s+|small\s+|short\s+|simple\s+)?(?:(?:text|python|markdown"
    r"|json|csv|yaml|toml|html|config|md|txt)\s+)?(?:file|document|note|script|page)"
)
CALLED = r"(?:\s+(?:called|named|at|with\s+the\s+name))?\s+"
SAYING = (
    r"(?:\s*,?\s*(?:and\s+)?(?:with|containing|that\s+(?:says?|contains?|reads?|holds?)|which\s+(?:says?"
    r"|contains?|reads?)|saying|holding|having|whose\s+contents?\s+(?:is|are)|to\s+(?:say|contain|read)"
    r"|reading|put\s+in\s+it)"
    r"(?:\s+(?:just|only|the|this|following|these|a|one|single|exact|two|three|as))*(?:\s+(?:texts?"
    r"|contents?|lines?|words?|body|string|code|message|sentence|data))?(?:\s+(?:of|being"
    r"|in\s+it))?\s*:?\s+|\s*:\s*)"
)


def _content(text: str, masked: Masked) -> str | None:
    """What shall be written, or None when that would have to be invented ("a poem")."""
    literal = masked.literal(
        re.sub(
            rf"^(?:{TERM_NOUN}|(?:the|a)\s+(?:line|sentence|content|message|number)\s+)", "", text.strip(), flags=re.I
        )
    )
    if literal is not None:
        if literal.quote == "fence":
            return literal.text.rstrip("\n") + "\n"
        return (
            literal.text.replace("\\n", "\n").replace("\\t", "\t")
            if literal.quote in ("double", "single")
            else literal.text
        )
    bare = re.sub(
        r"^(?:the\s+)(?:text|word|words|line|sentence|content|message|number)\s+", "", text.strip(), flags=re.I
    )
    if re.match(
        (
            r"(?:a|an|some|the|my|your|all|any|every|more|how|what|why|documentation|tests?|code|information"
            r"|instructions|unit)\b|$"
        ),
        bare,
        re.I,
    ):
        return None
    if re.search(LITERAL, bare) or match(RESULT, bare):
        return None
    return masked.plain(bare)


def parse_write(part: str, masked: Masked) -> list[Op] | None:
    """Write a file whose text is given, or is what an earlier part found."""
    for pattern in (
        (
            r"(?:write|save|put|store|copy)\s+(?:the\s+following|this|these|the)(?:\s+(?:\w+\s+)?(?:texts?"
            r"|contents?|code|lines?|script))?\s+(?:down\s+)?(?:in|into|to|as|under)\s+"
            rf"(?:{FILE_NOUN}{CALLED})?(?P<file>{FILE})(?:\s+file)?\s*:?\s+(?P<content>{LITERAL})"
        ),
        (
            r"(?:write|save|put|store|note|record|dump|jot(?:\s+down)?)(?:\s+down)?\s+(?P<content>.+?)\s+"
            rf"(?:down\s+)?(?:in(?:to)?|to|as|inside|under)\s+(?:{FILE_NOUN}{CALLED})?(?P<file>\S+)"
            r"(?:\s+file)?"
        ),
        (
            r"(?:write|create|make|generate|save|start|add|put|set\s+up|produce|overwrite|fill)\s+"
            rf"(?:{FILE_NOUN}{CALLED}|(?:to|into|the\s+file|a|the)\s+)?(?P<file>{FILE}|LICEN[CS]E|Makefile|Dockerfile|README)(?:\s+file)?{SAYING}"
            r"(?P<content>.+)"
        ),
        (
            rf"(?:write|create|make|add|save|put)\s+{FILE_NOUN}{SAYING}(?P<content>.+?)(?:\s+(?:called|named"
            r"|as|and\s+(?:call|name)\s+it|in|to|at))\s+(?P<file>\S+)"
        ),
        rf"in(?:to)?\s+(?:{FILE_NOUN}{CALLED})?(?P<file>{FILE})\s*,?\s+(?:write|put|save|store)\s+(?P<content>.+)",
        (
            r"(?:append|add)\s+(?P<content>.+?)\s+(?:to|at)\s+(?P<append>the\s+(?:end|bottom)\s+of\s+)?"
            rf"(?:the\s+file\s+)?(?P<file>{FILE})"
        ),
    ):
        found = match(pattern, part)
        path = file_name(found["file"], masked) if found else None
        if not found or not path:
            continue
        adding = re.match(r"append|add\s", part, re.I) and "append" in found.groupdict()
        if match(RESULT, found["content"]):
            return [Op("append" if adding else "write", {"path": path}, part, needs="result")]
        content = _content(found["content"], masked)
        if content is not None:
            return [
                Op("append", {"path": path, "content": content, "append": True}, part)
                if adding
                else Op("write", {"path": path, "content": content}, part)
            ]
    empty = match(
        (
            r"(?:create|make|touch|start|add)\s+(?:(?:an?\s+|the\s+)?(?:new,?\s+)?(?:empty|blank)\s+"
            rf"(?:\w+\s+)?file{CALLED}|{FILE_NOUN}{CALLED}|an?\s+(?:empty|blank)\s+)(?P<file>{FILE})"
        ),
        part,
    )
    path = file_name(empty["file"], masked) if empty else None
    return [Op("write", {"path": path, "content": ""}, part)] if path else None


EVERY = (
    r"(?:all|every|each|any)\s+(?:the\s+|of\s+the\s+)?(?:(?:occurrences?|instances?|mentions?|places?|uses?"
    r"|appearances?|ones)\s+(?:of\s+)?)?"
)
_EVERYWHERE = re.compile(r"\s*,?\s*\b(?:everywhere|throughout|globally|each\s+time|every\s*time|all\s+over)\b", re.I)


def parse_edit(part: str, masked: Masked) -> list[Op] | None:
    """Replace one text in one file by another."""
    text = _EVERYWHERE.sub("", part)
    every = text != part
    text = re.sub(r"^(?:find|search\s+for)\s+and\s+replace\s+", "replace ", text, flags=re.I)
    text = re.sub(
        (
            r"^(?:find|search\s+for)\s+(.+?)\s+(?:in\s+(\S+)\s+)?and\s+(?:replace|change|swap)\s+(?:it"
            r"|them)\s+(?:with|by|to|for)\s+(.+)$"
        ),
        lambda m: f"replace {m[1]} with {m[3]}" + (f" in {m[2]}" if m[2] else ""),
        text,
        flags=re.I,
    )
    for pattern in _EDITS:
        found = match(pattern, text)
        path = file_name(found["file"], masked) if found else None
        if not found or not path:
            continue
        old, all_of_them = _old(found["old"], masked)
        new = _value(found.groupdict().get("new", ""), masked) if "new" in found.groupdict() else ""
        if old and new is not None and ("new" in found.groupdict() or masked.literal(found["old"].strip())):
            every = every or all_of_them or re.search(r"\brename\b", part, re.I) is not None
            return [
                Op(
                    "edit",
                    {"path": path, "old_string": old, "new_string": new, **({"replace_all": True} if every else {})},
                    part,
                )
            ]
    return None


_IN = r"(?:in(?:side)?|within|of|from)\s+(?:the\s+)?(?:file\s+)?"
_EDITS = (
    (
        r"(?:replace|substitute|swap|exchange)(?:\s+out)?\s+(?P<old>.+?)\s+(?:with|by|for|→|->)\s+"
        rf"(?P<new>.+?)\s+{_IN}(?P<file>\S+)(?:\s+file)?"
    ),
    (
        r"(?:change|rename|turn|update|modify|set|correct|fix)\s+(?P<old>.+?)\s+(?:in)?(?:to|->|→)\s+"
        rf"(?P<new>.+?)\s+{_IN}(?P<file>\S+)(?:\s+file)?"
    ),
    (
        r"(?:in|inside|within)\s+(?P<file>\S+)\s*[,:]?\s+(?:replace|substitute|swap)\s+(?P<old>.+?)\s+(?:with"
        r"|by|for)\s+(?P<new>.+)"
    ),
    (
        r"(?:in|inside|within)\s+(?P<file>\S+)\s*[,:]?\s+(?:change|rename|turn|update|set)\s+(?P<old>.+?)\s+"
        r"(?:in)?to\s+(?P<new>.+)"
    ),
    (
        r"(?:(?:edit|update|modify|change|open)\s+)?(?:the\s+file\s+)?(?P<file>\S+?)(?:\s*[:,]|\s+and|\s+so\s+that\s+you"
        r"|\s+by|\s+to|(?=\s))\s*(?:replac(?:e|ing)|substitut(?:e|ing)|swap(?:ping)?)\s+(?P<old>.+?)\s+(?:with|by|for)\s+"
        r"(?P<new>.+)"
    ),
    (
        r"(?:(?:edit|update|modify|change|open)\s+)?(?:the\s+file\s+)?(?P<file>\S+?)(?:\s*[:,]|\s+and|\s+by|\s+to|(?=\s))"
        r"\s*(?:chang(?:e"
        r"|ing)|renam(?:e|ing)|turn(?:ing)?)\s+(?P<old>.+?)\s+(?:in)?to\s+(?P<new>.+)"
    ),
    (
        r"(?:edit|update|change)\s+(?P<file>\S+)\s+(?:to\s+say|so\s+that\s+it\s+says)\s+"
        r"(?P<new>.+?)\s+instead\s+of\s+(?P<old>.+)"
    ),
    r"(?:in\s+(?P<file>\S+),?\s+)(?:delete|remove|strip|drop)\s+(?P<old>.+)",
    r"(?:delete|remove|strip|drop|cut)\s+(?P<old>.+?)\s+(?:from|in|out\s+of)\s+(?:the\s+file\s+)?(?P<file>\S+)",
    rf"(?:replace|change)\s+{_IN}(?P<file>\S+)\s*,?\s+(?P<old>.+?)\s+(?:with|by|to)\s+(?P<new>.+)",
)


def _old(text: str, masked: Masked) -> tuple[str | None, bool]:
    changed = re.fullmatch(rf"(?:[\w ]+\s)?from\s+({LITERAL}|\S+)", text.strip(), re.I)
    if changed:
        return _value(changed[1], masked), False
    bare = re.sub(rf"^(?:{EVERY}|(?:the\s+)?(?:occurrences?|instances?)\s+of\s+)", "", text.strip(), flags=re.I)
    return _value(bare, masked), bare != text.strip()


def _value(text: str, masked: Masked) -> str | None:
    bare = re.sub(rf"^{TERM_NOUN}(?=\S)", "", text.strip(), flags=re.I)
    literal = masked.literal(bare)
    if literal is not None:
        return literal.text
    if len(re.findall(LITERAL, bare)) == 1 and re.search(rf"[=:(]\s*{LITERAL}", bare):
        return masked.restore(bare)  # version = "1.0"
    if re.search(LITERAL, bare) or len(bare.split()) > 8 or match(IT, bare):
        return None
    if re.match(r"(?:a|an|the|some|something|all|my|your|better|more)\s|(?:something|everything|things?)$", bare, re.I):
        return None
    return bare or None


LIST_NOUN = r"(?:plans?|to-?\s?do(?:s|[\s-]+list)?|task[\s-]+list|tasks|check-?list|list\s+of\s+(?:tasks|steps|todos))"
PLAN = re.compile(
    r"(?:(?:make|create|write|draft|set\s+up|prepare|start|keep|build|give\s+me|show\s+me|put\s+together"
    r"|track|note|update|add|lay\s+out|need|use)\s+(?:(?:me|up|down)\s+)?"
    rf"(?:(?:a|an|the|my|your|these|this|following|short|simple|new|small|quick|\w+[\s-]step)\s+)*{LIST_NOUN}\s*"
    r"(?:(?:for|to|of|with|that|covering|containing|including)\b\s*(?:me\s+to\s+)?(?:the\s+|these\s+"
    r"|this\s+)?(?:following\s+)?(?:\w+\s+)?(?:tasks?|steps?|items?|things|entries|todos?)?\s*:?|:|-|,)?"
    r"|(?:todo|to-do|tasks?|plan)(?:\s+list)?\s*:|plan\s+(?:(?:the\s+following|these|this|out)\s*"
    r"(?:tasks?|steps?|work|things)?\s*:?|to\b|for\b|how\s+to\b)?)\s*",
    re.I,
)
_DO_IT = re.compile(
    (
        r"[\s,.;]*(?:and\s+)?(?:then\s+)?(?:do|execute|carry|work|follow|go|run|start)\s+(?:(?:out|through"
        r"|on)\s+)?(?:it|them|the\s+plan|the\s+(?:tasks|steps|list)|each(?:\s+(?:one|of\s+them|step))?)(?:\s+"
        r"(?:out|through|all|one\s+by\s+one|step\s+by\s+step))?\s*[.!]*$"
    ),
    re.I,
)


def parse_plan(text: str, masked: Masked) -> tuple[list[str], bool] | None:
    """The tasks of a request for a plan, and whether they shall be done; None when it is no such request."""
    added = match(rf"(?:add|put)\s+(.+?)\s+(?:to|on(?:to)?)\s+(?:my|the|your)\s+{LIST_NOUN}", text)
    if added:
        return _items(added[1], masked), False
    found = PLAN.match(text)
    if not found:
        return None
    rest = text[found.end() :]
    do_it = _DO_IT.search(rest)
    rest = rest[: do_it.start()] if do_it else rest
    if re.match(r"(?:and|then)\b", rest.strip(), re.I) or not rest.strip():
        return None
    return _items(rest, masked), bool(do_it)


def _items(text: str, masked: Masked) -> list[str]:
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) == 1:
        numbered = re.split(r"(?:^|[\s,;]+)\(?\d{1,2}[.)]\s+", lines[0])
        lines = (
            numbered
            if len(numbered) > 2
            else re.split(r"\s*(?:,\s*(?:and\s+)?(?:then\s+)?|;|\band\s+then\b|\bthen\b|\s+and\s+|\.\s)\s*", lines[0])
        )
    items = (re.sub(r"^\s*(?:[-*•]|\[[ x]?\]|\(?\d{1,2}[.)])\s*", "", line).strip(" .,;") for line in lines)
    return [masked.plain(item) for item in items if item]


def parse_filler(part: str, masked: Masked) -> list[Op] | None:
    """Parts that ask for nothing: "and show me the result", "let me know"."""
    if parse_list(part, masked):
        return None
    told = match(
        r"(?:show|tell|give|report|print|display|send|return|explain|present|share)(?:\s+(?:me|us|back"
        rf"|to\s+me))*(?:\s+(?:with|about|on))?\s*(?:{RESULT}|what\s+(?:you|it|happens|happened"
        r"|the\s+results?\s+(?:is|are)|they|comes?\s+out).*|everything\s+you.*|(?:the|its|how\s+(?:it"
        r"|that)).*(?:went|goes|result))?"
        r"|let\s+me\s+(?:know|see)(?:\s+(?:the|what|how|when).*)?|report\s+back|that(?:['’]?s|\s+is)\s+"
        r"(?:it|all)|nothing\s+else|do\s+nothing\s+else|answer\s+briefly|be\s+brief"
        r"|take\s+your\s+time|don['’]?t\s+(?:change|write|modify|touch|do)\s+anything(?:\s+else)?|stop"
        r"|done|thanks|thank\s+you.*|so\s+(?:that\s+)?i\s+can.*",
        part,
    )
    return [] if told else None
