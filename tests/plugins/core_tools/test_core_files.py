"""read_file, list_dir, write_file, edit_file: encodings, line ends, ambiguity, previews. Cases J, K, L."""

import base64
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from kestrel_nb.frames import to_frame
from kestrel_nb.plugins.core_tools.diff import unified
from kestrel_nb.plugins.core_tools.replacing import replaced
from kestrel_nb.plugins.core_tools.text import decode
from kestrel_nb.protocol.errors import CancelledByUser, SandboxViolationError, ToolCallError
from kestrel_nb.protocol.tools import DiffPreview
from kestrel_nb.runtime.tools import PreviewingTool

CHINESE = "这是一个很长的中文测试行"
LATIN = "naïve résumé\r\nline two\r\n"


def edit(desk: Any, path: str, old: str, new: str, **more: Any) -> bytes:
    desk.run("edit_file", path=path, old_string=old, new_string=new, **more)
    return (desk.root / path).read_bytes()


def preview(desk: Any, name: str, **args: Any) -> DiffPreview:
    tool = desk.tool(name)
    assert isinstance(tool, PreviewingTool)
    made = tool.preview(args, desk.context())
    assert isinstance(made, DiffPreview)
    return made


# ---- edit_file --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\r\n", "\n"])
def test_j01_line_ends_of_the_file_survive(desk: Any, end: str) -> None:
    desk.put("f.c", f"int f() {{{end}\tif (!fp) {{{end}\t\treturn 1;{end}\t}}{end}}}{end}")
    data = edit(desk, "f.c", "\tif (!fp) {\n\t\treturn 1;", "\tif (!fp) {\n\t\tlog();\n\t\treturn 1;")
    assert data.decode() == f"int f() {{{end}\tif (!fp) {{{end}\t\tlog();{end}\t\treturn 1;{end}\t}}{end}}}{end}"


def test_j01_mixed_line_ends_change_only_in_the_match(desk: Any) -> None:
    desk.put("f", b"a\r\nb\nc\r\nd\ne\rf\r\n")
    assert edit(desk, "f", "b\nc", "B\nC") == b"a\r\nB\nC\r\nd\ne\rf\r\n"
    desk.put("f", b"a\r\nb\r\nc\nd\n")
    assert edit(desk, "f", "c\nd", "C\nX\nd") == b"a\r\nb\r\nC\nX\nd\n"
    assert edit(desk, "f", "a\nb", "a\nY\nb") == b"a\r\nY\r\nb\r\nC\nX\nd\n"
    assert edit(desk, "f", "\nd", "\nD") == b"a\r\nY\r\nb\r\nC\nX\nD\n"


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b""])
def test_j03_the_byte_order_mark_belongs_to_the_file(desk: Any, mark: bytes) -> None:
    desk.put("s.ps1", mark + "param($x)\r\nWrite-Host '中'\r\n".encode())
    read = desk.run("read_file", path="s.ps1")
    assert read.data["rows"][0] == [1, "param($x)"]
    assert "\ufeff" not in read.content
    assert desk.run("grep", pattern="^param").data["rows"] == [["s.ps1", 1, "param($x)"]]
    data = edit(desk, "s.ps1", "param($x)\n", "param($x, $y)\n")
    assert data == mark + "param($x, $y)\r\nWrite-Host '中'\r\n".encode()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({"old_string": "", "new_string": "X", "replace_all": True}, "old_string must not be empty"),
        ({"old_string": "", "new_string": "X"}, "old_string must not be empty"),
        ({"old_string": "b", "new_string": "b"}, "nothing was changed"),
        ({"old_string": "b\r\n", "new_string": "b\n"}, "nothing was changed"),
        ({"old_string": "z", "new_string": "b"}, "was not found in f; read the file again"),
        ({"old_string": "  abc", "new_string": "b"}, "line 1 differs only in white space"),
    ],
)
def test_j04_edits_that_make_no_sense(desk: Any, args: dict[str, Any], says: str) -> None:
    desk.put("f", "abc")
    with pytest.raises(ToolCallError, match=says):
        desk.run("edit_file", path="f", **args)
    assert (desk.root / "f").read_bytes() == b"abc"


