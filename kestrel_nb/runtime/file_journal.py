"""The steps since a session was last written whole: one JSON line each, beside it.

A line counts once its newline is on the disk. What follows the last newline is a write that a crash cut off: nobody
was told that it succeeded, so readers ignore it and the next append takes its place.
"""

from __future__ import annotations

import logging
import os
import stat
from contextlib import suppress
from dataclasses import dataclass

from ..protocol.codec import from_document, loads
from ..protocol.errors import CodecError, StoreError
from ..protocol.json_text import DOCUMENT_DEPTH
from ..protocol.sessions import SessionStep
from .file_disk import MAX_BYTES, SAFE, Disk, Unreadable

NAME = "journal.jsonl"
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Journal:
    """What a journal holds. ``damaged``: some whole lines can't be read, so its bytes must be kept.

    ``seq`` is the highest of its steps, 0 when there are none.
    """

    steps: tuple[SessionStep, ...] = ()
    damaged: bool = False
    exists: bool = False
    seq: int = 0


def append(disk: Disk, folder: str, line: bytes, known_size: int | None) -> int:
    """Add a line, durable when this returns; the new size. ``known_size`` is the size after the caller's last append.

    Raises OSError, StoreError when the journal is full.
    """
    fd = disk.call(os.open, os.path.join(folder, NAME), os.O_RDWR | os.O_APPEND | os.O_CREAT | SAFE, 0o600)
    try:
        size = _whole_lines(disk, fd, known_size)
        if size + len(line) > MAX_BYTES:
            raise StoreError(f"the session grew by {MAX_BYTES // 2**20} MB in one run; start a new one")
        try:
            disk.write_all(fd, line)
            disk.call(os.fsync, fd)
        except BaseException:
            with suppress(OSError):
                disk.call(os.ftruncate, fd, size)
            raise
    finally:
        disk.call(os.close, fd)
    if not size:
        disk.sync_folder(folder)
    return size + len(line)


def _whole_lines(disk: Disk, fd: int, known_size: int | None) -> int:
    """The size of the journal, after cutting off what follows its last newline."""
    status = disk.call(os.fstat, fd)
    if not stat.S_ISREG(status.st_mode):
        raise StoreError(f"{NAME} is not a regular file; move it away")
    if status.st_size in (0, known_size):
        return status.st_size
    disk.call(os.lseek, fd, -1, os.SEEK_END)
    if disk.call(os.read, fd, 1) == b"\n":
        return status.st_size
    disk.call(os.lseek, fd, 0, os.SEEK_SET)
    size = disk.read_all(fd).rfind(b"\n") + 1
    disk.call(os.ftruncate, fd, size)
    return size


def read(disk: Disk, folder: str) -> Journal:
    """The journal in ``folder``. Raises OSError, and Unreadable when a newer version wrote it."""
    try:
        found = disk.read(os.path.join(folder, NAME))
    except Unreadable as error:
        logger.warning("skipped %s: %s", os.path.join(folder, NAME), error)
        return Journal(damaged=True, exists=True)
    if found is None:
        return Journal()
    steps, damaged = [], False
    for number, line in enumerate(found[0].split(b"\n")[:-1], 1):
        try:
            steps.append(from_document(SessionStep, loads(line, DOCUMENT_DEPTH)))
        except CodecError as error:
            if error.code == "newer_version":
                raise Unreadable(str(error)) from None
            logger.warning("skipped line %d of %s: %s", number, os.path.join(folder, NAME), error)
            damaged = True
    return Journal(tuple(steps), damaged, exists=True, seq=max((step.seq for step in steps), default=0))


def remove(disk: Disk, folder: str, journal: Journal) -> None:
    """Take ``journal`` away once its steps stand elsewhere; a damaged one is kept under another name."""
    if not journal.exists:
        return
    if journal.damaged:
        set_aside(disk, folder)
    else:
        disk.call(os.unlink, os.path.join(folder, NAME))


def set_aside(disk: Disk, folder: str) -> None:
    """Keep the journal in ``folder``, if there is one, under another name."""
    path = os.path.join(folder, NAME)
    if disk.status(path) is not None:
        disk.set_aside(folder, NAME)
    if disk.status(path) is not None:
        disk.call(os.unlink, path)
