"""kill -9 at random moments of 200 runs: every session loads, with every step that was over, and goes on."""

import asyncio
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kestrel_nb import Kestrel
from kestrel_nb.protocol.messages import unanswered_calls
from kestrel_nb.runtime.file_store import FileSessionStore
from kestrel_nb.testing import ScriptedModel

CHILD = Path(__file__).with_name("killed_runs_child.py")
RUNS, TOGETHER = 200, 20


def killed(folder: Path, first: int, chance: random.Random) -> dict[str, int]:
    """Kill a process that works twenty runs; the last step of each session that was said to be over."""
    words = [sys.executable, str(CHILD), str(folder), str(first), str(TOGETHER)]
    env_path = str(CHILD.parents[1])
    env = {"PYTHONPATH": env_path, "PATH": ""}
    over: dict[str, int] = {}
    after = chance.randint(1, 300)  # lines; the moment within a step is random by itself
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=folder, env=env) as process:
        assert process.stdout is not None
        for line in process.stdout:
            name, step = line.split()
            if name != "ready":
                over[name] = int(step)
            after -= 1
            if after == 0:
                process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "the runs ended before the kill"
    return over


@pytest.mark.timeout(300)
async def test_every_session_loads_with_every_step_that_was_over(tmp_path: Path) -> None:
    chance = random.Random(7)
    over: dict[str, int] = {}
    for first in range(0, RUNS, TOGETHER):
        over |= await asyncio.to_thread(killed, tmp_path, first, chance)
    store = FileSessionStore(str(tmp_path))
    loaded = {summary.id: await store.load(summary.id) for summary in await store.list()}
    assert set(over) <= set(loaded)
    for name, last in over.items():
        detail = loaded[name]
        assert detail is not None
        said = [message.content for message in detail.messages if message.role == "assistant"]
        assert said[:last] == [f"step {number + 1}" for number in range(last)]
        kept = detail.messages[: 1 + max(i for i, m in enumerate(detail.messages) if m.content == f"step {last}")]
        assert unanswered_calls(kept[:-1]) == ()
    await goes_on(tmp_path, sorted(over)[:10])


async def goes_on(folder: Path, names: list[str]) -> None:
    """A new process takes the sessions up: the next request has a result for every call."""
    model = ScriptedModel(["fine"] * len(names))
    async with Kestrel(model=model, store=FileSessionStore(str(folder)), workspace=folder) as app:
        for name in names:
            session = app.sessions.get(name)
            session.set_model("scripted")
            result = await session.start("and now?")
            assert result.text == "fine"
    for request in model.requests:
        assert unanswered_calls(request.messages) == ()
