"""The three ways in which file-read and file-write carry bytes as text."""

from __future__ import annotations

import base64
import binascii
import re

from ...protocol.errors import ToolCallError

ENCODINGS = ("utf-8", "base64", "hex")
_SPACE = re.compile(r"[ \t\r\n]+")


def to_text(data: bytes, encoding: str, shown: str) -> str:
    """``data`` of the file ``shown`` as text. Raises ToolCallError when it is no UTF-8 and that was asked for."""
    if encoding == "base64":
        return base64.b64encode(data).decode("ascii")
    if encoding == "hex":
        return data.hex()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ToolCallError(
            f'{shown} is not UTF-8 text (byte {error.start:,} fits no character); read it with encoding "base64"',
            code="not_utf8",
        ) from None


def to_bytes(text: str, encoding: str) -> bytes:
    """The bytes that ``text`` stands for; white space in base64 and hex does not count.

    Raises ToolCallError when ``text`` is not of that encoding: base64 without its padding may have been cut off.
    """
    if encoding == "utf-8":
        try:
            return text.encode("utf-8")
        except UnicodeEncodeError:
            raise ToolCallError("content: must be valid Unicode, without lone surrogates") from None
    plain = _SPACE.sub("", text)
    try:
        data = bytes.fromhex(plain) if encoding == "hex" else binascii.a2b_base64(plain, strict_mode=True)
        if to_text(data, encoding, "") != (plain.lower() if encoding == "hex" else plain):
            raise ValueError(plain)
        return data
    except ValueError:  # binascii.Error is one
        raise ToolCallError(f"content: is not valid {encoding}; nothing was written", code="invalid_content") from None
