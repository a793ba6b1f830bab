"""Whole runs on llmock, which breaks its replies on demand and judges how a client took it."""

from __future__ import annotations

import asyncio
import json
import urllib.error
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from peer_runs import KEY, PeerRun, model_at
from peer_servers import PeerServer

from kestrel_nb.protocol.sessions import RunResult
from kestrel_nb.providers import Timeouts
from kestrel_nb.runtime.models import LanguageModel
from kestrel_nb.runtime.retry import is_model_request_error

LONG = "one two three four five six seven eight nine ten eleven twelve"
CITY = 'Zürich "north" 漢字 \\ 🏔'
CALL = {"type": "reply", "tool_calls": [{"name": "weather", "arguments": {"city": CITY}}]}
TEXT = {"type": "reply", "text": LONG}
FIRST_TEXT = {"openai-chat": 2, "openai-responses": 5, "anthropic": 4, "gemini": 1}  # chunks up to the first word
# A short stream is sent to its end before the server can see that its client left at the broken chunk; it then takes
# the next try for another call.
UNSEEN = {"disconnect": "", "truncate": "", "malformed": "malformed_chunk_ignored"}


class Llmock:
    """The server, forgetful at the start of each test."""

    def __init__(self, server: PeerServer) -> None:
        self._server = server
        self.url = server.url
        self.reset()

    def reset(self) -> None:
        """Forget everything: what was asked, what is to be played, and quotas."""
        self._server.call("POST", "/_llmock/reset", {})

    def plays(self, *behaviors: dict[str, Any]) -> None:
        """What the next requests get: of each kind the first that is left."""
        self._server.call("POST", "/_llmock/scenario", {"behaviors": list(behaviors)})

    def requests(self) -> list[Any]:
        """What was asked, in order."""
        asked: list[Any] = self._server.call("GET", "/_llmock/requests")["requests"]
        return asked

    def assert_clean(self, *, but: str = "") -> None:
        """The server has nothing to say against its client, ``but`` for one kind of warning."""
        verdict = self._server.call("GET", "/_llmock/verdict")
        assert verdict["passed"]
        assert [finding for finding in verdict["findings"] if finding["code"] != but] == []
        assert not self._server.call("GET", "/_llmock/scenario")["pending"]

    def use_up_the_quota(self) -> None:
        """Ask until the server refuses, and let it forget that it was asked."""
        body = {"model": "mock-model", "messages": [{"role": "user", "content": "hi"}]}
        with suppress(urllib.error.HTTPError):
            while True:
                self._server.call("POST", "/v1/chat/completions", body, authorization=f"Bearer {KEY}")
        self._server.call("DELETE", "/_llmock/requests")


@pytest.fixture
def llmock(llmock_server: PeerServer) -> Llmock:
    return Llmock(llmock_server)


