"""After a restart: questions that were stored, calls that had begun, and two processes on one session.

The processes are real and killed with SIGKILL.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from resume_child import SESSION, make_app
from stage import assert_valid, results

from kestrel_nb import ApprovalDecision, Kestrel
from kestrel_nb.protocol.errors import ApprovalError, SessionOwnedError, UsageError
from kestrel_nb.runtime.file_store import FileSessionStore
from kestrel_nb.testing import Reply

DATA = Path(__file__).parent.parent / "data"
HERE = Path(__file__).parent
YES, NO = ApprovalDecision(approved=True), ApprovalDecision(approved=False, reason="no")
INTERRUPTED = "interrupted: it had begun when the process ended, and its result is unknown; it was not run again"


class Child:
    """Another process on the session in ``folder``."""

    def __init__(self, mode: str, folder: Path) -> None:
        paths = os.pathsep.join([str(HERE.parent.parent), str(HERE.parent), str(HERE)])
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "resume_child.py"), mode, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": paths},
        )

    def hear(self) -> dict[str, Any]:
        """What it says next."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the process ended"
        fact: dict[str, Any] = json.loads(line)
        return fact

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self) -> None:
        self.process.wait(timeout=60)

    def close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Any]:
    """Starts children on ``tmp_path`` and ends what is left of them."""
    children: list[Child] = []

    def start(mode: str) -> Child:
        children.append(Child(mode, tmp_path))
        return children[-1]

    yield start
    for each in children:
        each.kill()
        each.close()


@asynccontextmanager
async def reopened(folder: Path, *replies: Any) -> AsyncIterator[Kestrel]:
    """The application in this process, on what the killed one left."""
    async with make_app(folder, list(replies or ["finished"])) as app:
        yield app
        session = app.sessions.get(SESSION)
        await session.ended()
        if not session.pending:
            assert_valid(session.messages)
            model: Any = app.models.get("scripted")
            for request in model.requests:
                assert_valid(request.messages)


def ran(folder: Path) -> list[str]:
    file = folder / "ran"
    return file.read_text().split() if file.exists() else []


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """For a script: a folder whose process was killed while its questions waited, and their ids; made once each."""
    made: dict[str, tuple[Path, list[str]]] = {}

    def kill(script: str) -> tuple[Path, list[str]]:
        if script not in made:
            folder = tmp_path_factory.mktemp("killed")
            process = Child(script, folder)
            facts = [process.hear() for _ in range(2 if script in ("parallel", "begun") else 1)]
            process.kill()
            process.close()
            made[script] = folder, [fact["asked"] for fact in facts if "asked" in fact]
        return made[script]

    return kill


@pytest.fixture
def at_question(killed: Any, tmp_path: Path) -> Any:
    """Puts into ``tmp_path`` what a killed process left, and gives the ids of its questions."""

    def copy(script: str) -> list[str]:
        folder, ids = killed(script)
        shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
        return list(ids)

    return copy


async def test_e03_the_question_is_listed_and_approving_it_goes_on(tmp_path: Path, at_question: Any) -> None:
    (id,) = at_question("one")
    async with reopened(tmp_path) as app:
        session = app.sessions.get(SESSION)
        assert [request.id for request in app.approvals.pending()] == [id]
        assert session.interrupted == ()
        events: list[Any] = []
        session.subscribe(events.append)
        app.approvals.resolve(id, YES)
        assert session.run is not None
        result = await session.run
        assert (result.status, result.text) == ("completed", "finished")
        assert ran(tmp_path) == ["act-1"]
        assert results(session.messages) == ["did 1"]
        types = [event.type for event in events]
        assert types[:2] == ["approval.resolved", "run.started"]
        assert events[1].resumed
        assert [event.seq for event in events] == list(range(events[0].seq, events[0].seq + len(events)))
        with pytest.raises(ApprovalError) as caught:
            app.approvals.resolve(id, YES)
        assert caught.value.code == "approval_closed"
    async with reopened(tmp_path) as app:
        assert not app.approvals.pending()
        assert app.sessions.get(SESSION).approvals[0].decision.approved
    assert ran(tmp_path) == ["act-1"]


