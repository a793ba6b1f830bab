"""Search services for web-search: an instance of SearXNG, Brave Search, Tavily. Nothing is sent before a search."""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from ...protocol.errors import ToolCallError, UsageError
from .search_provider import SearchResult

if TYPE_CHECKING:
    from ...sandbox.network import Network

REQUEST_S = 15.0
MAX_BYTES = 2_000_000
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")


class SearXNGSearch:
    """A SearXNG instance, such as ``SearXNGSearch("http://localhost:8888")``. Its settings must allow the format json.

    It may be in a private network: its address comes from the user, not from a model. Raises UsageError for an address
    that can't be used.
    """

    def __init__(self, base_url: str, *, network: Network | None = None) -> None:
        from ...sandbox.urls import parse_url

        try:
            self._url = str(parse_url(base_url)).rstrip("/")
        except ToolCallError as error:
            raise UsageError(f"SearXNGSearch: {error}") from None
        self._network = network or _network(allow_private=True)

    def __repr__(self) -> str:
        return f"SearXNGSearch({self._url!r})"

    async def search(self, query: str, max_results: int) -> Sequence[SearchResult]:
        """The first ``max_results`` results. Raises ToolCallError."""
        address = f"{self._url}/search?{urlencode({'q': query, 'format': 'json'})}"
        hints = {403: 'its settings must list "json" under search: formats', 404: "there is no SearXNG at that address"}
        data = await _json(self._network, "SearXNG", "GET", address, {}, hints=hints)
        return _results(_list(data, "results"), "content")[:max_results]


class BraveSearch:
    """Brave Search. ``api_key`` is by default what BRAVE_API_KEY holds. Raises UsageError when there is none."""

    URL = "https://api.search.brave.com/res/v1/web/search"
    MOST = 20  # what the service allows

    def __init__(self, api_key: str | None = None, *, network: Network | None = None) -> None:
        self._key = _key("BraveSearch", api_key, "BRAVE_API_KEY")
        self._network = network or _network()

    def __repr__(self) -> str:
        return "BraveSearch()"

    async def search(self, query: str, max_results: int) -> Sequence[SearchResult]:
        """The first ``max_results`` results, 20 at most. Raises ToolCallError."""
        # The service refuses queries of more than 400 characters or 50 words.
        asked = {
            "q": " ".join(query.split()[:50])[:400],
            "count": min(max_results, self.MOST),
            "text_decorations": "false",
        }
        headers = {"x-subscription-token": self._key}
        address = f"{self.URL}?{urlencode(asked)}"
        data = await _json(self._network, "Brave Search", "GET", address, headers, hints=_key_hints("BRAVE_API_KEY"))
        return _results(_list(data.get("web") or {}, "results"), "description")[:max_results]


class TavilySearch:
    """Tavily. ``api_key`` is by default what TAVILY_API_KEY holds. Raises UsageError when there is none."""

    URL = "https://api.tavily.com/search"
    MOST = 20  # what the service allows

    def __init__(self, api_key: str | None = None, *, network: Network | None = None) -> None:
        self._key = _key("TavilySearch", api_key, "TAVILY_API_KEY")
        self._network = network or _network()

    def __repr__(self) -> str:
        return "TavilySearch()"

    async def search(self, query: str, max_results: int) -> Sequence[SearchResult]:
        """The first ``max_results`` results, 20 at most. Raises ToolCallError."""
        body = json.dumps({"query": query, "max_results": min(max_results, self.MOST)}).encode()
        headers = {"authorization": f"Bearer {self._key}", "content-type": "application/json"}
        hints = _key_hints("TAVILY_API_KEY")
        data = await _json(self._network, "Tavily", "POST", self.URL, headers, body=body, hints=hints)
        return _results(_list(data, "results"), "content")[:max_results]


def _network(*, allow_private: bool = False) -> Network:
    from ...sandbox.network import Network

    return Network(allow_private=allow_private)


def _key(service: str, given: str | None, variable: str) -> str:
    key = (given if given is not None else os.environ.get(variable, "")).strip()
    if not key:
        raise UsageError(f"{service} needs a key: set {variable} in the environment, or pass api_key=...")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(f"{service}: the key holds characters that no key has; copy it again")
    return key


def _key_hints(variable: str) -> dict[int, str]:
    hints = dict.fromkeys((401, 403, 422), f"it refuses the key; check {variable}")
    hints |= dict.fromkeys((402, 432, 433), "the requests of the plan are used up")
    return hints | {429: "too many requests; wait before the next one"}


async def _json(
    network: Network,
    service: str,
    method: str,
    url: str,
    headers: Mapping[str, str],
    *,
    hints: Mapping[int, str],
    body: bytes | None = None,
) -> dict[str, Any]:
    """The JSON object that the service answers. No message here holds what was sent, or what came back."""
    response = await network.fetch(
        method,
        url,
        headers={"accept": "application/json", **headers},
        body=body,
        timeout_s=REQUEST_S,
        max_bytes=MAX_BYTES,
    )
    if response.status != 200:
        hint = hints.get(response.status) or ("try again later" if response.status >= 500 else "it refuses the request")
        raise ToolCallError(f"{service} answered {response.status}: {hint}")
    try:
        data = json.loads(response.body)
    except (ValueError, RecursionError):
        raise ToolCallError(f"{service} did not answer with JSON") from None
    if not isinstance(data, dict):
        raise ToolCallError(f"{service} answered with JSON of another shape")
    return data


def _list(data: Any, name: str) -> list[Any]:
    found = data.get(name) if isinstance(data, dict) else None
    return found if isinstance(found, list) else []


def _results(rows: list[Any], snippet: str) -> list[SearchResult]:
    return [
        SearchResult(title=_plain(row.get("title")), url=str(row.get("url") or ""), snippet=_plain(row.get(snippet)))
        for row in rows
        if isinstance(row, dict)
    ]


def _plain(text: Any) -> str:
    """Text of a service without its markup."""
    return html.unescape(_TAG.sub("", text)) if isinstance(text, str) else ""
