"""Results of tools for formats that have no flag for errors, or no images in results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ..protocol.messages import ChatMessage, ToolResultPart
from .encoding import Items

T = TypeVar("T")


def told(result: ToolResultPart) -> str:
    """The text of ``result``; that it is an error is said in words."""
    text = result.content
    return f"Error: {text}" if result.is_error and "error" not in text[:40].lower() else text


@dataclass(frozen=True, slots=True)
class Sent(Generic[T]):
    """One message as JSON (empty: nothing to send), and what is to be shown of the images that a tool gave."""

    body: bytes
    images: tuple[T, ...] = ()


class ItemsAndImages(Items, Generic[T]):
    """Messages, and behind all results of a turn what ``show`` makes of their images: one or more user messages."""

    def __init__(self, show: Callable[[list[T]], bytes]) -> None:
        super().__init__()
        self._show = show
        self._images: list[T] = []

    def add(self, message: ChatMessage, sent: Sent[T], /) -> None:  # type: ignore[override]
        """One more message."""
        if self._images and message.role != "tool":
            super().add(message, self._show(self._images))
            self._images = []
        self._images += sent.images
        super().add(message, sent.body)

    def pieces(self) -> tuple[bytearray, bytes]:
        """All of them, joined; images that nothing followed yet stand in the second."""
        return self.joined, b"," + self._show(self._images) if self._images else b""
