"""Whatever a tool is made to do, the kernel's event loop goes on, and limit, Stop, cancel and Interrupt end it all."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from front_end import RunPage
from hanging_calls import HANGING, SETUP, STUBBORN, Hanging, dripping, processes_of
from harness import Kernel, Outcome, running_kernel
from sample_cells import LOAD

FREE_S = 1.0  # the most that the loop may ever stand still
SOON_S = 3.0  # for an end that takes less than a second where the machine is not busy with other things
IN_THE_MIDDLE_S = 0.5  # after a tool began, so that its processes run and its connection stands
THREADS = """import threading
for tries in range(500):
    names = [thread.name for thread in threading.enumerate()]
    left = [name for name in names if name.startswith("kestrel-") and "idle" not in name]
    if not left:
        break
    await asyncio.sleep(0.01)
print(left)"""
ids = [case.name for case in HANGING]


class Desk(NamedTuple):
    """The kernel, its process, and the port of the server that drips."""

    kernel: Kernel
    pid: int
    port: int


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """One kernel for all, in which every tool is on."""
    home = tmp_path_factory.mktemp("freezes")
    with dripping() as port, running_kernel(home) as kernel:
        kernel.ok(LOAD, 60)
        kernel.ok(SETUP, 60)
        (home / "desk/stubborn.py").write_text(STUBBORN, encoding="utf-8")
        pid = int(kernel.ok("print(os.getpid())").text)
        yield Desk(kernel, pid, port)


def begin(desk: Desk, case: Hanging, *, short: bool = False, after: float | None = None) -> RunPage:
    """A cell in which the tool of ``case`` hangs; a person has approved it where that is asked."""
    kernel = desk.kernel
    kernel.forget()
    kernel.ok(f"play({case.call(desk.port, short=short)}, after={after})")
    kernel.ok("%kestrel use app\nheart.begin()")
    page = RunPage(kernel, "%%kestrel\ngo")
    if case.asks:
        page.answer(page.card(), True)
    started = kernel.wait(lambda m: '"running"' in json.dumps(m["content"]) and case.tool in json.dumps(m["content"]))
    assert started, "the tool did not begin"
    return page


def check(desk: Desk, case: Hanging, how: str, outcome: Outcome, took: float) -> str:
    """The loop was free, nothing is left, the kernel works. The record's text."""
    kernel = desk.kernel
    gap, computing = map(float, kernel.ok("print(heart.gap, heart.computing)").text.split())
    measured = f"longest gap {gap:.3f} s (computing {computing:.3f} s), ended after {took:.2f} s"
    sys.stdout.write(f"{case.name:13} {how:10} {measured}\n")
    assert gap < FREE_S
    deadline = time.monotonic() + 2
    while (left := processes_of(desk.pid)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert left == []
    assert kernel.ok("print(1 + 1)").text == "2\n"
    return str(outcome.displayed[0]["text/plain"])


def test_every_tool_is_there(desk: Desk) -> None:
    desk.kernel.ok("play('date-time', {'operation': 'now'})\n")
    desk.kernel.ok("%kestrel use app")
    shown = desk.kernel.ok("frame = %kestrel tools\nprint(len(frame), sum(frame['state'] == 'on'))").text
    assert shown == "22 22\n"


@pytest.mark.parametrize("case", [case for case in HANGING if case.says], ids=lambda case: case.name)
def test_its_own_limit_ends_it(desk: Desk, case: Hanging) -> None:
    began = time.monotonic()
    page = begin(desk, case, short=True)
    outcome = desk.kernel.outcome(page.cell, 20)
    text = check(desk, case, "limit", outcome, time.monotonic() - began)
    assert outcome.status == "ok"
    assert case.says in text
    assert "It came to an end." in text


@pytest.mark.parametrize("case", HANGING, ids=ids)
def test_stop_ends_it(desk: Desk, case: Hanging) -> None:
    page = begin(desk, case)
    time.sleep(IN_THE_MIDDLE_S)
    pressed = time.monotonic()
    page.send({"type": "stop"})
    outcome = desk.kernel.outcome(page.cell, 20)
    took = time.monotonic() - pressed
    text = check(desk, case, "stop", outcome, took)
    assert took < SOON_S
    assert text.startswith("Stopped")
    assert f"{case.tool} " in text
    assert " · cancelled" in text
    assert ("may still be running" in text) == case.outlives
    assert desk.kernel.ok(THREADS).text == "[]\n"


@pytest.mark.parametrize("case", HANGING, ids=ids)
def test_cancel_ends_it(desk: Desk, case: Hanging) -> None:
    page = begin(desk, case, after=IN_THE_MIDDLE_S)
    outcome = desk.kernel.outcome(page.cell, 20)
    took = float(desk.kernel.ok("print(times[1] - times[0])").text)
    text = check(desk, case, "cancel", outcome, took)
    assert took < SOON_S
    assert text.startswith("Stopped")


@pytest.mark.parametrize("name", ["regex", "grep", "loop", "ignoring", "sql-function", "web"])
def test_interrupt_ends_it(desk: Desk, name: str) -> None:
    case = next(case for case in HANGING if case.name == name)
    page = begin(desk, case)
    time.sleep(IN_THE_MIDDLE_S)
    pressed = time.monotonic()
    desk.kernel.interrupt()
    outcome = desk.kernel.outcome(page.cell, 20)
    took = time.monotonic() - pressed
    text = check(desk, case, "interrupt", outcome, took)
    assert took < SOON_S
    assert outcome.status == "error"
    assert text.startswith("Interrupted")