@pytest.mark.parametrize(
    ("text", "old", "count", "lines"),
    [
        ("x = 1\nx = 1\nx = 1\n", "x = 1\nx = 1", 2, "1, 2"),
        ("aaaa", "aa", 3, "1, 1, 1"),
        ("a\r\na\r\na\r\n", "a\n", 3, "1, 2, 3"),
        ("q\nabab\nab\n", "ab", 3, "2, 2, 3"),
    ],
)
def test_j06_overlapping_places_are_ambiguous(desk: Any, text: str, old: str, count: int, lines: str) -> None:
    desk.put("f", text)
    says = rf"old_string occurs {count} times; add context or set replace_all \(f, lines {lines}\)"
    with pytest.raises(ToolCallError, match=says):
        desk.run("edit_file", path="f", old_string=old, new_string="y")
    assert (desk.root / "f").read_bytes() == text.encode()


def test_j06_replace_all_takes_places_apart(desk: Any) -> None:
    desk.put("f", "aaaaa")
    result = desk.run("edit_file", path="f", old_string="aa", new_string="b", replace_all=True)
    assert (desk.root / "f").read_bytes() == b"bba"
    assert result.content == "edited f: 2 replacements at lines 1, 1"
    assert to_frame(result.data).to_dict("list") == {"path": ["f", "f"], "line": [1, 1]}


@pytest.mark.parametrize("new", ['log("$& $1 $$ \\1 \\g<0> \\n %s {0}");', "\\", "\\u0041", "&", ""])
def test_j07_replacements_are_literal(desk: Any, new: str) -> None:
    desk.put("f", 'log("done");\n')
    assert edit(desk, "f", 'log("done");', new).decode() == f"{new}\n"


@pytest.mark.parametrize(("file", "wanted"), [("YQpiCmMK", b"A\nB\nc\n"), ("YQ0KYg0K", b"A\r\nB\r\n")])
def test_j10_carriage_returns_in_the_arguments(desk: Any, file: str, wanted: bytes) -> None:
    desk.put("f", base64.b64decode(file))
    assert edit(desk, "f", "a\r\nb", "A\r\nB") == wanted


@given(
    st.lists(st.sampled_from(["a", "b", "ab", "", "\u2028", "é"]), min_size=1, max_size=8),
    st.lists(st.sampled_from(["\n", "\r\n", "\r"]), min_size=8, max_size=8),
    st.data(),
)
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
def test_an_edit_changes_nothing_outside_its_place(lines: list[str], ends: list[str], data: st.DataObject) -> None:
    text = "".join(line + end for line, end in zip(lines, ends, strict=False))
    plain = text.replace("\r\n", "\n")
    start = data.draw(st.integers(0, len(plain) - 1))
    stop = data.draw(st.integers(start + 1, len(plain)))
    old = plain[start:stop]
    assume("\r\r\n" not in text)  # what is left of it looks like a line end itself
    if len([at for at in range(len(plain)) if plain.startswith(old, at)]) > 1:
        with pytest.raises(ToolCallError, match="occurs"):
            replaced(text, old, "Q", every=False, shown="f")
        return
    new, places = replaced(text, old, "Q", every=False, shown="f")
    assert len(places) == 1
    head, tail = new.split("Q")
    assert text.startswith(head)
    assert text.endswith(tail)
    assert text[len(head) : len(text) - len(tail)].replace("\r\n", "\n") == old


# ---- encodings --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encoding", "mark"),
    [
        ("utf-16-le", b"\xff\xfe"),
        ("utf-16-be", b"\xfe\xff"),
        ("utf-32-le", b"\xff\xfe\x00\x00"),
        ("utf-32-be", b"\x00\x00\xfe\xff"),
        ("utf-16-le", b""),
        ("utf-16-be", b""),
    ],
)
def test_k01_wide_encodings(desk: Any, encoding: str, mark: bytes) -> None:
    desk.put("w.txt", mark + LATIN.encode(encoding))
    read = desk.run("read_file", path="w.txt")
    assert read.data["rows"] == [[1, "naïve résumé"], [2, "line two"]]
    assert "\0" not in read.content
    assert desk.run("grep", pattern="naïve").data["rows"] == [["w.txt", 1, "naïve résumé"]]
    assert edit(desk, "w.txt", "two\n", "zwei\n") == mark + LATIN.replace("two", "zwei").encode(encoding)


