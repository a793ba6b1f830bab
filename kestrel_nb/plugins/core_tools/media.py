"""What kind of body an HTTP answer has: a page, other text, or neither."""

from __future__ import annotations

import codecs
import re
from typing import Final, Literal

from ...sandbox.network import Response
from .text import BINARY_SAMPLE, decode

Kind = Literal["html", "text", "binary"]

_HTML: Final = ("text/html", "application/xhtml+xml")
_TEXT: Final = re.compile(
    r"text/.*|.*\+(?:json|xml|yaml)|application/(?:json|xml|javascript|ecmascript|x-javascript|typescript|yaml|x-yaml|toml"
    r"|csv|sql|graphql|x-ndjson|ndjson|jsonl|json-seq|x-sh|x-www-form-urlencoded|rtf|x-tex|x-latex|xml-dtd)"
)
_BINARY: Final = re.compile(
    r"(?:image|audio|video|font|model)/.*|application/(?:pdf|zip|gzip|wasm|x-tar|x-7z-compressed)"
)
_PAGE: Final = re.compile(rb"\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
# How files begin (the list of mimesniff.spec.whatwg.org, and what else is common).
_BEGINNINGS: Final = (
    (b"%PDF-", "application/pdf"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b\x08", "application/gzip"),
    (b"PAR1", "application/vnd.apache.parquet"),
    (b"\x89HDF\r\n\x1a\n", "application/x-hdf5"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
    (b"\0asm", "application/wasm"),
)
_WIDE: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)


def media_type(response: Response) -> str:
    """The type in the header without its parameters, in lower case; "" when there is none."""
    return response.headers.get("content-type", "").split(";")[0].strip().lower()[:100]


def named(response: Response) -> str:
    """The type as the body shows it, else as the header says."""
    return _begins(response.body) or media_type(response) or "of an unknown type"


def kind_of(response: Response) -> Kind:
    """What the body is; where the header gives no type, or a vague one, the body is looked at."""
    declared, body = media_type(response), response.body
    as_html, as_text = declared in _HTML, bool(_TEXT.fullmatch(declared))
    if (_BINARY.fullmatch(declared) and not as_text) or is_binary(body, strict=not (as_html or as_text)):
        return "binary"
    if as_html or as_text:
        return "html" if as_html else "text"
    return "html" if _PAGE.match(body[:BINARY_SAMPLE]) else "text"


def is_binary(body: bytes, *, strict: bool = True) -> bool:
    """True for bytes that are no text in any encoding. ``strict``: one NUL is enough."""
    sample = body[:BINARY_SAMPLE]
    if _begins(body):
        return True
    if sample.startswith(_WIDE) or (b"\0" in sample and decode(sample, guess=False)):
        return False
    controls = sum(byte < 32 and byte not in b"\t\n\r\f\b\x1b" for byte in sample)
    return (strict and b"\0" in sample) or controls > len(sample) * 0.02


def _begins(body: bytes) -> str:
    if body[:4] == b"RIFF" and body[8:12] == b"WEBP":
        return "image/webp"
    return next((name for beginning, name in _BEGINNINGS if body.startswith(beginning)), "")
