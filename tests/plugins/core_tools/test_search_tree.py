"""grep and glob on a tree of two thousand awkward files: what ripgrep and git say, with ripgrep on PATH and without."""

import json
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from search_trees import FOLDERS, grow

UTF16_WITHOUT_MARK, LATIN, BINARY, UTF32 = 4, 5, 6, 9  # kinds of files that ripgrep reads otherwise


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree")
    grow(root)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


@pytest.fixture(params=["with rg", "without rg"])
def searching(request: pytest.FixtureRequest, tree: Path, desk: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    assert shutil.which("rg"), "these tests need ripgrep"
    desk.root = tree
    if request.param == "without rg":
        monkeypatch.setenv("PATH", "/nonexistent")
    return desk


RG, GIT = shutil.which("rg") or "rg", shutil.which("git") or "git"


def found_by_ripgrep(root: Path, pattern: str, *options: str) -> list[tuple[str, int]]:
    """Path and number of each line."""
    command = [RG, "--no-config", "--no-ignore", "--crlf", "--json", "--sort=path", *options, "-e", pattern, "./"]
    output = subprocess.run(command, cwd=root, capture_output=True, check=False).stdout
    events = [json.loads(line) for line in output.split(b"\n") if line]
    found = [event["data"] for event in events if event["type"] == "match"]
    return [(data["path"].get("text", "")[2:], data["line_number"]) for data in found]


def kind(path: str) -> int:
    """Which content the file has; -1 for those of the tree that are not numbered."""
    name = path.rpartition("/")[2].lstrip(".-")
    digits = name[1:].split(".")[0].split(" ")[0]
    return int(digits) % 40 if name.startswith("f") and digits.isdigit() else -1


@pytest.mark.parametrize(
    "pattern",
    [
        *("needle_in", r"needle_in|KeyError: |time\.sl", r"[0-9]{4}-[0-9]{2}", r"\bself\b", "^$", "return$", r"^\s+\S"),
        *("(?i)NEEDLE", "(?i)kEY", "(await|import) .*self", "x = [0-9]", r"\[x\]|a\.b", "-- dash", "nothing like it"),
        *("x{400}", "^needle_in$", "[^ -~]", "日本", "stra.e", r"\w+Error", "na[ïi]ve", r"\d+ needle_in 3$"),
    ],
)
def test_grep_finds_what_ripgrep_finds(searching: Any, pattern: str) -> None:
    others = {UTF16_WITHOUT_MARK, BINARY, UTF32}
    if not pattern.isascii() or "." in pattern or "[^" in pattern:
        others.add(LATIN)
    wanted = [match for match in found_by_ripgrep(searching.root, pattern) if kind(match[0]) not in others and match[0]]
    data = searching.run("grep", pattern=pattern).data
    counts = {path: n for path, n in data["counts"].items() if kind(path) not in others and "\\x" not in path}
    assert counts == Counter(path for path, _ in wanted)
    assert {(path, line) for path, line, _ in data["rows"] if path in counts} <= set(wanted)
    assert len(data["rows"]) == min(150, data["total"])
    assert data["total"] == sum(data["counts"].values())
    assert BINARY not in map(kind, data["counts"])
    assert bool(data["total"]) == (pattern != "nothing like it")


def test_grep_with_and_without_ripgrep_gives_the_same(tree: Path, desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.root = tree
    calls: list[dict[str, Any]] = [
        {"pattern": "needle_in", "context": 2},
        {"pattern": "NEEDLE_in", "ignore_case": True, "glob": "*.md"},
        {"pattern": "needle", "glob": "**/.hid/**"},
        {"pattern": "needle", "glob": "src/**/*.{js,py}"},
        {"pattern": "plain needle_in latin"},
        {"pattern": "xn--|straße"},
        {"pattern": "self", "respect_gitignore": True, "counts": True},
        {"pattern": "^f|^n", "path": "src/deep"},
        {"pattern": r"\d needle_in [13]$", "context": 1, "path": "many.txt"},
    ]
    with_it = [desk.run("grep", **call) for call in calls]
    monkeypatch.setenv("PATH", "/nonexistent")
    without = [desk.run("grep", **call) for call in calls]
    assert with_it == without
    assert all(result.data["total"] for result in with_it[:5])


def listed_by_git(root: Path) -> list[str]:
    """The files that git does not ignore, without hidden ones and links, as tools show them."""
    command = [GIT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    output = subprocess.run(command, cwd=root, capture_output=True, check=True).stdout
    names = [os.fsdecode(name) for name in output.split(b"\0") if name]
    kept = [name for name in names if not (root / name).is_symlink() and not f"/{name}".count("/.")]
    return sorted(os.fsencode(name).decode("utf-8", "backslashreplace") for name in kept)


def test_glob_leaves_out_what_git_ignores(tree: Path, desk: Any) -> None:
    desk.root = tree
    wanted = listed_by_git(tree)
    everything = desk.run("glob", pattern="**/*").data["total"]
    result = desk.run("glob", pattern="**/*", respect_gitignore=True).data
    assert result["total"] == len(wanted)
    assert everything > result["total"] > 300
    assert len(result["rows"]) == 300
    for folder in FOLDERS:
        if folder.startswith(".") or folder.startswith(("build", "vendor")):
            continue
        for ending in ("py", "txt", "js", "md", "log", "tmp"):
            rows = desk.run("glob", pattern=f"*.{ending}", path=folder, respect_gitignore=True).data["rows"]
            here = [path for path in wanted if path.rpartition("/")[0] == folder and path.endswith(f".{ending}")]
            assert [path for path, _ in rows] == here, (folder, ending)


def test_grep_leaves_out_what_git_ignores(searching: Any) -> None:
    wanted = set(listed_by_git(searching.root))
    every = searching.run("grep", pattern="^", counts=True).data["counts"]
    kept = searching.run("grep", pattern="^", counts=True, respect_gitignore=True).data["counts"]
    assert set(kept) == set(every) & wanted
    assert 300 < len(kept) < len(every)
    below = searching.run("grep", pattern="^", counts=True, respect_gitignore=True, path="src/deep").data["counts"]
    assert below == {path: count for path, count in kept.items() if path.startswith("src/deep/")}


@pytest.mark.parametrize(
    "pattern", ["**/*.py", "src/**", "*/f1*", "**/f?0.{md,js}", "src/deep/er/*", "**/[!f]*", "-dash/*"]
)
def test_glob_gives_what_a_plain_walk_gives(tree: Path, desk: Any, pattern: str) -> None:
    from wcmatch import glob

    desk.root = tree
    flags = glob.GLOBSTAR | glob.BRACE | glob.EXTGLOB | glob.FORCEUNIX
    names = [
        str((Path(folder) / name).relative_to(tree))
        for folder, _, files in os.walk(tree)
        for name in files
        if not (Path(folder) / name).is_symlink()
    ]
    wanted = [name for name in names if glob.globmatch(name, pattern, flags=flags) and not f"/{name}".count("/.")]
    data = desk.run("glob", pattern=pattern).data
    assert data["total"] == len(wanted)
    assert {path for path, _ in data["rows"]} <= {os.fsencode(n).decode("utf-8", "backslashreplace") for n in wanted}
    sizes = {path: size for path, size in data["rows"] if "\\x" not in path}
    assert sizes == {path: (tree / path).stat().st_size for path in sizes}


def test_lines_around_matches_cross_the_borders_of_blocks(desk: Any) -> None:
    lines = [f"{number:07} {'hit' if number % 9_973 == 0 else 'miss'}" for number in range(1, 400_001)]
    desk.put("big", "\n".join(lines) + "\n")
    border = (1 << 20) // len("0000001 miss\n")  # the line that lies on the first border of blocks, about
    for near in (border - 1, border, border + 1):
        result = desk.run("grep", pattern=f"{near:07} miss", context=5)
        shown = result.content.split("\n")[1:]
        wanted = [
            f"big{':' if n == near else '-'}{n}{':' if n == near else '-'} {lines[n - 1]}"
            for n in range(near - 5, near + 6)
        ]
        assert shown == wanted
    many = desk.run("grep", pattern="hit", context=2)
    assert many.data["total"] == 40
    assert many.content.count("\n--\n") == 39
    assert len(many.content.split("\n")) == 1 + 40 * 5 + 39


RULES = [
    ["/*.x", "!/b.x"],
    ["\\*/", "!/*"],
    ["d/**", "!d/e"],
    ["**/e/", "[a-c]*"],
    ["*", "!d", "!d/**", "d/e/f"],
    ["sp ", "odd*[[]*", "x\\!", "\\#g"],
    ["sp\\ ", "[!a-z]*", "d/e"],
    ["/d/*/f", "e/#g", "a/", "[]x]!"],
]


@pytest.mark.parametrize("rules", RULES)
def test_rules_of_what_to_ignore_are_those_of_git(desk: Any, rules: list[str]) -> None:
    for path in ("a", "b.x", "d/c.x", "d/e/f", "d/e/#g", "odd [1]", "x!", "sp ", "*/a"):
        desk.put(path, "")
    desk.put(".gitignore", "\ufeff" + "\r\n".join(rules) + "\n")
    subprocess.run([GIT, "init", "-q"], cwd=desk.root, check=True)
    rows = desk.run("glob", pattern="**/*", respect_gitignore=True).data["rows"]
    assert [path for path, _ in rows] == listed_by_git(desk.root)
