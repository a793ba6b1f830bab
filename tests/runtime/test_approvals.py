"""Approvals: one answer, one execution, of exactly the call that was shown."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from stage import AsyncFunctionTool, FunctionTool, Stage, results

from kestrel_nb.protocol.errors import ApprovalError, DuplicateNameError
from kestrel_nb.protocol.sessions import ApprovalDecision, PermissionRule, fingerprint
from kestrel_nb.protocol.tools import TextPreview
from kestrel_nb.runtime.approvals import ApprovalBroker
from kestrel_nb.testing import Reply, ScriptedModel

DATA = Path(__file__).parent.parent / "data" / "approvals"
ROWS = [json.loads(line) for line in (DATA / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
EXCLUDED = json.loads((DATA / "excluded.json").read_text(encoding="utf-8"))

YES, NO = ApprovalDecision(approved=True), ApprovalDecision(approved=False)


class Asking:
    """A stage whose model asks for one call that needs a person, and how often the tool ran, with what."""

    def __init__(self, arguments: Any = None, *, replies: Any = None, tools: Any = (), **options: Any) -> None:
        self.ran: list[Any] = []
        self.tool = FunctionTool("act", self._act, permission="ask")
        replies = replies or [Reply(tool_calls=[("act", arguments or {"x": 1})]), "done", "more"]
        self.stage = Stage(ScriptedModel(replies), [self.tool, *tools], **options)
        self.broker = self.stage.manager.approvals

    def _act(self, args: Any, context: Any) -> str:
        self.ran.append(dict(args))
        return "acted"

    async def start(self) -> Any:
        self.run = self.stage.session.start("go")
        return await self.stage.question()

    async def end(self, *, status: str = "completed") -> str:
        assert (await self.run).status == status
        self.stage.check()
        assert len(self.stage.of("approval.requested")) == len(self.stage.of("approval.resolved"))
        assert not self.stage.session.pending
        assert not self.broker.pending()
        return results(self.stage.session.messages)[0]


def test_every_row_is_run_or_named_as_run_elsewhere() -> None:
    here = set(re.findall(r"def test_(o\d+)", Path(__file__).read_text(encoding="utf-8")))
    run = {row["id"] for row in ROWS if row["id"].split("-")[1].lower() in here}
    assert run | set(EXCLUDED) == {row["id"] for row in ROWS}
    assert not run & set(EXCLUDED)


async def test_approve() -> None:
    asking = Asking()
    request = await asking.start()
    assert request.fingerprint == fingerprint(asking.stage.session.id, request.call_id, "act", {"x": 1})
    assert request.reason == "`act` always asks (the tool's default)"
    assert [pending.id for pending in asking.broker.pending()] == [request.id]
    assert asking.stage.session.summary().pending_approvals == 1
    record = asking.broker.resolve(request.id, YES, answered_by="button")
    assert await asking.end() == "acted"
    assert asking.broker.history() == [record] == list(asking.stage.session.approvals)
    assert asking.stage.of("approval.resolved")[0].answered_by == "button"


async def test_o041_decline_is_no_error_and_the_run_goes_on() -> None:
    asking = Asking()
    request = await asking.start()
    asking.broker.resolve(request.id, ApprovalDecision(approved=False, reason="too early \ud800"))
    assert await asking.end() == "declined: the user declined this call. Reason: too early �"
    assert not asking.stage.session.messages[2].tool_results[0].is_error
    assert asking.stage.of("tool.skipped")[0].cause == "declined"
    assert not asking.ran


async def test_o031_e01_twenty_answers_at_once_run_it_once() -> None:
    asking = Asking()
    request = await asking.start()
    barrier = threading.Barrier(20)

    def answer(number: int) -> str:
        barrier.wait()
        try:
            asking.broker.resolve(request.id, YES if number % 2 else NO)
        except ApprovalError as error:
            return error.code
        return "won"

    with ThreadPoolExecutor(20) as pool:
        loop = asyncio.get_running_loop()
        codes = await asyncio.gather(*(loop.run_in_executor(pool, answer, number) for number in range(20)))
    await asking.end()
    assert sorted(codes) == ["approval_closed"] * 19 + ["won"]
    assert len(asking.ran) == asking.broker.history()[0].decision.approved


async def test_o032_deny_then_approve() -> None:
    asking = Asking()
    request = await asking.start()
    asking.broker.resolve(request.id, NO)
    with pytest.raises(ApprovalError, match="already declined") as caught:
        asking.broker.resolve(request.id, YES)
    assert caught.value.code == "approval_closed"
    await asking.end()
    assert not asking.ran


async def test_o033_e04_approve_after_the_time_ran_out() -> None:
    asking = Asking(approvals=ApprovalBroker(timeout_s=0.3))
    request = await asking.start()
    text = await asking.end()
    assert text == "not run: nobody answered the question in time (no answer within 1 second)"
    resolved = asking.stage.of("approval.resolved")[0]
    assert (resolved.answered_by, resolved.decision.reason) == ("timeout", "no answer within 1 second")
    with pytest.raises(ApprovalError, match="already declined"):
        asking.broker.resolve(request.id, YES)
    assert not asking.ran


async def test_o033_an_answer_that_comes_before_the_clock_is_looked_at() -> None:
    asking = Asking(approvals=ApprovalBroker(timeout_s=0.05))
    request = await asking.start()
    while time.time() < request.expires_at:  # the loop is kept busy: nothing else can close it
        pass
    with pytest.raises(ApprovalError):
        asking.broker.resolve(request.id, YES)
    await asking.end()
    assert not asking.ran


async def test_o034_e05_approve_after_cancel() -> None:
    asking = Asking()
    request = await asking.start()
    assert asking.stage.session.cancel()
    text = await asking.end(status="cancelled")
    assert "the run was stopped" in text
    with pytest.raises(ApprovalError):
        asking.broker.resolve(request.id, YES)
    assert not asking.stage.session.is_running
    assert (await asking.stage.ask("next")).text == "done"
    assert not asking.ran


async def test_o034_approved_and_cancelled_in_one_instant() -> None:
    asking = Asking()
    request = await asking.start()
    asking.broker.resolve(request.id, YES)
    asking.stage.session.cancel()
    await asking.end(status="cancelled")
    assert not asking.ran


async def test_o030_arguments_that_change_after_they_were_shown() -> None:
    inner = {"deep": ["rm build"]}
    model = ScriptedModel([Reply(tool_calls=[("do", {"what": inner})]), "done"])
    ran: list[Any] = []
    tool = FunctionTool("do", lambda args, _: ran.append(args) or "ok", permission="ask", parameters={"type": "object"})
    stage = Stage(model, [tool])
    run = stage.session.start("go")
    request = await stage.question()
    shown = json.dumps(request.arguments)
    call = stage.session.messages[1].tool_calls[0]
    call.arguments["what"]["deep"][0] = "rm -rf /"  # type: ignore[index]
    request.arguments["what"]["deep"].append("and more")
    stage.manager.approvals.resolve(request.id, YES)
    await run
    assert json.dumps(ran[0]) == shown
    assert fingerprint(stage.session.id, call.id, "do", ran[0]) == request.fingerprint


async def test_o042_the_tool_that_was_shown_is_the_one_that_runs() -> None:
    asking = Asking()
    other = FunctionTool("act", lambda *_: "the other")
    request = await asking.start()
    with pytest.raises(DuplicateNameError):
        asking.stage.tools.register(other)
    asking.stage.tools.register(other, replace=True)
    asking.broker.resolve(request.id, YES)
    assert await asking.end() == "acted"
    assert asking.ran == [{"x": 1}]


async def test_o045_ids_can_not_be_guessed() -> None:
    ids = {(await Asking().start()).id for _ in range(5)}
    assert len(ids) == 5
    assert all(re.fullmatch("appr_[0-9a-f]{24}", id) for id in ids)


@pytest.mark.parametrize("id", ["", "nope", "appr_", "../x", "\ud800", "x" * 10_000])
async def test_a_wrong_id_names_what_waits(id: str) -> None:
    asking = Asking()
    request = await asking.start()
    with pytest.raises(ApprovalError, match=f"waiting: {request.id}") as caught:
        asking.broker.resolve(id, YES)
    assert caught.value.code == "approval_not_found"
    assert len(str(caught.value)) < 400
    asking.broker.resolve(request.id, NO)
    await asking.end()


@pytest.mark.parametrize("value", ["yes", 1, None, "false", [True]])
def test_only_true_approves(value: Any) -> None:
    with pytest.raises(ValueError, match="True or False"):
        ApprovalDecision(approved=value)


@pytest.mark.parametrize("decision", [True, "yes", None, {"approved": True}])
async def test_an_answer_must_be_a_decision(decision: Any) -> None:
    asking = Asking()
    request = await asking.start()
    with pytest.raises(ApprovalError):
        asking.broker.resolve(request.id, decision)
    asking.broker.resolve(request.id, NO)
    await asking.end()
    assert not asking.ran


# ---- edited arguments -------------------------------------------------------------------------------------------


async def test_edited_arguments_run_and_the_model_is_told() -> None:
    asking = Asking()
    request = await asking.start()
    edited = {"x": 7}
    asking.broker.resolve(request.id, ApprovalDecision(approved=True, arguments=edited))
    edited["x"] = 8  # too late
    text = await asking.end()
    assert asking.ran == [{"x": 7}]
    assert text == 'A person changed the arguments before approving. It ran with: {"x":7}\nacted'
    assert asking.stage.of("tool.started")[0].arguments == {"x": 7}


@pytest.mark.parametrize("arguments", [{"x": "text"}, {"y": 1}, {"x": None}, [], "x"])
async def test_edited_arguments_that_do_not_fit_leave_the_question_open(arguments: Any) -> None:
    asking = Asking()
    request = await asking.start()
    with pytest.raises(ApprovalError) as caught:
        asking.broker.resolve(request.id, ApprovalDecision(approved=True, arguments=arguments))
    assert caught.value.code == "invalid_arguments"
    assert [pending.id for pending in asking.broker.pending()] == [request.id]
    asking.broker.resolve(request.id, YES)
    await asking.end()
    assert asking.ran == [{"x": 1}]


DENY_ETC = PermissionRule(tool="read", action="deny", match="/etc/*")
PATH = {"type": "object", "properties": {"path": {"type": "string"}}}


async def test_edited_arguments_that_a_rule_denies() -> None:
    tool = FunctionTool("read", lambda args, _: args["path"], permission="ask", parameters=PATH)
    stage = Stage(ScriptedModel([Reply(tool_calls=[("read", {"path": "a"})]), "done"]), [tool], rules=(DENY_ETC,))
    run = stage.session.start("go")
    request = await stage.question()
    edited = ApprovalDecision(approved=True, arguments={"path": "/etc/passwd"})
    with pytest.raises(ApprovalError, match="deny"):
        stage.manager.approvals.resolve(request.id, edited)
    stage.manager.approvals.resolve(request.id, YES)
    await run
    assert results(stage.session.messages) == ["a"]


async def test_a_rule_that_denies_and_came_while_the_question_waited() -> None:
    asking = Asking()
    request = await asking.start()
    asking.stage.manager.add_rule(PermissionRule(tool="act", action="deny"))
    asking.broker.resolve(request.id, YES)
    assert (await asking.end()).startswith("not run: ")
    assert not asking.ran


async def test_arguments_of_a_decline_mean_nothing() -> None:
    asking = Asking()
    request = await asking.start()
    asking.broker.resolve(request.id, ApprovalDecision(approved=False, arguments={"x": "wrong"}))
    assert "declined" in await asking.end()


async def test_remember_for_the_session() -> None:
    calls = Reply(tool_calls=[("act", {"x": 1})])
    asking = Asking(replies=[calls, "one", calls, "two", calls, "three"])
    request = await asking.start()
    asking.broker.resolve(request.id, ApprovalDecision(approved=True, remember="session"))
    await asking.end()
    await asking.stage.ask()
    assert len(asking.ran) == 2
    assert asking.stage.session.detail().rules == (PermissionRule(tool="act", action="auto", scope="session"),)
    asking.stage.session.reset()
    run = asking.stage.session.start("again")
    again = await asking.stage.question(2)
    asking.broker.resolve(again.id, NO)
    await run
    assert len(asking.ran) == 2


async def test_declining_remembers_nothing() -> None:
    asking = Asking()
    request = await asking.start()
    asking.broker.resolve(request.id, ApprovalDecision(approved=False, remember="session"))
    await asking.end()
    assert asking.stage.session.detail().rules == ()


# ---- handlers and resolvers -------------------------------------------------------------------------------------

ANSWERS = [True, YES, False, None, NO, "yes", 1, RuntimeError("no"), SystemExit(), object()]


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("answer", ANSWERS, ids=repr)
async def test_o040_a_handler_approves_with_true_only(kind: str, answer: Any) -> None:
    def handle(request: Any, signal: Any) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def handle_later(request: Any, signal: Any) -> Any:
        await asyncio.sleep(0)
        return handle(request, signal)

    asking = Asking(approve=handle if kind == "sync" else handle_later)
    await asking.start()
    text = await asking.end()
    approved = answer is True or answer is YES
    assert bool(asking.ran) is approved
    assert approved or text.startswith("declined")


async def test_somebody_is_quicker_than_a_handler_that_never_answers() -> None:
    ended = asyncio.Event()

    async def handle(request: Any, signal: Any) -> bool:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()
        return True

    asking = Asking(approve=handle)
    request = await asking.start()
    asking.broker.resolve(request.id, NO)
    await asking.end()
    async with asyncio.timeout(5):
        await ended.wait()
    assert asking.broker.history()[-1].decision == NO


async def test_a_handler_that_edits_badly_declines() -> None:
    edit = ApprovalDecision(approved=True, arguments={"x": "text"})
    asking = Asking(approve=lambda request, signal: edit)
    await asking.start()
    assert (await asking.end()).startswith("declined")
    assert not asking.ran


async def test_a_listener_may_answer() -> None:
    asking = Asking()

    def answer(event: Any) -> None:
        if event.type == "approval.requested":
            asking.broker.resolve(event.request.id, YES)

    asking.stage.session.subscribe(answer)
    await asking.start()
    assert await asking.end() == "acted"


async def test_o038_a_resolver_that_raises_means_deny() -> None:
    def resolver(tool: Any, call: Any, session: Any) -> Any:
        raise RuntimeError("no policy")

    asking = Asking(resolve_permission=resolver)
    await asking.stage.ask()
    assert results(asking.stage.session.messages) == ["not run: the permission resolver failed (RuntimeError)"]
    assert not asking.ran


async def test_o039_a_slow_resolver_and_a_cancel_meanwhile() -> None:
    asked = asyncio.Event()

    async def resolver(tool: Any, call: Any, session: Any) -> Any:
        asked.set()
        await asyncio.sleep(3600)
        return "auto"

    asking = Asking(resolve_permission=resolver)
    asking.run = asking.stage.session.start("go")
    await asked.wait()
    asking.stage.session.cancel()
    async with asyncio.timeout(2):
        await asking.end(status="cancelled")
    assert not asking.ran


async def test_e07_a_decline_holds_whatever_the_resolver_says_next() -> None:
    answers = iter(["ask"])
    asking = Asking(resolve_permission=lambda *_: next(answers, "auto"))
    request = await asking.start()
    asking.broker.resolve(request.id, NO)
    assert (await asking.end()).startswith("declined")
    assert not asking.ran


async def test_o044_a_policy_answers_at_once_and_says_who() -> None:
    asking = Asking()

    def policy(event: Any) -> None:
        if event.type == "approval.requested":
            decision = ApprovalDecision(approved=False, reason="nobody is here")
            asking.broker.resolve(event.request.id, decision, answered_by="policy")

    asking.stage.manager.subscribe(policy)
    await asking.start()
    text = await asking.end()
    assert text == "declined: the policy for runs without a person (nobody is here) declined this call."


# ---- previews ---------------------------------------------------------------------------------------------------


class Previewing(FunctionTool):
    def __init__(self, preview: Any) -> None:
        super().__init__("act", lambda args, context: f"saw {context.preview and context.preview.text}")
        self.schema = FunctionTool("act", lambda *_: "", permission="ask").schema
        self._preview = preview

    def preview(self, args: Any, context: Any) -> Any:
        return self._preview(args)


async def test_a_preview_is_shown_and_given_to_the_tool() -> None:
    def preview(args: Any) -> Any:
        args["x"] = 99  # changes nothing
        return TextPreview(title="t", text="what it does")

    stage = Stage(ScriptedModel([Reply(tool_calls=[("act", {"x": 1})]), "done"]), [Previewing(preview)])
    run = stage.session.start("go")
    request = await stage.question()
    assert (request.preview.text, request.arguments) == ("what it does", {"x": 1})  # type: ignore[union-attr]
    stage.manager.approvals.resolve(request.id, YES)
    await run
    assert results(stage.session.messages) == ["saw what it does"]


async def test_a_preview_of_a_coroutine() -> None:
    async def later() -> TextPreview:
        return TextPreview(title="t", text="later")

    stage = Stage(ScriptedModel([Reply(tool_calls=[("act", {})]), "done"]), [Previewing(lambda _: later())])
    stage.session.start("go")
    assert (await stage.question()).preview.text == "later"  # type: ignore[union-attr]
    stage.session.cancel()
    await stage.session.ended()


@pytest.mark.parametrize("problem", [ValueError("no such file"), SystemExit(), BaseException("x"), "no preview", 3])
async def test_nobody_is_asked_about_a_call_whose_preview_fails(problem: Any) -> None:
    def preview(args: Any) -> Any:
        if isinstance(problem, BaseException):
            raise problem
        return problem

    stage = Stage(ScriptedModel([Reply(tool_calls=[("act", {})]), "done"]), [Previewing(preview)])
    assert (await stage.ask()).status == "completed"
    assert stage.types().count("tool.failed") == 1
    assert not stage.of("approval.requested")
    stage.check()


# ---- many at once -----------------------------------------------------------------------------------------------


async def test_questions_of_a_parallel_batch_wait_together() -> None:
    tool = AsyncFunctionTool("both", _both, permission="ask", parallel_safe=True)
    stage = Stage(ScriptedModel([Reply(tool_calls=[("both", {"x": 1}), ("both", {"x": 2})]), "done"]), [tool])
    run = stage.session.start("go")
    first, second = await stage.question(1), await stage.question(2)
    broker = stage.manager.approvals
    broker.resolve(second.id, YES)
    await stage.until("tool.executed")
    assert [request.id for request in stage.session.pending] == [first.id]
    broker.resolve(first.id, NO)
    await run
    assert results(stage.session.messages) == ["declined: the user declined this call.", "2"]
    stage.check()


async def _both(args: Any, context: Any) -> str:
    return str(args["x"])
