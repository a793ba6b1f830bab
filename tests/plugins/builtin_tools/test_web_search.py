"""web-search with providers of every manner, and the three services against answers of their shape."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from calling import call, calls, is_failure
from site_server import Answer, Site
from stage import Stage

from kestrel_nb.plugins.builtin_tools import web_search
from kestrel_nb.plugins.builtin_tools.search_adapters import BraveSearch, SearXNGSearch, TavilySearch
from kestrel_nb.plugins.builtin_tools.search_provider import SearchResult
from kestrel_nb.plugins.builtin_tools.web_search import WebSearch, create_web_search_tool
from kestrel_nb.protocol.errors import UsageError
from kestrel_nb.runtime.tools import missing
from kestrel_nb.runtime.validation import check_schema
from kestrel_nb.testing import Reply, ScriptedModel

KEY = "BSA-0123456789abcdef"


class Provider:
    """Gives what it was made with: a value, an error to raise, or what a function makes."""

    def __init__(self, given: Any) -> None:
        self.given = given
        self.asked: list[tuple[str, int]] = []

    async def search(self, query: str, max_results: int) -> Any:
        self.asked.append((query, max_results))
        if isinstance(self.given, BaseException):
            raise self.given
        return self.given() if callable(self.given) else self.given


def found(count: int) -> list[SearchResult]:
    return [SearchResult(title=f"Page {n}", url=f"https://example.com/{n}", snippet=f"On {n}.") for n in range(count)]


async def test_results_come_in_the_documented_shape() -> None:
    provider = Provider(found(30))
    first, one, most = await calls(
        create_web_search_tool(provider),
        [{"query": "q"}, {"query": "q", "maxResults": 1}, {"query": "q", "maxResults": 999}],
    )
    assert one == {
        "query": "q",
        "results": [{"title": "Page 0", "url": "https://example.com/0", "snippet": "On 0."}],
        "resultCount": 1,
    }
    assert [len(data["results"]) for data in (first, one, most)] == [5, 1, 20]
    assert provider.asked == [("q", 5), ("q", 1), ("q", 20)]
    assert await call(WebSearch(Provider([])), query="q") == {"query": "q", "results": [], "resultCount": 0}


async def test_without_a_provider() -> None:
    tool = WebSearch(None)
    assert await call(tool, query="q") == {"query": "q", "results": [], "message": "No search provider configured"}
    assert "no search provider" in (missing(tool) or "")
    assert missing(WebSearch(Provider([]))) is None
    check_schema(tool.schema.parameters)


@pytest.mark.parametrize(
    "args",
    [{}, {"query": ""}, {"query": "q", "maxResults": 0}, {"query": "q", "maxResults": 1.5}, {"query": "q", "n": 1}],
)
async def test_bad_arguments(args: dict[str, Any]) -> None:
    assert "schema_error" in (await calls(WebSearch(Provider([])), [args]))[0]


def endless() -> Iterator[SearchResult]:
    while True:
        yield from found(1)


class Broken:
    """An object that is of no use."""

    @property
    def title(self) -> str:
        raise RuntimeError("broken")

    def __str__(self) -> str:
        raise RuntimeError("broken")


class BrokenError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("broken")


@pytest.mark.parametrize(
    "given",
    [
        None,
        "text",
        b"bytes",
        7,
        {"results": []},
        [None],
        ["text", 7, {}],
        [{"title": "t", "url": "ftp://example.com/", "snippet": ""}],
        [{"title": None, "url": "https://example.com/", "snippet": ""}],
        [Broken()],
        ValueError("no"),
        ValueError(""),
        BrokenError(),
        TimeoutError(),
        KeyError("web"),
        SystemExit(3),
        RuntimeError("x\n" * 10_000),
        asyncio.CancelledError(),
        lambda: 1 / 0,
    ],
    ids=lambda given: repr(type(given).__name__),
)
async def test_rubbish_and_errors_become_an_error_object(given: Any) -> None:
    assert is_failure(await call(WebSearch(Provider(given)), query="q"))


async def test_results_are_checked_and_cut_to_size() -> None:
    given = [
        {"title": "bad", "url": url, "snippet": "s"}
        for url in (
            "javascript:alert(1)",
            "file:///etc/passwd",
            "https://",
            "http://[x",
            "https://a b",
            "//x.org",
            "",
            None,
            7,
        )
    ]
    good: list[Any] = [
        {"title": " many \n words " + "x" * 5_000, "url": "HTTPS://example.com/?q=ü", "snippet": "s" * 9_000},
        {"title": "", "url": "http://example.com/" + "x" * 1_000, "snippet": None},
        SearchResult(title="t", url="http://[::1]:8/", snippet="a\u2028b"),
    ]
    data = await call(WebSearch(Provider(given + good)), query="q", maxResults=20)
    assert [result["url"] for result in data["results"]] == [getattr(r, "url", None) or r["url"] for r in good]
    first, second, third = data["results"]
    assert first["title"].startswith("many words x")
    assert (len(first["title"]), len(first["snippet"])) == (300, 1_000)
    assert second == {"title": second["url"], "url": second["url"], "snippet": ""}
    assert third["snippet"] == "a b"
    assert data["resultCount"] == 3


@pytest.mark.parametrize("given", [found(3), tuple(found(3)), (r for r in found(3)), endless()], ids=str)
async def test_any_iterable_will_do(given: Any) -> None:
    assert len((await call(WebSearch(Provider(given)), query="q", maxResults=3))["results"]) == 3


async def test_a_plain_function_runs_in_a_thread() -> None:
    class Plain:
        def search(self, query: str, max_results: int) -> Any:
            self.thread = threading.current_thread()
            return found(max_results)

    provider = Plain()
    data = await call(WebSearch(provider), query="q")  # type: ignore[arg-type]
    assert data["resultCount"] == 5
    assert provider.thread is not threading.main_thread()


class Stubborn:
    """Does not listen to its cancellation."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.let_go = asyncio.Event()

    async def search(self, query: str, max_results: int) -> Any:
        self.begun.set()
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                continue
        return []


