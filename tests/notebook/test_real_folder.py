"""The request of the README on a real folder: this repository itself, against ``grep``."""

import shutil
import subprocess
from pathlib import Path

from kestrel_nb import Kestrel
from kestrel_nb.frames import to_frame

ROOT = Path(__file__).parents[2]


def grep_counts(folder: Path) -> dict[str, int]:
    """Lines with ``await`` by file, as grep counts them; files without one are left out."""
    words = ["grep", "-rc", "await", "--include=*.py", "."]
    lines = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True).stdout.splitlines()
    counts = {path.removeprefix("./"): int(count) for path, _, count in (line.rpartition(":") for line in lines)}
    return {path: count for path, count in counts.items() if count}


async def test_counts_of_the_frame_equal_grep_c(tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    for name in ("kestrel_nb", "tests", "benchmarks"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    async with Kestrel(workspace=folder) as app:
        result = await app.ask("list the Python files and count the lines that contain 'await'")
    frame = to_frame(result.tool_data["grep"][-1])
    counted = dict(zip(frame["path"], frame["count"], strict=True))
    expected = grep_counts(folder)
    assert counted == expected
    assert len(expected) > 20
    listed = set(to_frame(result.tool_data["glob"][-1])["path"])
    there = {str(path.relative_to(folder)) for path in folder.rglob("*.py")}
    assert listed <= there
    assert len(listed) == min(len(there), 300)  # so many does glob list
    assert str(sum(expected.values())) in result.text.replace(",", "")
