"""Connections to models: kept, found closed, stalled, cancelled, over TLS and proxies, on several event loops."""

from __future__ import annotations

import asyncio
import gzip
import socket
import subprocess
import sys
import textwrap
import zlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from model_server import (
    CLOSE,
    LAST_CHUNK,
    RESET,
    STALL,
    Asked,
    ModelServer,
    Step,
    chat_event,
    chat_text,
    chunk,
    head,
    stream_head,
    streamed,
    whole,
)
from web_server import DATA, server_tls

from kestrel_nb.protocol.errors import CancelledByUser, ModelRequestError
from kestrel_nb.protocol.messages import create_message
from kestrel_nb.providers import OpenAIChatModel, Timeouts
from kestrel_nb.providers.connections import close_connections, trusted
from kestrel_nb.runtime.models import CompletionRequest, TokenDelta
from kestrel_nb.runtime.signals import CancelSignal

TESTS = Path(__file__).parents[1]
HELLO = streamed(*chat_text("hel", "lo"))


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def asked(signal: CancelSignal | None = None) -> CompletionRequest:
    return CompletionRequest(model="m", messages=(create_message("user", "hi"),), signal=signal)


def model(server: ModelServer, **options: Any) -> OpenAIChatModel:
    return OpenAIChatModel("m", base_url=server.url, **options)


async def failure(model: OpenAIChatModel, signal: CancelSignal | None = None) -> ModelRequestError:
    with pytest.raises(ModelRequestError) as caught:
        await model.generate(asked(signal))
    return caught.value


async def says_hello(model: OpenAIChatModel) -> bool:
    return (await model.generate(asked())).content == "hello"


# ---- kept ---------------------------------------------------------------------------------------------------------


async def test_a_connection_carries_one_request_after_another() -> None:
    async with ModelServer([HELLO]) as server:
        for _ in range(3):
            assert await says_hello(model(server))  # also of another model: connections belong to the event loop
        assert server.connections == 1


async def test_200_requests_at_once_wait_for_none_of_the_others() -> None:
    arrived = 0
    all_here = asyncio.Event()

    async def reply() -> AsyncIterator[Step]:
        nonlocal arrived
        arrived += 1
        if arrived == 200:
            all_here.set()
        await all_here.wait()  # nobody is answered before all have asked
        for step in HELLO:
            yield step

    async with ModelServer([lambda _: reply()]) as server:
        one = model(server)
        assert all(await asyncio.gather(*(says_hello(one) for _ in range(200))))
        assert server.connections == 200
        assert all(await asyncio.gather(*(says_hello(one) for _ in range(50))))
        assert server.connections == 200


@pytest.mark.parametrize("end", [CLOSE, RESET])
async def test_a_connection_that_was_closed_between_requests_is_replaced(end: Step) -> None:
    async with ModelServer([[*HELLO, 0.01, end], HELLO]) as server:
        one = model(server)
        assert await says_hello(one)
        await asyncio.sleep(0.1)
        assert await says_hello(one)
        assert (server.connections, len(server.requests)) == (2, 2)


@pytest.mark.parametrize("end", [CLOSE, RESET])
async def test_a_connection_that_closes_as_the_next_request_goes_out_is_replaced_at_once(end: Step) -> None:
    async with ModelServer([HELLO, [end], HELLO]) as server:
        one = model(server)
        assert await says_hello(one)
        assert await says_hello(one)
        assert (server.connections, len(server.requests)) == (2, 3)


async def test_a_server_that_only_ever_closes_is_asked_once_and_no_more() -> None:
    async with ModelServer([[CLOSE]]) as server:
        error = await failure(model(server))
        assert (error.retryable, len(server.requests)) == (True, 1)
        assert "closed the connection without an answer" in str(error)


async def test_answers_that_say_close_or_have_no_end_of_their_own_are_read_whole() -> None:
    body = b"".join(chat_text("hel", "lo"))
    closing = [head(200, {"content-type": "text/event-stream", "connection": "close"}) + body, CLOSE]
    async with ModelServer([closing]) as server:
        one = model(server)
        assert await says_hello(one)
        assert await says_hello(one)
        assert server.connections == 2


@pytest.mark.parametrize("broken", [b"zz\r\n", b"5\r\nhello-and-more\r\n", b"\x00\x01\x02\r\n\r\n"])
async def test_what_comes_together_with_a_broken_chunk_is_shown_before_the_failure(broken: bytes) -> None:
    together = b"".join([stream_head(), *map(chunk, chat_text("hel", "lo")[:-2]), broken])
    async with ModelServer([[together, STALL]]) as server:
        told: list[TokenDelta] = []
        with pytest.raises(ModelRequestError, match="broke off"):
            await model(server).generate(asked(), told.append)
        assert "".join(delta.text for delta in told) == "hello"
        await server.until_gone()


