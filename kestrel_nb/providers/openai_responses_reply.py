"""OpenAI Responses as replies: the items of a response to parts, so that they can go back as they came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from ..protocol.codec import parse_call
from ..protocol.errors import ModelRequestError
from ..protocol.messages import OpaquePart, Part, ReasoningPart, TextPart, ToolCallPart, new_id
from ..runtime.models import CompletionResponse
from ..runtime.truncation import clean_text
from .event_parser import (
    argument_text,
    finish_of,
    kept,
    object_of,
    objects_of,
    once,
    reported,
    status_of,
    str_of,
)
from .forms import end_word, error_in, texts_of, unwrapped, usage_of
from .wire import broken

API: Final = "openai-responses"
CUT_CALL: Final = "the reply ended before this call was complete"


def response_of(response: Any, stamp: str) -> CompletionResponse:
    """The reply in a response object. Raises ModelRequestError.

    ``failed`` with an error is raised; without one the finish reason is "error". ``incomplete`` without a reason is
    "length": a limit is the usual one.
    """
    response = unwrapped(response)
    if not isinstance(response, Mapping):
        raise broken(stamp, "sent a reply that is not a response")
    if response.get("error"):
        raise failure(response["error"], stamp)
    if not isinstance(response.get("output"), list):
        if error := error_in(response):
            raise failure(error, stamp)
        raise broken(stamp, "sent a reply that is not a response")
    status = str_of(response.get("status")) or "completed"
    if status in ("queued", "in_progress"):
        raise broken(stamp, "sent a reply that it was still working on")
    parts = once(part for item in objects_of(response["output"]) for part in parts_of(item, status, stamp))
    return CompletionResponse(
        parts=parts,
        usage=usage_of(response.get("usage")),
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
        details = response.get("incomplete_details")
        return end_word(str_of(details) or str_of(object_of(details).get("reason")) or "length")
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
        own = str_of(item.get("status"))
        yield call_part(item, whole=own == "completed" or (status == "completed" and own != "incomplete"))
    elif kind == "reasoning":
        text = reasoning_text(item)
        yield ReasoningPart(text=text, redacted=not text, extra={"item": item})
    elif item:
        yield OpaquePart(api=API, value=item)


def text_parts(item: Mapping[str, Any]) -> Iterator[Part]:
    """One part for each piece of content; log probabilities are not kept."""
    head = {key: value for key, value in item.items() if key != "content"}
    given = item.get("content")
    for content in given if isinstance(given, list) else [given]:
        if isinstance(content, str):  # of servers that only speak like this
            yield TextPart(text=clean_text(content), extra={"item": head})
        if not isinstance(content, dict):
            continue
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
    texts = [text for _, text in texts_of(item.get("summary"))]
    if any(texts):
        return clean_text("\n\n".join(texts))
    return clean_text("".join(text for _, text in texts_of(item.get("content"))))


def failure(error: Any, stamp: str) -> ModelRequestError:
    """The error that ``error`` reports; an unknown code is not worth another try, no code at all is."""
    return reported(error, stamp, status_of(error, unknown=400, unnamed=500))
