"""Walking through folders that are held open: what is listed and what is opened lie in the same folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

from .paths import printable_name
from .places import FOLDER, Place, close_place, open_below, open_descriptor, open_known

MAX_TRAIL = 64  # folders held open at once; deeper ones are looked up from the last of these
Keep = Callable[[tuple[str, ...], tuple[str, ...]], tuple[str, ...]]  # of (folder below the start, names), names


class Walked(NamedTuple):
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


def walk_below(start: Place, prefix: str, enter: Callable[[str], bool], keep: Keep | None) -> Iterator[Walked]:
    """Every folder below ``start``, an open one that is called ``prefix``, itself first. See ``Workspace.walk``."""
    waiting: list[tuple[str, tuple[str, ...]]] = [(prefix, ())]
    trail: list[Place] = []  # the first open folders on the way to the current one
    try:
        while waiting:
            shown, below = waiting.pop()
            while len(trail) > len(below):
                close_place(trail.pop())
            walked = _opened(trail[-1], below[len(trail) - 1 :], shown) if trail else _opened(start, below, shown)
            if walked is None:
                continue
            trail.append(walked.place)
            if keep:
                walked = walked._replace(folders=keep(below, walked.folders), files=keep(below, walked.files))
            yield walked
            if len(trail) > MAX_TRAIL:
                close_place(trail.pop())
            for name in reversed(walked.folders):
                if enter(inner := walked.path_of(name)):
                    waiting.append((inner, (*below, name)))
    finally:
        for place in trail:
            close_place(place)


def open_listed(walked: Walked, name: str) -> BinaryIO:
    """A file of a walk, unbuffered. Raises OSError, or ToolCallError when it is no regular file any more."""
    return os.fdopen(open_descriptor(walked.place, name, name), "rb", buffering=0)


def read_listed(walked: Walked, name: str, limit: int) -> tuple[bytes, BinaryIO | None]:
    """All of a file of a walk that has less than ``limit`` bytes; else its beginning, and the file open behind that.

    Raises OSError, or ToolCallError when it is no regular file any more.
    """
    descriptor, status = open_known(walked.place, name, name)
    try:
        size = min(status.st_size, limit)
        data = os.read(descriptor, size + 1)
        if size < limit and len(data) == size:
            return data, None
        return data, os.fdopen(os.dup(descriptor), "rb", buffering=0)
    finally:
        os.close(descriptor)


def _opened(start: Place, below: tuple[str, ...], shown: str) -> Walked | None:
    """The folder ``below`` an open one, open and listed; None when it vanished or may not be read."""
    try:
        place = open_below(start, below, FOLDER)
    except OSError:
        return None
    try:
        return _listed(shown, place)
    except OSError:
        close_place(place)
        return None


def _listed(shown: str, place: Place) -> Walked:
    with os.scandir(place) as listing:
        entries = list(listing)
        files = sorted([entry.name for entry in entries if entry.is_file(follow_symlinks=False)])
        if len(files) == len(entries):  # so it is in most folders
            return Walked(shown, place, (), tuple(files), (), ())
        folders, links, others = [], [], []
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            elif entry.is_symlink():
                links.append(entry.name)
            elif not entry.is_file(follow_symlinks=False):
                others.append(entry.name)
    groups = (tuple(sorted(names)) for names in (folders, files, links, others))
    return Walked(shown, place, *groups)
