"""Whole runs on aimock, which speaks five wire formats and cuts what it says into pieces of three characters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from peer_runs import KEY, WIRES, PeerRun, model_at
from peer_servers import PeerServer

from kestrel_nb.protocol.messages import create_message
from kestrel_nb.runtime.models import CompletionRequest, LanguageModel

HELLO = "Grüße, naïve café 漢字 👩‍👩‍👧 🏔 and a line\nbreak."
CITY = 'São Paulo "centro" \\ 漢字 🏔'
THOUGHT = "Let me think: 漢字 first, then the rest."


@pytest.fixture(params=list(WIRES))
def wire(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def model(aimock_server: PeerServer, wire: str, request: pytest.FixtureRequest) -> LanguageModel:
    """A model that the server tells from those of other tests, so that "once" means once for each."""
    return model_at(aimock_server.url, "aimock", wire, headers={"x-test-id": request.node.name})


@pytest.mark.parametrize("stream", [True, False])
async def test_text(aimock_server: PeerServer, wire: str, stream: bool, tmp_path: Path) -> None:
    async with PeerRun(model_at(aimock_server.url, "aimock", wire, stream=stream), tmp_path) as run:
        result = await run.ask("say hello")
    assert (result.status, result.text, run.streamed()) == ("completed", HELLO, HELLO)


async def test_text_streams(wire: str, model: LanguageModel, tmp_path: Path) -> None:
    async with PeerRun(model, tmp_path) as run:
        assert (await run.ask("say it slowly")).text == HELLO
    assert run.streamed() == HELLO
    assert len(run.of("message.delta")) > 3


async def test_reasoning(wire: str, model: LanguageModel, tmp_path: Path) -> None:
    async with PeerRun(model, tmp_path) as run:
        assert (await run.ask("think first")).text == "Thought through."
        assert "".join(event.text for event in run.of("reasoning.delta")) == THOUGHT
        assert run.session.messages[-1].reasoning == THOUGHT
        assert (await run.ask("say hello")).text == HELLO  # its reasoning goes back, and is taken


@pytest.mark.parametrize("stream", [True, False])
async def test_a_call_its_result_and_the_answer(
    aimock_server: PeerServer, wire: str, stream: bool, tmp_path: Path
) -> None:
    async with PeerRun(model_at(aimock_server.url, "aimock", wire, stream=stream), tmp_path) as run:
        result = await run.ask("one city")
    assert (result.text, result.steps, run.ran) == ("It is sunny there.", 2, [CITY])
    arrived = "".join(event.text for event in run.of("tool.delta"))
    assert json.loads(arrived) == {"city": CITY}


async def test_parallel_calls(wire: str, model: LanguageModel, tmp_path: Path) -> None:
    async with PeerRun(model, tmp_path) as run:
        result = await run.ask("two cities")
    assert (result.text, result.steps, sorted(run.ran)) == ("Sunny in both.", 2, ["Bern", "Oslo"])
    assert run.results() == ["sunny in Oslo, 21 °C", "sunny in Bern, 21 °C"]
    assert run.session.messages[1].content == "Looking at both."


async def test_reasoning_ahead_of_a_call(wire: str, model: LanguageModel, tmp_path: Path) -> None:
    async with PeerRun(model, tmp_path) as run:
        result = await run.ask("think and call")
    assert (result.text, run.ran) == ("Sunny, as I thought.", ["Rome"])
    assert run.session.messages[1].reasoning == "I have to look."


async def test_a_call_ahead_of_text(wire: str, model: LanguageModel, tmp_path: Path) -> None:
    async with PeerRun(model, tmp_path) as run:
        result = await run.ask("call before text")
    assert (result.text, run.ran) == ("Done.", ["Kyiv"])
    assert run.session.messages[1].content == "Looking."


async def test_a_call_without_arguments(wire: str, model: LanguageModel, tmp_path: Path) -> None:
    async with PeerRun(model, tmp_path) as run:
        result = await run.ask("no arguments")
    assert (result.text, run.ran) == ("I need a city.", [])
    assert run.results()[0].startswith('Invalid arguments for "weather": city')


async def test_a_long_conversation_of_everything(wire: str, model: LanguageModel, tmp_path: Path) -> None:
    """Each request carries the calls, results and thoughts of the earlier ones, and is understood."""
    prompts = ["one city", "think first", "two cities", "think and call", "call before text", "say hello"]
    async with PeerRun(model, tmp_path) as run:
        texts = [(await run.ask(prompt)).text for prompt in prompts]
    assert texts == ["It is sunny there.", "Thought through.", "Sunny in both.", "Sunny, as I thought.", "Done.", HELLO]
    assert len(run.ran) == 5


# ---- ends that are none -------------------------------------------------------------------------------------------

# What this server says is not what the vendors say: its Ollama ends everything with "stop", its Responses tell of a
# filter as a reply that failed.
ENDINGS = {"openai-responses": {"content_filter": "error"}, "ollama": {"length": "stop", "content_filter": "stop"}}


@pytest.mark.parametrize(("prompt", "finish"), [("be long", "length"), ("be filtered", "content_filter")])
async def test_how_a_reply_ended(wire: str, model: LanguageModel, prompt: str, finish: str) -> None:
    request = CompletionRequest(model="m", messages=(create_message("user", prompt),))
    response = await model.generate(request)
    assert response.finish_reason == ENDINGS.get(wire, {}).get(finish, finish)
    assert response.content == ("This text was cut" if finish == "length" else "")


async def test_a_call_of_a_reply_that_was_cut_at_its_limit_does_not_run(
    wire: str, model: LanguageModel, tmp_path: Path
) -> None:
    async with PeerRun(model, tmp_path) as run:
        result = await run.ask("call until the limit")
    assert result.text == "Shorter."
    if wire == "ollama":  # it does not say that the reply was cut
        assert run.ran == ["Lima"]
    else:
        assert run.ran == []
        assert "cut off" in run.results()[0]


async def test_a_text_that_breaks_off(wire: str, model: LanguageModel, tmp_path: Path) -> None:
    async with PeerRun(model, tmp_path) as run:
        error = await run.fails("cut the text")
        assert error.retryable
        assert "one two three four five six seven eight nine ten".startswith(run.streamed())
        assert len(run.session.messages) == 1
        assert (await run.ask("say hello")).text == HELLO


async def test_a_reply_that_breaks_off_before_its_text_is_asked_again(
    wire: str, model: LanguageModel, tmp_path: Path
) -> None:
    async with PeerRun(model, tmp_path) as run:
        assert (await run.ask("cut it once")).text == "Whole this time."
        assert run.retries() == 1


@pytest.mark.parametrize(
    ("wire", "prompt"),
    [
        ("openai-chat", "cut the call"),
        ("openai-responses", "cut the call"),
        ("anthropic", "cut the call"),
        ("openrouter", "cut the call"),
        ("ollama", "cut behind the call"),  # which is one line; the line that ends the reply is missing
    ],
)
async def test_a_call_that_breaks_off_never_runs(wire: str, prompt: str, model: LanguageModel, tmp_path: Path) -> None:
    async with PeerRun(model, tmp_path) as run:
        assert (await run.fails(prompt)).retryable
    assert run.ran == []
    assert run.of("tool.started") == []


# ---- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("status", "kind"), [(429, "rate_limit_error"), (500, "server_error"), (503, "server_error")])
async def test_a_refusal_that_may_pass(
    status: int, kind: str, aimock_server: PeerServer, wire: str, model: LanguageModel, tmp_path: Path
) -> None:
    body = {"message": "Not now, please.", "type": kind}
    aimock_server.call("POST", "/__aimock/error", {"status": status, "body": body})
    async with PeerRun(model, tmp_path) as run:
        result = await run.ask("one city")
    assert (result.text, run.ran, run.retries()) == ("It is sunny there.", [CITY], 1)
    (notice,) = [event.text for event in run.of("notice") if event.code == "retry"]
    assert f"{status}: Not now, please." in notice


async def test_a_refusal_that_stays(aimock_server: PeerServer, wire: str, model: LanguageModel, tmp_path: Path) -> None:
    body = {"message": f"Incorrect API key provided: {KEY}", "type": "authentication_error"}
    aimock_server.call("POST", "/__aimock/error", {"status": 401, "body": body})
    async with PeerRun(model, tmp_path) as run:
        error = await run.fails("one city")
    assert (error.status, error.retryable, run.retries()) == (401, False, 0)
    assert KEY not in str(error)


async def test_what_the_server_does_not_know(wire: str, model: LanguageModel, tmp_path: Path) -> None:
    """With --strict a request that no fixture fits is refused, in whatever words the server has for it."""
    async with PeerRun(model, tmp_path) as run:
        error = await run.fails("something that nobody wrote down")
    assert error.status is not None
    assert error.status >= 400
