"""Images of messages in the forms that wire formats take."""

from __future__ import annotations

import re
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class TakenImages:
    """The images that a format takes: the media types of data, and how addresses begin. ``told`` says it in words."""

    types: frozenset[str]
    addresses: tuple[str, ...]
    told: str

    def check(self, part: ImagePart) -> None:
        """Raises UsageError for an image that is not taken."""
        media_type, data = base64_image(part)
        if data is not None and media_type not in self.types:
            raise UsageError(f"{self.told}, not {media_type}; convert the image first")
        if self.words_for(part):
            raise UsageError(f"{self.told}; download the image and attach its bytes")

    def words_for(self, part: ImagePart) -> str:
        """What stands in the place of an image that is not taken; "" for one that is."""
        media_type, data = base64_image(part)
        if data is None:
            known = (part.url or "").lower().startswith(self.addresses)
            return "" if known else "(an image at an address that this model can't read)"
        return (
            "" if media_type in self.types else f"(an image of type {media_type}, which can't be shown to this model)"
        )


def image_url(part: ImagePart) -> str | None:
    """The address of ``part``, or a data URL that holds it."""
    media_type, data = base64_image(part)
    return part.url if data is None else f"data:{media_type};base64,{data}"
