"""Replies of the four wire formats beside Chat Completions, made event by event so that tests can spoil them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from model_server import Steps, streamed

from kestrel_nb.providers import AnthropicModel, GeminiModel, OllamaModel, OpenAIResponsesModel

MODELS: dict[str, Any] = {
    "anthropic": AnthropicModel,
    "openai-responses": OpenAIResponsesModel,
    "gemini": GeminiModel,
    "ollama": OllamaModel,
}
APIS = tuple(MODELS)
Event = Mapping[str, Any]


def body(api: str, events: Iterable[Any]) -> bytes:
    """``events`` as a server of ``api`` streams them."""
    lines = [json.dumps(event).encode() for event in events]
    if api == "ollama":
        return b"".join(line + b"\n" for line in lines)
    return b"".join(b"data: " + line + b"\n\n" for line in lines)


def reply(api: str, events: Iterable[Any], *, cut: int | None = None) -> Steps:
    """What a server writes: the events in one chunk, or in chunks of ``cut`` bytes."""
    data = body(api, events)
    size = cut or len(data)
    kind = "application/x-ndjson" if api == "ollama" else "text/event-stream"
    return streamed(*(data[at : at + size] for at in range(0, len(data), size)), content_type=kind)


def text(api: str, *texts: str) -> list[Event]:
    """A reply that says ``texts``, a piece each."""
    if api == "anthropic":
        pieces = [{"type": "text_delta", "text": piece} for piece in texts]
        return [*block(0, {"type": "text", "text": ""}, *pieces), *stop("end_turn")]
    if api == "openai-responses":
        deltas = [{"type": "response.output_text.delta", "item_id": "msg_1", "delta": piece} for piece in texts]
        said = message("".join(texts))
        return [added(0, {**said, "content": []}), *deltas, done(0, said), completed(said)]
    if api == "gemini":
        return [*(parts({"text": piece}) for piece in texts), parts(finish="STOP")]
    return [*(line(content=piece) for piece in texts), last()]


def calls(api: str, *asked: tuple[str, str]) -> list[Event]:
    """A reply that asks for calls: names and argument texts, which are JSON for Gemini and Ollama."""
    ids = [f"toolu_{at}" for at, _ in enumerate(asked)]
    if api == "anthropic":
        made = [block(at, use(ids[at], name), json_delta(arguments)) for at, (name, arguments) in enumerate(asked)]
        return [event for events in made for event in events] + stop("tool_use")
    if api == "openai-responses":
        items = [item(ids[at], name, arguments) for at, (name, arguments) in enumerate(asked)]
        return [event for at, one in enumerate(items) for event in (added(at, one), done(at, one))] + [
            completed(*items)
        ]
    if api == "gemini":
        made_parts = [{"functionCall": {"name": name, "args": json.loads(text)}} for name, text in asked]
        return [parts(*made_parts, finish="STOP")]
    return [
        line(tool_calls=[{"function": {"name": name, "arguments": json.loads(text)}} for name, text in asked]),
        last(),
    ]


# ---- Anthropic --------------------------------------------------------------------------------------------------


def start(index: Any, content: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": content}


def delta(index: Any, piece: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": piece}


def block(index: Any, content: Any, *pieces: Any) -> list[Event]:
    return [
        start(index, content),
        *(delta(index, piece) for piece in pieces),
        {"type": "content_block_stop", "index": index},
    ]


def use(id: Any, name: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": {}, **fields}


def json_delta(piece: Any) -> dict[str, Any]:
    return {"type": "input_json_delta", "partial_json": piece}


def stop(reason: Any = "tool_use", **usage: Any) -> list[Event]:
    return [{"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}, {"type": "message_stop"}]


# ---- Responses --------------------------------------------------------------------------------------------------


def item(call_id: Any, name: Any, arguments: Any, **fields: Any) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
        **fields,
    }


def message(said: str, **fields: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": said, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": content, **fields}


def added(index: Any, given: Any) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": given}


def done(index: Any, given: Any) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": given}


def arguments(piece: Any, **keys: Any) -> dict[str, Any]:
    return {"type": "response.function_call_arguments.delta", "delta": piece, **keys}


def completed(*output: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "response.completed", "response": {"status": "completed", "output": list(output), **fields}}


# ---- Gemini and Ollama ------------------------------------------------------------------------------------------


def parts(*given: Any, finish: Any = None, **fields: Any) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": list(given)}, "index": 0}
    return {"candidates": [candidate | ({"finishReason": finish} if finish else {})], **fields}


def line(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "message": {"role": "assistant", "content": "", **fields}, "done": False}


def last(reason: Any = "stop", **fields: Any) -> dict[str, Any]:
    return {
        "model": "m",
        "message": {"role": "assistant", "content": ""},
        "done": True,
        "done_reason": reason,
        **fields,
    }
