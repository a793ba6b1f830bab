"""Running code on the loop's thread so that the process belongs to it only while it is on the stack.

``Inside`` puts what the code shall find (a display hook, no standard input, no way to end the kernel) in its place
each time the code is entered and takes it away when it returns or awaits: a cell that runs meanwhile finds the shell
as it is. ``Stopper`` ends code that runs too long or was interrupted, and does so again when the code takes no notice.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from types import FrameType, TracebackType
from typing import Any, NoReturn, Protocol

from ..runtime.signals import CancelSignal

LOOK_S = 0.25  # how often the watch looks
AGAIN_S = 0.5  # after which code that took no notice is stopped again
TRIES = 5  # awaits of code that takes no notice of being cancelled; then it is closed

_set_handler = signal.signal  # the code finds another one, see ``stand_ins``

WHAT_IS_THERE: Any = object()

_ABSENT: Any = object()


class Place(Protocol):
    """Something of the process that is one thing for the code and another for everybody else."""

    def get(self) -> Any: ...
    def set(self, value: Any) -> None: ...


class Attribute:
    """An attribute, missing or not."""

    def __init__(self, owner: Any, name: str) -> None:
        self._owner, self._name = owner, name

    def get(self) -> Any:
        """What it is."""
        return getattr(self._owner, self._name, _ABSENT)

    def set(self, value: Any) -> None:
        """Make it so."""
        if value is not _ABSENT:
            setattr(self._owner, self._name, value)
        elif hasattr(self._owner, self._name):
            delattr(self._owner, self._name)


class Method(Attribute):
    """A method of one object: what its class says when it is missing."""

    def get(self) -> Any:
        """What the object itself says."""
        return vars(self._owner).get(self._name, _ABSENT)

    def set(self, value: Any) -> None:
        """Make it so."""
        if value is not _ABSENT:
            setattr(self._owner, self._name, value)
        elif self._name in vars(self._owner):
            delattr(self._owner, self._name)


class Item:
    """A key of a dict."""

    def __init__(self, owner: dict[str, Any], name: str) -> None:
        self._owner, self._name = owner, name

    def get(self) -> Any:
        """What stands there."""
        return self._owner.get(self._name, _ABSENT)

    def set(self, value: Any) -> None:
        """Put it there."""
        if value is not _ABSENT:
            self._owner[self._name] = value
        else:
            self._owner.pop(self._name, None)


class Inside:
    """``with inside:`` around each stretch of the code. ``places``: with what the code finds there at first, or
    WHAT_IS_THERE; what it puts there itself it finds again the next time."""

    def __init__(self, places: Sequence[tuple[Place, Any]], around: Callable[[], AbstractContextManager[Any]]) -> None:
        self._places = [place for place, _ in places]
        self._own: list[Any] = [value for _, value in places]
        self._others: list[Any] = []
        self._around = around
        self._open: AbstractContextManager[Any] | None = None
        self._process = os.getpid()
        self.stopper: Stopper | None = None

    def __enter__(self) -> None:
        self._others = [place.get() for place in self._places]
        for place, own in zip(self._places, self._own, strict=True):
            if own is not WHAT_IS_THERE:
                place.set(own)
        self._open = self._around()
        self._open.__enter__()
        if self.stopper is not None:
            self.stopper.enter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if os.getpid() != self._process:  # a child must not go on as a second kernel
            _end_process(error)
        if self.stopper is not None:
            self.stopper.leave()
        if self._open is not None:
            self._open.__exit__(None, None, None)
        self._own = [place.get() for place in self._places]
        for place, other in zip(self._places, self._others, strict=True):
            with suppress(Exception):  # the code may have made it unwritable
                place.set(other)

    def left(self) -> Mapping[Place, Any]:
        """What the code has left in each place."""
        return dict(zip(self._places, self._own, strict=True))


def _end_process(error: BaseException | None) -> NoReturn:
    if isinstance(error, SystemExit):
        os._exit(error.code if type(error.code) is int else int(error.code is not None))
    os._exit(int(error is not None and not isinstance(error, StopIteration)))


class Stopper:
    """Watches code that runs in ``task``. ``file``: the name of its source, by which its frames are known."""

    def __init__(self, file: str, limit_s: float, stop: CancelSignal) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._loop = task, task.get_loop()
        self._file, self._limit_s, self._stop = file, limit_s, stop
        self._lock = threading.Lock()
        self._inside = self._sent = False
        self._before: Any = None
        self._over = threading.Event()
        self._cancels = 0
        self.timed_out = False
        self.interrupted = False

    def __enter__(self) -> Stopper:
        self._deadline = time.monotonic() + self._limit_s
        threading.Thread(target=self._watch, name="kestrel-python-watch", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def settle(self) -> bool:
        """After a CancelledError: True when it was the time limit alone that cancelled."""
        for _ in range(self._cancels):
            self._task.uncancel()
        self._cancels = 0
        return self.timed_out and not self._stop.cancelled and not self._task.cancelling()

    def enter(self) -> None:
        """The code goes on the stack: Interrupt reaches it now, as it reaches any cell."""
        self._before = _set_handler(signal.SIGINT, self._on_interrupt)
        self._inside = True

    def leave(self) -> None:
        """The code is off the stack. A signal on its way is heard first: ``signal.signal`` sees to that."""
        with self._lock:
            self._inside = False
        with suppress(KeyboardInterrupt):
            _set_handler(signal.SIGINT, self._before)
            return
        _set_handler(signal.SIGINT, self._before)

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._sent:
            self._sent = False
        else:
            self.interrupted = True
            if callable(self._before):
                self._before(number, frame)
        if self._in_code(frame):
            raise KeyboardInterrupt

    def _in_code(self, frame: FrameType | None) -> bool:
        while frame is not None:
            if frame.f_code.co_filename == self._file:
                return True
            frame = frame.f_back
        return False

    def _watch(self) -> None:
        """In a thread of its own: the loop's may be busy with the code."""
        while not self._over.wait(LOOK_S):
            self.timed_out = self.timed_out or time.monotonic() > self._deadline
            if self.timed_out or self.interrupted or self._stop.cancelled:
                self._end()
                self._over.wait(AGAIN_S)

    def _end(self) -> None:
        with self._lock:
            if self._inside:
                self._sent = True
                _interrupt_main()
                return
        with suppress(RuntimeError):  # the loop was closed
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if not self._over.is_set():
            self._cancels += 1
            self._task.cancel()