async def test_a_server_that_refuses_a_large_request_before_it_has_read_it_is_heard() -> None:
    accepted: list[asyncio.StreamWriter] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head(413, {"content-length": "9"}) + b"too large")
        await writer.drain()
        while await reader.read(65_536):  # as good servers do: closing at once would lose the answer
            pass

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        one = OpenAIChatModel("m", base_url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
        large = CompletionRequest(model="m", messages=(create_message("user", "x" * 20_000_000),))
        with pytest.raises(ModelRequestError, match="413"):
            await one.generate(large)
        for writer in accepted:  # the connection may rest
            writer.close()
            await writer.wait_closed()


@pytest.mark.parametrize("end", [CLOSE, RESET])
async def test_a_reply_that_was_whole_when_its_connection_broke_counts(end: Step) -> None:
    whole_but_for_done = [stream_head(), *map(chunk, chat_text("hel", "lo")[:-1])]
    async with ModelServer([[*whole_but_for_done, 0.1, end], [*whole_but_for_done[:-1], 0.1, end]]) as server:
        one = model(server)
        assert await says_hello(one)
        assert (await failure(one)).retryable


async def test_a_server_that_says_done_and_leaves_the_stream_open_holds_up_nobody() -> None:
    async with ModelServer([[*HELLO[:-1], STALL], HELLO]) as server:
        one = model(server)
        assert await says_hello(one)
        await server.until_gone()
        assert await says_hello(one)


async def test_what_a_server_sends_unasked_on_a_resting_connection_answers_nothing() -> None:
    late = whole({"error": {"message": "timeout"}}, 408)
    async with ModelServer([[*HELLO, 0.01, late, CLOSE], HELLO]) as server:
        one = model(server)
        assert await says_hello(one)
        await asyncio.sleep(0.1)
        assert await says_hello(one)
        assert server.connections == 2


# ---- time ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "steps",
    [
        [STALL],
        [stream_head(), STALL],
        [stream_head(), chunk(chat_event({"content": "x"})), STALL],
        [b"HTTP/1.1 20", STALL],
    ],
    ids=["no word", "only a head", "a token", "half a head"],
)
async def test_a_server_that_falls_silent_is_left(steps: list[Step]) -> None:
    async with ModelServer([steps, HELLO]) as server:
        one = model(server, timeouts=Timeouts(idle_s=0.8))
        error = await failure(one)
        assert (error.code, error.retryable) == ("timeout", True)
        assert "said nothing for 0.8 s (idle_s)" in str(error)
        await server.until_gone()
        assert await says_hello(one)


async def test_a_server_that_drips_is_left_when_the_whole_time_is_over() -> None:
    drip = [stream_head(), *(step for _ in range(1000) for step in (0.02, chunk(b": still here\n\n")))]
    async with ModelServer([drip, HELLO]) as server:
        one = model(server, timeouts=Timeouts(idle_s=5, total_s=0.4))
        error = await failure(one)
        assert "did not finish within 0.4 s (total_s)" in str(error)
        await server.until_gone()
        assert await says_hello(one)


