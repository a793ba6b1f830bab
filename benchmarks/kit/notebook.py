"""Run one cell in a fresh ipykernel and count what a front end would be sent on iopub. No browser.

    python notebook.py 'for i in range(5000): print(i)'
    python notebook.py --setup '%load_ext X' --cell-file cell.txt --ready '{"type": "ready"}'

Run it with the python whose kernel is to be measured (needs ipykernel). --setup runs first and is timed, not counted.
--ready plays a live front end: stdin is allowed, and for every widget view displayed the widget gets this JSON as a
custom message, as from its own JavaScript once drawn. Without it the run looks headless. Bytes are those of all
frames of a message. The counting ends 0.5 s after the cell is idle. --json prints one JSON line instead of text.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

from jupyter_client.manager import start_new_kernel

CPU = "__import__('time').process_time()"
VIEW = "application/vnd.jupyter.widget-view+json"


def reply(kc, msg_id: str, timeout: float) -> dict:
    end = time.monotonic() + timeout
    while True:
        msg = kc.get_shell_msg(timeout=max(0.1, end - time.monotonic()))
        if msg["parent_header"].get("msg_id") == msg_id:
            return msg["content"]


def kernel_cpu(kc) -> float:
    out = reply(kc, kc.execute("", silent=True, user_expressions={"cpu": CPU}), 30)
    return float(out["user_expressions"]["cpu"]["data"]["text/plain"])


def count(kc, code: str, timeout: float, ready=None) -> dict:
    """Execute code; count every iopub message until it is idle and the line has been quiet for half a second."""
    number, size = Counter(), Counter()
    iopub, start, end = kc.iopub_channel.socket, time.perf_counter(), None
    msg_id = kc.execute(code, allow_stdin=ready is not None, stop_on_error=False)
    while True:
        if not iopub.poll(500):
            if end:
                break
            if time.perf_counter() - start > timeout:
                raise TimeoutError(f"the cell was not idle after {timeout} s")
            continue
        frames = iopub.recv_multipart()
        msg = kc.session.deserialize(kc.session.feed_identities(frames)[1])
        kind, content = msg["msg_type"], msg["content"]
        number[kind] += 1
        size[kind] += sum(map(len, frames))
        if kind == "error":
            print("\n".join(content["traceback"]), file=sys.stderr)
        if ready is not None and kind == "display_data" and VIEW in content["data"]:
            kc.shell_channel.send(
                kc.session.msg(
                    "comm_msg",
                    {"comm_id": content["data"][VIEW]["model_id"], "data": {"method": "custom", "content": ready}},
                )
            )
        if kind == "status" and content["execution_state"] == "idle" and msg["parent_header"].get("msg_id") == msg_id:
            end = time.perf_counter()
    return {
        "status": reply(kc, msg_id, 10)["status"],
        "wall": end - start,
        "messages": sum(number.values()),
        "bytes": sum(size.values()),
        "number": dict(number),
        "size": dict(size),
    }


def main() -> None:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("cell", nargs="?", default="")
    ap.add_argument("--cell-file", type=Path, help="the cell's text; what precedes a line '# ---' is the setup")
    ap.add_argument("--setup", default="")
    ap.add_argument("--ready", type=json.loads)
    ap.add_argument("--timeout", type=float, default=120)
    ap.add_argument("--json", action="store_true")
    a = ap.parse_args()
    if a.cell_file:
        head, mark, tail = a.cell_file.read_text().partition("# ---\n")
        a.setup, a.cell = (a.setup + "\n" + head, tail) if mark else (a.setup, head)
    km, kc = start_new_kernel(kernel_name="python3", extra_arguments=["--log-level=ERROR"])
    try:
        out = {"setup": count(kc, a.setup, a.timeout)} if a.setup else {}
        cpu = kernel_cpu(kc)
        while kc.iopub_channel.socket.poll(200):  # what the question above left behind
            kc.iopub_channel.socket.recv_multipart()
        out.update(count(kc, a.cell, a.timeout, a.ready))
        out["cpu"] = kernel_cpu(kc) - cpu
    finally:
        kc.stop_channels()
        km.shutdown_kernel(now=True)
    if a.json:
        print(json.dumps(out))
        return
    if "setup" in out:
        print(f"setup: {out['setup']['status']}, {out['setup']['wall']:.2f} s wall")
    print(
        f"cell: {out['status']}, {out['wall']:.2f} s wall, {out['cpu']:.2f} s kernel cpu, "
        f"{out['messages']} messages, {out['bytes'] / 1e6:.3f} MB on iopub"
    )
    for kind, n in sorted(out["number"].items()):
        print(f"  {kind:24s} {n:6d} messages {out['size'][kind]:10d} bytes")


if __name__ == "__main__":
    main()
