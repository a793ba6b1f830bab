"""Bytes to events and lines, cut anywhere, against a reader of the standard's words that knows no shortcuts."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kestrel_nb.protocol.errors import ModelRequestError
from kestrel_nb.providers import lines
from kestrel_nb.providers.lines import JsonLineSplitter, SseSplitter

PIECES = (b"data: ", b"data:", b"data", b"event: e", b"event:", b"id: 1", b": hm", b"x", b"[DONE]", b"{}", b" ", b":")
ENDS = (
    b"\n",
    b"\n\n",
    b"\r",
    b"\r\n",
    b"\r\n\r\n",
    b"\n\n\n",
    b"\xe2\x80\xa8",
    b"\xc2\x85",
    b"\xef\xbb\xbf",
    b"\xff",
    b"\x00",
)
TEXTS = st.lists(st.sampled_from(PIECES + ENDS), max_size=30).map(b"".join)
PLAIN = st.lists(st.sampled_from((b"data: {}", b"data: x", b": c", b"event: e", b"\n", b"\n\n")), max_size=30).map(
    b"".join
)


def by_the_standard(body: bytes) -> list[tuple[str, str]]:
    """The events of ``body`` by the parsing rules of the HTML standard, section 9.2.6."""
    text = body.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    found: list[tuple[str, str]] = []
    event, data = "", list[str]()
    for line in text.split(b"\n")[:-1]:
        if not line:
            if data:
                found.append((event, "\n".join(data)))
            event, data = "", []
            continue
        name, _, value = line.decode("utf-8", "replace").partition(":")
        if name == "data":
            data.append(value.removeprefix(" "))
        elif name == "event":
            event = value.removeprefix(" ")
    return found


def split(pieces: Iterable[bytes]) -> list[tuple[str, str]]:
    splitter = SseSplitter()
    return [tuple(event) for piece in pieces for event in splitter.feed(piece)]


@settings(max_examples=400, deadline=None)
@given(TEXTS | PLAIN, st.integers(1, 40))
def test_events_are_those_of_the_standard_however_they_are_cut(body: bytes, size: int) -> None:
    pieces = [body[i : i + size] for i in range(0, len(body), size)]
    expected = by_the_standard(body)
    assert split(pieces) == expected
    assert split([body]) == expected


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from((b'{"a":1}', b"\n", b" ", b"\r\n", b"\xe2\x80\xa8", b"x")), max_size=20), st.integers(1, 9)
)
def test_lines_of_json_end_only_at_newlines(parts: list[bytes], size: int) -> None:
    body = b"".join(parts)
    splitter = JsonLineSplitter()
    found = [line for i in range(0, len(body), size) for line in splitter.feed(body[i : i + size])] + splitter.end()
    assert found == [line for line in body.split(b"\n") if line.strip()]


@pytest.mark.parametrize("kind", [SseSplitter, JsonLineSplitter])
def test_a_line_without_an_end_is_refused(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 1000)
    splitter = kind()
    splitter.feed(b"data: " + b"x" * 900)
    with pytest.raises(ModelRequestError, match="more than 1,000 bytes"):
        splitter.feed(b"x" * 200)


@pytest.mark.parametrize("kind", [SseSplitter, JsonLineSplitter])
def test_a_long_line_in_small_pieces_is_not_searched_again_with_each_piece(kind: type) -> None:
    splitter = kind()
    for _ in range(50_000):
        splitter.feed(b"x" * 37)
    assert splitter.feed(b"\n\n") == ([] if kind is SseSplitter else [b"x" * 37 * 50_000])


def test_many_lines_of_one_event_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 1000)
    splitter = SseSplitter()
    splitter.feed((b"data: " + b"x" * 90 + b"\n") * 10)
    with pytest.raises(ModelRequestError, match="more than 1,000 bytes"):
        splitter.feed((b"data: " + b"x" * 90 + b"\n") * 10)
