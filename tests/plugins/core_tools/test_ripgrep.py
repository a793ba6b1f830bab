"""ripgrep only advises: with it, without it, with a broken or lying one grep finds the same, and it ends in time."""

import logging
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kestrel_nb.plugins.core_tools.approximate import approximation, wide_approximation
from kestrel_nb.plugins.core_tools.grep import Grep
from kestrel_nb.plugins.core_tools.ripgrep import find_ripgrep
from kestrel_nb.plugins.core_tools.settings import CoreSettings
from kestrel_nb.protocol.errors import CancelledByUser, ToolCallError
from kestrel_nb.runtime.signals import CancelSignal
from kestrel_nb.runtime.tools import ToolContext, ToolExecutionResult

REAL = shutil.which("rg")


def test_ripgrep_is_here() -> None:
    assert REAL


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Puts a shell script called rg on PATH, the only program there; it notes each call in a file."""

    def make(script: str, folder: Path | None = None) -> Path:
        place = folder or tmp_path / "bin"
        place.mkdir(parents=True, exist_ok=True)
        calls = tmp_path / "calls"
        (place / "rg").write_text(f'#!/bin/sh\necho "$@" >> "{calls}"\n{script}\n')
        (place / "rg").chmod(0o755)
        monkeypatch.setenv("PATH", str(place))
        return calls

    return make


def fill(desk: Any, files: int = 40) -> None:
    for number in range(files):
        desk.put(f"d{number % 4}/f{number:02}.txt", "needle\nother\n" if number % 8 == 3 else "other\n")


def search(desk: Any, **args: Any) -> ToolExecutionResult:
    """grep that asks ripgrep from the first file on."""
    options = {name: args.pop(name) for name in ("total_s", "alone_files") if name in args}
    options.setdefault("alone_files", 0)
    result = Grep(desk.settings, **options).execute({"pattern": "needle", **args}, desk.context())
    assert isinstance(result, ToolExecutionResult)
    return result


def test_it_is_asked_once_in_a_large_tree_and_never_in_a_small_one(desk: Any, program: Callable[..., Path]) -> None:
    calls = program(f'exec {REAL} "$@"')
    fill(desk)
    assert search(desk, alone_files=40).data["total"] == 5
    assert not calls.exists()
    assert search(desk, alone_files=39).data["total"] == 5
    assert len(calls.read_text().splitlines()) == 1
    assert search(desk).data["total"] == 5
    assert len(calls.read_text().splitlines()) == 2


def test_it_is_not_asked_what_it_cannot_tell(desk: Any, program: Callable[..., Path]) -> None:
    calls = program(f'exec {REAL} "$@"')
    fill(desk)
    for pattern in ("", ".*", "(?=other)|needle$", r"(\w)\1", "^", "$"):
        search(desk, pattern=pattern or "x*")
    search(desk, pattern="other", alone_files=10)  # most files match
    search(desk, path="d0/f00.txt")
    assert not calls.exists()


@pytest.mark.parametrize(
    "script",
    [
        "exit 2",
        "echo 'error: unrecognized option' >&2; exit 2",
        "echo 'rg: ./d0: Is a directory (os error 21)' >&2; exit 2",
        "kill -9 $$",
        "exit 127",
        "printf 'd3/f03.txt\\0'",
        "printf './d3/f03.txt'",
        "/usr/bin/head -c 100000 /dev/urandom",
        "echo warning >&2; exit 0",
    ],
)
def test_one_that_fails_leaves_the_search_to_us(desk: Any, program: Callable[..., Path], script: str) -> None:
    fill(desk)
    calls = program(script)
    assert search(desk).data["total"] == 5
    assert calls.exists()


def test_files_that_may_not_be_read_do_not_end_its_advice(desk: Any, program: Callable[..., Path]) -> None:
    fill(desk)
    program("printf './d3/f03.txt\\0./d0/gone\\0'; echo 'rg: ./x: Permission denied (os error 13)' >&2; exit 2")
    assert search(desk).data["counts"] == {"d3/f03.txt": 1}


def test_one_that_is_not_there_or_no_program(desk: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(desk)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/rg").write_text("no program")
    (tmp_path / "bin/rg").chmod(0o755)
    for path in ("", "/nonexistent", str(tmp_path / "bin")):
        monkeypatch.setenv("PATH", path)
        assert search(desk).data["total"] == 5
    monkeypatch.delenv("PATH")
    assert search(desk).data["total"] == 5


def test_one_in_the_workspace_is_never_run(
    desk: Any, program: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(desk)
    calls = program("exit 1", desk.root / "bin")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/rg").symlink_to(desk.root / "bin/rg")
    (tmp_path / "linked").symlink_to(desk.root / "bin")
    monkeypatch.chdir(desk.root)
    for path in (desk.root / "bin", tmp_path / "elsewhere", tmp_path / "linked", "bin", "./bin", "", "."):
        monkeypatch.setenv("PATH", str(path))
        assert find_ripgrep(desk.root) is None
        assert search(desk).data["total"] == 5
    assert not calls.exists()


def test_what_it_names_is_looked_up_as_every_file_is(desk: Any, program: Callable[..., Path], tmp_path: Path) -> None:
    fill(desk)
    (tmp_path / "secret").write_text("needle outside\n")
    (desk.root / "d0/link.txt").symlink_to(tmp_path / "secret")
    (desk.root / "away").symlink_to(tmp_path)
    desk.put(".hidden/f", "needle\n")
    desk.put(".git/f", "needle\n")
    os.mkfifo(desk.root / "d0/pipe")
    names = [
        "../secret",
        "d0/link.txt",
        "away/secret",
        ".hidden/f",
        ".git/f",
        "d0/pipe",
        "d0",
        str(tmp_path / "secret"),
    ]
    program("".join(f"printf './{name}\\0'\n" for name in [*names, "d3/f03.txt"]))
    result = search(desk)
    assert result.data["counts"] == {"d3/f03.txt": 1}
    assert "outside" not in result.content


def test_settings_of_the_person_do_not_reach_it(desk: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(desk)
    (tmp_path / "config").write_text("--glob=!*.txt\n--smart-case\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "config"))
    desk.put(".ignore", "*.txt\n")
    desk.put(".gitignore", "*.txt\n")
    assert search(desk).data["total"] == 5


def test_names_of_every_kind(desk: Any) -> None:
    fill(desk)
    names = ["-e", "a\nb", "x y/z w", "ü/日本", "--pre=sh", "#x", "a\\b", "e'\"$(x)"]
    for name in names:
        desk.put(name, "needle\n")
    Path(os.fsdecode(os.fsencode(desk.root) + b"/l\xff")).write_text("needle\n")
    found = search(desk, counts=True).data["counts"]
    assert {*names, "l\\xff"} < set(found)
    assert len(found) == 5 + len(names) + 1


@pytest.mark.parametrize("ending", ["sleep 60", "trap '' TERM INT HUP; while :; do sleep 0.1; done"])
def test_it_ends_with_the_search(desk: Any, program: Callable[..., Path], tmp_path: Path, ending: str) -> None:
    fill(desk)
    program(f"echo $$ > {tmp_path}/pid; PATH=/usr/bin:/bin; {ending.replace('sleep 60', 'exec sleep 60')}")
    result = search(desk, total_s=0.5)
    assert result.data["complete"] is False
    assert gone(int((tmp_path / "pid").read_text()))
    threading.Timer(0.4, desk.signal.cancel).start()
    started = time.monotonic()
    with pytest.raises(CancelledByUser):
        search(desk)
    assert time.monotonic() - started < 1.4
    assert gone(int((tmp_path / "pid").read_text()))


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


# ---- the same with and without it ---------------------------------------------------------------------------------

PIECES = [
    *(
        "a",
        "bc",
        "K",
        "s",
        "i",
        ".",
        "[^a]",
        r"\s",
        r"\W",
        r"\w",
        "^",
        "$",
        "a*",
        "(a|bc)",
        "(?!a)",
        "(?<=a)",
        "b+",
        "é",
    ),
    *(r"\b", "(?>a*)", "[b-d]", "[]a]", "[a-]", "[^]a]", "a{1,2}", r"\Z", "|", "(?:x.)?", "(?P<n>a)", "[ab]+?", r"\d"),
    *("b{2,}", "b{,2}", "c{0}", r"\.", r"\-", r"\x41", r"[\w.]", r"[\S]", "[é-ü]", "[K-z]", "a++", "_", "ıİſK", r"\n"),
]
TEXTS = st.text("abckKsSiI.é_ıİſK7\r\n x-]", max_size=30)


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=6), TEXTS, st.booleans(), st.booleans())
@example(["K"], "\u212a", True, False)
@example(["s", "i"], "ſİ", True, False)
@settings(max_examples=1500, deadline=None)
def test_the_approximation_fits_wherever_the_pattern_does(
    pieces: list[str], text: str, ignore_case: bool, latin: bool
) -> None:
    import regex

    pattern = "".join(pieces)
    try:
        compiled = regex.compile(pattern, regex.MULTILINE | (regex.IGNORECASE if ignore_case else 0))
    except regex.error:
        return
    coarse = approximation(pattern, ignore_case=ignore_case)
    if coarse is None:
        return
    data = text.encode("cp1252", "replace") if latin else text.encode()
    lines = data.decode("cp1252" if latin else "utf-8").replace("\r\n", "\n").split("\n")
    if any(compiled.search(line) for line in lines):
        assert any(re.search(coarse.encode(), line) for line in data.split(b"\n"))
        wide = f"{coarse}|{wide_approximation(pattern, ignore_case=ignore_case)}".encode()
        for encoding in ("utf-16", "utf-32"):
            assert any(re.search(wide, line) for line in "\n".join(lines).encode(encoding).split(b"\n"))


@pytest.mark.parametrize(
    ("pattern", "expression"),
    [
        ("await", "await"),
        (r"time\.sleep|x=", r"time\x2esleep|x\x3d"),
        (r"[0-9]{4}-\d", r"(?:[0-9]){4}\x2d(?:[0-9]|[\x80-\xff]{1,4})"),
        ("a{30}b{2,90}", "(?:a){8,}(?:b){2,}"),
        (r"\bdef\b$", "def"),
        ("(?P<n>ab)+?c", "(?:(?:ab))+c"),
        *(
            (pattern, None)
            for pattern in ("a*", "x|", "^$", r"(a)\1", r"\p{L}x", "[[:alpha:]]x", "a{e<=1}b", "(?s:a)b")
        ),
        *(
            (pattern, None)
            for pattern in (r"\x41", "(?|a|b)c", "[a--b]c", r"a\Kb", "(?x)a b", "a\nb", "(?#x)a", "(?R)a")
        ),
    ],
)
def test_approximations(pattern: str, expression: str | None) -> None:
    assert approximation(pattern) == expression


CONTENTS = st.builds(
    lambda text, encoding, more: text.encode(encoding, "replace") + more,
    TEXTS,
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"]),
    st.sampled_from([b"", b"\n", b"\xff", b"\0", b"\na.K\r\n"]),
)
NAMES = st.sampled_from(["a.py", "b.txt", "d/a.py", "d/e/c.txt", ".h/a.py", "d/.x.py", "-n", "d e/f"])


@given(
    st.dictionaries(NAMES, CONTENTS, min_size=1, max_size=5),
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=4),
    st.fixed_dictionaries(
        {"ignore_case": st.booleans(), "context": st.integers(0, 2)},
        optional={"glob": st.sampled_from(["*.py", "**/*.txt", "d/**", "**/.*"]), "path": st.sampled_from(["d", "."])},
    ),
)
@settings(max_examples=60, deadline=None)
def test_grep_gives_the_same_with_and_without_ripgrep(
    files: dict[str, bytes], pieces: list[str], options: dict[str, Any]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, data in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        (Path(folder) / "d").mkdir(exist_ok=True)
        args = {"pattern": "".join(pieces), **options}
        assert outcome(folder, args, 0) == outcome(folder, args, 10_000)


def outcome(folder: str, args: dict[str, Any], alone_files: int) -> Any:
    session: Any = SimpleNamespace(workspace=folder, id="s", messages=(), metadata={})
    context = ToolContext(session=session, call_id="c", signal=CancelSignal(), logger=logging.getLogger("test"))
    try:
        return Grep(CoreSettings(), alone_files=alone_files).execute(args, context)
    except ToolCallError as error:
        return str(error)
