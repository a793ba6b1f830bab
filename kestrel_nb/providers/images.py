"""Images of messages in the forms that wire formats take."""

from __future__ import annotations

import re

from ..protocol.errors import UsageError
from ..protocol.messages import ImagePart

_DATA_URL = re.compile(r"data:(?P<type>[\w.+-]+/[\w.+-]+)(?:;[^,;]*)*;base64,(?P<data>.*)", re.DOTALL | re.IGNORECASE)


def base64_image(part: ImagePart) -> tuple[str, str | None]:
    """The media type of ``part`` and its data in base64 without white space; None for one that only a URL names."""
    if part.data is not None:
        match = _DATA_URL.fullmatch(part.data)
    else:
        match = _DATA_URL.fullmatch(part.url or "")
        if match is None:
            return part.media_type, None
    media_type, data = (match["type"], match["data"]) if match else (part.media_type, part.data or "")
    media_type = media_type.lower()
    return "image/jpeg" if media_type == "image/jpg" else media_type, "".join(data.split())


def check_image(part: ImagePart, taken: frozenset[str], told: str) -> None:
    """Raises UsageError for data of a media type that is not ``taken``; ``told`` says which are."""
    media_type, data = base64_image(part)
    if data is not None and media_type not in taken:
        raise UsageError(f"{told}, not {media_type}; convert the image first")


def words_for(part: ImagePart, taken: frozenset[str]) -> str:
    """What stands in the place of an image whose data are of a type that is not ``taken``; "" for one that is."""
    media_type, data = base64_image(part)
    if data is None or media_type in taken:
        return ""
    return f"(an image of type {media_type}, which can't be shown to this model)"
