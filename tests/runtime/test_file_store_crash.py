"""What a crash or a failing disk leaves: the old state or the new one, whole; what was acknowledged is never lost."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from file_store_kit import names

from kestrel_nb.protocol.errors import StoreError
from kestrel_nb.protocol.messages import create_message
from kestrel_nb.protocol.sessions import ApprovalDecision, SessionDetail, SessionStep, apply_step
from kestrel_nb.runtime.file_disk import Disk
from kestrel_nb.runtime.file_store import FileSessionStore

WRITER = """
import asyncio, os, sys
from kestrel_nb.protocol.messages import create_message
from kestrel_nb.protocol.sessions import SessionDetail, SessionStep, apply_step
from kestrel_nb.runtime.file_store import FileSessionStore

async def work(store, id, out):
    detail = await store.load(id) or SessionDetail(id=id)
    for turn in range(1000):
        seq = detail.seq + 1
        message = create_message("assistant", "x" * 3000, id=f"m{len(detail.messages)}")
        step = SessionStep(seq=seq, updated_at=1.0, messages=(message,))
        detail = apply_step(detail, step)
        if turn % 4 == 0:
            await store.save(detail)
        else:
            await store.append_step(id, step)
        os.write(out, f"{id} {len(detail.messages)}\\n".encode())

async def main():
    store = FileSessionStore(sys.argv[1])
    await asyncio.gather(*(work(store, f"s{number}", 1) for number in range(5)))

for _ in sys.stdin:  # a fresh process for each line, without the time of a start
    writer = os.fork()
    if not writer:
        asyncio.run(main())
    os.write(1, f"pid {writer}\\n".encode())
    os.waitpid(writer, 0)
    os.write(1, b"end 0\\n")
