"""No key in a log, nor in the traceback of an error that ends up below a cell."""

import io
import logging
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

from kestrel_nb import Kestrel, ModelInfo, ModelRequestError, tool
from kestrel_nb.runtime.logs import without_keys
from kestrel_nb.testing import Reply, ScriptedModel

KEY = "sk-planted-0815-key-of-logs"


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What is logged, as a handler at the top writes it."""
    monkeypatch.setenv("SOME_API_KEY", KEY)
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    logging.getLogger().addHandler(handler)
    yield text
    logging.getLogger().removeHandler(handler)


@tool
def boom(n: int) -> str:
    """Fail."""
    raise ValueError(f"a tool with {KEY}")


class Broken:
    info = ModelInfo(id="broken", provider="p")

    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind

    async def generate(self, request: Any, on_delta: Any = None) -> Any:
        try:
            raise KeyError(KEY)
        except KeyError as error:
            raise self.kind(f"failed with {KEY}") from error


@pytest.mark.parametrize("kind", [RuntimeError, ModelRequestError, SystemExit])
async def test_a_model_that_fails(kind: type[BaseException], log: io.StringIO) -> None:
    async with Kestrel(model=Broken(kind)) as app:
        with pytest.raises(Exception) as raised:  # noqa: PT011 - each kind comes as another one
            await app.ask("go")
    shown = "".join(traceback.format_exception(raised.value))
    assert "***" in shown
    assert KEY not in shown + log.getvalue()
    if kind is not ModelRequestError:
        assert "***" in log.getvalue()
        assert "Traceback" in log.getvalue()


async def test_what_else_fails(log: io.StringIO) -> None:
    def refuse(*_: Any) -> Any:
        raise RuntimeError(f"a resolver with {KEY}")

    async def answer(*_: Any) -> Any:
        raise RuntimeError(f"a handler with {KEY}")

    replies = [Reply(tool_calls=[("boom", {"n": 1})]), "done"]
    async with Kestrel(model=ScriptedModel(replies), tools=[boom], resolve_permission=refuse) as app:
        await app.ask("go")
    replies = [Reply(tool_calls=[("shell", {"command": "true"})]), "done"]
    async with Kestrel(model=ScriptedModel(replies), approve=answer) as app:
        app.events.subscribe("run.started", refuse)
        await app.ask("go")
    assert [name for name in ("resolver", "handler", "listener") if name not in log.getvalue()] == []
    assert KEY not in log.getvalue()


def test_what_holds_no_key_is_logged_as_it_is(log: io.StringIO) -> None:
    logger = without_keys(without_keys(logging.getLogger("some.logger")))
    assert len(logger.filters) == 1
    logger.warning("plain %s", "words")
    logger.warning("with %s", KEY)
    assert log.getvalue() == "plain words\nwith ***\n"
