"""Google Gemini as replies: parts of candidates to deltas and parts, with their signatures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from ..protocol.codec import parse_call
from ..protocol.errors import ModelRequestError
from ..protocol.messages import OpaquePart, Part, ReasoningPart, TextPart, new_id
from ..protocol.sessions import Usage
from ..runtime.models import CompletionResponse, TokenDelta
from ..runtime.truncation import clean_text
from .event_parser import (
    EventParser,
    Whole,
    argument_text,
    count_of,
    finish_of,
    kept,
    object_of,
    objects_of,
    once,
    reported,
    status_of,
    str_of,
)
from .wire import broken

API: Final = "gemini"
SIGNATURE: Final = "thoughtSignature"

# The last of each set is the word of servers that translate from another format.
_LENGTH: Final = frozenset(("MAX_TOKENS", "CONTINUATION", "LENGTH"))
_FILTERED: Final = frozenset(
    (
        "SAFETY",
        "RECITATION",
        "LANGUAGE",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "MODEL_ARMOR",
        "ESCALATION",
        "CONTENT_FILTER",
    )
)
_FAILED: Final = frozenset(
    (
        "MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MALFORMED_RESPONSE",
        "MISSING_THOUGHT_SIGNATURE",
        "OTHER",
        "ERROR",
    )
)
_MALFORMED: Final = "MALFORMED_FUNCTION_CALL"
_GIVEN_BEGINNING = re.compile(r"_+[0-9.:-]")

_SAYS_SOMETHING: Final = ("candidates", "promptFeedback", "error")


class GeminiParser(EventParser):
    """Reads one streamed reply.

    The format has no end mark: a reply is complete when a finish reason came and the body ended, so nothing that
    follows the reason is lost. Neighbouring pieces of plain text become one part; a part with a signature stays alone,
    even when its text is empty. Of several candidates the first counts. A call that the model wrote wrongly is worth
    another try.
    """

    def __init__(self, stamp: str, whole: Whole) -> None:
        super().__init__(stamp, whole)
        self._parts: list[Part] = []
        self._plain: list[str] = []  # pieces of unsigned text, or thought, that go on
        self._thinks = False
        self._finish = ""
        self._why = ""
        self._blocked = False
        self._usage: dict[str, Any] = {}

    @property
    def done(self) -> bool:
        """Never before the body ended."""
        return False

    def _event(self, event: Any) -> Iterator[TokenDelta]:
        for response in event if isinstance(event, list) else [event]:
            yield from self.take(response)

    def take(self, response: Any) -> Iterator[TokenDelta]:
        """One GenerateContentResponse. Raises ModelRequestError for an error in its place."""
        if not isinstance(response, dict):
            return
        if response.get("error") is not None or response.get("type") == "error":
            raise failure(response.get("error") or response, self.stamp)
        if usage := object_of(response.get("usageMetadata")):
            self._usage |= {name: value for name, value in usage.items() if value or name not in self._usage}
        if said_reason(object_of(response.get("promptFeedback")).get("blockReason")):
            self._blocked = True
        for place, candidate in enumerate(objects_of(response.get("candidates"))):
            index = candidate.get("index")
            if count_of(place if index is None else index):
                continue
            for part in objects_of(object_of(candidate.get("content")).get("parts")):
                yield from self._part(part)
            self._finish = said_reason(candidate.get("finishReason")) or self._finish
            self._why = str_of(candidate.get("finishMessage")) or self._why

    # ---- parts --------------------------------------------------------------------------------------------------

    def _part(self, part: Mapping[str, Any]) -> Iterator[TokenDelta]:
        extra = {SIGNATURE: part[SIGNATURE]} if str_of(part.get(SIGNATURE)) else {}
        called, text = part.get("functionCall"), str_of(part.get("text"))
        if isinstance(called, dict):
            if text:  # a part holds one of them; a server that puts both there means both
                yield from self._text(text, {}, thought=part.get("thought") is True)
            yield from self._call(called, extra)
            return
        own = {key: value for key, value in part.items() if key not in ("text", "functionCall")}
        if text or not any(isinstance(value, dict) for value in own.values()):
            yield from self._text(text, extra, thought=part.get("thought") is True)
        else:
            self._close()
            self._parts.append(OpaquePart(api=API, value=kept(own, self.stamp)))

    def _text(self, text: str, extra: Mapping[str, Any], *, thought: bool) -> Iterator[TokenDelta]:
        if extra or thought != self._thinks:
            self._close()
        self._thinks = thought
        if extra:
            self._parts.append(spoken(text, thought, extra))
        elif text:
            self._plain.append(text)
        if shown := self._shown(text, "thought" if thought else "text"):
            yield TokenDelta(reasoning=shown) if thought else TokenDelta(text=shown)

    def _close(self) -> None:
        """The plain pieces so far are a part."""
        if self._plain:
            self._parts.append(spoken("".join(self._plain), self._thinks, {}))
            self._plain = []

    def _call(self, call: Mapping[str, Any], extra: Mapping[str, Any]) -> Iterator[TokenDelta]:
        id, name = str_of(call.get("id")), own_name(str_of(call.get("name"))) or "unnamed"
        raw = argument_text(call.get("args"))
        part = parse_call(id or new_id("call"), name, raw if raw.strip() else "{}")
        part = replace(part, extra={**({"id": id} if id else {}), **extra})
        self._close()
        self._parts.append(part)
        yield TokenDelta(call_id=part.id, tool=part.name, arguments=part.raw_arguments)

    # ---- the end ------------------------------------------------------------------------------------------------

    def _finished(self) -> CompletionResponse:
        if not self._finish and not self._blocked:
            raise self._cut()
        return self.reply()

    def reply(self) -> CompletionResponse:
        """What was taken so far, as a complete reply. Raises ModelRequestError for a finish that is a failure."""
        if self._finish.upper() in _FAILED:
            why = f": {self._why}" if self._why else ""
            text = f"{self.stamp} ended its reply with {self._finish}{why}"
            raise ModelRequestError(text, retryable=self._finish.upper() == _MALFORMED, code=self._finish.lower())
        self._close()
        parts = once(self._parts)
        return CompletionResponse(
            parts=parts, usage=usage_of(self._usage), finish_reason=self._reason(parts), provider=self.stamp
        )

    def _reason(self, parts: tuple[Part, ...]) -> str:
        """Why the reply ended."""
        word = self._finish.upper()  # in lower case from servers that translate to this format
        if word in _LENGTH:
            return "length"
        if word in _FILTERED or word.startswith("IMAGE_") or (self._blocked and not word):
            return "content_filter"
        return finish_of("" if word == "STOP" else self._finish, parts)


def whole_reply(body: Any, parser: GeminiParser) -> CompletionResponse:
    """The reply in a body that is one response, or an array of a stream's. Raises ModelRequestError."""
    responses = body if isinstance(body, list) else [body]
    if not any(object_of(response).get(key) is not None for response in responses for key in _SAYS_SOMETHING):
        raise broken(parser.stamp, "sent a reply that is not a response")
    for response in responses:
        for _ in parser.take(response):
            pass
    return parser.reply()


