"""Whose models can be named as ``provider:model``: the table, and how such an id is read.

Addresses and keys come from the process's environment alone. No file of a workspace is looked at: a stranger may have
written it.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Final

from ..protocol.errors import ModelNotFoundError, UsageError
from ..protocol.suggest import suggestion
from .address import OLLAMA_PORT, checked_base_url, host_of, ollama_address

LOCAL: Final = "local"  # a file on this machine, run by a process of its own; no server
SHOWN: Final = 80  # characters of a mistaken id in its error


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One that offers models. ``model_class`` is a name in ``kestrel_nb.providers``.

    ``key_variables`` and ``url_variables`` are read in this order. ``compatible``: servers of others speak the same
    wire format, so that an id may name one by its URL. ``prices`` is the name in the price list.
    """

    name: str
    title: str
    model_class: str
    base_url: str
    key_variables: tuple[str, ...]
    url_variables: tuple[str, ...]
    needs_key: bool = True
    compatible: bool = False
    prices: str | None = None

    def address(self) -> str:
        """The base URL: the one in the environment, else its own. Raises UsageError for one that can't be."""
        for variable in self.url_variables:
            value = os.environ.get(variable, "").strip()
            if value:
                return _address_in(variable, value)
        return self.base_url

    @property
    def is_chosen(self) -> bool:
        """True when the environment names an address for it."""
        return any(os.environ.get(variable, "").strip() for variable in self.url_variables)


