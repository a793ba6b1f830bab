"""Where the key of a model comes from: the environment first, then the keyring of the system.

A key goes only where a person sent it. A provider's key is for the address that the environment names, or else for the
provider's own. A server that an id or code names by its URL gets a key only under that server's own name: the id may
stand in a cell that a stranger wrote. And a key goes over https, or over plain http to servers that are near.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from typing import Final

from ..protocol.errors import ModelRequestError
from ..runtime.execution import in_daemon_thread
from ..runtime.secrets import OF_A_HOST, keep_secret
from .address import can_carry_key, place_of
from .known import Address

SERVICE: Final = "kestrel-nb"  # in the keyring; the user is the provider's name, or the host
UNLOCK_S: Final = 60.0  # for a person whom the keyring asks to unlock it
GLANCE_S: Final = 2.0  # where it can do without a key
_QUOTES = "\"'`\u2018\u2019\u201c\u201d"
_LABEL = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")


class KeySource:
    """The key for one address, asked with each request: it may be set while the kernel runs. It holds none itself.

    ``optional``: nothing is missing where there is none. ``first`` is asked before all other places but the keyring,
    which is left alone then.
    """

    def __init__(
        self, address: Address, *, optional: bool = False, first: Callable[[], str | None] | None = None
    ) -> None:
        self._address = address
        self._base_url = address.base_url
        self._needs_one = address.url is None and address.provider.needs_key and not optional
        self._first = first
        self._in_keyring: str | None = None
        self._looked = first is not None

    def __repr__(self) -> str:
        return f"KeySource({self._address.host or self._address.provider.name!r})"

    def __call__(self) -> str | None:
        """The key, or None where none is needed.

        Raises ModelRequestError that says how to set one, what is wrong with the one that is set, or why it is not
        sent.
        """
        if self._first is not None and (given := self._first()):
            return given
        key, place = environment_key(self._address), next(filter(_is_set, key_variables(self._address)), "")
        if key is None:
            key, place = self._from_keyring(), f"the keyring's {keyring_user(self._address)}"
        if key is not None:
            self._check_goes(place)
            return _checked(key, place)
        if self._needs_one:
            raise ModelRequestError(
                f"no key for {self._address.provider.name}: {how_to_set(self._address)}", code="no_api_key"
            )
        return None

    def _check_goes(self, place: str) -> None:
        """Raise ModelRequestError when the key in ``place`` must not go to the model's server."""
        provider, server = self._address.provider, place_of(self._base_url)
        if self._address.base_url != self._base_url:
            raise ModelRequestError(
                f"the key in {place} is not sent to {server}: the environment names {place_of(self._address.base_url)} "
                f"for {provider.name} since this model was made; make it again",
                code="key_not_sent",
            )
        if not can_carry_key(self._base_url):
            raise ModelRequestError(
                f"the key in {place} is not sent to {server} over plain http, where others could read it; use https, "
                f"or give both in Python: {provider.model_class}(MODEL, base_url=..., api_key=...)",
                code="key_not_sent",
            )

    async def prepare(self) -> None:
        """Look into the keyring beside the event loop, before a request: it may ask a person to unlock it.

        A key that is not needed is looked for once.
        """
        if environment_key(self._address) or self._in_keyring or self._first is not None:
            return
        if self._looked and not self._needs_one:
            return
        limit = UNLOCK_S if self._needs_one else GLANCE_S
        try:
            async with asyncio.timeout(limit):
                await in_daemon_thread(self._look)
        except TimeoutError:
            self._looked = True  # nobody waits for it a second time, least of all in the event loop
            if self._needs_one:
                raise ModelRequestError(
                    f"the keyring of the system did not answer within {limit:.0f} s; unlock it, or "
                    f"{how_to_set(self._address)}",
                    code="no_api_key",
                ) from None

    def _from_keyring(self) -> str | None:
        if not self._looked:
            self._look()
        return self._in_keyring

    def _look(self) -> None:
        self._in_keyring, self._looked = keyring_key(keyring_user(self._address)), True

    def refused(self) -> str | None:
        """What to do when the server refused the key, or that there was none; None for a key from elsewhere."""
        if self._first is not None:
            return None
        if environment_key(self._address) or self._in_keyring:
            places = (
                *key_variables(self._address),
                *((f"the keyring's {keyring_user(self._address)}",) if self._in_keyring else ()),
            )
            return f"check {' and '.join(places)}"
        return how_to_set(self._address)


def key_variables(address: Address) -> tuple[str, ...]:
    """The environment variables that may hold the key for ``address``."""
    if address.host is None:
        return address.provider.key_variables
    variable = host_variable(address.host)
    return (variable,) if variable else ()


def host_variable(host: str) -> str | None:
    """The variable of one host: KESTREL_API_KEY_EXAMPLE_COM is for example.com; None for a host that has none.

    A dot becomes one underscore and a dash two, so that no two hosts share a variable: else ``api-example.com``
    could ask for the key of ``api.example.com``.
    """
    name = host.lower().removesuffix(".")
    if not _NAME.fullmatch(name):
        return None
    return OF_A_HOST + name.replace("-", "__").replace(".", "_").upper()


def keyring_user(address: Address) -> str:
    """Under whose name the keyring has the key for ``address``: the host's that an id names, or the provider's."""
    return (address.host or address.provider.name).lower().removesuffix(".")


def environment_key(address: Address) -> str | None:
    """The key in the environment; one that is empty or blank counts as none."""
    variable = next(filter(_is_set, key_variables(address)), None)
    return os.environ[variable].strip() if variable else None


def _is_set(variable: str) -> bool:
    return bool(os.environ.get(variable, "").strip())


def _checked(key: str, place: str) -> str:
    """``key``. Raises ModelRequestError for what was copied with something around it; nothing of it is repeated."""
    if key[0] in _QUOTES or key[-1] in _QUOTES:
        what = "quotation marks around the key; set it without them"
    elif re.match(r"(?:export\s+|set\s+|\$env:)?[A-Z][A-Z0-9_]*_(?:KEY|TOKEN)\s*=", key):
        what = "a name and = before the key; set only what stands behind them"
    elif re.match(r"(?:authorization\s*:\s*)?(?:bearer|basic)\s", key, re.IGNORECASE):
        what = "a word before the key, as in a header; set only the key"
    elif not re.fullmatch(r"[\x21-\x7e]+", key) or key[0] == "<":
        what = "spaces or characters that no key has; copy the key again"
    else:
        return key
    raise ModelRequestError(f"{place} holds {what}", code="no_api_key")


def keyring_key(user: str) -> str | None:
    """The key in the system's keyring; None without the extra ``keys``, without a keyring, or without the entry."""
    try:
        import keyring

        value = keyring.get_password(SERVICE, user)
    except (Exception, SystemExit):  # there is none, it is locked, or its program fails: there is no key then
        return None
    if not isinstance(value, str) or not value.strip():
        return None
    keep_secret(value)
    return value.strip()


def keyring_users(users: tuple[str, ...]) -> frozenset[str]:
    """Those of ``users`` whose key is in the keyring. It may ask a person to unlock it: not for an event loop."""
    return frozenset(user for user in users if keyring_key(user))


def how_to_set(address: Address) -> str:
    """What a person does to set the key for ``address``, in one line."""
    variables = key_variables(address)
    if not variables:
        return f'put it into the keyring: keyring set {SERVICE} "{keyring_user(address)}"'
    name = variables[0]
    return (
        f"set {name} before starting Jupyter, or in a cell: "
        f'import getpass, os; os.environ["{name}"] = getpass.getpass()'
    )
