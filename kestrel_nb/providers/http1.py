"""One request and its answer as HTTP/1.1 bytes, by h11; the sockets are in ``connections.py``.

A stream of tokens is thousands of small chunks: as many as a read brought come out together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import h11

MAX_HEAD_BYTES: Final = 64 * 1024  # of what can't be read in part: a head, the size of a chunk


class HttpError(OSError):
    """What came is no HTTP, or stopped within an answer."""


class Dropped(HttpError):
    """The server closed the connection before it had answered."""


class Exchange:
    """``request`` is what is sent. ``feed`` what comes until ``status`` is there, then take the body until ``ended``.

    ``headers`` have names in lower case. ``reusable`` says, at the end, that the connection can carry another request.
    Raises HttpError for a request that can't be written.
    """

    def __init__(self, method: str, target: bytes, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.ended = self._heard = self._closed = False
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        try:
            head = self._h11.send(h11.Request(method=method, target=target, headers=list(headers)))
            self.request = b"".join((head or b"", body))
            # The state goes on without the body in it: a transcript of megabytes need not be copied once more.
            self._h11.send_with_data_passthrough(h11.Data(data=body))
            self._h11.send(h11.EndOfMessage())
        except h11.LocalProtocolError as error:
            raise HttpError(f"the request can't be sent ({error})") from None

    @property
    def reusable(self) -> bool:
        """True when the answer has ended and nothing more came: what that would mean nobody knows."""
        open_still = self._h11.their_state is h11.DONE and not self._closed
        return self.ended and open_still and not self._h11.trailing_data[0]

    def feed(self, data: bytes) -> bytes:
        """Take what came; returns the bytes of the body in it. Raises HttpError."""
        if not data:  # h11 would take it for the end
            return b""
        self._heard = True
        try:
            self._h11.receive_data(data)
            return b"" if self.ended else self._read()
        except h11.RemoteProtocolError as error:
            raise HttpError(f"the answer is no HTTP ({error})") from None

    def close(self) -> None:
        """The server closed the connection. Raises HttpError where that is not the end of the answer."""
        if not self._heard:
            raise Dropped("the server closed the connection without an answer")
        if not self.status:
            raise HttpError("the answer is no HTTP")
        self._closed = True
        try:
            self._h11.receive_data(b"")
            self._read()
        except h11.RemoteProtocolError:
            raise HttpError("the server closed the connection before the end of its answer") from None
        self.ended = True

    def _read(self) -> bytes:
        found = []
        while True:
            event: Any = self._h11.next_event()
            kind = type(event)
            if kind is h11.Data:
                found.append(event.data)
            elif kind is h11.Response:
                self._head(event)
            elif kind is not h11.InformationalResponse:
                self.ended = self.ended or kind is h11.EndOfMessage
                return b"".join(found)

    def _head(self, response: h11.Response) -> None:
        self.status = response.status_code
        for raw_name, raw_value in response.headers:
            name, value = raw_name.decode("ascii"), raw_value.decode("latin-1")
            self.headers[name] = f"{self.headers[name]}, {value}" if name in self.headers else value
