"""One session that goes from one wire format to the next, with all that happens to calls on the way: every request
must be one that a strict server of its format takes, also after the session came back from disk."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dialects import APIS, MODELS, calls, reply, text
from model_server import Asked, ModelServer, Steps
from stage import AsyncFunctionTool, FunctionTool, assert_valid, results
from test_any_transcript import CHECKS

from kestrel_nb import Kestrel
from kestrel_nb.protocol.errors import ModelRequestError
from kestrel_nb.runtime.file_store import FileSessionStore

ORDERS = list(itertools.permutations(APIS))[::5]


def api_of(asked: Asked) -> str:
    paths = {"messages": "anthropic", "responses": "openai-responses", "chat": "ollama"}
    return paths.get(asked.target.rpartition("/")[2], "gemini")


class Wandering:
    """A server that answers in the format in which it is asked: what ``script`` holds next, else text."""

    def __init__(self) -> None:
        self.script: list[Callable[[str], list[Any]]] = []
        self.server = ModelServer([self._answer])

    def _answer(self, asked: Asked) -> Steps:
        api = api_of(asked)
        CHECKS[api](asked.json)
        return reply(api, self.script.pop(0)(api) if self.script else text(api, f"done on {api}"))


def application(server: ModelServer, folder: Path, begun: asyncio.Event) -> Kestrel:
    async def slow(args: Any, _: Any) -> str:
        await asyncio.sleep(0.05)
        return "slow"

    async def hang(args: Any, _: Any) -> str:
        begun.set()
        await asyncio.sleep(60)
        return "never"

    def broken(args: Any, _: Any) -> str:
        raise ZeroDivisionError("division by zero")

    schema: dict[str, Any] = {"parameters": {"type": "object"}, "parallel_safe": True}
    tools = [
        AsyncFunctionTool("slow", slow, **schema),
        FunctionTool("quick", lambda args, context: "quick", **schema),
        AsyncFunctionTool("hang", hang, **schema),
        FunctionTool("broken", broken, **schema),
    ]
    app = Kestrel(workspace=folder, tools=tools, store=FileSessionStore(folder / "store"))
    for api in APIS:
        app.models.register(MODELS[api]("m", base_url=server.url, id=api))
    return app


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: "-".join(order))
async def test_a_session_that_wanders_stays_valid(order: tuple[str, ...], tmp_path: Path) -> None:
    play, begun = Wandering(), asyncio.Event()
    first, second, third, fourth = order
    async with play.server as server:
        async with application(server, tmp_path, begun) as app:
            session = app.sessions.create(model=first)
            play.script = [lambda api: calls(api, ("slow", '{"x":  1}'), ("quick", "{}"))]
            assert (await session.start("go")).text == f"done on {first}"
            assert results(session.messages) == ["slow", "quick"]

            session.set_model(second)
            play.script = [lambda api: calls(api, ("functions.quick", "{}"), ("broken", "{}"), ("quick", "{}"))]
            assert (await session.start("go")).text == f"done on {second}"
            assert results(session.messages)[-1] == "quick"

            session.set_model(third)
            play.script = [lambda api: calls(api, ("quick", "{}"), ("hang", "{}"), ("quick", '{"x":2}'))]
            run = session.start("go")
            await begun.wait()
            session.cancel()
            assert (await run).status == "cancelled"

            session.set_model(fourth)
            play.script = [lambda api: [*text(api, "half")[:-1], {"type": "error", "error": {"message": "boo"}}]]
            with pytest.raises(ModelRequestError, match="boo"):
                await session.start("go")
            for api in (*order, first):
                session.set_model(api)
                assert (await session.start("and now?")).text == f"done on {api}"
            assert_valid(session.messages)
        async with application(server, tmp_path, begun) as app:
            session = app.sessions.get(session.id)
            for api in order:
                session.set_model(api)
                play.script = [lambda api: calls(api, ("quick", '{"x":3}'))]
                assert (await session.start("more")).text == f"done on {api}"
            assert_valid(session.messages)
    assert play.script == []
