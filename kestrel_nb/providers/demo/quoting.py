"""How the demo model repeats text of tools and people: as code, in few lines, never as Markdown."""

from __future__ import annotations

import re

MAX_LINES = 8  # of a result that an answer repeats; all of it stands in the tool's row
MAX_CHARS = 800
OUTPUT_LINES = 20  # of a command; as much is shown whole
OUTPUT_CHARS = 4000


def code(text: str) -> str:
    """``text`` as inline code, whatever backticks it holds, on one line and not too long."""
    line = re.sub(r"\s+", " ", text).strip()
    line = line if len(line) <= 120 else f"{line[:117]}..."
    longest = max((len(run) for run in re.findall(r"`+", line)), default=0)
    ticks, pad = "`" * (longest + 1), " " if longest else ""
    return f"{ticks}{pad}{line}{pad}{ticks}" if line else "an empty text"


def block(text: str, room: int = MAX_LINES, *, output: bool = False) -> str:
    """At most ``room`` lines of ``text`` as a code block, inside a fence that nothing in it can close.

    ``output``: it is that of a command, shown whole when short; of a longer one the last lines are shown too, as they
    tell how it ended.
    """
    lines = text.rstrip("\n").split("\n")
    whole = output and len(lines) <= OUTPUT_LINES and len(text) <= OUTPUT_CHARS
    tail = room // 2 if output and not whole and len(lines) > room else 0
    shown = lines if whole else _within(lines[: room - tail])
    if tail:
        last = _within(lines[-tail:])
        shown = [*shown, f"... {len(lines) - len(shown) - len(last):,} lines left out ...", *last]
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    left = 0 if tail else len(lines) - len(shown)
    rest = f"\n{left:,} more line{'s' if left != 1 else ''} in the tool's result." if left else ""
    return f"{fence}text\n" + "\n".join(shown) + f"\n{fence}{rest}"


def _within(lines: list[str]) -> list[str]:
    """The first of ``lines``, up to MAX_CHARS characters; at least a piece of one."""
    shown: list[str] = []
    for line in lines:
        if sum(map(len, shown)) + len(line) > MAX_CHARS:
            break
        shown.append(line)
    return shown or [lines[0][:MAX_CHARS] + " ..."]


def inline(text: str) -> str:
    """Text of a tool or a person as quoted prose: one paragraph, nothing in it is Markdown."""
    line = re.sub(r"\s+", " ", text).strip()
    return code(line) if len(line) <= 120 else f"\n\n{block(line)}\n\n"
