"""OpenAI Responses as replies: the items of a response to parts, so that they can go back as they came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from ..protocol.codec import parse_call
from ..protocol.errors import ModelRequestError
from ..protocol.messages import OpaquePart, Part, ReasoningPart, TextPart, ToolCallPart, new_id
from ..protocol.sessions import Usage
from ..runtime.models import CompletionResponse
from ..runtime.truncation import clean_text
from .event_parser import count_of, object_of, objects_of, reported, str_of
from .wire import broken

API: Final = "openai-responses"
CUT_CALL: Final = "the reply ended before this call was complete"

# The status that each error code would have had; the codes are those of the API reference.
_STATUS: Final = {
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "insufficient_quota": 429,
    "server_error": 500,
    "server_is_overloaded": 503,
    "slow_down": 503,
    "overloaded_error": 503,
    "internal_error": 500,
    "vector_store_timeout": 504,
}


def response_of(response: Any, stamp: str) -> CompletionResponse:
    """The reply in a response object. Raises ModelRequestError.

    ``failed`` with an error is raised; without one the finish reason is "error". ``incomplete`` without a reason is
    "length": a limit is the usual one.
    """
    if not isinstance(response, Mapping):
        raise broken(stamp, "sent a reply that is not a response")
    if response.get("error"):
        raise failure(response["error"], stamp)
    if not isinstance(response.get("output"), list):
        raise broken(stamp, "sent a reply that is not a response")
    status = str_of(response.get("status")) or "completed"
    if status in ("queued", "in_progress"):
        raise broken(stamp, "sent a reply that it was still working on")
    parts = tuple(part for item in objects_of(response["output"]) for part in parts_of(item, status))
    return CompletionResponse(
        parts=parts,
        usage=usage_of(object_of(response.get("usage"))),
        finish_reason=finish_of(status, response, parts),
        provider=stamp,
    )


def finish_of(status: str, response: Mapping[str, Any], parts: tuple[Part, ...]) -> str:
    """Why the reply ended."""
    if status == "completed":
        if any(isinstance(part, ToolCallPart) for part in parts):
            return "tool_calls"
        return "content_filter" if any(is_refusal(part) for part in parts) else "stop"
    if status == "incomplete":
        reason = str_of(object_of(response.get("incomplete_details")).get("reason"))
        return {"max_output_tokens": "length", "": "length"}.get(reason, reason)
    return "error" if status == "failed" else status


def is_refusal(part: Part) -> bool:
    """True for text with which the model refused."""
    return isinstance(part, TextPart) and object_of(part.extra.get("content")).get("type") == "refusal"


def parts_of(item: Mapping[str, Any], status: str) -> Iterator[Part]:
    """The parts that keep ``item`` of a response with ``status``, so that it can be sent back as it came."""
    kind = item.get("type")
    if kind == "message":
        yield from text_parts(item)
    elif kind == "function_call":
        yield call_part(item, whole=status == "completed" or item.get("status") == "completed")
    elif kind == "reasoning":
        text = reasoning_text(item)
        yield ReasoningPart(text=text, redacted=not text, extra={"item": dict(item)})
    else:
        yield OpaquePart(api=API, value=dict(item))


def text_parts(item: Mapping[str, Any]) -> Iterator[Part]:
    """One part for each piece of content; log probabilities are not kept."""
    head = {key: value for key, value in item.items() if key != "content"}
    for content in objects_of(item.get("content")):
        key = "refusal" if content.get("type") == "refusal" else "text"
        kept = {name: value for name, value in content.items() if name not in (key, "logprobs")}
        yield TextPart(text=clean_text(str_of(content.get(key))), extra={"item": head, "content": kept})


def call_part(item: Mapping[str, Any], *, whole: bool) -> ToolCallPart:
    """The call of ``item``; one that is not ``whole`` is kept and marked as not to be run."""
    arguments = str_of(item.get("arguments"))
    part = parse_call(str_of(item.get("call_id")) or new_id("call"), str_of(item.get("name")), arguments)
    kept = {key: value for key, value in item.items() if key not in ("type", "call_id", "name", "arguments")}
    if not whole and part.problem is None:
        part = replace(part, arguments=None, problem=CUT_CALL)
    return replace(part, extra={"item": kept})


def reasoning_text(item: Mapping[str, Any]) -> str:
    """What may be read of a reasoning item: its summary, else its text."""
    texts = [str_of(piece.get("text")) for piece in objects_of(item.get("summary"))]
    if any(texts):
        return clean_text("\n\n".join(texts))
    return clean_text("".join(str_of(piece.get("text")) for piece in objects_of(item.get("content"))))


def usage_of(usage: Mapping[str, Any]) -> Usage:
    """Tokens; input includes what was cached, output what was thought."""
    read = object_of(usage.get("input_tokens_details"))
    return Usage(
        input_tokens=count_of(usage.get("input_tokens")),
        output_tokens=count_of(usage.get("output_tokens")),
        cache_read_tokens=count_of(read.get("cached_tokens")),
        cache_write_tokens=count_of(read.get("cache_write_tokens")),
        reasoning_tokens=count_of(object_of(usage.get("output_tokens_details")).get("reasoning_tokens")),
    )


def failure(error: Any, stamp: str) -> ModelRequestError:
    """The error that ``error`` reports; an unknown code is not worth another try, no code at all is."""
    fields = object_of(error)
    words = [word for key in ("code", "type") if (word := str_of(fields.get(key))) and word != "error"]
    status = next((_STATUS[word] for word in words if word in _STATUS), 400 if words else 500)
    return reported(error, stamp, status)
