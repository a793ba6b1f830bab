"""Figures in the data of a tool: which are drawn, how large, and what is said of the others."""

from __future__ import annotations

import base64
import struct
import time
import zlib
from typing import Any

import pytest
from active_content import active
from sample_events import call, ended, make, play, ran, started

from kestrel_nb.frames import to_frame
from kestrel_nb.notebook.record import render
from kestrel_nb.notebook.wire import page_state
from kestrel_nb.protocol import events as ev
from kestrel_nb.protocol.messages import ImagePart, ToolCallPart, tool_message
from kestrel_nb.runtime.tables import table_of
from kestrel_nb.tool import result_of


def png(width: int, height: int, filler: int = 0) -> bytes:
    """A white PNG; ``filler`` is the size of a text chunk that makes it large."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\xff" * width) * min(height, 2000))
    text = [chunk(b"tEXt", b"k\0" + b"x" * filler)] if filler else []
    parts = [b"\x89PNG\r\n\x1a\n", chunk(b"IHDR", head), *text, chunk(b"IDAT", rows), chunk(b"IEND", b"")]
    return b"".join(parts)


def figure(raw: bytes, kind: str = "image/png", **more: Any) -> dict[str, Any]:
    return {"type": kind, "data": base64.b64encode(raw).decode(), **more}


def images(*figures: dict[str, Any]) -> list[dict[str, Any]]:
    return images_of({"columns": ["a"], "rows": [[1]], "figures": list(figures)})


def images_of(data: Any) -> list[dict[str, Any]]:
    row = play([*started(), *call("run_python", {"code": "x"}), *ran("run_python", "x", data)])["blocks"][-1]
    found: list[dict[str, Any]] = row["images"]
    return found


JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF" + b"\0" * 10 + b"\xff\xc0\x00\x11\x08\x00\x1e\x00\x28\x03" + b"\0" * 12
SIZES = [
    ("image/png", png(40, 30)),
    ("image/gif", b"GIF89a" + struct.pack("<HH", 40, 30) + b"\0" * 8),
    ("image/jpeg", JPEG),
    ("image/webp", b"RIFF\0\0\0\0WEBPVP8X" + b"\0" * 8 + b"\x27\0\0\x1d\0\0"),
    ("image/webp", b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f" + struct.pack("<I", 39 | 29 << 14)),
    ("image/webp", b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 40, 30)),
]


@pytest.mark.parametrize(("kind", "raw"), SIZES)
def test_the_size_is_read_from_the_image(kind: str, raw: bytes) -> None:
    (image,) = images(figure(raw, kind))
    assert (image["width"], image["height"], image["box"]) == (40, 30, [40, 30])
    assert "data" in image


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        ("image/svg+xml", b"<svg onload='alert(1)'/>"),
        ("image/png", b"<svg onload='alert(1)'/>"),
        ("image/jpeg", png(4, 4)),
        ("image/png", b""),
        ("image/x-icon", b"\0\0\1\0"),
        ('image/png" onerror="alert(1)', png(4, 4)),
    ],
)
def test_only_pictures_are_drawn(kind: str, raw: bytes) -> None:
    (image,) = images(figure(raw, kind))
    assert "data" not in image
    assert "not drawn" in image["why"]


@pytest.mark.parametrize("data", ["***", 'AAAA" onerror="x', "iVBORw0KGgo", "é" * 8])
def test_what_is_no_base64_is_not_drawn(data: str) -> None:
    (image,) = images({"type": "image/png", "data": data})
    assert "data" not in image


def test_broken_lines_of_base64_are_joined() -> None:
    text = base64.encodebytes(png(4, 4, filler=200)).decode()
    assert text.count("\n") > 1
    (image,) = images({"type": "image/png", "data": text})
    assert image["data"] == "".join(text.split())


@pytest.mark.parametrize(
    ("size", "said", "box"),
    [
        ((1280, 960), {}, [640, 480]),
        ((840, 300), {"width": 420, "height": 150}, [420, 150]),
        ((40, 30), {"width": 9000, "height": 1}, [40, 30]),
        ((40, 30), {"width": True, "height": -3}, [40, 30]),
        ((40, 30), {"width": "40", "height": None}, [40, 30]),
        ((10, 2000), {}, [6, 1200]),
    ],
)
def test_the_place_on_the_page(size: tuple[int, int], said: dict[str, Any], box: list[int]) -> None:
    (image,) = images(figure(png(*size), **said))
    assert image["box"] == box
    assert (image["width"], image["height"]) == size


def test_four_are_drawn_and_twelve_named() -> None:
    data = {"figures": [figure(png(n, n)) for n in range(1, 16)]}
    state = play([*started(), *call("plot", {}), *ran("plot", "", data), *ended()])
    row = state["blocks"][-1]
    assert ["data" in image for image in row["images"]] == [True] * 4 + [False] * 8
    assert row["result"] == "15 figures"
    text = render(state)["text/plain"]
    assert "Figure 5 of 15, 5 × 5 px, 1 kB, only 4 are drawn here" in text
    assert "3 figures more" in text


def test_a_row_and_a_run_have_room_for_so_much() -> None:
    half = [figure(png(40, 30, filler=450_000 + n)) for n in range(8)]
    events = started()
    for n in range(3):
        events += [*call("plot", {}, f"c{n}"), *ran("plot", "", {"figures": half[2 * n : 2 * n + 3]}, f"c{n}")]
    rows = play(events)["blocks"]
    drawn = [["data" in image for image in row["images"]] for row in rows]
    assert drawn == [[True, True, False], [True, True, False], [False, False, False]]
    assert rows[0]["images"][2]["why"] == "too large to be drawn here"


def test_one_figure_is_drawn_once() -> None:
    raw = png(40, 30)
    part = ToolCallPart(id="call_1", name="plot", arguments={}, raw_arguments="{}")
    image = ImagePart(media_type="image/png", data=base64.b64encode(raw).decode())
    message = make(ev.MessageCompleted, message=tool_message(part, "ok", images=(image,)))
    twice = {"figures": [figure(raw), figure(raw)]}
    for news in ([*ran("plot", "", twice), message], [message, *ran("plot", "", twice)]):
        row = play([*started(), *call("plot", {}), *news])["blocks"][-1]
        assert (len(row["images"]), row["result"]) == (1, "1 figure")


def test_a_figure_of_200_kb_stays_and_one_of_3_mb_is_said() -> None:
    for size, kept in ((200_000, True), (3_000_000, False)):
        data = {"columns": ["a"], "rows": [[n] for n in range(300)], "figures": [figure(png(800, 600, filler=size))]}
        state = play([*started(), *call("plot", {}), *ran("plot", "text", data), *ended()])
        bundle = render(state)
        assert ("<img" in bundle["text/html"]) is kept
        assert "800 × 600 px" in bundle["text/html"]
        assert bundle["text/html"].count("<tr>") == 21  # the rows stay, however large the figure is
        assert "800 × 600 px" in bundle["text/plain"]
        assert "iVBOR" not in bundle["text/plain"] + bundle["text/markdown"]
        assert [what for what in active(bundle["text/html"]) if "img" not in what] == []


def test_the_row_has_figures_then_text_then_the_table() -> None:
    data = {
        "columns": ["month", "mm"],
        "rows": [["July", 12.5]],
        "dtypes": ["str", "float64"],
        "figures": [figure(png(40, 30))],
        "variables": {"new": ["rain"], "changed": [], "gone": []},
    }
    state = play([*started(), *call("run_python", {"code": "a\nb"}), *ran("run_python", "printed", data), *ended()])
    body = render(state)["text/html"].split("</style>")[1]
    places = [body.index(part) for part in (">a\nb<", '<img width="40" height="30"', ">printed<", ">July<")]
    assert places == sorted(places)
    assert "variables" not in body
    assert '<details class="kestrel-tool" data-state="done" open>' in body
    row = page_state(state)["blocks"][-1]
    assert (row["images"][0]["words"], row["text_too"]) == ("Figure 1 of 1, 40 × 30 px, 1 kB", True)


def test_figures_of_an_old_row_stay_while_its_text_is_cut() -> None:
    events = started()
    for n in range(30):
        data = {"columns": ["a"], "rows": [["x" * 79]] * 200, "figures": [figure(png(8 + n, 8))]}
        events += [*call("plot", {}, f"c{n}"), *ran("plot", "", data, f"c{n}")]
    rows = page_state(play(events))["blocks"]
    assert len(rows[0]["table"]["rows"]) == 10
    assert ["data" in row["images"][0] for row in rows] == [True] * 30


@pytest.mark.parametrize(
    ("data", "columns", "beside"),
    [
        ({"columns": ["a"], "rows": [[1]], "dtypes": ["int64"], "variables": {}}, ["a"], {"figures", "variables"}),
        ({}, ["key", "value"], {"figures"}),
        ({"total": 3}, ["key", "value"], {"figures"}),
        ({"a": [1], "b": [2]}, ["a", "b"], {"figures"}),
        ({"matches": [{"p": 1}]}, ["p"], {"figures"}),
    ],
)
def test_a_frame_has_the_figures_beside_its_rows(data: dict[str, Any], columns: list[str], beside: set[str]) -> None:
    big = figure(png(40, 30, filler=1_000_000))
    began = time.monotonic()
    frame = to_frame({**data, "figures": [big]})
    text = repr(frame) + frame._repr_html_() + repr(frame.head(1) if len(frame) else frame)
    assert time.monotonic() - began < 3
    assert list(frame.columns) == columns
    assert set(frame.attrs) == beside
    assert frame.attrs["figures"] == [big]
    assert "iVBOR" not in text


def test_a_table_of_the_view_has_no_figures_in_it() -> None:
    data = {"total": 3, "figures": [figure(png(40, 30))]}
    row = play([*started(), *call("q", {}), *ran("q", "", data)])["blocks"][-1]
    assert row["table"]["rows"] == [["total", "3"]]
    assert row["result"] == "1 figure"


def test_a_decorated_tool_shows_figures_and_the_model_reads_none() -> None:
    result = result_of({"columns": ["a"], "rows": [[1]], "figures": [figure(png(40, 30))]})
    assert result.content == '{"columns": ["a"], "rows": [[1]]}\n[1 figure, which the person sees]'
    assert result.data["figures"][0]["type"] == "image/png"
    state = play([*started(), *call("plot", {}), *ran("plot", result.content, result.data), *ended()])
    body = render(state)["text/html"].split("</style>")[1]
    assert "which the person" not in body  # figures and table say it all
    assert body.count("<img") == 1


def test_figures_that_are_no_pictures_are_data() -> None:
    data = {"figures": [{"year": 2024, "sales": 3}, {"year": 2025, "sales": 4}]}
    assert table_of(data).names == ["year", "sales"]
    assert images_of(data) == []
    row = play([*started(), *call("q", {}), *ran("q", "", data)])["blocks"][-1]
    assert row["table"]["columns"] == ["year", "sales"]
