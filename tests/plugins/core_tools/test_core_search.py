"""glob and grep: exact counts beyond the caps, equal to the system's grep; never for ever; links and hidden names."""

import os
import random
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kestrel_nb.frames import to_frame
from kestrel_nb.plugins.core_tools.chunks import Chunk
from kestrel_nb.plugins.core_tools.grep import Grep
from kestrel_nb.plugins.core_tools.match import LineMatcher
from kestrel_nb.plugins.core_tools.needed import needed_texts
from kestrel_nb.protocol.errors import CancelledByUser, SandboxViolationError, ToolCallError

WORDS = [
    "await",
    "import os",
    "def f():",
    "return",
    "self",
    "naïve",
    "x=1",
    "time.sleep(1)",
    "requests.get",
    "",
    "  ",
    "\t",
]


def grow(root: Path, files: int = 60) -> None:
    """A tree of text files with and without a line feed at the end, empty ones, and blank lines."""
    chance = random.Random(7)
    for number in range(files):
        folder = root / f"d{number % 7}" / f"e{number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        lines = [" ".join(chance.choices(WORDS, k=chance.randrange(5))) for _ in range(chance.randrange(40))]
        end = "\n" if number % 3 else ""
        (folder / f"f{number}.{'py' if number % 2 else 'txt'}").write_text("\n".join(lines) + end)


def counts_of_grep(root: Path, pattern: str, *options: str) -> dict[str, int]:
    """What ``grep -c`` says of every file with a match."""
    command = ["grep", "-rcP", *options, "-e", pattern, "."]
    text = subprocess.run(command, cwd=root, capture_output=True, text=True, env={"LC_ALL": "C.UTF-8"}).stdout
    pairs = (line.removeprefix("./").rsplit(":", 1) for line in text.split("\n") if line)
    return {path: int(count) for path, count in pairs if count != "0"}


@pytest.mark.parametrize(
    "pattern",
    [
        "await",
        r"time\.sleep|requests\.",
        "^$",
        "^",
        r"^\s*def",
        r"\s+$",
        "[^a]+",
        "x(?!=1)",
        r"(?<!self )self",
        "na.ve",
        r"\bself\b.*return$",
        r"\Aimport",
        r"return\Z",
        r"\W\W",
        r"(?:self ){2}",
        r"\s",
        "=1?$",
        r"[\s=]+1",
        "a*",
        "(?i)SELF",
        r"[^\w]++self",
        ".",
    ],
)
def test_counts_are_those_of_grep(desk: Any, pattern: str) -> None:
    grow(desk.root)
    data = desk.run("grep", pattern=pattern).data
    wanted = counts_of_grep(desk.root, pattern)
    assert data["counts"] == wanted
    assert data["total"] == sum(wanted.values())
    assert len(data["rows"]) == min(150, data["total"])
    assert data["truncated"] == (data["total"] > 150)
    table = to_frame(desk.run("grep", pattern=pattern, counts=True).data)
    assert dict(zip(table["path"], table["count"], strict=True)) == wanted


def test_counts_with_options_are_those_of_grep(desk: Any) -> None:
    grow(desk.root)
    assert desk.run("grep", pattern="SELF", ignore_case=True).data["counts"] == counts_of_grep(desk.root, "SELF", "-i")
    only = desk.run("grep", pattern="self", glob="*.py").data["counts"]
    assert only == counts_of_grep(desk.root, "self", "--include=*.py")
    below = desk.run("grep", pattern="self", path="d1").data["counts"]
    assert below == {k: v for k, v in counts_of_grep(desk.root, "self").items() if k.startswith("d1/")}
    one = next(iter(only))
    assert desk.run("grep", pattern="self", path=one).data["counts"] == {one: only[one]}
    for pattern in ("d1/**/*.py", "**/d1/**/*.py"):
        assert set(desk.run("grep", pattern="self", glob=pattern).data["counts"]) == {k for k in only if k[:2] == "d1"}


