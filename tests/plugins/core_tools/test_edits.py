"""Edits on awkward files: what is said when a text is nearly there, mixed line ends, marks, huge edits."""

import time
import tracemalloc
from typing import Any

import pytest

from kestrel_nb.plugins.core_tools.diff import unified
from kestrel_nb.protocol.errors import ToolCallError

MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize(
    ("text", "old", "says"),
    [
        ("\tif x:\n\t\ty\n", "    if x:\n        y", 'line 1 differs only in white space: .* begins "\\\\tif x:"'),
        ("z\na  \nb\n", "a\nb", 'line 2 differs only in white space: .* begins "a  "'),
        ("a\u00a0b\n", "a b", 'line 1 differs only in white space: .* begins "a\\\\u00a0b"'),
        ("x = f(a,\n      b)\n", "f(a, b)", "line 1 differs only in white space"),
        ("a\nb", "b\n", "line 2 differs only in white space"),
        ("ab\nab \nx", "ab  \n", "lines 1, 2 differ only in white space"),
        ("cafe\u0301 = 1\n", "caf\u00e9 = 1", 'the way characters are written, .* begins "cafe\\\\u0301 = 1"'),
        ("caf\u00e9 = 1\n", "cafe\u0301 = 1", 'the way characters are written, .* begins "caf\\\\u00e9 = 1"'),
        ("say(“hi”)\n", 'say("hi")', "line 1 differs only in the way characters are written"),
        ("a – b\n", "a - b", "line 1 differs only in the way characters are written"),
        ("it’s\n", "it's", "line 1 differs only in the way characters are written"),
        ("ab\u200bc\n", "abc", "line 1 differs only in the way characters are written"),
        ("ﬁne\n", "fine", "line 1 differs only in the way characters are written"),
        ("Hello\n", "hello", "line 1 differs only in upper and lower case"),
        ("a\nb\n", "     1\ta\n     2\tb", "leave out the line numbers"),
        ("abc\n", "xyz", "read the file again"),
        ("", "a", "read the file again"),
    ],
)
def test_a_text_that_is_nearly_there(desk: Any, text: str, old: str, says: str) -> None:
    desk.put("f", text)
    with pytest.raises(ToolCallError, match=says):
        desk.run("edit_file", path="f", old_string=old, new_string="z")
    assert (desk.root / "f").read_text() == text


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\nc\r\n", "a\nb\nc", "a\nB\nc", b"a\r\nB\nc\r\n"),
        (b"a\nb\r\nc\nd\r\n", "a\nb\nc\nd\n", "a\nb\nc\nd\ne\n", b"a\nb\r\nc\nd\r\ne\n"),
        (b"a\nb\nc\r\nd\r\ne\r\n", "a\nb", "a\nx\nb", b"a\nx\nb\nc\r\nd\r\ne\r\n"),
        (b"a\r\r\nb\r\n", "a\r\nb", "a\r\nc", b"a\r\r\nb\r\n"),  # not there: the first line ends with a CR of its own
        (b"a\rb\rc", "a\rb", "A\rb", b"A\rb\rc"),
        (b"a\r\nb\r\n", "\n", "\n\n", b"a\r\n\r\nb\r\n\r\n"),
        (b"aaaa\r\n", "aa", "a\na", b"a\r\naa\r\na\r\n"),
    ],
)
def test_lines_that_stay_keep_their_ends(desk: Any, before: bytes, old: str, new: str, after: bytes) -> None:
    desk.put("f", before)
    args = {"path": "f", "old_string": old, "new_string": new, "replace_all": True}
    if after == before:
        with pytest.raises(ToolCallError, match="not found"):
            desk.run("edit_file", **args)
    else:
        desk.run("edit_file", **args)
    assert (desk.root / "f").read_bytes() == after


@pytest.mark.parametrize("old", ["\ufeffa", "a"])
@pytest.mark.parametrize("new", ["\ufeffb", "b"])
def test_a_mark_that_came_along_with_the_text(desk: Any, old: str, new: str) -> None:
    """file-read gives a file to the byte, so that its mark may come back in both texts."""
    desk.put("f", MARK + b"a\n")
    desk.run("edit_file", path="f", old_string=old, new_string=new)
    assert (desk.root / "f").read_bytes() == MARK + b"b\n"


def test_an_edit_makes_no_binary_file(desk: Any) -> None:
    desk.put("f", "abc")
    with pytest.raises(ToolCallError, match="NUL"):
        desk.run("edit_file", path="f", old_string="b", new_string="\0")
    assert (desk.root / "f").read_bytes() == b"abc"


def test_an_edit_that_grows_without_measure_is_refused_before_it_is_made(desk: Any) -> None:
    desk.put("f", "a" * 100_000)
    tracemalloc.start()
    with pytest.raises(ToolCallError, match=r"f would be larger than 16\.0 MB"):
        desk.run("edit_file", path="f", old_string="a", new_string="b" * 5_000, replace_all=True)
    assert tracemalloc.get_traced_memory()[1] < 64_000_000
    tracemalloc.stop()
    assert (desk.root / "f").stat().st_size == 100_000


def test_a_text_at_a_million_places_is_refused_at_once(desk: Any) -> None:
    desk.put("f", "a" * 1_000_000)
    begun = time.monotonic()
    with pytest.raises(ToolCallError, match=r"occurs 999,999 times; .* \(f, lines 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, …\)"):
        desk.run("edit_file", path="f", old_string="aa", new_string="b")
    assert time.monotonic() - begun < 20  # counting the lines before each place takes hours


def test_lines_that_repeat_in_another_order_do_not_hold_up_the_diff() -> None:
    old = "\n".join(f"l{i % 100}" for i in range(9_900))
    new = "\n".join(f"l{i * 7 % 100}" for i in range(9_900))
    begun = time.process_time()
    diff, added, removed = unified("f", old, new)
    assert time.process_time() - begun < 2
    assert added == removed > 9_000
    assert diff.startswith("--- f\n+++ f\n@@ -1,")
