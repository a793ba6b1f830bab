"""Who works on a session: a lock on a file beside it that ends with the process, however that ends.

The lock belongs to the process: two stores of one process share it. The system drops it when the process dies, so a
killed owner blocks nobody. The file's text only names the owner for people.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache

from .file_disk import SAFE, Disk

NAME = "lease"
_TRIES = 4  # whoever asks for the owner holds the lock for an instant
_PAUSE_SECONDS = 0.005
_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)

logger = logging.getLogger(__name__)

if sys.platform == "win32":
    import msvcrt

    def try_lock(fd: int) -> bool:
        """Lock the open file; False when somebody else holds it. Closing ``fd`` lets it go."""
        # One byte far behind the text: Windows keeps others from reading what is locked.
        os.lseek(fd, 1 << 30, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def try_lock(fd: int) -> bool:
        """Lock the open file; False when somebody else holds it. Closing ``fd`` lets it go."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            _warn_no_locks()
        return True


@dataclass(slots=True)
class _Held:
    fd: int
    users: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Process:
    """The leases of this process, by the path of their file."""

    held: dict[str, _Held] = field(default_factory=dict)
    guard: threading.Lock = field(default_factory=threading.Lock)


_here = _Process()


def acquire(disk: Disk, path: str, user: int) -> bool:
    """Hold the lease at ``path`` for ``user`` (any number that names one store). False when another process has it."""
    _let_go_in_forks()
    with _here.guard:
        held = _here.held.get(path)
        if held is not None and not _is_at(disk, held.fd, path):
            os.close(_here.held.pop(path).fd)  # the file was deleted, and with it the lease
            held = None
        if held is None:
            fd = _locked(disk, path)
            if fd is None:
                return False
            held = _here.held[path] = _Held(fd)
        held.users.add(user)
        return True


def _locked(disk: Disk, path: str) -> int | None:
    """The lease file, open and locked; None when another process holds the lock."""
    for _ in range(_TRIES):
        fd = disk.call(os.open, path, os.O_RDWR | os.O_CREAT | SAFE, 0o600)
        try:
            mine = try_lock(fd) and _is_at(disk, fd, path)  # else it was deleted before the lock was there
            if mine:
                disk.call(os.ftruncate, fd, 0)
                disk.call(os.lseek, fd, 0, os.SEEK_SET)
                disk.write_all(fd, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode())
        except BaseException:
            os.close(fd)
            raise
        if mine:
            return fd
        os.close(fd)
        time.sleep(_PAUSE_SECONDS)
    return None


def _is_at(disk: Disk, fd: int, path: str) -> bool:
    status = disk.status(path)
    return status is not None and os.path.samestat(status, os.fstat(fd))


def release(path: str, user: int | None = None) -> None:
    """Let go for ``user``, or for every user of this process; nothing happens when the lease was not held."""
    with _here.guard:
        held = _here.held.get(path)
        if held is None:
            return
        held.users.discard(-1 if user is None else user)
        if held.users and user is not None:
            return
        folder = os.path.dirname(path)
        with suppress(OSError):
            if os.listdir(folder) == [NAME]:  # nothing was ever stored; while locked, so that nobody takes it over
                os.unlink(path)
                os.rmdir(folder)
        del _here.held[path]
        os.close(held.fd)


def owner(disk: Disk, path: str) -> str | None:
    """Which other process holds the lease, in words; None when none does."""
    with _here.guard:
        held = _here.held.get(path)
        if held is not None and _is_at(disk, held.fd, path):
            return None
    try:
        fd = disk.call(os.open, path, os.O_RDWR | SAFE)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        if try_lock(fd):
            return None
        disk.call(os.lseek, fd, 0, os.SEEK_SET)
        return _named(disk.call(os.read, fd, 4096))
    finally:
        os.close(fd)


def _named(text: bytes) -> str:
    with suppress(ValueError, KeyError, TypeError):
        data = json.loads(text)
        return f"process {int(data['pid'])} on {str(data['host'])[:100]}"
    return "another process"


@cache
def _warn_no_locks() -> None:
    logger.warning("the store's disk has no file locks: don't open one session in two programs at once")


@cache
def _let_go_in_forks() -> None:
    """A forked child shares the lock's file; were it to keep that open, the lock would outlive its owner."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_let_go)


def _let_go() -> None:
    global _here
    for held in _here.held.values():
        with suppress(OSError):
            os.close(held.fd)
    _here = _Process()
