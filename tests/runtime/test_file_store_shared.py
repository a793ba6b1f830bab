"""One process owns a session; others read it and leave answers."""

import errno
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from kestrel_nb.protocol.errors import StoreError
from kestrel_nb.protocol.sessions import ApprovalDecision, SessionDetail, SessionStep
from kestrel_nb.runtime.file_disk import Disk
from kestrel_nb.runtime.file_store import FileSessionStore

OWNER = """
import os, subprocess, sys
from kestrel_nb.runtime.file_store import FileSessionStore
store = FileSessionStore(sys.argv[1])
print(store.acquire("a"), flush=True)
children = []
for line in sys.stdin:
    if line.strip() == "release":
        store.release("a")
    elif line.strip() == "acquire":
        print(store.acquire("a"), flush=True)
        continue
    elif line.strip() == "spawn":
        children.append(subprocess.Popen(["sleep", "30"], close_fds=False))
        print(children[-1].pid, flush=True)
        continue
    elif line.strip() == "fork":
        pid = os.fork()
        if not pid:
            import time
            time.sleep(30)
            os._exit(0)
        print(pid, flush=True)
        continue
    elif line.strip() == "end":
        break
    print("done", flush=True)
"""
YES, NO = ApprovalDecision(approved=True), ApprovalDecision(approved=False, reason="no \ud800")


