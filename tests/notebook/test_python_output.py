"""Output of code: what is kept of it, how it reads, images made alike; and the plugin where there is no notebook."""

from __future__ import annotations

import base64
import struct
import time
import zlib

import pytest

from kestrel_nb import Kestrel
from kestrel_nb.notebook.kernel_tools import NotebookTools
from kestrel_nb.notebook.pictures import Picture, figure_data, picture_in, plain_png
from kestrel_nb.notebook.scrolls import KEPT, Scroll, as_shown, middle_cut, stable
from kestrel_nb.protocol.errors import PluginError


def scroll(*pieces: tuple[str, str]) -> Scroll:
    made = Scroll()
    for kind, text in pieces:
        made.add(kind, text)
    return made


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ([("stdout", "a"), ("stdout", "b\n")], "ab\n"),
        ([("stderr", "e\n")], "e\n"),
        ([("stdout", "a\n"), ("stderr", "e\n"), ("stdout", "b\n")], "a\n[stderr]\ne\n[end of stderr]\nb\n"),
        ([("stdout", "a"), ("stderr", "e")], "a\n[stderr]\ne"),
        ([("shown", "1"), ("shown", "2")], "1\n2"),
        ([("stdout", "no end"), ("shown", "5")], "no end\n5"),
        ([("stdout", "")], ""),
    ],
)
def test_order_and_marks(pieces: list[tuple[str, str]], text: str) -> None:
    assert scroll(*pieces).text(1_000) == text


def test_much_is_kept_as_head_and_tail() -> None:
    made = Scroll()
    for number in range(100_000):
        made.add("stdout", f"line {number}\n")
    made.add("shown", "the last")
    text = made.text(1_000)
    assert len(text) <= 1_000
    assert text.startswith("line 0\nline 1\n")
    assert text.endswith("line 99999\nthe last")
    assert sum(len(entry.text) for entry in (*made._head, *made._tail)) < 3 * KEPT
    count = int(text.partition("[")[2].partition(" characters")[0].replace(",", ""))
    assert abs(made.total - count - len(text)) < 60


def test_one_huge_piece_is_not_held() -> None:
    made = scroll(("stdout", "x" * 10_000_000))
    assert sum(len(entry.text) for entry in (*made._head, *made._tail)) <= 2 * KEPT
    assert "9,99" in made.text(5_000)


def test_many_tiny_displays_are_bounded() -> None:
    made = Scroll()
    for _ in range(50_000):
        made.add("shown", "")
    assert len(made._head) + len(made._tail) < 10_000


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("10%\r50%\r100%\n", "100%\n"),
        ("abc\rX", "Xbc"),
        ("a\r\nb", "a\nb"),
        ("\x1b[31mred\x1b[0m", "red"),
    ],
)
def test_as_a_terminal_shows_it(text: str, shown: str) -> None:
    assert as_shown(text) == shown


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("<Foo object at 0x7f0123456789>", "<Foo object>"),
        ("<function f at 0x55AA>", "<function f>"),
        ("0x7f0123456789", "0x…"),
        ("0xff is 255", "0xff is 255"),
        ("/tmp/ipykernel_123/456.py:3: UserWarning", "<cell>:3: UserWarning"),
        ('File "/usr/lib/python3.11/json/decoder.py"', 'File "json/decoder.py"'),
        ("/home/me/.venv/lib/python3.12/site-packages/pandas/core/frame.py", "pandas/core/frame.py"),
        ("see /data/python3.csv", "see /data/python3.csv"),
    ],
)
def test_nothing_of_this_machine(text: str, same: str) -> None:
    assert stable(text) == same


def test_long_words_take_no_time() -> None:
    began = time.monotonic()
    stable("ipykernel_ site-packages python3." + "x" * 10_000 + "/" * 10_000)
    assert time.monotonic() - began < 5
    assert middle_cut("abc", 3) == "abc"


# ---- images -------------------------------------------------------------------------------------------------------


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


HEAD = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 1, 8, 0, 0, 0, 0))
PIXELS = b"\x00\x01\x02"
END = chunk(b"IEND", b"")


def test_pngs_are_made_alike() -> None:
    """However they were packed, and whatever programs wrote beside the pixels."""
    packed = zlib.compress(PIXELS, 0)
    one = HEAD + chunk(b"tEXt", b"Software\0x") + chunk(b"IDAT", packed[:4]) + chunk(b"IDAT", packed[4:]) + END
    other = HEAD + chunk(b"pHYs", bytes(9)) + chunk(b"IDAT", zlib.compress(PIXELS, 9)) + END
    assert plain_png(one) == plain_png(other)
    assert b"Software" not in plain_png(one)
    assert plain_png(plain_png(one)) == plain_png(one)


BOMB = zlib.compress(bytes(80_000_000))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"no png",
        HEAD,
        HEAD + END,
        HEAD + chunk(b"IDAT", b"not packed") + END,
        HEAD + chunk(b"IDAT", zlib.compress(PIXELS)),
        HEAD + chunk(b"IDAT", zlib.compress(PIXELS)) + END[:-2],
        HEAD + chunk(b"acTL", bytes(8)) + chunk(b"IDAT", zlib.compress(PIXELS)) + END,
        HEAD + chunk(b"IDAT", BOMB) + END,
        HEAD + b"\xff\xff\xff\xffIDAT",
    ],
)
def test_what_is_no_plain_png_stays_as_it_is(raw: bytes) -> None:
    assert plain_png(raw) == raw


def test_the_size_that_a_display_asks_for() -> None:
    raw = HEAD + chunk(b"IDAT", zlib.compress(PIXELS)) + END
    data = {"image/png": base64.b64encode(raw).decode()}
    plain, sharp = picture_in(data, {}), picture_in(data, {"image/png": {"width": 1, "height": 1}})
    assert plain is not None
    assert sharp is not None
    assert (plain.width, plain.height, sharp.width, sharp.height) == (2, 1, 1, 1)
    assert picture_in({"text/plain": "x", "image/png": "%%%"}, {}) is None


def test_a_row_holds_a_few() -> None:
    pictures = [Picture("image/png", bytes(400_000), 10, 10)] * 3 + [Picture("image/png", b"x", 0, 0)] * 5
    shown, left_out = figure_data(pictures)
    assert len(shown) == 4
    assert left_out == ["image/png, 10 × 10, 400.0 kB", *["image/png, 1 B"] * 3]


# ---- the plugin ---------------------------------------------------------------------------------------------------


async def test_there_is_no_notebook_here() -> None:
    app = Kestrel(model="demo", plugins=[NotebookTools()])
    with pytest.raises(PluginError, match='plugin "notebook" could not start: there is no IPython shell here'):
        await app.initialize()
    await app.aclose()
