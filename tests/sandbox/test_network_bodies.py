"""Bodies of every kind: compressed, endless, cut, broken; and their text."""

import asyncio
import gzip
import random
import time
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from web_server import Seen, Web, page

from kestrel_nb.sandbox.decoding import PIECE, decoder
from kestrel_nb.sandbox.network import NetworkError, Response
from kestrel_nb.sandbox.web_text import body_text, is_text

MIB = 2**20


def raw_deflate(data: bytes) -> bytes:
    engine = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return engine.compress(data) + engine.flush()


ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "identity": bytes,
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "Deflate": raw_deflate,
    "gzip, deflate": lambda data: zlib.compress(gzip.compress(data)),
    "deflate, gzip, gzip": lambda data: gzip.compress(gzip.compress(zlib.compress(data))),
}


async def get(answer: Any, max_bytes: int = 100_000, timeout_s: float = 20) -> Response:
    async with Web({"pub.test/": answer}) as web:
        return await web.network().fetch("GET", "http://pub.test/", timeout_s=timeout_s, max_bytes=max_bytes)


async def broken(answer: Any, **limits: Any) -> str:
    with pytest.raises(NetworkError) as caught:
        await get(answer, **limits)
    assert caught.value.code == "network_failed"
    assert str(caught.value).isprintable()
    return str(caught.value)


def response(body: bytes, content_type: str = "", truncated: bool = False) -> Response:
    headers = {"content-type": content_type} if content_type else {}
    return Response(url="http://a/", status=200, reason="OK", headers=headers, body=body, truncated=truncated)


