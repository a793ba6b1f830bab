"""The file of a cassette and its entries in memory: opened, played from the beginning, gone on with or begun anew."""

from __future__ import annotations

import threading
from importlib.metadata import PackageNotFoundError, version

from ..protocol.errors import CodecError, UsageError
from .cassette_file import VERSION, CassetteFile, Entry
from .cassette_tape import Tape
from .cassette_wish import CassetteMode


class Reel:
    """What is recorded at ``path``. ``note`` says what had to be left out when it was read.

    ``guard`` is held by whoever plays or records, since a tool may run a session in a thread of its own.
    """

    def __init__(self, path: str, mode: CassetteMode) -> None:
        self.file = CassetteFile(path)
        self.guard = threading.RLock()
        self.note = ""
        self.latest = Tape()  # also once it is closed
        self.mode: CassetteMode = mode
        self._is_open = False
        self._rests = False  # it was released, and goes on where it was
        self._begun = False  # the header stands in the file, or in the one that is gone on with
        self._holds_replies = False
        self._why_not = ""  # nothing can be written

    @property
    def tape(self) -> Tape:
        """The entries, read at first use. Raises what ``open`` raises."""
        self.open()
        return self.latest

    def open(self) -> None:
        """Read what is there and get ready to write; once.

        Raises UsageError when there is nothing to play, the file is no cassette, or it can't be written. Nothing is
        written before the first entry.
        """
        with self.guard:
            if self._is_open or self.mode == "off":
                return
            if self.mode != "replay":
                self._open_for_writing()
            try:
                if not self._rests or self.file.has_changed:
                    self._read()
            except CodecError as error:
                self.file.close()
                raise UsageError(f"{self.file.shown} is damaged ({error}); record again") from None
            except BaseException:
                self.file.close()
                raise
            self._is_open, self._rests = True, False

    def _read(self) -> None:
        entries, self.note = self.file.read(to_replace=self.mode == "record" and not self._begun)
        shown = self.file.shown
        if self.mode == "replay" and len(entries) < 2:
            raise UsageError(f"{shown} is empty: nothing is recorded in it; %kestrel record {shown}")
        self._begun = bool(entries) and (self._begun or self.mode == "auto")
        self._holds_replies = any(entry.get("kind") == "reply" for entry in entries)
        self.latest = Tape(entries[1:] if self._begun or self.mode == "replay" else ())

    def _open_for_writing(self) -> None:
        try:
            self.file.open_for_writing()
        except UsageError as error:
            # In auto a file that can only be read, or that another notebook records into, may hold all that is needed.
            if self.mode != "auto" or not self.file.has_entries:
                raise
            self._why_not = str(error)

    def close(self) -> None:
        """Let go of the file. Opened again, a recording goes on, and playing begins from the first entry."""
        with self.guard:
            self.file.close()
            self._is_open = self._rests = False

    def release(self) -> None:
        """Let others write to the file. Opened again, it goes on in each mode, if nobody did."""
        with self.guard:
            self.file.close()
            self._is_open, self._rests = False, self._is_open or self._rests

    def begin_anew(self) -> None:
        """Let a recording begin with its next entry, as in a kernel that has just started."""
        with self.guard:
            if self.mode == "record":
                self._begun, self.latest = False, Tape()

    def check_writable(self) -> None:
        """Open it. Raises UsageError when it can only be read, or an earlier recording would be lost."""
        with self.guard:
            self.open()
            if not self.file.writable:
                raise UsageError(self._why_not)
            if self._holds_replies and not self._begun:
                self.file.check_backup()

    def write(self, entry: Entry, model: str) -> None:
        """Append ``entry``. Raises StoreError, UsageError when the file can only be read."""
        with self.guard:
            self.check_writable()
            if not self._begun:
                self.file.begin_anew(keep=self._holds_replies)
                header = {"kestrel": "cassette", "version": VERSION, "madeBy": _made_by()}
                self.file.write({**header, "model": model} if model else header)
                self._begun = True
            self.file.write(entry)
            self._holds_replies = self._holds_replies or entry["kind"] == "reply"
            self.latest.add(entry, played=True)


def _made_by() -> str:
    try:
        return f"kestrel-nb {version('kestrel-nb')}"
    except PackageNotFoundError:
        return "kestrel-nb"