@pytest.fixture(params=["openai-chat", "openai-responses", "anthropic", "gemini"])
def wire(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def model(llmock: Llmock, wire: str) -> LanguageModel:
    return model_at(llmock.url, "llmock", wire)


# ---- runs that go well --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
async def test_a_call_its_result_and_the_answer(llmock: Llmock, wire: str, stream: bool, tmp_path: Path) -> None:
    llmock.plays(CALL, TEXT)
    async with PeerRun(model_at(llmock.url, "llmock", wire, stream=stream), tmp_path) as run:
        result = await run.ask()
    assert (result.status, result.steps, result.text) == ("completed", 2, LONG)
    assert run.ran == [CITY]
    assert run.streamed() == LONG
    if stream:
        assert len(run.of("message.delta")) > 5
    assert result.usage.output_tokens > 0
    last = json.dumps(llmock.requests()[-1]["body"], ensure_ascii=False)
    assert "sunny in Zürich" in last
    llmock.assert_clean()


async def test_the_arguments_stream_as_text_that_makes_the_call(
    llmock: Llmock, model: LanguageModel, tmp_path: Path
) -> None:
    llmock.plays(CALL, TEXT)
    async with PeerRun(model, tmp_path) as run:
        await run.ask()
    (started,) = run.of("tool.started")
    arrived = "".join(event.text for event in run.of("tool.delta"))
    assert json.loads(arrived) == started.arguments == {"city": CITY}
    assert {event.call_id for event in run.of("tool.delta")} == {started.call_id}
    llmock.assert_clean()


async def test_parallel_calls(llmock: Llmock, model: LanguageModel, tmp_path: Path) -> None:
    cities = ["Oslo", "Bern", "Rome"]
    calls = [{"name": "weather", "arguments": {"city": city}} for city in cities]
    llmock.plays({"type": "reply", "text": "I look.", "tool_calls": calls}, TEXT)
    async with PeerRun(model, tmp_path) as run:
        result = await run.ask()
    assert result.text == LONG
    assert sorted(run.ran) == sorted(cities)
    assert run.results() == [f"sunny in {city}, 21 °C" for city in cities]
    llmock.assert_clean()


async def test_left_alone_it_calls_what_is_offered(llmock: Llmock, model: LanguageModel, tmp_path: Path) -> None:
    """The server makes arguments that are valid against our schema, and answers once it has the result."""
    async with PeerRun(model, tmp_path) as run:
        result = await run.ask()
    assert (result.status, result.steps) == ("completed", 2)
    assert len(run.ran) == 1
    assert result.text
    llmock.assert_clean()


async def test_a_conversation_of_several_runs(llmock: Llmock, model: LanguageModel, tmp_path: Path) -> None:
    llmock.plays(CALL, TEXT, {"type": "reply", "text": "two"}, CALL, {"type": "reply", "text": "three"})
    async with PeerRun(model, tmp_path) as run:
        assert [(await run.ask(text)).text for text in ("one", "two", "three")] == [LONG, "two", "three"]
    assert run.ran == [CITY, CITY]
    llmock.assert_clean()


# ---- streams that break -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["disconnect", "truncate", "malformed"])
async def test_a_stream_that_breaks_before_its_first_token_is_asked_again(
    kind: str, llmock: Llmock, model: LanguageModel, tmp_path: Path
) -> None:
    """Both requests of the run break once; the tool runs once all the same."""
    fault = {"type": "stream_fault", "kind": kind, "after_chunks": 0}

    def break_again(_: str) -> None:
        llmock.plays(TEXT, TEXT, fault)

    llmock.plays(CALL, CALL, fault)
    async with PeerRun(model, tmp_path, on_call=break_again) as run:
        result = await run.ask()
    assert (result.status, result.text, result.steps) == ("completed", LONG, 2)
    assert (run.ran, run.retries(), run.streamed()) == ([CITY], 2, LONG)
    llmock.assert_clean(but=UNSEEN[kind])


@pytest.mark.parametrize("kind", ["disconnect", "truncate", "malformed"])
async def test_a_stream_that_breaks_after_a_token_was_shown_fails_and_can_be_repeated(
    kind: str, llmock: Llmock, wire: str, model: LanguageModel, tmp_path: Path
) -> None:
    fault = {"type": "stream_fault", "kind": kind, "after_chunks": FIRST_TEXT[wire] + 2}
    llmock.plays(TEXT, fault)
    async with PeerRun(model, tmp_path) as run:
        error = await run.fails()
        assert error.retryable
        assert run.retries() == 0
        assert run.streamed().startswith("one ")
        assert run.of("run.failed")[-1].code == error.code
        assert [message.role for message in run.session.messages] == ["user"]
        run.session.rewind(run.session.messages[0].id)
        llmock.plays(TEXT)
        assert (await run.ask()).text == LONG
    llmock.assert_clean(but=UNSEEN[kind])


@pytest.mark.parametrize("kind", ["disconnect", "truncate", "malformed"])
async def test_a_call_that_was_cut_off_never_runs(kind: str, llmock: Llmock, wire: str, tmp_path: Path) -> None:
    """The break comes within the arguments; Gemini sends a call whole, so there it breaks instead of the call."""
    after = {"openai-chat": 3, "openai-responses": 4, "anthropic": 3, "gemini": 0}[wire]
    llmock.plays(CALL, {"type": "stream_fault", "kind": kind, "after_chunks": after})
    async with PeerRun(model_at(llmock.url, "llmock", wire), tmp_path) as run:
        if wire == "gemini":
            llmock.plays(CALL, TEXT)
            assert (await run.ask()).text == LONG
            assert run.ran == [CITY]
        else:
            error = await run.fails()
            assert error.retryable
            assert run.ran == []
            assert run.of("tool.started") == []
            run.session.rewind(run.session.messages[0].id)
            llmock.plays(CALL, TEXT)
            assert (await run.ask()).text == LONG
            assert run.ran == [CITY]
    llmock.assert_clean(but=UNSEEN[kind])


async def test_every_chunk_may_be_the_last(llmock: Llmock, wire: str, model: LanguageModel, tmp_path: Path) -> None:
    """Wherever a stream with a call is cut, the call runs whole or not at all."""
    for after in range({"openai-chat": 9, "openai-responses": 12, "anthropic": 9, "gemini": 1}[wire]):
        llmock.reset()
        llmock.plays(CALL, {"type": "stream_fault", "kind": "truncate", "after_chunks": after}, TEXT)
        async with PeerRun(model, tmp_path) as run:
            ended = await asyncio.gather(run.ask(), return_exceptions=True)
            match ended[0]:
                case RunResult(text=text):
                    assert text == LONG
                    assert run.ran == ([] if run.retries() else [CITY])
                case error:
                    assert is_model_request_error(error)
                    assert error.retryable
                    assert run.ran == []


# ---- calls that are wrong -----------------------------------------------------------------------------------------


async def test_arguments_that_are_no_json(llmock: Llmock, model: LanguageModel, tmp_path: Path) -> None:
    llmock.plays(CALL, {"type": "tool_fault", "kind": "malformed_arguments"}, TEXT)
    async with PeerRun(model, tmp_path) as run:
        result = await run.ask()
    assert (result.status, result.text) == ("completed", LONG)
    assert run.ran == []
    assert len(run.of("tool.failed")) == 1
    assert "arguments" in run.results()[0]
    llmock.assert_clean()


async def test_a_tool_that_was_never_offered(llmock: Llmock, model: LanguageModel, tmp_path: Path) -> None:
    llmock.plays(CALL, {"type": "tool_fault", "kind": "unknown_tool"}, TEXT)
    async with PeerRun(model, tmp_path) as run:
        result = await run.ask()
    assert (result.status, result.text) == ("completed", LONG)
    assert run.ran == []
    assert run.results()[0].startswith("Unknown tool ")
    llmock.assert_clean()


# ---- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_what_no_second_try_mends_fails_at_once(
    status: int, llmock: Llmock, model: LanguageModel, tmp_path: Path
) -> None:
    llmock.plays({"type": "fail", "status": status, "message": f"no, {KEY} is not welcome"})
    async with PeerRun(model, tmp_path) as run:
        error = await run.fails()
    assert (error.status, error.retryable, run.retries()) == (status, False, 0)
    assert str(status) in str(error)
    assert KEY not in str(error)
    if status == 401:
        assert "check the API key" in str(error)
    llmock.assert_clean()


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 529])
async def test_what_may_pass_is_asked_again(status: int, llmock: Llmock, model: LanguageModel, tmp_path: Path) -> None:
    """Each request of the run is refused once; the tool runs once all the same."""
    fail = {"type": "fail", "status": status, "retry_after": 0.3}
    llmock.plays(fail, CALL, TEXT)
    async with PeerRun(model, tmp_path, on_call=lambda _: llmock.plays(fail)) as run:
        result = await run.ask()
    assert (result.status, result.text) == ("completed", LONG)
    assert (run.ran, run.retries()) == ([CITY], 2)
    llmock.assert_clean()


