"""The models on servers, one small class for each wire format: its vendor's address, and where the vendor's key is."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from ..protocol.errors import UsageError
from ..protocol.sessions import ModelInfo
from ..protocol.suggest import suggestion
from ..runtime.secrets import looks_like_key
from .address import Timeouts, checked_base_url, host_of, place_of
from .keys import KeySource
from .known import PROVIDERS, Address, Provider, address_in_code
from .remote_model import ApiKey as ApiKey
from .remote_model import RemoteModel as RemoteModel
from .wire import Wire

if TYPE_CHECKING:
    from .http import Transport


class _VendorModel(RemoteModel, ABC):
    """The model that its vendor, or the server at ``base_url``, calls ``model``.

    Without ``base_url`` it is at the address that the environment names, OPENAI_BASE_URL and the like, or else at the
    vendor's own. ``api_key`` is a key or a function that gives one, asked with each request. Without it the key comes
    from the environment or the keyring: for the address of the environment that of the vendor, for another the one
    that is kept under its host, as README's "Models" tells. ``headers`` and the fields of ``extra_body`` are sent with
    each request. With ``stream=False`` a reply comes in one piece. ``context_window`` is in tokens. ``id`` is what the
    model is called here; by default ``provider:model``. ``wire_options`` are those of the wire format. ``transport`` is
    an httpx transport in the place of the network.

    Raises UsageError for a name, a base URL or headers that can't be, TypeError for an unknown option.
    """

    api: ClassVar[str]
    vendor: ClassVar[Provider]

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
        vendor = self.vendor
        address = Address(vendor, model)
        if base_url is not None:
            address = address_in_code(vendor, model, checked_base_url(base_url))
        url, own = address.base_url, address.base_url == vendor.base_url
        stamp = self.api if own else f"{self.api}@{host_of(url)}"
        wire = self._checked_wire(wire_options)(model, stamp=stamp, extra_body=extra_body, **wire_options)
        provider = provider or vendor.name
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
            name=provider if own or provider != vendor.name else f"the server at {place_of(url)}",
            api_key=_key_of(api_key, address, headers or {}),
            headers=headers,
            transport=transport,
            timeouts=timeouts,
            stream=stream,
        )

    def _checked_wire(self, options: Mapping[str, Any]) -> Callable[..., Wire]:
        """The class of the wire format. Raises TypeError that names what can be said instead of an unknown option."""
        wire = self._wire_class()
        of_wire = [name for name in _options_of(wire) if name != "stamp"]
        names = dict.fromkeys([*_options_of(_VendorModel.__init__), *of_wire])
        for name in options:
            if name not in of_wire:
                near = suggestion(name, names, "", cutoff=0.5)
                more = f"its options are {', '.join(names)}"
                raise TypeError(f'{type(self).__name__} has no option "{name}"; {near + " " if near else ""}{more}')
        return wire

    @abstractmethod
    def _wire_class(self) -> Callable[..., Wire]: ...


def _options_of(made: Callable[..., Any]) -> list[str]:
    parameters = inspect.signature(made).parameters.values()
    return [one.name for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY]


def _key_of(given: ApiKey, address: Address, headers: Mapping[str, str]) -> ApiKey:
    """Where the key of a model comes from; a header may hold it as well."""
    if isinstance(given, KeySource) or (given and not callable(given)):
        return given
    in_header = any(looks_like_key(name.replace("-", "_")) for name in headers)
    return KeySource(address, optional=in_header, first=given if callable(given) else None)


class OpenAIChatModel(_VendorModel):
    """Chat Completions, of OpenAI or of one of the many servers that speak it."""

    api = "openai-chat"
    vendor = PROVIDERS["openai"]

    def _wire_class(self) -> Callable[..., Wire]:
        from .openai_chat import OpenAIChatWire

        return OpenAIChatWire


class OpenAIResponsesModel(_VendorModel):
    """OpenAI Responses."""

    api = "openai-responses"
    vendor = PROVIDERS["openai-responses"]

    def _wire_class(self) -> Callable[..., Wire]:
        from .openai_responses import OpenAIResponsesWire

        return OpenAIResponsesWire


class AnthropicModel(_VendorModel):
    """Anthropic Messages."""

    api = "anthropic"
    vendor = PROVIDERS["anthropic"]

    def _wire_class(self) -> Callable[..., Wire]:
        from .anthropic import AnthropicWire

        return AnthropicWire


class GeminiModel(_VendorModel):
    """Google Gemini."""

    api = "gemini"
    vendor = PROVIDERS["gemini"]

    def _wire_class(self) -> Callable[..., Wire]:
        from .gemini import GeminiWire

        return GeminiWire


class OllamaModel(_VendorModel):
    """Ollama, on this machine by default."""

    api = "ollama"
    vendor = PROVIDERS["ollama"]

    def _wire_class(self) -> Callable[..., Wire]:
        from .ollama import OllamaWire

        return OllamaWire
