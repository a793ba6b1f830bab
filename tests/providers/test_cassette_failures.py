"""Requests that failed: recorded and played with their retries, and asked again where a cassette is gone on with."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from cassette_stage import play, record, replay, told

from kestrel_nb import Cassette, Kestrel, KestrelConfig, ModelRequestError
from kestrel_nb.protocol.errors import KestrelError, MissingExtraError, UsageError
from kestrel_nb.protocol.sessions import ModelInfo
from kestrel_nb.providers import OpenAIChatModel
from kestrel_nb.runtime.models import CompletionRequest, CompletionResponse, TokenDelta
from kestrel_nb.runtime.retry import RetryOptions
from kestrel_nb.testing import Reply, ScriptedModel

KEY = "zq-planted-4711-key-for-tests"
FAST = KestrelConfig(retry=RetryOptions(attempts=3, base_delay_ms=40))
SLOW = KestrelConfig(retry=RetryOptions(attempts=3, base_delay_ms=3_600_000, max_delay_ms=3_600_000))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "talk.jsonl"


def text_of(path: Path) -> str:
    return path.read_text("utf-8")


def rewrite(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")


def busy(**more: Any) -> ModelRequestError:
    return ModelRequestError("busy", status=503, retryable=True, **more)


def entries(path: Path, kind: str) -> list[Any]:
    return [entry for entry in map(json.loads, text_of(path).splitlines()) if entry.get("kind") == kind]


def facts(error: Any) -> tuple[Any, ...]:
    names = ("code", "status", "retryable", "retry_after_ms", "request_id")
    return (type(error), str(error), *(getattr(error, name, None) for name in names))


@pytest.mark.parametrize(
    "replies",
    [
        [Reply(error=ModelRequestError("m answered 401: no; check the API key", status=401, request_id="req-7"))],
        [Reply("The answ", error=ModelRequestError("m broke off", retryable=True), error_after=2)],
        [Reply(error=ModelRequestError("the conversation is too long", status=400, code="context_exceeded"))],
        [Reply(error=busy()), Reply(error=busy(retry_after_ms=30.0)), Reply(error=busy())],
        [Reply(error=busy()), "good"],
        [Reply("ab", tool_calls=[("list_dir", {"path": "."})]), Reply(error=busy(retry_after_ms=20)), "good"],
        [Reply("", finish_reason="error")],
        [Reply(error=UsageError("the request can't be written as JSON"))],
        [Reply(error=MissingExtraError("pip install 'kestrel-nb[local]'"))],
    ],
)
async def test_a_failure_is_played_event_by_event(path: Path, replies: list[Any]) -> None:
    before = await failing(path, "record", ScriptedModel(replies, id="m", delta_chars=4))
    after = await failing(path, "replay", "m")
    assert facts(after[0]) == facts(before[0])
    assert told(after[1]) == told(before[1])
    assert after[2].unused == ()


async def failing(path: Path, mode: Any, model: Any, config: Any = FAST) -> tuple[Any, list[Any], Cassette]:
    """What a run gave or raised, its events, and the cassette."""
    cassette, events = Cassette(path, mode), list[Any]()
    async with Kestrel(workspace=path.parent, model=model, cassette=cassette, config=config) as app:
        app.sessions.subscribe(events.append)
        try:
            return (await app.ask("go")).text, events, cassette
        except KestrelError as error:
            return error, events, cassette


async def test_nobody_waits_for_what_is_played(path: Path) -> None:
    hint = 3_600_000.0
    asked = ScriptedModel([Reply(error=busy()), Reply(error=busy()), "good"], id="m")
    await failing(path, "record", asked)
    begun = time.monotonic()
    text, events, _ = await failing(path, "replay", "m", SLOW)
    assert text == "good"
    waits = [event.text for event in events if event.type == "notice"]
    assert [wait.rpartition(" s, ")[2] for wait in waits] == ["attempt 2 of 3.", "attempt 3 of 3."]
    rewrite(path, text_of(path).replace('"status": 503', f'"status": 503, "retryAfterMs": {hint}'))
    text, events, _ = await failing(path, "replay", "m", SLOW)
    assert "Trying again in 3600.0 s" in next(event.text for event in events if event.type == "notice")
    assert time.monotonic() - begun < 60


async def test_the_last_failure_counts_where_more_tries_are_made(path: Path) -> None:
    await failing(path, "record", ScriptedModel([Reply(error=busy())] * 2, id="m"), tries(2))
    for attempts in (1, 2, 5):
        error, events, _ = await failing(path, "replay", "m", tries(attempts))
        assert (str(error), error.status) == ("busy", 503)
        assert len([event for event in events if event.type == "notice"]) == min(attempts - 1, 2)


def tries(attempts: int) -> KestrelConfig:
    return KestrelConfig(retry=RetryOptions(attempts=attempts, base_delay_ms=1))


async def test_a_server_that_refuses_is_played_without_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    home = str(Path.home())

    def refuse(request: httpx.Request) -> httpx.Response:
        said = f"bad key {KEY}, or {json.dumps(KEY)} in {home}/keys, sk-abc…wxyz"
        return httpx.Response(401, json={"error": {"message": said}}, headers={"x-request-id": "r-1"})

    model = OpenAIChatModel("m", transport=httpx.MockTransport(refuse))
    first, before, _ = await failing(path, "record", model)
    assert "401" in str(first)
    text = text_of(path)
    assert KEY not in text
    assert "wxyz" not in text
    assert f"{home}/keys" not in text
    monkeypatch.delenv("OPENAI_API_KEY")
    again, after, _ = await failing(path, "replay", OpenAIChatModel("m"))
    assert facts(again) == facts(first)
    assert told(after) == told(before)


async def test_a_stream_that_was_cut_off_is_played(path: Path) -> None:
    chunk = 'data: {"choices": [{"delta": {"content": "Half of"}}]}\n\n'

    def cut(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=chunk.encode(), headers={"content-type": "text/event-stream"})

    model = OpenAIChatModel("m", api_key="any", transport=httpx.MockTransport(cut))
    first, before, _ = await failing(path, "record", model)
    assert isinstance(first, ModelRequestError)
    again, after, _ = await failing(path, "replay", OpenAIChatModel("m", api_key="any"))
    assert facts(again) == facts(first)
    assert told(after) == told(before)
    assert "Half of" in [event.text for event in after if event.type == "message.delta"]


async def test_a_fault_of_a_model_and_a_stopped_reply_are_not_recorded(path: Path) -> None:
    begun, hung = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        begun.set()
        await hung.wait()

    model = ScriptedModel([Reply(error=RuntimeError("no")), Reply("never", before=hang), "good"], id="m")
    async with Kestrel(workspace=path.parent, model=model, cassette=Cassette(path, "record")) as app:
        with pytest.raises(RuntimeError):
            await app.ask("broken")
        session = app.sessions.create()
        run = session.start("hang")
        await begun.wait()
        session.cancel()
        hung.set()
        assert (await run).status == "cancelled"
        await app.ask("go")
    assert (len(entries(path, "reply")), entries(path, "failure")) == (1, [])


async def test_auto_asks_again_for_what_failed(path: Path) -> None:
    for attempt, reply in enumerate([Reply(error=busy()), Reply(error=busy())]):
        await failing(path, "auto", ScriptedModel([reply] * 3, id="m"))
        assert len(entries(path, "failure")) == 3, attempt
    text, _, _ = await failing(path, "auto", ScriptedModel([Reply(error=busy()), "good"], id="m"))
    assert text == "good"
    assert (len(entries(path, "failure")), entries(path, "reply")[0]["instead"]) == (3, 2)
    for mode in ("replay", "auto"):
        text, events, cassette = await failing(path, mode, "m")
        assert (text, cassette.unused) == ("good", ())
        assert [event.text.partition(" ")[0] for event in events if event.type == "notice"] == ["busy"]


async def test_auto_keeps_the_latest_failure(path: Path) -> None:
    await failing(path, "auto", ScriptedModel([Reply(error=ModelRequestError("no key", code="no_api_key"))], id="m"))
    refused = ModelRequestError("m answered 401", status=401)
    await failing(path, "auto", ScriptedModel([Reply(error=refused)], id="m"))
    error, _, cassette = await failing(path, "replay", "m")
    assert (str(error), cassette.unused) == ("m answered 401", ())
    error, _, _ = await failing(path, "auto", "m")
    assert error.code == "model_not_found" or "No recording" in str(error)


async def test_failures_alone_do_not_take_the_place_of_the_backup(path: Path) -> None:
    await record(path, ["one"], prompts=["go"])
    good = text_of(path)
    for _ in range(2):
        await record(path, [Reply(error=ModelRequestError("no key"))], prompts=["go"])
        assert text_of(Path(f"{path}.bak")) == good


async def test_a_failure_and_the_same_request_again_come_in_their_order(path: Path) -> None:
    prompts = ["go", "go", "go"]
    replies = ["one", Reply(error=ModelRequestError("no", status=400)), "three"]
    await record(path, replies, prompts=prompts)
    (first, second, third), _, cassette = await replay(path, prompts=prompts)
    assert (first.text, str(second), third.text, cassette.unused) == ("one", "no", "three", ())
    (_, _, _, fourth), _, _ = await replay(path, prompts=[*prompts, "go"])
    assert "recorded 3 times and was played as often" in str(fourth)


async def test_a_key_in_a_failure_of_any_model_is_masked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", KEY)

    class Echo:
        info = ModelInfo(id="echo", provider="p")

        async def generate(self, request: CompletionRequest, on_delta: Any = None) -> CompletionResponse:
            on_delta(TokenDelta(text=KEY[:9]))
            on_delta(TokenDelta(text=KEY[9:]))
            raise ModelRequestError(f"refused {KEY}", request_id=KEY, code="refused")

    cassette = Cassette(path, "record")
    with pytest.raises(ModelRequestError):
        await cassette.model("echo", Echo, "/nowhere").generate(CompletionRequest(model="echo", messages=()), print)
    assert KEY not in text_of(path)
    assert entries(path, "failure")[0]["deltas"] == [{"text": "***"}]


@pytest.mark.parametrize(
    "spoilt",
    [
        {"error": 3},
        {"error": None},
        {"deltas": 5},
        {"status": "x", "retryAfterMs": 10**400, "jitter": -4, "requestId": [], "code": 3, "type": []},
        {"status": 1e300, "retryAfterMs": True, "jitter": "x", "type": "Exception"},
        {"instead": -3},
        {"instead": 10**30},
        {"instead": "x"},
    ],
)
async def test_a_failure_that_was_spoilt_by_hand_is_one_line(path: Path, spoilt: Any) -> None:
    await record(path, [Reply(error=ModelRequestError("no", status=400))])
    rows = [json.loads(line) for line in text_of(path).splitlines()]
    rows[-1] |= spoilt
    rewrite(path, "".join(json.dumps(row) + "\n" for row in rows))
    (error,), _, _ = await replay(path)
    assert isinstance(error, ModelRequestError)
    assert "\n" not in str(error)


async def test_an_older_cassette_plays(path: Path) -> None:
    """One without failures, as they were written before there were any."""
    await record(path, ["one", "two"], prompts=["go", "on"])
    assert "failure" not in text_of(path)
    assert json.loads(text_of(path).splitlines()[0])["version"] == 1
    results, _, _ = await play(path, "replay", [], ["go", "on"], model="m")
    assert [result.text for result in results] == ["one", "two"]
