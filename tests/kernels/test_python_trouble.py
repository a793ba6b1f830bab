"""Code that goes wrong in ``run_python``: each kind is told, bounded and survived; kernel and cell are usable."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import Kernel
from python_tool import LOAD, call, given, prepare, python, real_kernel, results

SOON = 4.0  # seconds; Interrupt acts within about one, the rest is for a busy machine
KEY = "sk-planted-0123456789abcdef"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """One kernel for the tests that must leave it usable, which is a part of what they test."""
    with real_kernel(tmp_path_factory.mktemp("trouble"), PLANTED_API_KEY=KEY) as kernel:
        kernel.ok(LOAD, 60)
        yield kernel


@pytest.fixture
def kernel(shared: Kernel) -> Iterator[Kernel]:
    """The shared kernel, which works as before when the test is over."""
    shared.forget()
    yield shared
    shared.forget()
    after = shared.run("print('usable'); 6 * 7")
    assert (after.status, after.text) == ("ok", "usable\n")
    assert [data["text/plain"] for data in after.displayed] == ["42"]
    assert shared.ok("_ + 1").displayed[0]["text/plain"] == "43"


def said(kernel: Kernel, code: str) -> str:
    """What the model reads of one call."""
    (row,) = results(kernel, code)
    return str(row["content"])


def failure(kernel: Kernel, code: str) -> str:
    (row,) = results(kernel, code)
    assert row.get("is_error", True), row
    return str(row.get("content") or row.get("error"))


# ---- what never ends ----------------------------------------------------------------------------------------------

BUSY = {
    "a loop": "while True:\n    pass",
    "a sleep": "import time\ntime.sleep(100)",
    "an await": "import asyncio\nawait asyncio.sleep(100)",
    "an await that clings": "import asyncio\nwhile True:\n    try:\n        await asyncio.sleep(100)\n"
    "    except asyncio.CancelledError:\n        pass",
    "a loop that catches it once": "try:\n    while True:\n        pass\nexcept KeyboardInterrupt:\n    pass\n"
    "while True:\n    pass",
    "a loop that always catches it": "import time\nfor _ in range(3):\n    try:\n        time.sleep(100)\n"
    "    except KeyboardInterrupt:\n        pass",
    "a loop that is deaf": "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True:\n    pass",
    "a command": "!sleep 100",
    "a script": "%%bash\nsleep 100",
    "a process": "import subprocess\nsubprocess.run(['sleep', '100'])",
    "a thread that is waited for": "import threading\nthreading.Event().wait()",
    "a busy coroutine": "import asyncio\nasync def busy():\n    await asyncio.sleep(0)\n    while True:\n"
    "        pass\nawait busy()",
}


@pytest.mark.parametrize("code", BUSY.values(), ids=BUSY)
def test_interrupt(kernel: Kernel, code: str) -> None:
    """It lands in the code; the cell ends as any interrupted run, its record is there, Run All stops."""
    prepare(kernel, python(code))
    cell = kernel.execute("%%kestrel\ngo")
    later = kernel.execute("later = 'ran'")
    assert kernel.wait(lambda m: m["msg_type"] == "status" and m["content"]["execution_state"] == "busy", 10)
    time.sleep(0.7)
    pressed = time.monotonic()
    kernel.interrupt()
    outcome = kernel.outcome(cell)
    assert time.monotonic() - pressed < SOON
    assert outcome.status == "error"
    assert "interrupted" in outcome.reply["evalue"]
    assert [set(data) for data in outcome.displayed] == [{"text/html", "text/markdown", "text/plain"}]
    assert "run_python" in outcome.displayed[0]["text/plain"]
    reply = kernel.reply(later)
    assert reply is not None
    assert reply["status"] == "aborted"


@pytest.mark.parametrize("code", BUSY.values(), ids=BUSY)
def test_time_limit(kernel: Kernel, code: str) -> None:
    kernel.ok("%config Kestrel.python_timeout_s = 0.6")
    (row,) = results(kernel, "print('began')\n" + code if not code.startswith(("!", "%")) else code)
    assert row["is_error"], row
    assert "stopped after 0.6 s" in row["content"]
    if not code.startswith(("!", "%")):
        assert row["content"].startswith("began")
    kernel.ok("%config Kestrel.python_timeout_s = 300")


def test_code_just_within_the_limit_is_no_error(kernel: Kernel) -> None:
    kernel.ok("%config Kestrel.python_timeout_s = 2")
    assert said(kernel, "import asyncio\nawait asyncio.sleep(0.6)\n'in time'") == "'in time'"
    kernel.ok("%config Kestrel.python_timeout_s = 300")


# ---- ends, children, questions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    ["exit()", "quit()", "exit", "import sys\nsys.exit(3)", "raise SystemExit", "get_ipython().ask_exit()", "%exit"],
)
def test_code_can_not_end_the_kernel(kernel: Kernel, code: str) -> None:
    text = failure(kernel, code)
    assert "SystemExit" in text or "Line magic function" in text
    assert "can't end the kernel" in text or "%exit" in code
    time.sleep(0.3)  # the kernel's own way to end is a timer
    assert kernel.manager.is_alive()


def test_a_forked_child_is_no_second_kernel(kernel: Kernel) -> None:
    code = "import os\npid = os.fork()\nif pid == 0:\n    print('child')\nelse:\n    print(os.waitpid(pid, 0)[1])"
    assert said(kernel, code).startswith("child\n0\n")
    code = "import os\npid = os.fork()\nif pid == 0:\n    1 / 0\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])"
    assert said(kernel, code).startswith("1\n")
    code = (
        "import asyncio, os\nasync def child():\n    global pid\n    pid = os.fork()\n"
        "task = asyncio.ensure_future(child())\nawait asyncio.sleep(0.2)\n"
        "os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])"
    )
    assert said(kernel, code).startswith("0\n")
    code = (
        "import multiprocessing\np = multiprocessing.get_context('fork').Process(target=print, args=('child',))\n"
        "p.start(); p.join()"
    )
    assert said(kernel, code).startswith("child\n")


@pytest.mark.parametrize("code", ["input('name? ')", "import getpass\ngetpass.getpass()", "breakpoint()"])
def test_nobody_is_asked(kernel: Kernel, code: str) -> None:
    (row,) = results(kernel, code)
    assert row["is_error"], row
    assert kernel.question(0.2) is None


# ---- hostile to the shell -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    ["%%kestrel\nhello", "%kestrel models", "x = %kestrel sessions", "get_ipython().run_line_magic('kestrel', 'tools')",
     "get_ipython().run_cell_magic('kestrel', '', 'hello')", "if True:\n    %kestrel models"],
)  # fmt: skip
def test_no_run_inside_a_run(kernel: Kernel, code: str) -> None:
    assert "UsageError" in failure(kernel, code)


@pytest.mark.parametrize("code", ["%unload_ext kestrel_nb", "%reload_ext kestrel_nb"])
def test_the_extension_stays(kernel: Kernel, code: str) -> None:
    assert failure(kernel, code).startswith("UsageError: kestrel_nb can't be")
    kernel.ok("%kestrel models")


STREAMS = {
    "stdout": ("import io, sys\nsys.stdout = io.StringIO()\nprint('lost')", "sys.stdout was replaced"),
    "stderr": ("import sys\nsys.stderr = None", "sys.stderr was replaced"),
    "displayhook": ("import sys\nsys.displayhook = lambda value: print('mine', value)\n5", "mine 5"),
    "closed": ("import sys\nsys.stdout.close()\nprint('still there')", "still there"),
    "get_ipython": ("del get_ipython\n%pwd", "'"),
    "policy": ("import asyncio\nasyncio.set_event_loop_policy(asyncio.DefaultEventLoopPolicy())\n'set'", "'set'"),
    "extension": ("%load_ext autoreload", "(no output)"),
    "future": ("from __future__ import annotations\ndef f(a: Nothing): ...\nf.__annotations__", "{'a': 'Nothing'}"),
}


@pytest.mark.parametrize(("code", "told"), STREAMS.values(), ids=STREAMS)
def test_what_belongs_to_the_shell(kernel: Kernel, code: str, told: str) -> None:
    assert told in said(kernel, code)


def test_a_future_statement_is_none_of_later_cells(kernel: Kernel) -> None:
    said(kernel, "from __future__ import annotations")
    assert kernel.run("def g(a: Nothing): ...").reply["ename"] == "NameError"


def test_builtins_environment_and_folder_are_told(kernel: Kernel) -> None:
    code = (
        "import builtins, os\nbuiltins.helper = 1\nos.environ['MADE_UP'] = 'secret value'\n"
        "os.makedirs('sub', exist_ok=True)\nos.chdir('sub')"
    )
    text = said(kernel, code)
    assert "the working folder is now sub" in text
    assert "environment variables changed: MADE_UP" in text
    assert "builtins changed: helper" in text
    assert "secret value" not in text
    assert "the working folder is now .." in said(kernel, "%cd -q ..\ndel builtins.helper, os.environ['MADE_UP']")


def test_reset(kernel: Kernel) -> None:
    kernel.ok("kept = [1]")
    text = said_after_reset(kernel)
    assert "gone variable kept: list of 1" in text


def said_after_reset(kernel: Kernel) -> str:
    outcome = call(kernel, *python("%reset -f"))
    return str(outcome.displayed[0]["text/plain"])


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("def f(): return f()\nf()", "RecursionError"),
        ("raise MemoryError('no room')", "MemoryError: no room"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("import asyncio\nraise asyncio.CancelledError", "CancelledError"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("class Odd(BaseException):\n    def __str__(self): raise ValueError\nraise Odd", "Odd"),
        ("raise ValueError('x' * 1_000_000)", "ValueError: xxx"),
        ("def f(n):\n    try:\n        g(n)\n    except Exception as e:\n        raise ValueError('y' * 5000) from e\n"
         "def g(n): f(n - 1) if n else 1 / 0\nf(200)", "ValueError"),
        ("x = ", "SyntaxError"),
        ("return 1", "SyntaxError"),
        ("await = 1", "SyntaxError"),
        ("(" * 300, "Error"),
        ("lambda: (yield)\nclass = 3", "SyntaxError"),
    ],
)  # fmt: skip
def test_errors_of_all_kinds(kernel: Kernel, code: str, told: str) -> None:
    text = failure(kernel, code)
    assert told in text
    assert len(text) < 10_500
    assert "\x1b" not in text
    assert not re.search(r"0x[0-9a-f]{6,}|/tmp/|ipykernel_\d", text), text


@pytest.mark.parametrize(
    ("code", "told"), [("  \n", "nothing to run"), ("a = '\0'", "NUL"), ("a = '\ud800'", "surrogates")]
)
def test_what_is_no_code(kernel: Kernel, code: str, told: str) -> None:
    assert told in failure(kernel, code)


# ---- much, late and beside ----------------------------------------------------------------------------------------


def test_much_output_is_bounded(kernel: Kernel) -> None:
    (row,) = results(kernel, "for n in range(300_000):\n    print('line', n, 'x' * 80)\nprint('the end')")
    assert len(row["content"]) <= 10_100
    assert row["content"].startswith("line 0 ")
    assert "the end" in row["content"]
    assert re.search(r"\[[\d,]{9,} characters left out\]", row["content"])
    (row,) = results(kernel, "'y' * 50_000_000")
    assert len(row["content"]) <= 10_100


def test_what_is_left_running_is_told_and_silent(kernel: Kernel) -> None:
    code = (
        "import asyncio, threading, time\nstop = False\n"
        "def chatter():\n    while not stop:\n        print('late'); time.sleep(0.02)\n"
        "async def ticks():\n    while not stop:\n        print('tick'); await asyncio.sleep(0.02)\n"
        "threading.Thread(target=chatter).start()\ntask = asyncio.ensure_future(ticks())\nawait asyncio.sleep(0.1)"
    )
    text = said(kernel, code)
    assert text.startswith(("late", "tick"))
    assert "1 thread is still running" in text
    assert "1 asyncio task is still running" in text
    start = len(kernel.log)
    kernel.ok("import time; time.sleep(0.2); print('mine')")
    printed = [m["content"]["text"] for m in kernel.log[start:] if m["msg_type"] == "stream"]
    assert "".join(printed) == "mine\n"
    kernel.ok("stop = True; time.sleep(0.1); await asyncio.sleep(0.1)")


def test_the_cell_around_is_as_it_was(kernel: Kernel) -> None:
    """Not its count, its last value, its history, and what the interpreter remembers of errors."""
    kernel.ok("import sys\n111")
    state = (
        "print(get_ipython().execution_count, len(get_ipython().history_manager.input_hist_raw), sorted(Out)[-2:], _)"
    )
    prepare(kernel, python("1/0", "222", "for _ in range(3): pass", "%time 1/0", "__ = 5"))
    kernel.ok("333")
    count, length, *_ = kernel.ok(state).text.split(maxsplit=2)
    assert kernel.run("%%kestrel\ngo", 60).status == "ok"
    after = kernel.ok(state).text
    assert after.split(maxsplit=2)[:2] == [str(int(count) + 2), str(int(length) + 2)]
    assert after.rstrip().endswith("<kestrel run: completed>")
    shown = kernel.ok("print(getattr(sys, 'last_value', None), get_ipython().last_execution_result.success)")
    assert "division" not in shown.text
    assert "True" in shown.text
    assert kernel.ok("444").displayed[0]["text/plain"] == "444"
    assert kernel.ok("_").displayed[0]["text/plain"] == "444"


def test_a_failed_call_is_no_failed_cell(kernel: Kernel) -> None:
    kernel.ok("from kestrel_nb.notebook.state import current as _current\n_current().failures.last = None")
    failure(kernel, "1 / 0")
    said(kernel, "%%capture\n1 / 0")
    assert kernel.ok("print(_current().failures.last)").text == "None\n"


def test_programs_are_told_from_those_of_cells(kernel: Kernel) -> None:
    """What a program writes to the descriptors comes in order, from no other, and no later than the code's end."""
    code = (
        "import os, subprocess\nfor n in range(5):\n    print('mine', n)\n"
        "    subprocess.run(['echo', 'program', str(n)])\nos.write(2, b'descriptor\\n')\n"
        "left = subprocess.Popen(['sh', '-c', 'sleep 0.4; echo late; exit 3'])\nos.system('echo system')"
    )
    start = len(kernel.log)
    lines = said(kernel, code).split("\n")
    assert lines[:10] == [f"{who} {n}" for n in range(5) for who in ("mine", "program")]
    assert lines[10:14] == ["[stderr]", "descriptor", "[end of stderr]", "system"]
    assert kernel.ok("import subprocess\nprint(left.wait())\nsubprocess.run(['echo', 'of the cell']);").text
    assert kernel.wait_for_text("of the cell", 5, start)
    streams = "".join(m["content"]["text"] for m in kernel.log[start:] if m["msg_type"] == "stream")
    assert "3\n" in streams
    assert not {"mine", "program", "descriptor", "late", "system"} & set(streams.split())


