"""Reads the replies of Chat Completions, streamed or whole, from the many servers that speak it.

The format as OpenAI documents it is met by few: indexes are missing or all 0, names are said again, ids are missing,
arguments are null, ``choices`` is empty, an error comes with status 200. None of these may lose or merge a call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..protocol.errors import CodecError, ModelRequestError
from ..protocol.sessions import Usage
from ..runtime.models import CompletionResponse, TokenDelta
from .event_parser import count_of, object_of, reported
from .lines import SseSplitter
from .openai_chat_reply import ChatReply
from .wire import broken, truncated

DONE: Final = "[DONE]"
FINISH: Final = {  # words of other servers for the four that everybody knows
    "function_call": "tool_calls",
    "model_length": "length",
    "max_tokens": "length",
    "end_turn": "stop",
    "eos": "stop",
}
FAILED: Final = ("error", "insufficient_system_resource")
_scan: Any = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # json.loads without its checks: a stream is thousands of small texts
_ODD = (AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError, CodecError)


class OpenAIChatParser:
    """Reads one streamed reply.

    It is complete with ``[DONE]``, or with a finish reason where a server leaves ``[DONE]`` out; the usage, which comes
    between the two, may then be missing and counts as zero. Pieces of one kind that arrive together become one delta.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._splitter = SseSplitter()
        self._reply = ChatReply()
        self._failure: ModelRequestError | None = None
        self._finish: str | None = None
        self._usage: Any = None
        self._done = False

    @property
    def done(self) -> bool:
        """True once the reply said that it is complete, or that it failed."""
        return self._done

    def feed(self, data: bytes) -> Sequence[TokenDelta]:
        """Take the next bytes. An error that follows text in the same bytes is raised by ``end``: the text was said."""
        if self._done:
            return ()
        try:
            for name, text in self._splitter.feed(data):
                chunk = self._read(text)
                if chunk is DONE:
                    self._done = True
                    break
                self._chunk(chunk, name)
        except ModelRequestError as error:
            self._failure, self._done = error, True
        except _ODD:
            self._failure, self._done = broken(self._provider, "sent an event of an unknown form"), True
        deltas = self._reply.take()
        if self._failure is not None and not deltas:
            raise self._failure
        return deltas

    def end(self) -> CompletionResponse:
        """The whole reply. Raises ModelRequestError when the server reported one, or stopped too early."""
        if self._failure is not None:
            raise self._failure
        if not self._done and self._finish is None:
            raise truncated(self._provider)
        return self._response()

    def read_object(self, reply: Any) -> CompletionResponse:
        """The reply that ``reply``, the JSON of a whole one, holds."""
        if not isinstance(reply, dict):
            raise broken(self._provider, "sent a reply that is not an object")
        self._chunk(reply, "", whole=True)
        if not reply.get("choices"):
            raise broken(self._provider, "sent a reply without an answer")
        return self._response()

    # ---- events ---------------------------------------------------------------------------------------------------

    def _read(self, text: str) -> Any:
        """The JSON of an event, or ``DONE``."""
        try:
            chunk, end = _scan(text, 0)
            if end == len(text):
                return chunk
        except (ValueError, StopIteration):
            if text.strip() == DONE:
                return DONE
        try:
            return json.loads(text)  # white space around it, or what is wrong
        except ValueError:
            raise broken(self._provider, "sent an event that is not JSON") from None

    def _chunk(self, chunk: Any, name: str, *, whole: bool = False) -> None:
        choices = chunk.get("choices")
        if not choices or "error" in chunk:
            self._check(chunk, name)
        if usage := chunk.get("usage"):
            self._usage = usage
        for choice in choices or ():
            if choice.get("index"):  # only the first of several answers is shown
                continue
            delta = choice.get("delta")
            if delta is None:
                delta = choice.get("message")
                whole = True
            if delta:
                self._delta(delta, whole)
            if finish := choice.get("finish_reason"):
                self._finished(str(finish), choice)

    def _delta(self, delta: Mapping[str, Any], whole: bool) -> None:
        text = delta.get("content")
        if text and len(delta) == 1 and text.__class__ is str:  # nearly all of a stream
            self._reply.add_text(text)
        elif not whole or self._reply.empty:  # a whole message at the end repeats what was streamed
            self._reply.add(delta, whole=whole)

    def _finished(self, finish: str, choice: Mapping[str, Any]) -> None:
        error = choice.get("error")
        if finish in FAILED or error:
            raise self._error(error or {"message": f"the reply ended with {finish}"})
        self._finish = FINISH.get(finish.lower(), finish)
        if usage := choice.get("usage"):  # Moonshot puts it here
            self._usage = usage

    def _check(self, chunk: Mapping[str, Any], name: str) -> None:
        """Raise what an event without an answer, or with an error, reports."""
        error = chunk.get("error")
        if error or (error is not None and not chunk.get("choices")):
            raise self._error(error)
        if "choices" not in chunk and "error" in (chunk.get("object"), chunk.get("type"), name):
            raise self._error(chunk)

    def _error(self, error: Any) -> ModelRequestError:
        return reported(error, self._provider, _status(error))

    # ---- the end --------------------------------------------------------------------------------------------------

    def _response(self) -> CompletionResponse:
        parts = self._reply.parts()
        called = any(part.kind == "tool_call" for part in parts)
        finish = self._finish or "stop"
        if finish in ("stop", "tool_calls"):
            finish = "tool_calls" if called else "content_filter" if self._reply.refused else "stop"
        return CompletionResponse(
            parts=parts, usage=read_usage(self._usage), finish_reason=finish, provider=self._provider
        )


def read_whole(body: bytes, provider: str) -> CompletionResponse:
    """The reply that came as one JSON object. Raises ModelRequestError."""
    try:
        return OpenAIChatParser(provider).read_object(json.loads(body))
    except _ODD:
        raise broken(provider, "sent a reply that can't be read") from None


def read_usage(usage: Any) -> Usage:
    """Tokens as counted by the server; what it does not say is 0."""
    if not isinstance(usage, Mapping):
        return Usage()
    prompt, output = count_of(usage.get("prompt_tokens")), count_of(usage.get("completion_tokens"))
    given, made = object_of(usage.get("prompt_tokens_details")), object_of(usage.get("completion_tokens_details"))
    reasoning = count_of(made.get("reasoning_tokens"))
    if reasoning and usage.get("total_tokens") == prompt + output + reasoning:  # xAI counts them apart
        output += reasoning
    return Usage(
        input_tokens=prompt,
        output_tokens=output,
        cache_read_tokens=count_of(given.get("cached_tokens")) or count_of(usage.get("prompt_cache_hit_tokens")),
        cache_write_tokens=count_of(given.get("cache_write_tokens")),
        reasoning_tokens=reasoning,
    )


_STATUS = {
    429: ("rate_limit", "quota", "too_many"),
    401: ("authentication", "invalid_api_key"),
    402: ("billing", "payment"),
    403: ("permission", "forbidden"),
    404: ("not_found",),
    400: ("invalid", "context_length", "bad_request", "unsupported"),
}


def _status(error: Any) -> int:
    """The HTTP status that an error of a reply with status 200 stands for; 500 where it does not say."""
    if not isinstance(error, Mapping):
        return 500
    said = [error.get(key) for key in ("code", "status", "type")]
    for value in said:
        number = int(value) if isinstance(value, str) and value.isdecimal() and len(value) == 3 else value
        if isinstance(number, int) and 400 <= number <= 599:
            return number
    words = " ".join(value for value in said if isinstance(value, str)).lower()
    return next((status for status, known in _STATUS.items() if any(word in words for word in known)), 500)
