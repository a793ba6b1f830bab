"""Children that can be killed: bounded in time, memory and answer, with nothing of ours, and never left behind."""

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from processes import living, until, zombies

from kestrel_nb.protocol.errors import CancelledByUser, ToolCallError
from kestrel_nb.sandbox.child import AT_ONCE, ChildDied, ChildTimeout, run_child

HEAD = "import json, os, sys\norder = json.load(sys.stdin)\n"
SLEEP = "import time\ntime.sleep(60)\n"


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    """A worker script made of a few lines; its name stands in the command line of the process and nowhere else."""

    def write(lines: str) -> Path:
        path = tmp_path / f"worker-{uuid.uuid4().hex}.py"
        path.write_text(HEAD + lines, "utf-8")
        return path

    return write


async def run(script: Path, order: dict[str, Any] | None = None, **more: Any) -> Any:
    limits = {"timeout_s": 20.0, "memory_bytes": None, "max_bytes": 100_000, **more}
    return await run_child(script, order or {}, **limits)


async def test_an_order_comes_back_as_an_answer(script: Callable[[str], Path]) -> None:
    order = {"text": "é \ud800 \U0001f600 \0 \u2028", "list": [1, 2.5, None, True]}
    assert await run(script("print(json.dumps(order))"), order) == order


async def test_a_child_has_nothing_of_ours(script: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("JPY_PARENT_PID", "1")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    lines = """
names = sorted(os.environ)
files = sorted(os.listdir("/proc/self/fd"))
flags = [sys.flags.isolated, sys.flags.no_site]
packages = [place for place in sys.path if "site-packages" in place]
rest = sys.stdin.read()
print(json.dumps([names, files, flags, packages, rest, os.getsid(0) == os.getpid(), os.getcwd()]))
"""
    names, files, flags, packages, rest, own_session, folder = await run(script(lines))
    assert set(names) <= {"LC_CTYPE", "LD_LIBRARY_PATH"}  # Python itself sets the first
    assert files == ["0", "1", "2", "3"]  # the last one lists them
    assert (flags, packages, rest, own_session, folder) == ([1, 1], [], "", True, "/")


@pytest.mark.skipif(sys.platform != "linux", reason="other platforms know fewer limits")
async def test_a_child_is_limited(script: Callable[[str], Path]) -> None:
    lines = """
import resource as r
kinds = (r.RLIMIT_CORE, r.RLIMIT_NOFILE, r.RLIMIT_NPROC, r.RLIMIT_CPU, r.RLIMIT_AS)
print(json.dumps([r.getrlimit(kind) for kind in kinds]))
"""
    memory = 300_000_000
    limits = await run(script(lines), memory_bytes=memory, timeout_s=7.5)
    assert limits == [[0, 0], [32, 32], [0, 0], [13, 13], [memory, memory]]
    with pytest.raises(ChildDied):
        await run(script("x = bytearray(400_000_000)\nprint(1)"), memory_bytes=memory)


async def test_time_ends_a_child(script: Callable[[str], Path]) -> None:
    worker = script(SLEEP)
    started = time.monotonic()
    with pytest.raises(ChildTimeout, match=r"after 0\.3 s") as caught:
        await run(worker, timeout_s=0.3)
    assert caught.value.code == "child_timeout"
    assert isinstance(caught.value, ToolCallError)
    assert time.monotonic() - started < 10
    assert not living(worker.name)
    assert not zombies()


async def test_an_answer_too_long_ends_a_child(script: Callable[[str], Path]) -> None:
    worker = script("while True: sys.stdout.write('x' * 100_000)")
    with pytest.raises(ChildDied, match="more than 1,000 bytes"):
        await run(worker, max_bytes=1_000)
    assert not living(worker.name)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("raise SystemExit(3)", "exit code 3"),
        ("1/0", "exit code 1"),
        ("os.kill(os.getpid(), 11)", "signal 11"),
        ("print('{')", "exit code 0"),
        ("os.close(1)", "exit code"),
        ("print('[' * 90_000)", "exit code 0"),
        ("os.close(1)\n" + SLEEP, "signal 9"),
    ],
)
async def test_a_child_without_an_answer_is_an_error(script: Callable[[str], Path], lines: str, words: str) -> None:
    worker = script(lines)
    with pytest.raises(ChildDied, match=words) as caught:
        await run(worker)
    assert caught.value.code == "child_died"
    assert caught.value.exit_code is not None
    assert not living(worker.name)


async def test_an_order_that_nobody_reads_is_no_hang(tmp_path: Path) -> None:
    worker = tmp_path / "deaf.py"
    worker.write_text("raise SystemExit(3)", "utf-8")
    with pytest.raises(ChildDied, match="exit code 3"):
        await run(worker, {"text": "x" * 5_000_000})
    worker.write_text(SLEEP, "utf-8")
    with pytest.raises(ChildTimeout):
        await run(worker, {"text": "x" * 5_000_000}, timeout_s=0.3)


