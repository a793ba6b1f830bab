"""What a streamed reply of 5,000 deltas costs the way to the browser: messages and bytes on iopub, kernel CPU.

    python benchmarks/streaming.py

A real kernel runs a ``%%kestrel`` cell with a scripted model; this program plays the front end and says ``ready``
for the view, as its JavaScript does once it is drawn. For comparison the same deltas go through ``print``.
"""

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "kernels"))

from harness import Kernel, parent, running_kernel

DELTAS = 5_000
VIEW = "application/vnd.jupyter.widget-view+json"
LOAD = "%load_ext kestrel_nb"
SETUP = f"""
import time
from kestrel_nb import Kestrel
from kestrel_nb.testing import Reply, ScriptedModel
deltas = ["token "] * {DELTAS}
app = Kestrel(model=ScriptedModel([Reply(deltas=deltas)]))
%kestrel use app
"""
CELLS = {"%%kestrel": "%%kestrel\nstream", "print": "for delta in deltas: print(delta, end='', flush=True)"}


def cpu(kernel: Kernel) -> float:
    """CPU seconds of the kernel so far."""
    return float(kernel.ok("print(time.process_time())").text)


def run(kernel: Kernel, code: str) -> tuple[float, int, int]:
    """Run one cell as a live front end does: wall seconds, iopub messages, bytes of their content."""
    start, begin = time.perf_counter(), len(kernel.log)
    cell = kernel.execute(code, allow_stdin=True)
    shown = kernel.wait(lambda m: VIEW in m["content"].get("data", {}) or is_idle(m, cell), 60, begin)
    if shown and shown["msg_type"] == "display_data":
        kernel.custom(shown["content"]["data"][VIEW]["model_id"], {"type": "ready"})
    kernel.outcome(cell, 120)
    wall = time.perf_counter() - start
    mine = kernel.log[begin:]
    kinds = Counter(m["msg_type"] for m in mine)
    print("   ", dict(kinds))
    return wall, len(mine), sum(len(kernel.client.session.pack(m["content"])) for m in mine)


def is_idle(message: dict, cell: str) -> bool:
    """Whether the message ends the cell."""
    return message["content"].get("execution_state") == "idle" and parent(message) == cell


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, running_kernel(Path(folder)) as kernel:
        kernel.ok(LOAD, 60)
        kernel.ok(SETUP, 60)
        for name, code in CELLS.items():
            before = cpu(kernel)
            wall, messages, size = run(kernel, code)
            used = cpu(kernel) - before
            print(f"{name:12}{messages:7} messages{size / 1e6:8.3f} MB{used:7.2f} s kernel CPU{wall:7.2f} s wall")


if __name__ == "__main__":
    main()
