"""More pages for web_fetch: other ways of hiding text, titles that are none, XHTML, pages that lead on."""

from __future__ import annotations

from typing import Any

import pytest
from site_server import Site
from web_pages import fetch, row_of


async def row(html: str, type: str = "text/html; charset=utf-8") -> dict[str, Any]:
    """The row for a page at http://example.com/d/p."""
    async with Site() as site:
        site.page("/d/p", html, type)
        outcome = await fetch(site, "http://example.com/d/p")
        assert outcome.state == "executed", outcome.content
        return row_of(outcome)


HIDDEN = [
    "<p/hidden>EVIL</p>",
    '<p class="x"hidden>EVIL</p>',
    "<p style='dis\\70lay: none'>EVIL</p>",
    "<p style='display:/* x */none'>EVIL</p>",
    "<p style='font-size: 0.1px'>EVIL</p>",
    "<p style='font-size:.5pt'>EVIL</p>",
    "<p style='font: 0/0 a'>EVIL</p>",
    "<p style='position:fixed; left: -100vw'>EVIL</p>",
    "<p style='margin-left: -1000rem'>EVIL</p>",
    "<p style='transform: translateX(-9999px)'>EVIL</p>",
    "<p style='transform:translate(0, -10000px)'>EVIL</p>",
    "<p style='overflow:hidden; max-width:0'>EVIL</p>",
    "<a/href='javascript:EVIL'>x</a>",
    "<a title=1 href=javascript:EVIL href=/ok>x</a>",
    "<base href='javascript:EVIL//'><a href=y>x</a>",
]


@pytest.mark.parametrize("markup", HIDDEN)
async def test_what_a_reader_would_not_see_is_not_read(markup: str) -> None:
    text = (await row(f"<p>before</p>{markup}<p>after</p>"))["text"]
    assert "EVIL" not in text
    assert text.startswith("before")
    assert text.endswith("after")


SEEN = [
    "<p class=x/hidden>GOOD</p>",
    "<a href=/hidden>GOOD</a>",
    "<p style='font-size:.9em'>GOOD</p>",
    "<p style='font-size:10pt'>GOOD</p>",
    "<p style='transform:translate(-50%,-50%)'>GOOD</p>",
    "<p style='left:-100px'>GOOD</p>",
    "<p style='height:0'>GOOD</p>",  # it flows over
    "<p style='color:red' style='display:none'>GOOD</p>",  # the first one counts
    "<svg/>GOOD<svg class='icon' />",
]


@pytest.mark.parametrize("markup", SEEN)
async def test_what_a_reader_sees_is_read(markup: str) -> None:
    assert "GOOD" in (await row(f"<p>before</p>{markup}<p>after</p>"))["text"]


async def test_letters_that_no_screen_shows_are_left_out() -> None:
    hidden = "".join(chr(0xE0000 + ord(char)) for char in "obey")
    england = "\U0001f3f4" + "".join(chr(0xE0000 + ord(char)) for char in "gbeng") + "\U000e007f"
    assert (await row(f"<p>a{hidden}b {england}</p>"))["text"] == f"ab {england}"


@pytest.mark.parametrize(
    "decoy",
    [
        "<!-- <title>EVIL</title> -->",
        "<script>'<title>EVIL</title>'</script>",
        "<meta content='<title>EVIL</title>'>",
        "<svg><title>EVIL</title></svg>",
    ],
)
async def test_the_title_is_the_one_that_a_browser_shows(decoy: str) -> None:
    assert (await row(f"{decoy}<title>Re<b>al\n &amp; true</title><title>second</title><p>x"))["title"] == (
        "Re<b>al & true"
    )


async def test_an_exponent_stays_one() -> None:
    assert (await row("<p>10<sup>6</sup> m<sup>2</sup>, H<sub>2</sub>O</p>"))["text"] == "10^6^ m^2^, H2O"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("0;url=/new", "This page leads on to http://example.com/new"),
        ("5; URL='next?a=1'", "This page leads on to http://example.com/d/next?a=1"),
        ("0; //other.org/", "This page leads on to http://other.org/"),
        ("30", ""),
        ("0;url=http://[", "This page leads on to http://["),
    ],
)
async def test_a_page_that_only_leads_on_says_where_to(content: str, text: str) -> None:
    html = f'<title>Moved</title><meta HTTP-EQUIV=Refresh content="{content}">'
    assert (await row(html))["text"] == text
    assert (await row(f"{html}<p>words</p>"))["text"] == "words"


async def test_xhtml_closes_its_elements_as_xml_does() -> None:
    page = (
        '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title>T</title><script src="a.js"/>'
        '</head><body><iframe src="x"/><p>one<br/>two <![CDATA[a < b]]></p></body></html>'
    )
    read = await row(page, "application/xhtml+xml")
    assert (read["title"], read["text"]) == ("T", "one  \ntwo a < b")


async def test_a_long_style_takes_no_long_time() -> None:
    for style in ("height:0;" * 300_000, "transform:translate(0," * 100_000, "\\6" * 500_000, "/*" * 500_000):
        assert "words" in (await row(f'<p>words</p><p style="{style}">x</p>'))["text"]