async def test_declining_after_the_restart(tmp_path: Path, at_question: Any) -> None:
    (id,) = at_question("one")
    async with reopened(tmp_path) as app:
        app.approvals.resolve(id, NO)
        session = app.sessions.get(SESSION)
        assert session.run is not None
        assert (await session.run).text == "finished"
        assert results(session.messages) == ["declined: the user declined this call. Reason: no"]
    assert ran(tmp_path) == []


async def test_edited_arguments_after_the_restart(tmp_path: Path, at_question: Any) -> None:
    (id,) = at_question("one")
    async with reopened(tmp_path) as app:
        with pytest.raises(ApprovalError):
            app.approvals.resolve(id, ApprovalDecision(approved=True, arguments={"x": "text"}))
        app.approvals.resolve(id, ApprovalDecision(approved=True, arguments={"x": 5}))
        await app.sessions.get(SESSION).ended()
        assert results(app.sessions.get(SESSION).messages)[0].endswith("did 5")


async def test_a_new_message_instead_closes_the_question(tmp_path: Path, at_question: Any) -> None:
    (id,) = at_question("sequence")
    async with reopened(tmp_path, "fine") as app:
        session = app.sessions.get(SESSION)
        assert (await session.start("never mind")).text == "fine"
        assert results(session.messages) == [
            "did 1",
            "not decided: a new message came before anybody answered; it was not run",
            "not run: a new message came before its turn",
        ]
        assert not app.approvals.pending()
        with pytest.raises(ApprovalError):
            app.approvals.resolve(id, YES)
    assert ran(tmp_path) == ["quick-1"]


async def test_the_rest_of_the_calls_follows_the_answer(tmp_path: Path, at_question: Any) -> None:
    (id,) = at_question("sequence")
    async with reopened(tmp_path) as app:
        app.approvals.resolve(id, YES)
        await app.sessions.get(SESSION).ended()
        assert results(app.sessions.get(SESSION).messages) == ["did 1", "did 2", "did 3"]
    assert ran(tmp_path) == ["quick-1", "act-2", "quick-3"]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("at_once", [True, False])
async def test_two_questions_of_a_parallel_batch(
    tmp_path: Path, at_question: Any, order: tuple[int, int], at_once: bool
) -> None:
    ids = at_question("parallel")
    async with reopened(tmp_path) as app:
        session = app.sessions.get(SESSION)
        assert {request.id for request in app.approvals.pending()} == set(ids)
        app.approvals.resolve(ids[order[0]], YES)
        if not at_once:
            await asyncio.sleep(0.3)
        app.approvals.resolve(ids[order[1]], NO)
        assert session.run is not None
        assert (await session.run).text == "finished"
        assert len(session.approvals) == 2
        assert not session.pending
        answers = results(session.messages)
        assert answers[order[0]] == f"did {order[0] + 1}"
        assert answers[order[1]].startswith("declined")
    assert ran(tmp_path) == [f"together-{order[0] + 1}"]


async def test_a_second_restart_in_between(tmp_path: Path, child: Any, at_question: Any) -> None:
    ids = at_question("parallel")
    async with reopened(tmp_path) as app:
        assert len(app.approvals.pending()) == 2
    async with reopened(tmp_path) as app:
        for id in ids:
            app.approvals.resolve(id, YES)
        await app.sessions.get(SESSION).ended()
    assert sorted(ran(tmp_path)) == ["together-1", "together-2"]


async def until_stored(folder: Path) -> None:
    """Wait for the write of the call: for one that nobody was asked about it is not waited for."""
    while True:
        stored = FileSessionStore(folder).load_now(SESSION)
        if stored is not None and len(stored.messages) == 2:
            return
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("script", ["hang", "hang auto"])
async def test_a_call_that_had_begun_is_interrupted_and_never_runs_again(
    tmp_path: Path, child: Any, script: str
) -> None:
    process = child(script)
    assert process.hear()["began"]
    async with asyncio.timeout(60):
        await until_stored(tmp_path)
    process.kill()
    async with reopened(tmp_path, "I see") as app:
        session = app.sessions.get(SESSION)
        assert not app.approvals.pending()
        assert [call.id for call in session.interrupted] == [f"{script.replace(' ', '_')}-1"]
        assert (await session.start("what happened?")).text == "I see"
        assert results(session.messages) == [INTERRUPTED]
        model: Any = app.models.get("scripted")
        assert results(model.requests[0].messages) == [INTERRUPTED]
    assert len(ran(tmp_path)) == 1


