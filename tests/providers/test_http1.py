"""HTTP/1.1 as bytes: answers cut anywhere, every way in which one may end, and what is no HTTP."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kestrel_nb.providers.http1 import Dropped, Exchange, HttpError

HEAD = b"HTTP/1.1 200 OK\r\n"
ANSWERS = {
    "length": (HEAD + b"Content-Length: 5\r\n\r\nhello", b"hello", True),
    "chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n", b"hello", True),
    "trailers": (HEAD + b"transfer-encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\nx: y\r\nz: \r\n\r\n", b"hello", True),
    "bare newlines": (b"HTTP/1.1 200\nContent-Length: 5\n\nhello", b"hello", True),
    "leading zeros": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0005\r\nhello\r\n000\r\n\r\n", b"hello", True),
    "nothing": (HEAD + b"Content-Length: 0\r\n\r\n", b"", True),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", b"", True),
    "after a hint": (
        b"HTTP/1.1 103 X\r\na: b\r\n\r\n" + HEAD + b"content-length: 5\r\n\r\nhello",
        b"hello",
        True,
    ),
    "twice the same length": (HEAD + b"Content-Length: 5\r\ncontent-length: 5\r\n\r\nhello", b"hello", True),
    "asked to close": (HEAD + b"Connection: Close\r\nContent-Length: 5\r\n\r\nhello", b"hello", False),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello", False),
    "until the end": (HEAD + b"\r\nhello", b"hello", False),
    "both": (HEAD + b"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", b"hello", True),
    "more than was said": (HEAD + b"Content-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\n\r\n", b"hello", False),
    "more than the last chunk": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nx", b"hello", False),
}


def asked() -> Exchange:
    return Exchange("GET", b"/", [(b"host", b"h")], b"")


def read(data: bytes, sizes: Iterable[int]) -> tuple[Exchange, bytes]:
    """The answer read in pieces of the given sizes, the rest at once, and then closed by the server."""
    reader, body, at = asked(), b"", 0
    for size in chain(sizes, [len(data)]):
        body += reader.feed(data[at : at + size])
        at += size
    if not reader.ended:
        reader.close()
    return reader, body


@pytest.mark.parametrize("name", ANSWERS)
@given(st.lists(st.integers(1, 9), max_size=200))
def test_an_answer_is_read_however_it_is_cut(name: str, sizes: list[int]) -> None:
    data, expected, reusable = ANSWERS[name]
    reader, body = read(data, sizes)
    assert body == expected
    assert (reader.ended, reader.reusable) == (True, reusable)


BROKEN = {
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\n",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "a status of four digits": b"HTTP/1.1 2000 OK\r\n\r\n",
    "a header without a colon": HEAD + b"hello\r\n\r\n",
    "a name with a space": HEAD + b"content-length : 5\r\n\r\nhello",
    "two lengths": HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "a length below zero": HEAD + b"Content-Length: -5\r\n\r\nhello",
    "a length with a sign": HEAD + b"Content-Length: +5\r\n\r\nhello",
    "another coding": HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
    "a size that is no number": HEAD + b"Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
    "a size below zero": HEAD + b"Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
    "no size": HEAD + b"Transfer-Encoding: chunked\r\n\r\n\r\nhello\r\n0\r\n\r\n",
    "a chunk that is longer than said": HEAD + b"Transfer-Encoding: chunked\r\n\r\n4\r\nhello\r\n0\r\n\r\n",
    "an endless head": HEAD + b"a: b\r\n" * 20_000,
    "an endless size": HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * 20_000,
    "an endless trailer": HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"a" * 20_000,
    "cut in the head": HEAD + b"Content-Le",
    "cut in the body": HEAD + b"Content-Length: 5\r\n\r\nhell",
    "cut in a chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
    "cut between chunks": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    "cut before the last line": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("size", [1, 1000, 1_000_000])
def test_what_is_no_whole_answer_is_an_error(name: str, size: int) -> None:
    with pytest.raises(HttpError):
        read(BROKEN[name], repeat(size, len(BROKEN[name]) // size))


def test_a_connection_that_was_closed_without_a_word_is_told_apart() -> None:
    with pytest.raises(Dropped):
        asked().close()


def test_a_stream_of_many_small_chunks_is_read_at_once() -> None:
    reader = asked()
    reader.feed(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    assert reader.feed(b"1\r\nx\r\n" * 100_000) == b"x" * 100_000


def test_a_request_is_one_piece_of_bytes() -> None:
    headers = [(b"host", b"h"), (b"content-length", b"2")]
    assert Exchange("POST", b"/v1/x?y=z", headers, b"{}").request == (
        b"POST /v1/x?y=z HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n{}"
    )


def test_a_header_that_would_be_two_is_refused() -> None:
    with pytest.raises(HttpError):
        Exchange("GET", b"/", [(b"host", b"h"), (b"x", b"a\r\nb: c")], b"")
