"""Bytes to events: server-sent events as the WHATWG defines them, and JSON lines. Bytes may be cut anywhere.

Lines are split in bytes, before decoding: text iterators also split at U+2028, U+2029 and U+0085, which stand raw
inside JSON strings, and a character may be cut in half by a read.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ..protocol.errors import ModelRequestError

MAX_LINE_BYTES: Final = 32 * 1024 * 1024  # one whole reply as a single event is a few megabytes at most
BOM: Final = b"\xef\xbb\xbf"


class ServerSentEvent(NamedTuple):
    """One dispatched event: its type ("" where none was given) and its data, lines joined by a newline."""

    event: str
    data: str


class SseSplitter:
    """Splits the bytes of a ``text/event-stream``. What no blank line ended is never given out."""

    def __init__(self) -> None:
        self._line: list[bytes] = []  # the beginning of a line; joined once it is whole, however many reads it takes
        self._line_size = self._data_size = 0
        self._begun = self._after_cr = False
        self._event = ""
        self._data: list[bytes] = []

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """The events that ``data`` completes. Raises ModelRequestError for a line or an event beyond all bounds."""
        if not self._begun:
            data = self._begin(data)
        if self._after_cr and data:
            self._after_cr = False
            data = data.removeprefix(b"\n")  # the other half of a CRLF
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in data:
            self._keep(data)
            return []
        *lines, rest = data.split(b"\n")
        if self._line:
            lines[0] = b"".join(self._line) + lines[0]
            self._line.clear()
            self._line_size = 0
        self._keep(rest)
        return self._events(lines)

    def _begin(self, data: bytes) -> bytes:
        """Take a byte order mark away, which may come in pieces."""
        data = b"".join(self._line) + data
        self._line.clear()
        self._line_size = 0
        if len(data) < len(BOM) and BOM.startswith(data):
            self._keep(data)
            return b""
        self._begun = True
        return data.removeprefix(BOM)

    def _keep(self, part: bytes) -> None:
        if part:
            self._line.append(part)
            self._line_size += len(part)
            if self._line_size > MAX_LINE_BYTES:
                raise too_long()

    def _events(self, lines: list[bytes]) -> list[ServerSentEvent]:
        found: list[ServerSentEvent] = []
        for line in lines:
            if not line:
                if self._data:
                    text = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
                    found.append(ServerSentEvent(self._event, text.decode("utf-8", "replace")))
                    self._data.clear()
                    self._data_size = 0
                self._event = ""
            elif line[:6] == b"data: ":
                self._add(line[6:])
            else:
                self._field(line)
        return found

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._add(value.removeprefix(b" "))
        elif name == b"event":
            self._event = value.removeprefix(b" ").decode("utf-8", "replace")

    def _add(self, value: bytes) -> None:
        self._data.append(value)
        self._data_size += len(value) + 1
        if self._data_size > MAX_LINE_BYTES:
            raise too_long()


class JsonLineSplitter:
    """Splits newline-delimited JSON. The last line may lack its newline: ``end`` gives it."""

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that ``data`` completes, blank ones left out. Raises ModelRequestError as ``SseSplitter`` does."""
        lines: list[bytes] = []
        if b"\n" in data:
            *lines, data = data.split(b"\n")
            lines[0] = b"".join(self._line) + lines[0]
            self._line.clear()
            self._size = 0
        if data:
            self._line.append(data)
            self._size += len(data)
        if self._size > MAX_LINE_BYTES:
            raise too_long()
        return [line for line in lines if line.strip()]

    def end(self) -> list[bytes]:
        """What stood after the last newline."""
        rest = b"".join(self._line)
        self._line.clear()
        return [rest] if rest.strip() else []


def too_long() -> ModelRequestError:
    """The error for a line that never ends."""
    return ModelRequestError(
        f"the model's server sent a line of more than {MAX_LINE_BYTES:,} bytes; is the base URL that of a model?",
        code="broken_reply",
    )
