"""Large data of a tool becomes JSON beside the loop, and nothing else about the call changes."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from stage import AsyncFunctionTool, FunctionTool, Stage

from kestrel_nb.protocol.messages import ToolCallPart
from kestrel_nb.runtime.call_data import LARGE, is_large, json_data
from kestrel_nb.runtime.tool_calls import STOPPED_INSIDE
from kestrel_nb.runtime.tools import ToolExecutionResult
from kestrel_nb.testing import Reply, ScriptedModel


class Shown:
    """A value of a tool's own; its text is its JSON."""

    def __init__(self, go_on: threading.Event | None = None) -> None:
        self.looked = threading.Event()
        self.thread: threading.Thread | None = None
        self._go_on = go_on

    def __str__(self) -> str:
        self.thread = threading.current_thread()
        self.looked.set()
        if self._go_on:
            assert self._go_on.wait(20)
        return "shown"


def giving(data: Any) -> AsyncFunctionTool:
    async def run(args: Any, context: Any) -> ToolExecutionResult:
        return ToolExecutionResult(content="made", data=data)

    return AsyncFunctionTool("give", run)


@pytest.mark.parametrize("count", [3, LARGE])
async def test_only_large_data_leaves_the_thread_of_the_loop(count: int) -> None:
    shown = Shown()
    stage = Stage(ScriptedModel([Reply(tool_calls=[("give", {})]), "done"]), [giving([shown, *range(count)])])
    await stage.ask()
    assert stage.of("tool.executed")[0].data == ["shown", *range(count)]
    assert (shown.thread is threading.current_thread()) == (count < LARGE)
    assert stage.types().index("tool.started") < stage.types().index("tool.executed")
    stage.check()


async def test_a_caller_that_goes_meanwhile_hears_that_the_tool_ran() -> None:
    go_on = threading.Event()
    shown = Shown(go_on)
    stage = Stage(ScriptedModel(["done"]), [giving([shown, *range(LARGE)])])
    call = ToolCallPart(id="c", name="give", arguments={}, raw_arguments="{}")
    task = asyncio.ensure_future(stage.session.use_tool(call))
    assert await asyncio.to_thread(shown.looked.wait, 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    endings = [event for event in stage.events if event.type in ("tool.executed", "tool.failed", "tool.skipped")]
    assert [event.reason for event in endings] == [STOPPED_INSIDE]


async def test_a_stopped_run_does_not_wait_for_data() -> None:
    go_on = threading.Event()
    shown = Shown(go_on)
    stage = Stage(ScriptedModel([Reply(tool_calls=[("give", {})]), "done"]), [giving([shown, *range(LARGE)])])
    run = stage.session.start("go")
    assert await asyncio.to_thread(shown.looked.wait, 20)
    assert stage.session.cancel()
    assert (await run).status == "cancelled"
    go_on.set()
    executed = stage.of("tool.executed")[0]
    assert (executed.content, executed.data) == ("made", None)
    assert [event.code for event in stage.of("notice")] == ["data_dropped"]
    stage.check()


async def test_what_a_failed_frame_raises_is_told_as_ever() -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("broken")

    stage = Stage(ScriptedModel([Reply(tool_calls=[("give", {})]), "done"]), [giving([Broken(), *range(LARGE)])])
    await stage.ask()
    assert stage.of("tool.executed")[0].data is None
    assert [event.code for event in stage.of("notice")] == ["data_dropped"]


async def test_a_thread_tool_gives_large_data_too() -> None:
    tool = FunctionTool("give", lambda args, context: ToolExecutionResult(content="made", data={"x": "y" * 10**6}))
    stage = Stage(ScriptedModel([Reply(tool_calls=[("give", {})]), "done"]), [tool])
    await stage.ask()
    assert stage.of("tool.executed")[0].data == {"x": "y" * 10**6}


@pytest.mark.parametrize(
    ("value", "large"),
    [
        (None, False),
        ("x" * 1_000, False),
        ("x" * 1_000_000, True),
        (list(range(LARGE)), True),
        ([[0] * 50 for _ in range(LARGE // 40)], True),
        ({str(key): {} for key in range(LARGE)}, True),
        ({"rows": [{"a": 1, "b": "x"}] * 100}, False),
        ([["x" * 30_000] * 20], True),
    ],
)
def test_what_is_large(value: Any, large: bool) -> None:
    assert is_large(value) is large


def test_a_frame_is_as_large_as_its_cells() -> None:
    pandas = pytest.importorskip("pandas")
    assert is_large(pandas.DataFrame({"a": range(LARGE)}))
    assert not is_large(pandas.DataFrame({"a": [1], "b": [2]}))


def test_objects_that_answer_oddly_are_not_large() -> None:
    class Odd:
        def __init__(self, shape: Any) -> None:
            self._shape = shape

        @property
        def shape(self) -> Any:
            if isinstance(self._shape, Exception):
                raise self._shape
            return self._shape

    odd = (RuntimeError("no"), "square", (None, 3), (float("nan"), 10**9), [LARGE], 10**9)
    assert not any(is_large([Odd(shape)]) for shape in odd)
    assert is_large(Odd((LARGE, 1)))


def test_keys_that_become_alike_are_all_kept() -> None:
    lone = ("\ud800", "\ud801")
    data = json_data({lone[0]: 1, lone[1]: [{lone[0]: 2}], "\ufffd": 3})
    assert data.value == {"\ufffd": 1, "\ufffd (2)": [{"\ufffd": 2}], "\ufffd (3)": 3}
