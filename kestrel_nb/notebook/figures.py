"""The figures of a call: images that view and record may draw, and words for those that they may not.

An image is drawn when it is a PNG, JPEG, GIF or WebP by its name and by its first bytes, whole base64, and small
enough. Nothing is fetched, and no SVG is drawn: it may act.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator
from typing import Any, TypedDict

from ..protocol.messages import ToolResultPart
from ..runtime.tables import figures_in
from .visible import one_line

WIDTH = 640  # pixels of the page
HEIGHT = 1_200
DRAWN = 4  # per row
NAMED = 12  # per row; more are counted
ROW_BYTES = 1_000_000  # per row, together
RUN_BYTES = 2_000_000  # of a whole run: they stay in the notebook's file
_PIXELS = 40_000_000  # a page needs four bytes for each, however small the file is
_SIDE = 65_535
_STARTS: dict[str, tuple[bytes, ...]] = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
}


class Figure(TypedDict, total=False):
    """``width`` and ``height`` are the image's own pixels, 0 when unknown; ``box`` is the size on the page.

    Without ``data`` it is not drawn, and ``why`` says the reason.
    """

    type: str
    bytes: int
    width: int
    height: int
    box: list[int]
    data: str
    why: str


def figures_of_data(data: Any) -> Iterator[Figure]:
    """What the data of a tool holds as ``figures``; see ``runtime.tables.figures_in``."""
    for figure in figures_in(data):
        yield _figure(str(figure["type"]), figure["data"], (figure.get("width"), figure.get("height")))


def figures_of_result(result: ToolResultPart) -> Iterator[Figure]:
    """The images that a tool result carries for the model."""
    for image in result.images:
        yield _figure(image.media_type, image.data or "", (None, None))


def added(old: list[Figure], count: int, new: Iterable[Figure], room: int) -> tuple[list[Figure], int]:
    """``old`` and what ``new`` has beside it, and how many there are with those that are only counted.

    ``room`` are the bytes that the rest of the run leaves.
    """
    figures = list(old)
    known = {figure["data"] for figure in old if "data" in figure}
    room = min(room, ROW_BYTES - bytes_of(old))
    for figure in new:
        data = figure.get("data")
        if data is not None and data in known:
            continue
        count += 1
        if len(figures) >= NAMED:
            continue
        if data is not None:
            figure = _fitted(figure, sum("data" in one for one in figures), room)
        if "data" in figure:
            known.add(figure["data"])
            room -= figure["bytes"]
        figures.append(figure)
    return figures, count


def bytes_of(figures: Iterable[Figure]) -> int:
    """The size of those that are drawn."""
    return sum(figure["bytes"] for figure in figures if "data" in figure)


def _fitted(figure: Figure, drawn: int, room: int) -> Figure:
    why = ""
    if figure["bytes"] > room:
        why = "too large to be drawn here"
    elif drawn >= DRAWN:
        why = f"only {DRAWN} are drawn here"
    if not why:
        return figure
    named: Figure = {**figure, "why": why}
    del named["data"]
    return named


def _figure(kind: str, text: str, said: tuple[Any, Any]) -> Figure:
    text = "".join(text.split())  # some encoders break the lines
    figure: Figure = {"type": one_line(kind, 40), "bytes": len(text) * 3 // 4, "width": 0, "height": 0, "box": [0, 0]}
    if len(text) > 2 * ROW_BYTES:
        figure["width"], figure["height"] = _size(kind, _decoded(text[:4096]) or b"")
        return {**figure, "why": "too large to be drawn here"}
    raw = _decoded(text)
    if not raw or not _is(kind, raw):
        return {**figure, "why": "no PNG, JPEG, GIF or WebP, so it is not drawn"}
    width, height = _size(kind, raw)
    if width * height > _PIXELS:
        return {**figure, "width": width, "height": height, "why": "too many pixels to be drawn here"}
    return {
        **figure,
        "bytes": len(raw),
        "width": width,
        "height": height,
        "box": _box(width, height, said),
        "data": text,
    }


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return None


def _box(width: int, height: int, said: tuple[Any, Any]) -> list[int]:
    """The size on the page: what the tool said when it has the image's own proportions, as of a picture for fine
    screens; at most WIDTH × HEIGHT."""
    across, down = (side if type(side) is int and 0 < side <= _SIDE else 0 for side in said)
    if across and down and (not width or abs(across * height - down * width) <= 2 * max(width, height)):
        width, height = across, down
    if not width or not height:
        return [0, 0]
    scale = min(1.0, WIDTH / width, HEIGHT / height)
    return [max(1, round(width * scale)), max(1, round(height * scale))]


# ---- what the bytes say -------------------------------------------------------------------------------------------


def _is(kind: str, raw: bytes) -> bool:
    if kind == "image/webp":
        return raw[:4] == b"RIFF" and raw[8:12] == b"WEBP"
    return raw.startswith(_STARTS[kind]) if kind in _STARTS else False


def _size(kind: str, raw: bytes) -> tuple[int, int]:
    """Width and height in pixels, from the image's header; 0, 0 when it does not tell."""
    if not _is(kind, raw):
        return 0, 0
    if kind == "image/png":
        return _big(raw, 16, 4), _big(raw, 20, 4)
    if kind == "image/gif":
        return _little(raw, 6, 2), _little(raw, 8, 2)
    return _size_of_jpeg(raw) if kind == "image/jpeg" else _size_of_webp(raw)


def _big(raw: bytes, at: int, size: int) -> int:
    return int.from_bytes(raw[at : at + size], "big")


def _little(raw: bytes, at: int, size: int) -> int:
    return int.from_bytes(raw[at : at + size], "little")


def _size_of_jpeg(raw: bytes) -> tuple[int, int]:
    """From the start-of-frame segment (ITU T.81, B.2.2)."""
    at = 2
    while at + 9 < len(raw) and raw[at] == 0xFF:
        marker = raw[at + 1]
        if marker == 0xFF:  # a fill byte
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return _big(raw, at + 7, 2), _big(raw, at + 5, 2)
        else:
            at += 2 + max(2, _big(raw, at + 2, 2))
    return 0, 0


def _size_of_webp(raw: bytes) -> tuple[int, int]:
    """From the first chunk: lossy, lossless or extended (RFC 9649, 2.5 to 2.7)."""
    chunk = raw[12:16]
    if chunk == b"VP8 ":
        return _little(raw, 26, 2) & 0x3FFF, _little(raw, 28, 2) & 0x3FFF
    if chunk == b"VP8L":
        bits = _little(raw, 21, 4)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return (_little(raw, 24, 3) + 1, _little(raw, 27, 3) + 1) if chunk == b"VP8X" else (0, 0)
