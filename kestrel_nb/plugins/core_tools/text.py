"""Text files as bytes and back: byte order marks, encodings, line ends, and what is no text at all."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

BINARY_SAMPLE = 8192
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark begins it
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_GUESS_FROM = 32  # so many bytes beyond ASCII before a guess between one-byte encodings means anything
_FOR_EACH_BAD = 5  # characters beyond ASCII for each byte that fits none: other encodings hardly ever look like this
_AS_LIKELY = 0.1  # more chaos, as the library measures it, in which the commonest encoding is still preferred
_MULTIBYTE = ("cp932", "shift", "euc", "gb", "big5", "johab", "cp949", "cp950", "iso2022", "hz")


@dataclass(frozen=True, slots=True)
class Decoded:
    """A text, how it was encoded (``guessed``: perhaps), and its byte order mark, which is not a part of the text.

    Bytes of UTF-8 that fit no character are lone surrogates here, so that they go back into the file.
    """

    text: str
    encoding: str
    mark: bytes = b""
    guessed: bool = False

    @property
    def readable(self) -> str:
        """The text with U+FFFD for bytes that fit no character."""
        return self.text if self.encoding != "utf-8" or not self.guessed else _readable(self.text)

    def encode(self, text: str) -> bytes:
        """``text`` as the file would hold it. Raises UnicodeEncodeError."""
        damaged = self.encoding == "utf-8" and self.guessed
        return self.mark + text.encode(self.encoding, "surrogateescape" if damaged else "strict")


def damaged_utf8(data: bytes) -> str | None:
    """UTF-8 in which a few bytes fit no character, those as lone surrogates; None when it seems to be no UTF-8."""
    text = data.decode("utf-8", "surrogateescape")
    beyond = re.sub(r"[\x00-\x7f]+", "", text)
    bad = len(re.findall("[\ud800-\udfff]", beyond))
    return text if len(beyond) >= _FOR_EACH_BAD * bad else None


def _readable(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def decode(data: bytes, *, guess: bool = True) -> Decoded | None:
    """``data`` as text, None when it is binary. ``guess``: take time to tell encodings apart that have no mark."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            found = _try(data[len(mark) :], encoding)
            if found is not None and "\0" not in found:
                return Decoded(found, encoding, mark)
    if b"\0" in data:
        return _utf16_without_mark(data)
    text = _try(data, "utf-8")
    if text is not None:
        return Decoded(text, "utf-8")
    damaged = damaged_utf8(data)
    if damaged is not None:
        return Decoded(damaged, "utf-8", guessed=True)
    for candidate in (_guess(data) if guess else "cp1252", "latin-1"):
        if candidate is None:
            return None
        text = _try(data, candidate)
        if text is not None and _goes_back(text, candidate, data):
            return Decoded(text, candidate, guessed=True)
    return None


def _try(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except (UnicodeDecodeError, LookupError):
        return None


def _goes_back(text: str, encoding: str, data: bytes) -> bool:
    """Some encodings spell one text in several ways; a file in such a spelling would change where nobody edited."""
    try:
        return text.encode(encoding) == data
    except UnicodeEncodeError:
        return False


def is_wide(data: bytes) -> bool:
    """True when ``data`` may be UTF-16 or UTF-32: by its mark, or since NUL is nearly every second byte."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)):
        return True
    if data.find(b"\0", 0, BINARY_SAMPLE) < 0:
        return False
    even, odd = _nuls(data)
    return min(even, odd) == 0 and max(even, odd) > 0.35 * len(data[:BINARY_SAMPLE])


def _nuls(data: bytes) -> tuple[int, int]:
    """How many NULs stand on even and on odd places of the first bytes."""
    sample = data[:BINARY_SAMPLE]
    return sample[0::2].count(0), sample[1::2].count(0)


def _utf16_without_mark(data: bytes) -> Decoded | None:
    """UTF-16 of mostly Latin text."""
    if len(data) < 4 or len(data) % 2 or not is_wide(data):
        return None
    encoding = "utf-16-le" if _nuls(data)[1] else "utf-16-be"
    text = _try(data, encoding)
    if text is None or any(char < " " and char not in "\t\n\r\f" for char in text):
        return None
    return Decoded(text, encoding, guessed=True)


def _guess(data: bytes) -> str | None:
    """An encoding for bytes that are not UTF-8, None for binary."""
    sample = data[:65_536]
    if sum(byte < 32 and byte not in b"\t\n\r\f\b\x1b" for byte in sample) > len(sample) * 0.02:
        return None
    from charset_normalizer import from_bytes

    found = list(from_bytes(sample))
    matches = [match for match in found if not _is_halfwidth(str(match))]
    high = sum(byte > 127 for byte in sample)
    if not matches:
        return "cp1252" if found or high <= len(sample) * 0.6 else None
    best = matches[0]
    if any(match.encoding == "cp1252" and match.chaos <= best.chaos + _AS_LIKELY for match in matches):
        return "cp1252"
    return best.encoding if best.encoding.startswith(_MULTIBYTE) or high >= _GUESS_FROM else "cp1252"


def _is_halfwidth(text: str) -> bool:
    """Whether most characters beyond ASCII are half-width katakana: what letters of other scripts are taken for."""
    beyond = sum(char > "\x7f" for char in text)
    return 2 * sum("\uff61" <= char <= "\uff9f" for char in text) > beyond


def whole_characters(data: bytes) -> bytes:
    """``data`` without the first bytes of a UTF-8 character that was cut off at its end."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte >= 0xC0:  # a first byte; it says how many belong together
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data if back >= needed else data[:-back]
        if byte < 0x80:
            break
    return data


def line_end_of(text: str) -> str:
    """The line end that ``text`` uses most: CRLF or LF."""
    crlf = text.count("\r\n")
    return "\r\n" if crlf > text.count("\n") - crlf else "\n"


def lines_of(text: str) -> list[str]:
    """The lines of ``text`` without their ends. Lines end at LF or CRLF only, as in grep and in editors."""
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines
