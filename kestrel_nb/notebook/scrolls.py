"""What code has written, displayed and given, in order and bounded: its head, its tail, and how much there was."""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from ..sandbox.output import without_terminal_codes

KEPT = 24_000  # characters of the head, and of the tail, while the code runs; the model reads less
ENTRIES = 4_000  # of either: a table of displays costs more than its characters

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]{4,}")
_POINTER = re.compile(r"\b0x[0-9a-fA-F]{9,}\b")
_PATH = r"(?:[A-Za-z]:)?[^\s\"'<>:]{0,300}"
_CELL_FILE = re.compile(_PATH + r"ipykernel_\d+[/\\]\d+\.py|<ipython-input-[\w-]+>")
_LIBRARY = re.compile(_PATH + r"[/\\](?:site-packages|dist-packages|lib[/\\]python3\.\d+)[/\\]")


@dataclass(slots=True)
class Entry:
    """A piece of output. ``kind``: stdout, stderr, or shown for everything that stands on lines of its own."""

    kind: str
    text: str


class Scroll:
    """Pieces in the order of writing. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._start()

    def _start(self) -> None:
        self._head: list[Entry] = []
        self._tail: deque[Entry] = deque()
        self._room, self._tail_size = KEPT, 0
        self.total = 0

    def clear(self) -> None:
        """Forget everything: what ``clear_output`` does."""
        with self._lock:
            self._start()

    def add(self, kind: str, text: str) -> Entry:
        """Append ``text``; the entry may be changed later, as an updated display is."""
        with self._lock:
            self.total += len(text)
            if len(self._head) >= ENTRIES:
                self._room = 0
            if self._room and len(text) <= self._room:
                return self._to_head(kind, text)
            if self._room:
                self._to_head(kind, text[: self._room])
                text = text[-KEPT:] if len(text) - self._room > KEPT else text[self._room :]
                self._room = 0
            return self._to_tail(kind, text[-KEPT:])

    def _to_head(self, kind: str, text: str) -> Entry:
        self._room -= len(text)
        last = self._head[-1] if self._head else None
        if last is not None and last.kind == kind != "shown" and len(last.text) < 1_000:
            last.text += text
            return last
        self._head.append(Entry(kind, text))
        return self._head[-1]

    def _to_tail(self, kind: str, text: str) -> Entry:
        last = self._tail[-1] if self._tail else None
        if last is not None and last.kind == kind != "shown" and len(last.text) + len(text) < 1_000:
            last.text += text
        else:
            last = Entry(kind, text)
            self._tail.append(last)
        self._tail_size += len(text)
        while len(self._tail) > 1 and (self._tail_size - len(self._tail[0].text) >= KEPT or len(self._tail) > ENTRIES):
            self._tail_size -= len(self._tail.popleft().text)
        return last

    def text(self, limit: int) -> str:
        """All of it as a terminal would show it, or its head and tail around a line that says what is left out."""
        with self._lock:
            head, tail = list(self._head), list(self._tail)
            kept = sum(len(entry.text) for entry in (*head, *tail))
            lost = self.total - kept
        if lost <= 0:
            return middle_cut(_joined([*head, *tail]), limit)
        first, last = _joined(head), _joined(tail)
        return _around(first, last, lost + len(first) + len(last), limit)


def middle_cut(text: str, limit: int) -> str:
    """``text``, or its head and tail of about ``limit`` characters around a line that says what is left out."""
    return text if len(text) <= limit else _around(text, text, len(text), limit)


def _around(first: str, last: str, total: int, limit: int) -> str:
    limit = max(0, limit - 50)  # the line itself
    head = first[: limit * 3 // 5]
    tail = last[-(limit - len(head)) :]
    left_out = max(0, total - len(head) - len(tail))
    return f"{head.rstrip()}\n[{left_out:,} characters left out]\n{tail.lstrip()}"


def _joined(entries: Iterable[Entry]) -> str:
    """One text. stderr is marked only where there is other output for it to be mistaken for."""
    entries = [entry for entry in entries if entry.text]
    mixed = len({entry.kind == "stderr" for entry in entries}) > 1
    parts: list[str] = []
    before = ""
    for entry in entries:
        if before and (entry.kind != before or entry.kind == "shown") and not parts[-1].endswith("\n"):
            parts.append("\n")
        if mixed and entry.kind == "stderr" != before:
            parts.append("[stderr]\n")
        elif mixed and before == "stderr" != entry.kind:
            parts.append("[end of stderr]\n")
        parts.append(entry.text)
        before = entry.kind
    return as_shown("".join(parts))


def as_shown(text: str) -> str:
    """``text`` without colours, with each line as the carriage returns in it have left it."""
    text = without_terminal_codes(text).replace("\r\n", "\n")
    if "\r" not in text:
        return text
    return "\n".join(_overwritten(line) for line in text.split("\n"))


def _overwritten(line: str) -> str:
    shown = ""
    for part in line.split("\r"):
        shown = part + shown[len(part) :]
    return shown


def stable(text: str) -> str:
    """``text`` without what differs each time that, or wherever, the same code runs: addresses, and files of cells
    and of libraries by their whole path."""
    if "0x" in text:
        text = _POINTER.sub("0x…", _ADDRESS.sub("", text))
    if "ipykernel_" in text or "<ipython-" in text:
        text = _CELL_FILE.sub("<cell>", text)
    return _LIBRARY.sub("", text) if "-packages" in text or "python3." in text else text
