"""Requests through the guard, on loopback servers that stand for public ones."""

import asyncio
import gc
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from ipaddress import IPv4Network, IPv6Network
from itertools import chain
from pathlib import Path
from typing import Any, cast

import pytest
from web_server import DATA, PUBLIC, Page, Seen, Web, page, redirect

from kestrel_nb.protocol.errors import CancelledByUser
from kestrel_nb.runtime.signals import CancelSignal
from kestrel_nb.sandbox.addresses import METADATA, PRIVATE, SPECIAL
from kestrel_nb.sandbox.network import MAX_REDIRECTS, METHODS, Network, NetworkError, Response

CASES = {row["id"]: row for row in map(json.loads, (DATA.parent / "cases/cases.jsonl").read_text("utf-8").splitlines())}
LIMITS: dict[str, Any] = {"timeout_s": 20, "max_bytes": 100_000}


async def get(web: Web, url: str = "http://pub.test/", method: str = "GET", **options: Any) -> Response:
    return await web.network().fetch(method, url, **LIMITS | options)


async def refused(fetching: Awaitable[Response]) -> NetworkError:
    with pytest.raises(NetworkError) as caught:
        await fetching
    assert str(caught.value)
    assert str(caught.value).isprintable()
    return caught.value


class TestAnswers:
    async def test_an_answer_comes_with_its_parts(self) -> None:
        async with Web({"pub.test/a?b=c": page("héllo", "201 Made It", x_one="1", X_ONE="2")}) as web:
            response = await get(web, "http://PUB.test/a?b=c#d")
        assert (response.status, response.reason) == (201, "Made It")
        assert response.body.decode() == "héllo"
        assert response.headers == {"content-length": "6", "x-one": "1, 2"}
        assert response.url == "http://pub.test/a?b=c"
        assert not response.truncated

    @pytest.mark.parametrize("method", METHODS)
    async def test_each_method_sends_what_it_should(self, method: str) -> None:
        async with Web({"pub.test/": page()}) as web:
            await get(web, method=method, body="ä".encode() if method != "GET" else None, headers={"X-Y": "z"})
            seen = web.seen[0]
        assert seen.line == f"{method} / HTTP/1.1"
        assert seen.body == (b"" if method == "GET" else "ä".encode())
        assert seen.headers["host"] == "pub.test"
        assert seen.headers["x-y"] == "z"
        assert seen.headers["connection"] == "close"

    async def test_a_post_without_a_body_says_so(self) -> None:
        async with Web({"pub.test/": page()}) as web:
            await get(web, method="POST")
            assert web.seen[0].headers["content-length"] == "0"

    async def test_another_port_is_in_the_host_header(self) -> None:
        async with Web({"pub.test/": page()}) as web:
            await get(web, "http://pub.test:8081/")
            assert web.seen[0].headers["host"] == "pub.test:8081"
            assert web.dialled == [(PUBLIC, 8081)]

    @pytest.mark.parametrize("method", ["CONNECT", "TRACE", "OPTIONS", "HEAD", "get", "GET / HTTP/1.1\r\nX: y", ""])
    async def test_other_methods_are_refused(self, method: str) -> None:
        async with Web() as web:
            assert (await refused(get(web, method=method))).code == "network_refused"
            assert web.lookups == []

    async def test_early_hints_and_continue_are_passed_over(self) -> None:
        hints = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
        async with Web({"pub.test/": hints + page("real")}) as web:
            assert (await get(web)).body == b"real"