@pytest.mark.parametrize("shift", range(4))
@pytest.mark.parametrize("size", [300, 8000, 700_000])
def test_k02_a_cut_sample_is_no_binary_file(desk: Any, shift: int, size: int) -> None:
    text = "x" * shift + CHINESE * (size // len(CHINESE))
    desk.put("zh.txt", text)
    result = desk.run("read_file", path="zh.txt")
    assert "\ufffd" not in result.content
    assert result.data["rows"][0][1].startswith(text[:300])
    assert result.data["encoding"] == "utf-8"


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
        bytes(range(256)) * 20,
        b"\x7fELF" + b"\0" * 50,
        b"text first\n" * 2000 + b"\0\1\2",
        os.urandom(5000) + b"\0",
    ],
)
def test_binary_files_are_refused_and_left_alone(desk: Any, data: bytes) -> None:
    desk.put("b", data)
    with pytest.raises(ToolCallError, match="b is a binary file"):
        desk.run("read_file", path="b")
    with pytest.raises(ToolCallError, match="b is a binary file"):
        desk.run("edit_file", path="b", old_string="t", new_string="u")
    assert (desk.root / "b").read_bytes() == data


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("caf\u00e9\n", "cp1252"),
        ("Größe: “naïve” – 5 €\n", "cp1252"),
        ("Привет, мир. Это обычный русский текст в старой кодировке.\n" * 3, "cp1251"),
        ("これは日本語のテキストです。文字化けしません。\n" * 2, "cp932"),
    ],
)
def test_old_encodings_are_guessed_and_kept(desk: Any, text: str, encoding: str) -> None:
    desk.put("f", text.encode(encoding))
    result = desk.run("read_file", path="f")
    assert result.data["rows"][0][1] == text.split("\n")[0]
    assert "guessed" in result.content.split("\n")[0]
    first = text[0]
    assert edit(desk, "f", text, f"{first}!\n") == f"{first}!\n".encode(encoding)


def test_a_character_that_the_encoding_lacks_is_refused(desk: Any) -> None:
    desk.put("f", "café\n".encode("cp1252"))
    with pytest.raises(ToolCallError, match="can't be written in cp1252"):
        desk.run("edit_file", path="f", old_string="café", new_string="咖啡")
    assert (desk.root / "f").read_bytes() == "café\n".encode("cp1252")
    with pytest.raises(ToolCallError, match="can't be written"):
        desk.run("edit_file", path="f", old_string="café", new_string="\U0001f600")
    for args in ({"old_string": "café", "new_string": "\ud800"}, {"content": "\udcff"}):
        with pytest.raises(ToolCallError, match="lone surrogates"):
            desk.run("edit_file" if "old_string" in args else "write_file", path="f", **args)
    assert (desk.root / "f").read_bytes() == "café\n".encode("cp1252")


@given(st.binary(max_size=60))
@example(b"\xfa\x80")
@settings(max_examples=300)
def test_decoding_never_fails_and_goes_back(data: bytes) -> None:
    found = decode(data)
    if found is not None:
        assert found.encode(found.text) == data
        found.text.encode("utf-8")


# ---- lines ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("odd", ["\x0c", "\u2028", "\u2029", "\x85", "\x1c", "\x0b", "\r"])
def test_k04_k05_line_numbers_agree(desk: Any, odd: str) -> None:
    desk.put("f.py", f"def alpha():\n    return 1\n{odd}\ndef beta{odd}():\n    pass\n    SECRET_TARGET = 1\n")
    assert desk.run("grep", pattern="SECRET_TARGET").data["rows"][0][1] == 6
    page = desk.run("read_file", path="f.py", offset=6, limit=1)
    assert page.data["rows"] == [[6, "    SECRET_TARGET = 1"]]
    assert "occurs" not in desk.run("edit_file", path="f.py", old_string="SECRET_TARGET", new_string="x").content


def test_pages(desk: Any) -> None:
    desk.put("f", "".join(f"line {n}\n" for n in range(1, 5001)))
    first = desk.run("read_file", path="f")
    assert first.content.startswith("[f: lines 1 to 2,000 of 5,000; go on with offset=2001]\n     1\tline 1\n")
    assert len(first.data["rows"]) == 2000
    assert len(desk.run("read_file", path="f", limit=9999).data["rows"]) == 2000
    last = desk.run("read_file", path="f", offset=4999)
    assert last.content == "  4999\tline 4999\n  5000\tline 5000"
    assert last.data["total_lines"] == 5000
    with pytest.raises(ToolCallError, match="f has only 5,000 lines; offset 5,001 is beyond its end"):
        desk.run("read_file", path="f", offset=5001)


@pytest.mark.parametrize(
    ("content", "rows"), [("", []), ("\n", [[1, ""]]), ("a", [[1, "a"]]), ("a\n\n", [[1, "a"], [2, ""]])]
)
def test_small_files(desk: Any, content: str, rows: list[list[Any]]) -> None:
    desk.put("f", content)
    result = desk.run("read_file", path="f")
    assert result.data["rows"] == rows
    assert result.content == ("f is empty" if not rows else "\n".join(f"{n:>6}\t{text}" for n, text in rows))
    assert list(to_frame(result.data).columns) == ["line", "text"]


