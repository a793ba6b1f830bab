"""Anthropic Messages: requests and model lists. What comes back is read in ``anthropic_stream.py``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from ..protocol.messages import ChatMessage, ToolResultPart
from ..protocol.sessions import ModelInfo
from ..runtime.models import CompletionRequest, CompletionResponse
from .anthropic_blocks import (
    IMAGES,
    begun_on_server,
    block_of,
    ended_on_server,
    images_of_failures,
    without_last_thoughts,
)
from .anthropic_reply import API
from .anthropic_stream import AnthropicParser, whole_reply
from .anthropic_tools import name_only, tool
from .encoding import (
    KeptJoin,
    KeptTools,
    body_bytes,
    checked_tokens,
    extra_fields,
    joined_arrays,
    json_array,
    json_bytes,
    newest_images,
)
from .event_parser import count_of, object_of, objects_of, str_of
from .wire import WireRequest

_VERSION: Final = {"anthropic-version": "2023-06-01"}  # the one version that Anthropic's reference names
PAGE_MODELS: Final = 1000  # the most that one page of the model list may hold

# ``max_tokens`` must be sent, and more than the model can write is refused. These are the limits of Anthropic's model
# overview; 32,000 is the least of any model since Claude 4, and leaves room for thinking, which counts in it.
OUTPUT_LIMITS: Final = (("claude-3-5", 8_192), ("claude-3-7", 32_000), ("claude-3", 4_096), ("claude-2", 4_096))
OUTPUT_LIMIT: Final = 32_000
OTHERS_LIMIT: Final = 8_192

# A conversation has to begin with the person; what begins otherwise gets this before it.
_BEGINNING: Final = b'{"type":"text","text":"(The conversation goes on.)"}'
# What stands in the place of a call on the server whose reply was cut before the result came.
_BROKEN_OFF: Final = b'{"type":"text","text":"(A call of a tool on the server was broken off here.)"}'
_MARK: Final = b',"cache_control":{"type":"ephemeral"}}'
_HEADS: Final = {role: b'{"role":"' + role.encode() + b'","content":[' for role in ("user", "assistant")}
_MARKED: Final = 4  # the last turns, among which the marks of the prompt cache may stand


@dataclass(frozen=True, slots=True)
class _Blocks:
    """The content blocks of one message as JSON: results of tools, and everything else.

    ``begun`` are the ids of the calls among ``others`` of tools that run on the server, ``ended`` those of their
    results: both stand in the assistant's turn, but not always in one message.
    """

    role: str
    results: tuple[bytes, ...] = ()
    others: tuple[bytes, ...] = ()
    begun: Mapping[bytes, str] = field(default_factory=dict)
    ended: frozenset[str] = frozenset()


class _Turns:
    """Messages of one role side by side are one turn, the results of tools first: the format asks for both."""

    def __init__(self) -> None:
        self.system: list[str] = []
        self.names: dict[str, None] = {}  # of the tools that were called
        self._closed = bytearray()
        self._last: list[list[_Blocks]] = []

    def add(self, message: ChatMessage, blocks: _Blocks, /) -> None:
        """One more message."""
        if message.role == "system":
            self.system += [message.content] if message.content.strip() else []
            return
        if not (blocks.results or blocks.others):
            return
        self.names |= dict.fromkeys(call.name for call in message.tool_calls)
        if not self._last and blocks.role == "assistant":
            self._last.append([_Blocks("user", others=(_BEGINNING,))])
        if self._last and self._last[-1][0].role == blocks.role:
            self._last[-1].append(blocks)
            return
        self._last.append([blocks])
        if len(self._last) > _MARKED:
            self._closed += _turn(self._last.pop(0)) + b","

    def pieces(self, *, marked: bool) -> tuple[bytearray, bytes]:
        """All of them, joined; ``marked`` for the prompt cache."""
        # Also the turn before: the mark of the last request stands there, however many calls came since.
        asked = [at for at, turn in enumerate(self._last) if turn[0].role == "user"][-2:] if marked else []
        end = len(self._last) - 1
        turns = (_turn(turn, marked=at in asked, goes_on=at == end) for at, turn in enumerate(self._last))
        return self._closed, b",".join(turns)


class AnthropicWire:
    """Anthropic Messages as ``model`` speaks it.

    ``max_tokens`` bounds a reply where the request does not say; by default as much as the model allows, but not over
    32,000, and 8,192 for models of other makers. ``cache`` marks the system prompt and the last two turns of the
    person for the server's prompt cache: writing costs a quarter more than plain input, reading a tenth, so it pays
    from the second step of a run on. It is on for Anthropic's own server and off for others, which may not know the
    mark. ``extra_body`` wins over the fields made here but the messages; its ``tools`` stand behind ours.

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
        self._extra_tools = self._extra.pop("tools", b"[]")
        self._max_tokens = checked_tokens("max_tokens", max_tokens) or output_limit(model, own=stamp == API)
        self._cache = (stamp == API if cache is None else cache) and "cache_control" not in self._extra
        self._turns = KeptJoin(self._blocks, _Turns)
        self._tools = KeptTools(tool)

    @property
    def api(self) -> str:
        """anthropic"""
        return API

    def key_headers(self, key: str) -> Mapping[str, str]:
        """The header that carries the API key, and the version, which the list of models needs too."""
        return {"x-api-key": key, **_VERSION}

    def encode(self, request: CompletionRequest, *, stream: bool) -> WireRequest:
        """The request as it is sent. Raises UsageError for a new image that the format can't carry."""
        for image in newest_images(request.messages):
            IMAGES.check(image)
        turns = self._turns.of(request.messages)
        fields = {
            "model": json_bytes(self._model),
            "max_tokens": json_bytes(request.max_tokens or self._max_tokens),
        }
        if turns.system:
            system = json_bytes({"type": "text", "text": "\n\n".join(turns.system)})
            fields["system"] = json_array([_marked(system) if self._cache else system])
        tools = joined_arrays(self._tools.of(request.tools), self._extra_tools)
        if tools == b"[]" and turns.names:  # calls without tools are refused
            tools = json_array(name_only(name) for name in turns.names)
            fields["tool_choice"] = b'{"type":"none"}'
        if tools != b"[]":
            fields["tools"] = tools
        if request.temperature is not None:
            fields["temperature"] = json_bytes(request.temperature)
        if stream:
            fields["stream"] = b"true"
        body = body_bytes(fields | self._extra, "messages", *turns.pieces(marked=self._cache))
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
        listing = object_of(listing)
        found = tuple(_info(item) for item in objects_of(listing.get("data")) if str_of(item.get("id")))
        return found, (str_of(listing.get("last_id")) or None) if listing.get("has_more") is True else None

    # ---- messages ---------------------------------------------------------------------------------------------

    def _blocks(self, message: ChatMessage) -> _Blocks:
        if message.role == "system":
            return _Blocks("user")
        own = message.provider == self._stamp
        parts = without_last_thoughts(message.parts)
        made = [(part, sent) for part in parts if (sent := block_of(part, own, signed=self._stamp == API))]
        results = tuple(sent for part, sent in made if isinstance(part, ToolResultPart))
        others = tuple(sent for part, sent in made if not isinstance(part, ToolResultPart))
        return _Blocks(
            role="assistant" if message.role == "assistant" else "user",
            results=results,
            others=(*others, *images_of_failures(parts)),
            # Beside a call that runs here the result only comes with the next reply.
            begun={} if message.tool_calls else {sent: id for part, sent in made if (id := begun_on_server(part))},
            ended=frozenset(id for part, _ in made if (id := ended_on_server(part))),
        )


