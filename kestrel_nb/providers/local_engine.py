"""One loaded GGUF file and the queue of requests to it, shared by all models of that file in this process."""

from __future__ import annotations

import asyncio
import atexit
import itertools
import queue
import threading
from collections.abc import AsyncGenerator, Mapping
from functools import cache
from typing import Any, Final

from ..protocol.errors import CancelledByUser, KestrelError, ModelRequestError
from ..runtime.signals import CancelSignal
from .local_child import Child, Weights

END_S: Final = 5.0  # at exit, for the thread: its process is killed then, so there is nothing it could wait for
_numbers = itertools.count(1)
Heard = Mapping[str, Any] | KestrelError | None


@cache
def engine(weights: Weights) -> Engine:
    """The engine of ``weights``: the same one each time."""
    return Engine(weights)


class _Job:
    """One request on its way. What its caller hears goes through the caller's event loop."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.number = 0
        self.body = body
        self.cancelled = False
        self.heard: asyncio.Queue[Heard] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()

    def tell(self, what: Heard) -> None:
        try:
            self._loop.call_soon_threadsafe(self.heard.put_nowait, what)
        except RuntimeError:  # the loop was closed: nobody waits any more
            self.cancelled = True


class Engine:
    """Answers one request at a time. Its process starts with the first one, and anew after one that ended it."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._child: Child | None = None
        self._current: _Job | None = None
        self._loading = False
        self._closed = False

    async def chunks(
        self, body: Mapping[str, Any], signal: CancelSignal | None
    ) -> AsyncGenerator[Mapping[str, Any], None]:
        """The chunks of the answer to ``body``, as llama.cpp's server streams them.

        Closing this generator, cancelling the task, and cancelling ``signal`` stop the work within one chunk, end a
        process that is still loading, or take the request out of the queue. Raises ModelRequestError and
        CancelledByUser.
        """
        job = _Job(body)
        dispose = signal.on_cancel(lambda: job.tell(CancelledByUser(signal.reason))) if signal else None
        self._submit(job)
        try:
            while (heard := await job.heard.get()) is not None:
                if isinstance(heard, KestrelError):
                    raise heard
                yield heard
        finally:
            if dispose:
                dispose()
            self._cancel(job)

    def close(self) -> None:
        """End the process and the thread. Runs at exit: a thread that reads must not be in the interpreter's way."""
        self._closed = True
        self._jobs.put(None)
        with self._lock:
            if self._child is not None:
                self._child.kill()
        if self._thread is not None:
            self._thread.join(END_S)
            if self._child is not None and not self._thread.is_alive():
                self._child.close()

    def _submit(self, job: _Job) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="kestrel-local", daemon=True)
                self._thread.start()
                atexit.register(self.close)
        self._jobs.put(job)

    def _cancel(self, job: _Job) -> None:
        """Stop ``job`` wherever it is."""
        job.cancelled = True
        with self._lock:
            if self._current is not job or self._child is None:
                return
            if self._loading:  # it hears nothing, and may need minutes or all the memory there is
                self._child.kill()
            else:
                self._child.send({"cancel": job.number})

    # ---- the thread -------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None and not self._closed:
            try:
                if not job.cancelled:
                    self._answer(job)
            except KestrelError as error:
                job.tell(error)
            except Exception as error:  # the thread must live on for the next request
                job.tell(ModelRequestError(f"the local model failed ({type(error).__name__}: {error})"))
                self._end_child()
            finally:
                with self._lock:
                    self._current, self._loading = None, False

    def _answer(self, job: _Job) -> None:
        child = self._loaded(job)
        with self._lock:
            job.number = next(_numbers)
        if job.cancelled:
            return
        child.send({"id": job.number, "body": job.body})
        for message in child.messages():
            if "done" in message:
                job.tell(None)
                return
            if "chunk" in message and not job.cancelled:
                job.tell(message["chunk"])
        text = f'the process with "{self._weights.name}" broke off: {child.last_words()}'
        raise ModelRequestError(text, code="local_model_ended")

    def _end_child(self) -> None:
        with self._lock:
            child, self._child = self._child, None
        if child is not None:
            child.close()

    def _loaded(self, job: _Job) -> Child:
        """The process with the model loaded, started for ``job`` unless it runs. Raises ModelRequestError."""
        with self._lock:
            self._current = job
            if self._child is not None and self._child.alive:
                return self._child
        self._end_child()
        child = self._started(job)
        for message in child.messages():
            if "ready" in message:
                self._loading = False
                return child
        raise ModelRequestError(
            f'llama.cpp can\'t load "{self._weights.name}": {child.last_words()}', code="local_model_not_loaded"
        )

    def _started(self, job: _Job) -> Child:
        with self._lock:
            if self._closed or job.cancelled:
                raise CancelledByUser("nobody waits for the model any more")
            self._loading = True
            self._child = Child(self._weights)
            return self._child
