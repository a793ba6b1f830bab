"""OpenAI's Chat Completions, and what the many servers that speak like it need: the request, and the list of models.

Nothing that a compatible server may refuse is sent unasked: the role ``system``, no ``strict``, no temperature.
``openai_chat_stream.py`` reads the replies, ``openai_chat_messages.py`` writes the messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..protocol.errors import UsageError
from ..protocol.sessions import ModelInfo
from ..protocol.tools import ToolSchema
from ..runtime.models import CompletionRequest, CompletionResponse
from .encoding import KeptJoin, KeptTools, body_bytes, extra_fields, json_bytes
from .openai_chat_messages import encode_message
from .openai_chat_stream import OpenAIChatParser, read_whole
from .openai_models import models_of
from .schemas import openai_function
from .tool_results import ItemsAndImages
from .wire import WireRequest

API = "openai-chat"
_OURS = ("messages", "tools")


class OpenAIChatWire:
    """Chat Completions as the model ``model`` speaks it.

    ``extra_body`` is merged into the request's top level; a field that is None there is left out, so
    ``{"stream_options": None}`` serves a server that refuses it (its replies then carry no usage).
    ``max_tokens_field`` names the field of the token limit: OpenAI's own ``max_completion_tokens``, and for any other
    host ``max_tokens``, the only one that most of them know. Raises UsageError for an ``extra_body`` that is not JSON.
    """

    def __init__(
        self,
        model: str,
        *,
        stamp: str,
        extra_body: Mapping[str, Any] | None = None,
        max_tokens_field: str | None = None,
    ) -> None:
        if taken := [name for name in _OURS if name in (extra_body or {})]:
            raise UsageError(f"extra_body can't hold {' and '.join(taken)}: they come from the conversation")
        elsewhere = "@" in stamp
        self._stamp = stamp
        self._max_tokens_field = max_tokens_field or ("max_tokens" if elsewhere else "max_completion_tokens")
        options = {"include_usage": True} if elsewhere else {"include_usage": True, "include_obfuscation": False}
        self._model = json_bytes(model)
        self._stream_options = json_bytes(options)
        self._extra = extra_fields(extra_body)
        self._messages = KeptJoin(lambda message: encode_message(message, stamp), lambda: ItemsAndImages(b",".join))
        self._tools = KeptTools(_tool)

    @property
    def api(self) -> str:
        """The name of the format."""
        return API

    def key_headers(self, key: str) -> Mapping[str, str]:
        """The header that carries the API key."""
        return {"Authorization": f"Bearer {key}"}

    def encode(self, request: CompletionRequest, *, stream: bool) -> WireRequest:
        """The request as it is sent. Raises UsageError for a tool whose name the format does not take."""
        fields = {"model": self._model}
        if request.tools:
            fields["tools"] = self._tools.of(request.tools)
        if request.temperature is not None:
            fields["temperature"] = json_bytes(request.temperature)
        if request.max_tokens is not None:
            fields[self._max_tokens_field] = json_bytes(request.max_tokens)
        if stream:
            fields["stream"] = b"true"
            fields["stream_options"] = self._stream_options
        body = body_bytes(fields | self._extra, "messages", *self._messages.of(request.messages).pieces())
        return WireRequest(path="/chat/completions", body=body)

    def parser(self) -> OpenAIChatParser:
        """A parser for one streamed reply."""
        return OpenAIChatParser(self._stamp)

    def whole(self, body: bytes) -> CompletionResponse:
        """A reply that came in one piece. Raises ModelRequestError."""
        return read_whole(body, self._stamp)

    def models_path(self, page: str | None) -> str:
        """Where the server lists its models; all of them are on one page."""
        return "/models"

    def models(self, listing: Any) -> tuple[tuple[ModelInfo, ...], str | None]:
        """The models of ``listing``, with what vLLM, llama.cpp, OpenRouter and others say of each."""
        rows = listing.get("data") if isinstance(listing, Mapping) else listing
        return models_of(rows, API), None


def _tool(schema: ToolSchema) -> dict[str, Any]:
    return {"type": "function", "function": openai_function(schema)}
