"""The globs of grep, also those that leave files out; with and without ripgrep the same files are searched."""

from typing import Any

import pytest

from kestrel_nb.plugins.core_tools.grep import Grep
from kestrel_nb.protocol.errors import ToolCallError

FILES = ("a.py", "b.js", "src/c.py", "src/c.min.js", "src/deep/d.js", ".hidden/e.py", "!x.py", "src/.env")


@pytest.fixture
def found(desk: Any) -> Any:
    """The files in which a line was found."""
    for name in FILES:
        desk.put(name, "here\n")

    def search(glob: str, **args: Any) -> list[str]:
        alone, advised = (
            Grep(desk.settings, alone_files=count).execute({"pattern": "here", "glob": glob, **args}, desk.context())
            for count in (500, 0)
        )
        assert alone.data == advised.data
        return list(alone.data["counts"])

    return search


@pytest.mark.parametrize(
    ("glob", "files"),
    [
        ("!*.py", ["b.js", "src/c.min.js", "src/deep/d.js"]),
        ("!**/*.py", ["b.js", "src/c.min.js", "src/deep/d.js"]),
        ("!*.{py,min.js}", ["b.js", "src/deep/d.js"]),
        ("!src/**", ["!x.py", "a.py", "b.js"]),
        ("!src/", ["!x.py", "a.py", "b.js"]),
        ("!.env", ["!x.py", "a.py", "b.js", "src/c.min.js", "src/c.py", "src/deep/d.js"]),
        ("!a.py", ["!x.py", "b.js", "src/c.min.js", "src/c.py", "src/deep/d.js"]),
        ("src/", ["src/c.min.js", "src/c.py", "src/deep/d.js"]),
        ("!(a).py", ["!x.py", "src/c.py"]),
        ("\\!x.py", ["!x.py"]),
        ("[!ab].*", ["src/c.min.js", "src/c.py", "src/deep/d.js"]),
        ("*.{p{y,x},ts}", ["!x.py", "a.py", "src/c.py"]),
        (".*", ["src/.env"]),
    ],
)
def test_globs(found: Any, glob: str, files: list[str]) -> None:
    assert sorted(found(glob)) == files


def test_a_glob_that_leaves_out_counts_from_the_start_or_from_the_workspace(found: Any) -> None:
    assert found("!src/deep/**", path="src") == ["src/c.min.js", "src/c.py"]
    assert found("!deep/**", path="src") == ["src/c.min.js", "src/c.py"]


@pytest.mark.parametrize("glob", ["!../*", "!/etc/*", "!", "!src/../*", "!\0"])
def test_globs_that_lead_outside_or_nowhere_are_refused(found: Any, glob: str) -> None:
    with pytest.raises(ToolCallError, match=r"^pattern"):
        found(glob)


def test_a_path_too_deep_for_the_system_is_told(desk: Any) -> None:
    with pytest.raises(ToolCallError, match=r"file name too long$|File not found"):
        desk.run("grep", pattern="x", path="a/" * 2_047 + "a")
