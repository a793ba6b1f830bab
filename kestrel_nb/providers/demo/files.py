"""Requests about files: list a folder, find files, read them, show the head of one that should be summarised."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from .phrases import (
    DET,
    EVERYWHERE,
    FLAGS,
    IT,
    KIND,
    THEM,
    Op,
    Place,
    file_name,
    files,
    folder_name,
    kind_glob,
    match,
    take_lines,
    take_place,
)
from .text import Masked
from .words import EXTENSIONLESS

SHOW = (
    r"(?:list|ls|dir|enumerate|show|display|print|view|see|get|give|tell|report|find|locate|discover"
    r"|identify|look\s+up|look\s+for"
    r"|search\s+for|check\s+for|glob|scan\s+for|fetch|return|output|collect|gather|bring|let\s+me\s+"
    r"(?:see|know)|know|to\s+(?:see|know)|know\s+about)"
    r"(?:\s+(?:me|us|out))?(?:\s+(?:if|whether)\s+there\s+(?:are|is))?(?:\s+(?:please|again))?"
)
ASK = (
    r"(?:(?:show\s+me|tell\s+me|(?:let\s+me|to)\s+(?:know|see)|know|list|see|find\s+out)\s+)?"
    r"(?:what|which|what's|whats|what\s+kinds?\s+of|are\s+there|is\s+there|do\s+(?:we|i|you)\s+have"
    r"|have\s+we|do(?:es)?(?=\s+(?:any|some|the)\b))(?:\s+(?:are|is|all))?"
)
LISTING = r"(?:an?\s+|the\s+)?(?:full\s+|complete\s+)?(?:list(?:ing)?|names?|paths?|inventory|overview)\s+(?:of\s+)?"
THERE = (
    r"(?:\s+(?:there|exist(?:s|ing)?|(?:that\s+)?(?:we|i|you)(?:['’]ve)?\s+(?:have|got)|do\s+(?:we|i"
    r"|you)\s+have|are\s+there|is\s+there"
    r"|(?:that\s+)?are|is|available|present|contained|live|lives|found|stored|you\s+(?:can\s+)?(?:see"
    r"|find)|can\s+you\s+(?:see|find)|located|lying\s+around|around|somewhere|anywhere))*"
)
ENTRIES = (
    r"(?:files|folders?|director(?:y|ies)|contents?|entries|everything|all|things|stuff|items"
    r"|sub-?folders|sub-?directories)"
    r"(?:\s*(?:and|&|,|or|\+)\s*(?:the\s+)?(?:sub-?)?(?:files?|folders?|director(?:y|ies)))*(?:\s+"
    r"(?:listing|tree|structure|contents?|names))?"
)


def parse_list(part: str, masked: Masked) -> list[Op] | None:
    """List one folder, or all files under it."""
    deep = re.search(
        r"\brecursive(?:ly)?\b|\bsub-?(?:folders|directories)\b|\bevery\s+file\b|\bwhole\s+tree\b", part, re.I
    )
    text = re.sub(
        r"\s*\b(?:recursively|including\s+(?:all\s+)?sub-?\w+|and\s+(?:all\s+)?(?:its\s+)?sub-?\w+)",
        "",
        part,
        flags=re.I,
    )
    two = match(
        r"(.+?\s(?:in|of|under|inside)\s+(?:the\s+)?)([\w./-]+)\s+(?:and|&)\s+(?:(?:in|of)\s+)?(?:the\s+)?([\w./-]+)",
        text,
    )
    if two and not deep:
        both = [_listed_folder(two[1] + name, masked) for name in (two[2], two[3])]
        return [Op("list", {"path": path}, part, together=n > 0) for n, path in enumerate(both)] if all(both) else None
    path = _listed_folder(text, masked)
    if path is None:
        return None
    if deep and "folders" not in deep[0].lower().replace("subfolders", ""):
        return [Op("find", {"pattern": "**/*", **({} if path == "." else {"path": path})}, part)]
    return [Op("list", {"path": path}, part)]


def _listed_folder(text: str, masked: Masked) -> str | None:
    command = match(r"(?:ls|dir|list|tree)(?:\s+-[a-zA-Z]+)*(?:\s+(\S+))?", text)
    if command and (not command[1] or folder_name(command[1], masked) or match(EVERYWHERE, command[1])):
        named = command[1] and not match(rf"{ENTRIES}|{EVERYWHERE}", command[1])
        if not named and text.lower() == "list":
            return None
        return (folder_name(command[1], masked) or ".") if named else "."
    bare, place = take_place(text, masked, r"in|inside(?:\s+of)?|within|under|of|from|at|below")
    if place.glob or (place.path and (_looks_like_file(place.path) or place.path in _FILES)):
        return None
    if match(rf"(?:(?:{SHOW}|{ASK})\s+)(?:{LISTING})?{DET}(?:{LISTING})?{DET}{ENTRIES}{THERE}", bare):
        return place.path or "."
    if match(
        (
            rf"(?:{ASK}|what\s+do\s+(?:we|you|i)\s+have|what\s+can\s+(?:you|i)\s+(?:find|see))(?:\s+(?:stored"
            r"|contained|lying\s+around|there))?"
        ),
        bare,
    ):
        return place.path or ("." if text != bare else None)
    listing = match(
        (
            rf"(?:{SHOW}\s+)?(?:(?:a|the)\s+)?(?:full\s+)?(?:directory|folder|dir|file|files)?\s*(?:listing"
            r"|contents?|list)"
        ),
        bare,
    )
    whatever = match(
        (
            rf"{SHOW}\s+(?:whatever|everything|anything|all)(?:\s+(?:that|which))?(?:\s+(?:is|you\s+(?:find"
            r"|see)|there\s+is|lives))?"
        ),
        bare,
    )
    if (listing or whatever) and text != bare:
        return place.path or "."
    if (
        match(
            rf"look|(?:have|take)\s+a\s+look|look\s+around|{SHOW}\s+(?:around|what(?:['’]?s|\s+is|\s+we\s+have)?)|list",
            bare,
        )
        and text != bare
    ):
        return place.path or "."
    return _folder_words(text, masked)


def _folder_words(text: str, masked: Masked) -> str | None:
    """``list the docs folder``, ``show me src/``, ``what does the data directory contain``."""
    found = match(
        rf"(?:{SHOW}|open)\s+(?:{LISTING})?(?:all\s+)?(?:the\s+)?(.+?)\s*(?:folder|directory|dir)(?:['’]?s\s+(?:contents?|files))?",
        text,
    ) or match(r"what(?:\s+files)?\s+does\s+(.+?)\s+(?:contain|have|hold)(?:\s+in\s+it)?", text)
    if found:
        if match(r"(?:the|this|current|working|\s)*", found[1]):
            return "."
        path = folder_name(found[1], masked)
        return None if path is None or _looks_like_file(path) else path
    announced = match(rf"(?:{SHOW}|open)\s+{DET}((?:folder|directory|dir)\s+.+)", text)
    if announced:
        return folder_name(announced[1], masked)
    slashed = match(rf"(?:{SHOW})\s+{DET}(\S+/)", text)
    return slashed[1] if slashed else None


_FILES = frozenset(EXTENSIONLESS.values()) | {"README", "readme"}


def _looks_like_file(path: str) -> bool:
    return bool(re.search(r"[^./]\.[A-Za-z]\w*$", path))


NAME_CONDITIONS = (
    (
        (
            r"(?:which|that|whose\s+names?)?\s*(?:start(?:s|ing)?|begin(?:s|ning)?)\s+(?:with|by|in)\s+"
            r"(?:the\s+(?:word|prefix|letter)\s+)?(\S+)"
        ),
        "{0}*",
    ),
    (r"with\s+(?:the\s+)?prefix\s+(\S+)", "{0}*"),
    (
        (
            r"(?:which|that|whose\s+names?)?\s*end(?:s|ing)?\s+(?:with|in|on)\s+(?:the\s+(?:word|suffix"
            r"|extension)\s+)?(\S+)"
        ),
        "*{0}",
    ),
    (r"(?:with|having|of)\s+(?:the\s+|an?\s+)?(?:file\s?)?(?:extension|suffix|ending)\s+(\S+)", "*.{0}"),
    (r"with\s+(?:an?\s+|the\s+)?(\.\w+)\s+(?:extension|suffix|ending)", "*.{0}"),
    (
        (
            r"(?:with|having|containing|(?:that\s+|which\s+)?(?:have|contain))\s+(?:the\s+word\s+)?(\S+)\s+in\s+(?:the"
            r"|their|its)\s+(?:file\s?)?names?"
        ),
        "*{0}*",
    ),
    (
        r"whose\s+(?:file\s?)?names?\s+(?:contains?|includes?|ha(?:s|ve)|match(?:es)?)\s+(?:the\s+word\s+)?(\S+)",
        "*{0}*",
    ),
    (r"(?:which\s+are\s+|that\s+are\s+)?(?:called|named)\s+(?:something\s+)?like\s+(\S+)", "*{0}*"),
    (
        r"(?:which\s+are\s+|that\s+are\s+|is\s+)?(?:called|named|with\s+the\s+name|by\s+the\s+name(?:\s+of)?)\s+(\S+)",
        "{0}",
    ),
    (
        (
            r"(?:that\s+match(?:es)?|match(?:ing|es)?|fitting|for|like|by)?\s*(?:the\s+)?(?:glob|pattern"
            r"|wildcard)?\s*(\S*\*\S*)"
        ),
        "{0}",
    ),
)


def _take_name(text: str, masked: Masked) -> tuple[str, str | None]:
    for condition, shape in NAME_CONDITIONS:
        found = re.search(rf"(?:^|\s+){condition}$", text, FLAGS) or re.search(
            rf"(?:^|\s+){condition}(?=\s)", text, FLAGS
        )
        if found:
            name = masked.plain(found[1]).strip()
            rest = f"{text[: found.start()]} {text[found.end() :]}".strip()
            if shape == "*.{0}":
                name = name.lstrip("*").lstrip(".")
            if shape == "{0}" and "*" not in name and "." not in name:
                shape = "{0}*"
            return rest, shape.format(name).replace("**{", "*{") if "/" not in name else name
    return text, None


def parse_find(part: str, masked: Masked) -> list[Op] | None:
    """Find files by kind, name or pattern."""
    found = _find(part, masked)
    if found is None:
        return None
    name, place = found
    pattern = name if name.startswith("**/") or "/" in name else f"**/{name}"
    return [Op("find", {"pattern": pattern, **({"path": place.path} if place.path else {})}, part)]


def _find(part: str, masked: Masked) -> tuple[str, Place] | None:
    text = re.sub(r"^(?:where\s+(?:is|are|can\s+i\s+find)|where['’]?s)\s+(?:all\s+)?", "find ", part, flags=re.I)
    text = re.sub(
        r"^(?:is|do\s+(?:we|you|i)\s+have|have\s+we\s+got|does)\s+(?:there\s+|it\s+have\s+)?(?:a|an|any)\s+",
        "find ",
        text,
        flags=re.I,
    )
    text = re.sub(r"^any\s+(?=.*(?:\bfiles?\b|\bnotebooks?\b|\bimages?\b))", "find any ", text, flags=re.I)
    text, name = _take_name(text, masked)
    text, place = take_place(text, masked)
    if name is None:
        text, name = _take_name(text, masked)
    if place.glob and not name:
        return None
    text = re.sub(rf"{THERE}$", "", text, flags=re.I)
    head = rf"(?:{SHOW}|{ASK}|print|count)\s+(?:{LISTING})?{DET}(?:{LISTING})?{DET}"
    kind = match(head + KIND + THERE, text) or match(rf"(?:{ASK}\s+)?(?:are|is)\s+(?:there\s+)?{DET}{KIND}", text)
    if kind:
        return _with_kind(name, kind_glob(kind)), place
    if name and match(
        (
            rf"(?:{SHOW}|{ASK})?|(?:{head})?(?:files?|ones|documents?|scripts?|modules?|items|paths"
            rf"|everything|all)?{THERE}"
        ),
        text,
    ):
        return name, place
    word = match(rf"{head}(tests?|config(?:uration)?|setup|fixture)\s+(?:files?|modules?)", text)
    if word:
        return f"*{word[1].lower().rstrip('s').removesuffix('uration')}*", place
    file = match(r"(?:find|locate|search\s+for|look\s+for|look\s+up)\s+(.+)", text)
    path = file and file_name(file[1], masked)
    if file and path in _FILES and "." not in file[1] and masked.literal(file[1]) is None:
        return f"{PurePosixPath(path or '').stem}*", place
    if (
        file
        and path
        and (masked.literal(file[1]) is None or re.match(r"(?:find|locate)\s", text, re.I))
        and _looks_like_file(path)
    ):
        return path, place
    return None


def _with_kind(name: str | None, glob: str) -> str:
    """``test_*`` and ``*.py`` together are ``test_*.py``."""
    if name is None:
        return glob
    stem = name.rstrip("*") + "*"
    return name if name.endswith(glob.lstrip("*")) else stem + glob.lstrip("*")


READ = (
    r"(?:read|open|show|print|cat|display|view|type|head|less|more|dump|output|see|look\s+(?:at|into"
    r"|inside|in)|check(?:\s+out)?|get|give|load|inspect"
    r"|examine|take\s+a\s+look\s+(?:at|into)|have\s+a\s+look\s+(?:at|into)|let\s+me\s+(?:see|read)|i\s+"
    r"(?:want|need)\s+to\s+(?:see|read)|to\s+(?:see|read)|pull\s+up|bring\s+up|fetch|return|(?:read|go"
    r"|look)\s+(?:through|over))"
    r"(?:\s+(?:me|us|up|out))?"
)
CONTENT = (
    r"(?:(?:all\s+)?(?:the\s+)?(?:whole\s+|full\s+|entire\s+|complete\s+|exact\s+)?(?:contents?|text|body"
    r"|source(?:\s+code)?|code)\s+(?:of|in|from)\s+"
    r"|what(?:['’]?s|\s+is)\s+(?:written\s+)?(?:in|inside)\s+|what\s+is\s+inside\s+(?:of\s+)?|"
    r"(?:all\s+of\s+|the\s+whole\s+|the\s+entire\s+|whole\s+)|from\s+|of\s+|in\s+)?"
)


def parse_read(part: str, masked: Masked) -> list[Op] | None:
    """Read one file or several, whole or a range of lines."""
    ranged = take_lines(part)
    if ranged is None:
        return None
    text, lines = ranged[0].rstrip(" ,:"), ranged[1]
    names = _read_names(text, masked, bool(lines))
    if names is None:
        return None
    if isinstance(names, str):
        return [Op("read", lines, part, needs=names)]
    if not names:
        return [Op("read", lines, part, needs="file")]
    return [Op("read", {"path": name, **lines}, part, together=n > 0) for n, name in enumerate(names)]


def _read_names(text: str, masked: Masked, ranged: bool) -> list[str] | str | None:
    if ranged and match(rf"{READ}(?:\s+(?:me|only|just))*(?:\s+(?:of\s+)?(?:it|that|them))?", text):
        return []
    for pattern in (
        (
            rf"{READ}\s+{CONTENT}(?:of\s+|from\s+|in\s+)?(.+?)(?:['’]s\s+contents?|\s+to\s+me|\s+"
            r"(?:file\s+)?contents?|\s+in\s+full|\s+completely)?"
        ),
        r"what\s+(?:does|do)\s+(.+?)\s+(?:say|contain|look\s+like|have\s+in\s+it|hold)",
        (
            r"(?:tell\s+me\s+|show\s+me\s+|know\s+|see\s+)?what(?:['’]?s|\s+is|\s+are|\s+stands)\s+"
            r"(?:written\s+|the\s+contents?\s+)?(?:in|inside|of|on)(?:\s+of)?\s+(.+)"
        ),
        r"(?:tell\s+me\s+|show\s+me\s+|know\s+|see\s+)what\s+(.+?)\s+(?:says|contains|looks\s+like|say|contain)",
        r"what\s+(?:is|are)\s+the\s+contents?\s+of\s+(.+)",
        r"(?:the\s+)?contents?\s+of\s+(.+)",
        rf"(?:what\s+(?:is|are)|{READ})\s+(?:of\s+|in\s+|from\s+)?(.+)" if ranged else r"(?!)",
        r"(?:(?:only|just|of|from|in)\s+)*(.+)" if ranged else r"(?!)",
    ):
        found = match(pattern, text)
        if not found:
            continue
        if match(IT, found[1]):
            return "file"
        if match(THEM, found[1]):
            return "files"
        names = files(found[1], masked)
        if names and all(_looks_like_file(name) or _named(name, found[1], masked) for name in names):
            return names
    return None


def _named(name: str, text: str, masked: Masked) -> bool:
    """True for a path without an extension that is surely meant as a file: quoted, or a known name."""
    return not name.endswith("/") and (
        "/" in name or name in ("LICENSE", "Makefile", "Dockerfile") or bool(masked.literal(text))
    )


SUMMARY = (
    r"(?:summari[sz]e|sum\s+up|outline|describe|explain|give\s+(?:me\s+)?(?:a|an|the)\s+(?:short\s+"
    r"|brief\s+|quick\s+)?(?:summary|overview|gist|digest)\s+of"
    r"|(?:a\s+)?(?:short\s+|brief\s+)?summary\s+of|tl;?dr(?:\s+(?:of|for))?|what\s+is\s+the\s+gist\s+of)"
)
SUMMARY_LINES = 30  # what fits on one screen


def parse_summary(part: str, masked: Masked) -> list[Op] | None:
    """A summary takes understanding, so only the head of the file is shown, and the answer says so."""
    found = match(
        (
            rf"{SUMMARY}\s+(?:me\s+)?(?:the\s+)?(?:contents?\s+of\s+)?(.+?)(?:\s+(?:briefly|in\s+\w+\s+"
            r"(?:words|sentences?|lines?)))?"
        ),
        part,
    ) or match(r"what\s+is\s+(.+?)\s+about", part)
    if not found:
        return None
    if match(IT, found[1]):
        return [Op("summary", {"limit": SUMMARY_LINES}, part, needs="file")]
    names = files(found[1], masked)
    if not names:
        return None
    return [Op("summary", {"path": name, "limit": SUMMARY_LINES}, part, together=n > 0) for n, name in enumerate(names)]
