"""Notebooks that run without a person: each tool that executes them, under each policy. None hangs, all say so."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

CELLS = ["%load_ext kestrel_nb", "%%kestrel -o run\nrun the command `echo once >> ran.txt`", "print(run.status)"]
SAYS = {
    "deny": "Declined by the policy for notebooks that run without a person (deny).",
    "approve": "Approved by the policy for notebooks that run without a person (approve).",
    "fail": "Declined by the policy for notebooks that run without a person (fail).",
}
NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
LIMIT = 90  # seconds of one program; a hang would last the 15 minutes of an approval
pytestmark = pytest.mark.timeout(4 * LIMIT)


def write(folder: Path, cells: list[str] = CELLS) -> Path:
    """A notebook of ``cells`` in ``folder``."""
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell, id=f"cell-{index}") for index, cell in enumerate(cells)],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    )
    path = folder / "asks.ipynb"
    nbformat.write(notebook, path)
    return path


def run(folder: Path, policy: str | None, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a module of this environment in ``folder`` under ``policy``."""
    env = {name: value for name, value in os.environ.items() if name != "KESTREL_HEADLESS"}
    env |= {"KESTREL_HOME": str(folder / "home"), "IPYTHONDIR": str(folder / "ipython"), "PYTHONWARNINGS": "ignore"}
    if policy:
        env["KESTREL_HEADLESS"] = policy
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, env=env, capture_output=True, text=True, timeout=LIMIT, check=False
    )


def outputs(path: Path, index: int) -> list[dict[str, Any]]:
    """The outputs of a cell of a saved notebook."""
    found: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["cells"][index].get("outputs", [])
    return found


def ran(folder: Path) -> bool:
    return (folder / "ran.txt").exists()


def nbconvert(folder: Path, path: Path, policy: str | None) -> subprocess.CompletedProcess[str]:
    return run(folder, policy, "nbconvert", "--to", "notebook", "--execute", "--output", "done.ipynb", str(path))


def papermill(folder: Path, path: Path, policy: str | None) -> subprocess.CompletedProcess[str]:
    return run(folder, policy, "papermill", "-k", "python3", str(path), "done.ipynb")


@pytest.mark.parametrize("policy", ["deny", "approve", "fail"])
@pytest.mark.parametrize("execute", [nbconvert, papermill], ids=lambda tool: tool.__name__)
def test_each_policy_ends_and_is_recorded(tmp_path: Path, execute: Any, policy: str) -> None:
    done = execute(tmp_path, write(tmp_path), policy)
    assert (done.returncode == 0) is (policy != "fail"), done.stderr[-2000:]
    assert ran(tmp_path) is (policy == "approve")
    if policy == "fail" and execute is nbconvert:  # writes no file for a notebook that failed
        assert 'shell needs an approval, and the policy for runs without a person is "fail"' in done.stderr
        return
    first, *more = outputs(tmp_path / "done.ipynb", -2)  # papermill puts a cell about the failure first
    assert first["output_type"] == "display_data"
    assert set(first["data"]) == {"text/html", "text/markdown", "text/plain"}
    record = "".join(first["data"]["text/plain"])
    assert SAYS[policy] in record
    assert record.startswith("Failed" if policy == "fail" else "Finished")
    assert ('the policy for runs without a person is "fail".' in record) is (policy == "fail")
    assert [output["output_type"] for output in more] == (["error"] if policy == "fail" else [])


def test_without_a_word_the_policy_is_deny(tmp_path: Path) -> None:
    done = nbconvert(tmp_path, write(tmp_path), None)
    assert done.returncode == 0, done.stderr[-2000:]
    (output,) = outputs(tmp_path / "done.ipynb", 1)
    assert SAYS["deny"] in "".join(output["data"]["text/plain"])
    assert not ran(tmp_path)
    assert "widgets" not in json.loads((tmp_path / "done.ipynb").read_text("utf-8"))["metadata"]


def test_a_cell_may_choose_for_itself(tmp_path: Path) -> None:
    cells = [CELLS[0], CELLS[1].replace("-o run", "-o run --headless approve"), CELLS[2]]
    assert nbconvert(tmp_path, write(tmp_path, cells), "deny").returncode == 0
    (output,) = outputs(tmp_path / "done.ipynb", 1)
    assert SAYS["approve"] in "".join(output["data"]["text/plain"])
    assert ran(tmp_path)


def test_a_policy_that_is_none_is_one_line(tmp_path: Path) -> None:
    done = nbconvert(tmp_path, write(tmp_path), "maybe")
    assert done.returncode != 0
    assert 'KESTREL_HEADLESS is one of deny, approve, fail, not "maybe"' in done.stderr


def test_nbval_compares_strictly_twice(tmp_path: Path) -> None:
    """An executed notebook passes strict comparison, in two fresh kernels."""
    path = write(tmp_path)
    for policy in ("deny", "approve"):
        assert nbconvert(tmp_path, path, policy).returncode == 0
        for _ in range(2):
            done = run(tmp_path, policy, "pytest", "--nbval", "done.ipynb", "-q", "-p", "no:cacheprovider")
            assert done.returncode == 0, done.stdout[-3000:]


def test_the_notebook_on_your_data_says_its_policy_itself(tmp_path: Path) -> None:
    shutil.copytree(NOTEBOOKS / "data", tmp_path / "data")
    shutil.copy(NOTEBOOKS / "01_your_data.ipynb", tmp_path / "done.ipynb")
    done = run(tmp_path, "fail", "pytest", "--nbval", "done.ipynb", "-q", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout[-3000:]


def test_nbval_ends_under_the_policy_that_fails_too(tmp_path: Path) -> None:
    path = write(tmp_path)
    assert nbconvert(tmp_path, path, "deny").returncode == 0
    done = run(tmp_path, "fail", "pytest", "--nbval", "done.ipynb", "-q", "-p", "no:cacheprovider")
    assert done.returncode == 1
    assert "the policy for runs without a person is" in done.stdout
    assert not ran(tmp_path)


def test_the_export_to_html_shows_the_record(tmp_path: Path) -> None:
    assert nbconvert(tmp_path, write(tmp_path), "deny").returncode == 0
    assert run(tmp_path, None, "nbconvert", "--to", "html", "done.ipynb").returncode == 0
    page = (tmp_path / "done.html").read_text("utf-8")
    assert "Declined" in page
    assert 'class="kestrel-view' in page
    assert "kestrel-button" not in page.split("<body", 1)[1].split("kestrel-view", 1)[1]