def own_name(name: str) -> str:
    """The tool's name again, without the underscore that was put before it for Gemini."""
    return name[1:] if _GIVEN_BEGINNING.match(name) else name


def said_reason(value: Any) -> str:
    """``value`` if it is a reason; servers that write out what is not set say FINISH_REASON_UNSPECIFIED all along."""
    reason = str_of(value)
    return "" if reason.upper().endswith("_UNSPECIFIED") else reason


def spoken(text: str, thought: bool, extra: Mapping[str, Any]) -> TextPart | ReasoningPart:
    """Text or thought; the halves of surrogate pairs that two pieces brought are joined."""
    return (ReasoningPart if thought else TextPart)(text=clean_text(text), extra=extra)


def usage_of(usage: Mapping[str, Any]) -> Usage:
    """Tokens. Gemini counts thoughts and the prompts of its own tools apart; here they are output and input."""
    thoughts = count_of(usage.get("thoughtsTokenCount"))
    return Usage(
        input_tokens=count_of(usage.get("promptTokenCount")) + count_of(usage.get("toolUsePromptTokenCount")),
        output_tokens=count_of(usage.get("candidatesTokenCount")) + thoughts,
        cache_read_tokens=count_of(usage.get("cachedContentTokenCount")),
        reasoning_tokens=thoughts,
    )


def failure(error: Any, stamp: str) -> ModelRequestError:
    """The error that ``error`` reports; its code is the HTTP status that it would have had."""
    return reported(error, stamp, status_of(error, unknown=500, unnamed=500))