def output_limit(model: str, *, own: bool = True) -> int:
    """How many tokens a reply of ``model`` may have where nobody said: its own limit, or 32,000.

    A model of another maker (not ``own``) gets 8,192: servers refuse more than fits their windows.
    """
    if not own and "claude" not in model:
        return OTHERS_LIMIT
    return next((limit for name, limit in OUTPUT_LIMITS if name in model), OUTPUT_LIMIT)


def _turn(turn: list[_Blocks], *, marked: bool = False, goes_on: bool = False) -> bytes:
    """The blocks of messages that stand side by side, results of tools first.

    A call on the server without a result is refused, unless the turn ``goes_on`` with this request.
    """
    blocks = [block for one in turn for block in one.results] + [block for one in turn for block in one.others]
    if not goes_on and any(one.begun for one in turn):
        ended = frozenset[str]().union(*(one.ended for one in turn))
        broken = {block for one in turn for block, id in one.begun.items() if id not in ended}
        blocks = [_BROKEN_OFF if block in broken else block for block in blocks]
    joined = b",".join(blocks)
    return _HEADS[turn[0].role] + (_marked(joined) if marked else joined) + b"]}"


def _marked(blocks: bytes) -> bytes:
    """``blocks`` with the mark of the prompt cache in the last one."""
    return blocks[:-1] + _MARK


# ---- the list of models ---------------------------------------------------------------------------------------------


def _info(item: Mapping[str, Any]) -> ModelInfo:
    return ModelInfo(
        id=item["id"],
        provider=API,
        label=str_of(item.get("display_name")) or None,
        context_window=count_of(item.get("max_input_tokens")) or None,
        supports_tools=True,
        supports_reasoning=_supported(item, "thinking"),
        supports_images=_supported(item, "image_input"),
    )


def _supported(item: Mapping[str, Any], capability: str) -> bool | None:
    """What the list says of ``capability``; None where it says nothing."""
    said = object_of(item.get("capabilities")).get(capability)
    said = said.get("supported") if isinstance(said, dict) else said
    return said if isinstance(said, bool) else None
