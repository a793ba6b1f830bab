"""What a handle says of its own run."""

from dataclasses import replace

from kestrel_nb import Kestrel
from kestrel_nb.notebook.handle import RunHandle
from kestrel_nb.protocol import events as ev
from kestrel_nb.testing import ScriptedModel


async def test_the_request_is_the_message_as_it_was_sent() -> None:
    app = Kestrel(model=ScriptedModel(["one", "two"]))
    await app.initialize()
    session = app.sessions.create()
    for text in ("first\n  `x` {y}", "second"):
        handle = RunHandle(session)
        assert handle.request == ""
        leave = session.subscribe(handle.collect)
        await session.start(text)
        leave()
        assert handle.request == text
    await app.aclose()


def test_a_run_that_goes_on_has_no_request_of_its_own() -> None:
    handle = RunHandle(None)  # type: ignore[arg-type]
    handle.collect(ev.RunStarted(session_id="s", run_id="r", model="m", input="", resumed=True))
    assert handle.request == ""


async def test_the_cost_is_that_of_the_run() -> None:
    app = Kestrel(model=ScriptedModel(["one"]))
    handle = RunHandle(app.sessions.create())
    assert handle.cost is None
    handle.finish({}, replace(await handle.session.start("hi"), cost=0.25))
    assert handle.cost == 0.25
    await app.aclose()
