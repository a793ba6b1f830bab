"""Whole runs on llama.cpp's own server with a real model: SmolLM2-135M, which calls the tool that it is told to."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from peer_runs import KEY, PeerRun
from peer_servers import PeerServer, llama_command

from kestrel_nb.protocol.errors import ModelRequestError
from kestrel_nb.protocol.messages import create_message
from kestrel_nb.protocol.sessions import CreateSessionRequest
from kestrel_nb.providers import AnthropicModel, OpenAIChatModel, OpenAIResponsesModel
from kestrel_nb.providers.remote_model import RemoteModel
from kestrel_nb.runtime.models import CompletionRequest
from kestrel_nb.runtime.retry import RetryOptions

Make = Callable[..., RemoteModel]

WEATHER = "What was the weather in Oslo?"
STORY = "Tell me a long story about the sea."
WIRES: dict[str, tuple[Callable[..., RemoteModel], str]] = {
    "openai-chat": (OpenAIChatModel, "/v1"),
    "openai-responses": (OpenAIResponsesModel, "/v1"),
    "anthropic": (AnthropicModel, ""),
}


@pytest.fixture(params=WIRES)
def make(request: pytest.FixtureRequest, llama_server: PeerServer) -> Make:
    """Makes a model of each wire on the server; at temperature 0, so that it says the same each time."""
    model, path = WIRES[request.param]

    def at(server: PeerServer = llama_server, **body: Any) -> RemoteModel:
        return model("smollm2", api_key=KEY, base_url=server.url + path, extra_body={"temperature": 0, **body})

    return at


class LlamaRun(PeerRun):
    """A run with a short system prompt, the same on every machine."""

    def __init__(self, model: RemoteModel, folder: Path, *, attempts: int = 3, tokens: int = 48) -> None:
        retry = RetryOptions(attempts=attempts, base_delay_ms=150, max_delay_ms=400)
        super().__init__(model, folder, retry=retry, max_tokens=tokens)
        self.session = self.app.sessions.create(CreateSessionRequest(system_prompt="You answer a person."))


async def test_a_streamed_call_runs_and_its_result_is_answered(make: Make, tmp_path: Path) -> None:
    async with LlamaRun(make(), tmp_path) as run:
        result = await run.ask(WEATHER)
        assert run.ran == ["Oslo"]
        assert run.results() == ["sunny in Oslo, 21 °C"]
        assert "".join(delta.text for delta in run.of("tool.delta")).replace(" ", "") == '{"city":"Oslo"}'
        assert len(run.of("tool.delta")) > 2
        assert (result.status, result.steps) == ("completed", 2)
        assert "Oslo" in result.text
        assert run.streamed() == result.text
        assert len(run.of("message.delta")) > 2
        assert result.usage.input_tokens > result.usage.output_tokens > 0
        again = await run.ask("And now in one word?")
        assert again.status == "completed"
        assert run.retries() == 0


async def test_a_reply_that_is_not_streamed(llama_server: PeerServer, tmp_path: Path) -> None:
    model = OpenAIChatModel(
        "smollm2", api_key=KEY, base_url=f"{llama_server.url}/v1", extra_body={"temperature": 0}, stream=False
    )
    async with LlamaRun(model, tmp_path) as run:
        result = await run.ask(WEATHER)
        assert run.ran == ["Oslo"]
        assert "Oslo" in result.text


async def test_a_server_that_is_still_loading_is_asked_again(
    make: Make, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    first = LlamaRun(make(), tmp_path)
    async with first:  # what is loaded with a first request is loaded now
        await first.ask("Hi.")
    folder = tmp_path_factory.mktemp("loading")
    server = await asyncio.to_thread(PeerServer, "loading", llama_command(2048, "slowly"), folder, ready=None)
    try:
        async with LlamaRun(make(server), tmp_path, attempts=40) as run:
            result = await run.ask("Hi.")
            assert result.text
            assert run.retries() > 0
            notice = next(event for event in run.of("notice") if event.code == "retry")
            assert "Loading model" in notice.text
            assert "503" in notice.text
    finally:
        await asyncio.to_thread(server.end)


async def test_a_request_beyond_the_window_gives_the_words_of_the_server(make: Make, tmp_path: Path) -> None:
    async with LlamaRun(make(), tmp_path) as run:
        error = await run.fails("word " * 1500)
        assert re.search(r"exceeds the available context size \(1024 tokens\)", str(error))
        assert (error.status, error.retryable, run.retries()) == (400, False, 0)
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("body", "words"),
    [({"temperature": "warm"}, "type"), ({"response_format": {"type": "nonsense"}}, "nonsense|response_format")],
)
async def test_a_bad_request_gives_the_words_of_the_server(
    llama_server: PeerServer, body: dict[str, Any], words: str, tmp_path: Path
) -> None:
    model = OpenAIChatModel("smollm2", api_key=KEY, base_url=f"{llama_server.url}/v1", extra_body=body)
    async with LlamaRun(model, tmp_path) as run:
        error = await run.fails("Hi.")
        assert re.search(words, str(error))
        assert error.retryable is False
        assert "\n" not in str(error)


async def test_cancelling_a_reply_leaves_the_server_usable(make: Make, tmp_path: Path) -> None:
    async with LlamaRun(make(), tmp_path, tokens=600) as run:
        run.session = run.app.sessions.create(CreateSessionRequest(system_prompt="Be brief.", tools=()))
        going = run.session.start(STORY)  # with a tool at hand it may begin with a call
        heard = asyncio.create_task(run.until("message.delta"))
        await asyncio.wait((heard, going.done), return_when=asyncio.FIRST_COMPLETED)
        assert heard.done(), going.done
        run.session.cancel()
        async with asyncio.timeout(5):
            assert (await going).status == "cancelled"
        assert run.streamed()
    async with LlamaRun(make(), tmp_path) as run:
        assert (await run.ask(WEATHER)).status == "completed"
        assert run.ran == ["Oslo"]


async def test_a_model_that_is_left_in_the_middle_of_a_stream(make: Make) -> None:
    heard = asyncio.Event()
    request = CompletionRequest(model="x", messages=(create_message("user", STORY),), max_tokens=600)
    model = make()
    task = asyncio.create_task(model.generate(request, lambda delta: heard.set()))
    async with asyncio.timeout(60):
        await heard.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    short = CompletionRequest(model="x", messages=(create_message("user", "Hi."),), max_tokens=4)
    async with asyncio.timeout(60):
        response = await model.generate(short)
    assert response.content
    if not isinstance(model, OpenAIResponsesModel):  # there the server itself says "completed"
        assert response.finish_reason == "length"


async def test_its_models_are_listed(make: Make) -> None:
    assert [info.id.partition(":")[2] for info in await make().list_models()] == ["smollm2"]


async def test_a_wire_that_it_does_not_speak_is_an_error_of_one_line(llama_server: PeerServer) -> None:
    from kestrel_nb.providers import GeminiModel

    model = GeminiModel("smollm2", api_key=KEY, base_url=llama_server.url)
    with pytest.raises(ModelRequestError) as caught:
        await model.generate(CompletionRequest(model="x", messages=(create_message("user", "Hi."),)))
    assert caught.value.status == 404
    assert "\n" not in str(caught.value)
