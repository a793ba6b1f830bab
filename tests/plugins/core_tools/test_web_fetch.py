"""web_fetch against a site on the loopback address, through the real loop."""

from __future__ import annotations

import asyncio
import base64
import gzip
import sys
import time

import pytest
from site_server import Answer, Site
from stage import Stage, results
from web_pages import fetch, page, row_of, text_of

from kestrel_nb.plugins.core_tools import readable
from kestrel_nb.plugins.core_tools.settings import CoreSettings
from kestrel_nb.plugins.core_tools.web import MAX_BYTES, WebFetch
from kestrel_nb.protocol.sessions import ApprovalDecision
from kestrel_nb.testing import Reply, ScriptedModel

# ---- pages ------------------------------------------------------------------------------------------------------


async def test_a_page_comes_as_markdown_with_absolute_links() -> None:
    async with Site() as site:
        site.page(
            "/docs/a.html",
            "<!doctype html><html><head><title>Trees &amp;\n birds</title></head><body><nav>"
            "<a href=/home>Home</a></nav>"
            "<h1>Trees</h1><p>An <a href='b.html#x'>oak</a> and a <a href=//other.org/>beech</a>.</p>"
            "<ul><li>one<li>two</ul><table><tr><th>a<th>b<tr><td>1<td>2</table>"
            "<pre><code class=language-python>x = 1\n  y</code></pre><footer>(c)</footer></body></html>",
        )
        outcome = await fetch(site, "http://example.com/docs/a.html")
    assert (outcome.state, outcome.is_error) == ("executed", False)
    assert outcome.content.startswith("http://example.com/docs/a.html: text/html, ")
    assert text_of(outcome) == (
        "Title: Trees & birds\n# Trees\n\n"
        "An [oak](http://example.com/docs/b.html#x) and a [beech](http://other.org/).\n\n- one\n- two\n\n"
        "| a | b |\n| --- | --- |\n| 1 | 2 |\n\n```python\nx = 1\n  y\n```"
    )
    assert row_of(outcome) == {
        "url": "http://example.com/docs/a.html",
        "status": 200,
        "content_type": "text/html",
        "title": "Trees & birds",
        "text": text_of(outcome).removeprefix("Title: Trees & birds\n"),
        "characters": len(row_of(outcome)["text"]),
        "truncated": False,
    }
    (asked,) = site.asked
    assert asked.line == "GET /docs/a.html"
    assert asked.headers["host"] == "example.com"
    assert "text/html" in asked.headers["accept"]


HIDDEN = [
    "<!-- EVIL -->",
    "<!-- > EVIL --!>",
    "<!-- > EVIL\n<!-- -- EVIL -->",
    "<p class=x\nhidden>EVIL</p>",
    "<script>EVIL</script>",
    "<SCRIPT type='x'>EVIL</SCRIPT >",
    "<style>EVIL{}</style>",
    "<template><p>EVIL</p></template>",
    "<noscript>EVIL</noscript>",
    "<div hidden>EVIL</div>",
    "<div HIDDEN=until-found>EVIL</div>",
    "<div style='display:none'>EVIL</div>",
    "<div STYLE='color: red; Display : NONE !important'>EVIL<p>EVIL</p></div>",
    "<div style=display&#58;none>EVIL</div>",
    "<div title='a > b' style='visibility: hidden'>EVIL</div>",
    "<span aria-hidden='true'>EVIL</span>",
    "<span ARIA-HIDDEN=TRUE>EVIL</span>",
    "<p style='font-size: 0px'>EVIL</p>",
    "<p style='position:absolute; left: -9999px'>EVIL</p>",
    "<p style='text-indent:-1000em'>EVIL</p>",
    "<p style='clip-path: inset(100%)'>EVIL</p>",
    "<p style='height:0;overflow:hidden'>EVIL</p>",
    "<svg><text>EVIL</text></svg>",
    "<iframe srcdoc='EVIL'>EVIL</iframe>",
    "<object>EVIL</object>",
    "<input type=hidden value=EVIL>",
    "<dialog>EVIL</dialog>",
    "<p data-note='EVIL'>x</p>",
    "<img src='data:image/png;base64,EVIL'>",
    "<a href='javascript:EVIL()'>x</a>",
    "<a href=' Java\nScript&colon;EVIL'>x</a>",
    "<a href='data:text/html,EVIL'>x</a>",
    "<head><meta name=description content=EVIL></head>",
]


