"""Damaged files beside and instead of sessions: skipped, never lost, never mixed with what comes after."""

from pathlib import Path

import pytest
from file_store_kit import DAMAGE, TRUNCATED, document, fifo, kept, planted, session, step

from kestrel_nb.protocol.errors import StoreError
from kestrel_nb.protocol.sessions import apply_step
from kestrel_nb.runtime.file_store import FileSessionStore


@pytest.mark.parametrize("damage", DAMAGE)
async def test_what_can_not_be_read_is_skipped_and_kept(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    await FileSessionStore(tmp_path).save(session("good"))
    path = document(tmp_path)
    path.parent.mkdir()
    DAMAGE[damage](path)
    before = kept(path)
    store = FileSessionStore(tmp_path)
    assert [summary.id for summary in await store.list()] == ["good"]
    assert "session a" in caplog.text
    assert await store.load("a") is None
    assert store.load_now("a") is None
    assert kept(path) == before

    await store.save(session("a", "new"))
    assert (await FileSessionStore(tmp_path).load("a")) is not None
    assert kept(path.with_name("session.json.corrupt-1")) == before
    await store.save(session("a", "newer"))
    assert len(list(path.parent.glob("*.corrupt-*"))) == 1


async def test_every_damaged_file_is_kept(tmp_path: Path) -> None:
    store = FileSessionStore(tmp_path)
    for content in (b"first", b"second", b"third"):
        planted(tmp_path, content)
        await store.save(session())
    copies = sorted(document(tmp_path).parent.glob("*.corrupt-*"))
    assert [copy.read_bytes() for copy in copies] == [b"first", b"second", b"third"]


async def test_a_journal_of_something_else_is_never_mixed_in(tmp_path: Path) -> None:
    store = FileSessionStore(tmp_path)
    await store.save(session())
    await store.append_step("a", step(7))
    document(tmp_path).write_bytes(TRUNCATED)
    assert await store.load("a") is None
    fresh = session("a", "fresh")
    await store.save(fresh)
    assert await FileSessionStore(tmp_path).load("a") == fresh
    assert document(tmp_path).with_name("journal.jsonl.corrupt-1").exists()

    document(tmp_path).unlink()  # and when only the journal is left
    planted(tmp_path, b'{"version":1,"seq":9,"updatedAt":1,"title":"old"}\n', name="journal.jsonl")
    assert await store.load("a") is None
    await store.save(fresh)
    assert await FileSessionStore(tmp_path).load("a") == fresh


JOURNAL_TAILS = [b"{", b'{"version":1,"seq":9', b'{"version":1,"seq":9,"updatedAt":1.0}', bytes(100), b"\xff\xfe"]


@pytest.mark.parametrize("tail", JOURNAL_TAILS)
async def test_a_torn_last_line_is_ignored_and_replaced(tail: bytes, tmp_path: Path) -> None:
    store = FileSessionStore(tmp_path)
    start, first, second = session(), step(1, "first"), step(2, "second")
    await store.save(start)
    await store.append_step("a", first)
    journal = document(tmp_path).with_name("journal.jsonl")
    journal.write_bytes(journal.read_bytes() + tail)
    for reader in (store, FileSessionStore(tmp_path)):
        assert await reader.load("a") == apply_step(start, first)
    await store.append_step("a", second)
    assert await FileSessionStore(tmp_path).load("a") == apply_step(apply_step(start, first), second)


async def test_a_damaged_line_costs_itself_only_and_is_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = FileSessionStore(tmp_path)
    await store.save(session())
    await store.append_step("a", step(1, "first"))
    journal = document(tmp_path).with_name("journal.jsonl")
    damaged = journal.read_bytes() + b"\xffgarbage\n"
    journal.write_bytes(damaged)
    await store.append_step("a", step(2, "second"))
    loaded = await FileSessionStore(tmp_path).load("a")
    assert loaded is not None
    assert [message.content for message in loaded.messages] == ["hello", "first", "second"]
    assert "line 2" in caplog.text
    await store.save(loaded)
    assert journal.with_name("journal.jsonl.corrupt-1").read_bytes().startswith(damaged)
    assert await FileSessionStore(tmp_path).load("a") == loaded


async def test_a_newer_journal_is_not_dropped(tmp_path: Path) -> None:
    store = FileSessionStore(tmp_path)
    await store.save(session())
    planted(tmp_path, b'{"version":2,"seq":9,"change":"of another kind"}\n', name="journal.jsonl")
    assert await store.load("a") is None  # half of it would be wrong
    await store.save(session("a", "new"))
    names = sorted(path.name for path in document(tmp_path).parent.iterdir())
    assert names == ["journal.jsonl.corrupt-1", "session.json", "session.json.corrupt-1"]


@pytest.mark.parametrize("name", ["journal.jsonl", "lease", "answers"])
async def test_something_odd_beside_a_session(name: str, tmp_path: Path) -> None:
    store = FileSessionStore(tmp_path)
    await store.save(session())
    fifo(document(tmp_path).with_name(name))
    assert await store.load("a") is not None
    if name == "journal.jsonl":
        with pytest.raises(StoreError):
            await store.append_step("a", step(1))
    await store.save(session("a", "new"))
    await store.delete("a")
    assert list((tmp_path / "sessions").iterdir()) == []
