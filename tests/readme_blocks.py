"""The runnable blocks of a Markdown file, and a small program that runs its Python blocks as a script."""

import ast
import asyncio
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,}|~{3,})(?P<language>[\w-]*)")
NOT_RUN = re.compile(r"<!--\s*not run:\s*\S.*-->")
CELL_STARTS = ("%%kestrel", "%kestrel", "%load_ext", "%unload_ext")


@dataclass
class Block:
    """One fenced block: its first line's number in the file, and whether it asks not to be run."""

    line: int
    language: str
    text: str
    section: int
    not_run: bool

    @property
    def is_cell(self) -> bool:
        """Whether it is a notebook cell with a magic of ours."""
        return self.text.lstrip().startswith(CELL_STARTS)


def blocks_of(markdown: str) -> Iterator[Block]:
    """All fenced blocks in order. A block is not run when the line before it is ``<!-- not run: reason -->``."""
    lines, section, before = markdown.splitlines(), 0, ""
    at = 0
    while at < len(lines):
        opening = FENCE.match(lines[at])
        if opening is None:
            section += lines[at].startswith("#")
            before = lines[at] if lines[at].strip() else before
            at += 1
            continue
        start = at = at + 1
        while at < len(lines) and not lines[at].strip().startswith(opening["ticks"]):
            at += 1
        text = "\n".join(line.removeprefix(opening["indent"]) for line in lines[start:at])
        yield Block(start + 1, opening["language"], text, section, bool(NOT_RUN.search(before)))
        before, at = "", at + 1


def split(markdown: str) -> tuple[list[Block], list[Block]]:
    """Blocks for a script, and blocks for a notebook: in a section that shows a cell, Python is a cell as well."""
    runnable = [b for b in blocks_of(markdown) if not b.not_run and (b.is_cell or b.language in ("python", "py"))]
    with_cells = {block.section for block in runnable if block.is_cell}
    return (
        [block for block in runnable if block.section not in with_cells],
        [block for block in runnable if block.section in with_cells],
    )


def run_block(line: int, text: str, namespace: dict[str, Any], runner: asyncio.Runner) -> None:
    """Run one block; ``await`` at its top level works. Line numbers in tracebacks are those of the file."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile("\n" * (line - 1) + text, "README.md", "exec", flags=flags, dont_inherit=True)
    result = eval(code, namespace)
    if asyncio.iscoroutine(result):
        runner.run(result)


def main() -> None:
    """Run the blocks given as JSON on standard input, in order, in one namespace."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with asyncio.Runner() as runner:
        for line, text in json.loads(sys.stdin.read()):
            run_block(line, text, namespace, runner)


def readme() -> Path:
    """The file of this checkout."""
    return Path(__file__).resolve().parents[1] / "README.md"


if __name__ == "__main__":
    main()