class TestJudging:
    async def test_a_name_is_looked_up_once_and_the_judged_address_is_dialled(self) -> None:
        async with Web({"rebind.test/": page()}, dns={"rebind.test": [[PUBLIC], ["127.0.0.1"]]}) as web:
            assert (await get(web, "http://rebind.test/")).status == 200
            assert web.lookups == ["rebind.test"]
            assert web.dialled == [(PUBLIC, 80)]

    async def test_the_second_answer_is_judged_too(self) -> None:
        async with Web({"rebind.test/": redirect("/again")}, dns={"rebind.test": [[PUBLIC], ["127.0.0.1"]]}) as web:
            assert (await refused(get(web, "http://rebind.test/"))).code == "network_refused"
            assert web.dialled == [(PUBLIC, 80)]

    @pytest.mark.parametrize(
        "answers",
        [
            ["10.0.0.1"],
            [PUBLIC, "10.0.0.1"],
            ["::1", PUBLIC],
            ["::ffff:127.0.0.1"],
            ["fe80::1%eth0"],
            ["nonsense"],
            [""],
        ],
    )
    async def test_one_bad_address_refuses_all(self, answers: list[str]) -> None:
        async with Web(dns={"mixed.test": [answers]}) as web:
            error = await refused(get(web, "http://mixed.test/"))
            assert error.code == "network_refused"
            assert "10.0.0.1" not in str(error)  # the inside of a network is nothing to tell a model
            assert web.dialled == []

    async def test_an_ip_address_is_not_looked_up(self) -> None:
        async with Web({"8.8.8.8/": page()}) as web:
            await get(web, "http://0x08080808/")
            assert web.lookups == []
            assert web.dialled == [("8.8.8.8", 80)]

    async def test_the_next_address_is_tried_when_one_does_not_answer(self) -> None:
        async with Web({"two.test/": page()}, dns={"two.test": [["2606:4700::1", PUBLIC]]}) as web:

            def dial(address: str, port: int) -> tuple[str, int]:
                return web.dial(address, port) if address == PUBLIC else ("127.0.0.1", closed_port())

            response = await web.network(dial=dial).fetch("GET", "http://two.test/", **LIMITS)
        assert response.status == 200

    @pytest.mark.parametrize(
        "error", [OSError(5, "no such name"), UnicodeError("label too long"), socket.gaierror(-2, "unknown")]
    )
    async def test_a_look_up_that_fails_is_an_error(self, error: Exception) -> None:
        def resolve(host: str) -> list[str]:
            raise error

        found = await refused(Network(resolve=resolve).fetch("GET", "http://gone.test/", **LIMITS))
        assert found.code == "network_failed"
        assert "gone.test" in str(found)

    async def test_a_name_without_addresses_is_an_error(self) -> None:
        assert (await refused(Network(resolve=lambda _: []).fetch("GET", "http://gone.test/", **LIMITS))).code

    async def test_a_server_that_is_not_there_is_an_error(self) -> None:
        network = Network(resolve=lambda _: [PUBLIC], dial=lambda *_: ("127.0.0.1", closed_port()))
        assert "could not be reached" in str(await refused(network.fetch("GET", "http://pub.test/", **LIMITS)))

    async def test_private_networks_can_be_allowed(self) -> None:
        async with Web({"127.0.0.1/": page("mine"), "localhost/": page("mine")}) as web:
            network = Network(allow_private=True)
            for host in ("127.0.0.1", "localhost", "127.1"):
                response = await network.fetch("GET", f"http://{host}:{web.port}/", **LIMITS)
                assert response.body == b"mine"

    @pytest.mark.parametrize(
        "url",
        [
            "file:///etc/passwd",
            "http://169.254.169.254/",
            "http://[fd00:ec2::254]/",
            "http://0.0.0.0/",
            "ftp://127.0.0.1/",
        ],
    )
    async def test_but_no_other_scheme_and_no_metadata(self, url: str) -> None:
        async with Web() as web:
            await refused(web.network(allow_private=True).fetch("GET", url, **LIMITS))
            assert web.dialled == []


class TestN02:
    @pytest.mark.parametrize("url", CASES["N02"]["input"]["urls"])
    async def test_n02_other_spellings_of_internal_addresses(self, url: str) -> None:
        """With the real look-up and real sockets, on the port of a real server that must not hear anything."""
        connections = 0

        def connected(_: Any, writer: asyncio.StreamWriter) -> None:
            nonlocal connections
            connections += 1
            writer.close()

        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        for address in (url, f"{url.rstrip('/')}:{port}/"):
            assert (await refused(Network().fetch("GET", address, **LIMITS))).code in ("network_refused", "invalid_url")
        server.close()
        await server.wait_closed()
        assert connections == 0


