"""What replies cost, and how much a model can read: from the price list of the extra ``cost``, offline.

Nothing is fetched: the list is that of the installed version. What it does not know is unknown, never free;
a file on this machine is.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from ..protocol.errors import KestrelError
from ..protocol.sessions import Usage
from ..runtime.execution import in_daemon_thread
from .address import is_loopback
from .known import LOCAL, Address, address_of

READY_S: Final = 10.0  # the list is read in half a second; far longer where it must be compiled first

_guard = threading.Lock()
_done = threading.Event()
_started = False
_snapshot: Any = None
_waiting: list[Callable[[], None]] = []


def price(model_id: str, usage: Usage) -> float | None:
    """What one reply of the model cost, in US dollars; None where that is not known.

    Reads the price list at the first use, which takes half a second: not for an event loop.
    """
    if _has_prices(model_id):
        load_ahead(model_id)
        _done.wait()
    return price_if_loaded(model_id, usage)


def price_if_loaded(model_id: str, usage: Usage) -> float | None:
    """``price`` as far as the list has been read already."""
    if usage.total_tokens <= 0:
        return None
    if model_id.startswith(f"{LOCAL}:"):
        return 0.0  # nobody is paid
    model = None if _snapshot is None else _listed(model_id)
    try:
        return None if model is None else _cost(model, usage)
    except ValueError:  # tokens that can't be
        return None


def context_window(model_id: str) -> int | None:
    """How many tokens the model reads at most, as far as the list has been read already and says so."""
    model = None if _snapshot is None else _listed(model_id)
    window = getattr(model, "context_window", None)
    return window if isinstance(window, int) and window > 0 else None


def load_ahead(model_id: str, then: Callable[[], None] | None = None) -> None:
    """Begin to read the list in a thread, once, when ``model_id`` is of a provider that has prices.

    ``then`` is called once it has been read: now, or in that thread.
    """
    global _started
    if not _has_prices(model_id):
        return
    with _guard:
        if then is not None and not _done.is_set():
            _waiting.append(then)
            then = None
        if not _started:
            _started = True
            threading.Thread(target=_load, name="kestrel-prices", daemon=True).start()
    if then is not None:
        then()


async def ready() -> None:
    """Return when the list that is being read has been read; at once when nobody asked for it."""
    if _started and not _done.is_set():
        await in_daemon_thread(_done.wait, READY_S)


def _load() -> None:
    global _snapshot
    try:
        from genai_prices.data_snapshot import get_snapshot

        _snapshot = get_snapshot()
    except Exception:  # the extra is missing, or broken: prices are unknown, and nothing else is
        _snapshot = None
    with _guard:
        _done.set()
        waiting = _waiting[:]
        _waiting.clear()
    for then in waiting:
        then()


def _address(model_id: str) -> Address | None:
    try:
        address = address_of(model_id)
    except KestrelError:
        return None
    if address is None or (address.host and is_loopback(address.host)):
        return None
    return address if address.url or address.provider.prices else None


def _has_prices(model_id: str) -> bool:
    return _address(model_id) is not None


@lru_cache(maxsize=256)
def _listed(model_id: str) -> Any:
    """The model in the list, once that was read; None when it is not there.

    It is looked for at the id's provider, also where the environment names another way to it, or at the one whose
    address the id names.
    """
    address = _address(model_id)
    if address is None:
        return None
    named = None if address.url else address.provider.prices
    try:
        provider, model = _snapshot.find_provider_model(address.model, None, named, address.url)
    except (LookupError, ValueError):
        return None
    return model if address.url is None or _is_of(provider.api_pattern, address.url) else None


def _is_of(pattern: str, url: str) -> bool:
    """True where ``pattern``, which is a beginning, ends with the host of ``url`` or behind it."""
    found = re.match(pattern, url)
    end = url.find("/", url.find("//") + 2)
    host = url if end < 0 else url[:end]
    if found is None:
        return False
    rest = host[found.end() :].partition(":")[0]
    return not rest or (found[0].endswith(".") and rest.isalpha())


def _cost(model: Any, usage: Usage) -> float | None:
    from datetime import UTC, datetime

    from genai_prices import Usage as Tokens

    cached = usage.cache_read_tokens + usage.cache_write_tokens
    if cached > usage.input_tokens or usage.reasoning_tokens > usage.output_tokens:
        return None  # a server that counts otherwise: what it means can't be told
    prices = model.get_prices(datetime.now(UTC))
    known = {name for name, value in vars(prices).items() if value is not None}
    needed = {"input_mtok": usage.input_tokens, "output_mtok": usage.output_tokens}
    # A price for each request, or none for tokens that were used: what tokens cost would not be what the reply cost.
    if "requests_kcount" in known or any(count and name not in known for name, count in needed.items()):
        return None
    tokens = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "output_reasoning_tokens": usage.reasoning_tokens,
    }
    total: Decimal = prices.calc_price(Tokens(**{name: count for name, count in tokens.items() if count}))[
        "total_price"
    ]
    return float(total)
