"""Models: one file per wire format, and the models that need none."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .address import Timeouts as Timeouts
    from .local import LocalModel as LocalModel
    from .remote import AnthropicModel as AnthropicModel
    from .remote import GeminiModel as GeminiModel
    from .remote import OllamaModel as OllamaModel
    from .remote import OpenAIChatModel as OpenAIChatModel
    from .remote import OpenAIResponsesModel as OpenAIResponsesModel

_HOME_OF = {
    "AnthropicModel": "remote",
    "GeminiModel": "remote",
    "LocalModel": "local",
    "OllamaModel": "remote",
    "OpenAIChatModel": "remote",
    "OpenAIResponsesModel": "remote",
    "Timeouts": "address",
}
__all__ = tuple(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value