PARTS = [
    *("a", "b", ".", "[^a]", r"\s", r"\W", r"\S", "^", "$", "a*", "(a|b)", "(?!a)", "(?<=a)", "b+", r"\b", "(?>a*)"),
    *("(?=$)", r"\B", "[^b]*+", "a{1,2}", r"\Z", r"\A", "|", r"\n", "(?s:.)", "(?P<n>a)", "[ab]+?", r"\D"),
]


def lines_alone(pattern: str, text: str) -> list[int]:
    """The slow and plain way: each line by itself."""
    import regex

    lines = text.split("\n")
    lines = lines[:-1] if lines[-1] == "" else lines
    return [number for number, line in enumerate(lines, 1) if regex.search(pattern, line)]


@given(
    st.lists(
        st.sampled_from(PARTS),
        min_size=1,
        max_size=5,
    ),
    st.text("ab \n", max_size=24),
)
@example(["[^a]"], "b\n\nb\nb")
@example(["$"], "\n\n")
@example([r"\s", "a"], "b \na\n a\n")
@settings(max_examples=600, deadline=None)
def test_leaping_finds_what_looking_at_each_line_finds(parts: list[str], text: str) -> None:
    pattern = "".join(parts)
    try:
        matcher = LineMatcher(pattern)
    except ToolCallError:
        return
    found = list(matcher.matching(text))
    assert [number for number, _, _ in found] == lines_alone(pattern, text)
    assert all("\n" not in text[start:end] for _, start, end in found)
    assert not found or matcher.may_match(Chunk(text.encode(), 1))


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("await", [b"await"]),
        (r"time\.sleep", [b"time.sleep"]),
        (r"time\.sleep|requests\.", [b"time.sleep", b"requests."]),
        (r"\bdef main\b", [b"def main"]),
        ("colou?r", [b"colo"]),
        ("ab*c", [b"a"]),
        ("x{2,3}yy", [b"yy"]),
        (r"needle_[0-9]+\(", [b"needle_"]),
        (r"[\]a]b(c|d[)]\))ee?", [b"b"]),
        ("[]x]yz", [b"yz"]),
        ("[[:alpha:]]yz", [b"yz"]),
        ("(abc)?d", [b"d"]),
        ("a|", None),
        ("a|[b]", None),
        ("[ab]", None),
        ("(abc)", None),
        ("(?i)abc", None),
        ("abc(?i:d)", None),
        (r"\x41", None),
        ("naïve", None),
        (".*", None),
        ("a{", None),
        ("(a", None),
    ],
)
def test_needed_texts(pattern: str, texts: list[bytes] | None) -> None:
    assert needed_texts(pattern) == texts


def test_matches_and_their_text(desk: Any) -> None:
    desk.put("src/a.py", "one\ntwo await\nthree\nfour await\n")
    desk.put("b.py", "await\r\nnothing\r\n")
    result = desk.run("grep", pattern="await$")
    assert result.content == "3 matches in 2 files\nb.py:1: await\nsrc/a.py:2: two await\nsrc/a.py:4: four await"
    frame = to_frame(result.data)
    assert frame.columns.tolist() == ["path", "line", "text"]
    assert frame.iloc[2].tolist() == ["src/a.py", 4, "four await"]
    none = desk.run("grep", pattern="nowhere")
    assert none.content == "no matches"
    assert to_frame(none.data).columns.tolist() == ["path", "line", "text"]
    counts = desk.run("grep", pattern="await", counts=True)
    assert counts.content == "3 matches in 2 files\nb.py: 1\nsrc/a.py: 2"


def test_context(desk: Any) -> None:
    desk.put("a", "".join(f"{n}\n" for n in range(1, 21)))
    desk.put("b", "x5\n")
    result = desk.run("grep", pattern="5$", context=1)
    assert result.content == (
        "3 matches in 2 files\na-4- 4\na:5: 5\na-6- 6\n--\na-14- 14\na:15: 15\na-16- 16\n--\nb:1: x5"
    )
    near = desk.run("grep", pattern="^[56]$", context=1, path="a")
    assert near.content == "2 matches in 1 file\na-4- 4\na:5: 5\na:6: 6\na-7- 7"


