"""A glob that is taken apart, folder by folder, finds what the whole of it finds."""

import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kestrel_nb.plugins.core_tools.globs import name_test
from kestrel_nb.plugins.core_tools.patterns import NamePattern
from kestrel_nb.protocol.errors import ToolCallError
from kestrel_nb.sandbox.workspace import Workspace

PARTS = [
    *(
        "a",
        "b",
        "ab",
        ".a",
        "a.b",
        "*",
        "**",
        "?",
        "*.b",
        ".*",
        "a*b",
        "*a*b*",
        "[ab]",
        "[!a]*",
        "[^.]?",
        "@(a|b)",
        "!(a)",
    ),
    *("+(a|b).b", "*(a)", "?(a)b", "*.{a,b}", "{a,b}", "{a,}b", "{a,b/a}", "*{a,.b}", "{1..2}", "{a", "b}", "[a", "a]"),
    *(
        "(a",
        "a)",
        "a|b",
        "[{]",
        "[a,}]",
        "***",
        "a**",
        "\\a",
        "[[:alpha:]]",
        "[[:punct:]]*",
        "é",
        "*é",
        "${a,b}",
        "@(a",
        "b)",
    ),
]
NAMES = [
    "a",
    "b",
    "ab",
    "a.b",
    ".a",
    ".b",
    "b.a",
    "aab",
    "x",
    "é",
    "aé",
    "{a",
    "[a",
    "a]",
    "1",
    "a|b",
    "$a",
    "a.b\n",
    "!",
]


def wanted(pattern: str, path: str) -> bool:
    """What the library that translates globs says; a line feed at the end is a character like any other here."""
    from wcmatch import glob

    flags = glob.GLOBSTAR | glob.BRACE | glob.EXTGLOB | glob.FORCEUNIX
    return any(re.fullmatch(text, path) for text in glob.translate(pattern, flags=flags)[0])


@given(
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=4).map("/".join),
    st.lists(st.sampled_from(NAMES), max_size=3),
)
@example("**", ["a", "b"])
@example("a/**", ["a"])
@example("{a/b,b}/*.{a,b}", ["a", "b"])
@example(".a/**/*.b", [".a", ".b"])
@example("{a\\},b/\\{a}", ["b"])
@example("{a[}],b/[{]a}", ["b"])
@settings(max_examples=600, deadline=None)
def test_parts_of_a_glob_fit_what_the_whole_fits(pattern: str, folders: list[str]) -> None:
    try:
        compiled = NamePattern(pattern, Workspace("/"))
    except ToolCallError:
        return
    if not compiled.hidden:
        folders = [folder for folder in folders if not folder.startswith(".")]
    folder = "/".join(folders)
    names = [name for name in NAMES if compiled.hidden or name[0] != "."]
    fitting = [name for name in names if wanted(pattern, f"{folder}/{name}" if folder else name)]
    assert list(compiled.select(folder, names)) == fitting
    above = ["/".join(folders[: count + 1]) for count in range(len(folders))]
    assert not fitting or all(map(compiled.may_hold, above))


@pytest.mark.parametrize("kind", ["alpha", "digit", "punct", "space", "word", "xdigit", "^alpha", "print", "ascii"])
def test_classes_of_characters_mean_the_same_to_both_engines(kind: str) -> None:
    pattern = f"[[:{kind}:]]"
    fits = name_test(pattern)
    assert [bool(fits(chr(code))) for code in range(1, 128)] == [wanted(pattern, chr(code)) for code in range(1, 128)]


def test_names_that_are_no_text_fit_as_they_are_shown(tmp_path: Path) -> None:
    names = ["a\udcff.py", "é.py", "b.py"]
    workspace = Workspace(tmp_path)
    assert list(NamePattern("**/a?xff.p*", workspace).select("", names)) == ["a\udcff.py"]
    assert list(NamePattern("**/?.p[y]", workspace).select("x", names)) == ["é.py", "b.py"]
    assert list(NamePattern("**/*.py", workspace).select("x", names)) == names