@pytest.mark.parametrize("status", [429, 500, 503, 529])
async def test_what_does_not_pass_fails_after_some_tries(
    status: int, llmock: Llmock, model: LanguageModel, tmp_path: Path
) -> None:
    llmock.plays({"type": "fail", "status": status, "times": 3, "retry_after": 0.1})
    async with PeerRun(model, tmp_path) as run:
        error = await run.fails()
        assert (error.status, run.retries(), len(llmock.requests())) == (status, 2, 3)
        llmock.plays(TEXT)
        assert (await run.ask("again")).text == LONG
    llmock.assert_clean()


async def test_an_unknown_address_on_the_server(llmock: Llmock, tmp_path: Path, wire: str) -> None:
    async with PeerRun(model_at(llmock.url + "/elsewhere", "llmock", wire), tmp_path) as run:
        error = await run.fails()
    assert (error.status, error.retryable) == (404, False)
    assert "base URL" in str(error)


# ---- time ---------------------------------------------------------------------------------------------------------


async def test_a_slow_first_token_is_waited_for(llmock: Llmock, model: LanguageModel, tmp_path: Path) -> None:
    llmock.plays({"type": "slow_first_token", "seconds": 1}, {"type": "delay", "seconds": 0.5}, TEXT)
    async with PeerRun(model, tmp_path) as run:
        assert (await run.ask()).text == LONG
        assert run.retries() == 0
    llmock.assert_clean()


