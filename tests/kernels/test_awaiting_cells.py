"""What the design rests on: a click and Interrupt reach a cell that awaits. Asked of ipykernel alone.

The routing of widget messages has changed more than once between releases of ipykernel, so this also runs against
the newest one: KESTREL_TEST_IPYKERNEL=newest.
"""

import importlib.metadata
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import Kernel, running_kernel
from ipykernels import CHOICES, extra_env

SETUP = """
import asyncio, json, threading
import ipykernel, ipywidgets
from IPython.display import display

threads = []

def show_button(settle):
    button = ipywidgets.Button(description="Approve")
    def clicked(_):
        threads.append(threading.current_thread().name)
        settle()
    button.on_click(clicked)
    display(button)
    print("ASKING", flush=True)

def future_on(loop):
    answer = loop.create_future()
    settle = lambda: answer.done() or answer.set_result("clicked")
    return answer, lambda: loop.call_soon_threadsafe(settle)
"""

AWAITING = """
answer, settle = future_on(asyncio.get_running_loop())
show_button(settle)
print("RESULT", await answer)
"""

BLOCKING = """
answered = threading.Event()
show_button(answered.set)
while not answered.wait(0.02): pass
print("RESULT clicked")
"""

TICKING = """
async def tick():
    while True: await asyncio.sleep(0.1)
ticker = asyncio.ensure_future(tick())
print("ASKING", flush=True)
try: await asyncio.get_running_loop().create_future()
finally: ticker.cancel()
"""

IDLE = """
print("ASKING", flush=True)
await asyncio.get_running_loop().create_future()
"""


@pytest.fixture(params=CHOICES)
def bare(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kernel | None]:
    """A kernel with SETUP run; None when the newest ipykernel is the installed one, which is tested anyway."""
    env = extra_env(request.param)
    if env is None:
        yield None
        return
    with running_kernel(tmp_path, extra_env=env) as kernel:
        kernel.ok(SETUP)
        yield kernel


def same(kernel: Kernel | None) -> bool:
    """Whether there is nothing new to try; said in the output."""
    if kernel is None:
        print(f"the newest ipykernel is the installed one, {importlib.metadata.version('ipykernel')}")  # noqa: T201
    return kernel is None


def click(kernel: Kernel, code: str, route: str, limit: float) -> bool:
    """Run the cell, press its button by the route, and see whether the click got through in ``limit`` seconds."""
    subshell = kernel.new_subshell() if route == "subshell" else None
    kernel.execute(code)
    assert kernel.wait_for_text("ASKING"), "the cell never asked"
    button = next(comm for comm, state in kernel.models().items() if state.get("description") == "Approve")
    kernel.custom(button, {"event": "click"}, subshell)
    return kernel.wait_for_text("RESULT clicked", limit)


@pytest.mark.parametrize("route", ["main", "subshell"])
def test_a_click_reaches_an_awaiting_cell_on_the_main_thread(bare: Kernel | None, route: str) -> None:
    if same(bare):
        return
    assert click(bare, AWAITING, route, limit=5)
    assert json.loads(bare.ok("print(json.dumps(threads))").text) == ["MainThread"]


@pytest.mark.parametrize("route", ["main", "subshell"])
def test_a_click_does_not_reach_a_blocking_cell(bare: Kernel | None, route: str) -> None:
    """Why the cell awaits. If this ever fails, a simpler design has become possible."""
    if same(bare):
        return
    assert not click(bare, BLOCKING, route, limit=2)


def test_interrupt_reaches_a_ticking_await(bare: Kernel | None) -> None:
    if same(bare):
        return
    cell = bare.execute(TICKING)
    assert bare.wait_for_text("ASKING")
    bare.interrupt()
    assert bare.outcome(cell, 5).reply["ename"] == "CancelledError"
    assert bare.ok("print(1 + 1)").text == "2\n"


def test_interrupt_does_not_reach_an_idle_await(bare: Kernel | None) -> None:
    """Why every run ticks. The pause lets the loop fall asleep: a signal that finds it awake does get through."""
    if same(bare):
        return
    cell = bare.execute(IDLE)
    assert bare.wait_for_text("ASKING")
    time.sleep(1)
    bare.interrupt()
    assert bare.reply(cell, 2) is None
