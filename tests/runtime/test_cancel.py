"""Cancelling: in every phase the run ends as cancelled within a second, and the session goes on."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from typing import Any

import pytest
from stage import AsyncFunctionTool, FunctionTool, Stage, results

from kestrel_nb.protocol.errors import CancelledByUser, ModelRequestError
from kestrel_nb.protocol.messages import ToolCallPart
from kestrel_nb.protocol.tools import TextPreview
from kestrel_nb.runtime.retry import RetryOptions
from kestrel_nb.runtime.signals import CancelSignal, SelfCancelled, WorkExited, until_cancelled
from kestrel_nb.testing import Reply, ScriptedModel

CALL = Reply(tool_calls=[("work", {"x": 1}), ("work", {"x": 2})])


async def never(*_: Any) -> Any:
    await asyncio.sleep(3600)


async def cancelled_within_a_second(stage: Stage, run: Any, *, spare: float = 1.0) -> None:
    began = time.monotonic()
    assert stage.session.cancel()
    assert not stage.session.cancel()
    result = await run
    assert result.status == "cancelled"
    assert time.monotonic() - began < 1.0 + spare  # the machine may be busy
    assert stage.types()[-2:] == ["run.completed", "session.updated"]
    assert not stage.session.is_running
    stage.check()
    stage.model._replies = [*stage.model._replies[: stage.model._played], "still here"]
    assert (await stage.ask("next")).text == "still here"
    stage.check()


async def test_before_the_first_token() -> None:
    stage = Stage(ScriptedModel([Reply("late", before=3600)]))
    run = stage.session.start("go")
    await stage.until("step.started")
    await cancelled_within_a_second(stage, run)


async def test_before_anything_at_all() -> None:
    stage = Stage(ScriptedModel(["x"]))
    run = stage.session.start("go")
    await cancelled_within_a_second(stage, run)
    assert not stage.model.requests[1:]


async def test_while_the_plugins_start() -> None:
    ready = asyncio.Event()

    async def wait() -> None:
        await ready.wait()

    stage = Stage(ScriptedModel(["x"]), ready=wait)
    run = stage.session.start("go")
    await asyncio.sleep(0.01)
    stage.session.cancel()
    assert (await run).status == "cancelled"
    ready.set()
    assert (await stage.ask()).text == "x"
    stage.check()


async def test_in_the_middle_of_the_stream() -> None:
    stage = Stage(ScriptedModel([Reply("a" * 400, delay=0.05)]))
    run = stage.session.start("go")
    await stage.until("message.delta", 3)
    await cancelled_within_a_second(stage, run)


class Deaf:
    """A model that does not listen: it swallows its cancellation."""

    def __init__(self) -> None:
        self.info = ScriptedModel([]).info
        self.done = asyncio.Event()

    async def generate(self, request: Any, on_delta: Any = None) -> Any:
        while not self.done.is_set():
            with suppress(asyncio.CancelledError):
                await self.done.wait()
        raise ModelRequestError("ended at last")


async def test_a_model_that_swallows_its_cancellation() -> None:
    model = Deaf()
    stage = Stage(model)
    run = stage.session.start("go")
    await stage.until("step.started")
    stage.session.cancel()
    async with asyncio.timeout(2):
        assert (await run).status == "cancelled"
    model.done.set()
    await asyncio.sleep(0.01)
    stage.check()


async def test_d01_during_an_asynchronous_tool() -> None:
    stage = Stage(ScriptedModel([CALL, "x"]), [AsyncFunctionTool("work", never)])
    run = stage.session.start("go")
    await stage.until("tool.started")
    await cancelled_within_a_second(stage, run)
    first, second = results(stage.session.messages)
    assert first.startswith("cancelled: the run was stopped while this call was running")
    assert second == "not run: the run was stopped"
    assert [event.cause for event in stage.of("tool.skipped")] == ["cancelled"] * 2


async def test_during_a_thread_that_never_ends() -> None:
    release = threading.Event()
    stage = Stage(ScriptedModel([CALL, "x"]), [FunctionTool("work", lambda *_: release.wait() and "too late")])
    run = stage.session.start("go")
    await stage.until("tool.started")
    await cancelled_within_a_second(stage, run)
    assert [event.code for event in stage.of("notice")] == ["tool_still_running"]
    count = len(stage.events)
    release.set()
    await asyncio.sleep(0.05)
    assert len(stage.events) == count


async def test_a_thread_that_listens_is_not_said_to_run_on() -> None:
    def work(args: Any, context: Any) -> str:
        while True:
            time.sleep(0.01)
            context.signal.raise_if_cancelled()

    stage = Stage(ScriptedModel([CALL, "x"]), [FunctionTool("work", work)])
    run = stage.session.start("go")
    await stage.until("tool.started")
    await cancelled_within_a_second(stage, run)
    assert not stage.of("notice")


async def test_a_tool_that_swallows_its_cancellation() -> None:
    done = asyncio.Event()

    async def work(*_: Any) -> str:
        while not done.is_set():
            with suppress(asyncio.CancelledError):
                await done.wait()
        return "too late"

    stage = Stage(ScriptedModel([CALL, "x"]), [AsyncFunctionTool("work", work)])
    run = stage.session.start("go")
    await stage.until("tool.started")
    await cancelled_within_a_second(stage, run)
    assert [event.code for event in stage.of("notice")] == ["tool_still_running"]
    done.set()


async def test_during_a_parallel_batch() -> None:
    async def work(args: Any, context: Any) -> str:
        if args["x"] == 1:
            await never()
        return "quick"

    stage = Stage(ScriptedModel([CALL, "x"]), [AsyncFunctionTool("work", work, parallel_safe=True)])
    run = stage.session.start("go")
    await stage.until("tool.executed")
    await cancelled_within_a_second(stage, run)
    assert results(stage.session.messages)[1] == "quick"


class Previewing(FunctionTool):
    def preview(self, args: Any, context: Any) -> Any:
        entered.set()
        time.sleep(30)
        return TextPreview(title="", text="")


entered = threading.Event()


async def test_during_a_preview() -> None:
    stage = Stage(ScriptedModel([CALL, "x"]), [Previewing("work", lambda *_: "ran", permission="ask")])
    run = stage.session.start("go")
    await asyncio.to_thread(entered.wait, 10)
    await cancelled_within_a_second(stage, run)
    assert not stage.of("approval.requested")
    assert not stage.of("tool.started")


async def test_e05_while_a_question_waits() -> None:
    stage = Stage(ScriptedModel([CALL, "x"]), [FunctionTool("work", lambda *_: "ran", permission="ask")])
    run = stage.session.start("go")
    await stage.question()
    await cancelled_within_a_second(stage, run)
    assert stage.of("approval.resolved")[0].answered_by == "cancel"
    assert not stage.manager.approvals.pending()
    assert not stage.of("tool.started")


async def test_while_it_waits_to_try_again() -> None:
    slow = RetryOptions(attempts=3, base_delay_ms=60_000, max_delay_ms=60_000)
    stage = Stage(ScriptedModel([Reply(error=ModelRequestError("busy", retryable=True)), "x"]), retry=slow)
    run = stage.session.start("go")
    await stage.until("notice")
    await cancelled_within_a_second(stage, run)


async def test_from_another_thread() -> None:
    stage = Stage(ScriptedModel([Reply("x", before=3600)]))
    run = stage.session.start("go")
    await stage.until("step.started")
    threading.Thread(target=stage.session.cancel).start()
    async with asyncio.timeout(5):
        assert (await run).status == "cancelled"


async def test_cancelling_nothing() -> None:
    stage = Stage(ScriptedModel(["x"]))
    assert not stage.session.cancel()
    await stage.ask()
    assert not stage.session.cancel()


async def test_who_stops_waiting_does_not_stop_the_run() -> None:
    stage = Stage(ScriptedModel([Reply("done", before=0.3)]))
    run = stage.session.start("go")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(run.done, 0.05)
    waiting = asyncio.ensure_future(_awaited(run))
    await asyncio.sleep(0)
    waiting.cancel()
    assert stage.session.is_running
    assert (await run).text == "done"


async def _awaited(run: Any) -> Any:
    return await run


@pytest.mark.parametrize("phase", ["model", "tool", "batch", "question"])
def test_a_loop_that_closes_leaves_a_valid_session(phase: str) -> None:
    async def work(args: Any, context: Any) -> str:
        if phase == "batch" and args["x"] == 2:
            return "quick"
        return str(await never())

    tools = [
        AsyncFunctionTool(
            "work", work, permission="ask" if phase == "question" else "auto", parallel_safe=phase == "batch"
        )
    ]
    replies = [Reply("x", before=3600)] if phase == "model" else [CALL]
    event = {"model": "step.started", "tool": "tool.started", "batch": "tool.executed"}.get(phase, "approval.requested")

    async def main() -> Stage:
        stage = Stage(ScriptedModel(replies), tools)
        stage.session.start("go")
        await stage.until(event)
        return stage

    stage = asyncio.run(main())
    stage.check()
    assert stage.of("run.completed")[0].status == "cancelled"
    stored = asyncio.run(stage.manager._store.load(stage.session.id))
    assert stored is not None
    assert stored.messages == stage.session.messages
    assert stored.pending == ()
    if phase == "batch":
        assert results(stage.session.messages)[1] == "quick"
    stage.model._replies = [*stage.model._replies[: stage.model._played], "again"]

    async def again() -> None:
        assert (await stage.ask("again")).text == "again"

    asyncio.run(again())
    stage.check()


async def test_a_direct_call_whose_caller_is_cancelled_ends_too() -> None:
    stage = Stage(ScriptedModel([]), [AsyncFunctionTool("work", never)])
    call = ToolCallPart(id="c", name="work", arguments={}, raw_arguments="{}")
    task = asyncio.create_task(stage.session.use_tool(call))
    await stage.until("tool.started")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(stage.of("tool.skipped")) == 1
    assert stage.session.detail().started == ()


# ---- the signal itself ------------------------------------------------------------------------------------------


async def test_work_is_not_begun_once_the_signal_was_cancelled() -> None:
    signal, ran = CancelSignal(), []

    async def work() -> None:
        ran.append(1)

    signal.cancel("over")
    with pytest.raises(CancelledByUser, match="over"):
        await until_cancelled(work(), signal)
    assert not ran


async def test_what_work_raises() -> None:
    async def exits() -> None:
        raise SystemExit(1)

    async def cancels() -> None:
        raise asyncio.CancelledError

    with pytest.raises(WorkExited):
        await until_cancelled(exits(), CancelSignal())
    with pytest.raises(SelfCancelled):
        await until_cancelled(cancels(), CancelSignal())


def test_a_callback_that_fails_does_not_silence_the_others() -> None:
    signal, heard = CancelSignal(), []
    signal.on_cancel(lambda: 1 / 0)
    signal.on_cancel(lambda: heard.append("second"))
    dispose = signal.on_cancel(lambda: heard.append("disposed"))
    dispose()
    dispose()
    assert signal.cancel("why")
    signal.on_cancel(lambda: heard.append("late"))
    assert (heard, signal.reason, signal.cancel()) == (["second", "late"], "why", False)


async def test_cancelling_from_many_threads_counts_once() -> None:
    signal = CancelSignal()
    waiting = asyncio.ensure_future(signal.wait())
    wins = await asyncio.gather(*(asyncio.to_thread(signal.cancel) for _ in range(20)))
    await waiting
    assert sum(wins) == 1
