"""The parent's end of the process that holds a GGUF file: lines to it, lines from it, and why it ended."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .lines import JsonLineSplitter

WORKER: Final = Path(__file__).with_name("local_worker.py")
READ_BYTES: Final = 65_536
ERROR_BYTES: Final = 16_384  # of what llama.cpp wrote; the first error tells most
END_S: Final = 5.0  # for a process whose output has ended
_LOGGED = re.compile(r"^[\d.]+ E (.*)$", re.MULTILINE)
_WHERE = re.compile(r"^(?:\S+ +\S+: |\S+: )(?:error loading model: )?")


@dataclass(frozen=True, slots=True)
class Weights:
    """What is loaded: the real path of a GGUF file, the context in tokens, the threads."""

    path: str
    context: int
    threads: int

    @property
    def name(self) -> str:
        """The path as it can stand in a line of text."""
        return on_one_line(self.path)


class Child:
    """One running process. Its messages are read by one thread; anyone may send."""

    def __init__(self, weights: Weights) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (open as long as the process runs)
        self._earlier = 0  # bytes of errors before the last message: of requests that are over
        self._splitter = JsonLineSplitter()
        self._lines: list[bytes] = []
        self._sending = threading.Lock()  # a long line is written in pieces
        # -P: beside the script lie modules with the names of standard ones.
        command = [sys.executable, "-P", str(WORKER), weights.path, str(weights.context), str(weights.threads)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=self._errors, bufsize=0, env=_environment()
        )

    @property
    def alive(self) -> bool:
        """True until the process has ended."""
        return self._process.poll() is None

    def send(self, message: Mapping[str, Any]) -> None:
        """Write one line; nothing happens when the process is gone: whoever reads notices."""
        rest = json.dumps(message).encode("ascii") + b"\n"
        assert self._process.stdin is not None
        with self._sending, suppress(OSError, ValueError):
            self._earlier = os.fstat(self._errors.fileno()).st_size
            while rest:
                rest = rest[self._process.stdin.write(rest) or 0 :]

    def messages(self) -> Iterator[dict[str, Any]]:
        """What the process tells, from where the last reader left off, until it ends."""
        assert self._process.stdout is not None
        while True:
            while self._lines:
                yield json.loads(self._lines.pop(0))
            data = self._process.stdout.read(READ_BYTES)
            if not data:
                return
            self._lines += self._splitter.feed(data)

    def kill(self) -> None:
        """End the process at once; whoever reads its messages comes to their end."""
        self._process.kill()

    def close(self) -> None:
        """End the process, collect it, and close what belongs to it. Nobody may be reading."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    def last_words(self) -> str:
        """Why the process ended, as far as that is known: what llama.cpp says, else how it ended. It is closed then."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_S)
        self._process.kill()
        status = self._process.wait()
        self._errors.seek(self._earlier)
        text = self._errors.read(ERROR_BYTES).decode("utf-8", "replace")
        self.close()
        found = _LOGGED.search(text)
        if found:
            return _WHERE.sub("", found[1]).strip()
        if status < 0:
            return f"its process was ended by {_signal_name(-status)}"
        lines = text.strip().splitlines()
        return lines[-1].strip() if lines else f"its process ended with status {status}"


def on_one_line(path: str) -> str:
    """``path`` with what can't be printed spelled out: a line break, half of a surrogate pair."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in path)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _environment() -> dict[str, str]:
    """This process's environment; the child imports what this process can, and ggml starts no debugger if it aborts."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return {**os.environ, "PYTHONPATH": path, "GGML_NO_BACKTRACE": "1"}