class Other:
    """Another process with a store on the same folder."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", OWNER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.acquired = self._line() == "True"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def say(self, command: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self._line()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def other(tmp_path: Path) -> Any:
    process = Other(tmp_path)
    yield process
    process.end()


def test_one_process_owns_a_session(other: Other, tmp_path: Path) -> None:
    store = FileSessionStore(tmp_path)
    assert other.acquired
    assert not store.acquire("a")
    owner = store.owner("a")
    assert owner is not None
    assert f"process {other.process.pid} on " in owner
    assert store.owner("b") is None
    assert store.acquire("b")
    assert store.owner("b") is None
    other.say("release")
    assert store.owner("a") is None
    assert store.acquire("a")
    assert store.acquire("a")
    assert other.say("acquire") == "False"
    store.release("a")
    assert other.say("acquire") == "True"
    store.release("b")


@pytest.mark.parametrize("child", [None, "spawn", "fork"])
def test_a_killed_owner_blocks_nobody(child: str | None, other: Other, tmp_path: Path) -> None:
    """Nor do the processes that it started and that live on."""
    store = FileSessionStore(tmp_path)
    pid = int(other.say(child)) if child else None
    try:
        other.process.kill()
        other.process.wait()
        deadline = time.monotonic() + 5  # a child that has just been forked lets go in its first moment
        while store.owner("a") is not None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert store.acquire("a")
        store.release("a")
    finally:
        if pid:
            os.kill(pid, 9)


def test_a_lease_lives_until_its_process_ends_by_itself(other: Other, tmp_path: Path) -> None:
    store = FileSessionStore(tmp_path)
    assert store.owner("a")
    other.process.communicate("end\n")
    assert store.owner("a") is None


def test_stores_of_one_process_share_the_lease(tmp_path: Path) -> None:
    one, two = FileSessionStore(tmp_path), FileSessionStore(tmp_path)
    assert one.acquire("a")
    assert two.acquire("a")
    assert two.owner("a") is None
    one.release("a")
    third = Other(tmp_path)
    try:
        assert not third.acquired
        two.release("a")
        assert third.say("acquire") == "True"
        two.release("a")
        assert two.owner("a") is not None
    finally:
        third.end()


async def test_a_lease_leaves_nothing_behind(tmp_path: Path) -> None:
    store = FileSessionStore(tmp_path)
    store.release("a")
    assert store.acquire("a")
    assert await store.list() == []
    store.release("a")
    assert list((tmp_path / "sessions").iterdir()) == []
    assert store.acquire("a")
    await store.save(SessionDetail(id="a"))
    store.release("a")
    assert await store.load("a") == SessionDetail(id="a")


async def test_deleting_removes_leases_and_answers(other: Other, tmp_path: Path) -> None:
    store = FileSessionStore(tmp_path)
    await store.save(SessionDetail(id="b"))
    assert store.acquire("b")
    assert store.post_answer("b", "appr_1", YES, "command")
    await store.delete("b")
    assert [path.name for path in (tmp_path / "sessions").iterdir()] == ["a"]
    assert store.take_answer("b", "appr_1") is None
    await store.delete("a")  # whose lease another process holds
    assert store.acquire("a")
    assert store.owner("a") is None
    assert other.say("acquire") == "False"
    store.release("a")


def test_many_ask_for_the_owner_while_it_changes(tmp_path: Path) -> None:
    """Whoever looks must not get in the way of whoever takes."""
    store = FileSessionStore(tmp_path)
    over = threading.Event()
    reader = Other(tmp_path)
    try:
        reader.say("release")

        def look() -> None:
            while not over.is_set():
                store.owner("a")

        thread = threading.Thread(target=look)
        thread.start()
        assert all(reader.say(command) in ("True", "done") for _ in range(50) for command in ("acquire", "release"))
        over.set()
        thread.join()
    finally:
        over.set()
        reader.end()


@pytest.mark.parametrize("content", [b"", b"null", b"[]", b'{"pid":"x"}', b"\xff", b'{"pid":{}}'])
def test_an_owner_without_a_name(content: bytes, other: Other, tmp_path: Path) -> None:
    (tmp_path / "sessions" / "a" / "lease").write_bytes(content)
    assert FileSessionStore(tmp_path).owner("a") == "another process"


# ---- answers -----------------------------------------------------------------------------------------------------


async def test_the_first_answer_wins(tmp_path: Path) -> None:
    owner, elsewhere = FileSessionStore(tmp_path), FileSessionStore(tmp_path)
    await owner.save(SessionDetail(id="a"))
    assert owner.take_answer("a", "appr_1") is None
    assert elsewhere.post_answer("a", "appr_1", NO, "terminal")
    assert not elsewhere.post_answer("a", "appr_1", YES, "command")
    assert elsewhere.post_answer("a", "appr_2", ApprovalDecision(approved=True, arguments={"snake_key": 1}), "http")
    assert owner.take_answer("a", "appr_1") == (NO, "terminal")
    assert owner.take_answer("a", "appr_1") is None
    assert owner.take_answer("a", "appr_2") == (ApprovalDecision(approved=True, arguments={"snake_key": 1}), "http")


async def test_answers_in_a_race(tmp_path: Path) -> None:
    await FileSessionStore(tmp_path).save(SessionDetail(id="a"))
    posted: list[bool] = []
    taken: list[Any] = []
    start = threading.Barrier(8)

    def post() -> None:
        start.wait()
        posted.append(FileSessionStore(tmp_path).post_answer("a", "appr_1", YES, "command"))

    def take() -> None:
        store = FileSessionStore(tmp_path)
        start.wait()
        for _ in range(200):
            if answer := store.take_answer("a", "appr_2"):
                taken.append(answer)

    assert FileSessionStore(tmp_path).post_answer("a", "appr_2", NO, "command")
    threads = [threading.Thread(target=work) for work in [post, take] * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(posted) == [False, False, False, True]
    assert taken == [(NO, "command")]


@pytest.mark.parametrize(
    "approval_id", ["", "..", "../session", "a/b", "appr_\x00", "a.json", "CON", "é", None, "x" * 129]
)
async def test_approval_ids_that_are_refused(approval_id: Any, tmp_path: Path) -> None:
    store = FileSessionStore(tmp_path)
    await store.save(SessionDetail(id="a"))
    with pytest.raises(StoreError):
        store.post_answer("a", approval_id, YES, "command")
    with pytest.raises(StoreError):
        store.take_answer("a", approval_id)
    assert [path.name for path in (tmp_path / "sessions" / "a").iterdir()] == ["session.json"]


def test_an_answer_for_nothing(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not stored"):
        FileSessionStore(tmp_path).post_answer("a", "appr_1", YES, "command")
    assert list(tmp_path.iterdir()) == []


FORGED = [
    b"", b"{", b"null", b"[]", b"{}", b'{"approved":true}', b'{"approved":"yes","by":"command"}',
    b'{"approved":1,"by":"http"}',
    b'{"approved":true,"by":"nobody"}', b'{"approved":true,"by":[]}',
    b'{"version":2,"approved":true,"by":"http"}', b"\xff",
]  # fmt: skip


@pytest.mark.parametrize("content", FORGED)
async def test_what_is_no_answer_approves_nothing(content: bytes, tmp_path: Path) -> None:
    store = FileSessionStore(tmp_path)
    await store.save(SessionDetail(id="a"))
    answers = tmp_path / "sessions" / "a" / "answers"
    answers.mkdir()
    (answers / "appr_1.json").write_bytes(content)
    assert store.take_answer("a", "appr_1") is None


async def test_a_disk_without_links_takes_answers_too(tmp_path: Path) -> None:
    class NoLinks(Disk):
        def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
            if function is os.link:
                raise OSError(errno.EPERM, "Operation not permitted")
            return function(*args, **kwargs)

    store = FileSessionStore(tmp_path, disk=NoLinks())
    await store.save(SessionDetail(id="a"))
    assert store.post_answer("a", "appr_1", NO, "command")
    assert not store.post_answer("a", "appr_1", YES, "command")
    assert store.take_answer("a", "appr_1") == (NO, "command")


async def test_a_reader_sees_whole_states_while_the_owner_writes(tmp_path: Path) -> None:
    owner, reader = FileSessionStore(tmp_path), FileSessionStore(tmp_path)
    await owner.save(SessionDetail(id="a"))
    over, seen = threading.Event(), set()

    def read() -> None:
        while not over.is_set():
            detail = reader.load_now("a")
            assert detail is not None
            assert detail.title == f"t{detail.seq}" or not detail.seq
            seen.add(detail.seq)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for seq in range(1, 150):
            if seq % 3:
                await owner.append_step("a", SessionStep(seq=seq, updated_at=1.0, title=f"t{seq}"))
            else:
                await owner.save(SessionDetail(id="a", title=f"t{seq}", seq=seq))
    finally:
        over.set()
        thread.join()
    assert len(seen) > 1
