"""A file as blocks of whole lines, so that a large one is searched in little memory; binary files have none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO

from .text import damaged_utf8, decode, is_wide

BLOCK = 1 << 20
MAX_WHOLE = 64 << 20  # of a file in UTF-16 or UTF-32, which is read whole, and of one line
_UTF8_MARK = b"\xef\xbb\xbf"
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")


class Chunk:
    """Whole lines of a file as bytes in a superset of ASCII, or ``wide``; ``first`` is the number of the first."""

    __slots__ = ("_text", "data", "first")

    def __init__(self, data: bytes, first: int, text: str | None = None) -> None:
        self.data = data
        self.first = first
        self._text = text

    @property
    def wide(self) -> bool:
        """Whether the file is UTF-16 or UTF-32; then there is no ``data``."""
        return not self.data

    @property
    def text(self) -> str:
        """The lines as text, without CRLF."""
        if self._text is None:
            self._text = _plain(_decoded(self.data))
        return self._text


def chunks(data: bytes, more: BinaryIO | None) -> Iterator[Chunk]:
    """The text of a file that begins with ``data`` and goes on with what ``more`` gives."""
    if b"\0" in data or data.startswith(_WIDE_MARKS):
        if is_wide(data):
            whole = decode(data + (more.read(MAX_WHOLE) if more else b""), guess=False)
            if whole and whole.text:
                yield Chunk(b"", 1, _plain(whole.text))
            return
        if b"\0" in data:
            return
    data = data.removeprefix(_UTF8_MARK)
    if more:
        yield from _blocks(data, more)
    elif data:
        yield Chunk(data, 1)


def _blocks(data: bytes, more: BinaryIO) -> Iterator[Chunk]:
    end = os.fstat(more.fileno()).st_size  # a file may grow faster than it is searched
    parts: list[bytes] = []  # of a line that has not ended yet
    first, size = 1, 0
    while data:
        if b"\0" in data or size > MAX_WHOLE:
            return
        whole = data.rfind(b"\n") + 1
        if whole:
            block = b"".join([*parts, data[:whole]])
            yield Chunk(block, first)
            first += block.count(b"\n")
            parts, size = [], 0
        if whole < len(data):
            parts.append(data[whole:])
            size += len(data) - whole
        data = more.read(max(0, min(BLOCK, end - more.tell())))
    if parts:
        yield Chunk(b"".join(parts), first)


def _decoded(data: bytes) -> str:
    """As UTF-8 if it is, perhaps with some bad bytes; else every byte string is text in the last of the others."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        if damaged_utf8(data) is not None:
            return data.decode("utf-8", "replace")
    try:
        return data.decode("cp1252")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n") if "\r" in text else text
