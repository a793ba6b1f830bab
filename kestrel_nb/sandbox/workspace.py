"""Opening, writing and walking inside a workspace, so that the check and the use of a path are one act.

A path is resolved first, then opened name by name from the workspace's own descriptor, never through a link. What
changes in between is refused instead of followed. Where the platform has no ``dir_fd``, the place is resolved again
after it was opened.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from ..protocol.errors import ToolCallError
from .closed import Closed
from .paths import explained, outside, printable_name, quoted, resolve_inside
from .places import (
    FILE,
    FOLDER,
    HAS_DIR_FD,
    PASS,
    Place,
    at,
    check_regular,
    close_place,
    open_below,
    open_descriptor,
    stat_in,
)
from .walk import Walked, walk_below

Seen = tuple[int, ...]  # what tells a file from a later state of it, and from another one in its place
ABSENT: Seen = ()


class Workspace:
    """A folder that tools may not leave, unless ``restrict`` is false. What is closed they may never open.

    ``name`` is what a refusal calls it.
    """

    def __init__(self, root: str | os.PathLike[str], *, restrict: bool = True, name: str = "workspace") -> None:
        self.root = Path(os.path.realpath(root))
        self.restrict = restrict
        self.name = name
        self._closed = Closed(self.root)

    def resolve(self, path: str) -> Path:
        """See ``resolve_inside``. Raises SandboxViolationError for a closed place too."""
        real = resolve_inside(self.root, path, restrict=self.restrict, name=self.name)
        self._closed.check(real, path)
        return real

    def shown(self, real: Path) -> str:
        """``real`` as tools name it: relative to the workspace with "/", absolute when outside, "." for the root."""
        inside = real.is_relative_to(self.root)
        return printable_name((real.relative_to(self.root) if inside else real).as_posix())

    def open_file(self, path: str) -> BinaryIO:
        """The regular file ``path``, open for reading. Pipes, sockets and devices are refused without being opened."""
        real = self.resolve(path)
        with explained(self.shown(real)), self._folder_of(real) as place:
            return open_regular(place, real.name, self.shown(real))

    @contextmanager
    def open_folder(self, path: str | Path) -> Iterator[Place]:
        """The folder ``path``, open for listing, for the time of a with block."""
        real = self.resolve(path) if isinstance(path, str) else path
        with explained(self.shown(real)):
            place = self._descend(real, flags=FOLDER)
        try:
            yield place
        finally:
            close_place(place)

    def write_file(self, path: str, data: bytes, *, expected: Seen | None = None) -> bool:
        """Replace the file ``path`` by ``data`` in one step, its mode kept; missing folders are made. True when new.

        The file never changes where it lies: other names of it (hard links, perhaps outside) keep the old bytes.
        Raises ToolCallError, and then the file is as it was: also when it is not ``expected`` any more.
        """
        real = self.resolve(path)
        shown = self.shown(real)
        if self._closed.holds(real):
            raise ToolCallError(f"{shown} is a folder, not a file; list_dir shows it", code="is_a_folder")
        with explained(shown), self._folder_of(real, create=True) as place:
            mode = _mode_of_old(place, real.name, shown)
            temporary = f".kestrel-{secrets.token_hex(6)}.tmp"
            try:
                _write_new(place, temporary, data, mode)
                if expected not in (None, _seen_in(place, real.name)):
                    raise ToolCallError(f"{shown} was changed meanwhile; read it and try again", code="file_changed")
                _replace(place, temporary, real.name)
            except BaseException:
                with suppress(OSError):
                    _unlink(place, temporary)
                raise
        return mode is None

    def walk(self, path: str, enter: Callable[[str], bool] = lambda path: True) -> Iterator[Walked]:
        """Every folder below ``path``, itself first; links are never followed, ``enter(workspace path)`` may skip one.

        Each is open while it is the current item, and ``enter`` is asked about the folders in it after that. A folder
        that vanishes or may not be read is passed over, but the first raises ToolCallError. Closed places are left out.
        """
        real = self.resolve(path)
        prefix = "" if real == self.root else self.shown(real)

        def keep(below: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
            return self._closed.open_names(os.path.join(real, *below), names)

        with self.open_folder(real) as start:
            yield from walk_below(start, prefix, enter, keep if self._closed.holds(real) else None)

    @contextmanager
    def _folder_of(self, real: Path, *, create: bool = False) -> Iterator[Place]:
        if real in (self.root, real.parent):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        place = self._descend(real.parent, flags=PASS, create=create)
        try:
            yield place
        finally:
            close_place(place)

    def _descend(self, real: Path, *, flags: int, create: bool = False) -> Place:
        base = self.root if real.is_relative_to(self.root) else Path(real.anchor)
        if not base.is_dir():
            raise ToolCallError(f"the workspace {quoted(str(base))} is not there; make that folder first")
        if not HAS_DIR_FD:
            return self._path_checked(real, create)
        start = os.open(base, PASS & ~getattr(os, "O_NOFOLLOW", 0))
        try:
            return open_below(start, real.relative_to(base).parts, flags, create=create)
        finally:
            os.close(start)

    def _path_checked(self, real: Path, create: bool) -> Place:
        if create:
            real.mkdir(parents=True, exist_ok=True)
        if not real.is_dir():
            raise NotADirectoryError if real.exists() else FileNotFoundError
        if os.path.realpath(real) != str(real):
            raise outside(str(real), self.name)
        return str(real)


def open_regular(place: Place, name: str, shown: str) -> BinaryIO:
    """The regular file ``name`` in the open folder ``place``. Raises OSError, or ToolCallError when it is none."""
    path, where = at(place, name)
    check_regular(os.stat(path, follow_symlinks=False, **where), shown)
    return os.fdopen(open_descriptor(place, name, shown), "rb")


def seen(file: BinaryIO) -> Seen:
    """The state of an open file."""
    return _seen(os.fstat(file.fileno()))


def _seen(status: os.stat_result) -> Seen:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _seen_in(place: Place, name: str) -> Seen:
    try:
        return _seen(stat_in(place, name))
    except FileNotFoundError:
        return ABSENT


def _mode_of_old(place: Place, name: str, shown: str) -> int | None:
    """The permission bits of the file to be replaced, None when there is none. Raises when it may not be replaced."""
    path, where = at(place, name)
    try:
        status = os.stat(path, follow_symlinks=False, **where)
    except FileNotFoundError:
        return None
    check_regular(status, shown)
    if not os.access(path, os.W_OK, **where):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return stat.S_IMODE(status.st_mode)


def _write_new(place: Place, name: str, data: bytes, mode: int | None) -> None:
    path, where = at(place, name)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | FILE, 0o666 if mode is None else 0o600, **where)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        if mode is not None and hasattr(os, "fchmod"):
            os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())


def _replace(place: Place, old: str, new: str) -> None:
    if isinstance(place, int):
        os.replace(old, new, src_dir_fd=place, dst_dir_fd=place)
    else:
        os.replace(os.path.join(place, old), os.path.join(place, new))


def _unlink(place: Place, name: str) -> None:
    path, where = at(place, name)
    os.unlink(path, **where)