@pytest.mark.parametrize("end", ["\n", ""])
def test_large_files_are_read_in_pages_too(desk: Any, end: str) -> None:
    lines = [f"{n:06} " + "é" * 40 for n in range(1, 40_001)]
    desk.put("big", "\ufeff" + "\n".join(lines) + end)
    for offset in (1, 20_000, 39_999):
        page = desk.run("read_file", path="big", offset=offset, limit=2)
        assert page.data["rows"] == [[offset, lines[offset - 1]], [offset + 1, lines[offset]]]
        assert page.data["total_lines"] == 40_000
    with pytest.raises(ToolCallError, match="has only 40,000 lines"):
        desk.run("read_file", path="big", offset=40_001)


def test_a_huge_line_is_cut_with_its_length(make_desk: Any) -> None:
    desk = make_desk(max_output_chars=1000)
    desk.put("min.js", "🤖" * 60_001)
    result = desk.run("read_file", path="min.js")
    assert "[cut: 1,000 of 60,001 characters of this line shown]" in result.content
    assert result.content.count("🤖") == 1000
    desk.put("many", "abc\n" * 500)
    page = desk.run("read_file", path="many")
    shown = len(page.data["rows"])
    assert page.content.startswith(f"[many: lines 1 to {shown} of 500; go on with offset={shown + 1}]")
    assert len(page.content) < 1200


# ---- list_dir ---------------------------------------------------------------------------------------------------


def test_list_dir(desk: Any) -> None:
    desk.put("b/x", "1")
    desk.put("a.txt", "12345")
    desk.put(".hidden", "")
    (desk.root / "d").symlink_to("/etc")
    os.mkfifo(desk.root / "pipe")
    result = desk.run("list_dir")
    assert result.content == "5 entries in the workspace\nb/\n.hidden  0 B\na.txt  5 B\nd  (link)\npipe  (other)"
    assert result.data["rows"][:3] == [["b", "folder", None], [".hidden", "file", 0], ["a.txt", "file", 5]]
    assert list(to_frame(result.data).columns) == ["name", "type", "size"]
    (desk.root / "empty").mkdir()
    assert list(to_frame(desk.run("list_dir", path="empty").data).columns) == ["name", "type", "size"]
    assert desk.run("list_dir", path=str(desk.root / "b")).data["path"] == "b"
    with pytest.raises(ToolCallError, match=r"a\.txt is not a folder"):
        desk.run("list_dir", path="a.txt")
    with pytest.raises(ToolCallError, match="File not found: nowhere"):
        desk.run("list_dir", path="nowhere")


@pytest.mark.parametrize("path", ["d", "d/hostname", "../ws-private", "leak", "/etc", "a/../../ws-private"])
def test_l01_l02_no_tool_leaves_the_workspace(desk: Any, path: str) -> None:
    (desk.root / "d").symlink_to("/etc")
    (desk.root / "leak").symlink_to("/etc/passwd")
    (desk.root / "a").mkdir()
    private = desk.root.parent / "ws-private"
    private.mkdir()
    (private / "secret.txt").write_text("secret")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("read_file", {"path": path}),
        ("list_dir", {"path": path}),
        ("glob", {"pattern": "*", "path": path}),
        ("grep", {"pattern": ".", "path": path}),
        ("write_file", {"path": path, "content": "x"}),
        ("write_file", {"path": f"{path}/new", "content": "x"}),
        ("edit_file", {"path": path, "old_string": "a", "new_string": "b"}),
    ]
    for name, args in calls:
        with pytest.raises(SandboxViolationError):
            desk.run(name, **args)
    for pattern in ("**/*", "*/*", "d/*", "**/*.txt"):
        assert desk.run("glob", pattern=pattern).data["rows"] == []
    assert desk.run("grep", pattern="root").data["total"] == 0
    assert os.listdir(private) == ["secret.txt"]


# ---- write_file and previews ------------------------------------------------------------------------------------


