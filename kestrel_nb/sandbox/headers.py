"""The headers of a request: which a caller may set, which follow a redirect, and how they are shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from .network_error import NetworkError

MAX_HEADER_CHARS: Final = 32_000  # of all together; servers take 8,000 to 16,000
MAX_NAME_CHARS: Final = 100
# About the connection and not the message (RFC 9110, 7.6.1), or set here from what is really sent.
OWN: Final = frozenset(
    (
        *("accept-encoding", "connection", "content-length", "expect", "host", "http2-settings", "keep-alive", "te"),
        *("trailer", "transfer-encoding", "upgrade", "via"),
    )
)
OWN_PREFIXES: Final = ("proxy-", "sec-websocket-")
# What may go to another origin after a redirect: nothing that could hold a secret, so no name that is not known here.
HARMLESS: Final = frozenset(("accept", "accept-language", "content-language", "content-type", "range", "user-agent"))
OF_BODY: Final = ("content-encoding", "content-language", "content-location", "content-type")

_KEY_HEADERS = frozenset(
    (
        *("authorization", "proxy-authorization", "cookie", "set-cookie", "api-key", "x-api-key", "x-auth-token"),
        *("x-goog-api-key", "x-csrf-token", "x-amz-security-token"),
    )
)
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2: token
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")  # RFC 9110, 5.5
_SECRET = re.compile(
    r"auth|cookie|token|key|secret|passw|passphrase|\bpass\b|pwd|credential|session|signature|jwt|api-?id|[cx]srf|\botp\b",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"(Basic|Bearer|Digest|Token|ApiKey)\s", re.IGNORECASE)


def sendable(given: Mapping[str, Any]) -> dict[str, str]:
    """``given`` with names in lower case, without the headers that are none of a caller's business (``OWN``).

    Raises NetworkError (``network_refused``) for a name or a value that HTTP does not allow, or too much of them.
    """
    headers: dict[str, str] = {}
    for name, value in given.items():
        key, text = _name(name), _value(name, value)
        if key in headers:
            raise _refused(f'headers: "{key}" is given twice; put all of it into one value')
        headers[key] = text
    if sum(len(name) + len(value) for name, value in headers.items()) > MAX_HEADER_CHARS:
        raise _refused(f"headers: must have at most {MAX_HEADER_CHARS:,} characters together")
    return {name: value for name, value in headers.items() if name not in OWN and not name.startswith(OWN_PREFIXES)}


def across_origins(headers: Mapping[str, str]) -> dict[str, str]:
    """What of ``headers`` may go to another origin than the one they were written for."""
    return {name: value for name, value in headers.items() if name in HARMLESS}


def without_body(headers: Mapping[str, str]) -> dict[str, str]:
    """``headers`` of a request that has lost its body."""
    return {name: value for name, value in headers.items() if name not in OF_BODY}


def shown(headers: Mapping[str, str]) -> dict[str, str]:
    """``headers`` for a person to read: values that look like secrets are hidden, but for "Bearer" and the like."""
    secret = {name for name, value in headers.items() if _SECRET.search(name) or _SCHEME.match(value)}
    return {name: _hidden(value) if name in secret else value for name, value in headers.items()}


def is_secret_header(name: str) -> bool:
    """True for the headers that carry keys: a field of a tool's data that is named so is one."""
    return name.lower() in _KEY_HEADERS


def _hidden(value: str) -> str:
    scheme = _SCHEME.match(value)
    return f"{scheme[1]} (hidden)" if scheme else "(hidden)"


def _name(name: str) -> str:
    if len(name) > MAX_NAME_CHARS or not _NAME.fullmatch(name):
        raise _refused(f"headers: {name[:20]!a} is no header name; use letters, digits and hyphens")
    return name.lower()


def _value(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _refused(f'headers: the value of "{name}" must be text')
    text = str(value).strip(" \t")
    if not _VALUE.fullmatch(text):
        raise _refused(
            f'headers: the value of "{name}" holds a line end, another control character, or one beyond Latin-1; '
            "HTTP can't carry it"
        )
    return text


def _refused(message: str) -> NetworkError:
    return NetworkError(message, code="network_refused")
