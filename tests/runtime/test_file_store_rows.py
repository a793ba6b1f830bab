"""Each row of the store corpus."""

import asyncio
import errno
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from file_store_kit import (
    DAMAGE,
    DATA,
    BrokenDisk,
    document,
    kept,
    names,
    session,
    step,
)

from kestrel_nb.protocol.errors import StoreError
from kestrel_nb.runtime.file_store import FileSessionStore

ROWS = {row["id"]: row for row in map(json.loads, (DATA / "rows.jsonl").read_text(encoding="utf-8").splitlines())}
EXCLUDED = json.loads((DATA / "excluded.json").read_text(encoding="utf-8"))


async def damaged_row(folder: Path, damage: str) -> None:
    await FileSessionStore(folder).save(session("good"))
    path = document(folder)
    path.parent.mkdir()
    DAMAGE[damage](path)
    before = kept(path)
    async with asyncio.timeout(20):
        assert [summary.id for summary in await FileSessionStore(folder).list()] == ["good"]
    assert kept(path) == before


async def disk_row(folder: Path, function: Any, error: int, message: str) -> None:
    old = session("a", "old")
    await FileSessionStore(folder).save(old)
    store = FileSessionStore(folder, disk=BrokenDisk(function, error))
    with pytest.raises(StoreError, match=message):
        await store.save(session("a", "new"))
    assert await FileSessionStore(folder).load("a") == old
    assert [path.name for path in document(folder).parent.iterdir()] == ["session.json"]


async def refused_row(folder: Path, id: str) -> None:
    store = FileSessionStore(folder / "store")
    await store.save(session("good"))
    before = names(folder)
    for call in (store.save(replace(session(), id=id)), store.load(id), store.delete(id)):
        with pytest.raises(StoreError):
            await call
    assert names(folder) == before


async def out_of_files(folder: Path) -> None:
    """A real lack of file descriptors, in a process of its own."""
    code = (
        "import asyncio, os, resource, sys\n"
        "from kestrel_nb.runtime.file_store import FileSessionStore\n"
        "from kestrel_nb.protocol.sessions import SessionDetail\n"
        "store = FileSessionStore(sys.argv[1])\n"
        "async def main():\n"
        "    await store.save(SessionDetail(id='a', title='old'))\n"
        "    limit = max(map(int, os.listdir('/proc/self/fd'))) + 1\n"
        "    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))\n"
        "    held = []\n"
        "    try:\n"
        "        while True: held.append(os.open(os.devnull, os.O_RDONLY))\n"
        "    except OSError: pass\n"
        "    for call in (store.save(SessionDetail(id='a', title='new')), store.load('a'), store.list()):\n"
        "        try: print(await call)\n"
        "        except Exception as error: print(type(error).__name__, error.code, error)\n"
        "    for fd in held: os.close(fd)\n"
        "    print((await store.load('a')).title)\n"
        "asyncio.run(main())\n"
    )
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, timeout=60
    )
    lines = done.stdout.splitlines()
    assert [line.split()[:2] for line in lines[:3]] == [["StoreError", "store_failed"]] * 3, done
    assert all("ulimit" in line for line in lines[:3])
    assert lines[3:] == ["old"]


async def two_kernels(folder: Path) -> None:
    code = (
        "import asyncio, sys\n"
        "from kestrel_nb.runtime.file_store import FileSessionStore\n"
        "from kestrel_nb.protocol.messages import create_message\n"
        "from kestrel_nb.protocol.sessions import SessionDetail\n"
        "async def main():\n"
        "    store = FileSessionStore(sys.argv[1])\n"
        "    message = create_message('user', sys.argv[2] * 2000)\n"
        "    for number in range(500):\n"
        "        await store.save(SessionDetail(id='a', title=sys.argv[2], messages=(message,) * (number % 7)))\n"
        "asyncio.run(main())\n"
    )
    writers = [await asyncio.create_subprocess_exec(sys.executable, "-c", code, str(folder), name) for name in "xy"]
    reader = FileSessionStore(folder)
    seen = 0
    while any(writer.returncode is None for writer in writers):
        detail = await reader.load("a")
        if detail is not None:
            seen += 1
            assert {message.content[:1] for message in detail.messages} <= {detail.title}
    assert [writer.returncode for writer in writers] == [0, 0]
    assert seen
    assert await reader.load("a") is not None
    assert [path.name for path in document(folder).parent.iterdir()] == ["session.json"]


