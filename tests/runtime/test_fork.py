"""A fork of a session: what it takes along, what stays behind, and that each goes its own way, restarts included."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from resume_child import SESSION, make_app
from stage import FunctionTool, Stage, assert_valid, results

from kestrel_nb import ApprovalDecision
from kestrel_nb.protocol.errors import SessionBusyError, SessionGuardError, SessionNotFoundError, StoreError, UsageError
from kestrel_nb.protocol.sessions import PermissionRule, Usage
from kestrel_nb.runtime.file_store import FileSessionStore
from kestrel_nb.runtime.forking import NOT_BEGUN, STAYED, fork_title
from kestrel_nb.runtime.tool_calls import INTERRUPTED
from kestrel_nb.testing import Reply, ScriptedModel


def talk(*replies: Any, **options: Any) -> Stage:
    tools = [FunctionTool("act", lambda args, context: "did", permission="ask")]
    return Stage(ScriptedModel(replies or [f"answer {n}" for n in range(9)]), tools, **options)


def said(session: Any) -> list[str]:
    return [message.content for message in session.messages]


async def test_it_takes_the_conversation_along_and_goes_its_own_way() -> None:
    stage = talk()
    session = stage.session
    session.set_system_prompt("Be brief.")
    await session.start("first")
    fork = stage.manager.fork(session.id)
    assert (fork.id != session.id, fork.title, session.title) == (True, "first (fork)", "first")
    assert fork.messages == session.messages
    assert (fork.model, fork.workspace, fork.detail().system_prompt) == (session.model, session.workspace, "Be brief.")
    assert fork.usage == Usage()
    await fork.start("here")
    await session.start("there")
    assert said(fork) == ["first", "answer 0", "here", "answer 1"]
    assert said(session) == ["first", "answer 0", "there", "answer 2"]
    assert [m.content for m in stage.model.requests[1].messages][1:] == ["first", "answer 0", "here"]
    fork.rewind(fork.messages[0].id)
    assert len(session.messages) == 4
    await stage.manager.delete(session.id)
    assert stage.manager.list()[0].id == fork.id


async def test_its_events_begin_anew_and_say_that_it_came_into_being() -> None:
    stage = talk()
    await stage.ask()
    fork = stage.manager.fork(stage.session.id, new_id="mine", title="My\nown")
    assert (fork.id, fork.title) == ("mine", "My own")
    events = [event for event in stage.events if event.session_id == "mine"]
    assert [(event.seq, event.type) for event in events] == [(1, "session.created"), (2, "session.updated")]
    assert stage.manager.get("mine") is fork


async def test_an_open_question_and_what_was_allowed_stay_behind() -> None:
    reply = Reply(tool_calls=[("act", {"x": 1}), ("act", {"x": 2})])
    stage = talk(reply, "finished", "fine")
    session = stage.session
    session.add_rule(PermissionRule(tool="*", action="deny", match="secret*"))
    run = session.start("go")
    request = await stage.question()
    with pytest.raises(SessionBusyError):
        stage.manager.fork(session.id)
    run.signal.cancel("enough")
    await session.ended()
    session.add_rule(PermissionRule(tool="act", action="auto"))
    fork = stage.manager.fork(session.id)
    assert fork.rules == (PermissionRule(tool="*", action="deny", match="secret*"),)
    assert (fork.pending, fork.approvals, fork.interrupted) == ((), (), ())
    assert not any(request.session_id == fork.id for request in stage.manager.approvals.pending())
    assert request.id not in {record.request.id for record in fork.approvals}
    assert_valid(fork.messages)


def before(folder: Path) -> Path:
    """A folder for the process that dies."""
    made = folder / "before"
    made.mkdir()
    return made


async def left_at_its_question(folder: Path, *calls: Any) -> str:
    """Stores in ``folder`` what a process leaves that dies while its first question waits; the question's id."""
    async with make_app(before(folder), [Reply(tool_calls=list(calls)), "finished"]) as app:
        session = app.sessions.create(id=SESSION)
        asked = asyncio.Event()
        app.events.subscribe("approval.requested", lambda _: asked.set())
        session.start("go")
        await asked.wait()
        await FileSessionStore(folder).save(session.detail())
        return session.pending[0].id


