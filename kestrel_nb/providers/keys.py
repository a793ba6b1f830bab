"""Where the key of a model comes from: the environment first, then the keyring of the system.

A key goes only where a person sent it. A provider's key is for the provider's own address, or for the one that the
environment names. A server that an id names by its URL gets a key only under that server's own name: the id may stand
in a cell that a stranger wrote.
"""

from __future__ import annotations

import os
import re
from typing import Final

from ..protocol.errors import ModelRequestError
from ..runtime.execution import in_daemon_thread
from ..runtime.secrets import OF_A_HOST, keep_secret
from .known import Address

SERVICE: Final = "kestrel-nb"  # in the keyring; the user is the provider's name, or the host
_LABEL = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")


class KeySource:
    """The key for one address, asked with each request: it may be set while the kernel runs. It holds none itself."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._in_keyring: str | None = None
        self._looked = False

    def __repr__(self) -> str:
        return f"KeySource({self._address.host or self._address.provider.name!r})"

    def __call__(self) -> str | None:
        """The key, or None where none is needed. Raises ModelRequestError that says how to set one."""
        key = environment_key(self._address) or self._from_keyring()
        if key is None and self._address.url is None and self._address.provider.needs_key:
            raise ModelRequestError(
                f"no key for {self._address.provider.name}: {how_to_set(self._address)}", code="no_api_key"
            )
        return key

    async def prepare(self) -> None:
        """Look into the keyring beside the event loop, before a request: it may ask a person to unlock it.

        A key that is not needed is looked for once.
        """
        if environment_key(self._address) or self._in_keyring or (self._looked and not self._needs_one):
            return
        await in_daemon_thread(self._look)

    def _from_keyring(self) -> str | None:
        if not self._looked:
            self._look()
        return self._in_keyring

    def _look(self) -> None:
        self._in_keyring, self._looked = keyring_key(keyring_user(self._address)), True

    def refused(self) -> str:
        """What to do when the server refused the key, or that there was none."""
        if environment_key(self._address) or self._in_keyring:
            places = (
                *key_variables(self._address),
                *((f"the keyring's {keyring_user(self._address)}",) if self._in_keyring else ()),
            )
            return f"check {' and '.join(places)}"
        return how_to_set(self._address)

    @property
    def _needs_one(self) -> bool:
        return self._address.url is None and self._address.provider.needs_key


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
    for variable in key_variables(address):
        if value := os.environ.get(variable, "").strip():
            return value
    return None


def keyring_key(user: str) -> str | None:
    """The key in the system's keyring; None without the extra ``keys``, without a keyring, or without the entry."""
    try:
        import keyring

        value = keyring.get_password(SERVICE, user)
    except Exception:  # no keyring on this machine, a locked one, or one whose program fails: there is no key then
        return None
    if not value or not value.strip():
        return None
    keep_secret(value)
    return str(value).strip()


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