def _interrupt_main() -> None:
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:
        signal.pthread_kill(main, signal.SIGINT)
        return
    import _thread

    _thread.interrupt_main()


class Stepping:
    """Awaits ``work`` with every stretch of it inside."""

    def __init__(self, work: Coroutine[Any, Any, Any], inside: Inside) -> None:
        self._work, self._inside = work, inside

    def __await__(self) -> Generator[Any, Any, Any]:
        work, error, got, tries = self._work, None, None, 0
        while True:
            try:
                with self._inside:
                    yielded = work.send(got) if error is None else work.throw(error)
            except StopIteration as done:
                return done.value
            if tries > TRIES:
                with suppress(RuntimeError), self._inside:
                    work.close()
                raise asyncio.CancelledError
            got = error = None
            try:
                got = yield yielded
            except GeneratorExit:
                with self._inside:
                    work.close()
                raise
            except BaseException as thrown:
                error = thrown
                tries += isinstance(thrown, asyncio.CancelledError)


_ended_in: set[int] = set()


def end_children_of(loop: asyncio.AbstractEventLoop, is_ours: Callable[[], bool]) -> None:
    """See that a process which code forks from a task of its own ends when it comes back to ``loop``."""
    if id(loop) in _ended_in or not hasattr(os, "register_at_fork"):
        return
    _ended_in.add(id(loop))

    def in_child() -> None:
        if is_ours():
            with suppress(RuntimeError):
                loop.call_soon(os._exit, 0)

    os.register_at_fork(after_in_child=in_child)
