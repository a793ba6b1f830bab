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
from .event_parser import (
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

API: Final = "openai-responses"
CUT_CALL: Final = "the reply ended before this call was complete"


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
    parts = once(part for item in objects_of(response["output"]) for part in parts_of(item, status, stamp))
    return CompletionResponse(
        parts=parts,
        usage=usage_of(object_of(response.get("usage"))),
        finish_reason=reason_of(status, response, parts),
        provider=stamp,
    )


def reason_of(status: str, response: Mapping[str, Any], parts: tuple[Part, ...]) -> str:
    """Why the reply ended."""
    if status == "completed":
        refused = any(is_refusal(part) for part in parts)
        word = finish_of("", parts)
        return "content_filter" if refused and word == "stop" else word
    if status == "incomplete":
        reason = str_of(object_of(response.get("incomplete_details")).get("reason"))
        return {"max_output_tokens": "length", "": "length"}.get(reason, reason)
    return "error" if status == "failed" else status


def is_refusal(part: Part) -> bool:
    """True for text with which the model refused."""
    return isinstance(part, TextPart) and object_of(part.extra.get("content")).get("type") == "refusal"


def typed(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """``item`` with its type, told by what else it holds where that is left out; empty for one that holds nothing."""
    if str_of(item.get("type")):
        return item
    kind = "function_call" if "arguments" in item else "message" if "content" in item else ""
    return {**item, "type": kind} if kind else {}


def parts_of(item: Mapping[str, Any], status: str, stamp: str) -> Iterator[Part]:
    """The parts that keep ``item`` of a response with ``status``, so that it can be sent back as it came.

    Raises ModelRequestError for an item that can't be kept.
    """
    item = kept(typed(item), stamp)
    kind = item.get("type")
    if kind == "message":
        yield from text_parts(item)
    elif kind == "function_call":
        yield call_part(item, whole=status == "completed" or item.get("status") == "completed")
    elif kind == "reasoning":
        text = reasoning_text(item)
        yield ReasoningPart(text=text, redacted=not text, extra={"item": item})
    elif item:
        yield OpaquePart(api=API, value=item)


def text_parts(item: Mapping[str, Any]) -> Iterator[Part]:
    """One part for each piece of content; log probabilities are not kept."""
    head = {key: value for key, value in item.items() if key != "content"}
    if isinstance(item.get("content"), str):  # of servers that only speak like this
        yield TextPart(text=clean_text(item["content"]), extra={"item": head})
    for content in objects_of(item.get("content")):
        key = "refusal" if content.get("type") == "refusal" else "text"
        more = {name: value for name, value in content.items() if name not in (key, "logprobs")}
        yield TextPart(text=clean_text(str_of(content.get(key))), extra={"item": head, "content": more})


def call_part(item: Mapping[str, Any], *, whole: bool) -> ToolCallPart:
    """The call of ``item``; one that is not ``whole`` is kept and marked as not to be run."""
    arguments = argument_text(item.get("arguments"), absent="")
    part = parse_call(str_of(item.get("call_id")) or new_id("call"), str_of(item.get("name")) or "unnamed", arguments)
    more = {key: value for key, value in item.items() if key not in ("type", "call_id", "name", "arguments")}
    if not whole and part.problem is None:
        part = replace(part, arguments=None, problem=CUT_CALL)
    return replace(part, extra={"item": more})


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
    return reported(error, stamp, status_of(error, unknown=400, unnamed=500))
