"""The models on servers, one small class for each wire format: its vendor's address, and where the vendor's key is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from ..protocol.errors import UsageError
from ..protocol.sessions import ModelInfo
from .address import Timeouts, checked_base_url, host_of, place_of
from .remote_model import ApiKey as ApiKey
from .remote_model import RemoteModel as RemoteModel
from .wire import Wire

if TYPE_CHECKING:
    from .http import Transport


class _VendorModel(RemoteModel, ABC):
    """The model that its vendor, or the server at ``base_url``, calls ``model``.

    ``api_key`` is a key or a function that gives one, asked with each request. Without it the environment is read, but
    for the vendor's own address alone: a key must not reach a server that nobody named for it. ``headers`` and the
    fields of ``extra_body`` are sent with each request. With ``stream=False`` a reply comes in one piece.
    ``context_window`` is in tokens. ``id`` is what the model is called here; by default ``provider:model``.
    ``wire_options`` are those of the wire format. ``transport`` is an httpx transport in the place of the network.

    Raises UsageError for a name, a base URL or headers that can't be.
    """

    api: ClassVar[str]
    provider: ClassVar[str]
    vendor_url: ClassVar[str]
    key_names: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        model: str,
        *,
        api_key: ApiKey = None,
        base_url: str | None = None,
        headers: Mapping[str, str] | None = None,
        extra_body: Mapping[str, Any] | None = None,
        stream: bool = True,
        context_window: int | None = None,
        supports_images: bool | None = None,
        supports_reasoning: bool | None = None,
        id: str | None = None,
        provider: str | None = None,
        timeouts: Timeouts | None = None,
        transport: Transport | None = None,
        **wire_options: Any,
    ) -> None:
        if not isinstance(model, str) or not model.strip():
            raise UsageError(f'{type(self).__name__} wants the model\'s name, such as {type(self).__name__}("name")')
        own = base_url is None or checked_base_url(base_url) == self.vendor_url
        url = self.vendor_url if base_url is None else checked_base_url(base_url)
        stamp = self.api if own else f"{self.api}@{host_of(url)}"
        wire = self._make_wire(model, stamp=stamp, extra_body=extra_body, **wire_options)
        provider = provider or self.provider
        super().__init__(
            model,
            wire=wire,
            info=ModelInfo(
                id=id or f"{provider}:{model}",
                provider=provider,
                context_window=context_window,
                supports_tools=True,
                supports_reasoning=supports_reasoning,
                supports_images=supports_images,
            ),
            base_url=url,
            name=provider if own or provider != self.provider else f"the server at {place_of(url)}",
            api_key=api_key,
            key_names=self.key_names if own else (),
            headers=headers,
            transport=transport,
            timeouts=timeouts,
            stream=stream,
        )

    @abstractmethod
    def _make_wire(self, model: str, **options: Any) -> Wire: ...


class OpenAIChatModel(_VendorModel):
    """Chat Completions, of OpenAI or of one of the many servers that speak it."""

    api = "openai-chat"
    provider = "openai"
    vendor_url = "https://api.openai.com/v1"
    key_names = ("OPENAI_API_KEY",)

    def _make_wire(self, model: str, **options: Any) -> Wire:
        from .openai_chat import OpenAIChatWire

        return OpenAIChatWire(model, **options)


class OpenAIResponsesModel(_VendorModel):
    """OpenAI Responses."""

    api = "openai-responses"
    provider = "openai-responses"
    vendor_url = "https://api.openai.com/v1"
    key_names = ("OPENAI_API_KEY",)

    def _make_wire(self, model: str, **options: Any) -> Wire:
        from .openai_responses import OpenAIResponsesWire

        return OpenAIResponsesWire(model, **options)


class AnthropicModel(_VendorModel):
    """Anthropic Messages."""

    api = "anthropic"
    provider = "anthropic"
    vendor_url = "https://api.anthropic.com"
    key_names = ("ANTHROPIC_API_KEY",)

    def _make_wire(self, model: str, **options: Any) -> Wire:
        from .anthropic import AnthropicWire

        return AnthropicWire(model, **options)


class GeminiModel(_VendorModel):
    """Google Gemini."""

    api = "gemini"
    provider = "gemini"
    vendor_url = "https://generativelanguage.googleapis.com"
    key_names = ("GEMINI_API_KEY", "GOOGLE_API_KEY")

    def _make_wire(self, model: str, **options: Any) -> Wire:
        from .gemini import GeminiWire

        return GeminiWire(model, **options)


class OllamaModel(_VendorModel):
    """Ollama, on this machine by default."""

    api = "ollama"
    provider = "ollama"
    vendor_url = "http://localhost:11434"
    key_names = ()

    def _make_wire(self, model: str, **options: Any) -> Wire:
        from .ollama import OllamaWire

        return OllamaWire(model, **options)
