"""Cassettes that several ask at once, that are let go and taken up again, or that nothing can be written to."""

import asyncio
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from cassette_stage import Counted, record, replay, yes

from kestrel_nb import Cassette, Kestrel, ToolExecutionResult
from kestrel_nb.protocol.errors import UsageError
from kestrel_nb.protocol.messages import create_message
from kestrel_nb.protocol.sessions import ModelInfo
from kestrel_nb.runtime.models import CompletionRequest, CompletionResponse
from kestrel_nb.testing import Reply, ScriptedModel

MANY = 40


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "talk.jsonl"


def entries(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def asked(*texts: str) -> CompletionRequest:
    return CompletionRequest(model="m", messages=tuple(create_message("user", text) for text in texts))


class Echo:
    """A model that says what it was asked."""

    info = ModelInfo(id="m", provider="p")

    async def generate(self, request: CompletionRequest, on_delta: Any = None) -> CompletionResponse:
        return CompletionResponse(content=" ".join(message.content for message in request.messages))


def in_threads(cassette: Cassette) -> list[list[str]]:
    """What several threads are told, each in a conversation that grows."""
    told: list[list[str]] = [[] for _ in range(4)]

    async def talk(number: int) -> None:
        model, said = cassette.model("m", Echo, "/nowhere"), list[str]()
        for turn in range(MANY):
            said.append(f"{number}.{turn}")
            told[number].append((await model.generate(asked(*said))).content)

    threads = [threading.Thread(target=lambda n=n: asyncio.run(talk(n))) for n in range(len(told))]  # type: ignore[misc]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told


def test_threads_record_and_play_at_once(path: Path) -> None:
    cassette = Cassette(path, "record")
    first = in_threads(cassette)
    cassette.close()
    assert [len(told) for told in first] == [MANY] * 4
    assert sum(entry.get("kind") == "reply" for entry in entries(path)) == 4 * MANY
    cassette = Cassette(path, "replay")
    assert in_threads(cassette) == first
    assert cassette.unused == ()


async def test_auto_that_was_let_go_goes_on_where_it_was(path: Path) -> None:
    cassette = Cassette(path, "auto")
    model = cassette.model("m", lambda: ScriptedModel(["one", "two"], id="m"), "/nowhere")
    assert (await model.generate(asked("go"))).content == "one"
    cassette.release()
    assert (await model.generate(asked("go"))).content == "two"
    cassette.close()
    cassette = Cassette(path, "replay")
    model = cassette.model("m", lambda: ScriptedModel([]), "/nowhere")
    said = [(await model.generate(asked("go"))).content]
    cassette.release()
    said.append((await model.generate(asked("go"))).content)
    assert (said, cassette.unused) == (["one", "two"], ())


async def test_what_another_one_has_recorded_meanwhile_is_read(path: Path) -> None:
    first, second = Cassette(path, "auto"), Cassette(path, "auto")
    model = first.model("m", lambda: ScriptedModel(["one"], id="m"), "/nowhere")
    await model.generate(asked("go"))
    first.release()
    other = second.model("m", lambda: ScriptedModel(["two"], id="m"), "/nowhere")
    await other.generate(asked("on"))
    second.close()
    assert [(await model.generate(asked(text))).content for text in ("go", "on")] == ["one", "two"]


async def test_no_model_is_asked_for_what_can_not_be_recorded(path: Path) -> None:
    await record(path, ["one"])
    busy = Cassette(path, "auto")
    busy.open()
    model = ScriptedModel(["never"], id="m")
    async with Kestrel(workspace=path.parent / "work", model=model, cassette=Cassette(path, "auto")) as app:
        assert (await app.ask("go")).text == "one"
        with pytest.raises(UsageError, match="another notebook or program is recording"):
            await app.ask("something else")
    assert len(model.requests) == 0
    busy.close()


def contents(events: list[Any]) -> list[str]:
    return [event.message.content for event in events if event.type == "message.completed"]


async def test_a_recording_that_could_not_be_kept_is_not_replaced(path: Path) -> None:
    await record(path, ["one"])
    before = entries(path)
    os.mkdir(f"{path}.bak")
    model = ScriptedModel(["never"], id="m")
    async with Kestrel(workspace=path.parent / "work", model=model, cassette=Cassette(path, "record")) as app:
        with pytest.raises(UsageError, match=r"talk\.jsonl\.bak, where its recording would be kept, can't be written"):
            await app.ask("go")
    assert (model.requests, entries(path)) == ([], before)


async def test_calls_that_run_at_once_get_their_own_results_in_any_order(path: Path) -> None:
    """Two of them with the same arguments end in the other order than they were asked for."""
    ended = list[int]()
    turns = [asyncio.Event() for _ in range(3)]

    class Racing(Counted):
        async def execute(self, args: Any, context: Any) -> Any:
            place = len(self.ran)
            self.ran.append(args)
            if place < 2:
                await turns[place + 1].wait()
            turns[place].set()
            ended.append(place)
            return ToolExecutionResult(content=f"result {place}")

    calls = [("measure", {"n": 1})] * 3
    options = {"permission": "auto", "parallel_safe": True}
    replies = [Reply(tool_calls=calls), "done"]
    (first,), before, _ = await record(path, replies, [Racing(**options)], approve=yes)
    assert ended == [2, 1, 0]
    never = Racing(**options)
    (again,), after, cassette = await replay(path, [never])
    assert (again.text, never.ran, cassette.unused) == (first.text, [], ())
    results = [
        [event.message.content for event in events if event.type == "message.completed"] for events in (before, after)
    ]
    assert results[0] == results[1]


@pytest.mark.parametrize("mode", ["record", "auto", "replay"])
def test_a_path_of_bytes_is_none(mode: Any) -> None:
    class Bytes:
        def __fspath__(self) -> bytes:
            return os.fsencode("x.jsonl")

    for path in (b"x.jsonl", Bytes(), 7, None):
        with pytest.raises(UsageError, match="a cassette needs the path of its file"):
            Cassette(path, mode)  # type: ignore[arg-type]


def test_the_mode_can_not_be_changed(path: Path) -> None:
    with pytest.raises(AttributeError):
        Cassette(path, "replay").mode = "record"  # type: ignore[misc]
