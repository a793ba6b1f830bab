"""Bytes to events: server-sent events as the WHATWG defines them, and JSON lines. Bytes may be cut anywhere.

Lines are split in bytes, before decoding: text iterators also split at U+2028, U+2029 and U+0085, which stand raw
inside JSON strings, and a character may be cut in half by a read.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ..protocol.errors import ModelRequestError

MAX_LINE_BYTES = 32 * 1024 * 1024  # one whole reply as a single event is a few megabytes at most
BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r")


class ServerSentEvent(NamedTuple):
    """One dispatched event: its type ("" where none was given) and its data, lines joined by a newline."""

    event: str
    data: str


class SseSplitter:
    """Splits the bytes of a ``text/event-stream``. What no blank line ended is never given out."""

    def __init__(self) -> None:
        self._rest = b""
        self._first = True
        self._event = ""
        self._data: list[bytes] = []

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """The events that ``data`` completes. Raises ModelRequestError for a line beyond all bounds."""
        self._rest += data
        if self._first:
            if BOM.startswith(self._rest[:3]) and len(self._rest) < 3:
                return []
            self._first = False
            self._rest = self._rest.removeprefix(BOM)
        # What nearly every server sends, lines that end in LF alone, is split at C's speed.
        plain = not self._data and not self._event and b"\r" not in self._rest
        events = self._plain() if plain else self._any()
        if len(self._rest) > MAX_LINE_BYTES:
            raise too_long()
        return events

    def _plain(self) -> list[ServerSentEvent]:
        """The complete events of what came; lines that no blank line followed yet stay."""
        end = self._rest.rfind(b"\n\n")
        if end < 0:
            return []
        blocks, self._rest = self._rest[:end].split(b"\n\n"), self._rest[end + 2 :]
        events: list[ServerSentEvent] = []
        for block in blocks:
            if block.startswith(b"data: ") and b"\n" not in block:
                events.append(ServerSentEvent("", block[6:].decode("utf-8", "replace")))
            else:
                events += self._lines([*block.split(b"\n"), b""])
        return events

    def _any(self) -> list[ServerSentEvent]:
        # A CR at the end may be half of a CRLF: it waits for the next byte.
        ready = len(self._rest) - self._rest.endswith(b"\r")
        *lines, last = _LINE_END.split(self._rest[:ready])
        self._rest = last + self._rest[ready:]
        return self._lines(lines)

    def _lines(self, lines: list[bytes]) -> list[ServerSentEvent]:
        return [event for line in lines if (event := self._line(line)) is not None]

    def _line(self, line: bytes) -> ServerSentEvent | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        return None

    def _dispatch(self) -> ServerSentEvent | None:
        event, data = self._event, self._data
        self._event, self._data = "", []
        return ServerSentEvent(event, b"\n".join(data).decode("utf-8", "replace")) if data else None


class JsonLineSplitter:
    """Splits newline-delimited JSON. The last line may lack its newline: ``end`` gives it."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that ``data`` completes, blank ones left out. Raises ModelRequestError as ``SseSplitter`` does."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_LINE_BYTES:
            raise too_long()
        return [line for line in lines if line.strip()]

    def end(self) -> list[bytes]:
        """What stood after the last newline."""
        rest, self._rest = self._rest, b""
        return [rest] if rest.strip() else []


def too_long() -> ModelRequestError:
    """The error for a line that never ends."""
    return ModelRequestError(
        f"the model's server sent a line of more than {MAX_LINE_BYTES:,} bytes; is the base URL that of a model?",
        code="broken_reply",
    )
