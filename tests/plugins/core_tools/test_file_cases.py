"""The collected faults about editing and reading files, on the files that came with them."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

CASES = Path(__file__).parents[2] / "data" / "cases"
ROWS = {row["id"]: row for row in map(json.loads, (CASES / "cases.jsonl").read_text("utf-8").splitlines())}


def given(id: str) -> Any:
    return ROWS[id]["input"]


def bytes_of(id: str) -> bytes:
    return (CASES / f"{id}.bin").read_bytes()


def edit(desk: Any, path: str, row: dict[str, Any]) -> Any:
    args = {name: row[name] for name in ("old_string", "new_string", "replace_all") if name in row}
    return desk.run("edit_file", path=path, **args)


def lines(desk: Any, path: str, **more: Any) -> list[list[Any]]:
    rows: list[list[Any]] = desk.run("read_file", path=path, **more).data["rows"]
    return rows


def test_j01_windows_line_ends(desk: Any) -> None:
    old, row = bytes_of("J01"), given("J01")
    file = desk.put("J01.bin", old)
    edit(desk, "J01.bin", row)
    find, put = (row[name].encode().replace(b"\n", b"\r\n") for name in ("old_string", "new_string"))
    assert old.count(find) == 1
    assert file.read_bytes() == old.replace(find, put)
    assert b"\r\r" not in file.read_bytes()
    assert file.read_bytes().count(b"\n") == file.read_bytes().count(b"\r\n")


def test_j03_byte_order_mark(desk: Any) -> None:
    row = given("J03")
    file = desk.put("J03.bin", bytes_of("J03"))
    assert lines(desk, "J03.bin", limit=1) == [[1, row["read_first_line"]]]
    assert desk.run("grep", pattern="^param").data["rows"][0][1] == 1
    edit(desk, "J03.bin", row)
    assert file.read_bytes().count(b"\xef\xbb\xbf") == 1
    assert file.read_bytes().startswith(b"\xef\xbb\xbfparam($x, $y)")


def test_j04_edits_that_make_no_sense_touch_nothing(desk: Any) -> None:
    file = desk.put("f", given("J04")["file"])
    for args, says in zip(given("J04")["args"], ["must not be empty", "must not be empty", "the same"], strict=True):
        with pytest.raises(Exception, match=says):
            edit(desk, "f", args)
        assert file.read_text() == given("J04")["file"]


def test_j06_overlapping_places(desk: Any) -> None:
    row = given("J06")
    file = desk.put("f", row["file"])
    with pytest.raises(Exception, match="occurs 2 times"):
        edit(desk, "f", row)
    assert file.read_text() == row["file"]
    edit(desk, "f", {**row, "replace_all": True})
    assert file.read_text() == "y = 2\ny = 2\nx = 1\n"


def test_j07_replacements_are_literal(desk: Any) -> None:
    row = given("J07")
    file = desk.put("f", row["file"])
    edit(desk, "f", row)
    assert file.read_text() == f"{row['new_string']}\n"


def test_j10_line_ends_in_the_arguments(desk: Any) -> None:
    """Decided: the edit is made, with the line ends of the file."""
    made = []
    for row in given("J10")["cases"]:
        file = desk.put("f", base64.b64decode(row["file_b64"]))
        edit(desk, "f", row)
        made.append(file.read_bytes())
    assert made == [b"A\nB\nc\n", b"A\r\nB\r\n"]


def test_k01_utf_16(desk: Any) -> None:
    """Decided: it is text like any other, and stays UTF-16 with its mark."""
    old = bytes_of("K01")
    file = desk.put("K01.bin", old)
    text = "\n".join(line for _, line in lines(desk, "K01.bin"))
    assert "naïve" in text
    assert "\0" not in text
    assert desk.run("grep", pattern="naïve").data["total"] >= 1
    desk.run("edit_file", path="K01.bin", old_string="naïve", new_string="clever")
    assert file.read_bytes() == b"\xff\xfe" + old[2:].decode("utf-16-le").replace("naïve", "clever").encode("utf-16-le")


@pytest.mark.parametrize("start", range(4))
def test_k02_a_sample_that_ends_within_a_character(desk: Any, start: int) -> None:
    data = b"x" * start + bytes_of("K02")
    desk.put("K02.bin", data)
    assert lines(desk, "K02.bin") == [[1, data.decode("utf-8").rstrip("\n")]]
    assert "\ufffd" not in desk.run("read_file", path="K02.bin").content


@pytest.mark.parametrize("odd", [b"\x0c", "\u2028".encode(), "\x85".encode(), b"\x1c", b"\x0b"])
def test_k04_line_numbers_agree(desk: Any, odd: bytes) -> None:
    desk.put("K04.bin", bytes_of("K04").replace(b"\x0c", odd))
    assert desk.run("grep", pattern="SECRET_TARGET").data["rows"][0][1] == 6
    found = lines(desk, "K04.bin", offset=6, limit=1)
    assert len(found) == 1
    assert "SECRET_TARGET" in found[0][1]


def test_k05_a_bare_carriage_return_ends_no_line(desk: Any) -> None:
    """Decided: lines end at LF and CRLF only, as git and editors count."""
    desk.put("K05.bin", bytes_of("K05"))
    assert desk.run("grep", pattern="NEEDLE").data["rows"][0][1] == 3
    assert "NEEDLE" in lines(desk, "K05.bin", offset=3)[0][1]
