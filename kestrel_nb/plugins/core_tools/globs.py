"""Globs as tests: of whole paths, and of the names in one folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ...sandbox.paths import printable_name

MATCH_S = 1.0  # for one path; ordinary patterns take microseconds
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

    compiled = regex.compile("|".join(_translated(glob)))
    return lambda path: compiled.fullmatch(path, timeout=MATCH_S, concurrent=True)


def name_test(glob: str) -> Fits:
    """The same for a name or a pattern without slashes, faster."""
    if is_plain(glob):
        return glob.__eq__
    texts = _translated(glob)
    if "(" in glob or not all(map(_is_linear, texts)):
        return path_test(glob)
    return re.compile("|".join(texts)).fullmatch  # no name can take it long, so it needs no clock


def chosen(fits: Fits, names: Sequence[str], prefix: str = "") -> Sequence[str]:
    """Those of ``names``, as the file system gives them, that fit as text behind ``prefix``."""
    return [name for name in names if fits(prefix + (name if name.isascii() else printable_name(name)))]


class NameGlob:
    """A glob without slashes. Without ``hidden``, somebody else leaves out the names that begin with a dot."""

    def __init__(self, glob: str, *, hidden: bool) -> None:
        self._hidden = hidden
        endings = _endings(glob)
        tail = "" if re.search(r"[{(|]", glob) else _MAGIC.split(glob)[-1]
        self._near = endings if len(endings) > 1 else tail
        self._fits = None if endings else name_test(glob)

    def among(self, names: Sequence[str]) -> Sequence[str]:
        """Those of ``names`` that fit. Raises TimeoutError."""
        near = self._near
        if self._fits is None:  # what most patterns are, told without an engine
            found = [name for name in names if name.endswith(near)]
            return [name for name in found if name[0] != "."] if self._hidden else found
        return chosen(self._fits, [name for name in names if name.endswith(near)] if near else names)


def _endings(glob: str) -> tuple[str, ...]:
    """The endings of which a name needs one, when that is all it needs; else none."""
    found = _ENDINGS.fullmatch(glob)
    if not found:
        return ()
    before, choices, after = found.groups(default="")
    return tuple(f"{before}{choice}{after}" for choice in choices.split(","))


def _is_linear(text: str) -> bool:
    """Whether at most one star of a translated name is tried at several lengths: all others are in atomic groups."""
    return text.count("*?") - text.count("(?>") <= 2  # the last star, and slashes at the end, which a name has not


def _translated(glob: str) -> list[str]:
    from wcmatch import glob as wcmatch

    flags = wcmatch.GLOBSTAR | wcmatch.BRACE | wcmatch.EXTGLOB | wcmatch.FORCEUNIX
    return list(wcmatch.translate(glob, flags=flags)[0])
