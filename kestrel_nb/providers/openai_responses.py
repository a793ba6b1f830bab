"""OpenAI Responses as requests: input items in order, reasoning items back in their place."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ..protocol.messages import (
    ChatMessage,
    ImagePart,
    OpaquePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from ..protocol.sessions import ModelInfo
from ..protocol.tools import ToolSchema
from ..runtime.models import CompletionRequest, CompletionResponse
from .encoding import (
    Items,
    KeptJoin,
    KeptTools,
    argument_bytes,
    body_bytes,
    extra_fields,
    joined_arrays,
    json_bytes,
    sent_name,
)
from .event_parser import read_json, str_of
from .images import image_url
from .openai_models import models_of
from .openai_responses_reply import API, response_of
from .openai_responses_stream import ResponsesParser
from .schemas import openai_function
from .tool_results import told
from .wire import WireRequest, broken

# Ids of other formats may be longer or hold other characters, both of which are refused.
CALL_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
# OpenAI's models that don't reason answer 400 to a request for encrypted reasoning.
NOT_REASONING: Final = re.compile(r"(?:^|[/:])(?:gpt-3|gpt-4|chatgpt-|gpt-5[^/:]*-chat)")

Item = dict[str, Any]


class OpenAIResponsesWire:
    """POST ``/responses``, with the history in the request: nothing is stored at the server.

    ``extra_body`` wins over every field made here but the input: ``{"reasoning": {"effort": "high"}}``, or
    ``{"include": None}`` for a model that has no encrypted reasoning (those of OpenAI are known by their names); its
    ``tools`` stand behind ours. What a reply brought goes back whole to ``stamp`` alone: reasoning and unknown items as
    they came, messages and calls with their ids. Reasoning that nothing follows in its message, as in a reply that was
    cut, is left out, and so is reasoning of which there is only an id: the API refuses both.
    """

    api = API

    def __init__(self, model: str, *, stamp: str, extra_body: Mapping[str, Any] | None = None) -> None:
        self.model = model
        self.stamp = stamp
        self._extra = extra_fields(extra_body)
        self._extra_tools = self._extra.pop("tools", b"[]")
        self._joined = KeptJoin(self._items, Items)
        self._tools = KeptTools(tool_item)

    def key_headers(self, key: str) -> Mapping[str, str]:
        """The key as a bearer token."""
        return {"Authorization": f"Bearer {key}"}

    def encode(self, request: CompletionRequest, *, stream: bool) -> WireRequest:
        """The request as it is sent. Raises UsageError for a tool whose name the format can't say."""
        messages = request.messages
        fields: dict[str, bytes] = {"model": json_bytes(self.model)}
        if messages and messages[0].role == "system":
            if messages[0].content.strip():
                fields["instructions"] = json_bytes(messages[0].content)
            messages = messages[1:]
        tools = joined_arrays(self._tools.of(request.tools), self._extra_tools)
        if tools != b"[]":
            fields["tools"] = tools
        fields |= {"store": b"false", "stream": json_bytes(stream)}
        if not NOT_REASONING.search(self.model):
            fields["include"] = b'["reasoning.encrypted_content"]'
        if request.temperature is not None:
            fields["temperature"] = json_bytes(request.temperature)
        if request.max_tokens is not None:
            fields["max_output_tokens"] = json_bytes(request.max_tokens)
        body = body_bytes(fields | self._extra, "input", self._joined.of(messages).joined)
        return WireRequest(path="/responses", body=body)

    def parser(self) -> ResponsesParser:
        """A parser for one streamed reply."""
        return ResponsesParser(self.stamp, self.whole)

    def whole(self, body: bytes) -> CompletionResponse:
        """A reply in one piece. Raises ModelRequestError."""
        return response_of(read_json(body, self.stamp), self.stamp)

    def models_path(self, page: str | None) -> str:
        """The list has one page."""
        return "/models"

    def models(self, listing: Any) -> tuple[tuple[ModelInfo, ...], str | None]:
        """The models; compatible servers also tell their context windows. Raises ModelRequestError."""
        if not isinstance(listing, Mapping) or not isinstance(listing.get("data"), list):
            raise broken(self.stamp, "sent a list of models that can't be read")
        return models_of(listing["data"], self.stamp), None

    # ---- messages -----------------------------------------------------------------------------------------------

    def _items(self, message: ChatMessage) -> bytes:
        """The message's items, joined by commas; nothing for a turn that says nothing here."""
        if message.role == "assistant":
            items = list(self._reply_items(message))
            while items and items[-1].get("type") == "reasoning":
                items.pop()
        elif message.role == "tool":
            items = [result_item(part) for part in message.tool_results]
        else:
            items = [{"type": "message", "role": message.role, "content": content_of(message.parts)}]
        return b",".join(map(json_bytes, items))

    def _reply_items(self, message: ChatMessage) -> Iterator[Item]:
        ours = message.provider == self.stamp
        open_item: Item | None = None
        for part in message.parts:
            if isinstance(part, TextPart):
                if not part.text and not (ours and "item" in part.extra):
                    continue
                item = message_item(part if ours else TextPart(text=part.text), open_item)
                if item is not open_item:
                    yield item
                open_item = item
                continue
            open_item = None
            if isinstance(part, ToolCallPart):
                yield call_item(part, ours)
            elif ours and isinstance(part, ReasoningPart) and is_sendable(part.extra.get("item")):
                yield dict(part.extra["item"])
            elif ours and isinstance(part, OpaquePart) and isinstance(part.value, Mapping):
                yield dict(part.value)


