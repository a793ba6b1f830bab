"""Unified diffs that stay quick for long files."""

from __future__ import annotations

import difflib
from collections import Counter

CONTEXT = 3
# Of the part that differs; beyond either the two parts are shown whole, one after the other.
MAX_LINES = 20_000
MAX_PAIRS = 300_000  # of equal lines: difflib looks at them again and again, which takes seconds with so many


def unified(name: str, old: str | None, new: str | None) -> tuple[str, int, int]:
    """The diff of one file, and how many lines it adds and removes. None stands for a binary text."""
    if old is None or new is None:
        return f"--- {name}\n+++ {name}\n(binary, the whole file is replaced)\n", 0, 0
    before, after = _lines(old), _lines(new)
    head = _same(before, after)
    tail = _same(before[head:][::-1], after[head:][::-1])
    start, rest = max(0, head - CONTEXT), max(0, tail - CONTEXT)
    hunks = _hunks(before[start : len(before) - rest], after[start : len(after) - rest], start)
    added = sum(line.startswith("+") for line in hunks)
    removed = sum(line.startswith("-") for line in hunks)
    lines = [f"--- {name}\n", f"+++ {name}\n", *hunks] if hunks else []
    return (
        "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines),
        added,
        removed,
    )


def _lines(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _same(one: list[str], two: list[str]) -> int:
    """How many lines the two have in common at their beginning."""
    count = 0
    for a, b in zip(one, two, strict=False):
        if a != b:
            break
        count += 1
    return count


def _hunks(before: list[str], after: list[str], start: int) -> list[str]:
    """Headers and lines of the hunks; ``start`` lines stand before both parts."""
    if before == after:
        return []
    if len(before) + len(after) > MAX_LINES or _pairs(before, after) > MAX_PAIRS:
        return [
            _header(start, len(before), start, len(after)),
            *(f"-{line}" for line in before),
            *(f"+{line}" for line in after),
        ]
    lines: list[str] = []
    for group in difflib.SequenceMatcher(None, before, after).get_grouped_opcodes(CONTEXT):
        first, last = group[0], group[-1]
        lines.append(_header(start + first[1], last[2] - first[1], start + first[3], last[4] - first[3]))
        for tag, a, a_end, b, b_end in group:
            if tag == "equal":
                lines += [f" {line}" for line in before[a:a_end]]
            else:
                lines += [f"-{line}" for line in before[a:a_end]] + [f"+{line}" for line in after[b:b_end]]
    return lines


def _pairs(before: list[str], after: list[str]) -> int:
    """How many pairs of equal lines difflib has to try; it leaves the most frequent lines of long texts aside."""
    counts = Counter(after)
    most = len(after) // 100 + 1 if len(after) >= 200 else len(after)
    return sum(count for line in before if (count := counts[line]) <= most)


def _header(old: int, old_count: int, new: int, new_count: int) -> str:
    return f"@@ -{_range(old, old_count)} +{_range(new, new_count)} @@\n"


def _range(start: int, count: int) -> str:
    """The range as diff writes it: an empty one names the line before it."""
    return f"{start + 1 if count else start},{count}" if count != 1 else f"{start + 1}"
