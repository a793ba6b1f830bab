"""KESTREL_CASSETTE=replay in code: no application reaches a model, whatever it is made of."""

from pathlib import Path
from typing import Any

import pytest
from cassette_stage import Counted, record

from kestrel_nb import Cassette, Kestrel, ToolCallError
from kestrel_nb.protocol.errors import KestrelError, UsageError
from kestrel_nb.protocol.sessions import ModelInfo
from kestrel_nb.runtime.models import CompletionRequest, CompletionResponse
from kestrel_nb.testing import Reply, ScriptedModel

PIXEL = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Far:
    """A model behind a network, which counts who asks."""

    def __init__(self, id: str = "m") -> None:
        self.info = ModelInfo(id=id, provider="far", supports_images=True)
        self.asked = 0

    async def generate(self, request: CompletionRequest, on_delta: Any = None) -> CompletionResponse:
        self.asked += 1
        return CompletionResponse(content="From far.")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "talk.jsonl"


@pytest.fixture(autouse=True, params=["replay:", "replay", " replay: ", "replay:other.jsonl"])
def forced(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("KESTREL_CASSETTE", request.param)
    return str(request.param)


@pytest.mark.parametrize("mode", ["record", "off", None])
async def test_without_something_to_play_it_is_refused(path: Path, mode: Any, forced: str) -> None:
    far = Far()
    cassette = None if mode is None else Cassette(path, mode)
    async with Kestrel(workspace=path.parent, model=far, cassette=cassette) as app:
        ways = (app.ask("go"), app.complete("go"), app.complete_with_tools("go"), app.sessions.create().start("go"))
        for way in ways:
            with pytest.raises(UsageError) as raised:
                await way
            assert str(raised.value) == (
                f'KESTREL_CASSETTE is "{forced}" and this application plays no cassette, so m is not asked; '
                'give it one: Kestrel(cassette=Cassette(PATH, "replay"))'
            )
    assert (far.asked, path.exists()) == (0, False)  # noqa: ASYNC240


async def test_auto_plays_and_asks_nobody_for_the_rest(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await record(path, ["one"])
    far = Far()
    async with Kestrel(workspace=path.parent / "work", model=far, cassette=Cassette(path, "auto")) as app:
        assert (await app.ask("go")).text == "one"
        with pytest.raises(KestrelError, match="No recording in"):
            await app.ask("something else")
        assert far.asked == 0
        monkeypatch.delenv("KESTREL_CASSETTE")
        assert (await app.ask("something else")).text == "From far."


async def test_models_that_need_nothing_go_on(path: Path) -> None:
    async with Kestrel(workspace=path.parent) as app:
        assert (await app.ask("what time is it?")).text
    async with Kestrel(workspace=path.parent, model=ScriptedModel(["Hi."])) as app:
        assert (await app.ask("go")).text == "Hi."


async def test_what_a_tool_asks_is_refused_too(path: Path) -> None:
    far = Far("far")

    async def inner(args: Any) -> str:
        async with Kestrel(workspace=path.parent, model=far) as other:
            return (await other.ask("go")).text

    class Asking(Counted):
        async def execute(self, args: Any, context: Any) -> Any:
            return await inner(args)

    tool = Asking("asking", permission="auto")
    model = ScriptedModel([Reply(tool_calls=[("asking", {"n": 1})]), "done"])
    async with Kestrel(workspace=path.parent, model=model, tools=[tool], plugins=["builtin-tools"]) as app:
        session = app.sessions.create()
        await session.start("go")
        (result,) = [message for message in session.messages if message.role == "tool"]
        assert "far is not asked" in result.content
        app.models.register(far, set_default=True)
        described = await app.use_tool("image-describe", {"url": PIXEL})
        assert "far is not asked" in described["message"]
        with pytest.raises(ToolCallError, match="far is not asked"):
            await app.use_tool("asking", {"n": 1})
    assert far.asked == 0


async def test_a_misspelt_mode_asks_no_model_either(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KESTREL_CASSETTE", "relpay:")
    far = Far()
    async with Kestrel(workspace=path.parent, model=far) as app:
        with pytest.raises(UsageError, match='did you mean "replay"'):
            await app.ask("go")
    assert far.asked == 0
