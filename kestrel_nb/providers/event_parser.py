"""What the parsers of a reply in server-sent JSON events share: bytes to JSON events, and errors told apart."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from ..protocol.errors import CodecError, ModelRequestError
from ..protocol.json_text import DOCUMENT_DEPTH, dumps, jsonable, loads
from ..protocol.messages import Part, ToolCallPart
from ..runtime.models import CompletionResponse, TokenDelta
from ..runtime.retry import model_http_error
from ..runtime.truncation import clean_text
from .lines import ServerSentEvent, SseSplitter
from .wire import broken, truncated

MAX_HEAD_BYTES: Final = 4 * 1024 * 1024  # of a body without a single event, kept to say what it was

Whole = Callable[[bytes], CompletionResponse]

# What servers call a failure inside a reply, and the status that they answer with outside of one: the references of
# Anthropic and OpenAI, and google.rpc.Code for Gemini.
_STATUS: Final = {
    "invalid_request_error": 400,
    "invalid_argument": 400,
    "failed_precondition": 400,
    "out_of_range": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "unauthenticated": 401,
    "billing_error": 402,
    "permission_error": 403,
    "permission_denied": 403,
    "not_found_error": 404,
    "not_found": 404,
    "model_not_found": 404,
    "aborted": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "resource_exhausted": 429,
    "api_error": 500,
    "server_error": 500,
    "internal_error": 500,
    "internal_server_error": 500,
    "internal": 500,
    "unavailable": 503,
    "server_is_overloaded": 503,
    "slow_down": 503,
    "timeout_error": 504,
    "vector_store_timeout": 504,
    "deadline_exceeded": 504,
    "overloaded_error": 529,
}
_THREE_DIGITS = re.compile("[0-9]{3}")


class Shown:
    """Pieces of text as they can be shown: half a surrogate pair at the end of one waits for its other half."""

    def __init__(self) -> None:
        self._halves: dict[str, str] = {}

    def __call__(self, piece: Any, place: str) -> str:
        """``piece`` without what can't be shown yet; "" for what is no text. Each ``place`` has halves of its own."""
        text = str_of(piece)
        if half := self._halves.pop(place, "") if text else "":
            text = half + text
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._halves[place] = text[:-1], text[-1]
        return clean_text(text)


class EventParser(ABC):
    """A ``WireParser`` for events whose data is JSON.

    A server that was asked to stream may still answer in one piece, or send an error as plain JSON under status 200:
    ``whole`` reads such a body. ``[DONE]``, which some servers put at the end of any stream, says nothing, and nor
    does an event without data. An event's name stands in for a ``type`` that its data leave out. What comes behind
    the end is not read: it can't break a reply that is complete.
    """

    def __init__(self, stamp: str, whole: Whole) -> None:
        self.stamp = stamp
        self._whole = whole
        self._splitter = SseSplitter()
        self._head = bytearray()
        self._any = False
        self._shown = Shown()
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
                if not self.done and event.data.strip() not in ("", "[DONE]"):
                    deltas += self._event(self._data_of(event))
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

    def _data_of(self, event: ServerSentEvent) -> Any:
        """The JSON of ``event``. Raises ModelRequestError for what is none, and for errors in plain words."""
        try:
            data = read_json(event.data, self.stamp)
        except ModelRequestError:
            if event.event == "error":
                raise reported(event.data, self.stamp, 500) from None
            raise
        if not event.event or event.event == "message":  # what every event is called that has no name
            return data
        if isinstance(data, Mapping):
            return data if data.get("type") else {**data, "type": event.event}
        if event.event == "error":
            raise reported(data, self.stamp, 500)
        return data

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
    words = error if isinstance(error, str) else "" if error is None else dumps(error)
    body = dict(error) if isinstance(error, Mapping) else {"message": words}
    return model_http_error(status, dumps({"error": body}), provider=stamp)


def status_of(error: Any, *, unknown: int, unnamed: int) -> int:
    """The status that ``error`` would have had: its own number, or what its name stands for.

    ``unknown`` is the one for a name that nobody here knows, ``unnamed`` for an error without any.
    """
    said = [object_of(error).get(key) for key in ("code", "status", "status_code", "type")]
    for value in said:
        number = int(value) if isinstance(value, str) and _THREE_DIGITS.fullmatch(value) else count_of(value)
        if 400 <= number <= 599:
            return number
    names = [name for value in said if (name := str_of(value).strip().lower()) not in ("", "error")]
    known = (_STATUS[name] for name in names if name in _STATUS)
    return next(known, unknown if names else unnamed)


def argument_text(given: Any, absent: str = "{}") -> str:
    """The arguments of a call as text: servers send text or JSON, whatever their format asks for.

    Null is ``absent``, and so is an empty array, which is how PHP writes an empty object.
    """
    if given is None or given == []:
        return absent
    return clean_text(given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, separators=(",", ":")))


def kept(value: Any, stamp: str) -> Any:
    """``value`` of a server as it can be stored. Raises ModelRequestError for what is nested too deeply."""
    try:
        return jsonable(value)
    except CodecError as error:
        raise broken(stamp, f"sent something that can't be kept: {error}") from None


def once(parts: Iterable[Part]) -> tuple[Part, ...]:
    """``parts`` without calls that were said again: the same id, name and arguments."""
    seen: set[tuple[str, str, str]] = set()
    found: list[Part] = []
    for part in parts:
        if isinstance(part, ToolCallPart):
            call = (part.id, part.name, part.raw_arguments)
            if call in seen:
                continue
            seen.add(call)
        found.append(part)
    return tuple(found)


def finish_of(word: str, parts: Iterable[Part]) -> str:
    """Why a reply ended: calls decide, whatever its own ``word``, unless that says that the reply is not whole."""
    if word in ("length", "content_filter", "error"):
        return word
    if any(isinstance(part, ToolCallPart) for part in parts):
        return "tool_calls"
    return "stop" if word in ("", "tool_calls") else word


def object_of(value: Any) -> Mapping[str, Any]:
    """``value`` if it is an object, else an empty one: null and absent are the same."""
    return value if isinstance(value, dict) else {}


def objects_of(value: Any) -> list[Mapping[str, Any]]:
    """The objects in ``value`` if it is an array, else none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def str_of(value: Any) -> str:
    """``value`` if it is text, else an empty one."""
    return value if isinstance(value, str) else ""


def count_of(value: Any) -> int:
    """``value`` if it is a count, else 0; some servers write 7 as 7.0."""
    if isinstance(value, float) and value.is_integer():
        return max(int(value), 0)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
