"""``%%kestrel`` cells in a real kernel, with approvals answered by raw widget messages."""

import time
from collections.abc import Iterator

import pytest
from front_end import VIEW, RunPage
from harness import Kernel, Outcome, running_kernel
from sample_cells import AFTER, ASK, LOAD, NOTE_THEN_DONE, calling, setup

SOON = 2.0  # seconds; an answer or Interrupt must act within about one, the rest is for a busy machine
RECORD_TYPES = {"text/html", "text/markdown", "text/plain"}


def record(outcome: Outcome) -> str:
    """The plain text of the one record that a cell leaves; it has left nothing else."""
    assert [set(data) for data in outcome.displayed] == [RECORD_TYPES]
    assert outcome.text == ""
    return str(outcome.displayed[0]["text/plain"])


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """One kernel with the extension for the tests that leave it usable, which is part of what they test."""
    with running_kernel(tmp_path_factory.mktemp("shared")) as kernel:
        kernel.ok(LOAD, 60)
        yield kernel


@pytest.fixture
def loaded(shared: Kernel) -> Kernel:
    """A kernel with the extension."""
    shared.forget()
    return shared


@pytest.fixture
def ready(loaded: Kernel) -> Kernel:
    """A kernel with an app whose model asks for one note and then finishes."""
    loaded.ok(setup(*NOTE_THEN_DONE))
    return loaded


@pytest.mark.parametrize("route", ["main", "subshell"])
def test_approve(ready: Kernel, route: str) -> None:
    page = RunPage(ready, ASK, route)
    page.answer(page.card(), True)
    outcome = ready.outcome(page.cell)
    assert outcome.status == "ok"
    assert "noted alpha times 1" in record(outcome)
    assert ready.ok(AFTER).text == "after [['alpha', 1]] completed\n"


@pytest.mark.parametrize("route", ["main", "subshell"])
def test_decline_with_a_reason(ready: Kernel, route: str) -> None:
    page = RunPage(ready, ASK, route)
    page.answer(page.card(), False, reason="not today")
    outcome = ready.outcome(page.cell)
    assert outcome.status == "ok"
    assert "not today" in record(outcome)
    assert ready.ok(AFTER).text == "after [] completed\n"
    assert "not today" in ready.ok("print(said())").text


def test_a_double_click_runs_the_tool_once(ready: Kernel) -> None:
    page = RunPage(ready, ASK)
    card = page.card()
    page.answer(card, True)
    page.answer(card, True)
    page.answer(card, False)
    assert ready.outcome(page.cell).status == "ok"
    assert ready.ok("print(notes)").text == "[['alpha', 1]]\n"


def test_a_late_click_and_an_unknown_one_do_nothing(ready: Kernel) -> None:
    page = RunPage(ready, ASK)
    card = page.card()
    page.answer({"id": "ask_unknown"}, True)
    assert page.refusal() == "This question is closed."
    assert page.cards() == [card]
    page.answer(card, False)
    ready.outcome(page.cell)
    page.answer(card, True)
    assert ready.ok("print(notes)").text == "[]\n"


@pytest.mark.parametrize("not_true", [1, "true", "yes", None, [True]])
def test_only_true_approves(ready: Kernel, not_true: object) -> None:
    page = RunPage(ready, ASK)
    page.send({"type": "answer", "id": page.card()["id"], "approved": not_true})
    ready.outcome(page.cell)
    assert ready.ok("print(notes)").text == "[]\n"


def test_edited_arguments_are_validated_and_used(ready: Kernel) -> None:
    page = RunPage(ready, ASK)
    card = page.card()
    page.answer(card, True, arguments={"text": "beta", "times": "many"})
    assert "times: must be" in str(page.refusal())
    page.answer(card, True, arguments={"text": "beta", "times": 3})
    ready.outcome(page.cell)
    assert ready.ok("print(notes)").text == "[['beta', 3]]\n"
    assert "beta" in ready.ok("print(said())").text


def test_allow_for_the_session_asks_once(loaded: Kernel) -> None:
    loaded.ok(
        setup(calling("note", text="one"), calling("note", text="two"), "'Done.'", calling("note", text="3"), "''")
    )
    page = RunPage(loaded, ASK)
    page.answer(page.card(), True, remember="session")
    assert loaded.outcome(page.cell).status == "ok"
    again = RunPage(loaded, ASK)
    assert loaded.outcome(again.cell).status == "ok"
    assert loaded.ok("print(len(notes))").text == "3\n"


def test_two_questions_of_one_step_keep_their_answers_apart(loaded: Kernel) -> None:
    loaded.ok(setup("Reply(tool_calls=[('note', {'text': 'one'}), ('note', {'text': 'two'})])", "'Done.'"))
    page = RunPage(loaded, ASK)
    first = page.card()
    page.answer(first, False)
    page.answer(page.card(other_than=first["id"]), True)
    loaded.outcome(page.cell)
    assert loaded.ok("print(notes)").text == "[['two', 1]]\n"


def test_interrupt_while_a_question_is_open(ready: Kernel) -> None:
    page = RunPage(ready, ASK)
    card = page.card()
    start = time.monotonic()
    ready.interrupt()
    outcome = ready.outcome(page.cell, 5)
    assert time.monotonic() - start < SOON
    assert outcome.status == "error"
    assert "interrupt" in record(outcome)
    page.answer(card, True)
    assert ready.ok("print(1 + 1, notes)").text == "2 []\n"


