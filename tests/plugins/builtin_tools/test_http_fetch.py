"""http-fetch: what is asked, what is sent, and what comes back."""

import asyncio
import base64
import gzip
import json
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from fetching import Fetcher, is_failure
from stage import Stage
from web_server import DATA, Seen, Web, page, redirect

from kestrel_nb import BuiltInToolConfig, HttpFetchConfig, Kestrel
from kestrel_nb.plugins.builtin_tools.http_fetch import CHANGED, HttpFetch
from kestrel_nb.protocol.sessions import ApprovalDecision
from kestrel_nb.protocol.tools import RequestPreview, TextPreview
from kestrel_nb.runtime.signals import CancelSignal
from kestrel_nb.runtime.tools import ToolContext
from kestrel_nb.sandbox.addresses import refusal
from kestrel_nb.testing import Reply, ScriptedModel

NAUGHTY = [json.loads(line) for line in (DATA.parent / "naughty/naughty.jsonl").read_text("utf-8").split("\n") if line]
STRINGS = [row["input"]["text"] if isinstance(row["input"], dict) else row["input"] for row in NAUGHTY]


async def fetched(answer: Any, config: Mapping[str, Any] | None = None, **arguments: Any) -> Any:
    async with Web({"pub.test/": answer}) as web:
        return await Fetcher(web, **(config or {}))(url="http://pub.test/", **arguments)


class TestAnswers:
    async def test_the_shape_is_the_one_that_is_documented(self) -> None:
        data = await fetched(page('{"login": "kestrel"}', content_type="application/json"))
        assert data == {
            "status": 200,
            "statusText": "OK",
            "headers": {"content-length": "20", "content-type": "application/json"},
            "body": '{"login": "kestrel"}',
        }

    @pytest.mark.parametrize(
        "status", ["201 Created", "204 No Content", "404 Not Found", "500 Oh no", "418 I'm a teapot"]
    )
    async def test_any_status_is_an_answer(self, status: str) -> None:
        data = await fetched(page("" if "204" in status else "text", status))
        assert f"{data['status']} {data['statusText']}" == status
        assert "error" not in data

    async def test_a_long_body_is_cut_and_says_so(self) -> None:
        data = await fetched(page("é" * 1000, content_type="text/plain"), {"max_response_bytes": 101})
        assert (data["body"], data["truncated"]) == ("é" * 50, True)
        assert "truncated" not in await fetched(page("é" * 1000), {"max_response_bytes": 2000})

    async def test_the_limit_counts_what_was_unpacked(self) -> None:
        packed = page(gzip.compress(b"x" * 10_000_000), content_encoding="gzip")
        data = await fetched(packed, {"max_response_bytes": 5_000})
        assert (len(data["body"]), data["truncated"]) == (5_000, True)

    async def test_the_charset_of_the_header_is_used(self) -> None:
        answer = page(b"caf\xe9 \xa35", content_type="text/plain; charset=iso-8859-1")
        assert (await fetched(answer))["body"] == "café £5"

    async def test_a_body_that_is_no_text_comes_as_base64(self) -> None:
        picture = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
        data = await fetched(page(picture, content_type="image/png"))
        assert data["bodyEncoding"] == "base64"
        assert base64.b64decode(data["body"]) == picture

    async def test_odd_headers_come_as_json(self) -> None:
        data = await fetched(page(x_odd="\udcff\udce4", x_two="a,b"))
        assert data["headers"]["x-odd"] == "ÿä"
        assert data["headers"]["x-two"] == "a,b"

    async def test_redirects_are_followed(self) -> None:
        async with Web(
            {"pub.test/": redirect("https://nowhere.test/"), "a.test/": redirect("/b"), "a.test/b": page("there")}
        ) as web:
            fetch = Fetcher(web)
            assert (await fetch(url="http://a.test/"))["body"] == "there"
            assert is_failure(await fetch(url="http://pub.test/"))  # a certificate that nobody trusts


