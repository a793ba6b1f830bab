"""Threads that are used again."""

import os
import threading
import time

import pytest

from kestrel_nb.runtime import threads
from kestrel_nb.runtime.threads import DaemonThreads


def run_and_wait(pool: DaemonThreads) -> int:
    """The thread that a job ran on, once that thread is idle again."""
    seen: list[int] = []
    done = threading.Event()

    def job() -> None:
        seen.append(threading.get_ident())
        done.set()

    pool.run(job)
    assert done.wait(10)
    until(lambda: len(pool._idle) == 1)
    return seen[0]


def until(true: object, limit_s: float = 10) -> None:
    end = time.monotonic() + limit_s
    while not true():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.005)


def test_an_idle_thread_is_used_again_and_a_busy_one_is_not() -> None:
    pool = DaemonThreads("test-threads")
    first = run_and_wait(pool)
    assert run_and_wait(pool) == first
    release, entered = threading.Event(), threading.Event()
    pool.run(lambda: (entered.set(), release.wait(10)))  # type: ignore[arg-type, return-value]
    assert entered.wait(10)
    other = run_and_wait(pool)
    assert other != first
    release.set()


def test_a_thread_without_work_ends(monkeypatch) -> None:
    monkeypatch.setattr(threads, "IDLE_S", 0.05)
    pool = DaemonThreads("test-ending")
    run_and_wait(pool)
    until(lambda: not any(thread.name.startswith("test-ending") for thread in threading.enumerate()))
    assert pool._idle == []
    run_and_wait(pool)  # and another is there when it is needed


def test_many_jobs_at_once_all_run_however_short_the_wait(monkeypatch) -> None:
    monkeypatch.setattr(threads, "IDLE_S", 0.0005)
    pool = DaemonThreads("test-many")
    ran = []
    for number in range(2_000):
        pool.run(lambda number=number: ran.append(number))  # type: ignore[misc]
        if number % 7 == 0:
            time.sleep(0.0005)
    until(lambda: len(ran) == 2_000)
    assert sorted(ran) == list(range(2_000))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own() -> None:
    pool = DaemonThreads("test-fork")
    run_and_wait(pool)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        pool.run(lambda: os.write(writer, b"ran") and None)
        time.sleep(20)
        os._exit(1)
    try:
        os.close(writer)
        assert os.read(reader, 3) == b"ran"
    finally:
        os.close(reader)
        os.kill(child, 9)
        os.waitpid(child, 0)
