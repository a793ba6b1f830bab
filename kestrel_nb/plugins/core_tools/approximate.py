"""A coarser regular expression over bytes: it matches wherever the real one may, whatever the encoding of the file.

It is written in what ripgrep and Python have in common. What is not understood here has no approximation.
"""

from __future__ import annotations

import re

from .needed import needed_texts

HIGH = r"[\x80-\xff]{1,4}"  # one character beyond ASCII, in UTF-8 or in an encoding of one byte for each
ANY = rf"(?:[\x00-\x09\x0b-\x7f]|{HIGH})"
_MARKS = r"\xff\xfe|\xfe\xff"  # of UTF-16 and UTF-32
_NULS = r"\x00[^\x00\x0a]\x00|\x00$"  # two bytes apart, as in every file that is taken for UTF-16 without a mark
MAX_REPEAT = 8  # larger numbers are left open: ripgrep unrolls them
MAX_LENGTH = 2_000
MIN_WIDE = 3  # characters; shorter texts are in binary files by chance
_SETS = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\x09\x0b-\x0d\x1c-\x20"}
_CONTROLS = {"t": "\t", "r": "\r", "f": "\f", "v": "\v"}
# Where case does not count, these are equal to characters beyond ASCII.
_FOLDED = {"i": r"\xc4[\xb0\xb1]", "k": r"\xe2\x84\xaa", "s": r"\xc5\xbf"}
_GROUP = re.compile(r"\?(:|>|=|!|<=|<!|P?<[^\W\d]\w*>)")
_REPEAT = re.compile(r"(?:([*+?])|\{(\d*)(,?)(\d*)\})[?+]?")


class _Unknown(Exception):
    """Something that is not understood."""


def approximation(pattern: str, *, ignore_case: bool = False) -> str | None:
    """The coarser expression; None when there is none, or when it would match every line."""
    pattern, ignore_case = _without_flag(pattern, ignore_case)
    reader = _Reader(pattern, ignore_case)
    try:
        found = reader.alternatives()
    except (_Unknown, RecursionError):
        return None
    if reader.at < len(pattern) or len(found) > MAX_LENGTH or re.search(found.encode(), b""):
        return None
    return found


def wide_approximation(pattern: str, *, ignore_case: bool = False) -> str:
    """The same for files in UTF-16 and UTF-32: all with a mark, and those without one that may match."""
    pattern, ignore_case = _without_flag(pattern, ignore_case)
    texts = [text.decode("ascii") for text in needed_texts(pattern) or [b""]]
    if ignore_case:
        texts = [max(re.split("[iksIKS]", text), key=len) for text in texts]
    if min(map(len, texts)) < MIN_WIDE:
        return f"{_MARKS}|{_NULS}"
    return "|".join(
        [_MARKS, *(r"\x00".join(_cases(char) if ignore_case else _byte(char) for char in t) for t in texts)]
    )


def _without_flag(pattern: str, ignore_case: bool) -> tuple[str, bool]:
    return (pattern[4:], True) if pattern.startswith("(?i)") else (pattern, ignore_case)