class TestSending:
    async def test_a_post_as_in_the_documentation(self) -> None:
        async with Web({"pub.test/data": page("{}", "201 Created")}) as web:
            data = await Fetcher(web)(
                url="http://pub.test/data",
                method="POST",
                headers={"Content-Type": "application/json", "Authorization": "Bearer sk-secret"},
                body='{"name": "tëst"}',
            )
            seen = web.seen[0]
        assert data["status"] == 201
        assert (seen.method, seen.body.decode()) == ("POST", '{"name": "tëst"}')
        assert seen.headers["authorization"] == "Bearer sk-secret"
        assert seen.headers["content-type"] == "application/json"

    @pytest.mark.parametrize("method", ["GET", "DELETE", "get", "POST", "PUT", "PATCH", "patch"])
    async def test_a_body_goes_out_with_the_methods_that_have_one(self, method: str) -> None:
        async with Web({"pub.test/": page()}) as web:
            fetch = Fetcher(web)
            await fetch(url="http://pub.test/", method=method, body="data")
            expected = b"data" if method.upper() in ("POST", "PUT", "PATCH") else b""
            assert (web.seen[0].method, web.seen[0].body) == (method.upper(), expected)
            assert (fetch.asked[0].preview.body or "").encode() == expected

    @pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "TRACE", "CONNECT", "GET\r\n", "", " ", "ＧＥＴ", "\ud800"])
    async def test_other_methods_are_an_error_object(self, method: str) -> None:
        async with Web({"pub.test/": page()}) as web:
            data = await Fetcher(web)(url="http://pub.test/", method=method)
            assert is_failure(data) or method == ""
            assert web.dialled == [] or method == ""

    @pytest.mark.parametrize(
        "arguments",
        [
            *(
                {"headers": {"X": "a\r\nb"}},
                {"headers": {"X": None}},
                {"headers": {"X Y": "a"}},
                {"headers": {"X": {}}},
            ),
            *(
                {"body": "\ud800", "method": "POST"},
                {"url": "http://127.0.0.1/"},
                {"url": ""},
                {"url": "http://\ud800/"},
            ),
        ],
    )
    async def test_what_can_not_be_sent_is_an_error_object(self, arguments: dict[str, Any]) -> None:
        async with Web() as web:
            assert is_failure(await Fetcher(web)(**{"url": "http://pub.test/"} | arguments))
            assert web.dialled == []


class TestTime:
    async def test_a_time_limit_reads_as_documented(self) -> None:
        data = await fetched(hang, timeout=200)
        assert data == {"error": True, "message": "Request timeout after 200ms"}

    @pytest.mark.parametrize("asked", [{}, {"timeout": 200}, {"timeout": 60_000}, {"timeout": 1e300}])
    async def test_the_configured_limit_is_a_ceiling(self, asked: dict[str, float]) -> None:
        assert (await fetched(hang, {"timeout_ms": 200}, **asked))["message"] == "Request timeout after 200ms"

    async def test_a_tiny_limit_is_an_error_object(self) -> None:
        assert is_failure(await fetched(hang, timeout=1e-9))

    async def test_a_cancelled_run_ends_at_once(self) -> None:
        hanging = asyncio.Event()

        async def hang_and_tell(_: Seen, writer: asyncio.StreamWriter) -> None:
            hanging.set()
            await asyncio.sleep(30)

        async with Web({"pub.test/": hang_and_tell}) as web:
            tool = HttpFetch(HttpFetchConfig(), web.network())
            model = ScriptedModel([Reply(tool_calls=[("http-fetch", {"url": "http://pub.test/"})]), "done"])
            stage = Stage(model, [tool], approve=lambda request, signal: True)
            run = asyncio.ensure_future(stage.ask())
            await asyncio.wait_for(hanging.wait(), 20)
            began = time.monotonic()
            stage.session.cancel()
            assert (await run).status == "cancelled"
            assert time.monotonic() - began < 2
            stage.check()


