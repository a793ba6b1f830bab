"""``%kestrel fix`` and ``%kestrel explain`` in a real kernel: what is sent, what is asked, what is put below."""

from collections.abc import Iterator
from typing import Any

import pytest
from front_end import RunPage
from harness import Kernel, Outcome, running_kernel
from sample_cells import LOAD

TYPO = "prices = [2, 3]\nsum(pricse)"
FIXED = "prices = [2, 3]\nsum(prices)"
SCRIPTED = """from kestrel_nb import Kestrel
from kestrel_nb.testing import Reply, ScriptedModel
def proposing(*codes):
    global model, app
    calls = [("insert_cell", {"code": code}) for code in codes]
    model = ScriptedModel([Reply("So:", tool_calls=[call]) for call in calls] + ["Done."])
    app = Kestrel(model=model)
def asked():
    return [m.content for m in model.requests[0].messages if m.role == "user"][-1]"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """One kernel for all."""
    with running_kernel(tmp_path_factory.mktemp("fix")) as running:
        running.ok(LOAD, 60)
        running.ok(SCRIPTED, 60)
        yield running


def plain(outcome: Outcome) -> str:
    """The record as text."""
    return str(outcome.displayed[0]["text/plain"])


def payloads(outcome: Outcome) -> list[Any]:
    """The cells that the front end is told to put below."""
    return [item["text"] for item in outcome.reply["payload"] if item["source"] == "set_next_input"]


def propose(kernel: Kernel, *codes: str, line: str = "%kestrel fix") -> Outcome:
    """Fix with a model that proposes ``codes``, everything approved on the card."""
    kernel.ok(f"proposing(*{codes!r})")
    kernel.ok("%kestrel use app")
    page = RunPage(kernel, line)
    seen = ""
    for _ in codes:
        card = page.card(other_than=seen)
        seen = card["id"]
        page.answer(card, True)
    return kernel.outcome(page.cell)


def test_nothing_has_failed_yet(kernel: Kernel) -> None:
    for word in ("fix", "explain"):
        outcome = kernel.run(f"%kestrel {word}")
        assert outcome.status == "error"
        assert f"no cell has failed here; run %kestrel {word} in the cell below" in outcome.text
        assert "Traceback" not in outcome.text


def test_the_demo_model_fixes_a_typo(kernel: Kernel) -> None:
    assert kernel.run(TYPO).status == "error"
    page = RunPage(kernel, "%kestrel fix")
    card = page.card()
    assert card["kind"] == "diff"
    assert card["text"].split("\n")[1:] == [" prices = [2, 3]", "-sum(pricse)", "+sum(prices)"]
    assert card["pairs"] == []
    page.answer(card, True)
    outcome = kernel.outcome(page.cell)
    assert payloads(outcome) == [FIXED]
    assert "inserted below" in plain(outcome)
    assert "What was sent: the failed cell and its traceback" in plain(outcome)


def test_nobody_inserts_where_nobody_looks(kernel: Kernel) -> None:
    kernel.run(TYPO)
    declined = kernel.run("%kestrel fix")
    assert declined.status == "ok"
    assert payloads(declined) == []
    assert "+sum(prices)" in plain(declined)
    assert "Declined by the policy" in plain(declined)
    kernel.ok("import os\nos.environ['KESTREL_HEADLESS'] = 'approve'")
    approved = kernel.run("%kestrel fix")
    kernel.ok("del os.environ['KESTREL_HEADLESS']")
    assert payloads(approved) == []
    assert "not inserted" in plain(approved)
    assert FIXED in plain(approved).replace("\n    ", "\n").replace("    prices", "prices")
    assert plain(approved) != plain(declined)


def test_what_is_sent(kernel: Kernel) -> None:
    kernel.run("rows = ['secret row']\nraise ValueError(rows[0], object())")
    propose(kernel, "x = 1", line="%kestrel fix the rows are old")
    sent = kernel.ok("print(asked())").text
    assert "My hint: the rows are old" in sent
    assert "The cell:\n```python\nrows = ['secret row']\n" in sent
    assert "ValueError: ('secret row', <object object at 0x…>)" in sent
    assert "\x1b" not in sent
    tools = kernel.ok("print([t.name for t in model.requests[0].tools])").text
    assert "insert_cell" in tools
    assert "shell" not in tools
    assert "run_python" not in tools


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("don't use pandas", "don't use pandas"),
        ('say "a  b" and \\d {df} $HOME', 'say "a  b" and \\d {df} $HOME'),
        ("why does it fail?", "why does it fail?"),
        ("--model=scripted it's old", "it's old"),
        ("-m 'scripted' -x", "-x"),
    ],
)
def test_a_hint_is_taken_as_it_was_typed(kernel: Kernel, typed: str, hint: str) -> None:
    kernel.run("1 / 0")
    kernel.ok("proposing()")
    kernel.ok("%kestrel use app")
    kernel.ok(f"%kestrel fix {typed}")
    sent = kernel.ok("print([line for line in asked().split('\\n') if 'hint' in line][0])").text
    assert sent == f"My hint: {hint}\n"


@pytest.mark.parametrize("line", ["%kestrel fix --help", "%kestrel fix -h", "%kestrel fix?", "%kestrel help fix"])
def test_a_request_for_help_is_no_hint(kernel: Kernel, line: str) -> None:
    kernel.run("1 / 0")
    assert "propose a corrected cell" in plain(kernel.ok(line))


def test_no_data_leaves_the_message_out(kernel: Kernel) -> None:
    kernel.run("word = 'row' + ' 77'\nraise ValueError(word)")
    kernel.ok("%config Kestrel.no_data = True")
    outcome = propose(kernel, "x = 1")
    kernel.ok("%config Kestrel.no_data = False")
    sent = kernel.ok("print(asked())").text
    assert "ValueError" in sent
    assert "row 77" not in sent
    assert "without the error's message" in plain(outcome)


def test_a_fence_in_the_cell_ends_nothing(kernel: Kernel) -> None:
    kernel.run("text = '''\n```\nThe traceback:\n````\n'''\nnothing_here")
    propose(kernel, "x = 1")
    assert "The cell:\n`````python\n" in kernel.ok("print(asked())").text


def test_several_proposals_go_into_one_cell(kernel: Kernel) -> None:
    kernel.run(TYPO)
    assert payloads(propose(kernel, "a = 1", "b = 2")) == ["a = 1\n\nb = 2"]


def test_a_proposed_request_is_refused(kernel: Kernel) -> None:
    kernel.run(TYPO)
    kernel.ok("proposing('%%kestrel\\ndelete everything')\n")
    kernel.ok("%kestrel use app")
    outcome = kernel.run("%kestrel fix", allow_stdin=True)
    assert payloads(outcome) == []
    assert "is for a person to write" in plain(outcome)


def test_explain_changes_nothing(kernel: Kernel) -> None:
    kernel.run("1 / 0")
    kernel.ok("%kestrel use demo")
    kernel.ok("ours = Kestrel()")
    kernel.ok("%kestrel use ours")
    outcome = kernel.run("%kestrel explain", allow_stdin=True)
    text = plain(outcome)
    assert "ZeroDivisionError" in text
    assert "something was divided by zero" in text
    assert "line 1" in text
    assert "no AI" in text
    assert "1 step" in text
    assert payloads(outcome) == []
    assert plain(kernel.run("%kestrel explain")) == text
    nowhere = kernel.run("%kestrel fix -m nope")
    assert 'no model "nope"' in nowhere.text


def test_it_is_forgotten_once_the_cell_runs(kernel: Kernel) -> None:
    kernel.run(TYPO)
    kernel.ok("pricse = [1]")
    kernel.ok(TYPO)
    assert "no cell has failed" in kernel.run("%kestrel fix").text
    kernel.run("%%kestrel -x\nhi")
    assert "no cell has failed" in kernel.run("%kestrel fix").text
    kernel.ok("del pricse")


def test_a_run_in_the_background_inserts_nothing(kernel: Kernel) -> None:
    kernel.ok("from kestrel_nb.notebook.kernel_tools import NotebookTools\nproposing('late = 1')")
    kernel.ok("app = Kestrel(model=model, plugins=[NotebookTools()])\n%kestrel use app")
    page = RunPage(kernel, "%%kestrel -b -t insert_cell\ngo")
    started = kernel.outcome(page.cell)
    assert payloads(started) == []
    card = page.card()
    assert (card["kind"], card["text"]) == ("text", "late = 1")
    busy = kernel.execute("import asyncio\nawait asyncio.sleep(1.5)")
    page.answer(card, True)
    assert payloads(kernel.outcome(busy)) == []
    done = kernel.ok("print([m.content for r in model.requests for m in r.messages if m.role == 'tool'][-1])")
    assert "not inserted" in done.text


def test_a_cell_that_failed_before_the_extension(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running_kernel(tmp_path_factory.mktemp("before")) as kernel:
        kernel.run(TYPO)
        kernel.ok(LOAD, 60)
        outcome = kernel.run("%kestrel explain")
        assert "`pricse`" in plain(outcome) or "pricse" in plain(outcome)
        kernel.ok("%unload_ext kestrel_nb")
        kernel.run("1 / 0")
        assert kernel.ok("print(get_ipython().events.callbacks['post_run_cell'])").text.count("kestrel") == 0
