"""Anthropic Messages: requests and model lists. What comes back is read in ``anthropic_stream.py``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from ..protocol.messages import ChatMessage, ToolResultPart
from ..protocol.sessions import ModelInfo
from ..protocol.tools import ToolSchema
from ..runtime.models import CompletionRequest, CompletionResponse
from .anthropic_blocks import block
from .anthropic_stream import API, AnthropicParser, whole_reply
from .encoding import KeptEncodings, KeptTools, checked_tokens, extra_fields, json_array, json_bytes, json_object
from .wire import WireRequest

_VERSION: Final = {"anthropic-version": "2023-06-01"}  # the one version that Anthropic's reference names
PAGE_MODELS: Final = 1000  # the most that one page of the model list may hold

# ``max_tokens`` must be sent, and more than the model can write is refused. These are the limits of Anthropic's model
# overview; 32,000 is the least of any model since Claude 4, and leaves room for thinking, which counts in it.
OUTPUT_LIMITS: Final = (("claude-3-5", 8_192), ("claude-3-7", 32_000), ("claude-3", 4_096), ("claude-2", 4_096))
OUTPUT_LIMIT: Final = 32_000

_MARK: Final = b',"cache_control":{"type":"ephemeral"}}'
_HEADS: Final = {role: b'{"role":"' + role.encode() + b'","content":[' for role in ("user", "assistant")}


@dataclass(frozen=True, slots=True)
class _Blocks:
    """The content blocks of one message as JSON, joined by commas: results of tools, and everything else."""

    role: str
    results: bytes
    others: bytes


class AnthropicWire:
    """Anthropic Messages as ``model`` speaks it.

    ``max_tokens`` bounds a reply where the request does not say; by default as much as the model allows, but not
    over 32,000. ``cache`` marks the system prompt and the last two turns of the person for the server's prompt
    cache: writing costs a quarter more than plain input, reading a tenth, so it pays from the second step of a run on.
    It is on for Anthropic's own server and off for others, which may not know the mark.

    Raises UsageError for an option that can't be.
    """

    def __init__(
        self,
        model: str,
        *,
        stamp: str,
        extra_body: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
        cache: bool | None = None,
    ) -> None:
        self._model = model
        self._stamp = stamp
        self._extra = extra_fields(extra_body)
        self._max_tokens = checked_tokens("max_tokens", max_tokens) or output_limit(model)
        self._cache = (stamp == API if cache is None else cache) and "cache_control" not in self._extra
        self._kept = KeptEncodings(self._blocks)
        self._tools = KeptTools(_tool)

    @property
    def api(self) -> str:
        """anthropic"""
        return API

    def key_headers(self, key: str) -> Mapping[str, str]:
        """The header that carries the API key, and the version, which the list of models needs too."""
        return {"x-api-key": key, **_VERSION}

    def encode(self, request: CompletionRequest, *, stream: bool) -> WireRequest:
        """The request as it is sent. Raises UsageError for an image that the format can't carry."""
        fields = {
            "model": json_bytes(self._model),
            "max_tokens": json_bytes(request.max_tokens or self._max_tokens),
        }
        system = self._system(request.messages)
        if system:
            fields["system"] = json_array([system])
        if request.tools:
            fields["tools"] = self._tools.of(request.tools)
        if request.temperature is not None:
            fields["temperature"] = json_bytes(request.temperature)
        fields["messages"] = self._messages(request.messages)
        if stream:
            fields["stream"] = b"true"
        body = json_object(fields | self._extra)
        return WireRequest(path="/v1/messages", body=body, headers=_VERSION)

    def parser(self) -> AnthropicParser:
        """A parser for one streamed reply."""
        return AnthropicParser(self._stamp, self.whole)

    def whole(self, body: bytes) -> CompletionResponse:
        """A reply that came in one piece. Raises ModelRequestError."""
        return whole_reply(body, self._stamp)

    def models_path(self, page: str | None) -> str:
        """Where the server lists its models, from behind the one named ``page`` on."""
        after = f"&after_id={quote(page, safe='')}" if page else ""
        return f"/v1/models?limit={PAGE_MODELS}{after}"

    def models(self, listing: Any) -> tuple[tuple[ModelInfo, ...], str | None]:
        """The models of one page, and the name of its last one when there are more."""
        if not isinstance(listing, Mapping):
            return (), None
        items = listing.get("data")
        found = tuple(_info(item) for item in (items if isinstance(items, list) else ()) if _named(item))
        last = listing.get("last_id")
        return found, last if listing.get("has_more") is True and isinstance(last, str) and last else None

    # ---- messages ---------------------------------------------------------------------------------------------

    def _system(self, messages: tuple[ChatMessage, ...]) -> bytes:
        """All system messages as one text block; the format has one place for them."""
        text = "\n\n".join(message.content for message in messages if message.role == "system" and message.content)
        block = json_bytes({"type": "text", "text": text}) if text.strip() else b""
        return _marked(block) if block and self._cache else block

    def _messages(self, messages: tuple[ChatMessage, ...]) -> bytes:
        """Messages of one role side by side become one, the results of tools first: the format asks for both."""
        turns: list[list[_Blocks]] = []
        role = ""
        for message in messages:
            blocks = self._kept.of(message)
            if not (blocks.results or blocks.others):
                continue
            if blocks.role == role:
                turns[-1].append(blocks)
            else:
                turns.append([blocks])
                role = blocks.role
        contents = [_content(turn) for turn in turns]
        if self._cache:
            # Also the turn before: the mark of the last request stands there, however many calls came since.
            asked = [at for at in range(max(len(turns) - 4, 0), len(turns)) if turns[at][0].role == "user"]
            for at in asked[-2:]:
                contents[at] = _marked(contents[at])
        heads = (_HEADS[turn[0].role] for turn in turns)
        return json_array(head + content + b"]}" for head, content in zip(heads, contents, strict=True))

    def _blocks(self, message: ChatMessage) -> _Blocks:
        if message.role == "system":
            return _Blocks("user", b"", b"")
        own = message.provider == self._stamp
        made = [(part, block(part, own, signed=self._stamp == API)) for part in message.parts]
        results = (sent for part, sent in made if sent and isinstance(part, ToolResultPart))
        others = (sent for part, sent in made if sent and not isinstance(part, ToolResultPart))
        role = "assistant" if message.role == "assistant" else "user"
        return _Blocks(role, b",".join(results), b",".join(others))