async def test_a_reply_in_one_piece_may_take_longer_than_a_silence_within_a_stream() -> None:
    reply = whole({"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]})
    async with ModelServer([[0.5, reply]]) as server:
        assert await says_hello(model(server, stream=False, timeouts=Timeouts(idle_s=0.1)))


async def test_a_server_that_takes_no_connections_fails_in_time() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        held = [socket.socket() for _ in range(4)]  # they fill the queue of connections that nobody accepts
        for each in held:
            each.setblocking(False)
            each.connect_ex(listener.getsockname())
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        error = await failure(OpenAIChatModel("m", base_url=url, timeouts=Timeouts(connect_s=0.3)))
        for each in held:
            each.close()
    assert error.retryable
    assert "no connection within 0.3 s" in str(error)


async def test_a_refused_connection_says_where_and_what_to_check() -> None:
    async with ModelServer() as server:
        url = server.url
    error = await failure(OpenAIChatModel("m", base_url=url))
    assert error.retryable
    assert url.removeprefix("http://") in str(error)
    assert "check that a server runs at" in str(error)


async def test_a_name_that_nobody_knows_is_said_in_one_line() -> None:
    error = await failure(OpenAIChatModel("m", base_url="http://no-such-host.invalid/v1"))
    assert "no-such-host.invalid" in str(error)


# ---- cancelled ----------------------------------------------------------------------------------------------------

MOMENTS: dict[str, list[Step]] = {
    "before the head": [STALL],
    "before the first token": [stream_head(), STALL],
    "within a token": [stream_head(), chunk(b'data: {"choi'), STALL],
    "after a token": [stream_head(), chunk(chat_event({"content": "x"})), STALL],
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("by", ["signal", "task", "thread"])
async def test_cancelling_closes_the_connection_and_the_next_request_is_answered(moment: str, by: str) -> None:
    async with ModelServer([MOMENTS[moment], HELLO]) as server:
        one = model(server)
        signal = CancelSignal()
        task = asyncio.ensure_future(one.generate(asked(signal)))
        await server.until_asked()
        await asyncio.sleep(0.05)
        if by == "task":
            task.cancel()
        elif by == "signal":
            signal.cancel("enough")
        else:
            await asyncio.to_thread(signal.cancel, "enough")
        with pytest.raises(asyncio.CancelledError if by == "task" else CancelledByUser):
            await task
        await server.until_gone()
        assert await says_hello(one)


async def test_a_request_whose_signal_is_cancelled_already_is_not_sent() -> None:
    async with ModelServer([HELLO]) as server:
        signal = CancelSignal()
        signal.cancel("no")
        with pytest.raises(CancelledByUser):
            await model(server).generate(asked(signal))
        assert server.connections == 0


async def test_a_connection_attempt_and_a_handshake_can_be_cancelled() -> None:
    with socket.socket() as listener:  # it accepts, and never says a word of TLS
        listener.bind(("127.0.0.1", 0))
        listener.listen(5)
        one = OpenAIChatModel("m", base_url=f"https://127.0.0.1:{listener.getsockname()[1]}")
        task = asyncio.ensure_future(one.generate(asked()))
        accepted, _ = await asyncio.to_thread(listener.accept)
        with accepted:
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            accepted.settimeout(5)
            while await asyncio.to_thread(accepted.recv, 65536):
                pass  # until the client has closed


# ---- event loops --------------------------------------------------------------------------------------------------

PROGRAM = """
import asyncio, gc, sys
sys.path.insert(0, {tests!r})
from model_server import *
from kestrel_nb.protocol.messages import create_message
from kestrel_nb.providers import OpenAIChatModel
from kestrel_nb.runtime.models import CompletionRequest, TokenDelta

request = CompletionRequest(model="m", messages=(create_message("user", "hi"),))

async def main():
    stalled = [stream_head(), chunk(chat_event({{"content": "x"}})), STALL]
    async with ModelServer([streamed(*chat_text("hel", "lo")), stalled]) as server:
        one = OpenAIChatModel("m", base_url=server.url)
        print((await one.generate(request)).content)
        {then}

{run}
gc.collect()
"""
CLEAN_ENDS = {
    "one loop after another": ("pass", "asyncio.run(main())\nasyncio.run(main())"),
    "a request under way": (
        "task = asyncio.ensure_future(one.generate(request)); await asyncio.sleep(0.1)\n        "
        "task.add_done_callback(lambda done: done.cancelled() or done.exception())",
        "asyncio.run(main())",
    ),
    "cancelled midway": (
        "task = asyncio.ensure_future(one.generate(request)); await asyncio.sleep(0.1); task.cancel()",
        "asyncio.run(main())",
    ),
    "a loop in a thread": (
        "pass",
        "import threading\nthread = threading.Thread(target=asyncio.run, args=[main()])\nthread.start()\nthread.join()",
    ),
}


@pytest.mark.parametrize("end", CLEAN_ENDS)
def test_nothing_is_printed_when_an_event_loop_ends(end: str) -> None:
    then, run = CLEAN_ENDS[end]
    code = textwrap.dedent(PROGRAM).format(tests=str(TESTS), then=then, run=run)
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stderr, set(done.stdout.split())) == ("", {"hello"})
    assert done.returncode == 0


def test_a_process_that_just_ends_prints_nothing() -> None:
    program = PROGRAM.format(tests=str(TESTS), then="pass", run="loop = asyncio.new_event_loop()")
    code = f"{program}\nloop.run_until_complete(main())\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stderr, done.stdout, done.returncode) == ("", "hello\n", 0)


async def test_unused_connections_can_be_closed_and_made_again() -> None:
    async with ModelServer([HELLO]) as server:
        one = model(server)
        assert await says_hello(one)
        await close_connections()
        assert await says_hello(one)
        assert server.connections == 2


# ---- TLS and proxies ----------------------------------------------------------------------------------------------


@pytest.fixture
def fresh_trust() -> Iterator[None]:
    """Certificates are trusted by what the environment says during the test."""
    trusted.cache_clear()
    yield
    trusted.cache_clear()


def to_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name leads to this machine."""
    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *rest, **more: real("127.0.0.1", *rest, **more))


async def test_tls_with_an_authority_of_ones_own(monkeypatch: pytest.MonkeyPatch, fresh_trust: None) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(DATA / "authority.pem"))
    to_loopback(monkeypatch)
    names: list[str | None] = []
    async with ModelServer([HELLO], tls=server_tls(names)) as server:
        one = OpenAIChatModel("m", base_url=f"https://a.test:{server.port}/v1")
        assert await says_hello(one)
        assert await says_hello(one)
        assert (server.connections, names) == (1, ["a.test"])
        assert server.requests[0].headers["host"] == f"a.test:{server.port}"


async def test_a_certificate_that_is_not_trusted_is_told_in_clear_words(fresh_trust: None) -> None:
    async with ModelServer([HELLO], tls=server_tls([])) as server:
        error = await failure(OpenAIChatModel("m", base_url=f"https://127.0.0.1:{server.port}", api_key="k-123456"))
        assert not error.retryable
        assert "certificate" in str(error)
        assert "SSL_CERT_FILE" in str(error)
        assert server.requests == []


async def test_a_proxy_of_the_environment_is_used_for_other_machines_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ModelServer([HELLO]) as proxy, ModelServer([HELLO]) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        assert await says_hello(OpenAIChatModel("m", base_url="http://model.test/v1"))
        assert proxy.requests[0].target == "http://model.test/v1/chat/completions"
        for host in ("127.0.0.1", "localhost"):
            assert await says_hello(OpenAIChatModel("m", base_url=f"http://{host}:{server.port}"))
        assert (len(proxy.requests), len(server.requests)) == (1, 2)
        monkeypatch.setenv("NO_PROXY", "model.test")
        to_loopback(monkeypatch)
        assert await says_hello(OpenAIChatModel("m", base_url=f"http://model.test:{server.port}"))
        assert (len(proxy.requests), len(server.requests)) == (1, 3)


async def test_the_way_through_a_proxy_to_tls_is_a_tunnel(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ModelServer([whole(b"", 502)]) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.removeprefix("http://"))
        error = await failure(OpenAIChatModel("m", base_url="https://model.test/v1", api_key="sk-tunnel-1234567"))
        assert (proxy.requests[0].method, proxy.requests[0].target) == ("CONNECT", "model.test:443")
        assert "authorization" not in proxy.requests[0].headers
        assert "sk-tunnel-1234567" not in str(error)


async def test_a_proxy_of_another_kind_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://user:secret@127.0.0.1:9")
    error = await failure(OpenAIChatModel("m", base_url="http://model.test/v1"))
    assert "socks5" in str(error)
    assert "secret" not in str(error)


# ---- what is not plain --------------------------------------------------------------------------------------------


def packed(way: str, data: bytes) -> bytes:
    return gzip.compress(data) if way == "gzip" else zlib.compress(data)


@pytest.mark.parametrize("way", ["gzip", "deflate"])
@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_a_reply_that_comes_compressed_unasked_is_read(way: str, size: int) -> None:
    data = packed(way, b"".join(chat_text("hel", "lo")))
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    reply = [stream_head(headers={"content-encoding": way}), *map(chunk, pieces), LAST_CHUNK]
    async with ModelServer([reply]) as server:
        assert await says_hello(model(server))
        assert server.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(("coding", "data"), [("zstd", b"x"), ("gzip", b"not gzip at all"), ("gzip, br", b"x")])
async def test_a_reply_in_an_unknown_or_broken_compression_is_an_error(coding: str, data: bytes) -> None:
    async with ModelServer([whole(data, headers={"content-encoding": coding})]) as server:
        assert "could not be reached or broke off" in str(await failure(model(server)))


async def test_a_small_reply_that_unpacks_to_no_end_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    from kestrel_nb.providers import http

    monkeypatch.setattr(http, "MAX_REPLY_BYTES", 3_000_000)
    bomb = gzip.compress(b"{" + b" " * 50_000_000, 1)
    async with ModelServer([whole(bomb, headers={"content-encoding": "gzip"})]) as server:
        assert "more than 3,000,000 bytes" in str(await failure(model(server, stream=False)))


async def test_a_key_is_never_sent_where_a_redirect_points() -> None:
    async with ModelServer([HELLO]) as other:
        target = f"{other.url}/v1/chat/completions"
        async with ModelServer([lambda _: whole(b"", status, {"location": target})]) as server:
            for status in (301, 302, 303, 307, 308):
                error = await failure(model(server, api_key="sk-abcdefgh1234"))
                assert (error.status, error.retryable) == (status, False)
                assert f"{other.url}/v1" in str(error)
                assert "base URL" in str(error)
        assert other.requests == []


async def test_a_request_is_the_bytes_of_the_wire_and_no_more() -> None:
    seen: list[Asked] = []
    async with ModelServer([lambda asked: seen.append(asked) or HELLO]) as server:
        await model(server, headers={"X-Team": "blue"}, api_key="k-123456").generate(asked())
    (request,) = seen
    assert (request.method, request.target) == ("POST", "/chat/completions")
    assert set(request.headers) == {
        "host", "content-type", "content-length", "accept", "accept-encoding", "user-agent", "authorization", "x-team",
    }  # fmt: skip
