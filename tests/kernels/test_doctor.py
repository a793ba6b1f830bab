"""``%kestrel doctor``: what it says where all is well, and that it says something wherever anything is broken."""

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import Kernel, isolated_env, running_kernel
from sample_cells import LOAD

from kestrel_nb.notebook.checkup import LAB, NEEDED

SECRET = "sk-very-secret-1234567890"
LINES = "for line in it.lines:\n    print(line.what, '|', line.level, '|', line.state, '|', line.todo)"
DOCTOR = f"it = %kestrel doctor\n{LINES}"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A kernel where all is well."""
    environment = {"OPENAI_API_KEY": SECRET, "GEMINI_API_KEY": " "}
    with running_kernel(tmp_path_factory.mktemp("doctor"), extra_env=environment) as running:
        running.ok(LOAD, 60)
        yield running


def lines(text: str) -> dict[str, list[str]]:
    """Level, state and what to do, by what was looked at."""
    split = [[word.strip() for word in line.split("|", 3)] for line in text.splitlines() if line.count("|") >= 3]
    return {what: rest for what, *rest in split}


def test_every_line_says_what_and_its_state(kernel: Kernel) -> None:
    found = lines(kernel.ok(DOCTOR).text)
    for what in ("Python", "kestrel-nb", *NEEDED, "jupyterlab", "clicks", "autoawait", "store", "room for sessions"):
        assert found[what][0] == "ok", found[what]
    assert found["shell"][1] == "a Jupyter kernel"
    assert found["headless policy"][1] == "deny (nobody said another)"
    assert found["models"][1] == "demo; the default is demo"
    assert found["nest_asyncio"][1] == "not applied"
    assert found["asking on stdin"][1].startswith("not allowed")
    assert found["insert_cell"][1].startswith("no cell can be inserted here")
    assert all(level in ("ok", "note", "problem") and state for level, state, _ in found.values())


def test_it_shows_itself_and_is_data(kernel: Kernel) -> None:
    shown = kernel.ok("%kestrel doctor").displayed[0]
    assert shown["text/plain"].startswith("No problems\nPython ")
    assert "<table" in shown["text/html"]
    assert kernel.ok("it = %kestrel doctor\nprint(list(it.frame.columns), len(it.frame) == len(it.lines))").text == (
        "['what', 'level', 'state', 'todo'] True\n"
    )


def test_of_keys_it_tells_the_names_only(kernel: Kernel) -> None:
    outcome = kernel.ok(f"{DOCTOR}\nit")
    found = lines(outcome.text)
    assert found["OPENAI_API_KEY"][1].split(";")[0] == "set"
    assert found["ANTHROPIC_API_KEY"][1].split(";")[0] == "not set"
    assert found["GEMINI_API_KEY"][1].split(";")[0] == "set, but empty"
    everything = outcome.text + str(outcome.displayed)
    assert not any(SECRET[start : start + 6] in everything for start in range(len(SECRET) - 5))


def test_it_claims_of_views_only_what_it_knows(kernel: Kernel) -> None:
    assert "run a %%kestrel cell" in lines(kernel.ok(DOCTOR).text)["live view"][1]
    kernel.ok("%%kestrel\nhello")  # without stdin there is no view at all
    assert "run a %%kestrel cell" in lines(kernel.ok(DOCTOR).text)["live view"][1]
    assert kernel.run("%%kestrel\nhello", allow_stdin=True).status == "ok"  # shown, and no page is there
    assert "no page has said" in lines(kernel.ok(DOCTOR).text)["live view"][1]
    stay = "from kestrel_nb import tool\nimport asyncio\n@tool\nasync def stay() -> str:\n    await asyncio.sleep(60)"
    kernel.ok(f"{stay}\n    return ''")
    start = len(kernel.log)
    cell = kernel.execute("%%kestrel -t stay\nuse stay", allow_stdin=True)
    opened = kernel.wait(lambda m: m["msg_type"] == "comm_open" and "page" in str(m["content"]["data"]), 20, start)
    assert opened is not None
    kernel.custom(opened["content"]["comm_id"], {"type": "ready"})
    kernel.custom(opened["content"]["comm_id"], {"type": "stop"})
    assert kernel.outcome(cell).status == "ok"
    assert "widgets work" in lines(kernel.ok(DOCTOR).text)["live view"][1]


def test_settings_and_what_is_switched_off(kernel: Kernel) -> None:
    kernel.ok("%config Kestrel.headless = 'fail'\nimport os\nos.environ['KESTREL_HEADLESS'] = 'approve'")
    assert lines(kernel.ok(DOCTOR).text)["headless policy"][1] == "fail (%config Kestrel.headless)"
    kernel.ok("%config Kestrel.headless = None")
    assert lines(kernel.ok(DOCTOR).text)["headless policy"][1] == "approve (the variable KESTREL_HEADLESS)"
    kernel.ok("os.environ['KESTREL_HEADLESS'] = 'perhaps'")
    level, state, _ = lines(kernel.ok(DOCTOR).text)["headless policy"]
    assert level == "problem"
    assert "is one of deny, approve, fail" in state
    kernel.ok("del os.environ['KESTREL_HEADLESS']\n%autoawait off")
    assert lines(kernel.ok(DOCTOR).text)["autoawait"] == ["problem", "off: cells can't wait for a run", "%autoawait on"]
    kernel.ok("%autoawait on")


def test_the_cell_that_loads_the_extension_may_ask_too(kernel: Kernel) -> None:
    outcome = kernel.ok("%reload_ext kestrel_nb\n%kestrel doctor")
    assert outcome.displayed[0]["text/plain"].startswith("No problems")


def test_versions_that_are_missing_old_or_not_yet_loaded(kernel: Kernel) -> None:
    kernel.ok(
        "from importlib import metadata\nreal = metadata.version\n"
        "def version(name):\n"
        "    if name in ('anywidget', 'kestrel-nb', 'jupyterlab'):\n"
        "        raise metadata.PackageNotFoundError(name)\n"
        "    return {'pandas': '1.5.3', 'ipywidgets': None, 'ipykernel': '99.1'}.get(name, real(name))\n"
        "metadata.version = version"
    )
    found = lines(kernel.ok(DOCTOR).text)
    kernel.ok("metadata.version = real")
    for name in ("anywidget", "ipywidgets"):
        assert found[name][0] == "problem"
        assert found[name][2].startswith(f'pip install -U "{name}>=')
    assert found["pandas"] == ["problem", "1.5.3, too old", 'pip install -U "pandas>=2.2", then restart the kernel']
    assert (found["ipykernel"][0], found["ipykernel"][2]) == ("problem", "restart the kernel")
    assert found["kestrel-nb"][0] == "note"
    assert found["jupyterlab"][0] == "ok"


@pytest.mark.parametrize("code", ["raise ImportError('numpy.dtype size changed')", "raise SystemExit", "x = 1"])
def test_pandas_that_cannot_be_loaded_is_one_line(tmp_path: Path, code: str) -> None:
    (tmp_path / "pandas.py").write_text(code)
    with running_kernel(tmp_path) as kernel:
        kernel.ok(LOAD, 60)
        level, state, todo = lines(kernel.ok(DOCTOR).text)["pandas"]
        assert level == "problem"
        assert "loaded" in state
        assert "pandas.py stands in its way" in todo
        assert kernel.ok("%%kestrel\nlist the files").displayed
        for word in ("models", "sessions", "history", "usage", "events", "approvals"):
            outcome = kernel.run(f"%kestrel {word}")
            assert outcome.status == "error"
            assert outcome.text.startswith("UsageError: tables need pandas")
            assert "Traceback" not in "".join(outcome.reply["traceback"]) + outcome.text
        assert "tables need pandas" in "".join(kernel.run("it.frame").reply["traceback"])


@pytest.mark.parametrize("broken", ["file", "below a file", "sessions is a file"])
def test_a_broken_store(kernel: Kernel, tmp_path: Path, broken: str) -> None:
    store = tmp_path / "store"
    if broken == "sessions is a file":
        store.mkdir()
        (store / "sessions").write_text("x")
    else:
        store.write_text("x")
    home = store / "deeper" if broken == "below a file" else store
    kernel.ok(f"import os\nos.environ['KESTREL_HOME'] = {str(home)!r}\n%reload_ext kestrel_nb")
    found = lines(kernel.ok(DOCTOR).text)
    shown = kernel.ok("%kestrel doctor").displayed[0]["text/plain"]
    kernel.ok("del os.environ['KESTREL_HOME']\n%reload_ext kestrel_nb")
    assert found["store"][0] == "problem", found["store"]
    assert "KESTREL_HOME" in found["store"][2]
    assert found["Python"][0] == "ok"
    assert shown.startswith("1 problem\n")


def test_a_working_folder_that_is_gone(kernel: Kernel) -> None:
    kernel.ok("import os\nwas = os.getcwd()\nos.mkdir('gone')\nos.chdir('gone')\nos.rmdir('../gone')")
    kernel.ok("%reload_ext kestrel_nb")
    found = lines(kernel.ok(DOCTOR).text)
    kernel.ok("os.chdir(was)")
    assert found["workspace"][0] == "problem"
    assert "%cd" in found["workspace"][1]
    assert found["autoawait"][0] == "ok"


PLAIN = f"""
import sys
{{before}}
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_cell({LOAD!r})
shell.run_cell({DOCTOR!r})
shell.run_cell("%kestrel doctor")
"""


@pytest.mark.parametrize("before", ["", "sys.modules['ipykernel'] = None", "sys.modules['anywidget'] = None"])
def test_plain_ipython(tmp_path: Path, before: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PLAIN.format(before=before)],
        cwd=tmp_path,
        env=isolated_env(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "Traceback" not in done.stdout + done.stderr
    found = lines(done.stdout)
    assert found["shell"][1].startswith("IPython in a terminal")
    assert found["clicks"][0] == found["live view"][0] == found["store"][0] == "ok"
    assert "No problems\n" in done.stdout or "sys.modules" in before


def test_the_versions_asked_for_are_those_of_the_package() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    for name, oldest in NEEDED.items():
        if oldest:
            assert any(line.startswith(f"{name}>={oldest}") for line in project["dependencies"]), name
    assert f"jupyterlab>={LAB}" in project["optional-dependencies"]["nb"]


def test_nest_asyncio_is_told_when_it_was_applied(kernel: Kernel) -> None:
    kernel.ok("from kestrel_nb import Kestrel\nKestrel().run_sync('hello')", 60)
    assert lines(kernel.ok(DOCTOR).text)["nest_asyncio"][1].startswith("applied in this kernel")