async def test_a_script_that_is_not_there_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ChildDied, match="exit code"):
        await run(tmp_path / "nothing.py")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with pytest.raises(ChildDied, match="could be started"):
        await run(tmp_path / "nothing.py")


@pytest.mark.parametrize("how", ["stop", "cancel"])
async def test_stop_and_cancel_end_a_child(script: Callable[[str], Path], how: str) -> None:
    worker = script(SLEEP)
    stop = asyncio.Event()
    task = asyncio.ensure_future(run(worker, stop=stop.wait))
    await asyncio.to_thread(until, lambda: bool(living(worker.name)))
    started = time.monotonic()
    stop.set() if how == "stop" else task.cancel()
    with pytest.raises(CancelledByUser if how == "stop" else asyncio.CancelledError):
        await task
    assert time.monotonic() - started < 1
    assert not living(worker.name)
    assert not zombies()


async def test_a_call_cancelled_at_once_leaves_nothing(script: Callable[[str], Path]) -> None:
    worker = script(SLEEP)
    for pause in (0, 0.001, 0.01):
        task = asyncio.ensure_future(run(worker))
        await asyncio.sleep(pause)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not living(worker.name)


async def test_many_at_once(script: Callable[[str], Path]) -> None:
    worker = script("print(json.dumps(order['n']))")
    assert await asyncio.gather(*(run(worker, {"n": n}) for n in range(12))) == list(range(12))
    assert not zombies()


def test_from_a_loop_in_a_thread_and_twice_in_a_row(script: Callable[[str], Path]) -> None:
    worker = script("print(json.dumps(order['n']))")
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(asyncio.run(run(worker, {"n": 1}))))
    thread.start()
    thread.join(30)
    found.append(asyncio.run(run(worker, {"n": 2})))
    gc.collect()
    assert found == [1, 2]


async def test_the_loop_goes_on_while_a_child_starts_works_and_is_killed(script: Callable[[str], Path]) -> None:
    worker = script("while True: pass")
    gap, last = 0.0, time.monotonic()
    task = asyncio.gather(*(run(worker, timeout_s=1) for _ in range(2)), return_exceptions=True)
    while not task.done():
        await asyncio.sleep(0.005)
        gap, last = max(gap, time.monotonic() - last), time.monotonic()
    assert all(isinstance(error, ChildTimeout) for error in await task)
    assert gap < 1


PARENT = """
import asyncio, sys
from pathlib import Path
from kestrel_nb.sandbox.child import run_child
asyncio.run(run_child(Path(sys.argv[1]), {}, timeout_s=60, memory_bytes=None, max_bytes=100))
"""


@pytest.mark.parametrize("lines", [SLEEP, "while True: pass", "import re; re.match('(a|a)+$', 'a' * 100 + 'b')"])
def test_a_child_ends_when_we_die(script: Callable[[str], Path], lines: str) -> None:
    worker = script(lines)
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(worker)])
    try:
        until(lambda: len(living(worker.name)) == 2)
        time.sleep(0.3)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        until(lambda: not living(worker.name))
    finally:
        parent.kill()
        parent.wait()
        for pid in living(worker.name):
            os.kill(pid, signal.SIGKILL)


def test_the_answer_is_json_of_any_kind(script: Callable[[str], Path]) -> None:
    for value in (None, 0, "x", [], {"a": [1]}):
        assert asyncio.run(run(script(f"print({json.dumps(json.dumps(value))})"))) == value


async def test_only_so_many_run_at_a_time_and_waiting_is_no_time_of_theirs(script: Callable[[str], Path]) -> None:
    path = script("import time\ntime.sleep(0.3)\nprint(json.dumps(order))\n")
    calls = [asyncio.ensure_future(run(path, {"n": n}, timeout_s=5.0)) for n in range(3 * AT_ONCE)]
    most = 0
    while not all(call.done() for call in calls):
        most = max(most, len(living(path.name)))
        await asyncio.sleep(0.02)
    assert [call.result() for call in calls] == [{"n": n} for n in range(3 * AT_ONCE)]
    assert 2 <= most <= AT_ONCE


async def test_who_waits_for_a_turn_can_be_stopped(script: Callable[[str], Path]) -> None:
    path = script(SLEEP)
    first = [asyncio.ensure_future(run(path)) for _ in range(AT_ONCE)]
    await asyncio.to_thread(until, lambda: len(living(path.name)) == AT_ONCE)
    with pytest.raises(CancelledByUser):
        await asyncio.wait_for(run(path, stop=lambda: asyncio.sleep(0.05)), 5)
    late = asyncio.ensure_future(run(path))
    await asyncio.sleep(0.1)
    for call in (late, *first):
        call.cancel()
    await asyncio.wait_for(asyncio.gather(late, *first, return_exceptions=True), 10)
    assert not living(path.name)
    assert await run(script("print(1)\n")) == 1  # the turns have come back
