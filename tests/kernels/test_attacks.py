"""Odd moments of ``%%kestrel`` cells in a real kernel: each ends in a clear state, and the next cell works."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from front_end import RunPage
from harness import Kernel, Outcome, parent, running_kernel
from sample_cells import ASK, HEAD, LOAD, NOTE_THEN_DONE, calling, setup

SOON = 2.0  # seconds; Interrupt must act within about one, the rest is for a busy machine
RECORD_TYPES = {"text/html", "text/markdown", "text/plain"}
LEFT = """import asyncio, threading
print(sorted(t.get_coro().__qualname__ for t in asyncio.all_tasks()), [t.name for t in threading.enumerate()])"""
MORE_TOOLS = '''
import logging, sys, warnings

@tool
def sleep_in_thread(seconds: float) -> str:
    """Sleep in a thread that hears nothing."""
    time.sleep(seconds)
    return "slept"

@tool
async def block(seconds: float) -> str:
    """Block the loop."""
    time.sleep(seconds)
    return "blocked"

@tool
def speak() -> str:
    """Print from a thread."""
    print("from the thread")
    return "spoken"

@tool
async def speak_here() -> str:
    """Print on the loop."""
    print("on the loop")
    return "spoken here"

@tool
def much_text() -> str:
    """Return 50 MB of text."""
    return "x" * 50_000_000

@tool
def much_data() -> dict:
    """Return 50 MB of data."""
    return {"k": "x" * 50_000_000}

@tool
def many_rows() -> list:
    """Return 100,000 rows."""
    return [{"a": i, "b": str(i)} for i in range(100_000)]

@tool
def long_error() -> str:
    """Raise with 5 MB of text."""
    raise ValueError("boom " * 1_000_000)

for extra in (sleep_in_thread, block, speak, speak_here, much_text, much_data, many_rows, long_error):
    app.tools.register(extra)
'''


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """One kernel for all that leave it usable, which is part of what they test."""
    with running_kernel(tmp_path_factory.mktemp("attacks")) as kernel:
        kernel.ok(LOAD, 60)
        yield kernel


@pytest.fixture
def loaded(shared: Kernel) -> Iterator[Kernel]:
    """A kernel with the extension; after the test it still works."""
    shared.forget()
    yield shared
    shared.wait(lambda _: False, 0.05)
    assert shared.ok("print(1 + 1)").text == "2\n"


def use(kernel: Kernel, *replies: str) -> None:
    kernel.ok(setup(*replies) + MORE_TOOLS)


def record(outcome: Outcome) -> str:
    """The plain text of the one record that a cell leaves."""
    assert [set(data) for data in outcome.displayed] == [RECORD_TYPES]
    assert max(len(text.encode()) for text in outcome.displayed[0].values()) <= 256_000
    return str(outcome.displayed[0]["text/plain"])


def has_begun(kernel: Kernel, cell: str) -> None:
    assert kernel.wait(lambda m: m["msg_type"] == "comm_open" and parent(m) == cell), "the cell did not begin"


# ---- Interrupt and Stop --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.1, 0.4])
@pytest.mark.parametrize("tool", ["wait", "sleep_in_thread", "block"])
def test_interrupt_at_any_moment(loaded: Kernel, tool: str, delay: float) -> None:
    use(loaded, calling(tool, seconds=30), "'x'")
    cell = loaded.execute("%%kestrel\ngo", allow_stdin=True)
    later = loaded.execute("print('must not run')")
    has_begun(loaded, cell)
    time.sleep(delay)
    start = time.monotonic()
    loaded.interrupt()
    outcome = loaded.outcome(cell, 10)
    assert time.monotonic() - start < SOON
    assert outcome.status == "error"
    assert record(outcome).startswith("Interrupted")
    assert outcome.text == ""
    assert loaded.outcome(later).status == "aborted"
    assert loaded.ok("print(_.status)").text == "cancelled\n"


@pytest.mark.parametrize("gap", [0.0, 0.03, 0.15])
def test_interrupt_twice(loaded: Kernel, gap: float) -> None:
    use(loaded, *NOTE_THEN_DONE)
    page = RunPage(loaded, ASK)
    page.card()
    loaded.interrupt()
    time.sleep(gap)
    loaded.interrupt()
    outcome = loaded.outcome(page.cell, 10)
    assert outcome.status == "error"
    assert record(outcome).startswith("Interrupted")


def test_an_interrupt_stays_with_its_cell(loaded: Kernel) -> None:
    use(loaded, calling("wait", seconds=30), "'x'")
    page = RunPage(loaded, "%%kestrel\ngo")
    loaded.interrupt()
    assert loaded.outcome(page.cell, 10).status == "error"
    assert loaded.ok("import time\ntime.sleep(1.2)\nprint('whole')").text == "whole\n"
    assert loaded.ok("await asyncio.sleep(1.2)\nprint('whole')").text == "whole\n"


def test_interrupt_reaches_a_model_that_blocks(loaded: Kernel) -> None:
    loaded.ok(
        HEAD
        + """