def output_limit(model: str) -> int:
    """How many tokens a reply of ``model`` may have where nobody said: its own limit, or 32,000."""
    return next((limit for name, limit in OUTPUT_LIMITS if name in model), OUTPUT_LIMIT)


def _content(turn: list[_Blocks]) -> bytes:
    """The blocks of messages that stand side by side, results of tools first."""
    if len(turn) == 1 and not (turn[0].results and turn[0].others):
        return turn[0].results or turn[0].others
    pieces = (*(blocks.results for blocks in turn), *(blocks.others for blocks in turn))
    return b",".join(piece for piece in pieces if piece)


def _marked(blocks: bytes) -> bytes:
    """``blocks`` with the mark of the prompt cache in the last one."""
    return blocks[:-1] + _MARK


def _tool(schema: ToolSchema) -> dict[str, Any]:
    description = {"description": schema.description} if schema.description else {}
    return {"name": schema.name, **description, "input_schema": schema.parameters}


# ---- the list of models ---------------------------------------------------------------------------------------------


def _named(item: Any) -> bool:
    return isinstance(item, Mapping) and isinstance(item.get("id"), str) and bool(item["id"])


def _info(item: Mapping[str, Any]) -> ModelInfo:
    label, window = item.get("display_name"), item.get("max_input_tokens")
    return ModelInfo(
        id=item["id"],
        provider=API,
        label=label if isinstance(label, str) and label else None,
        context_window=window if isinstance(window, int) and window > 0 else None,
        supports_tools=True,
        supports_reasoning=_supported(item, "thinking"),
        supports_images=_supported(item, "image_input"),
    )


def _supported(item: Mapping[str, Any], capability: str) -> bool | None:
    """What the list says of ``capability``; None where it says nothing."""
    said = item.get("capabilities")
    said = said.get(capability) if isinstance(said, Mapping) else None
    said = said.get("supported") if isinstance(said, Mapping) else said
    return said if isinstance(said, bool) else None