def test_two_runs_at_once_take_turns_and_keep_their_output(kernel: Kernel) -> None:
    """Two runs in the background, whose code awaits, and a cell that prints meanwhile."""
    code = """
import asyncio
from kestrel_nb import Kestrel
from kestrel_nb.notebook.kernel_tools import NotebookTools
from kestrel_nb.testing import Reply, ScriptedModel
inside, most, names = 0, 0, []
TEXT = '''
inside += 1; most = max(most, inside)
for n in range(5):
    print("NAME", n); await asyncio.sleep(0.05)
inside -= 1; names.append("NAME")
'''
def begin(name):
    reply = Reply("", tool_calls=[("run_python", {"code": TEXT.replace("NAME", name)})])
    app = Kestrel(model=ScriptedModel([reply, "done"]), plugins=[NotebookTools()], resolve_permission=lambda *_: "auto")
    return asyncio.ensure_future(app.ask("go"))
runs = [begin("one"), begin("two")]
"""
    assert kernel.ok(code).text == ""
    for number in range(4):
        assert kernel.ok(f"print('cell {number}'); {number}; await asyncio.sleep(0.1)").text == f"cell {number}\n"
    ended = "done = await asyncio.gather(*runs)\nprint(most, names, [run.messages[-2].content for run in done])"
    text = kernel.ok(ended.replace("run.messages[-2].content", "str(run.status)")).text
    assert text == "1 ['one', 'two'] ['completed', 'completed']\n"


