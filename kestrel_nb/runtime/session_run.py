"""One run of a session from its start to its end: completed, cancelled, at the step limit, or failed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from ..protocol.errors import KestrelError
from ..protocol.events import RunCompleted, RunFailed
from ..protocol.messages import ChatMessage
from ..protocol.sessions import RunResult, RunStatus, Usage
from .loop import RUN_ENDED, LoopHost, RunLoop
from .models import LanguageModel
from .retry import RetryOptions
from .run import Run
from .secrets import Masker
from .signals import until_cancelled
from .tool_calls import ToolCalls


class RunHost(LoopHost, Protocol):
    """What a run needs of its session."""

    def append(self, message: ChatMessage) -> ChatMessage: ...
    def leave_questions(self) -> None: ...
    def rest(self) -> None: ...
    async def drain(self) -> None: ...
    async def settle_cost(self) -> None: ...
    @property
    def run_cost(self) -> float | None: ...


@dataclass(kw_only=True, slots=True)
class RunWork:
    """The work behind one ``Run``. ``find_model`` is asked once the plugins are ``ready``."""

    run: Run
    host: RunHost
    calls: ToolCalls
    ready: Callable[[], Awaitable[None]]
    find_model: Callable[[], LanguageModel]
    max_steps: int
    retry: RetryOptions
    masker: Masker
    logger: logging.Logger
    resumed: bool = False
    loop: RunLoop | None = None

    async def work(self) -> None:
        """Work the run; its end is told by events and by ``run.done``, never by an exception."""
        signal = self.run.signal
        try:
            status = await self._work()
        except asyncio.CancelledError:
            signal.cancel("the event loop is closing")
            self._complete("cancelled")
            await self.host.drain()  # a loop that closes ends what it does not wait for
            raise
        except KeyboardInterrupt:
            signal.cancel("interrupted")
            self._complete("cancelled")
        except BaseException as error:
            if signal.cancelled:
                self._complete("cancelled")
            else:
                self._fail(error)
        else:
            self._complete(status)

    async def _work(self) -> RunStatus:
        signal = self.run.signal
        await until_cancelled(self.ready(), signal)
        self.loop = RunLoop(
            host=self.host,
            model=self.find_model(),
            calls=self.calls,
            signal=signal,
            max_steps=self.max_steps,
            retry=self.retry,
        )
        status = await self.loop.work(resume=self.resumed)
        if status != "cancelled":
            await until_cancelled(self.host.settle_cost(), signal)
        return status

    def _complete(self, status: RunStatus) -> None:
        loop = self.loop
        usage, steps = (loop.usage, loop.steps) if loop else (Usage(), 0)
        self._answer_rest()
        self.host.emit(RunCompleted, status=status, usage=usage, steps=steps)
        result = RunResult(
            run_id=self.run.run_id,
            status=status,
            usage=usage,
            text=loop.text if loop else "",
            steps=steps,
            tool_data=loop.tool_data if loop else {},
            cost=self.host.run_cost,
        )
        self.host.rest()
        self.run.end(result)

    def _fail(self, error: BaseException) -> None:
        self._answer_rest()
        # A server may echo the key that it refused, and the error ends up in a traceback below a cell.
        for one in _chain(error):
            one.args = tuple(self.masker.mask(part) if isinstance(part, str) else part for part in one.args)
        if isinstance(error, KestrelError):
            code, text = error.code, self.masker.mask(str(error))
        else:
            code, text = "internal_error", self.masker.mask(f"{type(error).__name__}: {error}")
            self.logger.error("a run failed", exc_info=error)
        self.host.emit(RunFailed, code=code, message=text)
        self.host.rest()
        self.run.end(error if isinstance(error, Exception) else RuntimeError(text))

    def _answer_rest(self) -> None:
        """A run that ended before its loop began leaves no call without a result either, and no question open."""
        self.host.leave_questions()
        for call in self.host.unanswered():
            self.host.append(self.calls.leave(call, RUN_ENDED, "not_run").message)


def _chain(error: BaseException) -> list[BaseException]:
    """An error and those that it came from; a traceback shows them all."""
    found, waiting = list[BaseException](), [error]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.append(one)
            waiting += [other for other in (one.__cause__, one.__context__) if other is not None]
            waiting += one.exceptions if isinstance(one, BaseExceptionGroup) else ()
    return found