"""
WRITERS = 40  # of five sessions each: 200 rounds


def killed_writer(server: subprocess.Popen[str], delay: float) -> dict[str, int]:
    """Have a writer started, kill it ``delay`` seconds after its first report; how many messages each session has."""
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write("go\n")
    server.stdin.flush()
    counts: dict[str, int] = {}
    pid = 0
    while "end" not in counts:
        name, number = server.stdout.readline().split()
        if name == "pid":
            pid = int(number)
        else:
            counts[name] = int(number)
        if pid and counts:
            time.sleep(delay)
            os.kill(pid, signal.SIGKILL)
            pid = 0
    del counts["end"]
    return counts


@pytest.fixture
def server(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.stdin.close()  # type: ignore[union-attr]


async def test_nothing_acknowledged_is_lost_by_kill_9(server: subprocess.Popen[str], tmp_path: Path) -> None:
    moments = random.Random(7)
    counts: dict[str, int] = {}
    for _ in range(WRITERS):  # each goes on where the one before was killed
        counts |= killed_writer(server, moments.uniform(0, 0.03))
        store = FileSessionStore(tmp_path)
        for id, count in counts.items():
            detail = await store.load(id)
            assert detail is not None, id
            ids = [message.id for message in detail.messages]
            assert ids == [f"m{number}" for number in range(len(ids))]
            assert count <= len(ids) <= count + 1
            assert all(message.content == "x" * 3000 for message in detail.messages)
            counts[id] = len(ids)  # one more may be there: written, not yet reported
    assert sum(counts.values()) > WRITERS


# ---- every system call fails once --------------------------------------------------------------------------------


class Crash(BaseException):
    """The process ended here."""


class FastDisk(Disk):
    """Without the wait for the disk, which these crashes do not depend on."""

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        return None if function is os.fsync else function(*args, **kwargs)


class FaultyDisk(FastDisk):
    """Fails at the ``number``-th call: with an error once, with errors from then on, or as a crash does."""

    def __init__(self, number: int, mode: str) -> None:
        self.number, self.mode, self.calls = number, mode, 0

    @property
    def fired(self) -> bool:
        return self.calls >= self.number

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        if not (self.calls == self.number or (self.fired and self.mode in ("dead", "crash"))):
            return super().call(function, *args, **kwargs)
        if function is os.close:
            function(*args)
        elif self.mode == "late":  # done, but reported as failed
            result = function(*args, **kwargs)
            if function is os.open:
                os.close(result)
        if self.mode == "partial" and function is os.write:
            os.write(args[0], bytes(args[1])[: len(args[1]) // 2])
        raise Crash if self.mode == "crash" else OSError(5, "Input/output error")


MODES = ["once", "dead", "partial", "late", "crash"]
OLD = SessionDetail(id="a", title="old", messages=(create_message("user", "old"),), seq=5)
NEW = replace(OLD, title="new", messages=(*OLD.messages, create_message("assistant", "new " * 50)), seq=9)
REWOUND = replace(OLD, title="rewound", messages=(), seq=0)
STEP = SessionStep(seq=6, updated_at=1.0, messages=(create_message("assistant", "step 1"),))
NEXT = SessionStep(seq=7, updated_at=2.0, messages=(create_message("assistant", "step 2"),))
GARBAGE = b'{"id": "a", "messages": [{"role'

Work = Callable[[FileSessionStore], Awaitable[None]]


async def nothing(store: FileSessionStore) -> None:
    """A fresh folder."""


async def saved(store: FileSessionStore) -> None:
    await store.save(OLD)


async def stepped(store: FileSessionStore) -> None:
    await store.save(OLD)
    await store.append_step("a", STEP)


def damage(store_folder: Path) -> None:
    (store_folder / "sessions" / "a" / "session.json").write_bytes(GARBAGE)


async def appended(store: FileSessionStore) -> None:
    await store.append_step("a", NEXT)


ONE, TWO = apply_step(OLD, STEP), apply_step(apply_step(OLD, STEP), NEXT)
SCENES: dict[str, tuple[Work, Work, SessionDetail | None, SessionDetail | None]] = {
    "first save": (nothing, lambda store: store.save(NEW), None, NEW),
    "save": (saved, lambda store: store.save(NEW), OLD, NEW),
    "save after a step": (stepped, lambda store: store.save(NEW), ONE, NEW),
    "save with a lower seq": (stepped, lambda store: store.save(REWOUND), ONE, REWOUND),
    "first step": (saved, lambda store: store.append_step("a", STEP), OLD, ONE),
    "second step": (stepped, appended, ONE, TWO),
    "delete": (stepped, lambda store: store.delete("a"), ONE, None),
}


async def until_it_works(
    template: Path, scratch: Path, mode: str, work: Work, check: Callable[[Path, bool], Any]
) -> None:
    """Run ``work`` on copies of ``template``, failing at the first call, the second ..., and check what is left."""
    for number in range(1, 200):
        folder = scratch / str(number)
        shutil.copytree(template, folder, symlinks=True)
        disk = FaultyDisk(number, mode)
        failed, said = False, ""
        try:
            await work(FileSessionStore(folder, disk=disk))
        except (StoreError, Crash) as error:
            failed = True
            said = str(error)
        assert not failed or mode == "crash" or "Input/output error" in said
        await check(folder, failed)
        if not disk.fired:
            assert not failed
            return
    raise AssertionError("it never worked")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("scene", SCENES)
async def test_old_or_new(scene: str, mode: str, tmp_path: Path) -> None:
    prepare, work, old, new = SCENES[scene]
    template = tmp_path / "template"
    template.mkdir()
    await prepare(FileSessionStore(template))

    async def check(folder: Path, failed: bool) -> None:
        store = FileSessionStore(folder, disk=FastDisk())
        state = store.load_now("a")
        assert state in ((old, new) if failed else (new,))
        assert [summary.id for summary in await store.list()] == ([] if state is None else ["a"])
        if mode == "once":
            assert not any(name.endswith(".tmp") for name in names(folder))
        await store.save(NEW)  # and the store works again
        assert FileSessionStore(folder).load_now("a") == NEW

    await until_it_works(template, tmp_path / "runs", mode, work, check)


@pytest.mark.parametrize("mode", MODES)
async def test_damaged_bytes_are_kept_whatever_fails(mode: str, tmp_path: Path) -> None:
    template = tmp_path / "template"
    await stepped(FileSessionStore(template))
    damage(template)

    async def check(folder: Path, failed: bool) -> None:
        assert await FileSessionStore(folder, disk=FastDisk()).load("a") in ((None, NEW) if failed else (NEW,))
        files = [path.read_bytes() for path in (folder / "sessions" / "a").iterdir()]
        assert GARBAGE in files
        assert any(b"step 1" in content for content in files)

    await until_it_works(template, tmp_path / "runs", mode, lambda store: store.save(NEW), check)


@pytest.mark.parametrize("mode", MODES)
async def test_an_answer_is_whole_or_not_there(mode: str, tmp_path: Path) -> None:
    template = tmp_path / "template"
    await saved(FileSessionStore(template))
    decision = ApprovalDecision(approved=True, reason="fine " * 100, arguments={"a": 1})

    async def post(store: FileSessionStore) -> None:
        assert store.post_answer("a", "appr_1", decision, "command")

    async def check(folder: Path, failed: bool) -> None:
        store = FileSessionStore(folder, disk=FastDisk())
        taken = store.take_answer("a", "appr_1")
        assert taken in ((None, (decision, "command")) if failed else ((decision, "command"),))
        assert store.take_answer("a", "appr_1") is None
        assert store.post_answer("a", "appr_1", decision, "command")

    await until_it_works(template, tmp_path / "runs", mode, post, check)


@pytest.mark.parametrize("mode", ["once", "late"])
async def test_a_step_can_be_tried_again(mode: str, tmp_path: Path) -> None:
    template = tmp_path / "template"
    await stepped(FileSessionStore(template))
    for number in range(1, 12):
        folder = tmp_path / str(number)
        shutil.copytree(template, folder)
        store = FileSessionStore(folder, disk=FaultyDisk(number, mode))
        for _ in range(2):
            try:
                await appended(store)
                break
            except StoreError:
                continue
        assert await FileSessionStore(folder).load("a") == TWO


async def test_leftover_temporary_files_are_swept_when_old(tmp_path: Path) -> None:
    await saved(FileSessionStore(tmp_path))
    folder = tmp_path / "sessions" / "a"
    old, recent = folder / "session.json.1.ab.tmp", folder / "session.json.2.cd.tmp"
    for path in (old, recent):
        path.write_bytes(GARBAGE)
    os.utime(old, (1, 1))
    store = FileSessionStore(tmp_path)
    assert await store.load("a") == OLD
    await FileSessionStore(tmp_path).save(NEW)
    assert not old.exists()
    assert recent.exists()  # another process may be writing it


FULL_DISK = """
import asyncio, resource, signal, sys
from kestrel_nb.protocol.errors import StoreError
from kestrel_nb.protocol.messages import create_message
from kestrel_nb.protocol.sessions import SessionDetail, SessionStep
from kestrel_nb.runtime.file_store import FileSessionStore

async def main():
    store = FileSessionStore(sys.argv[1])
    await store.save(SessionDetail(id="a", title="old"))
    def step(seq, text):
        return SessionStep(seq=seq, updated_at=1.0, messages=(create_message("user", text, id=f"m{seq}"),))
    await store.append_step("a", step(1, "small"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    for call in (store.append_step("a", step(2, "y" * 9000)),
                 store.save(SessionDetail(id="a", title="z" * 9000, seq=3))):
        try:
            await call
            print("no error")
        except StoreError as error:
            print(error.code)
    await store.append_step("a", step(4, "after"))

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
asyncio.run(main())
"""


def test_a_write_that_the_system_cuts_short(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["store_failed", "store_failed"]
    detail = FileSessionStore(tmp_path).load_now("a")
    assert detail is not None
    assert [message.content for message in detail.messages] == ["small", "after"]
    assert sorted(path.name for path in (tmp_path / "sessions" / "a").iterdir()) == ["journal.jsonl", "session.json"]