async def test_a_stored_question_is_closed_in_the_fork_and_open_in_its_source(tmp_path: Path) -> None:
    id = await left_at_its_question(tmp_path, ("act", {"x": 1}), ("act", {"x": 2}))
    async with make_app(tmp_path, ["source ends", "fork ends"]) as app:
        source = app.sessions.get(SESSION)
        fork = app.sessions.fork(SESSION)
        assert results(fork.messages) == [STAYED, NOT_BEGUN]
        assert [request.id for request in app.approvals.pending()] == [id]
        assert fork.interrupted == ()
        await fork.ended()
        await fork.start("and now?")
        assert_valid(fork.messages)
        app.approvals.resolve(id, ApprovalDecision(approved=False))
        source.cancel()
        await source.ended()
        assert STAYED not in results(source.messages)


async def test_a_call_that_had_begun_is_interrupted_in_both(tmp_path: Path) -> None:
    async with make_app(before(tmp_path), [Reply(tool_calls=[("hang_auto", {"x": 1})])]) as app:
        began = asyncio.Event()
        app.events.subscribe("tool.started", lambda _: began.set())
        session = app.sessions.create(id=SESSION)
        session.start("go")
        await began.wait()
        await FileSessionStore(tmp_path).save(session.detail())
    async with make_app(tmp_path, ["fine"]) as app:
        fork = app.sessions.fork(SESSION)
        assert results(fork.messages) == [INTERRUPTED]
        assert len(app.sessions.get(SESSION).interrupted) == 1
        await fork.start("on")
        assert_valid(fork.messages)


async def test_both_are_there_after_a_restart(tmp_path: Path) -> None:
    async with make_app(tmp_path, ["one", "two", "three"]) as app:
        session = app.sessions.create(id=SESSION)
        await session.start("first")
        fork = app.sessions.fork(SESSION, new_id="copy")
        await fork.ended()
        stored = await FileSessionStore(tmp_path).load("copy")
        assert stored is not None
        assert stored.messages == session.messages
        await fork.start("here")
    async with make_app(tmp_path, ["four"]) as app:
        assert said(app.sessions.get("copy")) == ["first", "one", "here", "two"]
        assert said(app.sessions.get(SESSION)) == ["first", "one"]
        await app.sessions.get(SESSION).start("there")
        assert len(app.sessions.get("copy").messages) == 4


async def test_what_it_refuses_changes_nothing() -> None:
    stage = talk()
    await stage.ask()
    manager = stage.manager
    with pytest.raises(SessionNotFoundError):
        manager.fork("nope")
    for id in (stage.session.id, "", "../up", "a b"):
        with pytest.raises(UsageError):
            manager.fork(stage.session.id, new_id=id)

    def refuse(context: Any) -> str:
        raise SessionGuardError("enough sessions")

    dispose = manager.add_guard(refuse)
    with pytest.raises(SessionGuardError):
        manager.fork(stage.session.id)
    dispose()
    assert [summary.id for summary in manager.list()] == [stage.session.id]
    assert len(stage.of("session.created")) == 1


def put_in_the_way(folder: Path) -> None:
    """A file in place of ``folder``, which whoever looks after the session may just have made anew."""
    while not folder.is_file():
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(IsADirectoryError):
            folder.write_text("in the way")


async def test_a_broken_store_leaves_no_half_session(tmp_path: Path) -> None:
    async with make_app(tmp_path, ["one"]) as app:
        await app.sessions.create(id=SESSION).start("first")
        (tmp_path / "sessions").rename(tmp_path / "away")
        put_in_the_way(tmp_path / "sessions")
        with pytest.raises(StoreError):
            app.sessions.fork(SESSION, new_id="copy")
        assert not app.sessions.has("copy")
        (tmp_path / "sessions").unlink()
        (tmp_path / "away").rename(tmp_path / "sessions")
        assert app.sessions.fork(SESSION, new_id="copy").id == "copy"


@pytest.mark.parametrize(
    ("title", "taken", "made"),
    [
        ("", {""}, ""),
        ("Sales", set(), "Sales (fork)"),
        ("Sales", {"Sales (fork)"}, "Sales (fork 2)"),
        ("Sales (fork 2)", {"Sales (fork)", "Sales (fork 2)"}, "Sales (fork 3)"),
        ("Sales (fork) more", set(), "Sales (fork) more (fork)"),
    ],
)
def test_titles(title: str, taken: set[str], made: str) -> None:
    assert fork_title(title, taken) == made
