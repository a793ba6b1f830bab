"""What every store promises, held against each that ships."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kestrel_nb.protocol.errors import StoreError
from kestrel_nb.protocol.messages import create_message
from kestrel_nb.protocol.sessions import PermissionRule, SessionDetail, SessionStep, Usage, apply_step
from kestrel_nb.runtime.file_store import FileSessionStore
from kestrel_nb.runtime.stores import MemorySessionStore, SharedStore, StepStore

SESSION = SessionDetail(
    id="b",
    title="Report",
    messages=(create_message("user", "hello"),),
    rules=(PermissionRule(tool="shell", action="deny"),),
    usage=Usage(input_tokens=3),
    seq=4,
    extra={"theirs": 1},
)


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return MemorySessionStore() if request.param == "memory" else FileSessionStore(tmp_path)


def step(seq: int) -> SessionStep:
    return SessionStep(seq=seq, updated_at=float(seq), messages=(create_message("assistant", f"answer {seq}"),))


async def test_what_was_saved_is_loaded(store: Any) -> None:
    await store.save(SESSION)
    assert await store.load("b") == SESSION
    changed = replace(SESSION, title="New", messages=(*SESSION.messages, create_message("assistant", "hi")), seq=5)
    await store.save(changed)
    assert await store.load("b") == changed


async def test_nothing_stored(store: Any) -> None:
    assert await store.load("none") is None
    assert await store.list() == []
    await store.delete("none")


async def test_the_list_is_sorted_and_holds_summaries(store: Any) -> None:
    for id in ("c", "a", "b"):
        await store.save(replace(SESSION, id=id))
    assert await store.list() == [replace(SESSION, id=id).summary() for id in ("a", "b", "c")]


async def test_what_was_deleted_is_gone(store: Any) -> None:
    await store.save(SESSION)
    await store.append_step("b", step(5))
    await store.delete("b")
    assert await store.load("b") is None
    await store.save(replace(SESSION, messages=(), seq=0))
    assert (await store.load("b")).messages == ()


async def test_steps_are_added(store: Any) -> None:
    await store.save(SESSION)
    steps = [step(seq) for seq in range(5, 10)]
    expected = SESSION
    for one in steps:
        await store.append_step("b", one)
        expected = apply_step(expected, one)
    await store.append_step("b", steps[-1])  # a retry adds nothing
    assert await store.load("b") == expected
    assert await store.list() == [expected.summary()]


async def test_a_step_of_what_was_never_saved(store: Any) -> None:
    with pytest.raises(StoreError, match="never saved"):
        await store.append_step("b", step(1))
    assert await store.load("b") is None


@pytest.mark.parametrize("seq", [0, 4, 100])
async def test_a_save_replaces_the_steps_before_it(store: Any, seq: int) -> None:
    await store.save(SESSION)
    await store.append_step("b", step(5))
    fresh = replace(SESSION, messages=(), seq=seq)
    await store.save(fresh)
    assert await store.load("b") == fresh


def test_which_contracts_they_keep(tmp_path: Path) -> None:
    assert isinstance(MemorySessionStore(), StepStore)
    assert not isinstance(MemorySessionStore(), SharedStore)
    file = FileSessionStore(tmp_path)
    assert isinstance(file, StepStore)
    assert isinstance(file, SharedStore)
    assert list(tmp_path.iterdir()) == []  # making a store makes nothing else
