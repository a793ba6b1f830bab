"""The file of a cassette: JSON Lines, one entry a line, the first one a header.

An entry is appended in one piece, so a process that dies leaves whole lines and at most the beginning of one more,
which is left out when the file is read. Whoever may write holds a lock on the file. Nothing is written before the first
entry.
"""

from __future__ import annotations

import codecs
import json
import os
import shutil
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from ..protocol.codec import loads
from ..protocol.errors import CodecError, StoreError, UsageError
from ..protocol.json_text import DOCUMENT_DEPTH
from ..runtime.file_lease import try_lock

VERSION: Final = 1
CONFLICT: Final = (b"<<<<<<< ", b"||||||| ", b"=======", b">>>>>>> ")  # how lines of an unfinished merge begin
BACKUP: Final = ".bak"  # what was there before a recording that begins anew

Entry = Mapping[str, Any]


class CassetteFile:
    """One file on the disk, read at once and written entry by entry. ``shown`` is its name for people."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(os.path.expanduser(path))
        self.shown = path
        self._fd: int | None = None
        self._made = False  # by this object, and empty still
        self._end = 0  # where the next entry goes: behind the last whole line
        self._size = 0  # of the file, when it was read or written last
        self._open_line = False  # the last entry has no line end behind it

    def read(self, *, to_replace: bool = False) -> tuple[list[Entry], str]:
        """The header and the entries, and what was left out, "" when nothing was. An empty file has none.

        Raises UsageError for what is no cassette, was written by a newer version, or is damaged behind its header;
        damage does no harm where it is read ``to_replace`` it.
        """
        self._must_be_a_file()
        try:
            with open(self.path, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            raise UsageError(f"there is no cassette {self.shown}; %kestrel record {self.shown} makes one") from None
        except OSError as error:
            raise UsageError(f"{self.shown} can't be read ({error.strerror or error})") from None
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise UsageError(f"{self.shown} was saved as UTF-16; a cassette is UTF-8: save it as that again")
        *lines, last = data.split(b"\n")
        self._open_line = _parsed(last) is not None  # an editor, or git, took the last line end away
        torn = bool(last.strip()) and not self._open_line
        self._size = len(data)
        self._end = len(data) - (len(last) if torn else 0)
        whole = [*lines, last] if self._open_line else lines
        rows = [(number, line) for number, line in enumerate(whole, 1) if line.strip()]
        if to_replace:
            rows = rows[:1] + [row for row in rows[1:] if _parsed(row[1]) is not None]
        entries = [self._entry(line, number) for number, line in rows]
        if entries:
            self._check_header(entries[0])
        elif torn:
            raise self._no_cassette()
        note = f"{self.shown}: its last line is not whole and was left out; its recording was cut off" if torn else ""
        return entries, note

    def open_for_writing(self) -> None:
        """Make sure that entries can be written, and that nobody else writes. Raises UsageError."""
        if self._fd is not None:
            return
        self._must_be_a_file()
        there = os.path.exists(self.path)
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        except OSError as error:
            raise UsageError(f"{self.shown} can't be written ({error.strerror or error})") from None
        if not try_lock(fd):
            os.close(fd)
            raise UsageError(f"another notebook or program is recording into {self.shown}; take another name")
        self._fd, self._made = fd, not there

    @property
    def has_entries(self) -> bool:
        """True when there is something to be read."""
        try:
            return os.path.getsize(self.path) > 0
        except (OSError, ValueError):
            return False

    @property
    def writable(self) -> bool:
        """True between ``open_for_writing`` and ``close``."""
        return self._fd is not None

    @property
    def has_changed(self) -> bool:
        """True when the file has another size than when it was read or written last, or is gone."""
        try:
            return os.path.getsize(self.path) != self._size
        except OSError:
            return True

    def begin_anew(self, *, keep: bool) -> None:
        """Go on with an empty file; ``keep``: put beside it what it holds. Raises StoreError."""
        if self._end:
            if keep:
                self._guarded(self._put_aside)
            self._end, self._open_line = 0, False

    def check_backup(self) -> None:
        """Raise UsageError when what the file holds could not be put beside it."""
        backup = self.path + BACKUP
        place = backup if os.path.exists(backup) else os.path.dirname(backup)
        if os.path.isdir(backup) or not os.access(place, os.W_OK):
            raise UsageError(
                f"{self.shown}{BACKUP}, where its recording would be kept, can't be written; take another name"
            )

    def _put_aside(self) -> None:
        self._check_unchanged()
        shutil.copyfile(self.path, self.path + BACKUP)

    def write(self, entry: Entry) -> None:
        """Append ``entry``. Raises StoreError, and nothing of it is in the file then."""
        self._guarded(lambda: self._append(_line(entry)))

    def _append(self, data: bytes) -> None:
        fd = self._check_unchanged()
        data = b"\n" + data if self._open_line else data
        os.ftruncate(fd, self._end)  # also takes away what a recording that was cut off has left
        os.lseek(fd, self._end, os.SEEK_SET)
        try:
            rest = data
            while rest:
                rest = rest[os.write(fd, rest) :]
        except BaseException:
            with suppress(OSError):
                os.ftruncate(fd, self._end)
            with suppress(OSError):
                self._size = os.fstat(fd).st_size
            raise
        self._end += len(data)
        self._size, self._made, self._open_line = self._end, False, False

    def _check_unchanged(self) -> int:
        """The file to write to. Raises OSError when it is not the one that was read, or not as it was."""
        fd = self._fd
        if fd is None:
            raise OSError("it is not open")
        if not _same_file(fd, self.path):
            raise OSError("it was moved or deleted")
        if os.fstat(fd).st_size != self._size:
            raise OSError("another program has changed it")
        return fd

    def _guarded(self, work: Callable[[], Any]) -> None:
        try:
            work()
        except OSError as error:
            raise StoreError(f"the cassette {self.shown} can't be written ({error.strerror or error})") from None

    def close(self) -> None:
        """Let go of the file; one that was made for a recording and is empty still goes away."""
        if self._fd is None:
            return
        with suppress(OSError):
            if self._made and _same_file(self._fd, self.path):
                os.unlink(self.path)
        os.close(self._fd)
        self._fd, self._made = None, False

    # ---- what is wrong with it --------------------------------------------------------------------------------

    def _must_be_a_file(self) -> None:
        folder = os.path.dirname(self.path)
        try:
            kind = os.stat(self.path).st_mode
        except FileNotFoundError:
            if not os.path.isdir(folder):
                raise UsageError(f"there is no folder {folder} for the cassette {self.shown}") from None
            return
        except (OSError, ValueError) as error:
            raise UsageError(
                f"{self.shown!r} can't be a cassette ({getattr(error, 'strerror', '') or error})"
            ) from None
        if not stat.S_ISREG(kind):
            what = "a folder" if stat.S_ISDIR(kind) else "no ordinary file"
            raise UsageError(f"{self.shown} is {what}; a cassette is a file, such as notebook.jsonl")

    def _entry(self, line: bytes, number: int) -> Entry:
        entry = _parsed(line)
        if entry is not None:
            return entry
        if line.startswith(CONFLICT):
            more = "" if number == 1 else ", or record again"
            raise UsageError(f"line {number} of {self.shown} is left from a merge: take one of the two versions{more}")
        if number == 1:
            raise self._no_cassette()
        raise UsageError(f"line {number} of {self.shown} is damaged; mend it, or record again")

    def _check_header(self, header: Entry) -> None:
        version = header.get("version")
        if header.get("kestrel") != "cassette" or not isinstance(version, int):
            raise self._no_cassette()
        if version > VERSION:
            raise UsageError(
                f"{self.shown} was written by a newer kestrel-nb (format {version}, this one reads up to {VERSION}); "
                "upgrade with: pip install -U kestrel-nb"
            )

    def _no_cassette(self) -> UsageError:
        return UsageError(f"{self.shown} is no cassette: its first line is not the header of one; nothing was changed")


def _parsed(line: bytes) -> Entry | None:
    try:
        entry = loads(line, DOCUMENT_DEPTH)
    except (CodecError, UnicodeDecodeError):
        return None
    return entry if isinstance(entry, dict) else None


def _line(entry: Entry) -> bytes:
    text = json.dumps(entry, ensure_ascii=False, allow_nan=False) + "\n"
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:  # lone surrogates
        return (json.dumps(entry, ensure_ascii=True, allow_nan=False) + "\n").encode("ascii")


def _same_file(fd: int, path: str) -> bool:
    try:
        here, there = os.fstat(fd), os.stat(path)
    except OSError:
        return False
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)
