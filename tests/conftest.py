"""Rules for all tests: real browsers come last, nothing is skipped in CI, nothing is left in a person's folders."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

IN_CI = os.environ.get("CI", "").lower() not in ("", "0", "false")
KEY_VARIABLES = ("_API_KEY", "_API_TOKEN")


@pytest.fixture(autouse=True)
def private_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """User folders in a temporary place, and no key of the person who runs the tests."""
    home = tmp_path_factory.getbasetemp() / "home"
    for variable in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        folder = home / variable.lower()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        monkeypatch.setenv(variable, str(folder))
    monkeypatch.setenv("IPYTHONDIR", str(home / "ipython"))
    for name in list(os.environ):
        if name.endswith(KEY_VARIABLES) or name.startswith("KESTREL_MODEL"):
            monkeypatch.delenv(name)


@pytest.fixture
def mark() -> str:
    """A word that stands in the command line of a process and nowhere else."""
    return f"mark-{uuid.uuid4().hex}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Playwright keeps an event loop in this thread, so asynchronous tests must be over before it starts."""
    items.sort(key=lambda item: item.get_closest_marker("browser") is not None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which counts as a failure in CI: {report.longrepr[2]}"
    return report


def repository() -> Path:
    """The root of the checkout."""
    return Path(__file__).resolve().parent.parent