PROVIDERS: Final = {
    provider.name: provider
    for provider in (
        Provider(
            name="openai",
            title="OpenAI, Chat Completions",
            model_class="OpenAIChatModel",
            base_url="https://api.openai.com/v1",
            key_variables=("OPENAI_API_KEY",),
            url_variables=("OPENAI_BASE_URL",),
            compatible=True,
            prices="openai",
        ),
        Provider(
            name="openai-responses",
            title="OpenAI, Responses",
            model_class="OpenAIResponsesModel",
            base_url="https://api.openai.com/v1",
            key_variables=("OPENAI_API_KEY",),
            url_variables=("OPENAI_BASE_URL",),
            compatible=True,
            prices="openai",
        ),
        Provider(
            name="anthropic",
            title="Anthropic",
            model_class="AnthropicModel",
            base_url="https://api.anthropic.com",
            key_variables=("ANTHROPIC_API_KEY",),
            url_variables=("ANTHROPIC_BASE_URL",),
            compatible=True,
            prices="anthropic",
        ),
        Provider(
            name="gemini",
            title="Google Gemini",
            model_class="GeminiModel",
            base_url="https://generativelanguage.googleapis.com",
            key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            url_variables=("GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"),
            compatible=True,
            prices="google",
        ),
        Provider(
            name="ollama",
            title="Ollama",
            model_class="OllamaModel",
            base_url=f"http://localhost:{OLLAMA_PORT}",
            key_variables=("OLLAMA_API_KEY",),
            url_variables=("OLLAMA_HOST",),
            needs_key=False,
            compatible=True,
        ),
        Provider(
            name="openrouter",
            title="OpenRouter",
            model_class="OpenAIChatModel",
            base_url="https://openrouter.ai/api/v1",
            key_variables=("OPENROUTER_API_KEY",),
            url_variables=("OPENROUTER_BASE_URL",),
            prices="openrouter",
        ),
        Provider(
            name="deepseek",
            title="DeepSeek",
            model_class="OpenAIChatModel",
            base_url="https://api.deepseek.com",
            key_variables=("DEEPSEEK_API_KEY",),
            url_variables=("DEEPSEEK_BASE_URL",),
            prices="deepseek",
        ),
    )
}
NAMES: Final = (*PROVIDERS, LOCAL)
_FAMILIES: Final = {
    **dict.fromkeys(("gpt", "chatgpt", "o"), "openai"),
    **{"claude": "anthropic", "gemini": "gemini", "deepseek": "deepseek"},
    **dict.fromkeys(("llama", "mistral", "qwen", "gemma", "phi"), "ollama"),
}
_REQUESTS = re.compile(r"/(?:chat/completions|responses|messages|v1beta/models|api/chat|api/generate)$")
# A port is taken whole: what follows it must not be read as the name of a model.
_AT_URL = re.compile(
    r"(?P<url>https?://(?P<host>\[[0-9a-f:.]+\]|[^/:@\[\]?#\s\\]+)(?P<port>:\d+(?=[/:]|$))?+(?P<path>/[^:?#@\s]*)?)"
    r"(?::(?P<model>.*))?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Address:
    """What an id names. ``url`` is the server's when the id itself says it; such a server gets no provider's key."""

    provider: Provider
    model: str
    url: str | None = None

    @property
    def base_url(self) -> str:
        """Where its server is. Raises UsageError for an environment that names none."""
        return self.provider.address() if self.url is None else self.url

    @property
    def host(self) -> str | None:
        """The host that the id names, or None for the provider's own address."""
        return None if self.url is None else host_of(self.url)


def address_of(id: str) -> Address | None:
    """What ``id`` names; None when it has not the form ``provider:model``, or is a local model's.

    Raises ModelNotFoundError for an unknown provider or a missing model's name.
    """
    head, colon, model = id.partition(":")
    wire, plus, _ = head.partition("+")
    if plus:
        provider, url, model = _at_url(wire, id[len(wire) + 1 :], id)
        return Address(provider, _checked_model(id, model, f"{wire}+{url}"), url)
    if not colon:
        _check_word(id)
        return None
    if head == LOCAL:
        return None
    if head not in PROVIDERS:
        raise _no_provider(head, model)
    return Address(PROVIDERS[head], _checked_model(id, model, head))


def address_in_code(provider: Provider, model: str, url: str) -> Address:
    """What code names by ``url``: the provider's address if the environment, or else the table, has it so."""
    try:
        named = provider.address() == url
    except UsageError:  # which one the environment means can't be told
        named = False
    return Address(provider, model, None if named else url)


def server_of(word: str) -> Address:
    """The server of a listing: ``openai``, or ``openai+URL``. Raises ModelNotFoundError that names the others."""
    wire, plus, url = word.partition("+")
    if plus:
        provider, address, _ = _at_url(wire, url, word)
        return Address(provider, "", address)
    if word.rstrip(":") not in PROVIDERS:
        raise _no_provider(word.partition(":")[0], "")
    return Address(PROVIDERS[word.rstrip(":")], "")


def _at_url(wire: str, rest: str, id: str) -> tuple[Provider, str, str]:
    """Provider, base URL and model of ``wire+URL:MODEL``."""
    provider = PROVIDERS.get(wire)
    if provider is None or not provider.compatible:
        wires = [name for name, known in PROVIDERS.items() if known.compatible]
        near = suggestion(wire, wires, "", shape='"{}+URL:MODEL"')
        hint = f"{near + ' ' if near else ''}these can: {', '.join(wires)}"
        raise ModelNotFoundError(f'"{shown(id)}": no URL can follow "{shown(wire)}"; {hint}')
    if "@" in rest.partition("://")[2].partition("/")[0]:
        raise ModelNotFoundError(f"an id of {wire}+URL:MODEL can't hold a user name or a password")
    found = _AT_URL.fullmatch(rest)
    example = f"it is {wire}+URL:MODEL, such as {wire}+http://localhost:8000/v1:qwen3"
    if found is None:
        raise ModelNotFoundError(f'"{shown(id)}" names no server; {example}')
    try:
        return provider, _base(found["url"]), found["model"] or ""
    except UsageError as error:
        raise ModelNotFoundError(f'"{shown(id)}": {error}') from None


def _check_word(id: str) -> None:
    """Raise ModelNotFoundError for a word without a colon that is nearly an id."""
    if id in NAMES:
        more = "" if id == LOCAL else f"; %kestrel models {id} lists its models"
        raise ModelNotFoundError(f'"{id}" is a provider; name a model of it, {id}:MODEL{more}')
    head, slash, name = id.partition("/")
    if slash and head in NAMES and is_name(name) and name:
        raise ModelNotFoundError(f'no model "{shown(id)}"; did you mean "{head}:{shown(name)}"?')
    family = re.match(r"[a-z]+(?=[-.:_\d]|$)", id.lower())
    provider = _FAMILIES.get(family[0]) if family else None
    if provider is not None:
        raise ModelNotFoundError(f'no model "{shown(id)}"; did you mean "{provider}:{shown(id)}"?')


def _no_provider(head: str, model: str) -> ModelNotFoundError:
    known = f"the providers are {', '.join(NAMES)}"
    near = suggestion(head.lower(), NAMES, "", shape=f'"{{}}{":" if model else ""}{shown(model)}"')
    return ModelNotFoundError(f'no provider "{shown(head)}"; {near + " " if near else ""}{known}')


def _checked_model(id: str, model: str, before: str) -> str:
    if not model.strip():
        raise ModelNotFoundError(f'"{shown(id)}" lacks the name of a model; it is {shown(before)}:MODEL')
    if not is_name(model):
        raise ModelNotFoundError(f'"{shown(id)}": the name of a model has no spaces or control characters')
    return model


def is_name(model: str) -> bool:
    """True for what can be the name of a model: characters that show, and no spaces."""
    return model.isprintable() and " " not in model


def shown(text: str) -> str:
    """``text`` on one line, bounded, for an error."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= SHOWN else line[: SHOWN - 1] + "…"


# ---- addresses in the environment ----------------------------------------------------------------------------------


def _base(url: str) -> str:
    """``url`` as a base URL. Raises UsageError, also for the address of a request."""
    base = checked_base_url(url)
    if _REQUESTS.search(base):
        raise UsageError(f"a base URL ends before {_REQUESTS.search(base)[0]}")  # type: ignore[index]
    return base


def _address_in(variable: str, value: str) -> str:
    try:
        value = value.strip().strip("\"'").strip()
        return _base(ollama_address(value) if variable == "OLLAMA_HOST" else value)
    except (UsageError, ValueError) as error:
        raise UsageError(f"the environment variable {variable} is no address: {error}") from None
