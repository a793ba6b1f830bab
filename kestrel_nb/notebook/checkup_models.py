"""What ``%kestrel doctor`` says of models: which keys and addresses are set, which extras are there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec

from ..protocol.errors import KestrelError
from ..providers.address import can_carry_key, place_of
from ..providers.known import PROVIDERS, Provider
from ..runtime.secrets import OF_A_HOST
from .checkup_line import Line
from .state import NotebookState

# The extras: the module that each brings, and how it is without it.
EXTRAS = {
    "cost": ("genai_prices", "what replies cost is unknown"),
    "keys": ("keyring", "keys come from the environment alone"),
    "local": ("xllamacpp", "no model runs in this process"),
    "web": ("html_to_markdown", "web_fetch does not read web pages"),
}


def keys(state: NotebookState) -> Iterator[Line]:
    """Whether keys are set, and what their servers are. Of a value nothing is said, not even its length."""
    told: set[str] = set()
    for provider in PROVIDERS.values():
        variable = provider.key_variables[0]
        if provider.needs_key and variable not in told:
            told.add(variable)
            yield _key(provider, state.app.catalog.stored)
        for name in provider.url_variables:
            if os.environ.get(name, "").strip() and name not in told:
                told.add(name)
                yield _server(provider, name)
    hosts = sorted(name for name in os.environ if name.startswith(OF_A_HOST) and os.environ[name].strip())
    if hosts:
        yield Line("keys of other servers", ", ".join(hosts))


def _key(provider: Provider, stored: frozenset[str]) -> Line:
    variable, *others = provider.key_variables
    value = os.environ.get(variable)
    said = "not set" if value is None else "set" if value.strip() else "set, but empty"
    if said == "set":
        return Line(variable, said)
    instead = [name for name in others if os.environ.get(name, "").strip()]
    if instead:
        return Line(variable, f"{said}; {instead[0]} is set")
    if provider.name in stored:
        return Line(variable, f"{said}; the keyring has the key")
    return Line(variable, said, "note", f"set {variable} before the kernel starts, to use its models")


def _server(provider: Provider, variable: str) -> Line:
    try:
        place = place_of(provider.address())
    except KestrelError as error:
        return Line(variable, " ".join(str(error).split()), "problem", f"correct or unset {variable}")
    if not can_carry_key(provider.address()):
        said = f"set: {place} gets no key over plain http, where others could read it"
        return Line(variable, said, "note", f"use https:// in {variable}")
    return Line(variable, f"set: models of {provider.name} are asked for at {place}")


def extras(state: NotebookState) -> Iterator[Line]:
    for extra, (module, without) in EXTRAS.items():
        if find_spec(module) is not None:
            yield Line(f"extra {extra}", "installed")
        else:
            yield Line(f"extra {extra}", f"not installed: {without}", "note", f"pip install 'kestrel-nb[{extra}]'")
