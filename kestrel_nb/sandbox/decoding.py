"""Undoing Content-Encoding in small pieces, so that a few bytes can't become gigabytes in memory."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final, Protocol

from .network_error import NetworkError

ACCEPTED: Final = "gzip, deflate"
PIECE: Final = 65_536  # bytes that one step may give
GZIP: Final = 16 + zlib.MAX_WBITS
NOTHING: Final = ("identity", "none", "binary", "utf-8", "utf8")  # no codings but for the first; servers write them
MAX_CODINGS: Final = 3  # one on top of the other; nobody needs more than one


class Decoder(Protocol):
    """Bytes in, bytes out, never more than PIECE at once."""

    def feed(self, data: bytes) -> Iterator[bytes]: ...
    def end(self) -> None: ...


class Identity:
    """Nothing to undo."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """``data`` as it is."""
        yield data

    def end(self) -> None:
        """Nothing can be missing."""


class Inflate:
    """gzip (also several members) or deflate, with the zlib header that the standard asks for or without it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._head = b""  # of deflate: the first byte alone does not say which kind it is
        self._known = name == "gzip"
        self._begun = False
        self._engine = zlib.decompressobj(GZIP)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What becomes of ``data``. Raises NetworkError when it is broken."""
        self._head, data = b"", self._head + data
        if not self._known:
            if len(data) < 2:
                self._head = data
                return
            self._known, self._engine = True, zlib.decompressobj(_window(data))
        more = bool(data)
        while more:
            piece, data = self._step(data)
            more = bool(data) or len(piece) == PIECE  # a full piece: the engine may hold back some more
            if piece:
                yield piece

    def end(self) -> None:
        """Raises NetworkError when the data stopped in the middle."""
        if self._head or (self._begun and not self._engine.eof):
            raise NetworkError(f"the answer broke off: its {self._name} data is not complete; try again")

    def _step(self, data: bytes) -> tuple[bytes, bytes]:
        if self._engine.eof:
            if self._name != "gzip" or not data.startswith(b"\x1f"):
                return b"", b""  # padding after the end, which everybody ignores
            self._engine = zlib.decompressobj(GZIP)
        self._begun = True
        try:
            piece = self._engine.decompress(data, PIECE)
        except zlib.error:
            raise NetworkError(f"the answer is broken: its {self._name} data can't be read") from None
        return piece, self._engine.unused_data if self._engine.eof else self._engine.unconsumed_tail


def _window(data: bytes) -> int:
    """The way to read ``deflate`` data: with the header of RFC 1950, or without, as some servers send it."""
    with_header = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
    return zlib.MAX_WBITS if with_header else -zlib.MAX_WBITS


class Chain:
    """Several codings, the outermost first."""

    def __init__(self, outer: Decoder, inner: Decoder) -> None:
        self._outer, self._inner = outer, inner

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What becomes of ``data`` in the end."""
        for piece in self._outer.feed(data):
            yield from self._inner.feed(piece)

    def end(self) -> None:
        """Raises NetworkError when the data of one of them stopped in the middle."""
        self._outer.end()
        self._inner.end()


def decoder(encoding: str) -> Decoder:
    """What undoes a Content-Encoding header. Raises NetworkError for a coding that was not asked for."""
    names = [name for part in encoding.lower().split(",") if (name := part.strip()) and name not in NOTHING]
    if len(names) > MAX_CODINGS:
        raise NetworkError("the answer is compressed several times over, and was not read")
    result: Decoder = Identity()
    for name in names:
        known = name.removeprefix("x-")
        if known not in ("gzip", "deflate"):
            raise NetworkError(f"the answer is compressed as {name[:40]!a}, which was not asked for and can't be read")
        result = Inflate(known) if isinstance(result, Identity) else Chain(Inflate(known), result)
    return result
