"""Where a model's server is, how long it may take, and which proxy leads there."""

from __future__ import annotations

import ipaddress
import math
import re
import urllib.request
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from ..protocol.errors import ModelRequestError, UsageError

OLLAMA_PORT: Final = 11434
# One word, which is no number in disguise, or a name below one that is set aside for networks of one's own: RFC 6762,
# RFC 8375, ICANN's .internal, and .lan, which routers give out.
_NEAR_NAME = re.compile(r"[a-z][a-z0-9-]*|(?:[a-z0-9-]+\.)+(?:local|internal|lan|home\.arpa)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long a request may take, in seconds; ``math.inf`` is no bound.

    ``connect_s`` is for the connection, ``idle_s`` for silence before and within a streamed reply, ``total_s`` for
    everything. The defaults of the vendors' own clients are 5 s to connect and 10 minutes in all.
    """

    connect_s: float = 5.0
    idle_s: float = 120.0
    total_s: float = 600.0

    def __post_init__(self) -> None:
        if not all(isinstance(s, (int, float)) and s > 0 for s in (self.connect_s, self.idle_s, self.total_s)):
            raise UsageError("timeouts are seconds above 0; use math.inf for no bound")

    @property
    def connect(self) -> float | None:
        """``connect_s`` as httpx takes it."""
        return None if math.isinf(self.connect_s) else self.connect_s


def checked_base_url(url: str) -> str:
    """``url`` without its last slash. Raises UsageError when it is no base URL; a key in it is not repeated."""
    example = "a base URL looks like https://host/v1"
    if not isinstance(url, str) or re.search(r"[\x00-\x20\x7f]", url.strip()):
        raise UsageError(f"the base URL holds spaces or control characters; {example}")
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
        address = f"[{host}]" if host and ":" in host else host
        plain = f"{parts.scheme}://{address}" + (f":{port}" if port is not None else "")
    except ValueError:
        raise UsageError(f"the base URL has a host or a port that can't be; {example}") from None
    if parts.scheme not in ("http", "https") or not host or port == 0:
        raise UsageError(f"the base URL must begin with http:// or https:// and name a host; {example}")
    if parts.username is not None or parts.password is not None:
        raise UsageError(f"the base URL holds a user name or a password; write {plain} and pass api_key or headers")
    if "#" in url:
        raise UsageError(f"the base URL has a part behind #, which is never sent; {example}")
    return plain + parts.path.rstrip("/") + (f"?{parts.query}" if parts.query else "")


def ollama_address(value: str) -> str:
    """The URL behind OLLAMA_HOST in any of its forms: a host, a port, both, or a URL.

    Without a scheme the port is 11434, with one that of the scheme, as Ollama's own programs take it. The address
    on which a server listens everywhere is no address to connect to: it stands for this machine.
    """
    scheme, separator, rest = value.strip().strip("\"'").partition("://")
    if not separator:
        scheme, rest = "http", scheme
    place, slash, path = rest.partition("/")
    found = re.fullmatch(
        r"(?P<host>\[[^\]]*\]|[^:]*|[0-9a-fA-F:]*:[0-9a-fA-F:]*:[0-9a-fA-F:]*)(?::(?P<port>\d*))?", place
    )
    if found is None:
        raise ValueError("it looks like localhost:11434 or http://localhost:11434")
    host = found["host"] or "localhost"
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    host = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)
    port = found["port"] or ("" if separator else str(OLLAMA_PORT))
    return f"{scheme}://{host}{f':{port}' if port else ''}{slash}{path}"


def host_of(base_url: str) -> str:
    """The host of a base URL, without its port."""
    return urlsplit(base_url).hostname or ""


def place_of(base_url: str) -> str:
    """The host of a base URL, with its port if one is given."""
    return urlsplit(base_url).netloc


def is_loopback(host: str) -> bool:
    """True for this machine by its own names and addresses."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def can_carry_key(base_url: str) -> bool:
    """Whether a key of the environment or the keyring may go there: nobody on the way can read it.

    That is so with https, which also proves whose host it is, on any port. Plain http will do within this machine and
    the network at hand: to loopback, private and link-local addresses, and to names that no public server has.
    """
    return urlsplit(base_url).scheme == "https" or _is_near(host_of(base_url))


def _is_near(host: str) -> bool:
    name = host.strip("[]").rstrip(".").lower()
    try:
        ip = ipaddress.ip_address(name)
    except ValueError:
        return is_loopback(name) or _NEAR_NAME.fullmatch(name) is not None
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.teredo is not None:  # a tunnel to any host
            return False
        ip = ip.ipv4_mapped or ip
    return not ip.is_global and not ip.is_multicast


def proxy_for(scheme: str, host: str, port: int | None) -> str | None:
    """The proxy that the environment names for this host (HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY), if any.

    Raises ModelRequestError for one that can't be used.
    """
    proxies = urllib.request.getproxies_environment()
    proxy = proxies.get(scheme) or proxies.get("all")
    place = f"{host}:{port}" if port else host
    if not proxy or is_loopback(host):
        return None
    if urllib.request.proxy_bypass_environment(place, proxies):  # type: ignore[attr-defined]
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    if urlsplit(proxy).scheme not in ("http", "https"):
        raise ModelRequestError(
            f"the environment names a {urlsplit(proxy).scheme} proxy for {scheme}; only http and https proxies can be "
            "used: change the variable, or list the host in NO_PROXY"
        )
    return proxy
