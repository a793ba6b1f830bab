"""What grep and glob cost on 20,000 files of 200 MB, beside ripgrep, GNU grep and plain Python.

    python benchmarks/search.py [FOLDER]    FOLDER keeps the tree for the next time; default: a temporary one

CPU seconds (user and system, of children too) and wall seconds. The contestants take turns, so that a busy moment of
the machine meets all of them; printed are the best of a few rounds, after the files were read once, and ratios to the
first one of each group. It takes two or three minutes.
"""

import fnmatch
import logging
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kestrel_nb.plugins.core_tools.grep import Grep
from kestrel_nb.plugins.core_tools.search import Glob
from kestrel_nb.plugins.core_tools.settings import CoreSettings
from kestrel_nb.runtime.signals import CancelSignal
from kestrel_nb.runtime.tools import ToolContext

ROUNDS, GLOB_ROUNDS = 2, 15  # a glob is over in an instant
FILES, FOLDERS, SIZE = 20_000, 1_000, 10_000
NEEDLE = "needle_in_the_stack"
PATTERNS = {
    "rare literal": (NEEDLE, False),
    "frequent word": ("return", False),
    "class": (r"[0-9]{4}-[0-9]{2}-[0-9]{2}", False),
    "ignoring case": ("NEEDLE_in_the_STACK", True),
    "no match": ("nowhere_to_be_found", False),
    "alternation": (r"needle_in|haystack_of\(|pitchfork", False),
}


def grow(root: Path) -> None:
    """The tree, always the same: source-like lines, a needle in every 400th file, a date in every 40th."""
    chance = random.Random(42)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz_", k=chance.randrange(2, 12))) for _ in range(3000)]
    lines = [
        f"{'    ' * chance.randrange(4)}{' '.join(chance.choices(words, k=chance.randrange(1, 12)))}"
        for _ in range(20_000)
    ]
    lines += [f"    return {word}({number})" for number, word in enumerate(words[:500])]
    blocks = ["\n".join(chance.choices(lines, k=60)) + "\n" for _ in range(800)]
    for number in range(FILES):
        folder = root / f"pkg{number % 10}" / f"mod{number % FOLDERS // 10}"
        folder.mkdir(parents=True, exist_ok=True)
        text = ""
        while len(text) < SIZE:
            text += chance.choice(blocks)
        text += f"{NEEDLE} = {number}\n" if number % 400 == 7 else ""
        text += "# since 2024-03-01\n" if number % 40 == 3 else ""
        (folder / f"file_{number}.{('py', 'txt', 'js', 'md')[number % 4]}").write_text(text)
    (root / ".complete").touch()


class Bench:
    """The contestants on one tree."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def command(self, *args: str) -> Callable[[], int]:
        """A program whose output lines are counted."""
        return lambda: subprocess.run(args, cwd=self.root, stdout=subprocess.PIPE, check=False).stdout.count(b"\n")

    def grep(self, pattern: str, ignore_case: bool, *, with_rg: bool) -> Callable[[], int]:
        """Our own, with ripgrep on PATH or not."""
        args = {"pattern": pattern, "ignore_case": ignore_case}
        return lambda: self._tool(Grep(CoreSettings()), args, with_rg)

    def glob(self, pattern: str) -> Callable[[], int]:
        """Our own."""
        return lambda: self._tool(Glob(CoreSettings()), {"pattern": pattern}, True)

    def _tool(self, tool: Any, args: Mapping[str, Any], with_rg: bool) -> int:
        session: Any = SimpleNamespace(workspace=str(self.root), id="s", messages=(), metadata={})
        context = ToolContext(session=session, call_id="c", signal=CancelSignal(), logger=logging.getLogger("bench"))
        path = os.environ["PATH"]
        os.environ["PATH"] = path if with_rg else ""
        try:
            return int(tool.execute(args, context).data["total"])
        finally:
            os.environ["PATH"] = path

    def python_bytes(self, pattern: str, ignore_case: bool) -> Callable[[], int]:
        """Plain Python: each file whole, as bytes, one regular expression; no rule of ours is kept."""
        compiled = re.compile(pattern.encode(), re.IGNORECASE if ignore_case else 0)
        return lambda: sum(
            len({data.rfind(b"\n", 0, found.start()) for found in compiled.finditer(data)})
            for data in (path.read_bytes() for path in walk(self.root))
        )


def walk(folder: str | os.PathLike[str]) -> list[Path]:
    """Every file below, by scandir."""
    found: list[Path] = []
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            found += walk(entry.path)
        elif not entry.name.startswith("."):
            found.append(Path(entry.path))
    return found


def count_paths(root: Path, pattern: str) -> int:
    """How many files below fit: by scandir, and one compiled expression that is asked about each path."""
    fits = re.compile(fnmatch.translate(pattern)).match
    count, waiting = 0, [str(root)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False) and fits(entry.path):
                    count += 1
    return count


def cpu_seconds() -> float:
    """Of this process and of the children that have ended."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def measured(act: Callable[[], int]) -> tuple[float, float, int]:
    """CPU seconds, wall seconds, and what came out."""
    before, start = cpu_seconds(), time.perf_counter()
    found = act()
    return cpu_seconds() - before, time.perf_counter() - start, found


def race(title: str, contestants: Mapping[str, Callable[[], int]], rounds: int = ROUNDS) -> None:
    """Run all in turns and print one table."""
    taken: dict[str, list[tuple[float, float, int]]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, act in contestants.items():
            taken[name].append(measured(act))
    print(f"\n{title:36}{'CPU s':>8}{'wall s':>8}{'ratio':>8}{'wall':>8}{'found':>9}")
    base_cpu = base_wall = 0.0
    for name, runs in taken.items():
        cpu, wall = (min(run[n] for run in runs) for n in (0, 1))
        base_cpu, base_wall = base_cpu or cpu, base_wall or wall
        print(
            f"  {name:34}{cpu:8.3f}{wall:8.3f}{cpu / base_cpu:7.2f}x{wall / base_wall:7.2f}x{runs[0][2]:9,}", flush=True
        )


def globs(bench: Bench, name: str) -> dict[str, Callable[[], int]]:
    """The contestants that find names."""
    return {
        "scandir and compiled match": lambda: count_paths(bench.root, f"*/{name}"),
        "rg --files": bench.command("rg", "--no-config", "--no-ignore", "--files", "-g", name, "./"),
        "pathlib": lambda: sum(1 for path in bench.root.rglob(name) if path.is_file()),
        "ours": bench.glob(f"**/{name}"),
    }


def main(root: Path) -> None:
    if not (root / ".complete").exists():
        grow(root)
    bench = Bench(root)
    bench.python_bytes(NEEDLE, False)()
    for title, (pattern, ignore_case) in PATTERNS.items():
        case = ["-i"] if ignore_case else []
        race(
            f"grep, {title}",
            {
                "rg": bench.command("rg", "--no-config", "--no-ignore", "-n", *case, "-e", pattern, "./"),
                "GNU grep": bench.command("grep", "-rnE", *case, "-e", pattern, "."),
                "Python bytes": bench.python_bytes(pattern, ignore_case),
                "ours, no rg on PATH": bench.grep(pattern, ignore_case, with_rg=False),
                "ours, with rg": bench.grep(pattern, ignore_case, with_rg=True),
            },
        )
    for name in ("*.py", "file_*7*.[jp]*"):
        race(f"glob, **/{name}", globs(bench, name), GLOB_ROUNDS)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