async def test_a_call_that_had_begun_beside_an_open_question(tmp_path: Path, at_question: Any) -> None:
    (id,) = at_question("begun")
    async with reopened(tmp_path) as app:
        app.approvals.resolve(id, YES)
        session = app.sessions.get(SESSION)
        await session.ended()
        assert results(session.messages) == [INTERRUPTED, "did 2"]
    assert sorted(ran(tmp_path)) == ["hang_together-1", "together-2"]


async def test_rewind_and_reset_close_the_stored_question(tmp_path: Path, at_question: Any) -> None:
    (id,) = at_question("one")
    async with reopened(tmp_path) as app:
        session = app.sessions.get(SESSION)
        session.rewind(session.messages[0].id)
        assert not app.approvals.pending()
        assert session.approvals[0].answered_by == "cancel"
        with pytest.raises(ApprovalError):
            app.approvals.resolve(id, YES)
    async with reopened(tmp_path) as app:
        assert app.sessions.get(SESSION).messages == ()
    assert ran(tmp_path) == []


async def test_a_tool_that_is_gone_after_the_restart(tmp_path: Path, at_question: Any) -> None:
    (id,) = at_question("one")
    app = Kestrel(store=FileSessionStore(tmp_path), workspace=tmp_path)
    async with app:
        session = app.sessions.get(SESSION)
        app.approvals.resolve(id, YES)
        await session.ended()
        assert results(session.messages)[0].startswith('Unknown tool "act"')


def test_an_answer_from_a_thread_or_without_a_loop(tmp_path: Path, at_question: Any) -> None:
    (id,) = at_question("one")
    app = make_app(tmp_path, ["finished"])
    asyncio.run(app.initialize())
    with pytest.raises(UsageError, match="no event loop"):
        app.approvals.resolve(id, YES)
    assert [request.id for request in app.approvals.pending()] == [id]

    async def answer() -> None:
        await app.initialize()
        await app.sessions.refresh()
        app.approvals.resolve(id, YES)
        await app.sessions.get(SESSION).ended()
        await app.aclose()

    asyncio.run(answer())
    assert ran(tmp_path) == ["act-1"]


async def test_an_answer_from_a_thread_resumes_on_the_session_s_loop(tmp_path: Path, at_question: Any) -> None:
    (id,) = at_question("one")
    async with reopened(tmp_path) as app:
        await asyncio.to_thread(app.approvals.resolve, id, YES)
        await app.sessions.get(SESSION).ended()
        with pytest.raises(ApprovalError):
            await asyncio.to_thread(app.approvals.resolve, id, NO)
    assert ran(tmp_path) == ["act-1"]


async def test_q04_an_unanswered_call_of_a_stored_session(tmp_path: Path) -> None:
    document = (DATA / "store" / "Q04.session.json").read_text()
    id = json.loads(document)["id"]
    folder = tmp_path / "sessions" / id
    folder.mkdir(parents=True)
    (folder / "session.json").write_text(document)
    async with make_app(tmp_path, ["I see", "again"]) as app:
        session = app.sessions.get(id)
        session.set_model("scripted")
        assert (await session.start("continue")).text == "I see"
        model: Any = app.models.get("scripted")
        assert results(model.requests[0].messages) == [INTERRUPTED]
        assert_valid(model.requests[0].messages)
        session.rewind(session.messages[0].id)
        assert session.messages == ()
        assert (await session.start("anew")).text == "again"


# ---- two processes ----------------------------------------------------------------------------------------------


async def test_an_owned_session_can_be_read_and_not_changed(tmp_path: Path, child: Any) -> None:
    process = child("one")
    id = process.hear()["asked"]
    async with make_app(tmp_path, ["x"]) as app:
        session = app.sessions.get(SESSION)
        assert session.messages[0].content == "do it"
        for change in (
            lambda: session.start("me too"),
            lambda: session.rename("mine"),
            session.reset,
            lambda: session.rewind(session.messages[0].id),
        ):
            with pytest.raises(SessionOwnedError, match="process"):
                change()
        with pytest.raises(SessionOwnedError):
            await app.sessions.delete(SESSION)
        assert not session.is_running
        assert [request.id for request in app.approvals.pending()] == [id]


