"""The scripts behind ``make lab`` and ``make test``: what counts as passed, and how JupyterLab is started."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]


def load(name: str) -> ModuleType:
    """A script of .ci as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / ".ci" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("CI", "true")
    return load("check")


def report(folder: Path, **numbers: int) -> Path:
    attributes = " ".join(f'{name}="{number}"' for name, number in numbers.items())
    path = folder / "report.xml"
    path.write_text(f"<testsuites><testsuite {attributes}/></testsuites>")
    return path


def test_counts_come_from_the_report(check: ModuleType, tmp_path: Path) -> None:
    counts = check.read_counts(report(tmp_path, tests=9, failures=1, errors=1, skipped=2), 1)
    assert (counts.passed, counts.failed, counts.skipped, counts.broken, counts.ok) == (5, 2, 2, False, False)
    assert check.read_counts(report(tmp_path, tests=9), 0).ok


def test_no_test_no_report_and_a_strange_exit_are_failures(check: ModuleType, tmp_path: Path) -> None:
    assert not check.read_counts(report(tmp_path, tests=0), 5).ok
    assert not check.read_counts(tmp_path / "none.xml", 0).ok
    assert not check.read_counts(report(tmp_path, tests=3), 3).ok


def test_a_skip_is_a_failure_in_ci_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for ci, good in (("true", False), ("", True)):
        monkeypatch.setenv("CI", ci)
        assert load("check").read_counts(report(tmp_path, tests=3, skipped=1), 0).ok is good


def test_the_closing_line(check: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = check.Counts(passed=5), check.Counts(passed=2, failed=1)
    assert check.summary({"ruff check": check.Counts(), "unit": good})
    assert capsys.readouterr().out.splitlines()[-1] == "5 passed, 0 failed"
    assert not check.summary({"ruff check": check.Counts(broken=True), "unit": good, "browser": bad})
    assert capsys.readouterr().out.splitlines()[-1] == "7 passed, 2 failed"


@pytest.mark.parametrize("skip_as_failure", [True, False])
def test_a_skipped_test_fails_in_ci(skip_as_failure: bool, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text(encoding="utf-8"))
    (tmp_path / "test_sample.py").write_text("import pytest\ndef test_x(): pytest.skip('no browser')\n")
    env = {**os.environ, "CI": "true" if skip_as_failure else "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == (1 if skip_as_failure else 0), done.stdout
    assert ("no browser" in done.stdout) is skip_as_failure


def test_jupyterlab_without_a_screen_stays_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    line = load("lab").command("notebooks/00_quickstart.ipynb")
    assert "--no-browser" in line
    assert "--ServerApp.ip=127.0.0.1" in line
    assert "--LabApp.default_url=/lab/tree/notebooks/00_quickstart.ipynb" in line
    assert ("--allow-root" in line) is (os.geteuid() == 0)


def test_a_python_that_is_missing_or_too_old_is_said_in_one_line(tmp_path: Path) -> None:
    old = tmp_path / "python-old"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    for chosen, said in (("", "Python 3.11 or newer"), (str(old), f"{old} is not Python 3.11 or newer")):
        command = ["make", "-s", f"PYTHON={chosen}", f"VENV={tmp_path}/venv", f"{tmp_path}/venv/bin/python"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert done.returncode != 0
        lines = [line for line in done.stderr.splitlines() if not re.match(r"make(\[\d+\])?:", line)]
        assert len(lines) == 1
        assert lines[0].startswith(said)


def test_what_tests_talk_to_is_pinned_and_names_no_address() -> None:
    lock = json.loads((ROOT / ".ci/peers/package-lock.json").read_text(encoding="utf-8"))
    wanted = json.loads((ROOT / ".ci/peers/package.json").read_text(encoding="utf-8"))["dependencies"]
    for name, version in wanted.items():
        package = lock["packages"][f"node_modules/{name}"]
        assert package["version"] == version
        assert package["integrity"].startswith("sha512-")
    assert not any("://" in path.read_text(encoding="utf-8") for path in (ROOT / ".ci/peers").iterdir())


@pytest.mark.parametrize(
    ("script", "good"),
    [
        ("echo v20.15.0", True),
        ("echo v24.1.0", True),
        ("echo v20.14.9", False),
        ("echo soon", False),
        ("exit 1", False),
    ],
)
def test_a_node_that_is_too_old_is_not_used(script: str, good: bool, tmp_path: Path) -> None:
    node = tmp_path / "node"
    node.write_text(f"#!/bin/sh\n{script}\n")
    node.chmod(0o755)
    assert load("peers").is_new_enough(str(node)) is good
    assert not load("peers").is_new_enough(str(tmp_path / "none"))
