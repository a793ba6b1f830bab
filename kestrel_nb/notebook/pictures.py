"""Images that code has drawn: PNGs without what differs between machines, within what a row of a record may hold."""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..sandbox.output import size_text

SHOWN = 4  # per call, as in a record's row
BYTES = 1_000_000  # per call, together
TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_KEPT = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND")  # what pixels are made of; the rest is text, times, resolution
_PIXEL_BYTES = 64_000_000  # unpacked; a larger image is left as it is


@dataclass(frozen=True, slots=True)
class Picture:
    """One image: ``raw`` are its bytes, ``width`` and ``height`` pixels on the page, 0 when unknown."""

    type: str
    raw: bytes
    width: int
    height: int


def picture_in(data: Mapping[str, Any], metadata: Mapping[str, Any]) -> Picture | None:
    """The image of a display's MIME bundle, or None."""
    for kind in TYPES:
        raw = _bytes(data.get(kind))
        if raw:
            clean = plain_png(raw) if kind == "image/png" else raw
            return Picture(kind, clean, *_size(clean, metadata.get(kind)))
    return None


def _bytes(value: Any) -> bytes:
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    try:
        return base64.b64decode(value, validate=False) if isinstance(value, str) else b""
    except (binascii.Error, ValueError):
        return b""


def _size(raw: bytes, said: Any) -> tuple[int, int]:
    """What the display asks for, as a sharp figure does that is drawn at half its size; else the pixels of a PNG."""
    if isinstance(said, Mapping):
        width, height = said.get("width"), said.get("height")
        if type(width) is int and type(height) is int and width > 0 and height > 0:
            return width, height
    if raw[:8] == _SIGNATURE and len(raw) >= 24:
        return struct.unpack(">II", raw[16:24])
    return 0, 0


def plain_png(raw: bytes) -> bytes:
    """The same pixels packed in one way, without text, times and resolution; ``raw`` itself when it is no whole PNG."""
    try:
        chunks = list(_chunks(raw))
        unpack = zlib.decompressobj()
        pixels = unpack.decompress(b"".join(body for kind, body in chunks if kind == b"IDAT"), _PIXEL_BYTES)
    except (ValueError, struct.error, zlib.error):
        return raw
    if not unpack.eof or [kind for kind, _ in chunks][-1:] != [b"IEND"]:
        return raw
    parts = [_SIGNATURE]
    packed = False
    for kind, body in chunks:
        if kind == b"IDAT" and not packed:
            parts.append(_chunk(kind, zlib.compress(pixels, 9)))
            packed = True
        elif kind != b"IDAT":
            parts.append(_chunk(kind, body))
    return b"".join(parts)


def _chunks(raw: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The chunks that are kept. Raises ValueError when it is none of the format, struct.error when it breaks off."""
    if raw[:8] != _SIGNATURE:
        raise ValueError("no PNG")
    at = 8
    while at < len(raw):
        size, kind = struct.unpack_from(">I4s", raw, at)
        if at + 12 + size > len(raw):
            raise ValueError("it breaks off")
        if kind in _KEPT:
            yield kind, raw[at + 8 : at + 8 + size]
        elif kind[:1].isupper() or kind == b"acTL":
            raise ValueError("an animation, or pixels in a way of their own")
        at += 12 + size


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def figure_data(pictures: list[Picture]) -> tuple[list[dict[str, Any]], list[str]]:
    """The images as data for clients, as many as there is room for, and a line for each of the others."""
    shown: list[dict[str, Any]] = []
    left_out: list[str] = []
    room = BYTES
    for picture in pictures:
        if len(shown) == SHOWN or len(picture.raw) > room:
            size = f"{picture.width} × {picture.height}, " if picture.width else ""
            left_out.append(f"{picture.type}, {size}{size_text(len(picture.raw))}")
            continue
        room -= len(picture.raw)
        encoded = base64.b64encode(picture.raw).decode("ascii")
        shown.append({"type": picture.type, "data": encoded, "width": picture.width, "height": picture.height})
    return shown, left_out