@pytest.mark.parametrize("markup", HIDDEN)
async def test_what_a_reader_would_not_see_is_not_read(markup: str) -> None:
    text = await page(f"<p>before</p>{markup}<p>after</p>")
    assert "EVIL" not in text
    assert text.startswith("before")
    assert text.endswith("after")
    deep = await page(f"{'<div>' * 3000}<p>before</p>{markup}<p>after</p>")  # no Markdown for that
    assert "EVIL" not in deep
    assert deep.startswith("before")
    assert deep.endswith("after")


SEEN = [
    "<p style='font-size:1em'>GOOD</p>",
    "<p style='font-size:10px; margin-left:-100%'>GOOD</p>",
    "<p style='height:0.5em;overflow:hidden'>GOOD</p>",
    "<div style='opacity:0'>GOOD</div>",  # faded in by a script
    "<p aria-hidden=false title='hidden'>GOOD</p>",
    "<p class=hidden-xs data-hidden>GOOD</p>",
    "<!-->GOOD<!-- -->",
    "<form><p>GOOD</p></form>",
    "<details><summary>x</summary>GOOD</details>",
    "<article><header>GOOD</header></article>",
    "<p title='<!--'>GOOD</p><p title='-->'>",
    "<a href=/x/>GOOD</a>",
    "<math><mi>GOOD</mi></math>",
    "<img alt=GOOD src=x.png>",
]


@pytest.mark.parametrize("markup", SEEN)
async def test_what_a_reader_sees_is_read(markup: str) -> None:
    assert "GOOD" in await page(f"<p>before</p>{markup}<p>after</p>")


ODD = {
    "nested": ("<div>" * 5_000 + "inside", "inside"),
    "nested and closed": ("<div>" * 5_000 + "inside" + "</div>" * 5_000, "inside"),
    "very nested": ("<div>" * 100_000 + "inside", "inside"),
    "nested inline": ("<b><i>" * 20_000 + "inside", "inside"),
    "nested lists": ("<ul><li>" * 3_000 + "inside", "inside"),
    "nested tables": ("<table><tr><td>" * 2_000 + "inside", "inside"),
    "unclosed items": ("<ul>" + "<li>item " * 5_000, "- item\n- item"),
    "unclosed cells": ("<table>" + "<tr><td>cell " * 5_000, "| cell |"),
    "unclosed links": ("<a href=/x>" * 3_000 + "inside", "inside"),
    "attributes": (f"<p {' '.join(f'a{n}=1' for n in range(50_000))}>inside", "inside"),
    "megabytes": ("<p>some words of text</p>" * 80_000, "some words of text\n\nsome words"),
    "less-than signs": ("<" * 90_000 + " inside", "inside"),
    "half a tag": ("inside <p class='", "inside"),
    "quotes": ("inside " + '<p x="' * 30_000, "inside"),
    "NUL": ("words " * 20 + "in\0side", "inside"),
    "no markup": ("inside", "inside"),
}


@pytest.mark.parametrize("name", ODD)
async def test_no_page_hangs_or_crashes(name: str) -> None:
    html, expected = ODD[name]
    assert expected in await page(html)


async def test_a_page_that_takes_too_long_to_convert_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readable, "CONVERT_S", 0.001)
    async with Site() as site:
        site.page("/", "<p>x</p>" * 200_000)
        outcome = await fetch(site, "http://example.com/")
    assert outcome.state == "failed"
    assert "could not be converted (stopped after 0.001 s)" in outcome.content
    assert 'format "source" gives it as it is' in outcome.content


async def test_a_page_that_is_all_navigation_is_read_all_the_same() -> None:
    assert await page("<nav><a href=/a>Apples</a></nav>") == "[Apples](http://example.com/a)"


async def test_the_source_of_a_page() -> None:
    html = "<p hidden>all</p><!-- of it -->"
    assert await page(html, format="source") == html


async def test_a_missing_extra_is_named_and_other_text_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "html_to_markdown", None)
    async with Site() as site:
        site.page("/", "<p>x</p>")
        site.page("/data", '{"a": 1}', "application/json")
        outcome = await fetch(site, "http://example.com/")
        assert outcome.state == "failed"
        assert 'pip install "kestrel-nb[web]"' in outcome.content
        assert text_of(await fetch(site, "http://example.com/data")) == '{"a": 1}'
        assert text_of(await fetch(site, "http://example.com/", format="source")) == "<p>x</p>"


