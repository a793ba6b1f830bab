"""Faults put into replies of every wire format, through a whole application: the right error or retry each time, no
tool run twice, no retry after the first token, a valid transcript, and the next request answered."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from model_server import (
    CLOSE,
    LAST_CHUNK,
    RESET,
    STALL,
    ModelServer,
    Step,
    Steps,
    chat_calls,
    chat_event,
    chat_text,
    chunk,
    data_event,
    stream_head,
    streamed,
    whole,
)
from replies import FOLDER
from stage import FunctionTool, assert_endings, assert_valid, results

from kestrel_nb import Kestrel, KestrelConfig
from kestrel_nb.protocol.errors import ModelRequestError
from kestrel_nb.protocol.events import SessionEvent
from kestrel_nb.providers import (
    AnthropicModel,
    GeminiModel,
    OllamaModel,
    OpenAIChatModel,
    OpenAIResponsesModel,
    Timeouts,
)
from kestrel_nb.runtime.retry import RetryOptions

CASES = Path(__file__).parents[1] / "data/cases"
MODELS: dict[str, Any] = {
    "openai-chat": OpenAIChatModel,
    "openai-responses": OpenAIResponsesModel,
    "anthropic": AnthropicModel,
    "gemini": GeminiModel,
    "ollama": OllamaModel,
}
CALLS = {
    "openai-chat": "llmock-openai-chat__parallel.sse",
    "openai-responses": "aimock-openai-responses__toolcall.sse",
    "anthropic": "aimock-anthropic__parallel.sse",
    "gemini": "llmock-gemini__toolcall.sse",
    "ollama": "aimock-ollama__toolcall.ndjson",
}
TEXTS = {
    "openai-chat": [*chat_text("hel", "lo")],
    "openai-responses": [],
    "anthropic": [],
    "gemini": [data_event({"candidates": [{"content": {"parts": [{"text": "hello"}]}, "finishReason": "STOP"}]})],
    "ollama": [b'{"message":{"content":"hello"},"done":true,"done_reason":"stop"}\n'],
}
TEXTS["openai-responses"] = [(FOLDER / "aimock-openai-responses__text.sse").read_bytes()]
TEXTS["anthropic"] = [(FOLDER / "aimock-anthropic__text.sse").read_bytes()]
NAMES = ("get_weather", "get_time", "add", "list_files", "read_file", "search")
HELLO = streamed(*chat_text("hel", "lo"))


class Ran:
    """An application on a server, with tools that count their runs, and every event of it."""

    def __init__(self, server: ModelServer, app: Kestrel, events: list[SessionEvent], runs: list[Any]) -> None:
        self.server = server
        self.app = app
        self.events = events
        self.runs = runs
        self.session = app.sessions.create()
        self.noticed = asyncio.Event()
        self.session.subscribe(lambda event: self.noticed.set() if event.type == "notice" else None)

    async def ask(self) -> str | ModelRequestError:
        """The answer or the error of one run; what holds for every run is checked."""
        try:
            return (await self.session.start("go")).text
        except ModelRequestError as error:
            return error
        finally:
            assert_valid(self.session.messages)
            assert_endings(self.events, self.session.messages)

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.events if event.type == "notice"]  # type: ignore[attr-defined]

    @property
    def shown(self) -> bool:
        return any(event.type in ("message.delta", "reasoning.delta", "tool.delta") for event in self.events)


@asynccontextmanager
async def application(
    *replies: Steps, api: str = "openai-chat", cap_ms: float = 20, **options: Any
) -> AsyncIterator[Ran]:
    runs: list[Any] = []
    events: list[SessionEvent] = []

    def run(args: Mapping[str, Any], _: Any) -> str:
        runs.append(args)
        return "done"

    names = {*NAMES, *re.findall(r'"name": ?"(\w+)"', (FOLDER / CALLS[api]).read_text("utf-8"))}
    tools = [FunctionTool(name, run, parameters={"type": "object"}) for name in sorted(names)]
    config = KestrelConfig(plugins=(), retry=RetryOptions(attempts=3, base_delay_ms=1, max_delay_ms=cap_ms))
    async with ModelServer(replies) as server:
        model = MODELS[api]("m", base_url=server.url, **options)
        async with Kestrel(model=model, tools=tools, config=config) as app:
            app.sessions.subscribe(events.append)
            yield Ran(server, app, events, runs)


def events_of(api: str) -> list[bytes]:
    """The recorded reply with calls, event by event."""
    body = (FOLDER / CALLS[api]).read_bytes()
    end = rb"\n" if api == "ollama" else rb"\n\n"
    return re.findall(rb".+?" + end, body.replace(b"\r\n", b"\n"), re.DOTALL)


def plain(api: str) -> list[Step]:
    return streamed(*TEXTS[api], content_type="application/x-ndjson" if api == "ollama" else "text/event-stream")


CUTS = [(api, at) for api in MODELS for at in range(len(events_of(api)) + 1)]


@pytest.mark.parametrize(("api", "at"), CUTS)
@pytest.mark.parametrize("end", [CLOSE, LAST_CHUNK, RESET], ids=["closed", "ended", "reset"])
async def test_a_reply_that_is_cut_at_any_event(api: str, at: int, end: Step) -> None:
    events = events_of(api)
    cut: list[Step] = [stream_head(), *map(chunk, events[:at]), 0.01, end]
    async with application(cut, plain(api), api=api) as ran:
        ended = await ran.ask()
        first = len(ran.server.requests)
        if isinstance(ended, ModelRequestError):
            assert ran.shown  # else it would have been tried again
            assert (first, ran.runs, ran.notices) == (1, [], [])
            assert isinstance(await ran.ask(), str)
        else:
            calls = [call for message in ran.session.messages for call in message.tool_calls]
            assert len(ran.runs) == len(calls)
            assert bool(ran.notices) is (not calls)
            assert first == 2
        assert isinstance(await ran.ask(), str)


@pytest.mark.parametrize("api", MODELS)
async def test_a_reply_that_stalls_before_its_first_token_is_asked_for_again(api: str) -> None:
    async with application([stream_head(), STALL], plain(api), api=api, timeouts=Timeouts(idle_s=0.5)) as ran:
        assert isinstance(await ran.ask(), str)
        assert len(ran.notices) == 1
        assert "said nothing for 0.5 s" in ran.notices[0]


@pytest.mark.parametrize("api", MODELS)
async def test_a_reply_that_stalls_after_its_first_token_ends_the_run(api: str) -> None:
    events = events_of(api)
    stalled: list[Step] = [
        stream_head(),
        *map(chunk, TEXTS[api] if len(events) < 3 else events[: len(events) // 2 + 1]),
    ]
    if api == "ollama":
        stalled[1:] = [chunk(b'{"message":{"content":"hel"},"done":false}\n')]
    if api == "gemini":
        stalled[1:] = [chunk(data_event({"candidates": [{"content": {"parts": [{"text": "hel"}]}}]}))]
    async with application([*stalled, STALL], plain(api), api=api, timeouts=Timeouts(idle_s=0.5)) as ran:
        ended = await ran.ask()
        assert isinstance(ended, ModelRequestError)
        assert (ended.code, len(ran.server.requests), ran.runs) == ("timeout", 1, [])
        assert isinstance(await ran.ask(), str)


IN_STREAM: dict[str, bytes] = {
    "openai-chat": data_event({"error": {"message": "overloaded now", "type": "server_error"}}),
    "openai-responses": b"event: error\n"
    + data_event({"type": "error", "code": "server_error", "message": "overloaded now", "param": None}),
    "anthropic": b"event: error\n"
    + data_event({"type": "error", "error": {"type": "overloaded_error", "message": "overloaded now"}}),
    "gemini": data_event({"error": {"code": 503, "message": "overloaded now", "status": "UNAVAILABLE"}}),
    "ollama": b'{"error":"overloaded now"}\n',
}
FIRST: dict[str, list[bytes]] = {
    "openai-chat": [chat_event({"content": "hel"})],
    "openai-responses": TEXTS["openai-responses"][0].split(b"\n\n")[:6],
    "anthropic": TEXTS["anthropic"][0].split(b"\n\n")[:4],
    "gemini": [data_event({"candidates": [{"content": {"parts": [{"text": "hel"}]}}]})],
    "ollama": [b'{"message":{"content":"hel"},"done":false}\n'],
}


@pytest.mark.parametrize("api", MODELS)
async def test_an_error_inside_a_stream_is_tried_again_before_the_first_token(api: str) -> None:
    async with application(streamed(IN_STREAM[api]), plain(api), api=api) as ran:
        assert isinstance(await ran.ask(), str)
        assert len(ran.notices) == 1
        assert "overloaded now" in ran.notices[0]


@pytest.mark.parametrize("api", MODELS)
async def test_an_error_inside_a_stream_ends_the_run_after_the_first_token(api: str) -> None:
    begun = FIRST[api] if api not in ("openai-responses", "anthropic") else [part + b"\n\n" for part in FIRST[api]]
    async with application(streamed(*begun, IN_STREAM[api]), plain(api), api=api) as ran:
        ended = await ran.ask()
        assert isinstance(ended, ModelRequestError)
        assert ran.shown
        assert "overloaded now" in str(ended)
        assert (len(ran.server.requests), ran.notices) == (1, [])
        assert isinstance(await ran.ask(), str)


# ---- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
async def test_what_may_pass_is_tried_again_with_one_notice_each(status: int) -> None:
    async with application(whole("busy", status), whole("busy", status), HELLO) as ran:
        assert await ran.ask() == "hello"
        assert len(ran.notices) == 2
        assert all(f"answered {status}: busy" in notice for notice in ran.notices)


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 410, 413, 422])
async def test_what_will_not_pass_is_told_at_once(status: int) -> None:
    async with application(whole({"error": {"message": "no"}}, status), HELLO) as ran:
        ended = await ran.ask()
        assert isinstance(ended, ModelRequestError)
        assert (ended.status, len(ran.server.requests), ran.notices) == (status, 1, [])
        assert await ran.ask() == "hello"


async def test_tries_are_counted() -> None:
    async with application(whole("busy", 503)) as ran:
        assert isinstance(await ran.ask(), ModelRequestError)
        assert len(ran.server.requests) == 3


async def test_no_connection_is_tried_again() -> None:
    async with application(HELLO) as ran:
        ran.server.stop_listening()
        ended = await ran.ask()
        assert isinstance(ended, ModelRequestError)
        assert len(ran.notices) == 2


def in_seconds(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


async def test_c01_a_wait_given_as_a_date_is_kept_and_a_past_one_is_none() -> None:
    late = whole("slow", 429, {"Retry-After": in_seconds(2)})
    past = whole("slow", 429, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"})
    async with application(late, HELLO, cap_ms=10_000) as ran:
        assert await ran.ask() == "hello"
        (notice,) = ran.notices
        wait = re.search(r"again in (\d\.\d) s", notice)
        assert wait is not None
        assert 0.5 <= float(wait[1]) <= 2.0  # HTTP dates have whole seconds
    async with application(past, HELLO, cap_ms=10_000) as ran:
        assert await ran.ask() == "hello"
        assert "again in 0.0 s" in ran.notices[0]


async def test_c03_a_wait_of_a_day_is_capped_and_can_be_cancelled() -> None:
    async with application(whole("down", 503, {"Retry-After": "86400"}), HELLO, cap_ms=30_000) as ran:
        run = ran.session.start("go")
        async with asyncio.timeout(10):
            await ran.noticed.wait()
        assert "again in 30.0 s" in ran.notices[0]
        ran.session.cancel()
        assert (await run).status == "cancelled"
        assert await ran.ask() == "hello"


@pytest.mark.parametrize("code", ["insufficient_quota", "billing_hard_limit_reached", "exceeded_current_quota_error"])
async def test_c04_an_exhausted_account_is_told_at_once(code: str) -> None:
    words = "You exceeded your current quota, please check your plan and billing details."
    body = {"error": {"code": code, "type": code, "message": words}}
    async with application(whole(body, 429), HELLO) as ran:
        ended = await ran.ask()
        assert isinstance(ended, ModelRequestError)
        assert (ended.retryable, len(ran.server.requests)) == (False, 1)
        assert words in str(ended)


ROLE = chat_event({"role": "assistant", "content": ""})


@pytest.mark.parametrize("begun", [[], [chunk(ROLE)], [chunk(b": waiting\n\n"), chunk(ROLE), chunk(chat_event({}))]])
async def test_c07_a_connection_lost_before_the_first_token_is_replaced(begun: list[bytes]) -> None:
    async with application([stream_head(), *begun, CLOSE], HELLO) as ran:
        assert await ran.ask() == "hello"
        assert [message.role for message in ran.session.messages if message.role != "system"] == ["user", "assistant"]
        assert len(ran.notices) == 1


async def test_b11_a_close_halfway_is_an_error_and_no_answer() -> None:
    halfway = [stream_head(), chunk((CASES / "B11.sse").read_bytes()), CLOSE]
    async with application(halfway, HELLO) as ran:
        ended = await ran.ask()
        assert isinstance(ended, ModelRequestError)
        assert (ended.retryable, len(ran.server.requests), ran.notices) == (True, 1, [])
        assert [message for message in ran.session.messages if message.role == "assistant"] == []
        assert await ran.ask() == "hello"


# ---- replies that are odd -----------------------------------------------------------------------------------------


async def test_malformed_json_fails_before_the_first_token_as_after_it() -> None:
    async with application(streamed(b"data: {oops\n\n"), HELLO) as ran:
        assert await ran.ask() == "hello"
    async with application(streamed(chat_event({"content": "x"}), b"data: {oops\n\n"), HELLO) as ran:
        assert isinstance(await ran.ask(), ModelRequestError)
        assert len(ran.server.requests) == 1


async def test_two_calls_on_one_index_both_run_once() -> None:
    calls = [
        {"index": 0, "id": f"call_{name}", "function": {"name": "add", "arguments": json.dumps({"n": name})}}
        for name in "ab"
    ]
    events = [chat_event({"tool_calls": [call]}) for call in calls]
    async with application(streamed(*events, *chat_calls()[1:]), HELLO) as ran:
        assert await ran.ask() == "hello"
        assert [dict(args) for args in ran.runs] == [{"n": "a"}, {"n": "b"}]


async def test_a_line_without_an_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    from kestrel_nb.providers import lines

    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 1_000_000)
    endless = [stream_head(), chunk(b"data: {"), *[chunk(b"x" * 60_000)] * 100]
    async with application(endless, HELLO) as ran:
        ended = await ran.ask()
        assert isinstance(ended, ModelRequestError)
        assert "more than 1,000,000 bytes" in str(ended)
        assert await ran.ask() == "hello"


async def test_a_model_that_calls_to_no_end_is_stopped_by_the_step_limit_and_no_call_runs_twice() -> None:
    numbers = count(1)
    async with application(lambda _: streamed(*chat_calls(("add", "{}"), first=next(numbers)))) as ran:
        result = await ran.session.start("go")
        assert result.status == "max_steps"
        assert len(ran.runs) == len(ran.server.requests) == result.steps


async def test_calls_of_a_reply_that_was_cut_off_at_its_limit_do_not_run() -> None:
    async with application(streamed(*chat_calls(("add", '{"a": 1'), finish="length")), HELLO) as ran:
        await ran.ask()
        assert ran.runs == []
        assert "not run" in results(ran.session.messages)[0]


async def test_a_head_that_is_no_http_is_told_after_all_tries() -> None:
    async with application([b"220 mail.example ESMTP\r\n", CLOSE]) as ran:
        ended = await ran.ask()
        assert isinstance(ended, ModelRequestError)
        assert "without an answer" in str(ended)
