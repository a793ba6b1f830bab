"""Ollama's chat: what comes back. A reply is JSON lines, each with more of one message; the last one says ``done``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ..protocol.codec import parse_call
from ..protocol.errors import ModelRequestError
from ..protocol.messages import Part, ReasoningPart, TextPart, ToolCallPart, new_id
from ..protocol.sessions import Usage
from ..runtime.models import CompletionResponse, TokenDelta
from .event_parser import count_of, object_of, objects_of, read_json, reported, str_of
from .lines import JsonLineSplitter
from .wire import truncated

API: Final = "ollama"

NO_ANSWER: Final = frozenset(("load", "unload"))  # the server says that it loaded or dropped a model, and nothing else


class OllamaParser:
    """Reads one streamed reply. ``stamp`` says who sent it."""

    def __init__(self, stamp: str) -> None:
        self._stamp = stamp
        self._lines = JsonLineSplitter()
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: list[ToolCallPart] = []
        self._last: Mapping[str, Any] | None = None
        self._failure: ModelRequestError | None = None

    @property
    def done(self) -> bool:
        """True once a line said ``done``."""
        return self._last is not None

    def feed(self, data: bytes) -> Sequence[TokenDelta]:
        """Take the next bytes, cut anywhere. What came ahead of an error is given out; the next call raises it."""
        if self._failure is not None:
            raise self._failure
        deltas: list[TokenDelta] = []
        try:
            for line in self._lines.feed(data):
                deltas.extend(self._line(line))
        except ModelRequestError as error:
            if not deltas:
                raise
            self._failure = error
        return deltas

    def end(self) -> CompletionResponse:
        """The reply. Raises ModelRequestError: retryable when the reply was cut or when there was none."""
        if self._failure is not None:
            raise self._failure
        for line in self._lines.end():
            for _ in self._line(line):  # the last line may lack its end; nobody is shown what it adds
                pass
        if self._last is None:
            raise truncated(self._stamp)
        return self._response(self._last)

    def read(self, reply: Mapping[str, Any]) -> Iterator[TokenDelta]:
        """Take one object: a line of a stream, or a whole reply."""
        if reply.get("error"):
            raise failure(reply["error"], self._stamp)
        message = object_of(reply.get("message"))
        # Ollama says "thinking"; servers that speak like it keep the name that other formats have.
        if thinking := str_of(message.get("thinking")) or str_of(message.get("reasoning_content")):
            self._thinking.append(thinking)
            yield TokenDelta(reasoning=thinking)
        if text := str_of(message.get("content")):
            self._text.append(text)
            yield TokenDelta(text=text)
        for item in objects_of(message.get("tool_calls")):
            call = _call(item)
            self._calls.append(call)
            yield TokenDelta(call_id=call.id, tool=call.name, arguments=call.raw_arguments)
        if reply.get("done") is True:
            self._last = reply

    def _line(self, line: bytes) -> Iterator[TokenDelta]:
        if not self.done:
            yield from self.read(object_of(read_json(line.decode("utf-8-sig", "replace"), self._stamp)))

    def _response(self, last: Mapping[str, Any]) -> CompletionResponse:
        parts: list[Part] = []
        if self._thinking:
            parts.append(ReasoningPart(text="".join(self._thinking)))
        if self._text:
            parts.append(TextPart(text="".join(self._text)))
        parts += self._calls
        reason = str_of(last.get("done_reason")) or "stop"
        if reason in NO_ANSWER and not parts:
            what = f"{self._stamp} only {reason}ed the model and gave no answer; ask again"
            raise ModelRequestError(what, retryable=True, code="no_answer")
        return CompletionResponse(
            parts=tuple(parts),
            usage=Usage(
                input_tokens=count_of(last.get("prompt_eval_count")), output_tokens=count_of(last.get("eval_count"))
            ),
            finish_reason="tool_calls" if self._calls and reason == "stop" else reason,
            provider=self._stamp,
        )


def whole_reply(body: bytes, stamp: str) -> CompletionResponse:
    """A reply that came in one piece. Raises ModelRequestError."""
    parser = OllamaParser(stamp)
    for _ in parser.read(object_of(read_json(body.decode("utf-8-sig", "replace"), stamp))):
        pass
    return parser.end()


def failure(error: Any, stamp: str) -> ModelRequestError:
    """The error that a line reports: a text, or an object of a server that only speaks like Ollama."""
    said = [count_of(object_of(error).get(key)) for key in ("status_code", "status", "code")]
    return reported(error, stamp, next((status for status in said if 400 <= status <= 599), 500))


def _call(item: Mapping[str, Any]) -> ToolCallPart:
    """A call comes whole, its arguments as an object; as a rule it has no id, so it gets one of ours."""
    function = object_of(item.get("function"))
    given = function.get("arguments")
    raw = given if isinstance(given, str) else json.dumps(given or {}, ensure_ascii=False, separators=(",", ":"))
    id, name = str_of(item.get("id")) or new_id("call"), str_of(function.get("name")) or "unnamed"
    return parse_call(id, name, raw if raw.strip() else "{}")