# ---- secrets ------------------------------------------------------------------------------------------------------


def test_a_key_is_nowhere(kernel: Kernel) -> None:
    """Neither the one of the environment nor one that the code puts there: not for the model, the store, the record."""
    new = "tok-made-by-the-code-987654"
    codes = (
        "import os\nprint(os.environ['PLANTED_API_KEY'])\nos.environ['PLANTED_API_KEY']",
        "os.environ['NEW_TOKEN'] = 'tok-made-' + 'by-the-code-987654'\nprint(os.environ['NEW_TOKEN'])",
        "key = os.environ['PLANTED_API_KEY']\nraise ValueError(key)",
        "import pandas as pd\nframe = pd.DataFrame({'k': [key]})\nframe",
        "held = [key]\nheld",
    )
    outcome = call(kernel, *python(*codes))
    home = Path(kernel.env["XDG_DATA_HOME"])
    stored = "".join(path.read_text("utf-8", "replace") for path in home.rglob("*") if path.is_file())
    everything = json.dumps([outcome.messages, given(kernel)], default=str) + stored
    assert "***" in everything
    for secret in (KEY, new):
        assert secret not in everything
    kernel.ok("del os.environ['NEW_TOKEN']")


# ---- crash --------------------------------------------------------------------------------------------------------


