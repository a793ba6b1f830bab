"""Ctrl-C in a plain IPython shell: the run ends with its record, and the next one works."""

import subprocess
import sys
from pathlib import Path

from harness import isolated_env
from sample_cells import LOAD, calling, setup

SCRIPT = f"""
import os, signal, threading
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
shell.run_cell({LOAD!r})
shell.run_cell({setup(calling("wait", seconds=30), "'Fine.'")!r})
threading.Timer(1.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
first = shell.run_cell("%%kestrel\\ngo")
second = shell.run_cell("%%kestrel\\ngo")
print("ended:", first.success, type(first.error_in_exec).__name__, second.success)
"""


def test_ctrl_c_leaves_the_record_and_a_free_session(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env=isolated_env(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "Interrupted" in done.stdout
    assert "Fine." in done.stdout
    assert "ended: False CellInterrupted True" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
