"""Text files that are damaged, very long, or in an old encoding, as read_file, grep and edit_file see them."""

import io
import os
from typing import Any, BinaryIO, cast

import pytest

from kestrel_nb.plugins.core_tools.chunks import chunks
from kestrel_nb.plugins.core_tools.files import read_page
from kestrel_nb.protocol.errors import ToolCallError
from kestrel_nb.runtime.signals import CancelSignal

DAMAGED = "zwölf\n".encode() * 20 + b"bad \xff byte, \xe2\x82 cut off\n" + "größer\n".encode()


def test_utf8_with_some_bad_bytes_stays_utf8(desk: Any) -> None:
    """One bad byte in a log must not turn every other character into two."""
    desk.put("f", DAMAGED)
    read = desk.run("read_file", path="f")
    assert read.content.startswith("[f: utf-8, guessed]\n     1\tzwölf\n")
    assert read.data["rows"][20:] == [[21, "bad \ufffd byte, \ufffd cut off"], [22, "größer"]]
    assert desk.run("grep", pattern="zwölf|größ").data["total"] == 21
    assert desk.run("grep", pattern="byte, . cut").data["rows"] == [["f", 21, "bad \ufffd byte, \ufffd cut off"]]


def test_an_edit_leaves_the_bad_bytes_as_they_are(desk: Any) -> None:
    desk.put("f", DAMAGED)
    done = desk.run("edit_file", path="f", old_string="größer", new_string="kleiner ✓")
    assert (desk.root / "f").read_bytes() == DAMAGED.replace("größer".encode(), "kleiner ✓".encode())
    done.data["diff"].encode("utf-8")
    with pytest.raises(ToolCallError, match="lone surrogates"):
        desk.run("edit_file", path="f", old_string="byte", new_string="\udcff")


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("À l'été, l'élève français déjà très âgé a mangé des crêpes brûlées à Noël où naïf\n", "cp1252"),
        ("Größere Übungen für Äpfel, Öl und süße Früchte: dürfen Käfer über Straßen gehen?\n", "latin-1"),
        ("Så ærgerligt at æblegrød ikke også er på bordet, sagde fåret på øen.\n" * 2, "latin-1"),
    ],
)
def test_western_texts_are_read_right_and_found(desk: Any, text: str, encoding: str) -> None:
    desk.put("f", text.encode(encoding))
    assert desk.run("read_file", path="f").data["rows"][0][1] == text.split("\n")[0]
    assert desk.run("read_file", path="f").data["encoding"] == "cp1252"
    assert desk.run("grep", pattern="[éüå]").data["total"] == text.count("\n")


def test_letters_are_not_taken_for_halfwidth_katakana(desk: Any) -> None:
    desk.put("f", "Привет, мир! Это текст на русском языке.\nвторая строка\n".encode("koi8-r"))
    read = desk.run("read_file", path="f")
    assert "guessed" in read.content
    assert not any("\uff61" <= char <= "\uff9f" for char in read.content)


def test_lines_with_nul_far_in_a_large_file_are_binary(desk: Any) -> None:
    desk.put("f", b"a\n" * 1_100_000 + b"x\0y\n" + b"b\n" * 10)
    assert desk.run("read_file", path="f", limit=1).data["rows"] == [[1, "a"]]
    with pytest.raises(ToolCallError, match="f: these lines are binary"):
        desk.run("read_file", path="f", offset=1_100_001)
    assert desk.run("read_file", path="f", offset=1_100_011).data["rows"] == [[1_100_011, "b"]]


@pytest.mark.parametrize("before", [b"", b"a\n", b"a\n" * 600_000])
@pytest.mark.parametrize("after", [b"", b"\nb\n"])
def test_the_size_of_a_line_longer_than_a_result_is_right(desk: Any, before: bytes, after: bytes) -> None:
    desk.put("f", before + b"x" * 5_000_000 + after)
    first = before.count(b"\n") + 1
    read = desk.run("read_file", path="f", offset=first)
    assert read.data["total_lines"] == first + (1 if after else 0)
    assert len(read.data["rows"]) == 1
    line = read.data["rows"][0][1]
    assert line.endswith("x [cut: 100,000 characters of 5,000,000 bytes of this line shown]")
    assert len(line) < 100_100


def test_a_line_that_is_there_in_part_is_never_shown_as_whole(make_desk: Any) -> None:
    desk = make_desk(max_output_chars=10_000_000)
    desk.put("f", b"a\n" + b"x" * 5_000_000 + b"\nb\n")
    assert desk.run("read_file", path="f").data["rows"] == [[1, "a"]]
    line = desk.run("read_file", path="f", offset=2).data["rows"][0][1]
    assert line.endswith("characters of 5,000,000 bytes of this line shown]")


def test_a_last_carriage_return_is_a_part_of_its_line(desk: Any) -> None:
    desk.put("f", b"a\r\nb\r")
    assert desk.run("read_file", path="f").data["rows"] == [[1, "a"], [2, "b\r"]]
    assert desk.run("grep", pattern="b").data["rows"] == [["f", 2, "b\r"]]


class Growing(io.FileIO):
    """A file to which as much is added as is read from it."""

    def read(self, size: int | None = -1, /) -> bytes:  # type: ignore[override]
        assert os.fstat(self.fileno()).st_size < 50_000_000, "this goes on for ever"
        with open(str(self.name), "ab") as more:
            more.write(b"more\n" * ((size or 0) // 5))
        return super().read(size or 0) or b""


def test_a_file_that_grows_as_fast_as_it_is_read_has_an_end(desk: Any) -> None:
    with Growing(desk.put("log", b"line\n" * 600_000)) as file:
        page = read_page(cast(BinaryIO, file), "log", 1, 1, CancelSignal())
    assert (page.lines, page.offset) == (["line"], 1)
    assert 600_000 <= page.total < 1_600_000
    with Growing(desk.put("log", b"line\n" * 600_000)) as file:
        found = list(chunks(file.read(1 << 20), cast(BinaryIO, file)))
    assert 600_000 <= sum(chunk.data.count(b"\n") for chunk in found) < 1_600_000
