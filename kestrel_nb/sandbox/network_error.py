"""What goes wrong with a request, in one error type."""

from __future__ import annotations

from typing import ClassVar

from ..protocol.errors import ToolCallError


class NetworkError(ToolCallError):
    """A request was not made, or got no answer.

    ``code`` is ``invalid_url`` (the address can't be used), ``network_refused`` (it, or something else in the request,
    is not allowed), ``network_timeout`` or ``network_failed`` (nobody answered, or not in HTTP).
    """

    default_code: ClassVar[str] = "network_failed"