FORBIDDEN = [
    *("http://169.254.169.254/latest/meta-data/", "http://127.0.0.1:8000/", "http://[::1]/", "http://localhost/", "http://10.0.0.1/"),
    *("http://172.16.0.1/", "http://192.168.0.1/", "http://100.64.0.1/", "http://0.0.0.0/", "http://192.0.0.192/"),
    *("http://198.18.0.1/", "http://203.0.113.1/", "http://224.0.0.1/", "http://255.255.255.255/", "http://168.63.129.16/"),
    *("http://[fd00::1]/", "http://[fe80::1]/", "http://[ff02::1]/", "http://[5f00::1]/", "http://[::ffff:10.0.0.1]/"),
    *("http://[64:ff9b::a00:1]/", "http://[2002:a00:1::]/", "http://2130706433/", "//127.0.0.1/", "http://inside.test/"),
    *("file:///etc/passwd", "ftp://pub.test/", "gopher://pub.test/", "javascript:alert(1)", "data:text/plain,x", "http://[::1%25lo]/"),
    *("http://u:p@pub.test/", "http://pub.test:25/", "http:\\\\127.0.0.1\\", "http://pub.test:99999/", "http://", "http://\x80/"),
]  # fmt: skip


class TestRedirects:
    @pytest.mark.parametrize("location", FORBIDDEN)
    @pytest.mark.parametrize("status", ["301 Moved", "307 Temporary Redirect"])
    async def test_n01_a_redirect_to_a_forbidden_place_is_refused(self, location: str, status: str) -> None:
        pages: dict[str, Page] = {"pub.test/": redirect("http://b.test/"), "b.test/": redirect(location, status)}
        async with Web(pages, dns={"inside.test": [["10.1.2.3"]]}) as web:
            assert (await refused(get(web))).code in ("network_refused", "invalid_url")
            assert web.dialled == [(PUBLIC, 80)] * 2

    @pytest.mark.parametrize("network", [*METADATA, *chain(*PRIVATE.values()), *chain(*SPECIAL.values())], ids=str)
    async def test_n01_a_redirect_to_any_special_block_is_refused(self, network: IPv4Network | IPv6Network) -> None:
        hosts = [f"[{address}]" if network.version == 6 else str(address) for address in (network[0], network[-1])]
        async with Web({f"pub.test/{place}": redirect(f"http://{host}/") for place, host in enumerate(hosts)}) as web:
            for place in range(len(hosts)):
                assert (await refused(get(web, f"http://pub.test/{place}"))).code == "network_refused"
            assert {address for address, _ in web.dialled} == {PUBLIC}

    async def test_n01_a_loop_ends_with_an_error(self) -> None:
        async with Web({"pub.test/": redirect("http://b.test/"), "b.test/": redirect("http://pub.test/")}) as web:
            assert f"{MAX_REDIRECTS} redirects" in str(await refused(get(web)))
            assert len(web.seen) == MAX_REDIRECTS + 1

    async def test_an_endless_chain_ends_with_an_error(self) -> None:
        async def further(seen: Seen, writer: asyncio.StreamWriter) -> None:
            writer.write(redirect(f"{seen.target}x"))

        pages: dict[str, Page] = {f"pub.test/{'x' * count}": further for count in range(30)}
        async with Web(pages) as web:
            await refused(get(web))
            assert len(web.seen) == MAX_REDIRECTS + 1

    async def test_the_longest_chain_that_is_followed(self) -> None:
        pages: dict[str, Page] = {f"pub.test/{count}": redirect(str(count + 1)) for count in range(MAX_REDIRECTS)}
        pages[f"pub.test/{MAX_REDIRECTS}"] = page("there")
        async with Web(pages) as web:
            response = await get(web, "http://pub.test/0")
        assert response.body == b"there"
        assert response.url == f"http://pub.test/{MAX_REDIRECTS}"

    @pytest.mark.parametrize(
        ("status", "method", "then"),
        [
            *(
                (301, "POST", "GET"),
                (302, "POST", "GET"),
                (303, "POST", "GET"),
                (307, "POST", "POST"),
                (308, "POST", "POST"),
            ),
            *(
                (301, "PUT", "PUT"),
                (302, "PATCH", "PATCH"),
                (303, "PUT", "GET"),
                (303, "DELETE", "GET"),
                (302, "DELETE", "DELETE"),
            ),
            *((302, "GET", "GET"), (308, "GET", "GET")),
        ],
    )
    async def test_the_method_changes_as_in_browsers(self, status: int, method: str, then: str) -> None:
        async with Web({"pub.test/": redirect("/next", f"{status} X"), "pub.test/next": page()}) as web:
            body = None if method in ("GET", "DELETE") else b"data"
            await get(web, method=method, body=body, headers={"Content-Type": "text/x", "X-Own": "1"})
            last = web.seen[-1]
        assert last.method == then
        assert last.body == (body or b"" if then == method else b"")
        assert ("content-type" in last.headers) == (then == method)
        assert last.headers["x-own"] == "1"

    @pytest.mark.parametrize("to", ["http://b.test/", "https://a.test/", "http://a.test:8080/"])
    async def test_secrets_stay_with_their_origin(self, to: str, tls_trusted: None) -> None:
        host = to.split("/")[2].split(":")[0]
        secrets = {"Authorization": "Bearer S", "Cookie": "c=1", "X-Api-Key": "S", "X-Custom": "S"}
        pages: dict[str, Page] = {
            "a.test/go": redirect(to),
            f"{host}/": redirect("http://a.test/back"),
            "a.test/back": page(),
        }
        async with Web(pages) as web:
            await get(web, "http://a.test/go", headers=secrets | {"Accept": "text/x", "User-Agent": "me"})
            first, second, third = web.seen
        assert {name.lower() for name in secrets} <= set(first.headers)
        assert "S" not in second.headers.values()
        assert (second.headers["accept"], second.headers["user-agent"]) == ("text/x", "me")
        assert "cookie" not in second.headers
        assert not {name.lower() for name in secrets} & set(third.headers)  # coming back does not bring them back

    async def test_secrets_stay_on_a_relative_redirect(self) -> None:
        async with Web({"a.test/": redirect("/x"), "a.test/x": page()}) as web:
            await get(web, "http://a.test/", headers={"Authorization": "Bearer S"})
            assert web.seen[1].headers["authorization"] == "Bearer S"

    async def test_cookies_that_a_server_sets_are_not_kept(self) -> None:
        async with Web({"a.test/": page(status="302 F", location="/x", set_cookie="k=v"), "a.test/x": page()}) as web:
            await get(web, "http://a.test/")
            assert "cookie" not in web.seen[1].headers

    @pytest.mark.parametrize(
        "answer",
        [
            page("stay", "302 Found"),
            page("stay", "302 Found", location=""),
            page("stay", "300 Many", location="/x"),
            page("stay", "304 Same", location="/x", content_length="0"),
        ],
    )
    async def test_a_redirect_to_nowhere_is_an_answer(self, answer: bytes) -> None:
        async with Web({"pub.test/": answer}) as web:
            assert (await get(web)).status in (300, 302, 304)
            assert len(web.seen) == 1