@pytest.mark.parametrize("how", ["interrupt", "stop"])
def test_interrupt_and_stop_reach_a_tool_that_waits(loaded: Kernel, how: str) -> None:
    loaded.ok(setup(calling("wait", seconds=60), "'x'"))
    page = RunPage(loaded, "%%kestrel\nWait.")
    running = loaded.wait(lambda m: '"running"' in str(m["content"]).replace("'", '"') and "wait" in str(m["content"]))
    assert running, "the tool did not start"
    start = time.monotonic()
    if how == "stop":
        page.send({"type": "stop"})
    else:
        loaded.interrupt()
    outcome = loaded.outcome(page.cell, 5)
    assert time.monotonic() - start < SOON
    assert outcome.status == ("ok" if how == "stop" else "error")
    assert loaded.ok("print(_.status)").text == "cancelled\n"


def test_cells_queue_behind_a_question_and_see_its_result(ready: Kernel) -> None:
    page = RunPage(ready, ASK)
    card = page.card()
    later = ready.execute(AFTER)
    assert ready.reply(later, 0.5) is None
    page.answer(card, True)
    assert ready.outcome(page.cell).status == "ok"
    assert ready.outcome(later).text == "after [['alpha', 1]] completed\n"


def test_a_failed_run_keeps_its_record_and_aborts_what_follows(loaded: Kernel) -> None:
    loaded.ok(setup("Reply('partly', delay=1, error=RuntimeError('boom'), error_after=1)"))
    page = RunPage(loaded, ASK)
    later = loaded.execute("print('must not run')")
    outcome = loaded.outcome(page.cell)
    assert outcome.status == "error"
    assert "boom" in record(outcome)
    assert loaded.outcome(later).status == "aborted"


def test_without_a_person_there_is_a_policy_and_no_widget(ready: Kernel) -> None:
    outcome = ready.run(ASK)
    assert outcome.status == "ok"
    assert "policy" in record(outcome)
    assert not any(m["msg_type"] == "comm_open" for m in outcome.messages)
    assert ready.ok("print(notes)").text == "[]\n"


def test_stdin_asks_too_when_no_browser_draws_the_view(ready: Kernel) -> None:
    page = RunPage(ready, ASK, ready=False)
    question = ready.question(timeout=10)
    assert question is not None
    assert "note" in question
    assert "alpha" in question
    ready.answer("y")
    assert ready.outcome(page.cell).status == "ok"
    assert ready.ok("print(notes)").text == "[['alpha', 1]]\n"


def test_interrupt_while_stdin_asks_and_input_works_afterwards(ready: Kernel) -> None:
    page = RunPage(ready, ASK, ready=False)
    assert ready.question(timeout=10)
    ready.interrupt()
    assert ready.outcome(page.cell, 5).status == "error"
    cell = ready.execute("print(input('Name? '))", allow_stdin=True)
    assert ready.question() == "Name? "
    ready.answer("Ada")
    assert ready.outcome(cell).text == "Ada\n"


def test_a_restart_kills_the_card_and_a_new_run_works(kernel: Kernel) -> None:
    kernel.ok(LOAD, 60)
    kernel.ok(setup(*NOTE_THEN_DONE))
    page = RunPage(kernel, ASK)
    old = page.card()
    kernel.kill()
    kernel.restart()
    kernel.ok(LOAD, 60)
    kernel.ok(setup(*NOTE_THEN_DONE))
    again = RunPage(kernel, ASK)
    again.answer(old, True)
    assert again.refusal() == "This question is closed."
    again.answer(again.card(), True)
    assert kernel.outcome(again.cell).status == "ok"
    assert kernel.ok("print(notes)").text == "[['alpha', 1]]\n"


def test_loading_twice_and_unloading(kernel: Kernel) -> None:
    assert kernel.ok("%load_ext kestrel_nb\n%load_ext kestrel_nb\n%reload_ext kestrel_nb", 60).status == "ok"
    kernel.ok(setup(*NOTE_THEN_DONE))
    page = RunPage(kernel, "\n\n" + ASK)
    page.answer(page.card(), True)
    assert kernel.outcome(page.cell).status == "ok"
    kernel.ok("%unload_ext kestrel_nb")
    assert "not found" in str(kernel.run(ASK).text + str(kernel.run(ASK).reply))


def test_the_view_is_closed_with_its_run(ready: Kernel) -> None:
    page = RunPage(ready, ASK)
    page.answer(page.card(), True)
    outcome = ready.outcome(page.cell)
    assert any(m["msg_type"] == "comm_close" and m["content"]["comm_id"] == page.comm for m in outcome.messages)
    assert not any(VIEW in data for data in outcome.displayed)


def test_loading_and_using_in_one_cell(kernel: Kernel) -> None:
    """IPython reads the whole cell before ``%load_ext`` runs, so the line below it cannot be awaited yet."""
    kernel.ok(f"{LOAD}\nfrom kestrel_nb import Kestrel\napp = Kestrel()\n%kestrel use app", 60)
    assert "Finished" in kernel.ok(ASK).displayed[0]["text/plain"]
    outcome = kernel.run("if True:\n    %kestrel sessions")
    assert outcome.status == "error"
    assert "a cell of its own" in outcome.text
