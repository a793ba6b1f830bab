"""What ``import kestrel_nb`` costs over bare Python, and ``%load_ext kestrel_nb`` over an empty IPython.

    python benchmarks/imports.py

CPU seconds (user and system) of whole processes. The commands are run in turn, so that a busy moment of the machine
meets all of them; printed are medians of seven rounds after one that warms the file cache, and their ratios.
"""

import os
import statistics
import subprocess
import sys
import tempfile

ROUNDS = 7
IPYTHON = [sys.executable, "-m", "IPython", "--no-banner", "--no-confirm-exit", "-c"]
COMMANDS = {
    "bare Python": [sys.executable, "-c", "pass"],
    "import kestrel_nb": [sys.executable, "-c", "import kestrel_nb"],
    "from kestrel_nb import Kestrel": [sys.executable, "-c", "from kestrel_nb import Kestrel"],
    "empty IPython": [*IPYTHON, "pass"],
    "%load_ext kestrel_nb": [*IPYTHON, "%load_ext kestrel_nb"],
}
BASES = {
    "import kestrel_nb": "bare Python",
    "from kestrel_nb import Kestrel": "bare Python",
    "%load_ext kestrel_nb": "empty IPython",
}


def cpu_seconds(command: list[str], env: dict[str, str]) -> float:
    """CPU time of one process and its children. Raises RuntimeError with its output when it fails."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        said = output.read().decode()
    if process.returncode or "Error" in said:
        raise RuntimeError(f"{' '.join(command)}\n{said}")
    return usage.ru_utime + usage.ru_stime


def measure() -> dict[str, float]:
    """Median CPU seconds per command."""
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "IPYTHONDIR": folder, "XDG_DATA_HOME": folder}
        for _ in range(ROUNDS + 1):
            for name, command in COMMANDS.items():
                taken[name].append(cpu_seconds(command, env))
    return {name: statistics.median(times[1:]) for name, times in taken.items()}


def main() -> None:
    medians = measure()
    print(f"{'':32}{'CPU ms':>8}{'more ms':>9}{'ratio':>7}")
    for name, seconds in medians.items():
        base = medians[BASES.get(name, name)]
        more = f"{(seconds - base) * 1000:9.0f}{seconds / base:6.2f}x" if name in BASES else ""
        print(f"{name:32}{seconds * 1000:8.0f}{more}")


if __name__ == "__main__":
    main()
