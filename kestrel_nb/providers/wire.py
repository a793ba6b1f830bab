"""What a wire format is: a pure function from request to bytes, and a pure parser from bytes to deltas and one reply.

Nothing here, nor in the files of the formats, opens a connection: ``http.py`` does, and ``remote.py`` joins the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from ..protocol.errors import ModelRequestError
from ..protocol.sessions import ModelInfo
from ..runtime.models import CompletionRequest, CompletionResponse, TokenDelta


@dataclass(frozen=True, slots=True, kw_only=True)
class WireRequest:
    """One request as bytes. ``path`` begins with a slash and follows the base URL; the key is not in the headers."""

    path: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class WireParser(Protocol):
    """Reads the body of one reply with status 200. Every method raises ModelRequestError, and nothing else."""

    @property
    def done(self) -> bool:
        """True once the reply said that it is complete; what follows is read, and ignored."""
        ...

    def feed(self, data: bytes) -> Sequence[TokenDelta]:
        """Take the next bytes, cut anywhere. No delta is empty."""
        ...

    def end(self) -> CompletionResponse:
        """The body ended. Raises a retryable error when it ended before the reply did."""
        ...


class Wire(Protocol):
    """One wire format as one model speaks it. It keeps what it has encoded, so it belongs to one model object."""

    @property
    def api(self) -> str:
        """The name of the format: openai-chat, openai-responses, anthropic, gemini or ollama."""
        ...

    def key_headers(self, key: str) -> Mapping[str, str]:
        """The headers that carry the API key."""
        ...

    def encode(self, request: CompletionRequest, *, stream: bool) -> WireRequest:
        """The request as it is sent. Raises UsageError for what the format can't say."""
        ...

    def parser(self) -> WireParser:
        """A parser for one streamed reply."""
        ...

    def whole(self, body: bytes) -> CompletionResponse:
        """A reply that came in one piece, not streamed. Raises ModelRequestError."""
        ...

    def models_path(self, page: str | None) -> str:
        """Where the server lists its models, from ``page`` on."""
        ...

    def models(self, listing: Any) -> tuple[tuple[ModelInfo, ...], str | None]:
        """The models of one page, ``id`` being the bare name, and the next page if there is one."""
        ...


@runtime_checkable
class TellingWire(Protocol):
    """What a format may have beside ``Wire``: a second request for what a model can do, and advice on refusals."""

    def details(self, name: str) -> WireRequest:
        """The request for what the server knows of the model ``name``, for lists that don't say it."""
        ...

    def detailed(self, info: ModelInfo, shown: Any) -> ModelInfo:
        """``info`` with what the answer to ``details`` says."""
        ...

    def hint(self, status: int, body: str) -> str | None:
        """What to do about an answer with ``status``, where only this format knows."""
        ...


def broken(stamp: str, what: str) -> ModelRequestError:
    """The error for a reply that can't be read; another try may help before the first token."""
    return ModelRequestError(f"{_named(stamp)} {what}", retryable=True, code="broken_reply")


def truncated(stamp: str) -> ModelRequestError:
    """The error for a reply that stopped before its end was announced."""
    return ModelRequestError(
        f"{_named(stamp)} ended its reply before it was complete; the connection was cut on the way: run it again",
        retryable=True,
        code="truncated_reply",
    )


def _named(stamp: str) -> str:
    """The sender as other errors name it."""
    api, _, host = stamp.partition("@")
    return f"the server at {host}" if host else api
