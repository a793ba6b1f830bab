"""What servers say in forms of their own, whichever format they speak: errors, ends, texts, calls and counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from ..protocol.sessions import Usage
from .event_parser import count_of, object_of, objects_of, str_of

TextKind = Literal["text", "reasoning", "refusal"]

# Words for why a reply ended, beside those of the formats: TGI, Mistral, Cohere, Zhipu, DeepSeek, and proxies that hand
# on the words of Anthropic, Gemini or Responses.
_ENDS: Final = {
    "stop": ("stop", "end_turn", "eos", "eos_token", "stop_sequence", "complete", "completed"),
    "tool_calls": ("tool_calls", "tool_call", "tool_use", "function_call"),
    "length": ("length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"),
    "content_filter": ("content_filter", "safety", "sensitive", "refusal"),
    "error": ("error", "failed", "network_error", "insufficient_system_resource"),
}
_KNOWN_ENDS: Final = {word: meaning for meaning, words in _ENDS.items() for word in words}
_CAUTIOUS: Final = ("length", "content_filter")
_TEXTS: Final[tuple[tuple[str, TextKind], ...]] = (
    ("thinking", "reasoning"),
    ("reasoning", "reasoning"),
    ("text", "text"),
    ("value", "text"),
    ("refusal", "refusal"),
)


def error_in(event: Mapping[str, Any]) -> Any:
    """The error that an event without an answer reports, or None: ``error``, ``errors``, or words that stand alone.

    A code or a status beside the error becomes a part of it.
    """
    error = event.get("error")
    if not error and (many := event.get("errors")):
        error = many[0] if isinstance(many, list) else many
    if error:
        beside = {key: event[key] for key in ("code", "status_code") if event.get(key) is not None}
        if status := count_of(event.get("status")):  # as text it says how far the reply has come
            beside["status"] = status
        if isinstance(error, Mapping):
            return {**beside, **error}
        return {**beside, "message": error} if beside and isinstance(error, str) else error
    words = any(str_of(event.get(key)) for key in ("message", "msg", "error_message", "error_msg"))
    well = event.get("code") in (0, "0", 200, "200")  # {"code": 0, "msg": "success"}
    if (words and not well) or event.get("detail") or "error" in (event.get("object"), event.get("type")):
        return event
    return None


def end_word(word: Any, before: str = "") -> str:
    """Why a reply ended, in the words of ``CompletionResponse``; a word that nobody knows is kept as it is.

    ``before`` is what was said earlier: that a reply was cut is not taken back.
    """
    if before in _CAUTIOUS:
        return before
    if not isinstance(word, str):
        return "stop"
    return _KNOWN_ENDS.get(word.strip().lower(), word)


def texts_of(content: Any) -> Iterator[tuple[TextKind, str]]:
    """The texts of ``content``, which is a text, a part that holds one, or a list of those."""
    if isinstance(content, str):
        yield "text", content
    elif isinstance(content, list):
        for part in content:
            yield from texts_of(part)
    elif isinstance(content, Mapping):
        thought = str_of(content.get("type")).startswith(("thinking", "reasoning", "summary"))
        for key, kind in _TEXTS:
            for _, text in texts_of(content.get(key)):
                yield "reasoning" if thought else kind, text


def listed(value: Any) -> list[Mapping[str, Any]]:
    """The objects in ``value``, an array or, with servers that leave it out, a single object."""
    return objects_of([value] if isinstance(value, dict) else value)


def unwrapped(value: Any) -> Any:
    """``value``, or the only item of it: some servers put their errors into arrays."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def asked_of(call: Mapping[str, Any]) -> tuple[str, Any]:
    """The name and the arguments of ``call``, which stand in its ``function`` or, with some servers, beside it."""
    function = object_of(call.get("function")) or call
    return str_of(function.get("name")).strip(), function.get("arguments")


def usage_of(usage: Any) -> Usage:
    """Tokens under the names of either format of OpenAI; what is not said is 0."""
    said = object_of(usage)
    read = object_of(said.get("prompt_tokens_details")) or object_of(said.get("input_tokens_details"))
    made = object_of(said.get("completion_tokens_details")) or object_of(said.get("output_tokens_details"))
    given = count_of(said.get("prompt_tokens")) or count_of(said.get("input_tokens"))
    output = count_of(said.get("completion_tokens")) or count_of(said.get("output_tokens"))
    reasoning = count_of(made.get("reasoning_tokens"))
    if reasoning and said.get("total_tokens") == given + output + reasoning:  # xAI counts them apart
        output += reasoning
    return Usage(
        input_tokens=given,
        output_tokens=output,
        cache_read_tokens=count_of(read.get("cached_tokens")) or count_of(said.get("prompt_cache_hit_tokens")),
        cache_write_tokens=count_of(read.get("cache_write_tokens")),
        reasoning_tokens=reasoning,
    )
