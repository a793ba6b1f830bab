"""The body of an answer as text, whatever its charset."""

from __future__ import annotations

import codecs
import re
from email.message import Message
from typing import Final

from .network import Response

BINARY_LOOK: Final = 8_192  # bytes that are looked at for NUL, as git does
_GUESS_BYTES: Final = 32_768
_GUESS_FROM: Final = 20  # bytes beyond ASCII: with fewer every Western text looks like several encodings at once
_MULTIBYTE: Final = ("big5", "cp932", "cp949", "euc", "gb", "hz", "iso2022", "johab", "shift")
_META_BYTES: Final = 1_024  # the HTML standard: a declaration stands within the first 1024 bytes
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Codecs for text of the web by Python's names: the others (punycode, unicode_escape, utf-7 ...) are none, or harmful.
_KNOWN = re.compile(
    r"utf-8|utf-16(-[lb]e)?|utf-32(-[lb]e)?|ascii|iso8859-\d+|cp\d+|koi8-[rut]|mac-\w+|gb2312|gbk|gb18030|big5(hkscs)?"
    r"|hz|euc_(jp|kr)|shift_jis|iso2022_(jp|kr)|johab|tis-620|ptcp154|kz1048"
)
# Where the web means another encoding, mostly a larger one, than Python does (encoding.spec.whatwg.org).
_MEANT: Final = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "euc_kr": "cp949",
    "shift_jis": "cp932",
    "windows-31j": "cp932",
    "gb_2312-80": "gb18030",
    "iso-8859-8-i": "iso8859-8",
    "utf-16": "utf-16-le",  # without a byte order mark
    "utf-32": "utf-32-le",
}
_META = re.compile(rb"""<meta\s[^>]{0,500}?charset\s*=\s*["']?\s*([A-Za-z0-9_:.-]+)(?=["'\s;/>])""", re.IGNORECASE)
_XML = re.compile(rb"""\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9_:.-]+)["']""")
_COMMENT = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)
_MARKUP_TYPE = re.compile(r"(?:.*[/+](?:html|xml|xhtml))?")
_TEXT_TYPE = re.compile(
    r"text/.*|message/.*|.*[/+](json|xml|yaml|javascript|ecmascript)"
    r"|application/(x-www-form-urlencoded|x-ndjson|jsonl|json5|x-yaml|toml|sql|graphql|x-sh|csv|rtf|x-javascript)"
)


def body_text(response: Response) -> str:
    """The body as text; never raises. Bytes that make no sense become U+FFFD, half a character at a cut is left out.

    The charset comes from the byte order mark, the Content-Type header, a declaration in HTML or XML; else it is
    UTF-8 if the bytes are, and a guess if not.
    """
    mark, encoding = _marked(response.body)
    encoding = encoding or _charset(response) or _declared(response) or _probable(response)
    decoded = codecs.getincrementaldecoder(encoding)("replace")
    try:
        return decoded.decode(response.body[mark:], final=not response.truncated)
    except ValueError:  # some multi-byte codecs raise in spite of "replace"
        return response.body.decode("utf-8", "replace")


def is_text(response: Response) -> bool:
    """Whether the body is meant to be read: by its type and charset, else by what it looks like."""
    _, encoding = _marked(response.body)
    if encoding or (_charset(response) or "").startswith(("utf-16", "utf-32")):
        return True
    if b"\0" in response.body[:BINARY_LOOK]:
        return False
    return bool(_TEXT_TYPE.fullmatch(_type(response)) or _charset(response) or _is_utf8(response))


def _marked(body: bytes) -> tuple[int, str | None]:
    return next(((len(mark), name) for mark, name in _MARKS if body.startswith(mark)), (0, None))


def _type(response: Response) -> str:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


def _charset(response: Response) -> str | None:
    message = Message()
    message["content-type"] = response.headers.get("content-type", "").split(",")[0]
    name = message.get_param("charset")
    return _codec(name) if isinstance(name, str) else None


def _declared(response: Response) -> str | None:
    """What HTML or XML says of itself; in other text such words mean something else."""
    if not _MARKUP_TYPE.fullmatch(_type(response)):
        return None
    start = _COMMENT.sub(b"", response.body[:_META_BYTES])
    found = _XML.match(start) or _META.search(start)
    encoding = _codec(found[1].decode("ascii")) if found else None
    # A declaration that could be read as ASCII is no UTF-16: the HTML standard takes UTF-8 for it.
    return "utf-8" if encoding and encoding.startswith(("utf-16", "utf-32")) else encoding


def _codec(label: str) -> str | None:
    """Python's codec for a charset label of the web, None for one that is not known."""
    label = label.strip(" \"'").lower()
    for known in (_MEANT.get(label, label), label.removeprefix("x-"), label.replace("windows-", "cp")):
        try:
            name = codecs.lookup(known).name
        except (LookupError, ValueError):
            continue
        return _MEANT.get(name, name) if _KNOWN.fullmatch(name) else None
    return None


def _is_utf8(response: Response) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(response.body, final=not response.truncated)
    except UnicodeDecodeError:
        return False
    return True


def _probable(response: Response) -> str:
    if _is_utf8(response):
        return "utf-8"
    from charset_normalizer import from_bytes

    sample = response.body[:_GUESS_BYTES]
    best = from_bytes(sample).best()
    encoding = (_codec(best.encoding) if best else None) or "cp1252"
    needed = _GUESS_FROM // 3 if encoding.startswith(_MULTIBYTE) else _GUESS_FROM
    sure = sum(byte > 127 for byte in sample) >= needed and not encoding.startswith("utf")
    return encoding if sure else "cp1252"
