"""Ollama's chat: requests, and what its server tells of its models. Replies are read in ``ollama_stream.py``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..protocol.errors import UsageError
from ..protocol.messages import ChatMessage, ImagePart, ReasoningPart, TextPart, ToolCallPart
from ..protocol.sessions import ModelInfo
from ..protocol.tools import ToolSchema
from ..runtime.models import CompletionRequest, CompletionResponse
from .encoding import (
    KeptJoin,
    KeptTools,
    argument_bytes,
    body_bytes,
    checked_tokens,
    extra_fields,
    joined_arrays,
    json_array,
    json_bytes,
    json_object,
    newest_images,
    object_schema,
)
from .event_parser import count_of, object_of, objects_of, str_of
from .images import base64_image
from .ollama_stream import API, OllamaParser, whole_reply
from .tool_results import ItemsAndImages, Sent, told
from .wire import WireRequest


class OllamaWire:
    """Ollama's ``/api/chat`` as ``model`` speaks it.

    ``num_ctx`` is the context in tokens with which the server loads the model. Without it the server takes a default
    of its own, often 4,096, and silently drops the beginning of a longer conversation: set it for agents.
    Raises UsageError for one that can't be.
    """

    def __init__(
        self,
        model: str,
        *,
        stamp: str,
        extra_body: Mapping[str, Any] | None = None,
        num_ctx: int | None = None,
    ) -> None:
        self._model = model
        self._stamp = stamp
        extra = dict(extra_body or {})
        self._options = dict(object_of(extra.pop("options", None)))
        if checked_tokens("num_ctx", num_ctx) is not None:
            self._options.setdefault("num_ctx", num_ctx)
        self._extra = extra_fields(extra)
        extra_fields(self._options)
        self._extra_tools = self._extra.pop("tools", b"[]")
        self._joined = KeptJoin(self._sent, lambda: ItemsAndImages(_shown_images))
        self._tools = KeptTools(_tool)

    @property
    def api(self) -> str:
        """ollama"""
        return API

    def key_headers(self, key: str) -> Mapping[str, str]:
        """The header that carries a key, for Ollama's cloud and for servers behind a gate."""
        return {"authorization": f"Bearer {key}"}

    def encode(self, request: CompletionRequest, *, stream: bool) -> WireRequest:
        """The request as it is sent. Raises UsageError for a new image that only a URL names."""
        for image in newest_images(request.messages):
            check_image(image)
        fields = {"model": json_bytes(self._model)}
        tools = joined_arrays(self._tools.of(request.tools), self._extra_tools)
        if tools != b"[]":
            fields["tools"] = tools
        fields["stream"] = b"true" if stream else b"false"  # what is not said means true here
        asked = {"temperature": request.temperature, "num_predict": request.max_tokens}
        options = {name: value for name, value in asked.items() if value is not None} | self._options
        if options:
            fields["options"] = json_bytes(options)
        body = body_bytes(fields | self._extra, "messages", *self._joined.of(request.messages).pieces())
        return WireRequest(path="/api/chat", body=body)

    def parser(self) -> OllamaParser:
        """A parser for one streamed reply."""
        return OllamaParser(self._stamp)

    def whole(self, body: bytes) -> CompletionResponse:
        """A reply that came in one piece. Raises ModelRequestError."""
        return whole_reply(body, self._stamp)

    # ---- what the server tells of its models ------------------------------------------------------------------

    def models_path(self, page: str | None) -> str:
        """Where the server lists the models that it has; there is one page."""
        return "/api/tags"

    def models(self, listing: Any) -> tuple[tuple[ModelInfo, ...], str | None]:
        """The models that were pulled."""
        items = objects_of(object_of(listing).get("models"))
        named = ((str_of(item.get("name")) or str_of(item.get("model")), item) for item in items)
        return tuple(_info(name, item) for name, item in named if name), None

    def details(self, name: str) -> WireRequest:
        """The request that asks what the model ``name`` can do; the list does not say it."""
        return WireRequest(path="/api/show", body=json_bytes({"model": name}))

    def detailed(self, info: ModelInfo, shown: Any) -> ModelInfo:
        """``info`` with what the answer to ``details`` says."""
        return replace(
            info,
            context_window=_window(object_of(object_of(shown).get("model_info"))) or info.context_window,
            **_abilities(object_of(shown).get("capabilities")),
        )

    def hint(self, status: int, body: str) -> str | None:
        """What to do about an answer that only this kind of server gives."""
        if status == 404 and "model" in body.lower():
            return f"check the model's name, or run: ollama pull {self._model}"
        return None

    # ---- messages ---------------------------------------------------------------------------------------------

    def _sent(self, message: ChatMessage) -> Sent[str]:
        match message.role:
            case "tool":
                return _results(message)
            case "assistant":
                return Sent(_answer(message, own=message.provider == self._stamp))
            case role:
                return Sent(_said(role, message))


