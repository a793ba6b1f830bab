"""Globs as tests: of whole paths, and of the names in one folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ...sandbox.paths import printable_name

MATCH_S = 1.0  # for one path; ordinary patterns take microseconds
MAX_STARS = 2  # with no more of them a name of 255 bytes is told in 255 * 255 steps at most, so without a clock
_MAGIC = re.compile(r"[*?\[\]{}()|!+@\\]")
_PLAIN = r"[^*?\[\]{}()|!+@\\,$]*"
_ENDINGS = re.compile(rf"\*({_PLAIN})(?:\{{({_PLAIN}(?:,{_PLAIN})+)\}}({_PLAIN}))?")  # *.py and *.{js,ts}
_UNCLEAR = re.compile(r"\\|\[[^\]]*[/{}()]|(^|/)\.?(/|$)")  # what a slash means here, the whole pattern has to tell
Fits = Callable[[str], object]  # of a path as text: true when it fits


def parted(glob: str) -> tuple[str, str] | None:
    """The pattern of the folders and that of the names in them, None when ``glob`` can't be taken apart like this."""
    folders, slash, name = glob.rpartition("/")
    if _UNCLEAR.search(glob) or "(" in folders or any(name.count(a) != name.count(b) for a, b in ("{}", "()")):
        return None
    if folders.count("{") != folders.count("}"):
        return None
    return (f"{folders}{slash}**", "*") if name == "**" else (folders, name)


def is_plain(glob: str) -> bool:
    """Whether it stands for itself alone."""
    return not _MAGIC.search(glob)


def path_test(glob: str) -> Fits:
    """The test of a path, which may raise TimeoutError. Raises many kinds of errors for what is no glob."""
    import regex

    compiled = regex.compile(_translated(glob))
    return lambda path: compiled.fullmatch(path, timeout=MATCH_S, concurrent=True)


def name_test(glob: str) -> Fits:
    """The same for a name or a pattern without slashes, faster."""
    if is_plain(glob):
        return glob.__eq__
    return path_test(glob) if "(" in glob or glob.count("*") > MAX_STARS else re.compile(_translated(glob)).fullmatch


def chosen(fits: Fits, names: Sequence[str], prefix: str = "") -> Sequence[str]:
    """Those of ``names``, as the file system gives them, that fit as text behind ``prefix``."""
    return [name for name in names if fits(prefix + (name if name.isascii() else printable_name(name)))]


class NameGlob:
    """A glob without slashes. A name that begins with a dot fits only what begins with one."""

    def __init__(self, glob: str) -> None:
        self._endings = _endings(glob)
        tail = "" if self._endings or re.search(r"[{(|]", glob) else _MAGIC.split(glob)[-1]
        self._near = self._endings or ((tail,) if tail else ())
        self._fits = None if self._endings else name_test(glob)

    def among(self, names: Sequence[str]) -> Sequence[str]:
        """Those of ``names`` that fit. Raises TimeoutError."""
        if self._fits is None:  # what most patterns are, told without an engine
            return [name for name in names if name.endswith(self._near) and name[0] != "."]
        return chosen(self._fits, [name for name in names if name.endswith(self._near)] if self._near else names)


def _endings(glob: str) -> tuple[str, ...]:
    """The endings of which a name needs one, when that is all it needs; else none."""
    found = _ENDINGS.fullmatch(glob)
    if not found:
        return ()
    before, choices, after = found.groups(default="")
    return tuple(f"{before}{choice}{after}" for choice in choices.split(","))


def _translated(glob: str) -> str:
    from wcmatch import glob as wcmatch

    flags = wcmatch.GLOBSTAR | wcmatch.BRACE | wcmatch.EXTGLOB | wcmatch.FORCEUNIX
    return "|".join(wcmatch.translate(glob, flags=flags)[0])
