"""Rules that repair a cell that Python cannot read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .cases import Case, Known, Mend, tree_of
from .quoting import code

_CLOSING = {"(": ")", "[": "]", "{": "}"}


def syntax_error(case: Case, known: Known) -> Mend | None:
    """The first change of the line that failed after which Python can read the cell."""
    lines = case.source.split("\n")
    if not 0 < case.line <= len(lines):
        return None
    for tries in (_colon, _brackets, _quote, _comparison, _print):
        for candidate, why in tries(case, lines):
            if tree_of(candidate) is not None:
                return Mend(candidate, why)
    return None


def _line_changed(lines: Sequence[str], number: int, text: str) -> str:
    return "\n".join([*lines[: number - 1], text, *lines[number:]])


def _colon(case: Case, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    if case.message != "expected ':'":
        return
    line, why = lines[case.line - 1].rstrip(), f"A colon was missing at the end of line {case.line}."
    yield _line_changed(lines, case.line, f"{line}:"), why
    for mark in re.finditer(r"\s*#", line):
        yield _line_changed(lines, case.line, f"{line[: mark.start()]}:{line[mark.start() :]}"), why


def _brackets(case: Case, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    if not re.search(r"was never closed|incomplete input|unexpected EOF|forgot a comma|invalid syntax", case.message):
        return
    for number in dict.fromkeys((case.line, len("\n".join(lines).rstrip().split("\n")))):
        missing = _open_brackets("\n".join(lines[:number]))
        if missing:
            text = lines[number - 1].rstrip() + missing
            many = "brackets were" if len(missing) > 1 else "bracket was"
            yield _line_changed(lines, number, text), f"The closing {many} missing in line {number}: {code(missing)}."


def _open_brackets(text: str) -> str:
    """What would close the brackets that ``text`` leaves open; nothing when a string or a bracket is odd."""
    bare = re.sub(r"'''.*?'''|\"\"\".*?\"\"\"|'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"|#[^\n]*", "", text, flags=re.S)
    stack: list[str] = []
    for mark in re.findall(r"[()\[\]{}'\"]", bare):
        if mark in _CLOSING:
            stack.append(_CLOSING[mark])
        elif not stack or stack.pop() != mark:
            return ""
    return "".join(reversed(stack))


def _quote(case: Case, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    if not case.message.startswith("unterminated string literal"):
        return
    line = lines[case.line - 1].rstrip()
    for quote in sorted({mark for mark in line if mark in "'\""}, key=line.rindex, reverse=True):
        for end in range(len(line), len(line.rstrip(")]},:; ")) - 1, -1):
            text = f"{line[:end]}{quote}{line[end:]}"
            yield _line_changed(lines, case.line, text), f"A closing quote was missing in line {case.line}."


def _comparison(case: Case, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    single = list(re.finditer(r"(?<![=!<>:+\-*/%|&^@])=(?!=)", lines[case.line - 1]))
    if "instead of '='" in case.message and len(single) == 1:
        line, at = lines[case.line - 1], single[0].start()
        text = f"{line[:at]}={line[at:]}"
        yield _line_changed(lines, case.line, text), f"Line {case.line} assigns with {code('=')} where it compares."


def _print(case: Case, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    old = re.fullmatch(r"(\s*)print\s+(.+?)\s*", lines[case.line - 1])
    if "Missing parentheses in call to 'print'" in case.message and old:
        yield _line_changed(lines, case.line, f"{old[1]}print({old[2]})"), "print needs parentheses."
