"""HTTP/1.1 as a client of models needs it (RFC 9112), from and to bytes; the sockets are in ``connections.py``.

A stream of tokens is thousands of small chunks. They are taken out of their frames here all at once, as many as a
read brought, which is what makes a streamed token cheap.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

MAX_HEAD_BYTES: Final = 64 * 1024
MAX_LINE_BYTES: Final = 8 * 1024  # the size of a chunk, with extensions; a trailer
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: [^\r\n]*)?")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\x00]*?)[ \t]*")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?")
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_LINE_END = re.compile(rb"\r?\n")


class HttpError(OSError):
    """What came is no HTTP, or stopped within an answer."""


class Dropped(HttpError):
    """The server closed the connection before it had answered."""


def request_bytes(method: str, target: bytes, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> bytes:
    """One request as it is sent. What the headers hold was checked before: a line break in one would be another."""
    lines = [method.encode() + b" " + target + b" HTTP/1.1", *(name + b": " + value for name, value in headers)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


class ResponseReader:
    """Reads one answer: ``feed`` it what comes until ``status`` is there, then take the body until ``ended``.

    ``headers`` have names in lower case. ``reusable`` says, at the end, that the connection can carry another request.
    """

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.ended = False
        self.reusable = False
        self._rest = b""
        self._left = 0  # of the chunk, or of the body with a known length
        self._chunked = self._until_close = self._in_trailers = self._after_chunk = False

    def feed(self, data: bytes) -> bytes:
        """Take what came; returns the bytes of the body in it. Raises HttpError."""
        if not self.status:
            data = self._head(self._rest + data)
            if not self.status:
                return b""
        if self.ended:
            self.reusable = self.reusable and not data  # more than was announced: what it means nobody knows
            return b""
        if self._chunked:
            return self._chunks(self._rest + data)
        if self._until_close:
            return data
        body, more = data[: self._left], data[self._left :]
        self._left -= len(body)
        if not self._left:
            self.ended = True
            self.reusable = self.reusable and not more
        return body

    def close(self) -> None:
        """The server closed the connection. Raises HttpError where that is not the end of the answer."""
        if not self.status:
            raise Dropped("the server closed the connection without an answer")
        if not self._until_close and not self.ended:
            raise HttpError("the server closed the connection before the end of its answer")
        self.ended = True
        self.reusable = False

    # ---- the head -------------------------------------------------------------------------------------------------

    def _head(self, data: bytes) -> bytes:
        """Read the head if all of it is there; returns what follows it."""
        start = max(0, len(self._rest) - 3)  # what came before holds no end of a head
        while True:
            end = _HEAD_END.search(data, start)
            if end is None:
                if len(data) > MAX_HEAD_BYTES or not b"HTTP/1."[: len(data)] == data[:7]:
                    raise HttpError("the answer is no HTTP")
                self._rest = data
                return b""
            first, *lines = _LINE_END.split(data[: end.start()])
            data, start = data[end.end() :], 0
            match = _STATUS.fullmatch(first)
            if match is None:
                raise HttpError("the answer is no HTTP")
            status = int(match[2])
            if status >= 200:
                break
        self._rest = b""
        self.status = status
        self._read_headers(lines)
        self._frame(keeps=match[1] == b"1")
        return data

    def _read_headers(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            match = _HEADER.fullmatch(line)
            if match is None:
                raise HttpError("the answer has a header of an unknown form")
            name, value = match[1].decode("ascii").lower(), match[2].decode("latin-1")
            self.headers[name] = f"{self.headers[name]}, {value}" if name in self.headers else value

    def _frame(self, *, keeps: bool) -> None:
        """Find out where the body ends."""
        coding = self.headers.get("transfer-encoding")
        length = self.headers.get("content-length")
        self.reusable = keeps and "close" not in self.headers.get("connection", "").lower()
        if self.status in (204, 304):
            self.ended = True
        elif coding is not None:
            if coding.strip().lower() != "chunked":
                raise HttpError("the answer is framed in an unknown way")
            self._chunked = True
            self.reusable = self.reusable and length is None  # both at once may be two answers to somebody else
        elif length is not None:
            sizes = {part.strip() for part in length.split(",")}
            if len(sizes) != 1 or not re.fullmatch(r"[0-9]{1,18}", size := sizes.pop()):
                raise HttpError("the answer has a length that can't be")
            self._left = int(size)
            self.ended = not self._left
        else:
            self._until_close = True

    # ---- a chunked body -------------------------------------------------------------------------------------------

    def _chunks(self, data: bytes) -> bytes:
        found: list[bytes] = []
        at = 0
        while not self.ended:
            if self._left:
                piece = data[at : at + self._left]
                at += len(piece)
                self._left -= len(piece)
                found.append(piece)
                if self._left:
                    break
                self._after_chunk = True
            end = data.find(b"\n", at)
            if end < 0:
                break
            line = data[at : end - 1] if data[end - 1 : end] == b"\r" and end > at else data[at:end]
            at = end + 1
            self._line(line)
        self._rest = data[at:]
        if self.ended:
            self.reusable = self.reusable and not self._rest
        elif len(self._rest) > MAX_LINE_BYTES:
            raise HttpError("a chunk of the answer has no size")
        return b"".join(found)

    def _line(self, line: bytes) -> None:
        """A line between chunks: the end of one, the size of the next, or a trailer."""
        if self._after_chunk:
            if line:
                raise HttpError("a chunk of the answer is longer than was said")
            self._after_chunk = False
        elif self._in_trailers:
            self.ended = not line
        else:
            match = _SIZE.fullmatch(line)
            if match is None:
                raise HttpError("a chunk of the answer has no size")
            self._left = int(match[1], 16)
            self._in_trailers = not self._left
