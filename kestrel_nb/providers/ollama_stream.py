"""Ollama's chat: what comes back. A reply is JSON lines, each with more of one message; the last one says ``done``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ..protocol.codec import parse_call
from ..protocol.errors import ModelRequestError
from ..protocol.messages import Part, ReasoningPart, TextPart, ToolCallPart, new_id
from ..protocol.sessions import Usage
from ..runtime.models import CompletionResponse, TokenDelta
from ..runtime.truncation import clean_text
from .event_parser import (
    Shown,
    argument_text,
    count_of,
    finish_of,
    object_of,
    objects_of,
    once,
    read_json,
    reported,
    status_of,
    str_of,
)
from .lines import JsonLineSplitter
from .wire import truncated

API: Final = "ollama"

NO_ANSWER: Final = frozenset(("load", "unload"))  # the server says that it loaded or dropped a model, and nothing else


class OllamaParser:
    """Reads one streamed reply. ``stamp`` says who sent it."""

    def __init__(self, stamp: str) -> None:
        self._stamp = stamp
        self._lines = JsonLineSplitter()
        self._shown = Shown()
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

    def read(self, reply: Mapping[str, Any], *, whole: bool = False) -> Iterator[TokenDelta]:
        """Take one object: a line of a stream, or a ``whole`` reply."""
        if reply.get("error"):
            raise failure(reply["error"], self._stamp)
        message = object_of(reply.get("message"))
        # Ollama says "thinking"; servers that speak like it keep the name that other formats have.
        thinking = str_of(message.get("thinking")) or str_of(message.get("reasoning_content"))
        self._thinking.append(thinking)
        if shown := self._shown(thinking, "thinking"):
            yield TokenDelta(reasoning=shown)
        self._text.append(str_of(message.get("content")))
        if shown := self._shown(message.get("content"), "text"):
            yield TokenDelta(text=shown)
        for item in objects_of(message.get("tool_calls")):
            call = _call(item)
            self._calls.append(call)
            yield TokenDelta(call_id=call.id, tool=call.name, arguments=call.raw_arguments)
        if reply.get("done") is True or (whole and message and reply.get("done") is None):
            self._last = reply

    def _line(self, line: bytes) -> Iterator[TokenDelta]:
        """Take one line. Some that speak like Ollama send server-sent events: those hold the same JSON."""
        text = line.decode("utf-8-sig", "replace").strip().removeprefix("data:").strip()
        if not self.done and text not in ("", "[DONE]") and not text.startswith((":", "event:", "id:", "retry:")):
            yield from self.read(object_of(read_json(text, self._stamp)))

    def _response(self, last: Mapping[str, Any]) -> CompletionResponse:
        parts: list[Part] = []
        if thinking := clean_text("".join(self._thinking)):
            parts.append(ReasoningPart(text=thinking))
        if text := clean_text("".join(self._text)):
            parts.append(TextPart(text=text))
        parts += once(self._calls)
        reason = str_of(last.get("done_reason")) or "stop"
        if reason in NO_ANSWER and not parts:
            what = f"{self._stamp} only {reason}ed the model and gave no answer; ask again"
            raise ModelRequestError(what, retryable=True, code="no_answer")
        return CompletionResponse(
            parts=tuple(parts),
            usage=Usage(
                input_tokens=count_of(last.get("prompt_eval_count")), output_tokens=count_of(last.get("eval_count"))
            ),
            finish_reason=finish_of("" if reason == "stop" else reason, parts),
            provider=self._stamp,
        )


def whole_reply(body: bytes, stamp: str) -> CompletionResponse:
    """A reply that came in one piece. Raises ModelRequestError."""
    parser = OllamaParser(stamp)
    for _ in parser.read(object_of(read_json(body.decode("utf-8-sig", "replace"), stamp)), whole=True):
        pass
    return parser.end()


def failure(error: Any, stamp: str) -> ModelRequestError:
    """The error that a line reports: a text, or an object of a server that only speaks like Ollama."""
    return reported(error, stamp, status_of(error, unknown=500, unnamed=500))


def _call(item: Mapping[str, Any]) -> ToolCallPart:
    """A call comes whole, its arguments as an object; as a rule it has no id, so it gets one of ours."""
    function = object_of(item.get("function"))
    raw = argument_text(function.get("arguments"))
    id, name = str_of(item.get("id")) or new_id("call"), str_of(function.get("name")) or "unnamed"
    return parse_call(id, name, raw if raw.strip() else "{}")
