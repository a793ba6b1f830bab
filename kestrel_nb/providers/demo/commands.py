"""Requests to run a command."""

from __future__ import annotations

import re

from .phrases import Op, folder_name, match
from .text import LITERAL, Masked
from .words import COMMANDS

RUN = r"(?:run|execute|exec|launch|start|try|do|invoke|type|issue|perform)"
COMMAND_NOUN = (
    r"(?:(?:the|this|a|following|my|these)\s+)*(?:shell|bash|terminal|command[\s-]line|console|unix)?\s*"
    r"(?:command|cmd|shell|bash|terminal|script|line)\s*(?:line\s*)?:?\s+|(?:this|the\s+following)\s*:?\s+"
)


def parse_run(part: str, masked: Masked) -> list[Op] | None:
    """Run a command: one that stands in quotes or begins with the name of a known program."""
    prompt = re.match(r"[$!]\s?(?=\w)", part)
    if prompt:
        return [Op("run", {"command": masked.restore(part[prompt.end() :])}, part)]
    found = match(
        (
            rf"(?:use\s+(?:the\s+)?(?:shell|terminal|bash)\s+(?:tool\s+)?(?:to\s+)?)?{RUN}\s*:?\s+"
            rf"(?P<noun>{COMMAND_NOUN})?(?P<command>.+)"
        ),
        part,
    ) or match(
        (
            r"(?:in|use)\s+(?:the\s+|a\s+)?(?P<noun>shell|terminal|bash)\s*,?\s+(?:to\s+)?(?:run|execute"
            r"|do)?\s*:?\s*(?P<command>.+)"
        ),
        part,
    )
    found = found or match(
        (
            r"(?:what(?:['’]?s|\s+is)|show(?:\s+me)?|get|give\s+me|print)\s+the\s+(?P<noun>output"
            rf"|result)\s+of\s+(?P<command>{LITERAL})"
        ),
        part,
    )
    if not found:
        return None
    command = re.sub(
        r"\s+(?:in|using|with|on|from)\s+(?:the\s+|a\s+|my\s+)?(?:shell|terminal|bash|command\s+line|console)$",
        "",
        found["command"],
        flags=re.I,
    )
    command, folder = _take_folder(command, masked)
    literal = masked.literal(command)
    if literal is not None:
        text: str | None = literal.text.strip()
    else:
        text = masked.restore(command) if _is_command(command, bool(found["noun"])) else None
    return [Op("run", {"command": text, **({"cwd": folder} if folder else {})}, part)] if text else None


_PLAIN_COMMANDS = frozenset(
    [
        "git",
        "python",
        "python3",
        "pip",
        "pip3",
        "pytest",
        "npm",
        "npx",
        "yarn",
        "node",
        "docker",
        "ruff",
        "mypy",
        "uv",
        "cargo",
        "conda",
        "poetry",
        "tox",
        "wc",
        "sed",
        "awk",
        "head",
        "tail",
        "curl",
        "jq",
        "sqlite3",
        "mkdir",
        "du",
        "df",
        "uname",
        "whoami",
        "pwd",
    ]
)
"""Programs whose names are no English words, or are none with an option behind them."""
_ENGLISH = re.compile(r"\b(?:the|a|an|my|our|please|for|me|of|in|this|that|is|are|to|and|with|it|into|all)\b", re.I)


def parse_bare_command(text: str, masked: Masked) -> list[Op] | None:
    """``git status``, ``wc -l a.csv``: a command line without any other word."""
    words = text.split()
    if len(words) < 2 or words[0] not in _PLAIN_COMMANDS or _ENGLISH.search(text):
        return None
    if words[0] in ("head", "tail", "make", "wc", "node") and not any(word.startswith("-") for word in words[1:]):
        return None
    return [Op("run", {"command": masked.restore(text)}, text)]


def _take_folder(command: str, masked: Masked) -> tuple[str, str | None]:
    found = match(r"(.+?)\s+(?:in(?:side)?|from|within)\s+(?:the\s+)?(.+?)", command)
    if found is None or re.search(r"[|;&]", found[2]):
        return command, None
    if match(
        r"(?:the\s+|this\s+|current\s+|my\s+)*(?:workspace|project|repo|here|folder|directory)(?:\s+(?:root|folder))?",
        found[2],
    ):
        return found[1], None
    folder = folder_name(found[2], masked)
    return (found[1], folder) if folder else (command, None)


def _is_command(text: str, announced: bool) -> bool:
    words = text.split()
    if not words or not re.match(r"[\w./~]", words[0]):
        return False
    first = words[0].lower()
    if first in ("the", "a", "an", "all", "my", "some", "it", "this", "that", "them", "your"):
        return False
    known = words[0] in COMMANDS or "/" in words[0] or re.search(r"\.(?:sh|py)$", words[0]) is not None
    return (
        known
        or (announced and len(words) < 12)
        or any(re.fullmatch(r"--?\w[\w-]*(?:=\S+)?", word) for word in words[1:])
    )
