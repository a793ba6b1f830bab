"""The file store: ids, cases, values and order."""

import asyncio
import json
import logging
import os
import shutil
import stat
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from file_store_kit import (
    DATA,
    WHOLE,
    document,
    names,
    planted,
    session,
    step,
)

from kestrel_nb.protocol.codec import loads
from kestrel_nb.protocol.errors import StoreError
from kestrel_nb.protocol.messages import ReasoningPart, TextPart, ToolResultPart, create_message, unanswered_calls
from kestrel_nb.protocol.sessions import SessionDetail, SessionStep
from kestrel_nb.runtime.file_disk import Disk
from kestrel_nb.runtime.file_store import FileSessionStore

BAD_IDS = [
    "", ".", "..", "a/b", "../a", "/etc", "a\\b", "a.b", "a b", "a\n", "\n", "a\x00b", "é", "é", "\ud800", "a" * 129,
    "CON", "con", "Nul", "aux", "PRN", "com1", "LPT9", "~", "*", "C:", None, 5, b"a",
]  # fmt: skip


@pytest.mark.parametrize("id", BAD_IDS, ids=repr)
async def test_ids_that_are_refused(id: Any, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    (tmp_path / "precious").write_text("x")
    store = FileSessionStore(folder)
    await store.save(session("good"))
    before = names(tmp_path)
    calls: list[Callable[[], Any]] = [
        lambda: store.load(id),
        lambda: store.delete(id),
        lambda: store.append_step(id, step(1)),
        lambda: store.save(replace(session(), id=id)),
        lambda: store.attach(id, "x", "{}"),
    ]
    for call in calls:
        with pytest.raises(StoreError) as caught:
            await call()
        assert caught.value.code == "invalid_session_id"
    for now in (store.acquire, store.release, store.owner, store.load_now):
        with pytest.raises(StoreError):
            now(id)
    assert names(tmp_path) == before


@pytest.mark.parametrize("id", ["a", "A-1_b", "-", "_", "a" * 128, "console", "com10", "0"])
async def test_ids_that_are_taken(id: str, tmp_path: Path) -> None:
    store = FileSessionStore(tmp_path)
    await store.save(session(id))
    assert [summary.id for summary in await store.list()] == [id]
    await store.delete(id)
    assert await store.list() == []


async def test_a_link_never_leads_out_of_the_store(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "session.json").write_bytes(WHOLE)
    store = FileSessionStore(tmp_path / "store")
    await store.save(session("good"))
    link = tmp_path / "store" / "sessions" / "a"
    link.symlink_to(outside)
    assert await store.load("a") is None
    assert [summary.id for summary in await store.list()] == ["good"]
    with pytest.raises(StoreError):
        await store.save(session("a"))
    await store.delete("a")
    assert not link.is_symlink()
    assert (outside / "session.json").read_bytes() == WHOLE


async def test_a_copied_folder_is_a_session_of_its_own(tmp_path: Path) -> None:
    store = FileSessionStore(tmp_path)
    await store.save(session("a"))
    shutil.copytree(document(tmp_path).parent, document(tmp_path, "b").parent)
    assert [summary.id for summary in await store.list()] == ["a", "b"]


async def test_a_save_writes_what_changed(tmp_path: Path) -> None:
    """Kept texts must follow the values, also when ids come twice or objects go."""
    store = FileSessionStore(tmp_path)
    same = create_message("user", "one", id="m")
    for text in ("two", "three", "four"):
        detail = SessionDetail(id="a", messages=(same, create_message("user", text, id="m"), same))
        await store.save(detail)
        assert await FileSessionStore(tmp_path).load("a") == detail


async def test_case_q01(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shutil.copy(DATA / "Q01.empty.session.json", planted(tmp_path, b""))
    await FileSessionStore(tmp_path).save(session("b"))
    document(tmp_path, "c").parent.mkdir()
    planted(tmp_path, b"null", "d")
    planted(tmp_path, b"[]", "e")
    store = FileSessionStore(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert [summary.id for summary in await store.list()] == ["b"]
    for id in "acde":
        assert f"session {id}" in caplog.text
        assert await store.load(id) is None


async def test_case_q04(tmp_path: Path) -> None:
    planted(tmp_path, (DATA / "Q04.session.json").read_bytes(), "s4")
    store = FileSessionStore(tmp_path)
    detail = await store.load("s4")
    assert detail is not None
    assert [call.id for call in unanswered_calls(detail.messages)] == ["call_1"]
    assert detail.messages[0].content == "clean up"
    await store.append_step("s4", SessionStep(seq=1, updated_at=1.0, messages=(create_message("user", "continue"),)))
    again = await store.load("s4")
    assert again is not None
    assert len(again.messages) == 3
    await store.save(again)
    assert await FileSessionStore(tmp_path).load("s4") == again


async def test_flat_messages_without_ids_get_some(tmp_path: Path) -> None:
    planted(tmp_path, b'{"messages":[{"role":"user","content":"x"},{"role":"user","content":"x"}]}')
    detail = await FileSessionStore(tmp_path).load("a")
    assert detail is not None
    assert len({message.id for message in detail.messages} - {""}) == 2
    assert detail == FileSessionStore(tmp_path).load_now("a")


async def test_case_p01(tmp_path: Path) -> None:
    parts = (
        TextPart(text="\ud800"),
        ReasoningPart(text="hm \udfff"),
        ToolResultPart(call_id="c", name="t", content="ok \ud83d end"),
    )
    detail = SessionDetail(
        id="a", title="\udc80", messages=(create_message("assistant", parts),), extra={"\ud800": "\ud800"}
    )
    store = FileSessionStore(tmp_path)
    await store.save(detail)
    await store.append_step("a", step(1, "\ud83d"))
    loaded = await FileSessionStore(tmp_path).load("a")
    assert loaded is not None
    assert loaded.messages[0] == detail.messages[0]
    assert loaded.messages[1].content == "\ud83d"
    assert document(tmp_path).read_bytes().isascii()


async def test_case_f08(tmp_path: Path) -> None:
    detail = replace(session(), extra={"rows": [{"a": float("nan")}, {"a": float("inf")}, {"a": 1.5}]})
    store = FileSessionStore(tmp_path)
    await store.save(detail)
    assert loads(document(tmp_path).read_bytes())["extra"] == {"rows": [{"a": None}, {"a": None}, {"a": 1.5}]}


async def test_case_e03_pending_questions_survive(tmp_path: Path) -> None:
    call = {"id": "appr_1", "sessionId": "a", "runId": "r", "callId": "c", "tool": "t", "arguments": {"snake_key": 1}}
    rest = {"reason": "", "fingerprint": "f", "createdAt": 1.0}
    planted(tmp_path, json.dumps({"id": "a", "pending": [{**call, **rest}], "started": ["c0"]}).encode())
    store = FileSessionStore(tmp_path)
    detail = await store.load("a")
    assert detail is not None
    await store.append_step("a", SessionStep(seq=1, updated_at=1.0, pending=detail.pending, started=("c0", "c")))
    again = await FileSessionStore(tmp_path).load("a")
    assert again is not None
    assert again.pending[0].arguments == {"snake_key": 1}
    assert again.started == ("c0", "c")


async def test_values_without_json_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    store = FileSessionStore(tmp_path)
    await store.save(session())
    before = document(tmp_path).read_bytes()
    knot: dict[str, Any] = {}
    knot["knot"] = knot
    with pytest.raises(StoreError, match="inside itself"):
        await store.save(replace(session(), extra=knot))
    bad = replace(step(1), messages=(replace(create_message("user", "x"), extra=knot),))
    with pytest.raises(StoreError, match="inside itself"):
        await store.append_step("a", bad)
    assert document(tmp_path).read_bytes() == before
    assert await store.load("a") is not None


async def test_attachments(tmp_path: Path) -> None:
    store = FileSessionStore(tmp_path)
    await store.save(session())
    paths = [Path(await store.attach("a", name, "[1]")) for name in ("grep", "grep", "../../x", "", "\ud800" * 500)]
    folder = tmp_path / "sessions" / "a" / "data"
    assert [path.parent for path in paths] == [folder] * 5
    assert len({*paths}) == 5
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600}
    await store.delete("a")
    assert not folder.exists()


async def test_the_loop_goes_on_while_the_disk_is_slow(tmp_path: Path) -> None:
    class SlowDisk(Disk):
        def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
            if function is os.fsync:
                released.wait(20)
            return function(*args, **kwargs)

    released = threading.Event()
    store = FileSessionStore(tmp_path, disk=SlowDisk())
    saves = [asyncio.create_task(store.save(session("a", str(number)))) for number in range(8)]
    for _ in range(10):
        await asyncio.sleep(0.01)  # returns although a save waits for the disk
    assert not any(save.done() for save in saves)
    saves[5].cancel()
    released.set()
    await asyncio.gather(*saves, return_exceptions=True)
    loaded = await store.load("a")
    assert loaded is not None
    assert loaded.messages[0].content == "7"  # the order of the calls holds


def test_a_store_works_on_one_loop_after_another(tmp_path: Path) -> None:
    store = FileSessionStore(tmp_path)
    for number in range(3):
        asyncio.run(store.save(session("a", str(number))))
    assert [message.content for message in asyncio.run(store.load("a")).messages] == ["2"]  # type: ignore[union-attr]
