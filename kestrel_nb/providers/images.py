"""Images of messages in the forms that wire formats take."""

from __future__ import annotations

import re

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
    return media_type.lower(), "".join(data.split())
