"""One request and its answer over HTTP/1.1, on a connection of its own to an IP address that was judged before.

The only file that imports httpcore; ``network.py`` loads it with the first request.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any, cast

import httpcore

from .network_error import NetworkError
from .urls import Url

Place = tuple[str, int]  # an IP address and a port
CONNECT_S = 3.0  # for one of several addresses; the last one gets what is left of the whole time
MAX_PLACES = 8


class JudgedBackend(httpcore.AsyncNetworkBackend):
    """Connects to the given places and nowhere else, whatever the name. ``aclose`` closes also what failed midway."""

    def __init__(self, places: Sequence[Place]) -> None:
        self._places = places[:MAX_PLACES]
        self._inner = httpcore.AnyIOBackend()
        self._opened = AsyncExitStack()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """A stream to the first place that answers."""
        *first, last = self._places
        for place in first:
            try:
                return await self._open(place, CONNECT_S)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self._open(last, None)

    async def _open(self, place: Place, timeout: float | None) -> httpcore.AsyncNetworkStream:
        stream = await self._inner.connect_tcp(*place, timeout=timeout)
        self._opened.push_async_callback(stream.aclose)
        return stream

    async def aclose(self) -> None:
        """Close every stream, also one whose TLS handshake was broken off."""
        await self._opened.aclose()


@asynccontextmanager
async def exchange(
    url: Url,
    places: Sequence[Place],
    method: str,
    headers: Mapping[str, str],
    body: bytes | None,
    tls: ssl.SSLContext | None,
) -> AsyncIterator[httpcore.Response]:
    """The answer to one request, its body not read yet. TLS, with ``tls``, checks the name in ``url``.

    Raises NetworkError.
    """
    backend = JudgedBackend(places)
    origin = httpcore.Origin(url.scheme.encode(), url.host.encode(), url.port)
    connection = httpcore.AsyncHTTPConnection(origin, ssl_context=tls, network_backend=backend)
    sent = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    target = httpcore.URL(scheme=origin.scheme, host=origin.host, port=url.port, target=url.target.encode())
    try:
        request = httpcore.Request(method, target, headers=sent, content=body or b"")
        yield await connection.handle_async_request(request)
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, ssl.SSLError, OSError) as error:
        raise NetworkError(_failure(url, error)) from None
    finally:
        await connection.aclose()
        await backend.aclose()


async def pieces(answer: httpcore.Response) -> AsyncGenerator[bytes, None]:
    """The body as it comes in, at most some 64 kB at once."""
    async with aclosing(cast("Any", answer.stream).__aiter__()) as stream:
        async for piece in stream:
            yield piece


def tls_context() -> ssl.SSLContext:
    """Certificates are checked against the authorities of the system and of certifi, or those of SSL_CERT_FILE/DIR."""
    context = ssl.create_default_context()
    if not (os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")):
        import certifi

        context.load_verify_locations(certifi.where())
    return context


def _failure(url: Url, error: Exception) -> str:
    """What a person or a model can do about it, and the cause in the words of the library."""
    cause: BaseException = error
    while cause.__cause__ or cause.__context__:
        cause = cause.__cause__ or cause.__context__ or cause
    text = _words(cause)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"the certificate of {url.authority} is not trusted ({cause.verify_message}); nothing was sent"
    if isinstance(error, httpcore.ProtocolError):
        return f"{url.authority} did not answer in proper HTTP, or broke off ({text})"
    if isinstance(error, httpcore.ConnectError | httpcore.ConnectTimeout):
        return f"{url.authority} could not be reached ({text}); check the address, or try again later"
    return f"the connection to {url.authority} broke off ({text}); try again"


def _words(cause: BaseException) -> str:
    """What happened, without bytes and addresses of the connection."""
    if isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError) and (cause.errno or 0) > 0:
        return os.strerror(cause.errno or 0)
    text, _, _ = " ".join(str(cause).split()).partition(": bytearray(")
    return text[:300] or type(cause).__name__