async def test_a_provider_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_search, "SEARCH_S", 0.05)
    provider = Stubborn()
    data = await call(WebSearch(provider), query="q")
    assert is_failure(data)
    assert "took longer than" in data["message"]
    provider.let_go.set()


async def test_it_is_cancelled_within_a_second() -> None:
    provider = Stubborn()
    stage = Stage(ScriptedModel([Reply(tool_calls=[("web-search", {"query": "q"})]), "done"]), [WebSearch(provider)])
    run = stage.session.start("go")
    await provider.begun.wait()
    began = time.monotonic()
    stage.session.cancel()
    assert (await run).status == "cancelled"
    assert time.monotonic() - began < 1.5
    provider.let_go.set()
    stage.check()


# ---- services ---------------------------------------------------------------------------------------------------


class LocalBrave(BraveSearch):
    URL = "http://api.brave.example/res/v1/web/search"  # without TLS, which the site here does not speak


class LocalTavily(TavilySearch):
    URL = "http://api.tavily.example/search"


SEARXNG = {
    "query": "trees",
    "number_of_results": 0,
    "results": [
        {
            "url": "https://example.com/oak",
            "title": "Oak &amp; beech",
            "content": "The oak ...",
            "publishedDate": None,
            "engine": "duckduckgo",
            "template": "default.html",
            "parsed_url": ["https", "example.com", "/oak", "", "", ""],
            "engines": ["duckduckgo"],
            "positions": [1],
            "score": 1.0,
            "category": "general",
        },
        {"url": "https://example.com/2", "title": "Second", "engine": "x", "score": 0.5},
    ],
    "answers": [],
    "corrections": [],
    "infoboxes": [],
    "suggestions": ["tree"],
    "unresponsive_engines": [["brave", "timeout"]],
}
BRAVE = {
    "query": {"original": "trees", "more_results_available": True},
    "type": "search",
    "mixed": {"type": "mixed", "main": [{"type": "web", "index": 0, "all": False}]},
    "web": {
        "type": "search",
        "results": [
            {
                "title": "Oak &amp; beech",
                "url": "https://example.com/oak",
                "is_source_local": False,
                "description": "The <strong>oak</strong> ...",
                "profile": {"name": "Example", "url": "https://example.com/oak", "img": "https://imgs.example/x"},
                "language": "en",
                "family_friendly": True,
                "type": "search_result",
                "meta_url": {"scheme": "https", "netloc": "example.com", "path": "› oak"},
            },
            {"title": "Second", "url": "https://example.com/2"},
        ],
        "family_friendly": True,
    },
}
TAVILY = {
    "query": "trees",
    "answer": None,
    "follow_up_questions": None,
    "images": [],
    "results": [
        {
            "title": "Oak & beech",
            "url": "https://example.com/oak",
            "content": "The oak ...",
            "score": 0.81,
            "raw_content": None,
        },
        {"title": "Second", "url": "https://example.com/2", "content": None},
    ],
    "response_time": 1.2,
    "request_id": "123e4567",
}
Make = Callable[[Site], Any]
SERVICES: dict[str, tuple[Make, str, Any]] = {
    "searxng": (
        lambda site: SearXNGSearch("http://search.example/base/", network=site.network()),
        "/base/search",
        SEARXNG,
    ),
    "brave": (lambda site: LocalBrave(KEY, network=site.network()), "/res/v1/web/search", BRAVE),
    "tavily": (lambda site: LocalTavily(KEY, network=site.network()), "/search", TAVILY),
}
SENT = {
    "searxng": ("GET /base/search?q=trees+%26+birds&format=json", None, b""),
    "brave": ("GET /res/v1/web/search?q=trees+%26+birds&count=7&text_decorations=false", "x-subscription-token", b""),
    "tavily": ("POST /search", "authorization", {"query": "trees & birds", "max_results": 7}),
}
services = pytest.mark.parametrize("name", SERVICES)


