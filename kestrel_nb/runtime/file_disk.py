"""Durable files: what the file store asks of a disk, and its failures in words for a person."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import ParamSpec, TypeVar

from ..protocol.errors import StoreError

MAX_BYTES = 256 * 1024 * 1024  # of one stored file: far above any real session, far below a machine's memory
STALE_SECONDS = 3600.0  # no write takes that long: an older temporary file was left by a crash

# O_NONBLOCK: opening a named pipe must not wait for its other end. O_NOFOLLOW: a link would lead out of the store.
SAFE = (
    getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)
_ADVICE = {
    errno.ENOSPC: "free some space and try again",
    errno.EDQUOT: "free some space and try again",
    errno.EACCES: "make the store's folder writable, or choose another one",
    errno.EPERM: "make the store's folder writable, or choose another one",
    errno.EROFS: "choose a store folder on a disk that can be written",
    errno.EMFILE: "close files that are not needed, or raise the limit (ulimit -n)",
    errno.ENFILE: "close programs that are not needed, or raise the system's limit of open files",
    errno.ENOTDIR: "move the file that stands where a folder belongs",
}

P = ParamSpec("P")
R = TypeVar("R")


class Unreadable(Exception):
    """Something lies there, but it can't be read as what it should be; the text says why."""


class Disk:
    """The operations of the file store. Every system call goes through ``call``, where a test can make it fail."""

    def call(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """``function(*args, **kwargs)``."""
        return function(*args, **kwargs)

    def read(self, path: str) -> tuple[bytes, os.stat_result] | None:
        """A file's bytes and status, None when there is none.

        Raises Unreadable for anything but a regular file of at most MAX_BYTES, OSError when the disk fails.
        """
        try:
            fd = self.call(os.open, path, os.O_RDONLY | SAFE)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            status = self.status(path)
            if status is not None and not stat.S_ISREG(status.st_mode):
                raise Unreadable("not a regular file") from None
            raise
        try:
            status = self.call(os.fstat, fd)
            if not stat.S_ISREG(status.st_mode):
                raise Unreadable("not a regular file")
            if status.st_size > MAX_BYTES:
                raise Unreadable(f"larger than {MAX_BYTES // 2**20} MB")
            return self.read_all(fd), status
        finally:
            self.call(os.close, fd)

    def read_all(self, fd: int) -> bytes:
        """The bytes from the file's position to its end."""
        pieces = []
        while piece := self.call(os.read, fd, 1 << 24):
            pieces.append(piece)
        return b"".join(pieces)

    def status(self, path: str) -> os.stat_result | None:
        """The status of what is at ``path``, links not followed; None when nothing is."""
        try:
            return self.call(os.lstat, path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write_all(self, fd: int, data: bytes) -> None:
        """Write every byte: a system call may take only some."""
        view = memoryview(data)
        while view:
            view = view[self.call(os.write, fd, view) :]

    def write_temporary(self, folder: str, name: str, data: bytes) -> str:
        """A new file beside ``name`` that holds ``data``, on the disk when this returns; its path."""
        path = os.path.join(folder, f"{name}.{os.getpid()}.{secrets.token_hex(8)}.tmp")
        fd = self.call(os.open, path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | SAFE, 0o600)
        try:
            try:
                self.write_all(fd, data)
                self.call(os.fsync, fd)
            finally:
                self.call(os.close, fd)
        except BaseException:
            self.discard(path)
            raise
        return path

    def put(self, folder: str, name: str, data: bytes) -> None:
        """Make ``data`` the content of ``name``: whoever looks, at any time, sees all of the old or all of the new."""
        temporary = self.write_temporary(folder, name, data)
        try:
            self.call(os.replace, temporary, os.path.join(folder, name))
        except BaseException:
            self.discard(temporary)
            raise
        self.sync_folder(folder)

    def set_aside(self, folder: str, name: str) -> str:
        """Keep what is at ``name`` under a new name, which is returned; ``name`` itself may stay or go."""
        path = os.path.join(folder, name)
        number = 1
        while True:
            aside = f"{path}.corrupt-{number}"
            try:
                # A link never overwrites, and leaves no moment without a file under the old name.
                self.call(os.link, path, aside, follow_symlinks=False)
            except FileExistsError:
                number += 1
            except (OSError, NotImplementedError):
                if self.status(aside) is None:  # folders, and file systems without links
                    self.call(os.rename, path, aside)
                    return aside
                number += 1
            else:
                return aside

    def discard(self, path: str) -> None:
        """Remove a file, if it is there and can be removed."""
        with suppress(OSError):
            self.call(os.unlink, path)

    def make_folder(self, path: str, *, sync: bool = True) -> bool:
        """Make ``path`` and what is missing above it, for this user alone; False when it was there.

        Without ``sync`` the caller puts its name on the disk, by ``sync_folder``, once something is to stay in it.
        """
        status = self.status(path)
        if status is not None and stat.S_ISDIR(status.st_mode):
            return False
        parent = os.path.dirname(path)
        if not os.path.isdir(parent):
            self.make_folder(parent)
        try:
            self.call(os.mkdir, path, 0o700)
        except FileExistsError:
            status = self.status(path)
            if status is None or not stat.S_ISDIR(status.st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from None
        if sync:
            self.sync_folder(parent)
        return True

    def sync_folder(self, folder: str) -> None:
        """Put the names in ``folder`` on the disk. Windows has no such call."""
        if os.name == "nt":
            return
        fd = self.call(os.open, folder, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        try:
            self.call(os.fsync, fd)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems
                raise
        finally:
            self.call(os.close, fd)

    def sweep(self, folder: str) -> None:
        """Remove temporary files that a crash left in ``folder``."""
        for name in self.call(os.listdir, folder):
            path = os.path.join(folder, name)
            status = self.status(path) if name.endswith(".tmp") else None
            if status is not None and status.st_mtime < time.time() - STALE_SECONDS:
                self.discard(path)


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn an OSError into a StoreError that says ``what`` failed, why, and what to do."""
    try:
        yield
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, "check the disk and try again")
        raise StoreError(f"{what}: {error.strerror or error}; {advice}") from error