def test_code_that_kills_the_kernel_is_not_run_again(tmp_path: Path) -> None:
    """After the restart the call is interrupted, as for every tool that had begun."""
    code = "import os\nopen('ran.txt', 'a').write('once\\n')\nos._exit(1)"
    setup = (
        "from kestrel_nb import Kestrel\nfrom kestrel_nb.testing import Reply, ScriptedModel\n"
        "from kestrel_nb.notebook.kernel_tools import NotebookTools\n"
        "from kestrel_nb.notebook.state import store_folder\n"
        "from kestrel_nb.runtime.file_store import FileSessionStore\n"
        "model = ScriptedModel({replies})\n"
        "app = Kestrel(model=model, plugins=[NotebookTools()], store=FileSessionStore(store_folder()))\n"
        "%kestrel use app"
    )
    with real_kernel(tmp_path, KESTREL_HOME=str(tmp_path / "store")) as kernel:
        kernel.ok(LOAD, 60)
        reply = f"Reply('', tool_calls=[('run_python', {{'code': {code!r}}})])"
        kernel.ok(setup.format(replies=f"[{reply}, 'done']"))
        kernel.execute("%%kestrel -s crash\ngo")
        deadline = time.monotonic() + 30
        while not (tmp_path / "ran.txt").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)
        kernel.restart()
        kernel.ok(LOAD, 60)
        kernel.ok(setup.format(replies="['after']"))
        outcome = kernel.run("%%kestrel -s crash\ngo on", 60)
        assert outcome.status == "ok", outcome.reply
        told = kernel.ok("print([m.content for r in model.requests for m in r.messages if m.role == 'tool'])").text
        assert "interrupted" in told
        assert "not run again" in told
    assert (tmp_path / "ran.txt").read_text() == "once\n"
