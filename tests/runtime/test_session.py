"""One session: its settings, rewind and reset, what start refuses, and what is stored of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from stage import FunctionTool, Stage, results

from kestrel_nb.protocol.errors import (
    ModelNotFoundError,
    RewindError,
    SessionBusyError,
    SessionGuardError,
    UsageError,
)
from kestrel_nb.protocol.messages import ImageAttachment, ImagePart, TextPart, ToolCallPart
from kestrel_nb.protocol.sessions import SessionDetail
from kestrel_nb.runtime.file_store import FileSessionStore
from kestrel_nb.testing import Reply, ScriptedModel


def talk(*replies: Any, **options: Any) -> Stage:
    return Stage(ScriptedModel(replies or ["one", "two", "three"]), **options)


async def test_a_second_run_is_refused_while_one_goes_on() -> None:
    stage = talk(Reply("late", before=3600))
    run = stage.session.start("go")
    assert stage.session.is_running
    assert stage.session.summary().is_running
    for change in (lambda: stage.session.start("again"), stage.session.reset):
        with pytest.raises(SessionBusyError, match="running"):
            change()
    with pytest.raises(RewindError) as caught:
        stage.session.rewind(stage.session.messages[0].id)
    assert caught.value.code == "session_busy"
    stage.session.cancel()
    await run
    assert len(stage.session.messages) == 1
    stage.check()


async def test_what_start_refuses_changes_nothing() -> None:
    stage = talk()
    await stage.ask("first", message_id="m1")
    stage.manager.add_guard(lambda context: "spent" if context.action == "run" else None)
    before, count = stage.session.detail(), len(stage.events)
    for start, error in (
        (lambda: stage.session.start("x"), SessionGuardError),
        (lambda: stage.session.start(None), UsageError),  # type: ignore[arg-type]
        (lambda: stage.session.start("x", images=[ImageAttachment()]), UsageError),
        (lambda: stage.session.start("x", images=[ImageAttachment(data="a", url="b")]), UsageError),
    ):
        with pytest.raises(error):
            start()
    assert (stage.session.detail(), len(stage.events)) == (before, count)
    assert not stage.session.is_running


async def test_message_id() -> None:
    stage = talk()
    await stage.ask("first", message_id="m1")
    assert stage.session.messages[0].id == "m1"
    with pytest.raises(UsageError, match='already has a message "m1"'):
        stage.session.start("second", message_id="m1")
    stage.session.rewind("m1")
    await stage.ask("again", message_id="m1")


def test_start_outside_a_loop_says_what_to_do() -> None:
    with pytest.raises(UsageError, match="run_sync"):
        talk().session.start("hi")


async def test_images_are_sent_along() -> None:
    stage = talk()
    await stage.ask("look", images=[ImageAttachment(data="aGk="), ImageAttachment(url="https://x.example/a.png")])
    await stage.ask("", images=[ImageAttachment(data="aGk=")])
    first, second = (message for message in stage.session.messages if message.role == "user")
    assert [type(part) for part in first.parts] == [TextPart, ImagePart, ImagePart]
    assert [type(part) for part in second.parts] == [ImagePart]
    assert stage.model.requests[0].messages[1] == first


async def test_rewind() -> None:
    stage = talk(Reply(tool_calls=[("t", {})]), "one", "two", "three")
    stage.tools.register(FunctionTool("t", lambda *_: "ok"))
    await stage.ask("a")
    await stage.ask("b")
    first, *_, second, last = stage.session.messages
    for id, code in (("nope", "message_not_found"), (last.id, "invalid_rewind_target"), ("", "message_not_found")):
        with pytest.raises(RewindError) as caught:
            stage.session.rewind(id)
        assert caught.value.code == code
    event = stage.session.rewind(second.id)
    assert event.removed == 2
    assert event.messages == stage.session.messages
    assert [message.role for message in event.messages] == ["user", "assistant", "tool", "assistant"]
    assert stage.types()[-2:] == ["session.rewound", "session.updated"]
    await stage.session.ended()
    stored = await stage.manager._store.load(stage.session.id)
    assert stored is not None
    assert stored.messages == event.messages
    await stage.ask("c")
    assert [m.content for m in stage.model.requests[-1].messages if m.role == "user"] == ["a", "c"]
    assert stage.session.rewind(first.id).removed == 6
    assert stage.session.messages == ()


async def test_reset() -> None:
    stage = talk()
    await stage.ask("a")
    stage.session.metadata["count"] = 1
    stage.session.reset()
    assert (stage.session.messages, stage.session.metadata, stage.session.detail().rules) == ((), {}, ())
    assert stage.session.title == "a"
    await stage.ask("b")
    assert [m.content for m in stage.model.requests[-1].messages[1:]] == ["b"]


async def test_settings() -> None:
    stage = talk()
    session = stage.session
    assert (session.title, session.model) == ("", "scripted")
    session.rename("  My\n title \ud800")
    assert session.title == "My title �"
    with pytest.raises(UsageError):
        session.rename(" \n")
    with pytest.raises(ModelNotFoundError):
        session.set_model("scriptde")
    session.set_system_prompt("Be brief. \ud800")
    before = session.summary().updated_at
    session.touch()
    assert session.summary().updated_at >= before
    await stage.ask("hello")
    assert stage.model.requests[0].messages[0].content == "Be brief. �"
    assert session.title == "My title �"
    assert stage.types().count("session.updated") == 4


async def test_the_first_message_gives_the_title() -> None:
    stage = talk()
    await stage.ask("\n  Count the rows of sales.csv  \nplease")
    assert stage.session.title == "Count the rows of sales.csv"


async def test_the_default_prompt_names_workspace_and_tools(tmp_path: Path) -> None:
    stage = talk(default_workspace=str(tmp_path))
    stage.tools.register(FunctionTool("t", lambda *_: "ok"))
    await stage.ask()
    prompt = stage.model.requests[0].messages[0].content
    assert str(tmp_path) in prompt
    assert "these tools: t." in prompt


async def test_a_prompt_of_the_application() -> None:
    stage = talk(system_prompt=lambda workspace: f"at {workspace}", default_workspace="/")
    await stage.ask()
    assert stage.model.requests[0].messages[0].content == "at /"


async def test_settings_without_a_loop_are_stored_with_the_next_write(tmp_path: Path) -> None:
    store = FileSessionStore(tmp_path)
    stage = talk(store=store)

    async def ask(text: str) -> SessionDetail | None:
        await stage.ask(text)
        await stage.session.ended()
        return await store.load(stage.session.id)

    await ask("a")
    second = await ask("b")
    assert second is not None
    stage.session.rewind(second.messages[2].id)
    stage.session.rename("renamed")
    third = await ask("c")
    assert third == stage.session.detail()
    assert third is not None
    assert [message.content for message in third.messages] == ["a", "one", "c", "three"]
    assert third.title == "renamed"


def test_settings_without_any_loop() -> None:
    store_less = talk()
    store_less.session.rename("x")
    asyncio.run(_await(store_less))
    stored = asyncio.run(store_less.manager._store.load(store_less.session.id))
    assert stored == store_less.session.detail()


async def _await(stage: Stage) -> None:
    await stage.ask()


async def test_two_loops_one_after_the_other_with_files(tmp_path: Path) -> None:
    def work() -> Stage:
        stage = talk(store=FileSessionStore(tmp_path))
        asyncio.run(_await(stage))
        asyncio.run(_await(stage))
        return stage

    stage = await asyncio.to_thread(work)
    assert len(stage.session.messages) == 4
    stage.check()


async def test_listeners_and_their_disposers() -> None:
    stage = talk()
    heard: list[str] = []

    def listen(event: Any) -> None:
        heard.append(event.type)

    first, second = stage.session.subscribe(listen), stage.session.subscribe(listen)
    first()
    first()
    stage.session.touch()
    assert heard == ["session.updated"]
    second()
    stage.session.touch()
    assert heard == ["session.updated"]


async def test_a_direct_call_is_told_and_leaves_the_transcript_alone() -> None:
    stage = talk()
    stage.tools.register(FunctionTool("t", lambda *_: "ok", permission="ask"))
    call = ToolCallPart(id="c1", name="t", arguments={}, raw_arguments="{}")
    outcome = await stage.session.use_tool(call)
    assert (outcome.state, outcome.content) == ("executed", "ok")
    assert stage.types()[1:] == ["session.updated", "tool.started", "tool.executed"] or stage.types()[1:] == [
        "tool.started",
        "tool.executed",
    ]
    assert len({event.run_id for event in stage.of("tool.started") + stage.of("tool.executed")}) == 1
    assert stage.session.messages == ()
    assert stage.session.detail().started == ()


async def test_a_session_offers_only_its_tools() -> None:
    stage = talk(Reply(tool_calls=[("a", {}), ("b", {})]), "done")
    for name in ("a", "b"):
        stage.tools.register(FunctionTool(name, lambda *_: "ok"))
    session = stage.manager.create(tools=("b",))
    await session.start("go")
    assert [schema.name for schema in stage.model.requests[0].tools] == ["b"]
    assert results(session.messages) == ['Unknown tool "a". Available tools: b.', "ok"]