# ---- other bodies -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type", "body", "expected"),
    [
        ("application/json", b'{"a": "\xc3\xa9"}', '{"a": "é"}'),
        ("application/problem+json; charset=utf-8", b"{}", "{}"),
        ("text/csv", b"a,b\r\n1,2\r\n", "a,b\r\n1,2\r\n"),
        ("text/plain", b"<p>no page</p>", "<p>no page</p>"),
        ("application/xml", b"<a><b/></a>", "<a><b/></a>"),
        ("image/svg+xml", b"<svg><title>t</title></svg>", "<svg><title>t</title></svg>"),
        ("application/octet-stream", b"a,b\n1,2\n", "a,b\n1,2\n"),
        (None, b"words", "words"),
        (None, b"<!-- x --><!DOCTYPE html><p>page", "page"),
        ("application/xhtml+xml", b"<html><p>page</p></html>", "page"),
        ("text/plain; charset=utf-16", "\ufeffwide".encode("utf-16-le"), "wide"),
    ],
)
async def test_text_comes_as_it_is(type: str | None, body: bytes, expected: str) -> None:
    async with Site() as site:
        site.page("/", body, type)
        outcome = await fetch(site, "http://example.com/")
    assert not outcome.is_error
    assert row_of(outcome)["text"] == expected


PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 2_000


@pytest.mark.parametrize(
    ("type", "body", "says"),
    [
        ("image/png", PNG, "image/png, 2.0 kB"),
        ("text/html", PNG, "image/png, 2.0 kB"),
        (None, PNG, "image/png, 2.0 kB"),
        ("image/jpeg", b"", "image/jpeg, 0 B"),
        ("application/pdf", b"%PDF-1.7 text", "application/pdf, 13 B"),
        ("application/octet-stream", bytes(range(256)) * 4, "application/octet-stream, 1.0 kB"),
        ("text/plain", b"a\0b" * 100, "text/plain, 300 B"),
        ("application/zip", b"PK\x03\x04...", "application/zip, 7 B"),
        ("", b"\x00\x01", "of an unknown type, 2 B"),
    ],
)
async def test_what_is_no_text_is_refused_with_its_type_and_size(type: str | None, body: bytes, says: str) -> None:
    async with Site() as site:
        site.page("/file", body, type)
        outcome = await fetch(site, "http://example.com/file")
    assert outcome.is_error
    assert outcome.content.startswith(f"http://example.com/file is {says}: not text")
    assert row_of(outcome)["text"] == ""


