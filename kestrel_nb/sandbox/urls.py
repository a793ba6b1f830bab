"""Reading an address as strictly as possible: what is left has one meaning, and that one is shown and dialled.

It follows the URL standard (url.spec.whatwg.org) where that standard has one reading, and refuses where programs are
known to differ: user names, backslashes, control characters, missing slashes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final
from urllib.parse import quote, unquote_to_bytes, urljoin

from .network_error import NetworkError

MAX_URL_CHARS: Final = 8_000  # RFC 9110, 4.1: what everybody should be able to read
MAX_HOST_CHARS: Final = 253  # RFC 1035, as text
DEFAULT_PORTS: Final = {"http": 80, "https": 443}
# "Bad ports" of fetch.spec.whatwg.org: other protocols live there, and some take an HTTP request for their own.
BAD_PORTS: Final = frozenset(
    (
        *(1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109),
        *(110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530),
        *(531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045),
        *(4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080),
    )
)
_START = re.compile(r"(https?)://([^/?#]*)([^?#]*)(\?[^#]*)?", re.IGNORECASE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_HOST = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_KEPT = "/%:@!$&'()*+,;=~"  # in a path or a query as they are; everything else is percent-encoded


@dataclass(frozen=True, slots=True)
class Url:
    """One address of http or https. ``host`` is a name in ASCII or an IP address, ``target`` the path and query."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def is_ip(self) -> bool:
        """True when there is no name to look up."""
        return ":" in self.host or self.host.rpartition(".")[2].isdigit()

    @property
    def authority(self) -> str:
        """Host and port as the Host header has them: without the port that goes without saying."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> tuple[str, str, int]:
        """What must be equal for a secret to go there as well."""
        return self.scheme, self.host, self.port

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


def parse_url(text: str) -> Url:
    """``text`` as the address that is dialled: host in ASCII and lower case, IP addresses in their usual form.

    Raises NetworkError with the code ``invalid_url``.
    """
    text = text.strip(" \t\r\n")
    _check_text(text)
    found = _START.match(text)
    if not found:
        raise _invalid(text, "it must begin with http:// or https://")
    scheme, authority = found[1].lower(), found[2]
    path, query = found[3] or "/", found[4] or ""
    if "\\" in authority + path:
        raise _invalid(text, 'it holds a backslash; write "/"')
    if "@" in authority:
        raise _invalid(text, 'it holds a user name; leave out what stands before the "@"')
    host, port = _split_port(text, authority)
    url = Url(scheme, _host(text, host), _port(text, port, scheme), quote(path, _KEPT) + _query(query))
    _check_length(str(url))
    return url


def follow(url: Url, location: str) -> Url:
    """Where a redirect from ``url`` to ``location`` leads. Raises NetworkError with the code ``invalid_url``."""
    _check_text(location)
    if _SCHEME.match(location):
        return parse_url(location)
    try:
        return parse_url(urljoin(str(url), location))
    except ValueError:
        raise _invalid(location, "it can't be read") from None


def _check_text(text: str) -> None:
    if not text:
        raise NetworkError("url: must not be empty; give an address like https://example.com/page", code="invalid_url")
    _check_length(text)
    if _CONTROL.search(text):
        raise _invalid(text, "it holds a control character")
    if _SURROGATE.search(text):
        raise _invalid(text, "it holds half of a character")


def _check_length(text: str) -> None:
    if len(text) > MAX_URL_CHARS:
        message = f"url: must have at most {MAX_URL_CHARS:,} characters, has {len(text):,} as it is sent; shorten it"
        raise NetworkError(message, code="invalid_url")


def _invalid(text: str, reason: str) -> NetworkError:
    shown = text if len(text) <= 200 else f"{text[:200]}..."
    shown = "".join(char if char.isprintable() else "\ufffd" for char in shown)
    return NetworkError(f'url: "{shown}" can\'t be used: {reason}', code="invalid_url")


def _query(query: str) -> str:
    return "?" + quote(query[1:], _KEPT + "?[]|") if query else ""


def _split_port(text: str, authority: str) -> tuple[str, str]:
    if authority.startswith("["):
        host, closed, rest = authority.partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise _invalid(text, "its brackets do not close")
        return host + closed, rest[1:]
    host, _, port = authority.partition(":")
    return host, port


def _port(text: str, port: str, scheme: str) -> int:
    if not port:
        return DEFAULT_PORTS[scheme]
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65_536):
        raise _invalid(text, "its port must be a number from 1 to 65535")
    if int(port) in BAD_PORTS:
        raise NetworkError(
            f"port {int(port)} is refused: another protocol than HTTP lives there", code="network_refused"
        )
    return int(port)


def _host(text: str, host: str) -> str:
    if host.startswith("["):
        return _ipv6(text, host[1:-1])
    name = _ascii(text, host).lower().removesuffix(".")
    if len(name) > MAX_HOST_CHARS or not _HOST.fullmatch(name):
        raise _invalid(text, "it has no valid host name")
    return _ipv4(text, name) if _NUMBER.fullmatch(name.rpartition(".")[2]) else name


def _ascii(text: str, host: str) -> str:
    """The host without percent-encoding, and other scripts as their ASCII form (UTS 46, IDNA 2008)."""
    try:
        host = unquote_to_bytes(host).decode() if "%" in host else host
        if host.isascii():
            return host
        if len(host) > MAX_HOST_CHARS:
            raise UnicodeError
        import idna

        return idna.encode(host, uts46=True).decode("ascii")
    except (UnicodeError, ValueError, IndexError):
        raise _invalid(text, "it has no valid host name") from None


def _ipv6(text: str, host: str) -> str:
    try:
        if "%" in host:
            raise _invalid(text, "it holds a zone, which means something on one machine only")
        return str(IPv6Address(host))
    except ValueError:
        raise _invalid(text, "it has no valid IPv6 address") from None


def _ipv4(text: str, host: str) -> str:
    """A host that ends in a number, as browsers read it: one to four numbers, decimal, octal (0...) or hex (0x...)."""
    parts = host.split(".")
    try:
        numbers = [_number(part) for part in parts]
        *head, last = numbers
        if len(parts) > 4 or any(number > 255 for number in head) or last >= 256 ** (5 - len(parts)):
            raise ValueError
    except ValueError:
        raise _invalid(text, "it has no valid IPv4 address") from None
    return str(IPv4Address(sum(number << 8 * (3 - place) for place, number in enumerate(head)) + last))


def _number(part: str) -> int:
    if part.startswith("0x"):
        return int(part[2:] or "0", 16)
    if not part.isdigit():
        raise ValueError
    return int(part, 8 if len(part) > 1 and part.startswith("0") else 10)
