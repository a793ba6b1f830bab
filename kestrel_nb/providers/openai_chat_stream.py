"""Reads the replies of Chat Completions, streamed or whole, from the many servers that speak it.

The format as OpenAI documents it is met by few: indexes are missing or all 0, names are said again, ids are missing,
arguments are null, ``choices`` is empty, an error comes with status 200. None of these may lose or merge a call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..protocol.errors import CodecError, ModelRequestError
from ..runtime.models import CompletionResponse, TokenDelta
from .event_parser import finish_of, object_of, reported, status_of, str_of
from .forms import end_word, error_in, unwrapped, usage_of
from .lines import SseSplitter
from .openai_chat_reply import ChatReply
from .wire import broken, truncated

DONE: Final = "[DONE]"
UNNAMED: Final = ("", "message", "error")  # events whose data can't be anything else than JSON
# What else the names of errors hold, for the many that no table knows.
_STATUS: Final = {
    429: ("rate_limit", "quota", "too_many"),
    401: ("authentication", "invalid_api_key"),
    402: ("billing", "payment"),
    403: ("permission", "forbidden"),
    404: ("not_found",),
    400: ("invalid", "context_length", "bad_request", "badrequest", "unsupported", "content_filter"),
}
_scan: Any = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # json.loads without its checks: a stream is thousands of small texts
_ODD = (AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError, CodecError)


class OpenAIChatParser:
    """Reads one streamed reply.

    It is complete with ``[DONE]``, or with a finish reason where a server leaves ``[DONE]`` out; the usage, which comes
    between the two, may then be missing and counts as zero. Nothing is waited for behind a usage that stands alone.
    Pieces of one kind that arrive together become one delta.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._splitter = SseSplitter()
        self._reply = ChatReply()
        self._failure: ModelRequestError | None = None
        self._finish = ""
        self._usage: dict[str, Any] = {}
        self._answered = False
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
                chunk = self._read(text, name)
                if chunk is DONE:
                    self._done = True
                elif chunk is not None:
                    self._chunk(chunk, name)
                if self._done:
                    break
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
        if not self._done and not self._finish:
            raise truncated(self._provider)
        return self._response()

    def read_object(self, reply: Any) -> CompletionResponse:
        """The reply that ``reply``, the JSON of a whole one, holds."""
        reply = unwrapped(reply)
        if not isinstance(reply, dict):
            raise broken(self._provider, "sent a reply that is not an object")
        self._chunk(reply, "")
        return self._response()

    # ---- events ---------------------------------------------------------------------------------------------------

    def _read(self, text: str, name: str) -> Any:
        """The JSON of an event, ``DONE``, or None for an event that says nothing."""
        try:
            chunk, end = _scan(text, 0)
            if end == len(text) and chunk.__class__ is dict:
                return chunk
        except (ValueError, StopIteration):
            pass
        text = text.strip()
        if text.strip('"') == DONE:
            return DONE
        try:
            chunk = unwrapped(json.loads(text)) if text else None
        except ValueError:
            if name == "error":
                raise reported(text, self._provider, 500) from None
            chunk = text
        if isinstance(chunk, dict):
            return chunk
        if not text or name not in UNNAMED:
            return None
        if name == "error":
            raise reported(chunk, self._provider, 500)
        raise broken(self._provider, "sent an event that is not JSON or no object")

    def _chunk(self, chunk: Mapping[str, Any], name: str) -> None:
        choices = chunk.get("choices")
        if not choices or "error" in chunk:
            self._check(chunk, name)
        if usage := chunk.get("usage"):
            self._count(usage)
            self._done = bool(self._finish and not choices)
        if "x_groq" in chunk:
            self._aside(object_of(chunk["x_groq"]))
        for choice in (choices,) if isinstance(choices, dict) else choices or ():
            if choice and (not (index := choice.get("index")) or index == "0"):  # one of several answers is shown
                self._choice(choice)

    def _choice(self, choice: Mapping[str, Any]) -> None:
        self._answered = True
        delta = choice.get("delta") or {}
        text = delta.get("content")
        if text and len(delta) == 1 and text.__class__ is str:  # nearly all of a stream
            self._reply.add_text(text)
        else:
            if error := choice.get("error") or delta.get("error"):
                raise self._error(error)
            self._reply.add(delta)
            if not delta:
                self._reply.add_rest(choice.get("message") or {"content": choice.get("text")})
        if finish := choice.get("finish_reason"):
            self._finished(finish, choice)

    def _finished(self, finish: Any, choice: Mapping[str, Any]) -> None:
        word = end_word(finish, self._finish)
        if word == "error":
            raise self._error(choice.get("error") or {"message": f"the reply ended with {finish}"})
        self._finish = word
        if usage := choice.get("usage"):  # Moonshot puts it here
            self._count(usage)

    def _count(self, usage: Any) -> None:
        """Take more of the usage: some servers tell it in each event, and some say less in a later one."""
        self._usage |= {name: count for name, count in object_of(usage).items() if count}

    def _aside(self, said: Mapping[str, Any]) -> None:
        """Take what Groq tells beside the reply."""
        if error := said.get("error"):
            raise self._error(error)
        self._count(said.get("usage"))

    def _check(self, chunk: Mapping[str, Any], name: str) -> None:
        """Raise what an event without an answer, or with an error, reports."""
        error = chunk.get("error")
        if not chunk.get("choices"):
            unsaid = name == "error" or error not in (None, False)
            error = error_in(chunk) or (chunk if unsaid else None)
        if error:
            raise self._error(error)

    def _error(self, error: Any) -> ModelRequestError:
        return reported(error, self._provider, _status(error))

    # ---- the end --------------------------------------------------------------------------------------------------

    def _response(self) -> CompletionResponse:
        if not self._answered:
            raise broken(self._provider, "sent a reply without an answer")
        parts = self._reply.parts()
        finish = finish_of("" if self._finish == "stop" else self._finish, parts)
        return CompletionResponse(
            parts=parts,
            usage=usage_of(self._usage),
            finish_reason="content_filter" if finish == "stop" and self._reply.refused else finish,
            provider=self._provider,
        )


def read_whole(body: bytes, provider: str) -> CompletionResponse:
    """The reply that came as one JSON object. Raises ModelRequestError."""
    try:
        return OpenAIChatParser(provider).read_object(json.loads(body))
    except _ODD:
        raise broken(provider, "sent a reply that can't be read") from None


def _status(error: Any) -> int:
    """The HTTP status that an error of a reply with status 200 stands for; 500 where it does not say."""
    if status := status_of(error, unknown=0, unnamed=500):
        return status
    words = " ".join(str_of(error.get(key)) for key in ("code", "status", "type")).lower()
    return next((status for status, known in _STATUS.items() if any(word in words for word in known)), 500)