async def test_a_stall_before_the_first_token_is_asked_again(llmock: Llmock, wire: str, tmp_path: Path) -> None:
    model = model_at(llmock.url, "llmock", wire, timeouts=Timeouts(idle_s=2))
    llmock.plays({"type": "stream_fault", "kind": "stall", "after_chunks": 0, "stall_seconds": 30}, TEXT, TEXT)
    async with PeerRun(model, tmp_path) as run:
        assert (await run.ask()).text == LONG
        assert run.retries() == 1
    llmock.assert_clean()


async def test_a_stall_in_the_middle_fails(llmock: Llmock, wire: str, tmp_path: Path) -> None:
    model = model_at(llmock.url, "llmock", wire, timeouts=Timeouts(idle_s=2))
    after = FIRST_TEXT[wire] + 1
    llmock.plays({"type": "stream_fault", "kind": "stall", "after_chunks": after, "stall_seconds": 30}, TEXT)
    async with PeerRun(model, tmp_path) as run:
        error = await run.fails()
    assert (error.code, error.retryable) == ("timeout", True)
    llmock.assert_clean()


async def test_a_run_can_be_stopped_while_the_server_is_silent(
    llmock: Llmock, wire: str, model: LanguageModel, tmp_path: Path
) -> None:
    after = FIRST_TEXT[wire] + 1
    llmock.plays({"type": "stream_fault", "kind": "stall", "after_chunks": after, "stall_seconds": 30}, TEXT)
    async with PeerRun(model, tmp_path) as run:
        started = run.session.start("go")
        await run.until("message.delta")
        run.session.cancel()
        async with asyncio.timeout(5):
            result = await started
        assert result.status == "cancelled"
        llmock.plays({"type": "reply", "text": "back"})
        assert (await run.ask("again")).text == "back"
    llmock.assert_clean()


# ---- limits -------------------------------------------------------------------------------------------------------


@pytest.fixture
def small(small_llmock_server: PeerServer) -> Llmock:
    return Llmock(small_llmock_server)


async def test_a_prompt_beyond_the_window_says_what_to_do(small: Llmock, wire: str, tmp_path: Path) -> None:
    async with PeerRun(model_at(small.url, "llmock", wire), tmp_path) as run:
        error = await run.fails("word " * 4_000)
    assert (error.code, error.status, error.retryable) == ("context_exceeded", 400, False)
    assert "%kestrel rewind" in str(error)
    small.assert_clean()


async def test_a_known_window_is_never_exceeded(small: Llmock, wire: str, tmp_path: Path) -> None:
    """The results together are far larger than the window that the server enforces."""
    model = model_at(small.url, "llmock", wire, context_window=2_000)
    calls = [{**CALL, "tool_calls": [{"name": "weather", "arguments": {"city": f"{n}" * 1_500}}]} for n in range(8)]
    small.plays(*calls, TEXT)
    async with PeerRun(model, tmp_path) as run:
        result = await run.ask()
        assert (result.status, result.steps, result.text) == ("completed", 9, LONG)
        assert [len(text) > 1_500 for text in run.results()] == [True] * 8
    small.assert_clean()


async def test_a_quota_is_waited_for(small: Llmock, tmp_path: Path) -> None:
    """The server's own count of requests a minute, with the wait that it really takes."""
    model = model_at(small.url, "llmock", "openai-chat")
    small.use_up_the_quota()
    async with PeerRun(model, tmp_path) as run:
        result = await run.ask()
    assert (result.status, len(run.ran)) == ("completed", 1)
    assert run.retries() >= 1
    small.assert_clean()
