"""Open folders, and how names in them are opened: never through a link, and nothing but regular files.

A place is the descriptor of an open folder, or its path where the platform has no ``dir_fd``.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import Any

from ..protocol.errors import ToolCallError

HAS_DIR_FD = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
FOLDER = _SAFE | getattr(os, "O_DIRECTORY", 0)
PASS = FOLDER | getattr(os, "O_PATH", 0)  # to go through a folder one need not be able to list it
FILE = _SAFE | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # a named pipe must not make open() wait

Place = int | str


def open_below(start: Place, parts: tuple[str, ...], flags: int, *, create: bool = False) -> Place:
    """The folder ``parts`` below the open folder ``start``, opened name by name and never through a link."""
    if not isinstance(start, int):
        inner = os.path.join(start, *parts)
        if os.path.realpath(inner) != inner:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        return inner
    if len(parts) == 1 and not create:
        return os.open(parts[0], flags, dir_fd=start)
    place, last = start, len(parts) - 1
    try:
        for number, part in enumerate(parts or (".",)):
            if create and parts:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=place)
            inner_place = os.open(part, flags if number >= last else PASS, dir_fd=place)
            if place != start:
                os.close(place)
            place = inner_place
    except BaseException:
        if place != start:
            os.close(place)
        raise
    return place


def open_descriptor(place: Place, name: str, shown: str) -> int:
    """The regular file ``name``, open for reading. Raises OSError, or ToolCallError when it is none."""
    return open_known(place, name, shown)[0]


def open_known(place: Place, name: str, shown: str) -> tuple[int, os.stat_result]:
    """The same, with its status."""
    path, where = at(place, name)
    descriptor = os.open(path, os.O_RDONLY | FILE, **where)
    try:
        status = os.fstat(descriptor)
        check_regular(status, shown)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, status


def stat_in(place: Place, name: str) -> os.stat_result:
    """The status of ``name`` in the open folder ``place``, of a link itself."""
    if isinstance(place, int):
        return os.stat(name, dir_fd=place, follow_symlinks=False)
    return os.stat(os.path.join(place, name), follow_symlinks=False)


def check_regular(status: os.stat_result, shown: str) -> None:
    """Raise OSError or ToolCallError unless this is the status of a regular file."""
    if stat.S_ISREG(status.st_mode):
        return
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    raise ToolCallError(f"{shown} is a pipe, socket or device; only regular files can be used", code="not_a_file")


def at(place: Place, name: str) -> tuple[str, dict[str, Any]]:
    """What functions of ``os`` take for ``name`` in a place: the path, and more arguments."""
    return (name, {"dir_fd": place}) if isinstance(place, int) else (os.path.join(place, name), {})


def close_place(place: Place) -> None:
    """Close it, where that means anything."""
    if isinstance(place, int):
        os.close(place)
