"""All sessions: creating, finding, guarding, deleting, closing, and what the store brings back."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from stage import FunctionTool, Stage

from kestrel_nb.protocol.errors import (
    ModelNotFoundError,
    SessionGuardError,
    SessionNotFoundError,
    StoreError,
    UsageError,
)
from kestrel_nb.protocol.events import SessionCreated
from kestrel_nb.protocol.sessions import CreateSessionRequest, SessionSummary
from kestrel_nb.runtime.file_store import FileSessionStore
from kestrel_nb.runtime.stores import MemorySessionStore
from kestrel_nb.testing import Reply, ScriptedModel

STORED = Path(__file__).parent.parent / "data" / "store"


def talk(*replies: Any, **options: Any) -> Stage:
    return Stage(ScriptedModel(replies or ["one", "two", "three"]), **options)


async def test_create_with_a_request_or_with_fields(tmp_path: Path) -> None:
    stage = talk()
    request = CreateSessionRequest(title="From\na request", workspace=str(tmp_path), id="mine")
    session = stage.manager.create(request, "tenant", model="scripted")
    assert (session.id, session.title, session.workspace) == ("mine", "From a request", str(tmp_path))
    assert (session.tenant_id, session.model) == ("tenant", "scripted")
    assert stage.types() == ["session.created"]
    assert stage.manager.get("mine") is session
    assert stage.manager.has("mine")
    assert stage.manager.create(title="x").title == "x"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"workspace": "/no/such/folder"}, UsageError),
        ({"model": "none"}, ModelNotFoundError),
        ({"id": "taken"}, UsageError),
        ({"id": ""}, UsageError),
        ({"id": "../up"}, UsageError),
        ({"id": "a b"}, UsageError),
        ({"id": "\ud800"}, UsageError),
        ({"id": "x" * 129}, UsageError),
    ],
)
async def test_what_create_refuses(fields: dict[str, Any], error: type[Exception]) -> None:
    stage = talk()
    stage.manager.create(id="taken")
    with pytest.raises(error):
        stage.manager.create(**fields)
    assert len(stage.manager.list()) == 1
    assert stage.types() == ["session.created"]


async def test_unknown_ids() -> None:
    stage = talk()
    for act in (stage.manager.get, stage.manager.cancel, lambda id: stage.manager.send(id, "x")):
        with pytest.raises(SessionNotFoundError) as caught:
            act("nope")
        assert caught.value.code == "session_not_found"
    with pytest.raises(SessionNotFoundError):
        await stage.manager.delete("nope")
    assert not stage.manager.has("nope")


async def test_the_list_begins_with_the_session_used_last() -> None:
    stage = talk()
    sessions = [stage.manager.create(id=name) for name in ("a", "b", "c")]
    for index in (1, 0, 2):
        time.sleep(0.002)  # noqa: ASYNC251 - the clock has to go on
        sessions[index].touch()
    assert [summary.id for summary in stage.manager.list()] == ["c", "a", "b"]
    assert all(isinstance(summary, SessionSummary) for summary in stage.manager.list())


async def test_send_and_cancel() -> None:
    asked = asyncio.Event()

    async def wait() -> None:
        asked.set()
        await asyncio.sleep(3600)

    stage = talk(Reply("x", before=wait), "done")
    id = stage.session.id
    run = stage.manager.send(id, "hi")
    await asked.wait()
    assert stage.manager.cancel(id)
    assert (await run).status == "cancelled"
    assert not stage.manager.cancel(id)
    assert (await stage.manager.send(id, "again")).text == "done"


async def test_hidden_sessions_are_neither_listed_stored_nor_guarded() -> None:
    store = MemorySessionStore()
    stage = talk(store=store)
    stage.manager.add_guard(lambda context: "no")
    hidden = stage.manager.create(hidden=True)
    assert (await hidden.start("hi")).text == "one"
    assert stage.manager.list() == []
    assert not stage.manager.has(hidden.id)
    assert await store.list() == []


# ---- guards -----------------------------------------------------------------------------------------------------


def refuse(context: Any) -> Any:
    raise SessionGuardError("quota")


def broken(context: Any) -> Any:
    raise ZeroDivisionError("oops")


@pytest.mark.parametrize(
    ("guard", "text"),
    [
        (lambda context: "too many", "too many"),
        (lambda context: False, "refused to create"),
        (lambda context: "", "refused to create"),
        (refuse, "quota"),
        (broken, "a guard failed"),
    ],
)
async def test_a_guard_vetoes(guard: Any, text: str) -> None:
    stage = talk()
    first, second = stage.manager.add_guard(guard), stage.manager.add_guard(guard)
    with pytest.raises(SessionGuardError, match=text) as caught:
        stage.manager.create()
    assert caught.value.code == "session_guard"
    assert stage.manager.list() == []
    first()
    first()
    with pytest.raises(SessionGuardError):
        stage.manager.create()
    second()
    stage.manager.create()


async def test_what_a_guard_is_told() -> None:
    stage = talk()
    seen: list[Any] = []
    stage.manager.add_guard(lambda context: seen.append(context))
    session = stage.manager.create(tenant_id="t")
    await session.start("hi")
    assert [(c.action, c.session_id, c.tenant_id, len(c.sessions)) for c in seen] == [
        ("create", None, "t", 0),
        ("run", session.id, "t", 1),
    ]


async def test_a_guard_that_vetoes_runs() -> None:
    stage = talk()
    dispose = stage.manager.add_guard(lambda context: context.action != "run")
    session = stage.manager.create()
    with pytest.raises(SessionGuardError, match="refused to run"):
        session.start("hi")
    dispose()
    await session.start("hi")


# ---- listening --------------------------------------------------------------------------------------------------


async def test_every_event_of_every_session_and_published_ones() -> None:
    stage = talk()
    one, two = stage.manager.create(), stage.manager.create()
    await one.start("a")
    await two.start("b")
    assert {event.session_id for event in stage.events} == {one.id, two.id}
    for session in (one, two):
        seqs = [event.seq for event in stage.events if event.session_id == session.id]
        assert seqs == list(range(1, len(seqs) + 1))
    event = SessionCreated(session_id="other", summary=one.summary())
    stage.manager.publish(event)
    assert stage.events[-1] is event


# ---- the store --------------------------------------------------------------------------------------------------


async def test_stored_sessions_come_back(tmp_path: Path) -> None:
    first = talk(store=FileSessionStore(tmp_path))
    await first.ask("hello")
    detail = first.session.detail()
    await first.manager.close()
    assert first.manager.list() == []
    second = talk(store=FileSessionStore(tmp_path))
    await asyncio.gather(second.manager.initialize(), second.manager.initialize())
    session = second.manager.get(detail.id)
    assert session.detail() == detail
    assert (await session.start("more")).text == "one"
    assert second.events[0].seq == detail.seq + 1


async def test_a_stored_session_is_not_begun_anew_by_accident(tmp_path: Path) -> None:
    first = talk(store=FileSessionStore(tmp_path))
    session = first.manager.create(id="mine")
    await session.start("hello")
    await first.manager.close()
    second = talk(store=FileSessionStore(tmp_path))
    with pytest.raises(UsageError, match="there is a session"):
        second.manager.create(id="mine")


def stored_tree(root: Path) -> None:
    for name, text in {
        "a": (STORED / "Q01.empty.session.json").read_text(),
        "d": "null",
        "e": "[]",
        "f": (STORED / "Q02.session.json").read_text(),
        "b": None,
    }.items():
        folder = root / "sessions" / name
        folder.mkdir(parents=True)
        if text is not None:
            (folder / "session.json").write_text(text)
    (root / "sessions" / "c").mkdir()
    document = json.loads((STORED / "Q04.session.json").read_text())
    document["id"] = "b"
    (root / "sessions" / "b" / "session.json").write_text(json.dumps(document))


async def test_q01_q02_what_can_not_be_read_is_skipped_and_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stored_tree(tmp_path)
    store = FileSessionStore(tmp_path)
    stage = talk(store=store)
    with caplog.at_level(logging.WARNING):
        await stage.manager.initialize()
    assert [summary.id for summary in stage.manager.list()] == ["b"]
    assert caplog.records
    assert await store.load("a") is None
    broken = (STORED / "Q02.session.json").read_bytes()
    other = stage.manager.create()
    await other.start("hi")
    await other.ended()
    assert kept(tmp_path / "sessions" / "f") == [broken]
    again = stage.manager.create(id="f")
    await again.start("hi")
    await again.ended()
    assert broken in kept(tmp_path / "sessions" / "f")


def kept(folder: Path) -> list[bytes]:
    return [file.read_bytes() for file in folder.iterdir() if file.name.startswith("session.json")]


class Failing(MemorySessionStore):
    """A store whose disk is full while ``full`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.full: Exception | None = StoreError("no space left on the device")

    async def save(self, session: Any) -> None:
        if self.full:
            raise self.full
        await super().save(session)

    async def append_step(self, id: str, step: Any) -> None:
        if self.full:
            raise self.full
        await super().append_step(id, step)


@pytest.mark.parametrize("error", [StoreError("no space left"), OSError(28, "no space"), ValueError("odd")])
async def test_a_store_that_fails_is_said_and_catches_up_later(error: Exception) -> None:
    store = Failing()
    store.full = error
    stage = talk(store=store)
    assert (await stage.ask("a")).text == "one"
    await stage.session.ended()
    assert {event.code for event in stage.of("notice")} == {"store_failed"}
    assert await store.load(stage.session.id) is None
    store.full = None
    await stage.ask("b")
    await stage.session.ended()
    stored = await store.load(stage.session.id)
    assert stored is not None
    assert stored.messages == stage.session.messages


async def test_an_approved_call_does_not_run_when_its_start_can_not_be_stored() -> None:
    store = Failing()
    stage = talk(Reply(tool_calls=[("t", {})]), "done", store=store, approve=lambda *_: True)
    ran: list[Any] = []
    stage.tools.register(FunctionTool("t", lambda *_: ran.append(1) or "ok", permission="ask"))
    assert (await stage.ask()).status == "completed"
    assert "could not be stored" in stage.of("tool.failed")[0].error
    assert not ran
    store.full = None
    stage.check()


async def test_a_store_that_can_not_be_listed(caplog: pytest.LogCaptureFixture) -> None:
    class Blind(MemorySessionStore):
        async def list(self) -> Any:
            raise StoreError("unreadable")

    stage = talk(store=Blind())
    await stage.manager.initialize()
    assert "unreadable" in caplog.text
    assert (await stage.ask()).text == "one"


class Plain:
    """The specification's store and nothing else."""

    def __init__(self) -> None:
        self.saved: dict[str, Any] = {}

    async def list(self) -> Any:
        return [detail.summary() for detail in self.saved.values()]

    async def load(self, id: str) -> Any:
        return self.saved.get(id)

    async def save(self, session: Any) -> None:
        self.saved[session.id] = session

    async def delete(self, id: str) -> None:
        self.saved.pop(id, None)


async def test_a_store_without_extensions() -> None:
    store = Plain()
    stage = talk(store=store)
    await stage.ask()
    await stage.session.ended()
    assert store.saved[stage.session.id] == stage.session.detail()


async def test_delete(tmp_path: Path) -> None:
    stage = talk(Reply("x", before=3600), store=FileSessionStore(tmp_path))
    session = stage.session
    run = session.start("hi")
    await stage.until("step.started")
    await stage.manager.delete(session.id)
    assert (await run).status == "cancelled"
    assert stage.types()[-1] == "session.deleted"
    assert not (tmp_path / "sessions" / session.id).exists()
    assert stage.manager.list() == []
    with pytest.raises(UsageError, match="deleted"):
        session.start("again")
    with pytest.raises(UsageError, match="deleted"):
        session.touch()


async def test_close_stops_runs_and_deletes_nothing(tmp_path: Path) -> None:
    stage = talk("one", Reply("x", before=3600), store=FileSessionStore(tmp_path))
    await stage.ask("a")
    run = stage.session.start("b")
    hidden = stage.manager.create(hidden=True)
    await stage.manager.close()
    assert (await run).status == "cancelled"
    with pytest.raises(UsageError):
        hidden.start("x")
    stored = await FileSessionStore(tmp_path).load(stage.session.id)
    assert stored is not None
    assert [message.content for message in stored.messages] == ["a", "one", "b"]
    await stage.manager.close()


async def test_initialize_again_after_its_loop_was_gone(tmp_path: Path) -> None:
    stage = talk(store=FileSessionStore(tmp_path))

    async def begin() -> None:
        begun = asyncio.ensure_future(stage.manager.initialize())
        await asyncio.sleep(0)
        assert not begun.done()

    await asyncio.to_thread(asyncio.run, begin())
    await stage.manager.initialize()
    shutil.rmtree(tmp_path / "sessions", ignore_errors=True)
