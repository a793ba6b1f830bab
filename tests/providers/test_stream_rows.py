"""The corpus of broken streams: every row goes over a socket to a real model, and where it says so through a real run.

What the rows leave open is decided here: of a repeated key in arguments the last one counts, and it is what approvals
and events show; tools run when a reply holds calls, whatever its finish reason says unless that is ``length``; a
``Retry-After`` that can't be one is ignored; a reply in its middle that breaks off is dropped, its events stay shown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from model_server import (
    CLOSE,
    DONE,
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
    stream_head,
    streamed,
    whole,
)
from stage import FunctionTool, Stage, results

from kestrel_nb.protocol.errors import ModelRequestError
from kestrel_nb.protocol.sessions import ApprovalDecision, RunResult, Usage
from kestrel_nb.providers import GeminiModel, OllamaModel, OpenAIChatModel, Timeouts
from kestrel_nb.providers.lines import SseSplitter
from kestrel_nb.runtime.retry import RetryOptions

DATA = Path(__file__).parents[1] / "data/stream"
ROWS: dict[str, Any] = {row["id"][-4:]: row for row in map(json.loads, (DATA / "rows.jsonl").read_text().splitlines())}
EXCLUDED: dict[str, str] = json.loads((DATA / "excluded.json").read_text())
HELLO = streamed(*chat_text("hel", "lo"))
ANY = {"type": "object"}


class Runs:
    """One session on a server that plays ``replies``, with a tool that remembers its calls."""

    def __init__(self, server: ModelServer, make: Any = OpenAIChatModel, ask: bool = False, **options: Any) -> None:
        self.calls: list[Mapping[str, Any]] = []
        tool = FunctionTool("add", lambda args, _: self.calls.append(args) or "added", parameters=ANY)
        tool = tool if not ask else FunctionTool("add", tool.function, parameters=ANY, permission="ask")
        retry = RetryOptions(attempts=3, base_delay_ms=1, max_delay_ms=options.pop("max_delay_ms", 50))
        self.stage = Stage(make("m", base_url=server.url, **options), [tool], retry=retry)

    async def ask(self, **options: Any) -> RunResult | ModelRequestError:
        try:
            return await self.stage.ask(**options)
        except ModelRequestError as error:
            return error
        finally:
            self.stage.check()

    @property
    def waits(self) -> list[str]:
        return [notice.text.split("Trying again in ")[1].split(",")[0] for notice in self.stage.of("notice")]


async def play(*replies: Steps, **options: Any) -> tuple[Runs, RunResult | ModelRequestError, int]:
    """A run on ``replies``; the session, how the run ended, and how many requests came."""
    async with ModelServer(replies) as server:
        runs = Runs(server, **options)
        ended = await runs.ask()
        return runs, ended, len(server.requests)


async def text_of(*pieces: bytes, **options: Any) -> str:
    """What a run answers when a stream begins with ``pieces`` and says "hello" after them."""
    _, ended, _ = await play(streamed(*pieces, *chat_text("hel", "lo")), **options)
    return ended.text if isinstance(ended, RunResult) else f"error: {ended}"


def events(row: str) -> list[str]:
    splitter = SseSplitter()
    return [event.data for piece in ROWS[row]["input"]["chunks"] for event in splitter.feed(piece.encode())]


def chunks(row: str) -> list[bytes]:
    return [piece.encode() for piece in ROWS[row]["input"]["chunks"]]


# ---- framing ------------------------------------------------------------------------------------------------------

FRAMED = {
    "O001": ['{"a":1}\nx'],
    "O002": ['{"a":1}'],
    "O003": ['{"a":1}'],
    "O004": ["a\nb"],
    "O005": ["x"],
    "O006": ["{}"],
    "O007": [],
    "O009": ["[DONE]"],
    "O010": ["x"],
    "O011": ['{"a":'],
    "O012": ['{"choices":[]}'],
    "O013": ['{"error":{"message":"x","type":"server_error"}}'],
}


@pytest.mark.parametrize("row", FRAMED)
def test_rows_are_split_as_the_standard_says(row: str) -> None:
    assert events(row) == FRAMED[row]


@pytest.mark.parametrize("row", ["O002", "O003", "O006", "O012"])
async def test_what_says_nothing_is_passed_over(row: str) -> None:
    assert await text_of(*chunks(row)) == "hello"


@pytest.mark.parametrize("row", ["O001", "O004", "O005", "O010", "O011"])
async def test_what_is_no_json_fails_the_run_and_nothing_else(row: str) -> None:
    assert "not JSON" in await text_of(*chunks(row))


async def test_o007_an_event_without_its_blank_line_is_no_event_and_the_stream_was_cut() -> None:
    broken = streamed(*chat_text("hel")[:-2], *chunks("O007"))
    _, ended, requests = await play(broken, HELLO)
    assert isinstance(ended, ModelRequestError)
    assert (ended.code, requests) == ("truncated_reply", 1)


async def test_o008_a_character_may_be_cut_in_half() -> None:
    body = b"".join(chat_text(*"é€😀")).replace(b"\\u00e9", "é".encode()).replace(b"\\u20ac", "€".encode())
    _, ended, _ = await play(streamed(*(body[at : at + 1] for at in range(len(body)))))
    assert isinstance(ended, RunResult)
    assert ended.text == "é€😀"


async def test_o009_done_ends_a_reply_and_what_follows_is_not_read() -> None:
    _, ended, _ = await play(streamed(*chat_text("hel", "lo"), chat_event({"content": "more"})))
    assert isinstance(ended, RunResult)
    assert ended.text == "hello"
    assert isinstance((await play(streamed(*chunks("O009"))))[1], RunResult | ModelRequestError)


async def test_o013_an_error_in_a_stream_is_tried_again_only_before_the_first_token() -> None:
    _, ended, requests = await play(streamed(*chunks("O013")), HELLO)
    assert isinstance(ended, RunResult)
    assert (ended.text, requests) == ("hello", 2)
    runs, ended, requests = await play(streamed(chat_event({"content": "hel"}), *chunks("O013")), HELLO)
    assert isinstance(ended, ModelRequestError)
    assert (requests, runs.stage.of("notice")) == (1, [])


# ---- cut ----------------------------------------------------------------------------------------------------------

THREE = [stream_head(), *(chunk(chat_event({"content": text})) for text in ("one ", "two ", "three"))]


@pytest.mark.parametrize("end", [RESET, CLOSE, LAST_CHUNK], ids=["O014", "O015 in a chunked body", "O015 clean"])
async def test_o014_and_o015_a_cut_after_the_first_token_ends_the_run(end: Step) -> None:
    async with ModelServer([[*THREE, 0.05, end], HELLO]) as server:
        runs = Runs(server)
        assert isinstance(await runs.ask(), ModelRequestError)
        assert len(server.requests) == 1
        assert "".join(delta.text for delta in runs.stage.of("message.delta")) == "one two three"
        assert [message.role for message in runs.stage.session.messages][-1] == "user"  # half a reply is no reply
        again = await runs.ask()
        assert isinstance(again, RunResult)
        assert again.text == "hello"


async def test_o015_a_close_that_looks_clean_is_told_by_the_missing_end() -> None:
    body = b"".join(chat_text("hel")[:-2])
    cut = [b"HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + body, CLOSE]
    _, ended, _ = await play(cut)
    assert isinstance(ended, ModelRequestError)
    assert ended.code == "truncated_reply"


# ---- arguments and calls ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", ["O016", "O017", "O018", "O020"])
async def test_arguments_that_are_no_object_run_nothing_and_the_model_reads_why(row: str) -> None:
    given = ROWS[row]["input"]
    raw = given.get("tool_args") or "[" * 100_000
    runs, ended, _ = await play(streamed(*chat_calls(("add", raw))), HELLO)
    assert isinstance(ended, RunResult)
    assert (ended.text, runs.calls) == ("hello", [])
    assert "arguments" in results(runs.stage.session.messages)[0]


async def test_o019_of_a_repeated_key_the_last_value_is_asked_for_and_runs() -> None:
    async with ModelServer([streamed(*chat_calls(("add", ROWS["O019"]["input"]["tool_args"]))), HELLO]) as server:
        runs = Runs(server, ask=True)
        shown: list[Any] = []

        async def approve(request: Any, _: Any) -> ApprovalDecision:
            shown.append(request.arguments)
            return ApprovalDecision(approved=True)

        from kestrel_nb.runtime.run import RunOptions

        await runs.ask(options=RunOptions(approve=approve))
        assert shown == runs.calls == [{"a": 2}]


async def test_o021_a_call_without_an_id_is_given_one() -> None:
    gemini = {"candidates": [{"content": {"parts": [{"functionCall": {"name": "add", "args": {"a": 1}}}] * 2}}]}
    ollama = {"message": {"tool_calls": [{"function": {"name": "add", "arguments": {"a": 1}}}] * 2}, "done": True}
    chat = {"index": 0, "function": {"name": "add", "arguments": '{"a":1}'}}
    replies: dict[Any, list[Step]] = {
        GeminiModel: streamed(
            b"data: " + json.dumps(gemini).replace("}]}}]}", '}]},"finishReason":"STOP"}]}').encode(), b"\n\n"
        ),
        OllamaModel: streamed(json.dumps(ollama).encode() + b"\n", content_type="application/x-ndjson"),
        OpenAIChatModel: streamed(
            chat_event({"tool_calls": [chat]}), chat_event({"tool_calls": [{**chat, "index": 1}]}, "tool_calls"), DONE
        ),
    }
    for make, reply in replies.items():
        runs, _, _ = await play(reply, whole("{}", 400), make=make)
        calls = runs.stage.session.messages[1].tool_calls
        assert runs.calls == [{"a": 1}, {"a": 1}]
        assert len({call.id for call in calls if call.id}) == 2


async def test_o022_a_call_of_an_unknown_tool_is_answered_with_the_names_there_are() -> None:
    runs, ended, _ = await play(streamed(*chat_calls(("subtract", "{}"))), HELLO)
    assert isinstance(ended, RunResult)
    assert runs.calls == []
    assert "add" in results(runs.stage.session.messages)[0]


async def test_o023_calls_run_although_the_reply_says_that_it_just_stopped() -> None:
    runs, ended, _ = await play(streamed(*chat_calls(("add", '{"a":1}'), finish="stop")), HELLO)
    assert isinstance(ended, RunResult)
    assert runs.calls == [{"a": 1}]


# ---- refusals -----------------------------------------------------------------------------------------------------

WAITS = {"O024": "2.0 s", "O025": "0.0 s", "O026": "0.0 s", "O027": "0.0 s", "O028": "0.2 s"}


@pytest.mark.parametrize("row", WAITS)
async def test_a_wait_that_the_server_names_is_kept_as_far_as_it_can_be_one(row: str) -> None:
    given = ROWS[row]["input"]
    runs, ended, requests = await play(whole({}, given["status"], given["headers"]), HELLO, max_delay_ms=2000)
    assert isinstance(ended, RunResult)
    assert (ended.text, requests, runs.waits) == ("hello", 2, [WAITS[row]])


async def test_o024_a_wait_is_capped() -> None:
    given = ROWS["O024"]["input"]
    runs, _, _ = await play(whole({}, given["status"], given["headers"]), HELLO, max_delay_ms=100)
    assert runs.waits == ["0.1 s"]


async def test_o029_a_server_error_is_tried_again() -> None:
    _, ended, requests = await play(whole("oops", 500), HELLO)
    assert isinstance(ended, RunResult)
    assert requests == 2


async def test_o030_a_refused_key_is_not_tried_again_nor_shown() -> None:
    key = "sk-abcdef0123456789"
    body = {"error": {"message": f"Incorrect API key provided: {key}"}}
    _, ended, requests = await play(whole(body, 401), api_key=key)
    assert isinstance(ended, ModelRequestError)
    assert (requests, ended.retryable) == (1, False)
    assert key not in str(ended)
    assert key[-4:] not in str(ended)


async def test_o031_json_in_the_place_of_a_stream_is_an_error() -> None:
    given = ROWS["O031"]["input"]
    _, ended, _ = await play(whole(given["body"], given["status"], {"content-type": given["content_type"]}))
    assert isinstance(ended, ModelRequestError)


# ---- servers ------------------------------------------------------------------------------------------------------


async def test_o032_a_server_that_never_answers_is_left_and_can_be_cancelled() -> None:
    _, ended, requests = await play([STALL], timeouts=Timeouts(idle_s=0.1))
    assert isinstance(ended, ModelRequestError)
    assert (ended.code, requests) == ("timeout", 3)
    async with ModelServer([[STALL]]) as server:
        runs = Runs(server)
        run = runs.stage.session.start("go")
        await server.until_asked()
        runs.stage.session.cancel()
        assert (await run).status == "cancelled"
        await server.until_gone()


async def test_o033_a_connection_closed_between_requests_costs_one_more_request_and_no_notice() -> None:
    async with ModelServer([HELLO, [CLOSE], HELLO]) as server:
        runs = Runs(server)
        for _ in range(2):
            ended = await runs.ask()
            assert isinstance(ended, RunResult)
            assert ended.text == "hello"
        assert (len(server.requests), runs.stage.of("notice")) == (3, [])


async def test_o034_a_million_empty_deltas_make_no_event_and_end() -> None:
    empty = chunk(chat_event({"content": ""}) * 1000)
    flood = [stream_head(), *[empty] * 1000, *map(chunk, chat_text("hello")), LAST_CHUNK]
    runs, ended, _ = await play(flood)
    assert isinstance(ended, RunResult)
    assert ended.text == "hello"
    assert len(runs.stage.of("message.delta")) <= 2


async def test_o034_a_flood_of_small_deltas_is_joined_where_it_arrives() -> None:
    small = chunk(chat_event({"content": "x"}) * 100)
    flood = [stream_head(), *[small] * 100, *map(chunk, chat_text("")), LAST_CHUNK]
    runs, ended, _ = await play(flood)
    assert isinstance(ended, RunResult)
    assert ended.text == "x" * 10_000
    assert len(runs.stage.of("message.delta")) <= 200


async def test_o035_usage_that_is_not_there_counts_as_zero() -> None:
    _, ended, _ = await play(HELLO)
    assert isinstance(ended, RunResult)
    assert ended.usage == Usage()


async def test_o036_halves_of_a_surrogate_pair_are_joined() -> None:
    given = ROWS["O036"]["input"]
    pair = [chat_event({"content": given["text"]}), chat_event({"content": given["then"]})]
    runs, ended, _ = await play(streamed(*pair, *chat_text()[1:]))
    assert isinstance(ended, RunResult)
    assert ended.text == ROWS["O036"]["expect"]["text"]
    assert "".join(delta.text for delta in runs.stage.of("message.delta")) == ended.text


def test_every_row_is_held_or_left_out_for_a_reason() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    missing = [row for row in ROWS if row not in source and row.lower() not in source and row not in EXCLUDED]
    assert missing == []
    assert len(ROWS) == 36
