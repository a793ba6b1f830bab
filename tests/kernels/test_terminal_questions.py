"""Approval questions in a terminal, in IPython and by ``run_sync``, driven by keys: what is typed later is not lost."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect  # type: ignore[import-untyped]
import pytest
from harness import isolated_env

PROMPT = r"In \[\d+\]: "
QUESTION = r"May it run shell .*\] "
KEYS_C, KEYS_D = "\x03", "\x04"
ASKING = """from kestrel_nb import Kestrel
from kestrel_nb.testing import Reply, ScriptedModel
asks = Reply(tool_calls=[("shell", {"command": "echo ran >> ran.txt"})])
model = ScriptedModel([asks, "Fine."] * 9)
app = Kestrel(model=model)
app.events.subscribe("tool.skipped", lambda event: print("skipped:", event.reason))
"""
ELSEWHERE = """
def answer_later():
    import threading
    from kestrel_nb import ApprovalDecision
    def later(event):
        answer = (event.request.id, ApprovalDecision(approved=True))
        threading.Timer(2, app.approvals.resolve, answer).start()
    app.events.subscribe("approval.requested", later)
"""


def spawned(folder: Path, *words: str) -> pexpect.spawn:
    """A program of this environment in ``folder``, on a terminal of its own."""
    env = isolated_env(folder, KESTREL_HOME=str(folder / "home"), TERM="dumb", PROMPT_TOOLKIT_NO_CPR="1")
    return pexpect.spawn(
        sys.executable, list(words), cwd=str(folder), env=env, encoding="utf-8", timeout=20, dimensions=(40, 200)
    )


@pytest.fixture(params=["prompt_toolkit", "simple"])
def terminal(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[pexpect.spawn]:
    """IPython with the extension and a model that asks for the shell in each run; with either of its prompts."""
    (tmp_path / "asking.py").write_text(ASKING + ELSEWHERE, encoding="utf-8")
    simple = ["--simple-prompt"] if request.param == "simple" else []
    flags = ["--no-banner", "--no-confirm-exit", "--colors=NoColor", "--no-autoindent", *simple]
    child = spawned(tmp_path, "-m", "IPython", *flags)
    try:
        child.expect(PROMPT)
        say(child, "%load_ext kestrel_nb")
        say(child, "from asking import *")
        say(child, "%kestrel use app")
        yield child
    finally:
        end(child)


def end(child: pexpect.spawn) -> None:
    """Kill it and wait: ``close`` itself gives a busy machine a tenth of a second for that."""
    child.kill(signal.SIGKILL)
    child.wait()
    child.close()


def say(child: pexpect.spawn, line: str, answer: str = "") -> None:
    """Type a line at IPython's prompt and wait for ``answer`` and the next prompt."""
    child.send(f"{line}; print('sa' 'id')\r" if not line.startswith("%") else f"{line}\r")
    child.expect(answer)
    child.expect("said" if not line.startswith("%") else "\n")
    child.expect(PROMPT)


def ask(child: pexpect.spawn) -> None:
    """Run a request, up to the question."""
    for line in ("%%kestrel", "go", "", ""):
        child.send(f"{line}\r")
    child.expect(QUESTION)


def is_intact(child: pexpect.spawn) -> None:
    """The next lines arrive, each as it was typed."""
    child.expect(PROMPT)
    say(child, "print(1000+1)", "1001")
    say(child, "print('al' 'ive')", "alive")
    say(child, "print(1000+2)", "1002")


def ran(folder: Path) -> bool:
    """Whether the shell did anything."""
    return (folder / "ran.txt").exists()


def test_interrupt_at_the_question_ends_the_reading_too(terminal: pexpect.spawn, tmp_path: Path) -> None:
    ask(terminal)
    terminal.send(KEYS_C)
    terminal.expect("Interrupted")
    terminal.expect("the run was interrupted")
    is_intact(terminal)
    assert not ran(tmp_path)


def test_yes_runs_it(terminal: pexpect.spawn, tmp_path: Path) -> None:
    ask(terminal)
    terminal.send("yx\x7f\r")  # the terminal edits the line
    terminal.expect("Fine")
    is_intact(terminal)
    assert ran(tmp_path)


@pytest.mark.parametrize(
    ("keys", "said"), [("n too early\r", "Reason: too early"), ("\r", "the user declined"), (KEYS_D, "user declined")]
)
def test_no_and_the_end_of_input_decline(terminal: pexpect.spawn, tmp_path: Path, keys: str, said: str) -> None:
    ask(terminal)
    terminal.send(keys)
    terminal.expect(f"skipped: .*{said}")
    terminal.expect("Fine")
    is_intact(terminal)
    assert not ran(tmp_path)


def test_an_answer_by_another_road_ends_the_reading(terminal: pexpect.spawn, tmp_path: Path) -> None:
    say(terminal, "answer_later()")
    ask(terminal)
    terminal.expect("Fine")
    is_intact(terminal)
    assert ran(tmp_path)


SCRIPT = f"""import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
{ASKING}
try:
    print("ended:", app.run_sync("go").status)
except KeyboardInterrupt:
    print("interrupted")
print("typed:", input("next? "))
app.close()
"""


@pytest.mark.parametrize(
    ("keys", "ends", "runs"),
    [(KEYS_C, "interrupted", False), (KEYS_D, "ended: completed", False), ("y\r", "ended: completed", True)],
)
def test_run_sync_leaves_the_next_line_alone(tmp_path: Path, keys: str, ends: str, runs: bool) -> None:
    child = spawned(tmp_path, "-c", SCRIPT)
    try:
        child.expect(r"May it run shell .*\[y/N\] ")
        child.send(keys)
        child.expect(ends)
        child.expect(r"next\? ")
        child.send("hello there\r")
        child.expect("typed: hello there")
        child.expect(pexpect.EOF)
    finally:
        end(child)
    assert ran(tmp_path) is runs
