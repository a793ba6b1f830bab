"""The harness itself: what it says of a kernel is so."""

from harness import Kernel


def test_a_cell_its_output_and_its_displays(kernel: Kernel) -> None:
    outcome = kernel.ok(
        "from IPython.display import display\nd = display(1, display_id=True)\nd.update(2)\nprint('x')\n3"
    )
    assert outcome.text == "x\n"
    assert [data["text/plain"] for data in outcome.displayed] == ["2", "3"]
    assert kernel.run("1/0").reply["ename"] == "ZeroDivisionError"


def test_questions_on_stdin(kernel: Kernel) -> None:
    cell = kernel.execute("print(input('Name? '))", allow_stdin=True)
    assert kernel.question() == "Name? "
    kernel.answer("Ada")
    assert kernel.outcome(cell).text == "Ada\n"


def test_kill_and_restart(kernel: Kernel) -> None:
    kernel.ok("x = 1")
    kernel.kill()
    kernel.restart()
    assert kernel.run("x").reply["ename"] == "NameError"


def test_nothing_of_the_user_is_reached(kernel: Kernel) -> None:
    code = (
        "import os; print(*(os.environ[n] for n in ('JUPYTER_CONFIG_DIR', 'XDG_DATA_HOME', 'IPYTHONDIR')), sep='\\n')"
    )
    assert all(line.startswith(kernel.env["JUPYTER_CONFIG_DIR"][:-7]) for line in kernel.ok(code).text.split())
