"""http-fetch: one request to the public network, with its answer as it is."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...protocol.tools import Preview, RequestPreview, TextPreview, ToolSchema
from ...runtime.tools import ToolContext, ToolExecutionResult
from ...sandbox.headers import sendable, shown
from ...sandbox.network import METHODS, Network, NetworkError, Response
from ...sandbox.urls import Url
from ...sandbox.web_text import body_text, is_text
from ..shapes import parameters
from .answers import answer, failure
from .config import HttpFetchConfig

WITH_BODY = ("POST", "PUT", "PATCH")
CHANGED = "the request is not the one that was shown and approved; nothing was sent. Ask for it again"


@dataclass(frozen=True, slots=True)
class _Request:
    """What a call asks for, checked and in its final form."""

    method: str
    url: Url
    headers: dict[str, str]
    body: str | None

    @property
    def digest(self) -> str:
        parts = [self.method, str(self.url), self.headers, self.body]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class HttpFetch:
    """``data``: status, statusText, headers (names in lower case) and body; truncated is true when the body was cut.

    A body that is no text comes as base64, and then ``bodyEncoding`` is "base64". Every failure, a bad argument and
    a refusal too, is the error object ``{error: True, message}``. A status like 404 is an answer, not a failure.

    ``timeout`` is in milliseconds, for the look-up of the name and all redirects together, and never beyond
    ``config.timeout_ms``. The method may be in lower case. Headers about the connection (Host, Content-Length ...,
    see ``sandbox.headers.OWN``) are not the caller's to set and are left out; the preview shows what is sent.
    """

    def __init__(self, config: HttpFetchConfig, network: Network) -> None:
        self._config, self._network = config, network
        self.schema = ToolSchema(
            name="http-fetch",
            description=(
                "Send an HTTP request to a public address and get status, headers and body. "
                "Private and internal addresses are refused. Redirects are followed."
            ),
            category="web",
            permission="ask",
            parallel_safe=True,
            deterministic=False,
            parameters=parameters(
                {
                    "url": {"type": "string", "description": "An http or https address."},
                    "method": {"type": "string", "default": "GET", "description": f"One of {', '.join(METHODS)}."},
                    "headers": {"type": "object", "default": {}, "description": "Names and values, as text."},
                    "body": {"type": "string", "description": f"Text to send; only for {', '.join(WITH_BODY)}."},
                    "timeout": {
                        "type": "number",
                        "exclusiveMinimum": 0,
                        "description": f"Time limit in milliseconds, at most and by default {config.timeout_ms}.",
                    },
                },
                required=("url",),
            ),
        )

    def preview(self, args: Mapping[str, Any], context: ToolContext) -> Preview:
        """The request as it is sent: the address in its one clear form, secrets in headers hidden."""
        try:
            request = self._checked(args)
        except NetworkError as error:  # the call answers with the same words; a preview that raised would end it
            return TextPreview(title="http-fetch will send nothing", text=str(error))
        return RequestPreview(
            method=request.method,
            url=str(request.url),
            headers=shown(request.headers),
            body=request.body,
            digest=request.digest,
        )

    async def execute(self, args: Mapping[str, Any], context: ToolContext) -> ToolExecutionResult:
        """Send the request; see the class for what comes back."""
        try:
            request = self._checked(args)
            if context.preview is not None and context.preview.digest != request.digest:
                return failure(CHANGED)
            response = await self._network.fetch(
                request.method,
                str(request.url),
                headers=request.headers,
                body=None if request.body is None else request.body.encode(),
                timeout_s=min(self._config.timeout_ms, args.get("timeout") or self._config.timeout_ms) / 1000,
                max_bytes=self._config.max_response_bytes,
                stop=context.signal.wait,
            )
        except NetworkError as error:
            return failure(str(error))
        return answer(_data(response))

    def _checked(self, args: Mapping[str, Any]) -> _Request:
        """Raises NetworkError for what can't be sent."""
        url = self._network.check(args["url"])
        return _Request(_method(args), url, sendable(args.get("headers") or {}), _body(args))


def _method(args: Mapping[str, Any]) -> str:
    method = str(args.get("method") or "GET").upper()
    if method not in METHODS:
        raise NetworkError(f"method: must be one of {', '.join(METHODS)}", code="network_refused")
    return method


def _body(args: Mapping[str, Any]) -> str | None:
    body: str | None = args.get("body") if _method(args) in WITH_BODY else None
    try:
        (body or "").encode()
    except UnicodeEncodeError:
        raise NetworkError("body: must be valid Unicode, without lone surrogates", code="network_refused") from None
    return body


def _data(response: Response) -> dict[str, Any]:
    readable = is_text(response)
    body = body_text(response) if readable else base64.b64encode(response.body).decode("ascii")
    data = {"status": response.status, "statusText": response.reason, "headers": response.headers, "body": body}
    more = {} if readable else {"bodyEncoding": "base64"}
    return data | more | ({"truncated": True} if response.truncated else {})
