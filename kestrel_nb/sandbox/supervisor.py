"""The process between Kestrel and a command: it caps output, keeps the time limit and leaves no process behind.

Run as a script with the standard library alone. It reads one JSON line from its standard input: ``command``, ``shell``,
``environment``, ``cwd`` (a descriptor or a path), ``timeout_s``, ``max_bytes`` (per stream). It writes frames to its
standard output, each a letter, a length of four bytes (big-endian) and that many bytes: ``p`` is the process group of
the command, ``o`` and ``e`` carry output, the last one, ``x``, is a JSON object with ``exit_code``, ``reason`` (ended,
timeout, cancelled), ``stdout_bytes`` and ``stderr_bytes``. The input stays open meanwhile: when more comes or it ends,
because a run was cancelled or Kestrel died, the command is ended too. A process that Kestrel forked may hold the input
open after Kestrel's death, so that is looked for as well.

On Linux it is a "child subreaper": processes that left the session of the command come back to it when their parent
ends, so that they are found by walking the children. Elsewhere such processes may escape.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import struct
import subprocess
import sys
import time
from typing import Any

KILLED = 128 + signal.SIGTERM  # 143, what a shell reports for a command that was told to end
BLOCK = 65_536
TERM_GRACE_S = {"timeout": 0.5, "cancelled": 0.15, "ended": 0.15}  # a cancelled run has to stop within a second
OWNER_S = 0.5  # how often to look whether Kestrel lives
LAST_READ_S = 0.25  # how long to read what stands in the pipes after the command has ended


class Supervisor:
    """One command from start to the last of its processes."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.owner = os.getppid()
        self.selector = selectors.DefaultSelector()
        self.totals = {"o": 0, "e": 0}

    def run(self) -> None:
        """Start the command, pass its output on, and report how it ended."""
        become_subreaper()
        wake, woken = os.pipe()
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        child = self.start()
        self.selector.register(0, selectors.EVENT_READ, "control")
        self.selector.register(wake, selectors.EVENT_READ, "child")
        reason = self.watch(child)
        if reason == "ended":
            self.read_for(LAST_READ_S)
        code = child.returncode if reason == "ended" else None
        end_all(TERM_GRACE_S[reason], child)
        if reason != "ended":
            self.read_for(LAST_READ_S)
        self.report(reason, KILLED if code is None else code if code >= 0 else 128 - code)

    def start(self) -> subprocess.Popen[bytes]:
        """The shell, in a session of its own, without standard input."""
        cwd = self.order["cwd"]
        os.fchdir(cwd) if isinstance(cwd, int) else os.chdir(cwd)
        if isinstance(cwd, int):
            os.close(cwd)
        out = os.dup(1)  # the command's own standard output is another one
        child = subprocess.Popen(
            [self.order["shell"], "-c", self.order["command"]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.order["environment"],
            start_new_session=True,
            preexec_fn=lambda: send("p", str(os.getpid()).encode(), out),  # told before the command can do anything
        )
        os.close(out)
        for pipe, kind in ((child.stdout, "o"), (child.stderr, "e")):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                self.selector.register(pipe.fileno(), selectors.EVENT_READ, kind)
        return child

    def watch(self, child: subprocess.Popen[bytes]) -> str:
        """Pass output on until the shell ends, the time is over, or the control pipe ends: says which."""
        deadline = time.monotonic() + self.order["timeout_s"]
        while child.poll() is None:
            left = deadline - time.monotonic()
            if left <= 0:
                return "timeout"
            if os.getppid() != self.owner:
                return "cancelled"
            for key, _ in self.selector.select(min(left, OWNER_S)):
                if key.data == "control":
                    return "cancelled"
                if key.data == "child":
                    os.read(key.fd, BLOCK)
                else:
                    self.pass_on(key.fd, key.data)
        return "ended"

    def read_for(self, seconds: float) -> None:
        """Pass on what is in the pipes now: a process left in the background may hold them open, or write for ever."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            ready = [key for key, _ in self.selector.select(0) if key.data in self.totals]
            if not ready:
                return
            for key in ready:
                self.pass_on(key.fd, key.data)

    def pass_on(self, pipe: int, kind: str) -> None:
        """Read once; forward what is below the cap, count everything."""
        try:
            data = os.read(pipe, BLOCK)
        except BlockingIOError:
            return
        if not data:
            self.selector.unregister(pipe)
            return
        room = max(0, self.order["max_bytes"] - self.totals[kind])
        self.totals[kind] += len(data)
        if room:
            send(kind, data[:room])

    def report(self, reason: str, code: int) -> None:
        """The last frame."""
        totals = {"stdout_bytes": self.totals["o"], "stderr_bytes": self.totals["e"]}
        send("x", json.dumps({"exit_code": code, "reason": reason, **totals}).encode())


def send(kind: str, data: bytes, out: int = 1) -> None:
    """Write one frame. When nobody reads any more, go on: the processes still have to be ended."""
    frame = memoryview(kind.encode() + struct.pack(">I", len(data)) + data)
    with contextlib.suppress(BrokenPipeError):
        while frame:
            frame = frame[os.write(out, frame) :]


def become_subreaper() -> None:
    """Let orphaned descendants come back to this process (Linux 3.4 and later)."""
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER, linux/prctl.h


def end_all(grace_s: float, child: subprocess.Popen[bytes]) -> None:
    """Tell every descendant to end, and after ``grace_s`` seconds kill what is left, also what is born meanwhile."""
    signal_all(signal.SIGTERM, child)
    deadline = time.monotonic() + grace_s
    while time.monotonic() < deadline and not all_ended(child):
        time.sleep(0.01)
    deadline = time.monotonic() + 2
    while not all_ended(child) and time.monotonic() < deadline:
        signal_all(signal.SIGSTOP, child)  # what is stopped can't fork while the others are being killed
        signal_all(signal.SIGKILL, child)
        time.sleep(0.005)


def signal_all(number: int, child: subprocess.Popen[bytes]) -> None:
    """Send a signal to every descendant and to the command's process group."""
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, number)
    for pid in descendants():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def all_ended(child: subprocess.Popen[bytes]) -> bool:
    """Collect what has ended; True when no descendant is left."""
    child.poll()
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return False
            if pid == child.pid:
                child.returncode = os.waitstatus_to_exitcode(status)
    return True


def descendants() -> list[int]:
    """The processes below this one, parents before children."""
    children: dict[int, list[int]] = {}
    for pid, parent in process_table():
        children.setdefault(parent, []).append(pid)
    found, waiting = [], [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def process_table() -> list[tuple[int, int]]:
    """Every process with its parent."""
    if not os.path.exists("/proc/self/stat"):
        lines = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True).stdout.split("\n")
        return [(int(pid), int(parent)) for pid, parent in (line.split() for line in lines if line.strip())]
    table = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                # The name of the program stands in parentheses and may hold anything, parentheses too.
                table.append((int(name), int(file.read().rpartition(b")")[2].split()[1])))
    return table


def main() -> None:
    """Read the order and carry it out, unless it was taken back already."""
    order, ended, rest = b"", b"", b""
    while not ended:
        data = os.read(0, BLOCK)
        if not data:
            return
        order, ended, rest = (order + data).partition(b"\n")
    try:
        supervisor = Supervisor(json.loads(order))
        supervisor.report("cancelled", KILLED) if rest else supervisor.run()
    except OSError as error:
        send("x", json.dumps({"problem": f"{error.strerror}: {error.filename}"}).encode())


if __name__ == "__main__":
    main()