class _Reader:
    """Reads a pattern from left to right; each method returns the expression for what it has read."""

    def __init__(self, pattern: str, ignore_case: bool) -> None:
        self._pattern = pattern
        self._ignore_case = ignore_case
        self.at = 0

    def alternatives(self) -> str:
        branches = [self._branch()]
        while self._next("|"):
            branches.append(self._branch())
        return "|".join(branches)

    def _branch(self) -> str:
        parts = []
        while self.at < len(self._pattern) and self._pattern[self.at] not in "|)":
            parts.append(self._repeated(self._atom()))
        return "".join(parts)

    def _next(self, text: str) -> bool:
        found = self._pattern.startswith(text, self.at)
        self.at += len(text) if found else 0
        return found

    def _take(self) -> str:
        if self.at >= len(self._pattern):
            raise _Unknown
        self.at += 1
        return self._pattern[self.at - 1]

    def _atom(self) -> str:
        char = self._take()
        if char == "(":
            return self._group()
        if char == "[":
            return self._class()
        if char == "\\":
            return self._escaped()
        if char in "^$":
            return ""
        if char in "*+?{":
            raise _Unknown
        return ANY if char == "." else self._literal(char)

    def _literal(self, char: str) -> str:
        if char == "\n":
            raise _Unknown
        if not char.isascii():
            return ANY if self._ignore_case else HIGH
        if not self._ignore_case:
            return _byte(char)
        more = _FOLDED.get(char.lower())
        return f"(?:{_cases(char)}|{more})" if more else _cases(char)

    def _escaped(self) -> str:
        char = self._take()
        if char in _SETS:
            return f"(?:[{_SETS[char]}]|{HIGH})"
        if char in "DWS":
            return ANY
        if char in "bBAZ":
            return ""
        return self._literal(_meant(char))

    def _group(self) -> str:
        if not self._pattern.startswith("?", self.at):
            kind = ":"
        else:
            found = _GROUP.match(self._pattern, self.at)
            if not found:
                raise _Unknown
            self.at, kind = found.end(), found[1]
        inner = self.alternatives()
        if not self._next(")"):
            raise _Unknown
        return "" if kind in ("=", "!", "<=", "<!") else f"(?:{inner})"

    def _repeated(self, atom: str) -> str:
        found = _REPEAT.match(self._pattern, self.at)
        if not found:
            if self._pattern.startswith("{", self.at):
                raise _Unknown
            return atom
        self.at = found.end()
        if self._pattern[self.at : self.at + 1] in ("*", "+", "?", "{") or found[0].startswith(("{}", "{,}")):
            raise _Unknown
        return f"(?:{atom}){found[1] or _count(found[2], found[3], found[4])}" if atom else ""

    def _class(self) -> str:
        negated = self._next("^")
        items, high = r"\x5d" if self._next("]") else "", self._ignore_case
        while not self._next("]"):
            item, above = self._member()
            items += item
            high = high or above
        if negated:
            return ANY
        inner = items
        if self._ignore_case:
            inner += inner.lower() + inner.upper() if re.fullmatch("[A-Za-z]*", inner) else "A-Za-z"
        return f"(?:[{inner}]|{HIGH})" if high else f"[{inner}]"

    def _member(self) -> tuple[str, bool]:
        """One character, range or set of a class, and whether characters beyond ASCII belong to it."""
        char = self._take()
        if char == "\\":
            char = self._take()
            if char in _SETS:
                return _SETS[char], True
            if char in "DWS":
                return r"\x00-\x09\x0b-\x7f", True
            char = _meant(char)
        elif char in "[&|~" or (char == "-" and self._pattern.startswith("-", self.at)):
            raise _Unknown  # may be the beginning of a named set, or of an operation on sets
        if char == "\n":
            raise _Unknown
        if self._pattern.startswith("-", self.at) and not self._pattern.startswith("-]", self.at):
            return self._range(char)
        return (_byte(char), False) if char.isascii() else (r"\x80-\xff", True)

    def _range(self, start: str) -> tuple[str, bool]:
        self.at += 1
        end = self._take()
        if end in "[]":
            raise _Unknown
        if end == "\\":
            end = _meant(self._take())
        if start > end or start <= "\n" <= end:
            raise _Unknown
        if not start.isascii():
            return r"\x80-\xff", True
        return f"{_byte(start)}-{_byte(min(end, '~'))}" + ("" if end <= "~" else r"\x7f"), not end.isascii()


def _meant(char: str) -> str:
    """The character that an escaped one stands for."""
    if char in _CONTROLS:
        return _CONTROLS[char]
    if char.isalnum() or not char.isascii():
        raise _Unknown
    return char


def _cases(char: str) -> str:
    return f"[{char.lower()}{char.upper()}]" if char.isalpha() else _byte(char)


def _byte(char: str) -> str:
    return char if char.isalnum() or char in " _" else f"\\x{ord(char):02x}"


def _count(least: str, comma: str, most: str) -> str:
    low = int(least or 0)
    if not comma:
        return f"{{{low}}}" if low <= MAX_REPEAT else f"{{{MAX_REPEAT},}}"
    if most and int(most) <= MAX_REPEAT:
        return f"{{{low},{most}}}"
    return f"{{{min(low, MAX_REPEAT)},}}"
