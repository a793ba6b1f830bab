"""Google Gemini as requests. The messages are written in ``gemini_contents.py``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote

from ..protocol.errors import UsageError
from ..protocol.sessions import ModelInfo
from ..protocol.tools import ToolSchema
from ..runtime.models import CompletionRequest, CompletionResponse
from .encoding import (
    KeptJoin,
    KeptTools,
    body_bytes,
    extra_fields,
    json_array,
    json_bytes,
    json_object,
    newest_images,
    object_schema,
)
from .event_parser import count_of, objects_of, read_json, str_of
from .gemini_contents import IMAGES, Contents, encoded, sent_name
from .gemini_stream import API, GeminiParser, whole_reply
from .wire import WireRequest, broken

BASE_PATH: Final = "/v1beta/"

T = TypeVar("T", dict[str, Any], list[Any])

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")


class GeminiWire:
    """POST ``/v1beta/models/MODEL:generateContent``, or ``:streamGenerateContent`` as server-sent events.

    ``extra_body`` wins over the fields made here but the contents; its ``generationConfig`` is merged with ours
    (``{"generationConfig": {"thinkingConfig": {"includeThoughts": True}}}``) and its ``tools`` stand behind ours.
    Signatures and thoughts go back to ``stamp`` alone. Calls of others that belong to the current turn carry Google's
    word for "not signed by you"; without it the newer models refuse the request.
    """

    api = API

    def __init__(self, model: str, *, stamp: str, extra_body: Mapping[str, Any] | None = None) -> None:
        self.model = model.removeprefix("models/")
        self.stamp = stamp
        self._extra = extra_fields(extra_body)
        self._config = _taken(self._extra, "generationConfig", dict)
        self._extra_tools = [json_bytes(tool) for tool in _taken(self._extra, "tools", list)]
        self._joined = KeptJoin(lambda message: encoded(message, stamp), Contents)
        self._tools = KeptTools(declaration)

    def key_headers(self, key: str) -> Mapping[str, str]:
        """The key in Google's header; never in the address, which is logged."""
        return {"x-goog-api-key": key}

    def encode(self, request: CompletionRequest, *, stream: bool) -> WireRequest:
        """The request as it is sent. Raises UsageError for a new image, or a tool's name, that the format can't say."""
        for image in newest_images(request.messages):
            IMAGES.check(image)
        contents = self._joined.of(request.messages)
        fields: dict[str, bytes] = {}
        if contents.system:
            fields["systemInstruction"] = json_object({"parts": json_array(contents.system)})
        tools = [json_object({"functionDeclarations": self._tools.of(request.tools)})] if request.tools else []
        if tools or self._extra_tools:
            fields["tools"] = json_array([*tools, *self._extra_tools])
        config = {"temperature": request.temperature, "maxOutputTokens": request.max_tokens}
        config = {name: value for name, value in config.items() if value is not None} | self._config
        if config:
            fields["generationConfig"] = json_bytes(config)
        method = "streamGenerateContent?alt=sse" if stream else "generateContent"
        body = body_bytes(fields | self._extra, "contents", *contents.pieces())
        return WireRequest(path=f"{BASE_PATH}{self._path()}:{method}", body=body)

    def _path(self) -> str:
        """The model as a path: a bare name is one of ``models/``, tuned models name their own collection."""
        collection, slash, name = self.model.partition("/")
        if slash and collection == "tunedModels":
            return f"tunedModels/{quote(name, safe='')}"
        return f"models/{quote(self.model, safe='')}"

    def parser(self) -> GeminiParser:
        """A parser for one streamed reply."""
        return GeminiParser(self.stamp, self.whole)

    def whole(self, body: bytes) -> CompletionResponse:
        """A reply in one piece. Raises ModelRequestError."""
        return whole_reply(read_json(body, self.stamp), self.parser())

    def models_path(self, page: str | None) -> str:
        """The list of models in pages of 1000, the most that the API gives."""
        return f"{BASE_PATH}models?pageSize=1000" + (f"&pageToken={quote(page, safe='')}" if page else "")

    def models(self, listing: Any) -> tuple[tuple[ModelInfo, ...], str | None]:
        """The models that generate content, and the next page. Raises ModelRequestError."""
        if not isinstance(listing, Mapping) or not isinstance(listing.get("models", []), list):
            raise broken(self.stamp, "sent a list of models that can't be read")
        found = tuple(model_info(model, self.stamp) for model in objects_of(listing.get("models")) if generates(model))
        return found, str_of(listing.get("nextPageToken")) or None


def _taken(fields: dict[str, bytes], name: str, kind: type[T]) -> T:
    """The field ``name`` taken out of ``fields``, or an empty one. Raises UsageError when it is of another kind."""
    value = json.loads(fields.pop(name, b"null"))
    if value is not None and not isinstance(value, kind):
        raise UsageError(f"{name} in extra_body must be {'an object' if kind is dict else 'an array'}")
    return kind() if value is None else value


# ---- tools and models -------------------------------------------------------------------------------------------


def declaration(tool: ToolSchema) -> dict[str, Any]:
    """A tool as it is offered. Raises UsageError for a name that the format can't say."""
    name = sent_name(tool.name)
    if not _NAME.fullmatch(name):
        raise UsageError(
            f'the tool name "{tool.name[:80]}" can\'t be sent to Gemini; use up to 64 letters, digits, _ and -'
        )
    return {"name": name, "description": tool.description, "parametersJsonSchema": object_schema(tool.parameters)}


def generates(model: Mapping[str, Any]) -> bool:
    """True for models that answer, not for those that embed; a list without methods is taken as it is."""
    methods = model.get("supportedGenerationMethods")
    return bool(str_of(model.get("name"))) and (not isinstance(methods, list) or "generateContent" in methods)


def model_info(model: Mapping[str, Any], stamp: str) -> ModelInfo:
    """A model of the list."""
    thinking = model.get("thinking")
    return ModelInfo(
        id=str_of(model["name"]).removeprefix("models/"),
        provider=stamp,
        label=str_of(model.get("displayName")) or None,
        context_window=count_of(model.get("inputTokenLimit")) or None,
        supports_reasoning=thinking if isinstance(thinking, bool) else None,
    )
