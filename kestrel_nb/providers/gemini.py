"""Google Gemini as requests: contents by turns, thought signatures on the very parts where they came."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import quote

from ..protocol.errors import UsageError
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
from .encoding import KeptEncodings, KeptTools, extra_fields, json_array, json_bytes, json_object
from .event_parser import count_of, objects_of, read_json, str_of
from .gemini_stream import API, SIGNATURE, GeminiParser, whole_reply
from .images import base64_image
from .wire import WireRequest, broken

NO_SIGNATURE: Final = "skip_thought_signature_validator"  # Google's own word for a call that it did not write
BASE_PATH: Final = "/v1beta/"

T = TypeVar("T", dict[str, Any], list[Any])

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
_NEEDS_BEGINNING = re.compile(r"_*[0-9.:-]")


@dataclass(frozen=True, slots=True)
class _Kept:
    """A message as parts. ``answers`` are the call ids of a tool message's parts, whose own ids come before ``parts``.

    ``ids`` leads from our call ids to those of the server, where it gave some. ``current`` replaces the parts as long
    as the message belongs to the turn that is being worked on.
    """

    role: str
    parts: tuple[bytes, ...]
    current: tuple[bytes, ...]
    ids: Mapping[str, str]
    answers: tuple[str, ...] = ()


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
        self._kept = KeptEncodings(self._encoded)
        self._tools = KeptTools(declaration)
        self._malformed = False  # the last reply ended with a call that the model had written wrongly

    def key_headers(self, key: str) -> Mapping[str, str]:
        """The key in Google's header; never in the address, which is logged."""
        return {"x-goog-api-key": key}

    def encode(self, request: CompletionRequest, *, stream: bool) -> WireRequest:
        """The request as it is sent. Raises UsageError for a tool whose name the format can't say."""
        system = [json_bytes({"text": m.content}) for m in request.messages if m.role == "system" and m.content]
        fields: dict[str, bytes] = {}
        if system:
            fields["systemInstruction"] = json_object({"parts": json_array(system)})
        tools = [json_object({"functionDeclarations": self._tools.of(request.tools)})] if request.tools else []
        if tools or self._extra_tools:
            fields["tools"] = json_array([*tools, *self._extra_tools])
        config = {"temperature": request.temperature, "maxOutputTokens": request.max_tokens}
        config = {name: value for name, value in config.items() if value is not None} | self._config
        if config:
            fields["generationConfig"] = json_bytes(config)
        fields |= self._extra
        fields["contents"] = json_array(self._contents(request.messages))
        method = "streamGenerateContent?alt=sse" if stream else "generateContent"
        return WireRequest(path=f"{BASE_PATH}{self._path()}:{method}", body=json_object(fields))

    def _path(self) -> str:
        """The model as a path: a bare name is one of ``models/``, tuned models name their own collection."""
        collection, slash, name = self.model.partition("/")
        if slash and collection == "tunedModels":
            return f"tunedModels/{quote(name, safe='')}"
        return f"models/{quote(self.model, safe='')}"

    def parser(self) -> GeminiParser:
        """A parser for one streamed reply."""
        return GeminiParser(self.stamp, self.whole, self._may_be_malformed)

    def whole(self, body: bytes) -> CompletionResponse:
        """A reply in one piece. Raises ModelRequestError."""
        return whole_reply(read_json(body, self.stamp), self.parser())

    def _may_be_malformed(self, malformed: bool) -> bool:
        """Takes note of a reply; True when a malformed one is worth another try, that is the first in a row."""
        again, self._malformed = malformed and not self._malformed, malformed and not self._malformed
        return again

    def models_path(self, page: str | None) -> str:
        """The list of models in pages of 1000, the most that the API gives."""
        return f"{BASE_PATH}models?pageSize=1000" + (f"&pageToken={quote(page, safe='')}" if page else "")

    def models(self, listing: Any) -> tuple[tuple[ModelInfo, ...], str | None]:
        """The models that generate content, and the next page. Raises ModelRequestError."""
        if not isinstance(listing, Mapping) or not isinstance(listing.get("models", []), list):
            raise broken(self.stamp, "sent a list of models that can't be read")
        found = tuple(model_info(model, self.stamp) for model in objects_of(listing.get("models")) if generates(model))
        return found, str_of(listing.get("nextPageToken")) or None

    # ---- messages -----------------------------------------------------------------------------------------------

    def _contents(self, messages: tuple[ChatMessage, ...]) -> Iterator[bytes]:
        """The messages as contents; neighbours of one role become one content, since roles must alternate."""
        turn = max((index for index, message in enumerate(messages) if message.role == "user"), default=0)
        role, parts = "", list[bytes]()
        ids: Mapping[str, str] = {}
        for index, message in enumerate(messages):
            if message.role == "system":
                continue
            kept = self._kept.of(message)
            more = kept.current if index > turn else kept.parts
            if kept.answers:
                more = tuple(answer(ids.get(id), rest) for id, rest in zip(kept.answers, more, strict=True))
            elif message.role == "assistant":
                ids = kept.ids
            if more and kept.role != role and parts:
                yield content(role, parts)
                parts = []
            if more:
                role = kept.role
                parts += more
        if parts:
            yield content(role, parts)

    def _encoded(self, message: ChatMessage) -> _Kept:
        if message.role == "assistant":
            ours = message.provider == self.stamp
            parts = tuple(own_parts(message.parts) if ours else foreign_parts(message.parts, signed=False))
            current = parts if ours else tuple(foreign_parts(message.parts, signed=True))
            calls = message.tool_calls if ours else ()
            ids = {call.id: id for call in calls if (id := str_of(call.extra.get("id")))}
            return _Kept("model", parts, current, ids)
        if message.role == "tool":
            results = message.tool_results
            parts = tuple(map(result_fields, results))
            return _Kept("user", parts, parts, {}, tuple(result.call_id for result in results))
        parts = tuple(said_parts(message.parts))
        return _Kept("user", parts, parts, {})