def is_sendable(item: Any) -> bool:
    """True for a reasoning item that holds its reasoning; one that was never stored can't be named by its id."""
    return isinstance(item, Mapping) and bool(item.get("encrypted_content") or item.get("content"))


def content_of(parts: tuple[Part, ...]) -> list[Item]:
    """What a person said, as content of a message. Empty text is left out where other content stands."""
    content = [
        image_item(part) if isinstance(part, ImagePart) else {"type": "input_text", "text": part.text}
        for part in parts
        if isinstance(part, ImagePart) or (isinstance(part, TextPart) and part.text)
    ]
    return content or [{"type": "input_text", "text": ""}]


def image_item(part: ImagePart) -> Item:
    """An image by its address, or as a data URL."""
    return {"type": "input_image", "image_url": image_url(part), "detail": str_of(part.extra.get("detail")) or "auto"}


def message_item(part: TextPart, before: Item | None) -> Item:
    """The message that ``part`` belongs to: ``before``, longer by this part, when both came in one item."""
    kept = part.extra.get("content")
    content = {**kept} if isinstance(kept, Mapping) else {"type": "output_text", "annotations": []}
    key = "refusal" if content.get("type") == "refusal" else "text"
    if part.text or content.get("type") in ("output_text", "refusal"):
        content[key] = part.text
    head = part.extra.get("item")
    head = {**head} if isinstance(head, Mapping) else {"type": "message", "role": "assistant"}
    if before is not None and {key: value for key, value in before.items() if key != "content"} == head:
        before["content"].append(content)
        return before
    return {**head, "content": [content]}


def call_item(part: ToolCallPart, ours: bool) -> Item:
    """The call, with the id and status of its item if it came from here.

    Arguments that are no object are left out: servers that read them refuse every request with them.
    """
    kept = part.extra.get("item")
    return {
        "type": "function_call",
        **(kept if ours and isinstance(kept, Mapping) else {}),
        "call_id": call_id(part.id),
        "name": sent_name(part.name),
        "arguments": (argument_bytes(part) or b"{}").decode(),
    }


def result_item(part: ToolResultPart) -> Item:
    """The result of a call; images stand in it. The format has no flag for errors: those are said in words."""
    text = told(part)
    output: Any = text
    if part.images:
        output = [*([{"type": "input_text", "text": text}] if text else ()), *map(image_item, part.images)]
    return {"type": "function_call_output", "call_id": call_id(part.call_id), "output": output}


def call_id(id: str) -> str:
    """``id``, or one made of it where another format gave one that is not taken here."""
    return id if CALL_ID.fullmatch(id) else f"call_{hashlib.sha256(id.encode('utf-8', 'replace')).hexdigest()[:32]}"


def tool_item(tool: ToolSchema) -> Item:
    """A tool as it is offered. Raises UsageError for a name that the format can't say."""
    return {"type": "function", **openai_function(tool), "strict": False}