def _said(role: str, message: ChatMessage) -> bytes:
    """What a person said, or the system prompt; an image of before that only a URL names is mentioned."""
    found = [base64_image(part) for part in message.parts if isinstance(part, ImagePart)]
    images = [data for _, data in found if data is not None]
    lost = ["(an image that can't be shown to this model)"] * (len(found) - len(images))
    content = "\n".join([message.content, *lost] if message.content else lost)
    return json_bytes({"role": role, "content": content} | ({"images": images} if images else {}))


def _answer(message: ChatMessage, *, own: bool) -> bytes:
    """What the model said before. Its thoughts go back to the server that they came from alone."""
    content = "".join(part.text for part in message.parts if isinstance(part, TextPart))
    thinking = "".join(part.text for part in message.parts if isinstance(part, ReasoningPart)) if own else ""
    calls = [_call(part) for part in message.tool_calls]
    if not (content.strip() or thinking or calls):
        return b""
    fields = {"role": b'"assistant"', "content": json_bytes(content)}
    if thinking:
        fields["thinking"] = json_bytes(thinking)
    if calls:
        fields["tool_calls"] = json_array(calls)
    return json_object(fields)


def _call(part: ToolCallPart) -> bytes:
    """A call without its id, which is ours. Arguments that are no object can't be sent; their error result can."""
    arguments = argument_bytes(part) or b"{}"
    return json_object({"function": json_object({"name": json_bytes(part.name), "arguments": arguments})})


def _results(message: ChatMessage) -> Sent[str]:
    """One message for each result; failures are told by their text, as nothing else is there for it."""
    made: list[bytes] = []
    images: list[str] = []
    for part in message.tool_results:
        texts = [told(part)]
        for image in part.images:
            _, data = base64_image(image)
            texts.append(f"(an image at {image.url})" if data is None else "(an image, shown in the next user message)")
            images += [] if data is None else [data]
        content = "\n".join(text for text in texts if text)
        made.append(json_bytes({"role": "tool", "tool_name": part.name, "content": content}))
    return Sent(b",".join(made), tuple(images))


def _shown_images(images: list[str]) -> bytes:
    return json_bytes({"role": "user", "content": "Images that the tools above gave:", "images": images})


def check_image(part: ImagePart) -> None:
    """Raises UsageError for an image that only a URL names."""
    if base64_image(part)[1] is None:
        raise UsageError("Ollama takes images as data, not by URL; download the image and attach its bytes")


def _tool(schema: ToolSchema) -> dict[str, Any]:
    function = {"name": schema.name, "description": schema.description, "parameters": object_schema(schema.parameters)}
    return {"type": "function", "function": function}


# ---- models ---------------------------------------------------------------------------------------------------------


def _info(name: str, item: Mapping[str, Any]) -> ModelInfo:
    details = object_of(item.get("details"))
    sizes = [text for key in ("parameter_size", "quantization_level") if (text := str_of(details.get(key)))]
    return ModelInfo(
        id=name,
        provider=API,
        label=f"{name} ({', '.join(sizes)})" if sizes else name,
        **_abilities(item.get("capabilities")),
    )


def _window(model_info: Mapping[str, Any]) -> int | None:
    """The context that the model was trained for: ``llama.context_length`` and the like, by its architecture."""
    own = count_of(model_info.get(f"{str_of(model_info.get('general.architecture'))}.context_length"))
    others = (count_of(value) for name, value in model_info.items() if name.endswith(".context_length"))
    return own or next((window for window in others if window), None)


def _abilities(capabilities: Any) -> dict[str, Any]:
    """What a server says that a model can do; nothing from a server that does not say it."""
    if not isinstance(capabilities, list):
        return {}
    names = {"supports_tools": "tools", "supports_images": "vision", "supports_reasoning": "thinking"}
    return {field: name in capabilities for field, name in names.items()}
