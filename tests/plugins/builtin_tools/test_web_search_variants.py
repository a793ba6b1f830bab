"""More providers of web-search: some that give their results step by step, and addresses that are none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from calling import call, is_failure

from kestrel_nb.plugins.builtin_tools.search_provider import SearchResult
from kestrel_nb.plugins.builtin_tools.web_search import WebSearch


class Waiting:
    """Its one result comes when the event loop had a turn."""

    def __init__(self) -> None:
        self.turn = threading.Event()

    def search(self, query: str, max_results: int) -> Iterator[SearchResult]:
        assert self.turn.wait(20), "the event loop stood still"
        yield SearchResult(title="t", url="https://example.com/", snippet="")


class WaitingLater(Waiting):
    async def search(self, query: str, max_results: int) -> Iterator[SearchResult]:  # type: ignore[override]
        return super().search(query, max_results)


@pytest.mark.parametrize("provider", [Waiting(), WaitingLater()], ids=["plain", "async"])
async def test_results_that_come_step_by_step_do_not_stop_the_loop(provider: Any) -> None:
    asyncio.get_running_loop().call_later(0.2, provider.turn.set)
    assert (await call(WebSearch(provider), query="q"))["resultCount"] == 1


class Giving:
    def __init__(self, *urls: str) -> None:
        self.urls = urls

    async def search(self, query: str, max_results: int) -> list[Any]:
        return [{"title": url, "url": url, "snippet": ""} for url in self.urls]


@pytest.mark.parametrize(
    "url",
    [
        "https://google.com@evil.test/",
        "https://user:word@evil.test/",
        "https://evil.test:99999/",
        "https://evil.test:0/",
        "https://evil.test:x/",
        "JAVASCRIPT://evil.test/%0aalert(1)",
        "data:text/html,x",
        "https:evil.test",
        "https://evil\u202e.test/",
    ],
)
async def test_an_address_that_could_not_be_fetched_is_no_result(url: str) -> None:
    assert is_failure(await call(WebSearch(Giving(url)), query="q"))
    data = await call(WebSearch(Giving(url, "https://example.com:8080/?q=a@b")), query="q")
    assert [result["url"] for result in data["results"]] == ["https://example.com:8080/?q=a@b"]


async def test_ten_thousand_results_are_twenty() -> None:
    urls = (f"https://example.com/{n}" for n in range(10_000))
    data = await call(WebSearch(Giving(*urls)), query="q", maxResults=10**9)
    assert data["resultCount"] == len(data["results"]) == 20