class TestHeaders:
    @pytest.mark.parametrize(
        "headers",
        [
            *(
                {"X": "a\r\nY: b"},
                {"X": "a\nb"},
                {"X": "a\rb"},
                {"X": "a\0b"},
                {"X\r\nY": "b"},
                {"X Y": "b"},
                {"": "b"},
            ),
            *(
                {"X:": "b"},
                {"Ü": "b"},
                {"X": "\u20ac"},
                {"X": "\ud800"},
                {"X": None},
                {"X": ["a"]},
                {"X": True},
                {"X": {}},
            ),
            *({"X": "a", "x": "b"}, {"X": "a" * 40_000}, {f"x-{n}": "a" * 100 for n in range(400)}, {"X": "a\x7f"}),
        ],
    )
    async def test_what_http_can_not_carry_is_refused(self, headers: dict[str, Any]) -> None:
        async with Web({"pub.test/": page()}) as web:
            error = await refused(get(web, headers=headers))
            assert error.code == "network_refused"
            assert len(str(error)) < 400
            assert web.lookups == []

    async def test_headers_about_the_connection_are_not_the_callers(self) -> None:
        given = {
            "Host": "evil.test",
            "Content-Length": "999",
            "Transfer-Encoding": "chunked",
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Proxy-Authorization": "Basic x",
            "Proxy-Connection": "keep-alive",
            "TE": "trailers",
            "Expect": "100-continue",
            "Accept-Encoding": "br",
            "Keep-Alive": "x",
            "Sec-WebSocket-Key": "x",
        }
        async with Web({"pub.test/": page()}) as web:
            await get(web, method="POST", body=b"x", headers=given)
            sent = web.seen[0].headers
        own = {"host": "pub.test", "content-length": "1", "connection": "close", "accept-encoding": "gzip, deflate"}
        assert sent == own | {"accept": "*/*", "user-agent": "kestrel-nb"}

    async def test_values_of_latin_1_and_numbers_arrive(self) -> None:
        async with Web({"pub.test/": page()}) as web:
            await get(web, headers={"X-Name": "café", "X-Number": 7, "X-Space": "  a b  "})
            sent = web.seen[0].headers
        assert (sent["x-name"], sent["x-number"], sent["x-space"]) == ("café", "7", "a b")


