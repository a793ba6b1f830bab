"""More kinds of odd answers: charsets as the web means them, redirects that say two things, messages that help."""

from __future__ import annotations

import asyncio
import socket
import struct

import pytest
from web_server import DATA, PUBLIC, Page, Seen, Web, page, redirect

from kestrel_nb.sandbox.network import Network, NetworkError, Response
from kestrel_nb.sandbox.urls import MAX_URL_CHARS, parse_url
from kestrel_nb.sandbox.web_text import body_text


async def get(answer: Page, url: str = "http://pub.test/", max_bytes: int = 100_000) -> Response:
    async with Web({"pub.test/": answer, "pub.test/next": page("there")}) as web:
        return await web.network().fetch("GET", url, timeout_s=20, max_bytes=max_bytes)


async def failure(answer: Page) -> str:
    with pytest.raises(NetworkError) as caught:
        await get(answer)
    return str(caught.value)


@pytest.fixture
def tls_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The authority of the test servers is the one of the system."""
    monkeypatch.setenv("SSL_CERT_FILE", str(DATA / "authority.pem"))


class TestCharsets:
    @pytest.mark.parametrize(
        ("label", "text", "codec"),
        [
            ("gb2312", "朱镕基", "gbk"),
            ("gbk", "㐀", "gb18030"),
            ("GB_2312-80", "朱镕基", "gbk"),
            ("shift_jis", "①髙", "cp932"),
            ("x-sjis", "表示", "cp932"),
            ("Windows-31J", "①", "cp932"),
            ("euc-kr", "뷁", "cp949"),
            ("windows-874", "ไทย", "cp874"),
            ("iso-8859-9", "€ ğ", "cp1254"),
            ("iso-8859-8-i", "שלום", "iso8859-8"),
            ("iso-8859-1", "€ “x”", "cp1252"),
            ("'latin1'", "é", "cp1252"),
            ("utf-16", "héllo", "utf-16-le"),
            ("utf-16be", "héllo", "utf-16-be"),
        ],
    )
    async def test_a_label_means_what_it_means_on_the_web(self, label: str, text: str, codec: str) -> None:
        answer = page(text.encode(codec), content_type=f"text/plain; charset={label}")
        assert body_text(await get(answer)) == text

    @pytest.mark.parametrize(
        "label", ["klingon", "undefined", "rot13", "utf-7", "hex", "idna", "unicode_escape", "\u00ff"]
    )
    async def test_an_unknown_label_is_none(self, label: str) -> None:
        answer = page("h\u00e9llo \\x41 +ADw-", content_type=f"text/plain; charset={label}")
        assert body_text(await get(answer)) == "h\u00e9llo \\x41 +ADw-"

    @pytest.mark.parametrize("content_type", ["application/json", "text/plain", "text/javascript", "text/markdown"])
    async def test_text_about_html_declares_nothing(self, content_type: str) -> None:
        text = '{"html": "<meta charset=koi8-r>é"}'
        assert body_text(await get(page(text, content_type=content_type))) == text

    @pytest.mark.parametrize("content_type", ["text/html", "application/xhtml+xml", ""])
    async def test_a_page_declares_its_charset_outside_of_comments(self, content_type: str) -> None:
        text = "<!-- <meta charset=koi8-r> --><meta charset='iso-8859-15'>€"
        answer = page(text.encode("iso-8859-15"), content_type=content_type)
        assert body_text(await get(answer)) == text

    @pytest.mark.parametrize(("shift", "read"), [(0, "€"), (2, "¤")])
    async def test_a_declaration_counts_within_the_first_1024_bytes(self, shift: int, read: str) -> None:
        meta = b"<meta charset=iso-8859-15>"
        body = b" " * (1024 - len(meta) + shift) + meta + "€".encode("iso-8859-15")
        assert body_text(await get(page(body, content_type="text/html"))).endswith(read)


class TestRedirects:
    async def test_the_same_place_twice_is_one_place(self) -> None:
        answer = b"HTTP/1.1 302 Found\r\nLocation: /next\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n"
        assert (await get(answer)).body == b"there"

    async def test_two_places_are_refused(self) -> None:
        answer = b"HTTP/1.1 302 Found\r\nLocation: /next\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n"
        assert await failure(answer) == "pub.test redirects to several places at once; ask for one of them itself"

    @pytest.mark.parametrize(
        ("location", "says"),
        [
            ("http://[[", 'pub.test redirects, but "http://[[" can\'t be used: its brackets do not close'),
            ("http://u:p@a.test/", "pub.test redirects, but"),
            ("ftp://a.test/", "must begin with http"),
            ("http://10.0.0.1/", "pub.test redirects, but 10.0.0.1 is a private network address"),
            ("http://pub.test:25/", "pub.test redirects, but port 25 is refused"),
        ],
    )
    async def test_a_failure_after_a_redirect_says_that_it_was_one(self, location: str, says: str) -> None:
        message = await failure(redirect(location))
        assert says in message
        assert "url:" not in message  # the address that was asked for is right

    @pytest.mark.parametrize("status", ["307 Temporary Redirect", "308 Permanent Redirect"])
    async def test_a_body_does_not_go_from_https_to_http(self, status: str, tls_trusted: None) -> None:
        pages: dict[str, Page] = {"pub.test/": redirect("http://a.test/", status), "a.test/": page("got it")}
        async with Web(pages) as web:
            with pytest.raises(NetworkError, match="from https to http"):
                await web.network().fetch("POST", "https://pub.test/", body=b"secret", timeout_s=20, max_bytes=1000)
            assert [seen.place for seen in web.seen] == ["pub.test/"]

    async def test_without_a_body_it_may(self, tls_trusted: None) -> None:
        pages: dict[str, Page] = {"pub.test/": redirect("http://a.test/", "303 See Other"), "a.test/": page("got it")}
        async with Web(pages) as web:
            answer = await web.network().fetch("POST", "https://pub.test/", body=b"x", timeout_s=20, max_bytes=1000)
            assert answer.body == b"got it"
            assert [(seen.method, seen.body) for seen in web.seen] == [("POST", b"x"), ("GET", b"")]


class TestMessages:
    async def test_the_setting_is_named_where_there_is_one_and_it_would_help(self) -> None:
        network = Network(allowed_by="THE_SETTING", resolve=lambda host: [PUBLIC])
        for url, helps in (
            ("http://127.0.0.1/", True),
            ("http://169.254.169.254/", False),
            ("http://224.0.0.1/", False),
        ):
            with pytest.raises(NetworkError) as caught:
                await network.fetch("GET", url, timeout_s=5, max_bytes=10)
            assert ("THE_SETTING" in str(caught.value)) == helps
        with pytest.raises(NetworkError, match=r"use a public address$"):
            await Network().fetch("GET", "http://127.0.0.1/", timeout_s=5, max_bytes=10)

    @pytest.mark.parametrize(
        "answer",
        [
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\nx",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ],
    )
    async def test_no_bytes_of_the_answer_are_in_it(self, answer: bytes) -> None:
        assert "bytearray" not in await failure(answer)

    async def test_a_reset_reads_as_what_it_is(self) -> None:
        async def reset(_: Seen, writer: asyncio.StreamWriter) -> None:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

        message = await failure(reset)
        assert message == "the connection to pub.test broke off (Connection reset by peer); try again"

    async def test_nobody_there_names_no_place_of_the_inside(self) -> None:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            place = closed.getsockname()
            network = Network(resolve=lambda host: [PUBLIC], dial=lambda address, port: place)
            with pytest.raises(NetworkError) as caught:
                await network.fetch("GET", "http://pub.test/", timeout_s=20, max_bytes=10)
        assert str(caught.value) == (
            "pub.test could not be reached (Connection refused); check the address, or try again later"
        )

    def test_the_length_counts_as_it_is_sent(self) -> None:
        with pytest.raises(NetworkError, match=r"has 12,015 as it is sent"):
            parse_url("http://x.test/?" + "é" * 2_000)
        assert len(str(parse_url("http://x.test/?" + "é" * 1_300))) <= MAX_URL_CHARS


class TestCodings:
    @pytest.mark.parametrize("coding", ["none", "identity", "binary", "UTF-8", "identity, identity"])
    async def test_words_that_mean_no_coding(self, coding: str) -> None:
        assert (await get(page("plain", content_encoding=coding))).body == b"plain"
