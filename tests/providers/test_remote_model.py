"""Models on servers: what they make of answers that are no stream, of errors, keys, addresses and lists of models."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx
import pytest
from model_server import DONE, ModelServer, Steps, chat_event, chat_text, chunk, data_event, head, streamed, whole
from test_remote_connections import asked, failure, model, says_hello

from kestrel_nb.protocol.errors import ModelRequestError, UsageError
from kestrel_nb.protocol.sessions import ModelInfo
from kestrel_nb.providers import (
    AnthropicModel,
    GeminiModel,
    OllamaModel,
    OpenAIChatModel,
    OpenAIResponsesModel,
    Timeouts,
)
from kestrel_nb.runtime.models import TokenDelta

KEY = "sk-proj-Zq81Lm44Tt90"
HELLO = streamed(*chat_text("hel", "lo"))
CALL = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}
IN_ONE_PIECE = {
    "choices": [
        {
            "message": {"content": "hello", "reasoning_content": "hm", "tool_calls": [CALL]},
            "finish_reason": "tool_calls",
        }
    ]
}
MODELS: list[Callable[..., Any]] = [OpenAIChatModel, OpenAIResponsesModel, AnthropicModel, GeminiModel, OllamaModel]


async def error_of(steps: Steps, **options: Any) -> ModelRequestError:
    async with ModelServer([steps]) as server:
        return await failure(model(server, **options))


# ---- answers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream", "text/plain"])
async def test_a_reply_in_one_piece_is_told_as_deltas_whatever_was_asked(stream: bool, kind: str) -> None:
    async with ModelServer([whole(IN_ONE_PIECE, headers={"content-type": kind})]) as server:
        told: list[TokenDelta] = []
        response = await model(server, stream=stream).generate(asked(), told.append)
        assert server.requests[0].json.get("stream", False) is stream
    assert (response.content, response.reasoning, response.finish_reason) == ("hello", "hm", "tool_calls")
    assert "".join(delta.text for delta in told) == "hello"
    assert "".join(delta.reasoning for delta in told) == "hm"
    assert "".join(delta.arguments for delta in told) == '{"a":1}'
    assert {delta.call_id for delta in told if delta.tool} == {response.tool_calls[0].id}


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json", "application/octet-stream"])
async def test_a_stream_is_read_whatever_it_is_called_and_also_unasked(kind: str) -> None:
    async with ModelServer([streamed(*chat_text("hel", "lo"), content_type=kind)]) as server:
        assert await says_hello(model(server))
        assert await says_hello(model(server, stream=False))


async def test_a_byte_order_mark_and_blank_lines_come_first() -> None:
    async with ModelServer([streamed(b"\xef", b"\xbb\xbf", b"\n", b"\n\n", *chat_text("hel", "lo"))]) as server:
        assert await says_hello(model(server))
    page = whole(b"\xef\xbb\xbf \n" + b'{"choices":[{"message":{"content":"hello"},"finish_reason":"stop"}]}')
    async with ModelServer([page]) as server:
        assert await says_hello(model(server))


async def test_a_web_page_is_told_by_its_words() -> None:
    page = "<!DOCTYPE html><html><head><title>x</title></head><body><h1>Please log in</h1></body></html>"
    error = await error_of(whole(page, headers={"content-type": "text/html"}))
    assert (error.retryable, error.code) == (False, "broken_reply")
    assert "Please log in" in str(error)
    assert "base URL" in str(error)


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize(
    "body", ["", "{}", "[]", "null", '{"error":{}}', '{"error":{"message":"no"}}', '{"error":"no"}']
)
@pytest.mark.parametrize("stream", [True, False])
async def test_a_status_of_200_without_a_reply_is_an_error(make: Callable[..., Any], body: str, stream: bool) -> None:
    async with ModelServer([whole(body)]) as server:
        error = await failure(make("m", base_url=server.url, stream=stream))
        assert "no" in str(error) or '"no"' not in body


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 429, 500, 503, 529])
async def test_a_refusal_is_told_with_its_words_its_id_and_no_key(make: Callable[..., Any], status: int) -> None:
    body = {"error": {"message": f"bad key {KEY} and {KEY[:8]}...{KEY[-4:]}", "type": "x"}}
    reply = whole(body, status, {"x-request-id": "req_42", "retry-after": "3"})
    async with ModelServer([reply]) as server:
        error = await failure(make("m", base_url=server.url, api_key=KEY))
    assert (error.status, error.request_id, error.retry_after_ms) == (status, "req_42", 3000)
    assert error.retryable is (status == 429 or status >= 500)
    assert "bad key ***" in str(error)
    assert not any(part in str(error) for part in (KEY, KEY[:8], KEY[-4:]))


async def test_an_error_body_that_never_ends_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    error = await error_of([head(500, {"content-type": "text/plain"}), *[b"sorry " * 10_000] * 100])
    assert str(error).count("sorry") < 100
    assert error.status == 500


async def test_an_error_body_that_drips_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from kestrel_nb.providers import http

    monkeypatch.setattr(http, "ERROR_BODY_S", 0.2)
    error = await error_of([head(429, {"retry-after": "1", "content-length": "1000"}), b"slow down", "stall"])
    assert (error.status, error.retry_after_ms) == (429, 1000)
    assert "slow down" in str(error)


async def test_a_key_that_is_echoed_inside_a_stream_is_masked_and_the_request_named() -> None:
    events = [data_event({"error": {"message": f"key {KEY} expired", "code": 401}}), DONE]
    stream = streamed(*events)
    stream[0] = b"HTTP/1.1 200 OK\r\nrequest-id: req_7\r\ntransfer-encoding: chunked\r\n\r\n"
    error = await error_of(stream, api_key=KEY)
    assert "key *** expired" in str(error)
    assert error.request_id == "req_7"


async def test_keys_given_as_headers_are_masked_too() -> None:
    reply = whole({"error": {"message": f"bad {KEY}"}}, 401)
    assert KEY not in str(await error_of(reply, headers={"api-key": KEY}))


async def test_a_listener_that_fails_fails_the_request_with_its_own_error() -> None:
    def broken(delta: TokenDelta) -> None:
        raise OSError("the disk is full")

    async with ModelServer([HELLO]) as server:
        with pytest.raises(OSError, match="disk is full"):
            await model(server).generate(asked(), broken)
        assert await says_hello(model(server))


# ---- keys and addresses -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (OpenAIChatModel, "OPENAI_API_KEY"),
        (OpenAIResponsesModel, "OPENAI_API_KEY"),
        (AnthropicModel, "ANTHROPIC_API_KEY"),
        (GeminiModel, "GEMINI_API_KEY"),
    ],
)
async def test_without_a_key_nothing_is_sent_and_the_variable_is_named(make: Callable[..., Any], name: str) -> None:
    def never(request: httpx.Request) -> httpx.Response:
        raise AssertionError("something was sent")

    error = await failure(make("m", transport=httpx.MockTransport(never)))
    assert (error.retryable, error.code) == (False, "no_api_key")
    assert f"set {name} before starting Jupyter" in str(error)


async def test_a_key_of_the_environment_goes_to_its_vendor_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    seen: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("authorization"))
        return httpx.Response(200, json=IN_ONE_PIECE)

    transport = httpx.MockTransport(answer)
    await OpenAIChatModel("m", transport=transport).generate(asked())
    await OpenAIChatModel("m", transport=transport, base_url="https://api.openai.com/v1/").generate(asked())
    await OpenAIChatModel("m", transport=transport, base_url="http://localhost:1/v1").generate(asked())
    assert seen == [f"Bearer {KEY}", f"Bearer {KEY}", None]


async def test_a_key_may_be_a_function_that_is_asked_when_it_is_needed() -> None:
    keys = iter([KEY, f"  {KEY}2\n"])
    async with ModelServer([HELLO]) as server:
        one = model(server, api_key=lambda: next(keys))
        assert server.requests == []
        assert await says_hello(one)
        assert await says_hello(one)
        assert [request.headers["authorization"] for request in server.requests] == [f"Bearer {KEY}", f"Bearer {KEY}2"]


@pytest.mark.parametrize("key", ["sk-a b", "sk-a\r\nx: y", "sk-ä", "sk-\x00"])
async def test_a_key_that_no_header_can_hold_is_refused_and_not_shown(key: str) -> None:
    async with ModelServer([HELLO]) as server:
        error = await failure(model(server, api_key=key))
        assert key not in "".join(traceback.format_exception(error))
        assert server.requests == []


def test_a_model_shows_no_key() -> None:
    one = OpenAIChatModel("gpt", api_key=KEY, headers={"authorization": f"Bearer {KEY}"})
    assert repr(one) == "OpenAIChatModel('gpt')"
    assert KEY not in f"{one} {one.info}"


@pytest.mark.parametrize(
    "url",
    ["", "api.openai.com/v1", "ftp://host/v1", "https://", "https:///v1", "http://host:port/v1", "http://host:99999/v1",
     "http://ho st/v1", "http://host/v1\nx", "http://[::1/v1", "https://host/v1#here", "http://:80", "file:///etc", 7],
)  # fmt: skip
def test_what_is_no_base_url_is_told_when_the_model_is_made(url: Any) -> None:
    with pytest.raises(UsageError, match="base URL"):
        OpenAIChatModel("m", base_url=url)


def test_a_base_url_with_a_password_is_refused_without_repeating_it() -> None:
    with pytest.raises(UsageError, match="user name or a password") as caught:
        OpenAIChatModel("m", base_url="https://me:geheim@host/v1")
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    "headers", [{"x": "a\r\nb: c"}, {"x y": "z"}, {"x": "ä"}, {"": "x"}, {"x": 7}, {"x": "a\x00b"}]
)
def test_headers_that_can_not_be_sent_are_refused_when_the_model_is_made(headers: Any) -> None:
    with pytest.raises(UsageError, match="header"):
        OpenAIChatModel("m", headers=headers)


@pytest.mark.parametrize("name", ["", "  ", None, 7])
def test_a_model_needs_a_name(name: Any) -> None:
    with pytest.raises(UsageError, match="name"):
        AnthropicModel(name)


@pytest.mark.parametrize("seconds", [0, -1, "5", None, float("nan")])
def test_timeouts_are_seconds_above_zero(seconds: Any) -> None:
    with pytest.raises(UsageError, match="seconds"):
        Timeouts(idle_s=seconds)


@pytest.mark.parametrize(
    ("base", "target"),
    [
        ("", "/v1/messages"),
        ("/", "/v1/messages"),
        ("/v1", "/v1/messages"),
        ("/proxy/v1/", "/proxy/v1/messages"),
        ("/proxy?api-version=1&x=y", "/proxy/v1/messages?api-version=1&x=y"),
        ("/a b".replace(" ", "%20"), "/a%20b/v1/messages"),
    ],
)
async def test_a_base_url_may_have_a_path_a_version_and_a_query(base: str, target: str) -> None:
    async with ModelServer([whole({}, 500)]) as server:
        await failure(AnthropicModel("m", base_url=server.url + base))
        assert server.requests[0].target == target


async def test_hosts_may_be_written_in_every_way() -> None:
    async with ModelServer([HELLO]) as server:
        for host in ("localhost", "127.0.0.1", "LOCALHOST"):
            assert await says_hello(OpenAIChatModel("m", base_url=f"http://{host}:{server.port}"))
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(f"{request.url} {request.headers['host']}")
        return httpx.Response(200, json=IN_ONE_PIECE)

    for url in ("https://[::1]:8080/v1", "https://bücher.example/v1", "https://host:443/v1"):
        await OpenAIChatModel("m", base_url=url, transport=httpx.MockTransport(answer)).generate(asked())
    assert seen == [
        "https://[::1]:8080/v1/chat/completions [::1]:8080",
        "https://xn--bcher-kva.example/v1/chat/completions xn--bcher-kva.example",
        "https://host/v1/chat/completions host",
    ]


def test_ids_and_names_of_servers() -> None:
    assert OpenAIChatModel("gpt").info.id == "openai:gpt"
    assert OpenAIResponsesModel("gpt").info.id == "openai-responses:gpt"
    assert AnthropicModel("claude", id="mine", context_window=7).info.id == "mine"
    assert (
        OpenAIChatModel("x/y", provider="openrouter", base_url="https://openrouter.ai/api/v1").info.id
        == "openrouter:x/y"
    )


# ---- lists of models ----------------------------------------------------------------------------------------------


async def test_a_list_of_models_has_the_ids_by_which_they_are_asked_for() -> None:
    async with ModelServer([whole({"data": [{"id": "b"}, {"id": "a"}]})]) as server:
        listed = await OpenAIChatModel("m", base_url=server.url, provider="lab").list_models()
        assert server.requests[0].method == "GET"
        assert server.requests[0].target == "/models"
    assert {info.id for info in listed} == {"lab:a", "lab:b"}
    assert {info.provider for info in listed} == {"lab"}


async def test_a_list_of_models_in_pages_is_read_to_its_end() -> None:
    pages = [
        whole({"data": [{"id": "a"}], "has_more": True, "last_id": "a"}),
        whole({"data": [{"id": "b"}], "has_more": False, "last_id": "b"}),
    ]
    async with ModelServer(pages) as server:
        listed = await AnthropicModel("m", base_url=server.url).list_models()
        assert [info.id for info in listed] == ["anthropic:a", "anthropic:b"]
        assert "after_id=a" in server.requests[1].target


async def test_a_list_of_models_that_never_ends_is_left() -> None:
    async with ModelServer([whole({"data": [{"id": "a"}], "has_more": True, "last_id": "a"})]) as server:
        await AnthropicModel("m", base_url=server.url).list_models()
        assert len(server.requests) <= 50


@pytest.mark.parametrize("body", ["<html>", "{", '"x"', "[1]", "null", '{"data": 7}', '{"data": [7, null, {}]}'])
@pytest.mark.parametrize("make", MODELS)
async def test_a_list_that_is_none_is_empty_or_an_error(make: Callable[..., Any], body: str) -> None:
    async with ModelServer([whole(body)]) as server:
        listed: list[ModelInfo] = []
        with suppress(ModelRequestError):
            listed = await make("m", base_url=server.url).list_models()
        assert listed == []


async def test_chunks_that_come_together_are_all_told() -> None:
    many = b"".join(chunk(chat_event({"content": "x"})) for _ in range(1000))
    async with ModelServer([[*HELLO[:1], many, *HELLO[-3:]]]) as server:
        told: list[TokenDelta] = []
        response = await model(server).generate(asked(), told.append)
    assert response.content == "x" * 1000
    assert "".join(delta.text for delta in told) == response.content