def test_write_file_reports_what_it_did(desk: Any) -> None:
    result = desk.run("write_file", path="src/new/a.py", content="ü\n")
    assert (result.content, result.data["rows"]) == ("created src/new/a.py, 3 B", [["src/new/a.py", 3, True]])
    assert desk.run("write_file", path="src/new/a.py", content="").content == "replaced src/new/a.py, 0 B"
    assert (desk.root / "src/new/a.py").read_bytes() == b""
    with pytest.raises(ToolCallError, match="must name a file"):
        desk.run("write_file", path="src/other/", content="")
    assert not (desk.root / "src/other").exists()
    desk.run("write_file", path="crlf", content="a\r\nb\n")
    assert (desk.root / "crlf").read_bytes() == b"a\r\nb\n"


def test_previews_show_the_diff_and_change_nothing(desk: Any) -> None:
    desk.put("f", "".join(f"{n}\n" for n in range(1, 21)))
    made = preview(desk, "edit_file", path="f", old_string="10\n", new_string="ten\nmore\n")
    assert made.diff == "--- f\n+++ f\n@@ -7,7 +7,8 @@\n 7\n 8\n 9\n-10\n+ten\n+more\n 11\n 12\n 13\n"
    assert (made.path, made.added, made.removed) == ("f", 2, 1)
    new = preview(desk, "write_file", path="x/g", content="a\nb")
    assert new.diff == "--- x/g\n+++ x/g\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n"
    assert not (desk.root / "x").exists()
    with pytest.raises(ToolCallError, match="was not found"):
        preview(desk, "edit_file", path="f", old_string="zzz", new_string="y")


@pytest.mark.parametrize("name", ["edit_file", "write_file"])
def test_a_file_that_changed_after_the_preview_is_left_alone(desk: Any, name: str) -> None:
    args = (
        {"path": "f", "content": "new"} if name == "write_file" else {"path": "f", "old_string": "a", "new_string": "b"}
    )
    desk.put("f", "a")
    shown = preview(desk, name, **args)
    desk.put("f", "a!")
    with pytest.raises(ToolCallError, match="f was changed after the diff was shown"):
        desk.tool(name).execute(args, desk.context(preview=shown))
    assert (desk.root / "f").read_text() == "a!"
    desk.tool(name).execute(args, desk.context(preview=preview(desk, name, **args)))
    assert (desk.root / "f").read_text() == ("new" if name == "write_file" else "b!")


def test_a_file_that_came_or_went_after_the_preview(desk: Any) -> None:
    args = {"path": "f", "content": ""}
    absent = preview(desk, "write_file", **args)
    desk.put("f", "")
    with pytest.raises(ToolCallError, match="was changed"):
        desk.tool("write_file").execute(args, desk.context(preview=absent))
    there = preview(desk, "write_file", **args)
    (desk.root / "f").unlink()
    with pytest.raises(ToolCallError, match="was changed"):
        desk.tool("write_file").execute(args, desk.context(preview=there))
    assert not (desk.root / "f").exists()


def test_a_cancelled_call_writes_nothing(desk: Any) -> None:
    desk.signal.cancel()
    with pytest.raises(CancelledByUser):
        desk.run("write_file", path="f", content="x")
    assert os.listdir(desk.root) == []


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12), st.booleans())
@settings(max_examples=200)
def test_diffs_turn_the_old_text_into_the_new(old: list[str], new: list[str], newline: bool) -> None:
    before, after = "\n".join(old) + "\n" * newline, "\n".join(new) + "\n" * newline
    diff, added, removed = unified("f", before, after)
    assert _patched(before, diff) == after
    assert (added == removed == 0) == (before == after)


def _patched(text: str, diff: str) -> str:
    """Apply a unified diff by hand."""
    lines, out, at = text.splitlines(keepends=True), [], 0
    body = diff.splitlines(keepends=True)
    for index, line in enumerate(body[2:], 2):
        bare = index + 1 < len(body) and body[index + 1].startswith("\\")
        shown = line[1:-1] if bare else line[1:]
        if line.startswith("@@"):
            start, _, count = line.split()[1][1:].partition(",")
            begin = int(start) - (count != "0")
            out += lines[at:begin]
            at = begin
        elif line.startswith("+"):
            out.append(shown)
        elif line.startswith((" ", "-")):
            assert lines[at] == shown
            at += 1
            out += [shown] if line.startswith(" ") else []
    return "".join(out + lines[at:])


def test_large_diffs_are_quick() -> None:
    old = "".join(f"line {n}\n" for n in range(200_000))
    diff, added, removed = unified("f", old, old.replace("line 100000\n", "other\n"))
    assert (added, removed) == (1, 1)
    assert len(diff) < 300
    diff, added, removed = unified("f", old, old.replace("line", "row"))
    assert (added, removed) == (200_000, 200_000)