@pytest.mark.parametrize("approved", [True, False])
async def test_an_answer_for_the_process_that_waits(tmp_path: Path, child: Any, approved: bool) -> None:
    process = child("one")
    id = process.hear()["asked"]
    async with make_app(tmp_path, ["x"]) as app:
        session = app.sessions.get(SESSION)
        app.approvals.resolve(id, YES if approved else NO, answered_by="terminal")
        with pytest.raises(ApprovalError):
            app.approvals.resolve(id, NO)
        assert process.hear() == {"status": "completed", "text": "finished"}
        process.end()
        assert session.run is None
        assert len(session.messages) == 2
        await app.sessions.refresh()
        assert len(session.messages) == 4
        record = session.approvals[0]
        assert (record.decision.approved, record.answered_by) == (approved, "terminal")
    assert ran(tmp_path) == ["act-1"] * approved


async def test_a_stale_view_can_not_answer_what_was_closed(tmp_path: Path, child: Any) -> None:
    process = child("one")
    id = process.hear()["asked"]
    async with make_app(tmp_path, ["x"]) as stale, make_app(tmp_path, ["y"]) as quick:
        quick.approvals.resolve(id, NO)
        process.hear()
        process.end()
        with pytest.raises(ApprovalError) as caught:
            stale.approvals.resolve(id, YES)
        assert caught.value.code == "approval_closed"
        await stale.sessions.refresh()
        assert not stale.approvals.pending()
    assert ran(tmp_path) == []


@pytest.mark.parametrize("modes", [("approve", "decline"), ("approve", "approve")])
async def test_two_processes_answer_and_one_wins(
    tmp_path: Path, child: Any, at_question: Any, modes: tuple[str, str]
) -> None:
    at_question("one")
    processes = [child(mode) for mode in modes]
    for process in processes:
        process.hear()
    for process in processes:
        process.go()
    outcomes = [process.hear()["outcome"] for process in processes]
    for process in processes:
        process.end()
    assert outcomes.count("resumed") <= 1, outcomes
    assert set(outcomes) <= {"resumed", "approval_closed", "handed over"}
    async with make_app(tmp_path, ["later"]) as app:
        session = app.sessions.get(SESSION)
        await session.ended()  # an answer that was left for the other process is taken here, and its run goes on
        assert not session.pending
        assert len(session.approvals) == 1
        assert_valid(session.messages)
        assert ran(tmp_path) == ["act-1"] * session.approvals[0].decision.approved


async def test_an_answer_that_nobody_took_counts_after_the_restart(tmp_path: Path, at_question: Any) -> None:
    (id,) = at_question("one")
    FileSessionStore(tmp_path).post_answer(SESSION, id, NO, "terminal")
    async with reopened(tmp_path) as app:
        with pytest.raises(ApprovalError, match="another answer was left before"):
            app.approvals.resolve(id, YES)
        session = app.sessions.get(SESSION)
        await session.ended()
        assert results(session.messages)[0].startswith("declined")
        assert session.approvals[0].answered_by == "terminal"
    assert ran(tmp_path) == []


async def test_a_session_that_another_process_deleted(tmp_path: Path) -> None:
    async with make_app(tmp_path, ["a", "b"]) as one, make_app(tmp_path, ["x"]) as two:
        session = one.sessions.create()
        await session.start("hi")
        await one.sessions.close()
        await two.sessions.refresh()
        await one.initialize()
        await one.sessions.refresh()
        await two.sessions.delete(session.id)
        await one.sessions.refresh()
        assert not one.sessions.has(session.id)


async def test_what_another_process_wrote_is_taken_over(tmp_path: Path) -> None:
    async with make_app(tmp_path, ["a"]) as one:
        session = one.sessions.create()
        await session.start("hi")
        async with make_app(tmp_path, ["b"]) as two:
            pass
        del two
    async with make_app(tmp_path, ["b", Reply("c")]) as app:
        again = app.sessions.get(session.id)
        assert [message.content for message in again.messages] == ["hi", "a"]
        await again.start("more")
        assert [message.content for message in again.messages] == ["hi", "a", "more", "b"]