from kestrel_nb.protocol.sessions import ModelInfo

class Blocking:
    info = ModelInfo(id="blocking", provider="mine")

    async def generate(self, request, on_delta=None):
        time.sleep(30)

app = Kestrel(model=Blocking())
%kestrel use app"""
    )
    page = RunPage(loaded, "%%kestrel\ngo", ready=False)
    start = time.monotonic()
    loaded.interrupt()
    outcome = loaded.outcome(page.cell, 10)
    assert time.monotonic() - start < SOON
    assert record(outcome).startswith("Interrupted")


SLOW = """
class Slow:
    async def save(self, detail):
        await asyncio.sleep(60 if "save" in slow else 0)

    async def load(self, id):
        return None

    async def list(self):
        await asyncio.sleep(60 if "list" in slow else 0)
        return []

    async def delete(self, id):
        pass

class Plugin:
    name = "slow"

    async def activate(self, context):
        await asyncio.sleep(60 if "plugin" in slow else 0)

    async def deactivate(self):
        pass
"""


BOOM = """
async def boom(now):
    if now:
        raise ValueError("two\\nlines")

class Slow"""


@pytest.mark.parametrize("what", ["list", "plugin"])
@pytest.mark.parametrize("cell", ["%kestrel use app", "%%kestrel\ngo"])
def test_interrupt_before_anything_is_sent(loaded: Kernel, cell: str, what: str) -> None:
    """A plugin or a store that takes its time holds up the cell, not the kernel."""
    loaded.ok(setup("'Fine.'"))
    loaded.ok(f"slow = {what!r}{SLOW}\napp = Kestrel(model=model, store=Slow(), plugins=[Plugin()])")
    if cell.startswith("%%"):
        loaded.ok("from kestrel_nb.notebook.state import current\ncurrent().use_app(app)")
    waiting = loaded.execute(cell)
    assert loaded.reply(waiting, 0.5) is None
    start = time.monotonic()
    loaded.interrupt()
    outcome = loaded.outcome(waiting, 10)
    assert time.monotonic() - start < SOON
    assert outcome.reply["traceback"][0].startswith("kestrel: interrupted")
    assert outcome.text == ""


@pytest.mark.parametrize(("what", "says"), [("list", "sessions can't be read"), ("plugin", "could not start")])
def test_a_plugin_or_a_store_that_raises_is_one_line(loaded: Kernel, what: str, says: str) -> None:
    raising = SLOW.replace("asyncio.sleep(60 if", "boom(1 if").replace("\nclass Slow", BOOM, 1)
    loaded.ok(setup("'Fine.'"))
    loaded.ok(f"slow = {what!r}{raising}\napp = Kestrel(model=model, store=Slow(), plugins=[Plugin()])")
    outcome = loaded.run("%kestrel use app")
    assert outcome.status == "error"
    assert says in outcome.text
    assert len(outcome.text.strip().splitlines()) == 1


def test_interrupt_with_a_store_that_never_ends_a_write(loaded: Kernel) -> None:
    slow = "model = ScriptedModel([\n    " + calling("wait", seconds=30)
    loaded.ok(f"{HEAD}\n{slow}, 'x'])\nslow = 'save'{SLOW}")
    loaded.ok("app = Kestrel(model=model, tools=[wait], store=Slow())\n%kestrel use app")
    page = RunPage(loaded, "%%kestrel\ngo")
    start = time.monotonic()
    loaded.interrupt()
    outcome = loaded.outcome(page.cell, 10)
    assert time.monotonic() - start < SOON + 1
    assert record(outcome).startswith("Interrupted")


@pytest.mark.parametrize("delay", [0.0, 0.1, 0.4])
def test_stop_raises_nothing_and_later_cells_run(loaded: Kernel, delay: float) -> None:
    use(loaded, calling("sleep_in_thread", seconds=20), "'x'")
    page = RunPage(loaded, "%%kestrel\ngo")
    later = loaded.execute("print('later', _.status)")
    time.sleep(delay)
    page.send({"type": "stop"})
    page.send({"type": "stop"})
    outcome = loaded.outcome(page.cell, 10)
    assert outcome.status == "ok"
    assert record(outcome).startswith("Stopped")
    assert loaded.outcome(later).text == "later cancelled\n"


# ---- tools ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "says"),
    [
        ("much_text", "too large to show"),
        ("much_data", "too large to show"),
        ("many_rows", "100,000 rows"),
        ("long_error", "ValueError: boom boom"),
    ],
)
def test_a_tool_that_returns_too_much(loaded: Kernel, tool: str, says: str) -> None:
    use(loaded, calling(tool), "'Done.'")
    page = RunPage(loaded, "%%kestrel\ngo")
    outcome = loaded.outcome(page.cell, 60)
    assert outcome.status == "ok"
    assert says in record(outcome)
    assert sum(len(str(message["content"])) for message in outcome.messages) < 1_000_000


def test_what_tools_print_is_text_of_their_cell(loaded: Kernel) -> None:
    use(loaded, "Reply(tool_calls=[('speak', {}), ('speak_here', {})])", "'Done.'")
    page = RunPage(loaded, "%%kestrel\ngo")
    outcome = loaded.outcome(page.cell)
    assert "from the thread" in outcome.text
    assert "on the loop" in outcome.text
    assert "from the thread" not in record(outcome)


def test_nothing_is_left_of_a_run(loaded: Kernel) -> None:
    use(loaded, *NOTE_THEN_DONE)
    before = loaded.ok(LEFT).text
    for how in ("approve", "interrupt", "stop"):
        use(loaded, *NOTE_THEN_DONE)
        page = RunPage(loaded, ASK)
        card = page.card()
        if how == "approve":
            page.answer(card, True)
        elif how == "stop":
            page.send({"type": "stop"})
        else:
            loaded.interrupt()
        assert loaded.outcome(page.cell).text == ""
    assert loaded.ok(LEFT).text == before


def test_a_wrong_key_of_frames_says_what_there_is(loaded: Kernel) -> None:
    use(loaded, calling("many_rows"), "'Done.'")
    loaded.ok("%%kestrel -o got\ngo")
    for key, says in (
        ("'nope'", "there is: many_rows"),
        ("'many_rows', 3", "there is no number 3"),
        ("'many_rows', 'x'", "the number of a call is a whole number"),
        ("1, 2, 3", "there is: many_rows"),
    ):
        reply = loaded.run(f"got.frames[{key}]").reply
        assert reply["ename"] == "KeyError"
        assert says in reply["evalue"]
    assert loaded.ok("print(got.frames['many_rows'].shape, got.frames['many_rows', 0].shape)").text == (
        "(100000, 2) (100000, 2)\n"
    )


def test_a_tool_that_is_defined_again_replaces_the_old_one_and_says_so(loaded: Kernel) -> None:
    loaded.ok(setup("'one'", calling("greet"), "'two'", "'three'"))
    loaded.ok("@tool\ndef greet() -> str:\n    'Old.'\n    return 'old'\n%kestrel use greet")
    loaded.ok("@tool\ndef greet() -> str:\n    'Old.'\n    return 'old'")  # as it was: nothing new
    assert "replaced" not in record(loaded.run("%%kestrel\ngo"))
    loaded.ok("@tool\ndef greet() -> str:\n    'New.'\n    return 'new greeting'")
    text = record(loaded.run("%%kestrel\ngo"))
    assert "greet was replaced by the tool that the variable greet holds now" in text
    assert "new greeting" in text
    assert "replaced" not in record(loaded.run("%%kestrel -t greet\ngo"))


# ---- questions -----------------------------------------------------------------------------------------------------


def test_a_question_that_nobody_answers_in_time(loaded: Kernel) -> None:
    limited = "tools=[note, wait], config=KestrelConfig(approval_timeout_s=1))"
    cell = setup(*NOTE_THEN_DONE).replace("tools=[note, wait])", limited)
    loaded.ok(cell.replace("import Kestrel,", "import Kestrel, KestrelConfig,"))
    page = RunPage(loaded, ASK)
    card = page.card()
    outcome = loaded.outcome(page.cell, 10)
    assert outcome.status == "ok"
    assert "Declined because nobody answered" in record(outcome)
    page.answer(card, True)
    assert loaded.ok("print(notes)").text == "[]\n"


def test_three_questions_at_once_answered_last_to_first(loaded: Kernel) -> None:
    notes = [calling("note", text=f"n{number}") for number in range(3)]
    use(loaded, *notes, *["'Done.'"] * 3)
    pages = [RunPage(loaded, f"%%kestrel {flags}\ngo") for flags in ("-b -s q1 -o r1", "-b -s q2 -o r2", "-s q3 -o r3")]
    cards = [page.card() for page in pages]
    pages[2].answer(cards[2], True)
    assert "noted n2" in record(loaded.outcome(pages[2].cell))
    pages[1].answer(cards[1], False, reason="no")
    assert "the run goes on in its own cell" in loaded.ok(f"x = %kestrel approve {cards[0]['id']}\nprint(x)").text
    for page in pages[:2]:
        assert loaded.wait(lambda m, cell=page.cell: m["msg_type"] == "update_display_data" and parent(m) == cell)
    assert loaded.ok("print(r1.status, r2.status, notes)").text == "completed completed [['n2', 1], ['n0', 1]]\n"


def test_two_questions_on_stdin_stand_one_after_the_other(loaded: Kernel) -> None:
    use(loaded, calling("note", text="n0"), calling("note", text="n1"), "'Done.'", "'Done.'")
    RunPage(loaded, "%%kestrel -b -s s1 -o r1\ngo", ready=False)
    second = RunPage(loaded, "%%kestrel -s s2 -o r2\ngo", ready=False)
    assert "n0" in str(loaded.question())
    assert loaded.question(1.5) is None
    loaded.answer("y")
    assert "n1" in str(loaded.question())
    loaded.answer("n not this")
    loaded.outcome(second.cell, 20)
    assert loaded.ok("print(r1.status, r2.status, notes)").text == "completed completed [['n0', 1]]\n"


def test_an_answer_in_the_box_of_an_older_question_is_none_to_a_newer_one(loaded: Kernel) -> None:
    use(loaded, calling("note", text="n0"), calling("note", text="n1"), "'Done.'")
    page = RunPage(loaded, ASK, ready=False)
    old = loaded.client.get_stdin_msg(timeout=10)
    first = page.card()
    page.answer(first, False)
    new = loaded.client.get_stdin_msg(timeout=10)
    for question, value in ((old, "y"), (new, "n")):
        reply = loaded.client.session.msg("input_reply", {"value": value, "status": "ok"}, question["header"])
        loaded.client.stdin_channel.send(reply)
    assert loaded.outcome(page.cell, 20).status == "ok"
    assert loaded.ok("print(notes)").text == "[]\n"


@pytest.mark.parametrize(
    "content",
    [
        None,
        1,
        [],
        {},
        {"type": ["ready"]},
        {"type": "answer", "id": [1], "approved": True},
        {"type": "answer", "id": {"a": 1}, "approved": True},
        {"type": "answer", "approved": True},
    ],
)
def test_a_message_of_a_wrong_shape_answers_nothing(loaded: Kernel, content: object) -> None:
    use(loaded, *NOTE_THEN_DONE)
    page = RunPage(loaded, ASK)
    card = page.card()
    page.send(content)  # type: ignore[arg-type]
    page.answer(card, True, changes={"text": {"a": 1}})
    assert "text" in str(page.refusal()) or content not in (None, 1)
    assert page.cards()
    page.answer(card, False, reason="r" * 2_000_000)
    assert "Not run" in record(loaded.outcome(page.cell))
    assert loaded.ok("print(notes)").text == "[]\n"


# ---- words and shells ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("%%capture out\n%%kestrel\nhi", "%%capture can't wait for a run"),
        ("%%time\n%%kestrel\nhi", "%%time can't wait for a run"),
        ("%%kestrel -o if\nhi", "-o needs a name for a variable"),
        ("%%kestrel -o _\nhi", "-o needs a name of your own"),
        ("%%kestrel -s -b\nhi", "-s needs a value"),
        ("%%kestrel -t ,\nhi", "-t needs names of tools"),
        ("%%kestrel -b=1\nhi", "-b takes no value"),
        ("%%kestrel \\\nhi", "nothing follows the backslash"),
        ("%%kestrel -t print\nhi", 'no tool "print"'),
        ("%%kestrel -t said\nhi", "put @tool above its definition"),
        ("%kestrel use said", "put @tool above its definition"),
    ],
)
def test_a_mistake_is_one_line(loaded: Kernel, cell: str, says: str) -> None:
    loaded.ok(setup("'Fine.'"))
    outcome = loaded.run(cell)
    assert outcome.status == "error"
    assert says in outcome.text
    assert len(outcome.text.strip().splitlines()) == 1
    assert loaded.ok("print(len(model.requests))").text == "0\n"


@pytest.mark.parametrize(
    "cell",
    [
        "# a comment\n%%kestrel\nhi",
        "  %%kestrel\nhi",
        "%%kestrel\t-o x\nhi",
        "\n# a\n\n%%kestrel\nhi",
        "%%kestrel\r\nhi",
    ],
)
def test_where_the_word_may_stand(loaded: Kernel, cell: str) -> None:
    loaded.ok(setup("'Fine.'"))
    assert "Fine." in record(loaded.ok(cell))
    assert loaded.ok("print([m.content for m in model.requests[0].messages][-1])").text == "hi\n"


@pytest.mark.parametrize("cell", ["%%kestrel -h", "%%kestrel --help\nhi", "%kestrel -h", "%kestrel --help"])
def test_help(loaded: Kernel, cell: str) -> None:
    assert "runs an agent in the cell" in loaded.ok(cell).displayed[0]["text/plain"]


def test_without_autoawait_lines_say_what_to_do(loaded: Kernel) -> None:
    loaded.ok("%autoawait off")
    outcome = loaded.run("%kestrel inbox")
    loaded.ok("%autoawait on")
    assert "with %autoawait on" in outcome.text


def test_underscores_move_on(loaded: Kernel) -> None:
    loaded.ok(setup("'Fine.'"))
    loaded.ok("1 + 1")
    loaded.ok("%%kestrel\nhi")
    assert loaded.ok("print(_, __)").text == "<kestrel run: completed> 2\n"
    loaded.ok("5 + 5")
    assert loaded.ok("print(_, __, ___)").text == "10 <kestrel run: completed> 2\n"


@pytest.mark.parametrize("model", ["5", "object()", "Kestrel"])
def test_an_object_that_is_no_model_is_refused_by_name(loaded: Kernel, model: str) -> None:
    outcome = loaded.run(f"from kestrel_nb import Kestrel\nKestrel(model={model})")
    assert "a model has info" in outcome.reply["evalue"]


def test_a_model_that_fails_with_many_lines_is_one_line_below_the_record(loaded: Kernel) -> None:
    loaded.ok(setup("Reply(error=ValueError('one\\ntwo ' + 'z' * 5000))"))
    outcome = loaded.run("%%kestrel\nhi")
    assert "ValueError: one" in record(outcome)
    (line,) = outcome.reply["traceback"]
    assert line.startswith("kestrel: ValueError: one two zzz")
    assert len(line) < 600
    assert outcome.text == ""


def test_unloading_ends_a_run_in_the_background_and_loading_again_works(kernel: Kernel) -> None:
    kernel.ok(LOAD, 60)
    kernel.ok(setup(*NOTE_THEN_DONE))
    page = RunPage(kernel, "%%kestrel -b -o left\nhi")
    page.card()
    kernel.ok("%unload_ext kestrel_nb")
    assert kernel.wait(lambda m: m["msg_type"] == "update_display_data" and parent(m) == page.cell)
    assert kernel.ok("print(left.status)").text == "cancelled\n"
    kernel.ok(LOAD)
    kernel.ok("%kestrel use app")
    assert "All done." in record(kernel.run("%%kestrel\nhi"))


def test_a_store_that_cannot_be_written_says_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file", encoding="utf-8")
    store = os.fspath(tmp_path / "store")
    with running_kernel(tmp_path, extra_env={"KESTREL_HOME": store}) as kernel:
        kernel.ok(LOAD, 60)
        outcome = kernel.run("%%kestrel\nlist the files")
        assert outcome.status == "error"
        assert f"sessions are kept in {store}, KESTREL_HOME names another folder" in outcome.text
        assert len(outcome.text.strip().splitlines()) == 1
        (tmp_path / "store").unlink()
        assert "Finished" in record(kernel.run("%%kestrel\nlist the files"))