def _taken(fields: dict[str, bytes], name: str, kind: type[T]) -> T:
    """The field ``name`` taken out of ``fields``, or an empty one. Raises UsageError when it is of another kind."""
    value = json.loads(fields.pop(name, b"null"))
    if value is not None and not isinstance(value, kind):
        raise UsageError(f"{name} in extra_body must be {'an object' if kind is dict else 'an array'}")
    return kind() if value is None else value


def content(role: str, parts: Iterable[bytes]) -> bytes:
    """One content."""
    return json_object({"role": json_bytes(role), "parts": json_array(parts)})


def said_parts(parts: tuple[Part, ...]) -> Iterator[bytes]:
    """What a person said; empty text is left out."""
    for part in parts:
        if isinstance(part, TextPart) and part.text:
            yield json_bytes({"text": part.text})
        elif isinstance(part, ImagePart):
            yield json_bytes(image(part))


def image(part: ImagePart) -> dict[str, Any]:
    """An image as data, or by its address."""
    media_type, data = base64_image(part)
    if data is None:
        return {"fileData": {"mimeType": media_type, "fileUri": part.url}}
    return {"inlineData": {"mimeType": media_type, "data": data}}


def own_parts(parts: tuple[Part, ...]) -> Iterator[bytes]:
    """A reply of ours as it came: no part merged, and none left out but empty text without a signature."""
    for part in parts:
        signature = {SIGNATURE: part.extra[SIGNATURE]} if SIGNATURE in part.extra else {}
        if isinstance(part, TextPart) and (part.text or signature):
            yield json_bytes({"text": part.text, **signature})
        elif isinstance(part, ReasoningPart) and (part.text or signature):
            yield json_bytes({"text": part.text, "thought": True, **signature})
        elif isinstance(part, ToolCallPart):
            yield call(part, str_of(part.extra.get("id")), signature)
        elif isinstance(part, OpaquePart):
            yield json_bytes(part.value)


def foreign_parts(parts: tuple[Part, ...], *, signed: bool) -> Iterator[bytes]:
    """What others said: text and calls. ``signed`` gives the first call the word that stands for a signature."""
    signature = {SIGNATURE: NO_SIGNATURE} if signed else {}
    for part in parts:
        if isinstance(part, TextPart) and part.text:
            yield json_bytes({"text": part.text})
        elif isinstance(part, ToolCallPart):
            yield call(part, "", signature)
            signature = {}  # of calls side by side only the first is signed


def call(part: ToolCallPart, id: str, signature: Mapping[str, Any]) -> bytes:
    """A call, its arguments byte for byte; what is no object can't be said, and stands in one as text."""
    if part.arguments is not None:
        arguments = part.raw_arguments.strip().encode("utf-8", "replace") or b"{}"
    else:
        arguments = json_bytes({"arguments": part.raw_arguments})
    fields = {"id": json_bytes(id)} if id else {}
    fields |= {"name": json_bytes(sent_name(part.name)), "args": arguments}
    return json_object({"functionCall": json_object(fields), **{key: json_bytes(v) for key, v in signature.items()}})


def result_fields(part: ToolResultPart) -> bytes:
    """The fields of a result but its id, which only the call knows; images stand in it."""
    response = {"error" if part.is_error else "output": part.content}
    fields: dict[str, Any] = {"name": sent_name(part.name), "response": response}
    if part.images:
        fields["parts"] = [image(item) for item in part.images]
    return json_bytes(fields)


def answer(id: str | None, fields: bytes) -> bytes:
    """The part of a result, under the server's id for the call if it gave one."""
    head = b'{"functionResponse":{' + (b'"id":' + json_bytes(id) + b"," if id else b"")
    return head + fields[1:] + b"}"


# ---- tools and models -------------------------------------------------------------------------------------------


def sent_name(name: str) -> str:
    """``name`` as Gemini takes it: one that begins with a digit or a hyphen gets an underscore before it."""
    return f"_{name}" if _NEEDS_BEGINNING.match(name) else name


def declaration(tool: ToolSchema) -> dict[str, Any]:
    """A tool as it is offered. Raises UsageError for a name that the format can't say."""
    name = sent_name(tool.name)
    if not _NAME.fullmatch(name):
        raise UsageError(
            f'the tool name "{tool.name[:80]}" can\'t be sent to Gemini; use up to 64 letters, digits, _ and -'
        )
    return {"name": name, "description": tool.description, "parametersJsonSchema": tool.parameters}


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
