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
    once,
    read_json,
    reported,
    status_of,
    str_of,
)
from .forms import asked_of, end_word, error_in, listed, texts_of, unwrapped
from .lines import JsonLineSplitter
from .wire import truncated

API: Final = "ollama"

_THINKING: Final = ("thinking", "reasoning_content", "reasoning")  # the last two are names of other formats
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
        message = object_of(reply.get("message"))
        if error := reply.get("error") if message else error_in(reply):
            raise failure(error, self._stamp)
        thinking = next(filter(None, (str_of(message.get(name)) for name in _THINKING)), "")
        yield from self._said("reasoning", thinking)
        for kind, text in texts_of(message.get("content")):
            yield from self._said(kind, text)
        for item in listed(message.get("tool_calls")):
            yield from self._called(item)
        done, reason = reply.get("done"), reply.get("done_reason")
        if done in (True, "true") or (done is None and (reason or (whole and message))):
            self._last = reply

    def _said(self, kind: str, text: str) -> Iterator[TokenDelta]:
        reasoning = kind == "reasoning"
        (self._thinking if reasoning else self._text).append(text)
        if shown := self._shown(text, kind):
            yield TokenDelta(reasoning=shown) if reasoning else TokenDelta(text=shown)

    def _called(self, item: Mapping[str, Any]) -> Iterator[TokenDelta]:
        """Take a call. It comes whole, its arguments as an object; as a rule it has no id, so it gets one of ours.

        Text without a name goes on with the last call: that is how servers stream which translate another format.
        """
        name, given = asked_of(item)
        raw, id = argument_text(given, absent=""), str_of(item.get("id"))
        if not name and self._calls and isinstance(given, str):
            last = self._calls.pop()
            call = parse_call(last.id, last.name, last.raw_arguments + raw)
        elif name or raw or id:
            call = parse_call(id or new_id("call"), name or "unnamed", raw)
        else:
            return
        self._calls.append(call)
        if name or raw:
            yield TokenDelta(call_id=call.id, tool=call.name, arguments=raw)

    def _line(self, line: bytes) -> Iterator[TokenDelta]:
        """Take one line. Some that speak like Ollama send server-sent events: those hold the same JSON."""
        text = line.decode("utf-8-sig", "replace").strip().removeprefix("data:").strip()
        if not self.done and text not in ("", "[DONE]") and not text.startswith((":", "event:", "id:", "retry:")):
            yield from self.read(object_of(unwrapped(read_json(text, self._stamp))))

    def _response(self, last: Mapping[str, Any]) -> CompletionResponse:
        parts: list[Part] = []
        if thinking := clean_text("".join(self._thinking)):
            parts.append(ReasoningPart(text=thinking))
        if text := clean_text("".join(self._text)):
            parts.append(TextPart(text=text))
        parts += once(self._calls)
        reason = end_word(last.get("done_reason") or "stop")
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
    reply = object_of(unwrapped(read_json(body.decode("utf-8-sig", "replace"), stamp)))
    for _ in parser.read(reply, whole=True):
        pass
    return parser.end()


def failure(error: Any, stamp: str) -> ModelRequestError:
    """The error that a line reports: a text, or an object of a server that only speaks like Ollama."""
    return reported(error, stamp, status_of(error, unknown=500, unnamed=500))
