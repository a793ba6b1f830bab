"""Images from data URIs and from HTTP answers, told by their bytes and bounded in size."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

from ...protocol.errors import ToolCallError
from ...sandbox.network import Response
from ...sandbox.output import size_text

MAX_IMAGE_BYTES: Final = 20_000_000
KINDS: Final = "PNG, JPEG, GIF or WebP"
SHOWN_CHARS: Final = 60  # of a data URI in a result
# RFC 2397 with base64: data:[<type>][;name=value ...];base64,<data>; spaces as browsers forgive them
_HEAD: Final = re.compile(
    r"data: *(?P<type>[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+)?"
    r"(?: *; *[a-z0-9!#$&^_.+-]+=(?:\"[^\"]*\"|[^;,\"]*))*(?P<base64> *; *base64 *)?,",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Image:
    """The bytes of an image and what they are."""

    media_type: str
    data: bytes


def is_data_uri(url: str) -> bool:
    """True for a URL of the scheme ``data``, also with spaces before it."""
    return url[:100].lstrip()[:5].lower() == "data:"


def short_uri(url: str) -> str:
    """``url``, but of a data URI only the beginning and its length."""
    if not is_data_uri(url) or len(url) <= 2 * SHOWN_CHARS:
        return url
    return f"{url[:SHOWN_CHARS]}... ({len(url):,} characters)"


def from_data_uri(url: str) -> Image:
    """The image in a data URI. Raises ToolCallError when there is none, or a larger one than may be."""
    url = url.strip()
    head = _HEAD.match(url[:1000])
    if not head:
        raise ToolCallError("url: is no valid data URI; it must be like data:image/png;base64,iVBORw0...")
    if not head["base64"]:
        raise ToolCallError("url: the data URI must hold base64; write data:image/png;base64,...")
    declared = (head["type"] or "text/plain").lower()  # what the RFC takes for a missing type
    if not declared.startswith("image/"):
        raise ToolCallError(f"url: the data URI is {declared} and no image; {KINDS} can be described")
    if len(url) - head.end() > MAX_IMAGE_BYTES * 4 // 3 + 4:
        raise _too_large()
    return _checked(_decoded(url[head.end() :]))


def from_response(response: Response) -> Image:
    """The image that a server answered with. Raises ToolCallError."""
    if response.status != 200:
        reason = f" {response.reason[:100]}" if response.reason else ""
        raise ToolCallError(f"{response.url} answered {response.status}{reason}; check the address")
    if response.truncated:
        raise _too_large()
    return _checked(response.body)


def _decoded(text: str) -> bytes:
    """Base64 as browsers read it in a URL: in several lines, percent-encoded, with its padding or without."""
    try:
        data = b"".join((unquote_to_bytes(text) if "%" in text else text.encode("ascii")).split())
        if not data.endswith(b"="):
            data += b"=" * (-len(data) % 4)
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise ToolCallError("url: the data URI is no valid base64; was it cut off?") from None


def _checked(data: bytes) -> Image:
    if not data:
        raise ToolCallError("the image is empty: it has no bytes")
    if len(data) > MAX_IMAGE_BYTES:
        raise _too_large()
    media_type = _media_type(data)
    if media_type is None:
        raise ToolCallError(f"this is no image that can be described: its bytes are {_looks_like(data)}, not {KINDS}")
    return Image(media_type, data)


def _media_type(data: bytes) -> str | None:
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def _looks_like(data: bytes) -> str:
    start = data[:1000].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if b"<svg" in start:
        return "SVG"
    if start.startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
        return "an HTML page"
    return "text" if start.startswith((b"<", b"{", b"[")) else "of another kind"


def _too_large() -> ToolCallError:
    return ToolCallError(f"the image is larger than {size_text(MAX_IMAGE_BYTES)}; use a smaller one")