async def test_n05_charset_empty_json_and_a_large_compressed_body() -> None:
    async with Site() as site:
        site.page("/latin", base64.b64decode("Y2Fm6SCjNQ=="), "text/plain; charset=iso-8859-1")
        site.page("/meta", '<meta charset="windows-1251"><p>Привет'.encode("cp1251"), "text/html")
        site.page("/bom", b"\xef\xbb\xbfcaf\xc3\xa9", "text/plain; charset=iso-8859-1")
        site.page("/guess", "<p>Grüße aus Köln, schöne Tage".encode("cp1252"), "text/html")
        site.page("/wrong", "Grüße aus Köln, schöne Tage".encode("cp1252"), "text/plain; charset=nonsense")
        site.page("/json", b"{}", "application/json")
        site.answers["/large"] = Answer(
            gzip.compress("é".encode() * 60_000_000, 1),
            headers={"Content-Type": "text/plain", "Content-Encoding": "gzip"},
            length=False,
        )
        site.answers["/odd"] = Answer(b"a" + "é".encode() * (MAX_BYTES // 2), headers={"Content-Type": "text/plain"})
        url = "http://example.com"
        for path, expected in {
            "latin": "café £5",
            "meta": "Привет",
            "bom": "café",
            "guess": "Grüße aus Köln, schöne Tage",
            "wrong": "Grüße aus Köln, schöne Tage",
            "json": "{}",
        }.items():
            assert row_of(await fetch(site, f"{url}/{path}"))["text"] == expected
        large = await fetch(site, f"{url}/large")
        odd = await fetch(site, f"{url}/odd")
    assert (row_of(large)["characters"], row_of(large)["truncated"]) == (MAX_BYTES // 2, True)
    assert "of the first 4.0 MB; the rest was not read" in large.content
    assert row_of(odd)["characters"] == MAX_BYTES // 2  # the character at the cut is left out
    assert "\ufffd" not in odd.content


# ---- parts ------------------------------------------------------------------------------------------------------


async def test_a_long_text_comes_in_parts() -> None:
    async with Site() as site:
        text = "".join(f"{n:09d}\n" for n in range(5_000))
        site.page("/", text, "text/plain")
        url = "http://example.com/"
        first = await fetch(site, url)
        second = await fetch(site, url, offset=20_000, max_chars=25_000)
        last = await fetch(site, url, offset=45_000)
        beyond = await fetch(site, url, offset=50_000)
    assert "here 0 to 20000; the next part begins at offset 20000." in first.content
    assert text_of(first) == text[:20_000]
    assert text_of(second) == text[20_000:45_000]
    assert "here from 45000 to the end" in last.content
    assert text_of(last) == text[45_000:]
    assert beyond.content == f"{url}: text/plain, 50,000 characters, so there is nothing at offset 50000."
    assert all(row_of(outcome)["text"] == text for outcome in (first, second, last, beyond))
    assert row_of(first)["truncated"] is False


async def test_an_empty_body() -> None:
    async with Site() as site:
        site.page("/", "", "text/plain")
        assert (await fetch(site, "http://example.com/")).content == "http://example.com/: text/plain, 0 characters."


# ---- what goes wrong --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "says"),
    [
        ("404 Not Found", "answered 404 Not Found: there is no such page"),
        ("403 Forbidden", "answered 403 Forbidden: the site refuses"),
        ("429 Too Many Requests", "answered 429 Too Many Requests: too many requests; wait"),
        ("418 I'm a teapot", "answered 418 I'm a teapot: check the address"),
        ("503 Service Unavailable", "answered 503 Service Unavailable: the site has a problem; try again later"),
    ],
)
async def test_a_status_of_failure_says_what_to_do(status: str, says: str) -> None:
    async with Site() as site:
        headers = {"Content-Type": "application/json", "Retry-After": "7"}
        site.answers["/x"] = Answer('{"detail": "why"}', status, headers)
        outcome = await fetch(site, "http://example.com/x")
    assert (outcome.state, outcome.is_error) == ("executed", True)
    assert outcome.content.startswith(f"http://example.com/x {says}")
    assert "(Retry-After: 7)" in outcome.content
    assert text_of(outcome) == '{"detail": "why"}'
    assert row_of(outcome)["status"] == int(status[:3])


async def test_redirects_are_told_and_judged() -> None:
    async with Site() as site:
        site.answers["/old"] = Answer(status="301 Moved", headers={"Location": "http://b.example/new#part"})
        site.answers["/in"] = Answer(status="302 Found", headers={"Location": "http://router.internal/"})
        site.page("/new", "<a href=c>c</a>")
        moved = await fetch(site, "http://example.com/old")
        refused = await fetch(site, "http://example.com/in")
        local = await fetch(site, "http://127.0.0.1/")
        strange = await fetch(site, "file:///etc/passwd")
    assert moved.content.startswith("http://b.example/new (where http://example.com/old led): text/html")
    assert text_of(moved) == "[c](http://b.example/c)"
    assert row_of(moved)["url"] == "http://b.example/new"
    for outcome in (refused, local, strange):
        assert outcome.state == "failed"
    assert "refused" in refused.content
    assert [asked.line for asked in site.asked] == ["GET /old", "GET /new", "GET /in"]


@pytest.mark.parametrize("place", ["request", "conversion"])
async def test_it_is_cancelled_within_a_second(place: str) -> None:
    arrived, forever = asyncio.Event(), asyncio.Event()

    async def before() -> None:
        arrived.set()
        if place == "request":
            await forever.wait()

    async with Site() as site:
        site.answers["/"] = Answer("<p>x</p>" * 400_000, headers={"Content-Type": "text/html"}, before=before)
        tool = WebFetch(CoreSettings(web_permission="auto"), site.network())
        reply = Reply(tool_calls=[("web_fetch", {"url": "http://example.com/"})])
        stage = Stage(ScriptedModel([reply, "done"]), [tool])
        run = stage.session.start("go")
        await arrived.wait()
        await asyncio.sleep(0.2 if place == "conversion" else 0)
        began = time.monotonic()
        stage.session.cancel()
        assert (await run).status == "cancelled"
        assert time.monotonic() - began < 1.5
        forever.set()
    assert "not run" in results(stage.session.messages)[0] or "cancelled" in results(stage.session.messages)[0]
    stage.check()


async def test_a_person_is_asked_and_shown_the_request() -> None:
    async with Site() as site:
        site.page("/a%20b", "hello", "text/plain")
        calls = [("web_fetch", {"url": url}) for url in ("HTTP://Example.COM:80/a b", "http://user:pw@example.com/")]
        stage = Stage(ScriptedModel([Reply(tool_calls=calls), "done"]), [WebFetch(CoreSettings(), site.network())])
        run = stage.session.start("go")
        question = await stage.question()
        assert question.preview is not None
        assert (question.preview.kind, question.preview.method) == ("request", "GET")  # type: ignore[union-attr]
        assert question.preview.url == "http://example.com/a%20b"  # type: ignore[union-attr]
        assert site.asked == []
        stage.manager.approvals.resolve(question.id, ApprovalDecision(approved=True))
        await run
    first, second = results(stage.session.messages)
    assert first.endswith("hello")
    assert "user name" in second  # nobody is asked about an address that can't be used
    stage.check()
