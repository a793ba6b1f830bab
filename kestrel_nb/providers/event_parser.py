"""What the parsers of a reply in server-sent JSON events share: bytes to JSON events, and errors told apart."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from ..protocol.errors import CodecError, ModelRequestError
from ..protocol.json_text import DOCUMENT_DEPTH, dumps, loads
from ..runtime.models import CompletionResponse, TokenDelta
from ..runtime.retry import model_http_error
from ..runtime.truncation import clean_text
from .lines import SseSplitter
from .wire import broken, truncated

MAX_HEAD_BYTES: Final = 4 * 1024 * 1024  # of a body without a single event, kept to say what it was

Whole = Callable[[bytes], CompletionResponse]


class EventParser(ABC):
    """A ``WireParser`` for events whose data is JSON.

    A server that was asked to stream may still answer in one piece, or send an error as plain JSON under status 200:
    ``whole`` reads such a body. ``[DONE]``, which some servers put at the end of any stream, says nothing.
    """

    def __init__(self, stamp: str, whole: Whole) -> None:
        self.stamp = stamp
        self._whole = whole
        self._splitter = SseSplitter()
        self._head = bytearray()
        self._any = False
        self._half = ""
        self._failure: ModelRequestError | None = None

    @property
    @abstractmethod
    def done(self) -> bool:
        """True once the reply said that it is complete."""

    def feed(self, data: bytes) -> Sequence[TokenDelta]:
        """Take the next bytes, cut anywhere. What came ahead of an error is given out; the next call raises it."""
        if self._failure is not None:
            raise self._failure
        if not self._any and len(self._head) < MAX_HEAD_BYTES:
            self._head += data
        deltas: list[TokenDelta] = []
        try:
            for event in self._splitter.feed(data):
                self._any = True
                self._head.clear()
                if event.data != "[DONE]":
                    deltas += self._event(read_json(event.data, self.stamp))
        except ModelRequestError as error:
            if not deltas:
                raise
            self._failure = error
        return deltas

    def end(self) -> CompletionResponse:
        """The body ended. Raises ModelRequestError, retryable when the reply was cut."""
        if self._failure is not None:
            raise self._failure
        if not self.done and not self._any and self._head.lstrip().startswith((b"{", b"[")):
            return self._whole(bytes(self._head))
        return self._finished()

    @abstractmethod
    def _event(self, event: Any) -> Iterable[TokenDelta]:
        """What one event shows. Raises ModelRequestError for an event that reports an error."""

    @abstractmethod
    def _finished(self) -> CompletionResponse:
        """The reply, or the error that it was cut."""

    def _shown(self, piece: Any) -> str:
        """``piece`` as it can be shown; half a surrogate pair at its end waits for the other half."""
        text = self._half + str_of(piece)
        self._half = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return clean_text(text)

    def _cut(self) -> ModelRequestError:
        return truncated(self.stamp)


def read_json(text: str | bytes, stamp: str) -> Any:
    """The JSON of an event or a body. Raises ModelRequestError (``broken_reply``)."""
    try:
        return loads(text, DOCUMENT_DEPTH)
    except CodecError:
        raise broken(stamp, "sent something that is not JSON; is the base URL that of a model?") from None


def reported(error: Any, stamp: str, status: int) -> ModelRequestError:
    """The error that a server reports inside a reply; ``status`` is the one that it would have answered with."""
    body = error if isinstance(error, Mapping) else {"message": str_of(error)}
    return model_http_error(status, dumps({"error": dict(body)}), provider=stamp)


def object_of(value: Any) -> Mapping[str, Any]:
    """``value`` if it is an object, else an empty one: null and absent are the same."""
    return value if isinstance(value, Mapping) else {}


def objects_of(value: Any) -> list[Mapping[str, Any]]:
    """The objects in ``value`` if it is an array, else none."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def str_of(value: Any) -> str:
    """``value`` if it is text, else an empty one."""
    return value if isinstance(value, str) else ""


def count_of(value: Any) -> int:
    """``value`` if it is a count, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
