"""What a text must contain for a pattern to match at all: found at a glance, it spares most files the engine."""

from __future__ import annotations

import re

_CLASSES = frozenset("bBdDsSwW")
_FLAGS = re.compile(r"\(\?(?!P[<=])[a-zA-Z-]")  # of these, some change what the other characters mean


def needed_texts(pattern: str) -> list[bytes] | None:
    """ASCII texts of which every match contains at least one, None when that is not plain to see."""
    if _FLAGS.search(pattern):
        return None
    try:
        branches = _branches(pattern)
    except ValueError:
        return None
    longest = [max(runs, key=len) for runs in branches]
    return [text.encode("ascii") for text in longest] if all(text and text.isascii() for text in longest) else None


def _branches(pattern: str) -> list[list[str]]:
    """For each top-level alternative, the runs of characters that stand in it as they are.

    Groups and classes count as unknown. Raises ValueError for what is not understood here.
    """
    branches, run, at = [[""]], "", 0
    while at < len(pattern):
        char, at = pattern[at], at + 1
        if char == "\\" and pattern[at : at + 1] not in _CLASSES:
            run, at = run + _escaped(pattern[at : at + 1]), at + 1
            continue
        if char not in "\\|([.^$+*?{":
            run += char
            continue
        if char in "*?{":  # what stands before it may be missing
            run = run[:-1]
        branches[-1].append(run)
        run = ""
        if char == "|":
            branches.append([""])
        at = _behind(pattern, char, at)
    branches[-1].append(run)
    return branches


def _behind(pattern: str, char: str, at: int) -> int:
    """Where to go on after ``char``, whose next place is ``at``."""
    if char == "\\":
        return at + 1
    if char == "{":
        return pattern.index("}", at) + 1
    return _end_of_group(pattern, at) if char == "(" else _end_of_class(pattern, at) if char == "[" else at


def _escaped(char: str) -> str:
    if not char or char.isalnum():
        raise ValueError
    return char


def _end_of_class(pattern: str, at: int) -> int:
    at += pattern[at : at + 1] == "^"
    at += pattern[at : at + 1] == "]"  # as the first one it stands for itself
    while pattern[at : at + 1] != "]":
        if at >= len(pattern):
            raise ValueError
        at = pattern.index(":]", at) + 2 if pattern.startswith("[:", at) else at + 1 + (pattern[at] == "\\")
    return at + 1


def _end_of_group(pattern: str, at: int) -> int:
    while pattern[at : at + 1] != ")":
        if at >= len(pattern):
            raise ValueError
        char, at = pattern[at], at + 1
        at = _end_of_group(pattern, at) if char == "(" else _end_of_class(pattern, at) if char == "[" else at
        at += char == "\\"
    return at + 1