class TestEnvironment:
    async def test_proxies_of_the_environment_are_not_used(self, monkeypatch: pytest.MonkeyPatch) -> None:
        hits: list[Any] = []
        proxy = await asyncio.start_server(lambda _, writer: (hits.append(1), writer.close()), "127.0.0.1", 0)
        address = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, address)
            monkeypatch.setenv(name.lower(), address)
        monkeypatch.delenv("NO_PROXY", raising=False)
        async with Web({"pub.test/": page("direct")}) as web:
            assert (await get(web)).body == b"direct"
            await refused(get(web, "https://pub.test/"))
        proxy.close()
        await proxy.wait_closed()
        assert hits == []

    async def test_netrc_is_not_read(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        (tmp_path / ".netrc").write_text("machine pub.test login me password S\ndefault login me password S\n")
        monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
        monkeypatch.setenv("HOME", str(tmp_path))
        async with Web({"pub.test/": page()}) as web:
            await get(web)
            assert "authorization" not in web.seen[0].headers


class TestTLS:
    async def test_the_name_is_checked_and_not_the_address(self, tls_trusted: None) -> None:
        async with Web({"pub.test/": page("safe"), "8.8.8.8/": page("safe")}) as web:
            for host in ("pub.test", "8.8.8.8"):
                assert (await get(web, f"https://{host}/")).body == b"safe"
            assert web.seen[0].tls
            assert web.sni == ["pub.test", None]
            assert web.seen[0].headers["host"] == "pub.test"
            assert "not trusted" in str(await refused(get(web, "https://other.test/")))

    async def test_an_authority_that_nobody_knows_is_not_trusted(self) -> None:
        async with Web({"pub.test/": page("unsafe")}) as web:
            assert "not trusted" in str(await refused(get(web, "https://pub.test/")))
            assert web.seen == []

    async def test_a_server_without_tls_is_an_error(self) -> None:
        async with raw_server(b"HTTP/1.1 400 Bad Request\r\n\r\n") as network:
            error = await refused(network.fetch("GET", "https://pub.test/", **LIMITS))
        assert error.code == "network_failed"


class TestTime:
    async def test_a_slow_look_up_counts(self) -> None:
        release = threading.Event()

        def resolve(host: str) -> list[str]:
            release.wait(20)
            return [PUBLIC]

        error = await refused(Network(resolve=resolve).fetch("GET", "http://slow.test/", timeout_s=0.3, max_bytes=10))
        release.set()
        assert (error.code, str(error)) == ("network_timeout", "Request timeout after 300ms")

    @pytest.mark.parametrize("what", ["head", "body", "nothing", "hints", "redirects"])
    async def test_a_server_that_drips_is_ended_at_the_limit(self, what: str) -> None:
        async def drip(seen: Seen, writer: asyncio.StreamWriter) -> None:
            beginning = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" if what == "body" else b""
            pieces = {
                "hints": b"HTTP/1.1 103 Early\r\n\r\n",
                "head": b"H",
                "nothing": b"",
                "body": b"x",
                "redirects": b"",
            }
            if what == "redirects":
                await asyncio.sleep(0.15)
                writer.write(redirect(f"{seen.target}x"))
                return
            writer.write(beginning)
            while True:
                writer.write(pieces[what])
                await asyncio.sleep(0.05)

        pages: dict[str, Page] = {f"pub.test/{'x' * count}": drip for count in range(20)}
        async with Web(pages) as web:
            began = time.monotonic()
            if what == "head":
                pages["pub.test/"] = drip_header
            error = await refused(get(web, timeout_s=0.5))
            assert time.monotonic() - began < 5
        assert (error.code, str(error)) == ("network_timeout", "Request timeout after 500ms")

    async def test_a_server_that_takes_no_tls_handshake_is_ended(self) -> None:
        async with raw_server(b"") as network:
            error = await refused(network.fetch("GET", "https://pub.test/", timeout_s=0.3, max_bytes=10))
        assert error.code == "network_timeout"
        gc.collect()  # an open socket would warn, which fails the test

    @pytest.mark.parametrize("how", ["stop", "cancel"])
    @pytest.mark.parametrize("where", ["look-up", "body"])
    async def test_it_ends_at_once_when_stopped(self, how: str, where: str) -> None:
        async def drip(_: Seen, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            begun.set()
            await asyncio.sleep(20)

        loop, begun, release, signal = asyncio.get_running_loop(), asyncio.Event(), threading.Event(), CancelSignal()

        def resolve(host: str) -> list[str]:
            if where == "look-up":
                loop.call_soon_threadsafe(begun.set)
                release.wait(20)
            return [PUBLIC]

        async with Web({"pub.test/": drip}) as web:
            work = web.network(resolve=resolve).fetch("GET", "http://pub.test/", **LIMITS, stop=signal.wait)
            task = asyncio.ensure_future(work)
            await begun.wait()
            began = time.monotonic()
            signal.cancel() if how == "stop" else task.cancel()
            with pytest.raises(CancelledByUser if how == "stop" else asyncio.CancelledError):
                await task
            assert time.monotonic() - began < 1
            release.set()


def test_one_network_serves_several_event_loops() -> None:
    network = Network(allow_private=True)

    async def once() -> bytes:
        async with Web({"127.0.0.1/": page("again")}) as web:
            return (await network.fetch("GET", f"http://127.0.0.1:{web.port}/", **LIMITS)).body

    assert [asyncio.run(once()) for _ in range(3)] == [b"again"] * 3
    results: list[bytes] = []
    threads = [threading.Thread(target=lambda: results.append(asyncio.run(once()))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [b"again"] * 4


async def test_many_requests_at_once() -> None:
    async with Web({"pub.test/": page("x" * 1000)}) as web:
        network = web.network()
        answers = await asyncio.gather(*(network.fetch("GET", "http://pub.test/", **LIMITS) for _ in range(50)))
    assert {answer.body for answer in answers} == {b"x" * 1000}


async def drip_header(_: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while True:
        writer.write(b"x")
        await asyncio.sleep(0.05)


@asynccontextmanager
async def raw_server(greeting: bytes) -> AsyncIterator[Network]:
    """A network that leads to a server which says ``greeting`` to everybody and then waits for the other to go."""
    gone: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gone.append(cast("asyncio.Task[None]", asyncio.current_task()))
        with suppress(ConnectionError):
            writer.write(greeting)
            if greeting:
                writer.write_eof()
            await reader.read()
            writer.close()
            await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    yield Network(resolve=lambda _: [PUBLIC], dial=lambda *_: ("127.0.0.1", port))
    server.close()
    await asyncio.wait_for(asyncio.gather(*gone), 10)  # it hears that the connection was closed


def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@pytest.fixture
def tls_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The authority of the test servers is the one of the system."""
    monkeypatch.setenv("SSL_CERT_FILE", str(DATA / "authority.pem"))