def test_caps_say_what_they_leave_out(desk: Any) -> None:
    desk.put("f", "hit\n" * 1000)
    desk.put("long", "hit" + "x" * 5000)
    result = desk.run("grep", pattern="hit")
    assert result.content.startswith("1,001 matches in 2 files, the first 150 shown; narrow the search")
    assert len(result.content.split("\n")) == 151
    assert result.data["counts"] == {"f": 1000, "long": 1}
    few = desk.run("grep", pattern="hit", max_results=2, path="long")
    assert few.content.endswith("[+4,703 characters]")
    assert len(few.data["rows"][0][2]) == 2000
    assert len(desk.run("grep", pattern="hit", max_results=9999).data["rows"]) == 150


def test_files_larger_than_a_block_are_counted_exactly(desk: Any) -> None:
    line = "some words and a number {}\n"
    text = "".join(line.format(n) for n in range(260_000)) + "last number 7 without an end"
    desk.put("big.log", text)
    result = desk.run("grep", pattern=r"number \d*7\b")
    assert len(text) > 6_000_000
    assert result.data["total"] == 26_001
    assert result.data["rows"][:2] == [
        ["big.log", 8, "some words and a number 7"],
        ["big.log", 18, line.format(17)[:-1]],
    ]
    last = desk.run("grep", pattern="^last")
    assert last.data["rows"] == [["big.log", 260_001, "last number 7 without an end"]]


def test_hidden_git_binary_and_linked_files_are_passed_over(desk: Any) -> None:
    for path in ("a", ".hidden", ".git/config", ".github/w.yml", "sub/.x/f"):
        desk.put(path, "needle\n")
    desk.put("bin", b"needle\n\0\1\2")
    desk.put("late", b"needle\n" * 5000 + b"\0")
    (desk.root / "link").symlink_to("a")
    (desk.root / "loop").symlink_to(".")
    os.mkfifo(desk.root / "pipe")
    assert desk.run("grep", pattern="needle").data["counts"] == {"a": 1}
    assert desk.run("grep", pattern="needle", path=".github").data["counts"] == {".github/w.yml": 1}
    assert desk.run("grep", pattern="needle", glob="**/.github/*").data["counts"] == {".github/w.yml": 1}
    assert desk.run("grep", pattern="needle", path=".hidden").data["counts"] == {".hidden": 1}
    assert desk.run("grep", pattern="needle", path="link").data["counts"] == {"a": 1}


NO_PATTERNS = [
    *("(", "[", "a**", "(?P<x", "\\", "*", "(?<=a*)b{", "[unclosed", "(?P<x>a)(?P<x>b)", "(?<x>a)|(?P<x>b)"),
    *("a{99999999999}", "[z-a]", ")", "(?<n", "(?P=x)", r"\1"),
]


@pytest.mark.parametrize("pattern", NO_PATTERNS)
def test_patterns_that_are_none(desk: Any, pattern: str) -> None:
    desk.put("a", "aaa b{\n")
    try:
        desk.run("grep", pattern=pattern)
        assert pattern == "(?<=a*)b{"
    except ToolCallError as error:
        assert str(error).startswith("invalid regex: ")  # noqa: PT017
        assert error.code == "invalid_pattern"  # noqa: PT017