async def fifty_at_once(folder: Path) -> None:
    store = FileSessionStore(folder)
    await asyncio.gather(*(store.save(session("a", str(number))) for number in range(50)))
    loaded = await FileSessionStore(folder).load("a")
    assert loaded is not None
    assert loaded.messages[0].content == "49"


async def private_files(folder: Path) -> None:
    old = os.umask(0o022)
    try:
        store = FileSessionStore(folder / "store")
        await store.save(session())
        await store.append_step("a", step(1))
        assert store.acquire("a")
        store.release("a")
    finally:
        os.umask(old)
    for path in (folder / "store", *(folder / "store").rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


async def junk_in_the_folder(folder: Path) -> None:
    store = FileSessionStore(folder)
    await store.save(session("good"))
    sessions = folder / "sessions"
    for name in (".DS_Store", "notes.txt", "plain", "CON"):
        (sessions / name).write_text("x")
    for name in (".ipynb_checkpoints", "a b", "é"):
        (sessions / name).mkdir()
    (sessions / "loop").symlink_to("loop")
    assert [summary.id for summary in await store.list()] == ["good"]
    assert await store.load("plain") is None


async def lone_surrogate(folder: Path) -> None:
    detail = session("a", "lone \ud800")
    await FileSessionStore(folder).save(detail)
    assert await FileSessionStore(folder).load("a") == detail


async def normal_forms(folder: Path) -> None:
    for id in ("é", "é"):
        with pytest.raises(StoreError):
            await FileSessionStore(folder).save(replace(session(), id=id))


CHECKS: dict[str, Callable[[Path], Any]] = {
    "store-O002": lambda folder: damaged_row(folder, "empty"),
    "store-O003": lambda folder: damaged_row(folder, "truncated"),
    "store-O004": lambda folder: damaged_row(folder, "not utf-8"),
    "store-O005": lambda folder: damaged_row(folder, "directory"),
    "store-O006": lambda folder: damaged_row(folder, "fifo"),
    "store-O007": lambda folder: damaged_row(folder, "huge"),
    "store-O008": lambda folder: disk_row(folder, os.open, errno.EROFS, "choose a store folder"),
    "store-O009": out_of_files,
    "store-O010": lambda folder: refused_row(folder, ROWS["store-O010"]["input"]["id"]),
    "store-O011": lambda folder: refused_row(folder, ROWS["store-O011"]["input"]["id"]),
    "store-O012": lambda folder: refused_row(folder, ROWS["store-O012"]["input"]["id"]),
    "store-O013": lambda folder: refused_row(folder, ROWS["store-O013"]["input"]["id"]),
    "store-O014": normal_forms,
    "store-O015": lambda folder: refused_row(folder, ROWS["store-O015"]["input"]["delete_id"]),
    "store-O016": two_kernels,
    "store-O017": fifty_at_once,
    "store-O018": lone_surrogate,
    "store-O019": lambda folder: disk_row(folder, os.fsync, errno.EIO, "check the disk"),
    "store-O020": private_files,
    "store-O021": junk_in_the_folder,
}


def test_every_row_is_run_or_excluded() -> None:
    assert sorted([*CHECKS, *EXCLUDED]) == sorted(ROWS)


@pytest.mark.parametrize("id", CHECKS)
async def test_row(id: str, tmp_path: Path) -> None:
    await CHECKS[id](tmp_path)
