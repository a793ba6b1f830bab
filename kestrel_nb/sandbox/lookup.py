"""From a name to its IP addresses, without holding up the event loop."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from .network_error import NetworkError

Resolver = Callable[[str], Sequence[str]]  # a name -> its IP addresses; runs in a thread, may raise OSError


def system_addresses(host: str) -> Sequence[str]:
    """The addresses of ``host`` as the system knows them, each once."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def looked_up(resolve: Resolver, host: str) -> Sequence[str]:
    """The addresses of ``host``, at least one. Raises NetworkError."""
    try:
        addresses = await _in_thread(resolve, host)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise NetworkError(f"{host} has no address that could be found ({reason}); check the spelling") from None
    if not addresses:
        raise NetworkError(f"{host} has no address; check the spelling")
    return addresses


async def _in_thread(resolve: Resolver, host: str) -> Sequence[str]:
    """``resolve(host)`` in a thread that nothing waits for at the end: the system's look-up can't be broken off."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Sequence[str] | Exception] = loop.create_future()

    def settle(outcome: Sequence[str] | Exception) -> None:
        if not done.done():
            done.set_result(outcome)

    def work() -> None:
        outcome: Sequence[str] | Exception
        try:
            outcome = resolve(host)
        except Exception as error:
            outcome = error
        with suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(settle, outcome)

    threading.Thread(target=work, name="kestrel-lookup", daemon=True).start()
    outcome = await done
    if isinstance(outcome, Exception):
        raise outcome
    return outcome
