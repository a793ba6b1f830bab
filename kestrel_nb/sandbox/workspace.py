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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from ..protocol.errors import ToolCallError
from .closed import Closed
from .paths import explained, outside, printable_name, quoted, resolve_inside

HAS_DIR_FD = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER = _SAFE | getattr(os, "O_DIRECTORY", 0)
_PASS = _FOLDER | getattr(os, "O_PATH", 0)  # to go through a folder one need not be able to list it
_FILE = _SAFE | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # a named pipe must not make open() wait

Seen = tuple[int, ...]  # what tells a file from a later state of it, and from another one in its place
ABSENT: Seen = ()
Place = int | str  # an open folder: its descriptor, or its path where there is no dir_fd


@dataclass(frozen=True, slots=True)
class Walked:
    """One folder of a walk: its workspace path ("" for the root), itself, open, and the names in it, sorted."""

    shown: str
    place: Place
    folders: tuple[str, ...]
    files: tuple[str, ...]
    links: tuple[str, ...]
    others: tuple[str, ...]  # pipes, sockets, devices

    def path_of(self, name: str) -> str:
        """The workspace path of ``name`` in this folder, as text."""
        name = printable_name(name)
        return f"{self.shown}/{name}" if self.shown and self.shown != "/" else f"{self.shown}{name}"


class Workspace:
    """A folder that tools may not leave, unless ``restrict`` is false. What is closed they may never open."""

    def __init__(self, root: str | os.PathLike[str], *, restrict: bool = True) -> None:
        self.root = Path(os.path.realpath(root))
        self.restrict = restrict
        self._closed = Closed(self.root)

    def resolve(self, path: str) -> Path:
        """See ``resolve_inside``. Raises SandboxViolationError for a closed place too."""
        real = resolve_inside(self.root, path, restrict=self.restrict)
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
            place = self._descend(real, flags=_FOLDER)
        try:
            yield place
        finally:
            _close(place)

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
        with self.open_folder(real) as start:
            waiting: list[tuple[str, tuple[str, ...]]] = [(prefix, ())]
            while waiting:
                shown, below = waiting.pop()
                found = _opened(start, below, shown)
                if found is None:
                    continue
                walked = self._without_closed(found, real.joinpath(*below))
                try:
                    yield walked
                finally:
                    _close(walked.place)
                inner = [(walked.path_of(name), (*below, name)) for name in reversed(walked.folders)]
                waiting += [folder for folder in inner if enter(folder[0])]

    def _without_closed(self, walked: Walked, real: Path) -> Walked:
        open_names = self._closed.open_names
        return replace(walked, folders=open_names(real, walked.folders), files=open_names(real, walked.files))

    @contextmanager
    def _folder_of(self, real: Path, *, create: bool = False) -> Iterator[Place]:
        if real in (self.root, real.parent):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        place = self._descend(real.parent, flags=_PASS, create=create)
        try:
            yield place
        finally:
            _close(place)

    def _descend(self, real: Path, *, flags: int, create: bool = False) -> Place:
        base = self.root if real.is_relative_to(self.root) else Path(real.anchor)
        if not base.is_dir():
            raise ToolCallError(f"the workspace {quoted(str(base))} is not there; make that folder first")
        if not HAS_DIR_FD:
            return self._path_checked(real, create)
        start = os.open(base, _PASS & ~getattr(os, "O_NOFOLLOW", 0))
        try:
            return _open_below(start, real.relative_to(base).parts, flags, create=create)
        finally:
            os.close(start)

    def _path_checked(self, real: Path, create: bool) -> Place:
        if create:
            real.mkdir(parents=True, exist_ok=True)
        if not real.is_dir():
            raise NotADirectoryError if real.exists() else FileNotFoundError
        if os.path.realpath(real) != str(real):
            raise outside(str(real))
        return str(real)


def _open_below(start: Place, parts: tuple[str, ...], flags: int, *, create: bool = False) -> Place:
    """The folder ``parts`` below the open folder ``start``, opened name by name and never through a link."""
    if not isinstance(start, int):
        inner = os.path.join(start, *parts)
        if os.path.realpath(inner) != inner:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        return inner
    place, last = start, len(parts) - 1
    try:
        for number, part in enumerate(parts or (".",)):
            if create and parts:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=place)
            inner_place = os.open(part, flags if number >= last else _PASS, dir_fd=place)
            if place != start:
                os.close(place)
            place = inner_place
    except BaseException:
        if place != start:
            os.close(place)
        raise
    return place


def open_regular(place: Place, name: str, shown: str) -> BinaryIO:
    """The regular file ``name`` in the open folder ``place``. Raises OSError, or ToolCallError when it is none."""
    path, where = _at(place, name)
    _check_regular(os.stat(path, follow_symlinks=False, **where), shown)
    return os.fdopen(_descriptor(place, name, shown), "rb")


def open_listed(walked: Walked, name: str) -> BinaryIO:
    """A file of a walk, unbuffered. Raises OSError, or ToolCallError when it is no regular file any more."""
    return os.fdopen(_descriptor(walked.place, name, name), "rb", buffering=0)


def _descriptor(place: Place, name: str, shown: str) -> int:
    path, where = _at(place, name)
    descriptor = os.open(path, os.O_RDONLY | _FILE, **where)
    try:
        _check_regular(os.fstat(descriptor), shown)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def stat_in(place: Place, name: str) -> os.stat_result:
    """The status of ``name`` in the open folder ``place``, of a link itself."""
    path, where = _at(place, name)
    return os.stat(path, follow_symlinks=False, **where)


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


def _check_regular(status: os.stat_result, shown: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if not stat.S_ISREG(status.st_mode):
        raise ToolCallError(f"{shown} is a pipe, socket or device; only regular files can be used", code="not_a_file")


def _opened(start: Place, below: tuple[str, ...], shown: str) -> Walked | None:
    """The folder ``below`` an open one, open and listed; None when it vanished or may not be read."""
    try:
        place = _open_below(start, below, _FOLDER)
    except OSError:
        return None
    try:
        return _listed(shown, place)
    except OSError:
        _close(place)
        return None


def _listed(shown: str, place: Place) -> Walked:
    folders, files, links, others = [], [], [], []
    with os.scandir(place) as entries:
        for entry in entries:
            if entry.is_symlink():
                links.append(entry.name)
            elif entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            elif entry.is_file(follow_symlinks=False):
                files.append(entry.name)
            else:
                others.append(entry.name)
    groups = [tuple(sorted(names)) for names in (folders, files, links, others)]
    return Walked(shown, place, *groups)


def _at(place: Place, name: str) -> tuple[str, dict[str, Any]]:
    return (name, {"dir_fd": place}) if isinstance(place, int) else (os.path.join(place, name), {})


def _close(place: Place) -> None:
    if isinstance(place, int):
        os.close(place)


def _mode_of_old(place: Place, name: str, shown: str) -> int | None:
    """The permission bits of the file to be replaced, None when there is none. Raises when it may not be replaced."""
    path, where = _at(place, name)
    try:
        status = os.stat(path, follow_symlinks=False, **where)
    except FileNotFoundError:
        return None
    _check_regular(status, shown)
    if not os.access(path, os.W_OK, **where):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return stat.S_IMODE(status.st_mode)


def _write_new(place: Place, name: str, data: bytes, mode: int | None) -> None:
    path, where = _at(place, name)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o666 if mode is None else 0o600, **where)
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
    path, where = _at(place, name)
    os.unlink(path, **where)