@pytest.mark.parametrize("pattern", [r"(a|aa)+b", r"(a*)*b", r"^(\w+\s?)*$", r"(?:a+)+[^a]c"])
def test_t05_a_catastrophic_pattern_ends_and_other_threads_run(desk: Any, pattern: str) -> None:
    desk.put("evil", "a" * 60 + "!\n")
    gaps: list[float] = []
    stop = threading.Event()

    def beat() -> None:
        last = time.monotonic()
        while not stop.is_set():
            time.sleep(0.01)
            gaps.append(time.monotonic() - last)
            last = time.monotonic()

    heart = threading.Thread(target=beat)
    heart.start()
    started = time.monotonic()
    try:
        desk.run("grep", pattern=pattern)
    except ToolCallError as error:
        assert error.code == "pattern_too_slow"  # noqa: PT017
    finally:
        stop.set()
        heart.join()
    assert time.monotonic() - started < 40
    assert max(gaps, default=0) < 1


def test_a_search_of_many_slow_lines_stops_and_says_so(desk: Any) -> None:
    desk.put("slow", "start\n" + ("a" * 24 + "!\n") * 3000)
    result = Grep(desk.settings, total_s=1).execute({"pattern": r"^start\Z|(a|aa)+\Z"}, desk.context())
    assert result.data["complete"] is False
    assert result.data["counts"] == {"slow": 1}
    assert "stopped after 1 s, so this is not all" in result.content


def test_a_search_ends_when_it_is_cancelled_meanwhile(desk: Any) -> None:
    desk.put("slow", ("a" * 24 + "!\n") * 3000)
    threading.Timer(0.3, desk.signal.cancel).start()
    with pytest.raises(CancelledByUser):
        desk.run("grep", pattern=r"(a|aa)+\Z")


def test_a_cancelled_search_ends(desk: Any) -> None:
    grow(desk.root)
    desk.signal.cancel()
    for name, args in (("grep", {"pattern": "a"}), ("glob", {"pattern": "**"})):
        with pytest.raises(CancelledByUser):
            desk.run(name, **args)


def test_a_folder_that_may_not_be_read_or_vanishes(desk: Any) -> None:
    desk.put("a/f", "x")
    desk.put("gone/f", "x")
    (desk.root / "gone/f").unlink()
    (desk.root / "gone").rmdir()
    assert desk.run("grep", pattern="x").data["counts"] == {"a/f": 1}
    with pytest.raises(ToolCallError, match="File not found: gone"):
        desk.run("grep", pattern="x", path="gone")


# ---- glob -------------------------------------------------------------------------------------------------------


@pytest.fixture
def tree(desk: Any) -> Any:
    for path in ("a.py", "b.js", "src/c.py", "src/d.ts", "src/deep/e.py", ".hidden.py", ".github/w.yml", ".git/x.py"):
        desk.put(path, path)
    desk.put("src/[odd] name.py", "x")
    (desk.root / "inside").symlink_to("src/c.py")
    (desk.root / "outside").symlink_to("/etc/hostname")
    (desk.root / "folder").symlink_to("src")
    return desk


@pytest.mark.parametrize(
    ("args", "paths"),
    [
        ({"pattern": "*.py"}, ["a.py"]),
        ({"pattern": "**/*.py"}, ["a.py", "src/[odd] name.py", "src/c.py", "src/deep/e.py"]),
        ({"pattern": "**/*.{js,ts}"}, ["b.js", "src/d.ts"]),
        ({"pattern": "src/*"}, ["src/[odd] name.py", "src/c.py", "src/d.ts"]),
        ({"pattern": "./src/*.ts"}, ["src/d.ts"]),
        ({"pattern": "*.ts", "path": "src"}, ["src/d.ts"]),
        ({"pattern": "**/[ce].py"}, ["src/c.py", "src/deep/e.py"]),
        ({"pattern": "src/?.*"}, ["src/c.py", "src/d.ts"]),
        ({"pattern": "**/@(c|e).py"}, ["src/c.py", "src/deep/e.py"]),
        ({"pattern": ".*"}, [".hidden.py"]),
        ({"pattern": ".github/**"}, [".github/w.yml"]),
        ({"pattern": "**/"}, ["src/", "src/deep/"]),
        ({"pattern": "*/"}, ["src/"]),
        ({"pattern": "inside"}, ["inside"]),
        ({"pattern": "outside"}, []),
        ({"pattern": "folder/*"}, []),
        ({"pattern": "src/\\[odd\\]*"}, ["src/[odd] name.py"]),
        ({"pattern": "nothing*"}, []),
    ],
)
def test_patterns(tree: Any, args: dict[str, str], paths: list[str]) -> None:
    result = tree.run("glob", **args)
    assert [path for path, _ in result.data["rows"]] == paths
    assert result.data["total"] == len(paths)
    assert to_frame(result.data).columns.tolist() == ["path", "size"]