class TestQuestion:
    async def test_the_person_sees_the_request_as_it_is_sent(self) -> None:
        async with Web({"8.8.8.8/%C3%A4": page()}) as web:
            fetch = Fetcher(web)
            await fetch(
                url=" HTTP://0x08.010.2056/ä#@example.com",
                method="post",
                headers={
                    "Authorization": "Bearer sk-1",
                    "X-Api-Key": "sk-2",
                    "Cookie": "c=sk-3",
                    "Accept": "a/b",
                    "Host": "x.test",
                },
                body="text",
            )
            preview = fetch.asked[0].preview
            assert isinstance(preview, RequestPreview)
            assert (preview.method, preview.url, preview.body) == ("POST", "http://8.8.8.8/%C3%A4", "text")
            assert preview.headers == {
                "authorization": "Bearer (hidden)",
                "x-api-key": "(hidden)",
                "cookie": "(hidden)",
                "accept": "a/b",
            }
            assert "sk-" not in repr(preview)
            assert web.dialled == [("8.8.8.8", 80)]
            assert set(preview.headers) <= set(web.seen[0].headers)
            assert web.seen[0].headers["host"] == "8.8.8.8"

    @pytest.mark.parametrize(
        "url",
        ["http://example.com\\@127.0.0.1/", "javascript:alert(1)", "http://a b/", "http://0x7f.1/", "http://[::1]/"],
    )
    async def test_the_person_sees_that_nothing_will_be_sent(self, url: str) -> None:
        async with Web() as web:
            fetch = Fetcher(web)
            data = await fetch(url=url)
            preview = fetch.asked[0].preview
        assert isinstance(preview, TextPreview)
        assert preview.text == data["message"]

    async def test_another_request_than_the_shown_one_is_not_sent(self) -> None:
        async with Web({"pub.test/": page()}) as web:
            fetch = Fetcher(web)
            await fetch(url="http://pub.test/")
            shown = fetch.asked[0].preview
            session: Any = Stage(ScriptedModel([])).session
            context = ToolContext(
                session=session, call_id="c", signal=CancelSignal(), logger=logging.getLogger("test"), preview=shown
            )
            result = await fetch.tool.execute({"url": "http://pub.test/other"}, context)
            assert result.data == {"error": True, "message": CHANGED}
            assert len(web.seen) == 1

    async def test_a_request_that_the_person_changed_is_sent_as_changed(self) -> None:
        async with Web({"pub.test/": page("no"), "pub.test/yes": page("yes")}) as web:
            tool = HttpFetch(HttpFetchConfig(), web.network())
            model = ScriptedModel([Reply(tool_calls=[("http-fetch", {"url": "http://pub.test/"})]), "done"])
            changed = ApprovalDecision(approved=True, arguments={"url": "http://pub.test/yes"})
            stage = Stage(model, [tool], approve=lambda request, signal: changed)
            await stage.ask()
            assert stage.of("tool.executed")[0].data["body"] == "yes"
            assert [seen.target for seen in web.seen] == ["/yes"]


class TestNaughty:
    async def test_no_string_in_the_address_raises_or_hangs(self) -> None:
        async with Web() as web:
            for shape in ("{}", "http://{}/", "http://pub.test/{}", "http://pub.test/?{}"):
                for data in await Fetcher(web).all([{"url": shape.replace("{}", text)} for text in STRINGS]):
                    assert is_failure(data) or data["status"] in (200, 404)
        for address, _ in web.dialled:
            assert refusal(address) is None

    @pytest.mark.parametrize("where", ["method", "name", "value", "body"])
    async def test_nor_anywhere_else(self, where: str) -> None:
        more: Callable[[str], dict[str, Any]] = {
            "method": lambda text: {"method": text},
            "name": lambda text: {"headers": {text: "x"}},
            "value": lambda text: {"headers": {"X": text}},
            "body": lambda text: {"body": text, "method": "POST"},
        }[where]
        async with Web({"pub.test/": page()}) as web:
            answers = await Fetcher(web).all([{"url": "http://pub.test/"} | more(text) for text in STRINGS])
        for data in answers:
            assert is_failure(data) or data["status"] == 200
        if where == "body":
            assert {seen.body.decode() for seen in web.seen} == set(STRINGS)
        if where == "method":
            assert {seen.method for seen in web.seen} <= {"GET"}


class TestApp:
    async def test_it_is_on_by_default_and_refuses_this_machine(self, tmp_path: Path) -> None:
        config = BuiltInToolConfig()
        async with (
            Web({"127.0.0.1/": page("inside")}) as web,
            Kestrel(workspace=tmp_path, built_in_tools=config) as app,
        ):
            data = await app.use_tool("http-fetch", {"url": f"http://127.0.0.1:{web.port}/"})
            assert is_failure(data)
            assert "loopback" in data["message"]
            assert web.seen == []

    async def test_private_networks_can_be_allowed_by_a_person(self, tmp_path: Path) -> None:
        config = BuiltInToolConfig(http_fetch=HttpFetchConfig(allow_private_network=True))
        async with (
            Web({"127.0.0.1/": page("inside")}) as web,
            Kestrel(workspace=tmp_path, built_in_tools=config) as app,
        ):
            data = await app.use_tool("http-fetch", {"url": f"http://127.0.0.1:{web.port}/"})
            assert data["body"] == "inside"
            for url in ("file:///etc/passwd", "http://169.254.169.254/"):
                assert is_failure(await app.use_tool("http-fetch", {"url": url}))


async def hang(_: Seen, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(30)
