"""A tree of two thousand files that holds what searches stumble over; the same for each run."""

import os
import random
from pathlib import Path

FILES = 2_000
WORDS = [
    *(
        "await",
        "import os",
        "def run():",
        "return",
        "self",
        "naïve",
        "x = 1",
        "time.sleep(1)",
        "requests.get",
        "Needle",
    ),
    *("needle_in", "2024-03-01", "", "  ", "\t", "ſelf", "straße", "日本語", "KeyError: 'k'", "a.b", "[x]", "-- dash"),
]
FOLDERS = [
    "src",
    "src/deep/er",
    "docs",
    "docs/über",
    "build",
    "out",
    "with space",
    "-dash",
    "x\ny",
    "vendor/keep",
    ".hid",
]
RULES = {
    ".gitignore": "# rules\n*.log\n!keep.log\n/build/\nout/*\n!out/f*.md\nvendor/\n*.tmp\ndeep/**/*.js\n\\#odd\n",
    "src/.gitignore": "!f1*.log\n/f2*\n*.md\n",
    "src/deep/.gitignore": "er/\n!er/\n*.txt\n!f3*.txt\n",
    "docs/.gitignore": "**/*.py\n!f5*.py\n",
}
ENDINGS = ("py", "txt", "js", "md", "log", "tmp")


def grow(root: Path, files: int = FILES) -> None:
    """Files of many kinds, links, rules of what to ignore, and names with blanks, line feeds and dashes."""
    chance = random.Random(2024)
    for folder in FOLDERS:
        (root / folder).mkdir(parents=True, exist_ok=True)
    for path, rules in RULES.items():
        (root / path).write_text(rules)
    for number in range(files):
        folder = root / chance.choice(FOLDERS)
        prefix = "." if number % 53 == 0 else "-" if number % 59 == 0 else ""
        name = f"{prefix}f{number}{' b' if number % 31 == 0 else ''}.{chance.choice(ENDINGS)}"
        (folder / name).write_bytes(_content(number, chance))
    (root / "#odd").write_text("needle_in\n")
    (root / os.fsdecode(b"b\xff.txt")).write_text("needle_in\n")
    (root / "link.py").symlink_to("src")
    (root / "src/link.txt").symlink_to("../docs")
    (root / "dangling").symlink_to("nowhere")
    numbers = ((n, "needle_in" if n % 50 == 0 else "straw of a stack") for n in range(80_000))
    (root / "many.txt").write_text("".join(f"{n} {word} {n % 7}\n" for n, word in numbers))


def _content(number: int, chance: random.Random) -> bytes:
    lines = [" ".join(chance.choices(WORDS, k=chance.randrange(6))) for _ in range(chance.randrange(30))]
    end = "\r\n" if number % 5 == 0 else "\n"
    text = end.join(lines) + (end if number % 3 else "")
    kinds = {
        1: text.encode("utf-8-sig"),
        2: text.encode("utf-16"),
        3: b"\xfe\xff" + text.encode("utf-16-be"),
        4: "plain needle_in latin\nreturn 1\n".encode("utf-16-le"),
        5: text.encode("cp1252", "replace") + b"\xe9\xff\n",
        6: text.encode() + b"\0\1\2",
        7: b"",
        8: (text + "x" * 70_000 + " needle_in").encode(),
        9: text.encode("utf-32"),
    }
    return kinds.get(number % 40, text.encode())
