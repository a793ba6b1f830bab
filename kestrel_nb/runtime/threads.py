"""Daemon threads that are used again: starting one costs more than most tools take.

None of them keeps the process alive, and a job that never ends holds its own thread only.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

IDLE_S = 5.0  # how long a thread without work waits for the next job before it ends

Job = Callable[[], None]


class DaemonThreads:
    """Runs each job at once: on a thread that is idle, else on a new one. Jobs must not raise."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)  # a child has none of its parent's threads

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[SimpleQueue[Job]] = []

    def run(self, job: Job) -> None:
        """Begin ``job`` now."""
        with self._lock:
            inbox = self._idle.pop() if self._idle else None
        if inbox is None:
            threading.Thread(target=self._work, args=(job,), name=self._name, daemon=True).start()
        else:
            inbox.put(job)

    def _work(self, job: Job | None) -> None:
        inbox: SimpleQueue[Job] = SimpleQueue()
        while job is not None:
            threading.current_thread().name = self._name
            job()
            del job  # an idle thread keeps nothing of its last job alive
            threading.current_thread().name = f"{self._name}, idle"
            with self._lock:
                self._idle.append(inbox)
            job = self._next(inbox)

    def _next(self, inbox: SimpleQueue[Job]) -> Job | None:
        try:
            return inbox.get(timeout=IDLE_S)
        except Empty:
            with self._lock:
                if inbox in self._idle:
                    self._idle.remove(inbox)
                    return None
            return inbox.get()  # somebody took this thread a moment ago: its job is on the way
