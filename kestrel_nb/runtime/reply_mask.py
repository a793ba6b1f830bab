"""A model may repeat a key that a server or a tool has told it: replies are masked on their way in.

The transcript, what is stored, events and the next request then hold ``***``. Arguments of calls stay as they are, for
they run; of them only what streams to clients is masked here.
"""

from __future__ import annotations

from dataclasses import replace

from ..protocol.messages import Part, ReasoningPart, TextPart
from .models import CompletionResponse
from .secrets import MIN_GIVEN, Masker


def masked_reply(response: CompletionResponse, masker: Masker) -> CompletionResponse:
    """``response`` with keys in its texts as ``***``; the same object when there are none.

    What a provider has signed of such a text does not fit any more, and is left out.
    """
    parts = tuple(_masked(part, masker) for part in response.parts)
    same = all(new is old for new, old in zip(parts, response.parts, strict=True))
    return response if same else replace(response, parts=parts)


def _masked(part: Part, masker: Masker) -> Part:
    if not isinstance(part, (TextPart, ReasoningPart)):
        return part
    text = masker.mask(part.text)
    return part if text == part.text else replace(part, text=text, extra={})


class StreamMask:
    """Masks text that comes in pieces: the end of a piece that may be the beginning of a key waits for the next one."""

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self._held = ""

    def feed(self, text: str) -> str:
        """What can be told by now."""
        whole = self._held + text
        held = self._masker.begun_in(whole)
        cut = len(whole) - held
        self._held = whole[cut:]
        return self._masker.mask(whole[:cut])

    def end(self, *, whole: bool = True) -> str:
        """The rest; unless the text is ``whole``, nothing of it that may be a key which was broken off."""
        rest, self._held = self._held, ""
        return self._masker.mask(rest) if whole or len(rest) < MIN_GIVEN else ""
