"""The first thing that runs in a child process: it limits the process, says that it is up, and runs the script.

Run as a script: ``child_start.py SCRIPT PARENT SECONDS MEMORY``. It imports as little as it can, since its start is
part of every call. The process ends by itself when its parent has, or after so many seconds of wall clock or of
computing; MEMORY bytes limit the address space, 0 does not.
"""

import _thread
import os
import sys
import time
from types import ModuleType

WATCH_S = 0.2
MAX_FILES = 32


def watch(parent: int, seconds: int) -> None:
    """End this process when ``parent`` is gone or the time is over. Runs in a thread, beside work that lets it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and (os.name != "posix" or os.getppid() == parent):
        time.sleep(WATCH_S)
    os._exit(1)


def end_with(parent: int) -> None:
    """Let Linux kill this process when its parent ends, whatever it is doing then."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL: linux/prctl.h
        if os.getppid() != parent:
            os._exit(1)


def limit(seconds: int, memory: int) -> None:
    """Take from this process what it does not need, for good."""
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return
    lower(resource, resource.RLIMIT_CPU, seconds)
    lower(resource, resource.RLIMIT_CORE, 0)
    lower(resource, resource.RLIMIT_NOFILE, MAX_FILES)
    lower(resource, getattr(resource, "RLIMIT_NPROC", None), 0)
    if memory:
        lower(resource, getattr(resource, "RLIMIT_AS", None), memory)


def lower(resource: ModuleType, kind: int | None, value: int) -> None:
    """Set one limit, never above what holds already; a platform may not know it, or not allow it."""
    if kind is None:
        return
    try:
        hard = resource.getrlimit(kind)[1]
        least = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (least, least))
    except (OSError, ValueError):
        pass


def main() -> None:
    """Become the script."""
    script, parent, seconds, memory = sys.argv[1], *map(int, sys.argv[2:5])
    end_with(parent)
    _thread.stack_size(256 * 1024)
    _thread.start_new_thread(watch, (parent, seconds))
    limit(seconds, memory)
    with open(script, "rb") as file:
        code = compile(file.read(), script, "exec", dont_inherit=True)
    os.write(1, b"\n")
    exec(code, {"__name__": "__main__", "__file__": script})
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
