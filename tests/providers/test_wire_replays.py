"""Recorded replies over a server of raw sockets, through the models that people use: whole, one byte a chunk, in any
sizes; and through a whole run, where no call that was cut or is invalid may reach a tool."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from model_server import CLOSE, LAST_CHUNK, ModelServer, Step, chunk, head, stream_head, whole
from replies import FOLDER, Played, Recorded, recorded
from stage import FunctionTool, Stage
from test_wire_transcripts import RUN

from kestrel_nb.protocol.errors import ModelRequestError
from kestrel_nb.protocol.messages import create_message
from kestrel_nb.providers import AnthropicModel, GeminiModel, OllamaModel, OpenAIChatModel, OpenAIResponsesModel
from kestrel_nb.runtime.models import CompletionRequest, TokenDelta
from kestrel_nb.runtime.retry import RetryOptions

MODELS: dict[str, Any] = {
    "openai-chat": OpenAIChatModel,
    "openai-responses": OpenAIResponsesModel,
    "anthropic": AnthropicModel,
    "gemini": GeminiModel,
    "ollama": OllamaModel,
}
FILES = [row["file"] for row in RUN]
WAYS = ("whole", "single bytes", "any sizes")
OWN = ("content-length", "transfer-encoding", "connection", "date", "content-encoding", "keep-alive")


def steps(answer: Recorded, way: str) -> Iterator[Step]:
    """The answer as it is written: its own headers, and the body in chunks unless it came in one piece."""
    headers = {name: value for name, value in answer.headers.items() if name.lower() not in OWN}
    status, error = answer.row["status"], answer.row["error"] or {}
    if status >= 400:
        yield whole(answer.body, status, headers)
        return
    if answer.whole:
        yield head(200, {**headers, "content-length": str(len(answer.body))})
        yield from pieces(answer, way)
        return
    yield stream_head(headers=headers)
    yield b"".join(chunk(piece) for piece in pieces(answer, way))
    if error.get("transport", "").startswith("broken"):
        yield CLOSE
    else:
        yield LAST_CHUNK


def pieces(answer: Recorded, way: str) -> Iterator[bytes]:
    dice = random.Random(answer.row["file"])
    start = 0
    while start < len(answer.body):
        size = {"whole": len(answer.body), "single bytes": 1}.get(way) or dice.choice((1, 3, 16, 61, 200, 1000))
        yield answer.body[start : start + size]
        start += size


def model_for(answer: Recorded, url: str) -> Any:
    return MODELS[answer.row["provider"]]("some-model", base_url=url, api_key="test", stream=not answer.whole)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("file", FILES)
async def test_a_reply_over_a_socket(file: str, way: str) -> None:
    answer = recorded(file)
    played = Played()

    def hear(delta: TokenDelta) -> None:
        played.text += delta.text
        played.reasoning += delta.reasoning
        if delta.call_id:
            name, arguments = played.calls.get(delta.call_id, ("", ""))
            played.calls[delta.call_id] = (delta.tool or name, arguments + delta.arguments)

    async with ModelServer([list(steps(answer, way))]) as server:
        request = CompletionRequest(model="x", messages=(create_message("user", "hello"),))
        try:
            played.response = await model_for(answer, server.url).generate(request, hear)
        except ModelRequestError as error:
            played.error = error
    compare(answer.row, played)


def compare(row: dict[str, Any], played: Played) -> None:
    expected = row["error"]
    if expected is None:
        assert played.response is not None, played.error
        assert played.response.content == row["text"]
        assert [(call.name, call.arguments) for call in played.tool_calls] == [
            (call["name"], call["args"]) for call in row["tool_calls"]
        ]
        assert played.response.finish_reason == row["finish"]
        usage = row["usage"] or {"input": 0, "output": 0}
        assert (played.usage.input_tokens, played.usage.output_tokens) == (usage["input"], usage["output"])
        assert played.text == row["text"]
        return
    assert played.response is None
    assert played.error is not None
    if expected["kind"] == "http":
        assert (played.error.status, played.error.retryable) == (expected["status"], expected["retryable"])
        assert played.error.retry_after_ms == expected["retry_after_ms"]
        assert expected["message"] in str(played.error)
    else:
        assert played.error.retryable
        assert (played.text, played.reasoning) == (row["text"] or "", row["reasoning"] or "")


@pytest.mark.parametrize("file", [row["file"] for row in RUN if row["status"] < 400])
async def test_a_whole_run_with_a_reply(file: str) -> None:
    """Only complete and valid calls reach their tools, the transcript stays valid, and the next request is sent."""
    answer, row = recorded(file), recorded(file).row
    after = next(
        r for r in RUN if (r["provider"], r["kind"], r["error"]) == (row["provider"], after_kind(answer), None)
    )
    ran: list[tuple[str, Any]] = []

    def note(name: str) -> Any:
        return lambda args, _: ran.append((name, dict(args))) or "noted"

    names = ("math_eval", "date_time", "list_dir")
    tools = [FunctionTool(name, note(name), parameters={"type": "object"}) for name in names]
    async with ModelServer([list(steps(answer, "any sizes")), list(steps(recorded(after["file"]), "whole"))]) as server:
        stage = Stage(model_for(answer, server.url), tools, retry=RetryOptions(attempts=1))
        if row["error"]:
            with pytest.raises(ModelRequestError):
                await stage.ask()
            assert (await stage.ask("again")).text == after["text"]
        elif row["finish"] == "error":
            with pytest.raises(ModelRequestError):
                await stage.ask()
        else:
            result = await stage.ask()
            assert result.text == (after["text"] if row["tool_calls"] else row["text"])
        calls = [call for call in row["tool_calls"] if not call.get("invalid") and call["name"] in names]
        assert ran == [(call["name"], call["args"]) for call in calls]
        stage.check()


def after_kind(answer: Recorded) -> str:
    """What kind of reply can follow: the model streams all of its replies, or none."""
    return "text-nonstream" if answer.whole else "text"


def test_the_data_are_there() -> None:
    assert len(FILES) == len([*FOLDER.glob("*__*")]) - len([*FOLDER.glob("*.headers"), *FOLDER.glob("*.request.json")])