def test_an_absolute_pattern_inside_the_workspace(tree: Any) -> None:
    assert tree.run("glob", pattern=f"{tree.root}/src/*.ts").data["rows"] == [["src/d.ts", 8]]


@pytest.mark.parametrize("pattern", ["../*", "a/../../**", "/etc/*", "{..,src}/*", "**/../*", "src/.."])
def test_patterns_that_lead_outside(tree: Any, pattern: str) -> None:
    with pytest.raises(SandboxViolationError):
        tree.run("glob", pattern=pattern)
    with pytest.raises(SandboxViolationError):
        tree.run("grep", pattern="x", glob=pattern)


@pytest.mark.parametrize(
    "pattern", ["{1..5000000}", "**/" * 30 + "x", "*a" * 40 + "b", "[[:nope:]]", "[z-a]", "{", "[", "\\"]
)
def test_odd_patterns_end(desk: Any, pattern: str) -> None:
    desk.put("a" * 200, "")
    desk.put("/".join("a" * 20), "")
    started = time.monotonic()
    try:
        desk.run("glob", pattern=pattern)
    except ToolCallError as error:
        assert str(error).startswith("pattern")  # noqa: PT017
    assert time.monotonic() - started < 30


def test_the_cap_states_the_exact_total(desk: Any) -> None:
    for number in range(1234):
        desk.put(f"d{number % 5}/f{number:04}", "")
    result = desk.run("glob", pattern="**/f*")
    assert result.content.startswith("1,234 files, the first 300 shown; make the pattern narrower\n")
    assert (len(result.data["rows"]), result.data["total"], result.data["truncated"]) == (300, 1234, True)
    assert desk.run("glob", pattern="nope").content == "no files match"


def test_gitignore(desk: Any) -> None:
    desk.put(".gitignore", "*.log\n/build/\n!keep.log\n# note\n")
    desk.put("sub/.gitignore", "!other.log\nlocal.txt\n")
    for path in ("a.log", "keep.log", "build/x.py", "sub/build/y.py", "sub/other.log", "sub/local.txt", "local.txt"):
        desk.put(path, "")
    subprocess.run(["git", "init", "-q"], cwd=desk.root, check=True)
    listed = subprocess.run(
        ["git", "ls-files", "-oc", "--exclude-standard"], cwd=desk.root, capture_output=True, text=True, check=True
    )
    wanted = sorted(path for path in listed.stdout.split() if not path.endswith(".gitignore"))
    everything = desk.run("glob", pattern="**/*").data["total"]
    kept = desk.run("glob", pattern="**/*", respect_gitignore=True).data["rows"]
    assert [path for path, _ in kept] == wanted
    assert everything == 7
    below = desk.run("glob", pattern="*", path="sub", respect_gitignore=True).data["rows"]
    assert [path for path, _ in below] == ["sub/other.log"]


def test_without_confinement_a_search_may_start_outside(make_desk: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/f.txt").write_text("needle\n")
    desk = make_desk(restrict_to_workspace=False)
    path = str(tmp_path / "other")
    assert desk.run("glob", pattern="*.txt", path=path).data["rows"] == [[f"{path}/f.txt", 7]]
    assert desk.run("grep", pattern="needle", path=path).data["counts"] == {f"{path}/f.txt": 1}
