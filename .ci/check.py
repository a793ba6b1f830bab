"""Everything a change must pass, stage by stage, with one table of counts at the end.

All stages run even when one fails. The exit status is 0 when each of them passed; with CI=true a skipped test is a
failure too. Arguments name stages to run: ``check.py unit browser``.
"""

import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

PYTHON = [sys.executable, "-m"]
PYTEST = [*PYTHON, "pytest", "-q"]
KERNEL, BROWSER, PEERS = "tests/kernels", "tests/browser", "tests/peers"
USER_FOLDERS = ("XDG_DATA_HOME", "XDG_STATE_HOME", "IPYTHONDIR")
IN_CI = os.environ.get("CI", "").lower() not in ("", "0", "false")

LINT = {
    "ruff check": [*PYTHON, "ruff", "check", "."],
    "ruff format": [*PYTHON, "ruff", "format", "--check", "."],
    "mypy": [*PYTHON, "mypy"],
}
INSTALL = {"peers, installed": [sys.executable, ".ci/peers.py"]}
TESTS = {
    "unit": [*PYTEST, "tests", f"--ignore={KERNEL}", f"--ignore={BROWSER}", f"--ignore={PEERS}"],
    "peers": [*PYTEST, PEERS],
    "kernel": [*PYTEST, KERNEL],
    "notebook": [*PYTEST, "--nbval", "-W", "default", "notebooks"],
    "notebook, again": [*PYTEST, "--nbval", "-W", "default", "notebooks"],
    "browser": [*PYTEST, BROWSER],
}


@dataclass
class Counts:
    """What one stage came to. ``broken``: it failed in a way that no test reports."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    broken: bool = False

    @property
    def ok(self) -> bool:
        return not (self.failed or self.broken or (IN_CI and self.skipped))


def read_counts(report: Path, status: int) -> Counts:
    """Counts from a JUnit report; a run with no test, or that ended without a report, is broken."""
    if not report.exists():
        return Counts(broken=True)
    suite = next(ET.parse(report).getroot().iter("testsuite"))
    tests, failures, errors, skipped = (int(suite.get(key, "0")) for key in ("tests", "failures", "errors", "skipped"))
    failed = failures + errors
    return Counts(tests - failed - skipped, failed, skipped, broken=(status != 0 and not failed) or tests == 0)


def run(name: str, command: list[str], folder: Path, report: Path | None = None) -> Counts:
    """Run one stage with its output passing through, and with user folders below ``folder``."""
    print(f"\n=== {name} ===", flush=True)
    start = time.monotonic()
    env = {**os.environ, **{variable: str(folder / variable.lower()) for variable in USER_FOLDERS}}
    status = subprocess.run([*command, *([f"--junitxml={report}"] if report else [])], env=env, check=False).returncode
    counts = read_counts(report, status) if report else Counts(broken=status != 0)
    counts.seconds = time.monotonic() - start
    return counts


def summary(results: dict[str, Counts]) -> bool:
    """Print the table and the closing line; whether everything passed."""
    print("\n=== summary ===")
    for name, counts in results.items():
        numbers = (
            f"{counts.passed:5} passed {counts.failed:4} failed {counts.skipped:4} skipped" if name in TESTS else ""
        )
        print(f"{name:18}{numbers:38} {counts.seconds:6.0f} s  {'ok' if counts.ok else 'NOT OK'}")
    passed, failed, skipped = (
        sum(getattr(c, key) for c in results.values()) for key in ("passed", "failed", "skipped")
    )
    failed += sum(counts.broken for counts in results.values())
    if IN_CI:
        failed, skipped = failed + skipped, 0
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return all(counts.ok for counts in results.values())


def main(chosen: list[str]) -> bool:
    stages = {**LINT, **INSTALL, **TESTS}
    names = [name for name in stages if not chosen or name.split(",")[0] in chosen]
    results = {}
    with tempfile.TemporaryDirectory() as place:
        for name in names:
            report = Path(place, f"{name}.xml") if name in TESTS else None
            results[name] = run(name, stages[name], Path(place), report)
    return summary(results)


if __name__ == "__main__":
    raise SystemExit(not main(sys.argv[1:]))