@services
async def test_a_service_is_asked_and_understood(name: str) -> None:
    make, path, shape = SERVICES[name]
    async with Site() as site:
        site.page(path, json.dumps(shape), "application/json")
        provider = make(site)
        data = await call(WebSearch(provider), query="trees & birds", maxResults=7)
    assert data["results"] == [
        {"title": "Oak & beech", "url": "https://example.com/oak", "snippet": "The oak ..."},
        {"title": "Second", "url": "https://example.com/2", "snippet": ""},
    ]
    (asked,) = site.asked
    line, header, body = SENT[name]
    assert asked.line == line
    assert (json.loads(asked.body) if isinstance(body, dict) else asked.body) == body
    assert header is None or asked.headers[header] in (KEY, f"Bearer {KEY}")
    assert asked.headers["accept"] == "application/json"


@services
@pytest.mark.parametrize("status", ["401 X", "403 X", "429 X", "500 X", "418 X", "204 No Content"])
async def test_a_failing_service_is_an_error_object_without_the_key(name: str, status: str) -> None:
    make, path, _ = SERVICES[name]
    async with Site() as site:
        site.answers[path] = Answer(json.dumps({"detail": f"key {KEY} is wrong", "token": KEY}), status)
        provider = make(site)
        data = await call(WebSearch(provider), query="q")
    assert is_failure(data)
    assert status[:3] in data["message"]
    assert KEY[4:] not in json.dumps(data) + repr(provider) + str(provider)


@services
@pytest.mark.parametrize(
    "body",
    ["", "<html>", "[]", "null", "[" * 100_000, b"\xff\xfe"],
)
async def test_an_answer_that_is_no_result_is_an_error_object(name: str, body: str | bytes) -> None:
    make, path, _ = SERVICES[name]
    async with Site() as site:
        site.page(path, body, "application/json")
        assert is_failure(await call(WebSearch(make(site)), query="q"))


@services
@pytest.mark.parametrize(
    "body", ["{}", '{"web": null, "results": null}', '{"web": {"results": [7]}, "results": ["x"]}']
)
async def test_an_answer_without_results_has_none(name: str, body: str) -> None:
    make, path, _ = SERVICES[name]
    async with Site() as site:
        site.page(path, body, "application/json")
        assert (await call(WebSearch(make(site)), query="q"))["results"] == []


@services
async def test_a_redirect_does_not_take_the_key_along(name: str) -> None:
    make, path, shape = SERVICES[name]
    async with Site() as site:
        site.answers[path] = Answer(status="307 Moved", headers={"Location": "http://elsewhere.example/x"})
        site.page("/x", json.dumps(shape), "application/json")
        await call(WebSearch(make(site)), query="q")
    assert all(KEY not in json.dumps(asked.headers) for asked in site.asked[1:])


async def test_nobody_there() -> None:
    async with Site() as site:
        pass
    assert is_failure(await call(WebSearch(SearXNGSearch("http://search.example", network=site.network())), query="q"))


async def test_searxng_may_be_on_a_private_network() -> None:
    async with Site() as site:
        site.page("/search", json.dumps(SEARXNG), "application/json")
        data = await call(WebSearch(SearXNGSearch(f"http://127.0.0.1:{site.port}")), query="q")
    assert data["resultCount"] == 2


@pytest.mark.parametrize(("service", "variable"), [(BraveSearch, "BRAVE_API_KEY"), (TavilySearch, "TAVILY_API_KEY")])
def test_keys_come_from_the_environment(service: Any, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(variable, raising=False)
    with pytest.raises(UsageError, match=f"set {variable}"):
        service()
    with pytest.raises(UsageError, match="copy it again"):
        service("key with\nlines")
    monkeypatch.setenv(variable, KEY)
    assert KEY not in repr(service()) + repr(vars(service()).keys())
    monkeypatch.setenv(variable, " ")
    with pytest.raises(UsageError, match=f"set {variable}"):
        service()


@pytest.mark.parametrize("url", ["", "localhost:8888", "file:///x", "http://user:pw@host/"])
def test_an_address_of_searxng_that_can_not_be_used(url: str) -> None:
    with pytest.raises(UsageError):
        SearXNGSearch(url)
