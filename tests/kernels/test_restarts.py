"""Questions outlive their kernel: inbox and approve after a SIGKILL, and from a second kernel."""

import time
from pathlib import Path

import pytest
from front_end import RunPage
from harness import Kernel, running_kernel
from sample_cells import LOAD

APPEND = "%%kestrel\nrun the command `echo once >> ran.txt`"
APPEND_AND_STAY = "%%kestrel\nrun the command `echo once >> ran.txt; sleep 60`"
ANOTHER_MESSAGE = """from kestrel_nb.notebook.run_cell import run_cell
await run_cell(f"-s {name}", "list the files")"""


def lines(home: Path) -> int:
    """How often the command ran."""
    path = home / "ran.txt"
    return len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0


def wait_for_line(home: Path, limit: float = 20) -> None:
    deadline = time.monotonic() + limit
    while not lines(home) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert lines(home) == 1


def left_open(kernel: Kernel) -> str:
    """Leave a question open in a kernel that dies; the id of the question."""
    kernel.ok(LOAD, 60)
    card = RunPage(kernel, APPEND).card()
    kernel.kill()
    kernel.restart()
    kernel.ok(LOAD, 60)
    return str(card["id"])


def test_inbox_lists_it_and_approve_finishes_the_run(kernel: Kernel, tmp_path: Path) -> None:
    id = left_open(kernel)
    listed = kernel.ok("box = %kestrel inbox\nprint(box)\nprint(box.frame['approval'][0])").text
    assert "1 question waits" in listed
    assert "a1  shell echo once >> ran.txt" in listed
    assert id in listed
    outcome = kernel.ok("%kestrel approve a1")
    assert [set(data) for data in outcome.displayed] == [{"text/html", "text/markdown", "text/plain"}]
    assert "Finished" in outcome.displayed[0]["text/plain"]
    assert lines(tmp_path) == 1
    assert "Nothing waits" in kernel.ok("box = %kestrel inbox\nprint(box)").text
    again = kernel.run(f"%kestrel approve {id}")
    assert again.status == "error"
    assert "already approved" in again.text
    assert lines(tmp_path) == 1


def test_decline_after_a_restart_tells_the_model_why(kernel: Kernel, tmp_path: Path) -> None:
    id = left_open(kernel)
    outcome = kernel.ok(f'%kestrel decline {id} "not any more"')
    assert "not any more" in outcome.displayed[0]["text/plain"]
    assert lines(tmp_path) == 0


def test_a_new_message_closes_the_question(kernel: Kernel, tmp_path: Path) -> None:
    id = left_open(kernel)
    kernel.ok("sessions = %kestrel sessions\nname = sessions['session'][0]")
    outcome = kernel.ok(ANOTHER_MESSAGE)
    assert "Finished" in outcome.displayed[0]["text/plain"]
    refused = kernel.run(f"%kestrel approve {id}")
    assert refused.status == "error"
    assert lines(tmp_path) == 0


def test_a_call_that_had_begun_is_never_run_again(kernel: Kernel, tmp_path: Path) -> None:
    kernel.ok(LOAD, 60)
    page = RunPage(kernel, APPEND_AND_STAY)
    page.answer(page.card(), True)
    wait_for_line(tmp_path)
    kernel.kill()
    kernel.restart()
    kernel.ok(LOAD, 60)
    said = kernel.ok("box = %kestrel inbox\nprint(box)").text
    assert "Nothing waits" in said
    assert "interrupted, not run again: shell echo once" in said
    kernel.ok("sessions = %kestrel sessions\nname = sessions['session'][0]\nprint(sessions['interrupted'][0])")
    kernel.ok(ANOTHER_MESSAGE)
    told = kernel.ok("print([m.content for m in _.messages if m.role == 'tool'][0])").text
    assert told.startswith("interrupted")
    assert lines(tmp_path) == 1


@pytest.mark.parametrize("answer", ["approve", "decline"])
def test_a_second_notebook_answers(kernel: Kernel, tmp_path: Path, answer: str) -> None:
    kernel.ok(LOAD, 60)
    page = RunPage(kernel, APPEND)
    id = str(page.card()["id"])
    with running_kernel(tmp_path) as second:
        second.ok(LOAD, 60)
        assert id in second.ok("box = %kestrel inbox\nprint(box.frame['approval'][0])").text
        said = second.ok(f"print_ = %kestrel {answer} {id}\nprint(print_)").text
        assert "the process that works on that session takes the answer" in said
        outcome = kernel.outcome(page.cell)
    assert outcome.status == "ok"
    verdict = "Approved" if answer == "approve" else "Declined"
    assert verdict in outcome.displayed[-1]["text/plain"]
    assert lines(tmp_path) == (1 if answer == "approve" else 0)


def test_a_second_notebook_cannot_write_to_a_session_that_is_owned(kernel: Kernel, tmp_path: Path) -> None:
    kernel.ok(LOAD, 60)
    page = RunPage(kernel, APPEND.replace("%%kestrel", "%%kestrel -s shared"))
    card = page.card()
    with running_kernel(tmp_path) as second:
        second.ok(LOAD, 60)
        refused = second.run("%%kestrel -s shared\nlist the files")
        assert refused.status == "error"
        assert "works on this session" in refused.text
        assert "Traceback" not in refused.text
    page.answer(card, False)
    assert kernel.outcome(page.cell).status == "ok"
