"""Tab after the beginning of a file's name in a request: files and folders below the working folder."""

from __future__ import annotations

import os
import re
from itertools import islice

from .offers import MOST, Offer, Offers

LARGEST = 20_000  # entries of one folder that are looked at: a few hundredths of a second
WORDS = 6  # a name may have so many words
_BOUNDARY = re.compile(r"[\s\"'`()\[\]{}<>,;:=|@]")

Names = list[tuple[str, bool]]


def file_offers(folder: str, before: str, after: str = "") -> Offers:
    """The names that the end of ``before`` begins: those of its last words if there are such, else of the last."""
    starts = [0, *(found.end() for found in _BOUNDARY.finditer(before))][-WORDS:]
    for start in starts:
        typed = before[start:]
        names = _names(folder, typed) if typed.strip() else []
        if names:
            quote = before[start - 1 : start]
            shown = (Offer(_written(name, is_folder, quote, after), _about(is_folder)) for name, is_folder in names)
            return Offers(typed, tuple(shown))
    return Offers()


def _about(is_folder: bool) -> str:
    return "folder" if is_folder else "file"


def _written(name: str, is_folder: bool, quote: str, after: str) -> str:
    """A name with spaces is put in quotes; those of a folder stay open, for what follows."""
    path = name + "/" if is_folder else name
    if " " not in name or quote == "`":
        return path
    opened = path if quote in ("'", '"') and quote else f'"{path}'
    mark = quote if quote in ("'", '"') and quote else '"'
    return opened if is_folder or after.startswith(mark) else opened + mark


def _names(folder: str, typed: str) -> Names:
    """The paths below ``folder`` that begin as ``typed``, and whether each is a folder."""
    head, slash, tail = typed.rpartition("/")
    if typed.startswith(("/", "~")) or not (tail or slash):
        return []
    found = []
    try:
        named = os.path.join(folder, head)
        place, root = os.path.realpath(named), os.path.realpath(folder)
        if place != root and not place.startswith(root.rstrip(os.sep) + os.sep):
            return []
        with os.scandir(named) as entries:  # as it is named: `no such folder/..` is none
            for entry in islice(entries, LARGEST):
                hidden = entry.name.startswith(".") and not tail.startswith(".")
                if entry.name.startswith(tail) and not hidden and entry.name.isprintable():
                    found.append(entry)
        return [(head + slash + entry.name, entry.is_dir()) for entry in sorted(found, key=lambda e: e.name)[:MOST]]
    except (OSError, ValueError):  # ValueError: a NUL in the path
        return []