@asynccontextmanager
async def little_memory(limit: int) -> AsyncIterator[None]:
    """Fails when more than ``limit`` bytes are held at any moment."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < limit


class TestCompression:
    @pytest.mark.parametrize("encoding", ENCODERS)
    @pytest.mark.parametrize("size", [0, 1, 5_000, PIECE, PIECE + 1, 300_000])
    async def test_each_coding_is_undone(self, encoding: str, size: int) -> None:
        data = b"a1b2" * (size // 4) + b"x" * (size % 4)
        answer = page(ENCODERS[encoding](data), content_encoding=encoding)
        assert (await get(answer, max_bytes=size)).body == data
        if size:
            cut = await get(answer, max_bytes=size - 1)
            assert (cut.body, cut.truncated) == (data[:-1], True)

    @given(st.binary(max_size=3000), st.sampled_from(sorted(ENCODERS)), st.integers(1, 700))
    def test_pieces_of_any_size_give_the_same(self, data: bytes, encoding: str, step: int) -> None:
        packed, engine = ENCODERS[encoding](data), decoder(encoding)
        chunks = [packed[at : at + step] for at in range(0, len(packed), step)]
        assert b"".join(piece for chunk in chunks for piece in engine.feed(chunk)) == data
        engine.end()

    @given(st.binary(max_size=200), st.sampled_from(sorted(ENCODERS)))
    def test_rubbish_is_an_error_and_never_an_exception(self, data: bytes, encoding: str) -> None:
        engine = decoder(encoding)
        with suppress(NetworkError):
            for piece in engine.feed(data):
                assert len(piece) <= PIECE
            engine.end()

    async def test_members_of_gzip_and_padding(self) -> None:
        packed = gzip.compress(b"one ") + gzip.compress(b"") + gzip.compress(b"two") + b"\0" * 10
        assert (await get(page(packed, content_encoding="gzip"))).body == b"one two"

    @pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
    async def test_an_answer_without_a_body_may_claim_a_coding(self, status: str) -> None:
        answer = f"HTTP/1.1 {status}\r\nContent-Encoding: gzip\r\n\r\n".encode()
        assert (await get(answer)).body == b""

    @pytest.mark.parametrize("encoding", ["br", "zstd", "compress", "gzip, br", "\u00ff", "a" * 500, "gzip," * 4])
    async def test_a_coding_that_was_not_asked_for_is_an_error(self, encoding: str) -> None:
        assert len(await broken(page(b"x", content_encoding=encoding))) < 200

    @pytest.mark.parametrize("encoding", ["gzip", "deflate"])
    async def test_broken_data_is_an_error(self, encoding: str) -> None:
        packed = ENCODERS[encoding](b"hello" * 1000)
        for bad in (b"no such data", packed[:-6], packed[:12] + b"\xff" * 30):
            assert encoding in await broken(page(bad, content_encoding=encoding))

    @pytest.mark.parametrize("encoding", ["gzip", "deflate", "gzip, gzip"])
    async def test_a_bomb_of_gigabytes_stays_small(self, encoding: str) -> None:
        bomb = zeros(4 * 1024, encoding)
        assert len(bomb) < 10 * MIB
        async with little_memory(24 * MIB + len(bomb)):
            answer = await get(page(bomb, content_encoding=encoding), max_bytes=MIB)
        assert (len(answer.body), answer.truncated) == (MIB, True)

    async def test_a_bomb_inside_a_bomb_stays_small(self) -> None:
        async with little_memory(24 * MIB):
            answer = await get(page(gzip.compress(zeros(1024, "gzip")), content_encoding="gzip, gzip"), max_bytes=MIB)
        assert answer.truncated

    async def test_empty_members_without_end_stop_at_the_time_limit(self) -> None:
        async def endless(_: Seen, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n")
            while True:
                writer.write(gzip.compress(b"") * 500)
                await writer.drain()

        with pytest.raises(NetworkError) as caught:
            await get(endless, timeout_s=0.5)
        assert caught.value.code == "network_timeout"


def zeros(mebibytes: int, encoding: str) -> bytes:
    """The beginning of ``mebibytes`` MiB of zeros in compressed form, made without ever holding them."""
    engine = zlib.compressobj(9, wbits=31 if encoding.startswith("gzip") else 15)
    first, further = (engine.compress(bytes(MIB)) + engine.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    packed = first + further * (mebibytes - 1)
    return gzip.compress(packed) if encoding == "gzip, gzip" else packed


class TestEndless:
    @pytest.mark.parametrize("head", [b"", b"Content-Length: 99999999999\r\n", b"Transfer-Encoding: chunked\r\n"])
    async def test_an_endless_body_is_cut(self, head: bytes) -> None:
        chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n" if b"chunked" in head else b"x" * 65_536

        async def endless(_: Seen, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n")
            while True:
                writer.write(chunk)
                await writer.drain()

        async with little_memory(16 * MIB):
            answer = await get(endless, max_bytes=MIB)
        assert (answer.body, answer.truncated) == (b"x" * MIB, True)

    @pytest.mark.parametrize(
        "line", [b"X: " + b"y" * 1000 + b"\r\n", b"y" * 1000, b" folded" * 100, b"X: y\r\n", b"\0" * 500]
    )
    async def test_endless_headers_are_an_error(self, line: bytes) -> None:
        async def endless(_: Seen, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\n")
            for _count in range(20_000):
                writer.write(line)
                await writer.drain()

        async with little_memory(16 * MIB):
            await broken(endless)

    @pytest.mark.parametrize("tail", [b"1;" + b"x" * 500_000, b"0\r\n" + b"X: y\r\n" * 100_000, b"f" * 500_000])
    async def test_endless_chunk_lines_and_trailers_are_an_error(self, tail: bytes) -> None:
        await broken(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + tail)


class TestBroken:
    @pytest.mark.parametrize(
        "answer",
        [
            *(b"", b"\r\n\r\n", b"hello", b"SSH-2.0-OpenSSH_9\r\n", b"HTTP/1.1\r\n\r\n", b"HTP/1.1 200 OK\r\n\r\n"),
            *(b"HTTP/1.1 abc OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", b"HTTP/1.1 200 OK\r\n: x\r\n\r\n"),
            *(
                b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
                b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
            ),
            *(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", b"HTTP/1.1 200 OK\r\nX"),
            *(
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + end
                for end in (b"5\r\nab", b"zz\r\nx", b"-1\r\nx", b"2\r\nabc\r\n0\r\n\r\n")
            ),
            *(
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nx",
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
            ),
        ],
    )
    async def test_what_is_no_http_is_an_error(self, answer: bytes) -> None:
        assert "pub.test" in await broken(answer)

    @pytest.mark.parametrize(
        ("answer", "body"),
        [
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nX-T: 1\r\n\r\n", b"abc"),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n0003\r\nabc\r\n00\r\n\r\n", b"abc"),
            (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", b"until the end"),
            (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nokEXTRA", b"ok"),
            (b"HTTP/1.1 200 \xe4\r\nContent-Length: 0\r\n\r\n", b""),
            (b"HTTP/1.1 204 None\r\n\r\nnot a body", b""),
            (b"HTTP/1.1 999 Odd\r\nContent-Length: 1\r\n\r\nx", b"x"),
        ],
    )
    async def test_oddities_that_are_http_are_read(self, answer: bytes, body: bytes) -> None:
        assert (await get(answer)).body == body

    async def test_an_answer_before_the_request_was_read_is_read(self) -> None:
        async def hasty(seen: Seen, writer: asyncio.StreamWriter) -> None:
            writer.write(page("too large", "413 Too Large"))

        async with Web({"pub.test/": hasty}) as web:
            answer = await web.network().fetch("POST", "http://pub.test/", body=b"x" * MIB, timeout_s=20, max_bytes=100)
        assert answer.status == 413


WORDS = (b"\r\n", b"\0", b" ", b"9" * 30, b":", b"-", b"\xff", b"chunked", b"HTTP/1.1 ", b"Content-Length: 1\r\n")
WHOLE = (
    page("hello", content_type="text/html; charset=utf-8"),
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n",
    b"HTTP/1.1 302 Found\r\nLocation: http://pub.test/x\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\ndata",
    page(gzip.compress(b"hello"), content_encoding="gzip"),
    b"HTTP/1.1 100 Continue\r\n\r\n" + page("x"),
)


@pytest.mark.parametrize("seed", range(8))
async def test_no_answer_that_was_tampered_with_raises(seed: int) -> None:
    chance = random.Random(seed)
    async with Web() as web:
        network = web.network()
        for _ in range(60):
            web.pages = {"pub.test/": tampered(chance)}
            with suppress(NetworkError):
                answer = await network.fetch("GET", "http://pub.test/", timeout_s=5, max_bytes=1000)
                body_text(answer).encode()


def tampered(chance: random.Random) -> bytes:
    data = bytearray(chance.choice(WHOLE))
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(4):
            case 0:
                data[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                data[at:at] = chance.choice(WORDS)
            case 2:
                del data[at : at + chance.randint(1, 5)]
            case _:
                del data[at:]
    return bytes(data)


class TestText:
    @pytest.mark.parametrize(
        ("body", "content_type", "text"),
        [
            ("héllo".encode(), "text/plain; charset=utf-8", "héllo"),
            (b"caf\xe9 \xa35", "text/plain; charset=iso-8859-1", "café £5"),
            (b"\x93hi\x94", "text/plain; charset=ISO-8859-1", "“hi”"),
            (b"\x93hi\x94", 'text/html; charset="windows-1252"', "“hi”"),
            ("héllo".encode(), "text/plain", "héllo"),
            ("héllo".encode(), "", "héllo"),
            ("日本".encode("shift_jis"), "text/plain; charset=Shift_JIS", "日本"),
            ("日本".encode("euc-jp"), "text/html; charset=euc-jp", "日本"),
            ("привет".encode("koi8-r"), "text/plain;charset=KOI8-R", "привет"),
            ("中文".encode("gb18030"), "text/plain; charset=gb2312", "中文"),
            (b"\xef\xbb\xbfh\xc3\xa9", "text/plain; charset=iso-8859-1", "hé"),
            ("hé".encode("utf-16"), "text/plain", "hé"),
            ("hé".encode("utf-16-be"), "text/plain; charset=utf-16be", "hé"),
            (b'<html><meta charset="iso-8859-1">caf\xe9', "text/html", '<html><meta charset="iso-8859-1">café'),
            (
                b"<?xml version='1.0' encoding='iso-8859-1'?>\xe9",
                "application/xml",
                "<?xml version='1.0' encoding='iso-8859-1'?>é",
            ),
            (b'<meta charset="utf-16">h\xc3\xa9', "text/html", '<meta charset="utf-16">hé'),
            (b"h\xc3\xa9", "text/plain; charset=no-such-thing", "hé"),
            (b"h\xc3\xa9", "text/plain; charset=unicode_escape", "hé"),
            (b"h\xc3\xa9", "text/plain; charset=rot13", "hé"),
            (b"h\xc3\xa9", "text/plain; charset=zlib", "hé"),
            (b"h\xc3\xa9", "text/plain; charset=\xff\r\n", "hé"),
            (b"h\xc3\xa9", "text/plain; charset*=utf-8''x", "hé"),
            (b"\xfe\xfdx", "text/plain; charset=utf-8", "\ufffd\ufffdx"),
            (b"", "text/plain; charset=utf-16", ""),
            (b"caf\xe9", "text/plain", "café"),
            (
                "日本語のページです。今日は天気がいい。".encode("shift_jis"),
                "text/plain",
                "日本語のページです。今日は天気がいい。",
            ),
            (("привет, мир! как дела? " * 9).encode("cp1251"), "text/html", "привет, мир! как дела? " * 9),
        ],
    )
    def test_the_charset_is_found(self, body: bytes, content_type: str | bytes, text: str) -> None:
        found = body_text(
            response(body, content_type if isinstance(content_type, str) else content_type.decode("latin-1"))
        )
        assert found == text

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-be", "shift_jis", "gb18030", "utf-32-le"])
    def test_a_cut_does_not_leave_half_a_character(self, encoding: str) -> None:
        text = "日本語のページ" * 3
        data = text.encode(encoding)
        for end in range(len(data) - 8, len(data)):
            assert text.startswith(body_text(response(data[:end], f"text/plain; charset={encoding}", truncated=True)))

    @given(st.binary(max_size=500), st.text(max_size=40), st.booleans())
    def test_no_body_and_no_type_raises(self, body: bytes, content_type: str, truncated: bool) -> None:
        for kind in (content_type, f"text/plain; charset={content_type}", "text/plain; charset=iso-2022-jp"):
            body_text(response(body, kind, truncated)).encode()
            is_text(response(body, kind, truncated))

    def test_a_guess_is_made_of_a_large_body_in_bounded_time(self) -> None:
        began = time.monotonic()
        assert "é" in body_text(response(b"le caf\xe9 est bien chaud ce matin, n'est-ce pas. " * 40_000))
        assert time.monotonic() - began < 10

    @pytest.mark.parametrize(
        ("body", "content_type", "expected"),
        [
            *(
                (b"{}", "application/json", True),
                (b"{}", "application/problem+json; charset=utf-8", True),
                (b"<a/>", "image/svg+xml", True),
            ),
            *(
                (b"plain", "", True),
                ("é".encode(), "application/octet-stream", True),
                (b"\xff\xd8\xff\xe0", "image/jpeg", False),
            ),
            *(
                (b"\x89PNG\r\n\x1a\n\0\0", "image/png", False),
                (b"a\0b", "text/plain", False),
                ("x".encode("utf-16"), "text/plain", True),
            ),
            *(
                ("x".encode("utf-16-le"), "text/plain; charset=utf-16le", True),
                (b"caf\xe9", "text/plain", True),
                (b"", "", True),
            ),
            *(
                (b"\xe9", "", False),
                (b"\xe9", "application/octet-stream", False),
                (b"%PDF-1.7\n%\xe2\xe3", "application/pdf", False),
            ),
        ],
    )
    def test_text_is_told_from_binary(self, body: bytes, content_type: str, expected: bool) -> None:
        assert is_text(response(body, content_type)) is expected
