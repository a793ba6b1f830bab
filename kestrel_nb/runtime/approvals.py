"""Approvals: the one place where a run waits for a person.

A question is opened before it is announced, so even a listener may answer it. Whoever answers first wins: buttons,
a magic, a terminal, HTTP, a policy, another process or the clock; all of them come through ``resolve``. Later answers
get an ApprovalError. Questions that a stored session left open are restored here: answering one resumes its run.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from ..protocol.errors import ApprovalError, KestrelError
from ..protocol.messages import JsonObject
from ..protocol.sessions import AnsweredBy, ApprovalDecision, ApprovalRecord, ApprovalRequest
from .logs import without_keys
from .signals import CancelSignal

DEFAULT_TIMEOUT_S = 900.0  # the specification's approvals.timeoutMs: 15 minutes
TICK_S = 0.1  # how often an answer from another process is looked for, and an Interrupt can be noticed

ApprovalHandler = Callable[[ApprovalRequest, CancelSignal], "Awaitable[bool | ApprovalDecision]"]
ArgumentsCheck = Callable[[JsonObject], str]  # "" when the edited arguments are good, else what is wrong
AnswerPoll = Callable[[ApprovalRequest], "tuple[ApprovalDecision, AnsweredBy] | None"]


@dataclass(slots=True)
class _Open:
    """A question that waits. ``settle`` takes its record, on whatever thread the answer came from."""

    request: ApprovalRequest
    check: ArgumentsCheck
    settle: Callable[[ApprovalRecord], None]


def _any_arguments(_: JsonObject) -> str:
    return ""


class Question:
    """One open question; ``wait`` gives its answer, and always gives one."""

    def __init__(self, broker: ApprovalBroker, request: ApprovalRequest, check: ArgumentsCheck) -> None:
        self._broker = broker
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[ApprovalRecord] = self._loop.create_future()
        self.request = request
        broker._open(_Open(request, check, self._settle))

    def _settle(self, record: ApprovalRecord) -> None:
        def set_result() -> None:
            if not self._answer.done():
                self._answer.set_result(record)

        self._loop.call_soon_threadsafe(set_result)

    async def wait(
        self, signal: CancelSignal, *, handler: ApprovalHandler | None = None, poll: AnswerPoll | None = None
    ) -> ApprovalRecord:
        """The first answer: a person's, the ``handler``'s, another process's, the clock's, or the cancel's."""
        handling = asyncio.ensure_future(self._handle(handler, signal)) if handler else None
        dispose = signal.on_cancel(self.close)
        try:
            while not self._answer.done():
                await asyncio.wait({self._answer}, timeout=TICK_S)
                self._look(poll)
            return self._answer.result()
        finally:
            dispose()
            if handling:
                handling.cancel()

    def close(self) -> None:
        """Decline it as stopped, unless it was answered."""
        self._close("the run was stopped", "cancel")

    def _look(self, poll: AnswerPoll | None) -> None:
        if _expired(self.request):
            self._close(_no_answer(self.request), "timeout")
        elif poll and not self._answer.done():
            try:
                if left := poll(self.request):
                    self._broker.resolve(self.request.id, left[0], answered_by=left[1])
            except KestrelError as error:
                self._broker.logger.warning("an answer from another process could not be taken: %s", error)

    def _close(self, reason: str, by: AnsweredBy) -> None:
        self._broker.close(self.request.id, reason, by)

    async def _handle(self, handler: ApprovalHandler, signal: CancelSignal) -> None:
        """Let the application's own handler answer; it fails closed."""
        try:
            answer = handler(self.request, signal)
            answered = await answer if inspect.isawaitable(answer) else answer
            decision = (
                answered if isinstance(answered, ApprovalDecision) else ApprovalDecision(approved=answered is True)
            )
        except (Exception, SystemExit) as error:
            self._broker.logger.exception("the approval handler failed")
            reason = f"the approval handler failed ({type(error).__name__}: {error})"
            decision = ApprovalDecision(approved=False, reason=reason)
        except KeyboardInterrupt:
            signal.cancel("interrupted")
            return
        try:
            self._broker.resolve(self.request.id, decision, answered_by="code")
        except ApprovalError as error:
            self._close(str(error), "code")  # somebody was quicker, or the handler's edit does not fit


class ApprovalBroker:
    """The open questions of an application, and those that were answered. ``resolve`` is thread-safe."""

    def __init__(self, *, timeout_s: float | None = DEFAULT_TIMEOUT_S, logger: logging.Logger | None = None) -> None:
        self.timeout_s = timeout_s
        self.logger = without_keys(logger or logging.getLogger("kestrel_nb"))
        self._lock = threading.Lock()
        self._waiting: dict[str, _Open] = {}
        self._history: list[ApprovalRecord] = []

    def pending(self) -> list[ApprovalRequest]:
        """The questions that wait, oldest first."""
        with self._lock:
            return sorted((item.request for item in self._waiting.values()), key=lambda request: request.created_at)

    def history(self) -> list[ApprovalRecord]:
        """The questions that were answered or closed in this process, oldest first."""
        with self._lock:
            return list(self._history)

    def ask(self, request: ApprovalRequest, check: ArgumentsCheck = _any_arguments) -> Question:
        """Open a question; ``check`` judges edited arguments. A restored question of the same id goes on."""
        return Question(self, request, check)

    def restore(
        self, request: ApprovalRequest, settle: Callable[[ApprovalRecord], None], check: ArgumentsCheck = _any_arguments
    ) -> None:
        """Open again what a stored session had left open; ``settle`` is called with its answer, once."""
        # No clock runs while no run waits: the question may be answered days later.
        item = _Open(replace(request, expires_at=None), check, settle)
        with self._lock:
            self._waiting.setdefault(request.id, item)

    def forget(self, id: str) -> None:
        """Drop a restored question without an answer: its session was reloaded or dropped."""
        with self._lock:
            self._waiting.pop(id, None)

    def _open(self, item: _Open) -> None:
        with self._lock:
            self._waiting[item.request.id] = item

    def resolve(
        self,
        id: str,
        decision: ApprovalDecision,
        *,
        answered_by: AnsweredBy = "code",
        recorded_by: AnsweredBy | None = None,
    ) -> ApprovalRecord:
        """Answer the question ``id``; ``recorded_by`` is who gave an answer that is played from a recording.

        Raises ApprovalError: ``approval_not_found``, ``approval_closed`` (somebody was first) or
        ``invalid_arguments`` (the edited arguments don't fit; the question stays open).
        """
        with self._lock:
            item = self._waiting.get(id)
        if item is None:
            raise self._gone(id)
        if not isinstance(decision, ApprovalDecision):
            raise ApprovalError("answer with an ApprovalDecision", code="invalid_arguments")
        if _expired(item.request):
            self.close(id, _no_answer(item.request), "timeout")
            raise self._gone(id)
        if decision.approved and decision.arguments is not None:
            edited = copy.deepcopy(decision.arguments)  # what is checked is what runs
            decision = replace(decision, arguments=edited)
            problem = item.check(edited)
            if problem:
                raise ApprovalError(problem, code="invalid_arguments")
        record = self._take(id, decision, answered_by, recorded_by)
        if record is None:
            raise self._gone(id)
        try:
            item.settle(record)
        except BaseException as error:
            self._put_back(item, record, error)
            raise
        return record

    def _put_back(self, item: _Open, record: ApprovalRecord, error: BaseException) -> None:
        """A stored question's answer could not be taken: it counts for nothing, and the question may be open still."""
        with self._lock:
            if record in self._history:
                self._history.remove(record)
            if getattr(error, "code", "") != "approval_closed":
                self._waiting.setdefault(item.request.id, item)

    def is_open(self, id: str) -> bool:
        """True while the question ``id`` waits."""
        with self._lock:
            return id in self._waiting

    def note(self, record: ApprovalRecord) -> None:
        """Add an answer to the history that was not given by ``resolve``."""
        with self._lock:
            self._history.append(record)

    def close(self, id: str, reason: str, by: AnsweredBy) -> None:
        """Decline the question ``id`` for ``reason`` unless it was answered meanwhile."""
        with self._lock:
            item = self._waiting.get(id)
        record = self._take(id, ApprovalDecision(approved=False, reason=reason), by)
        if item and record:
            item.settle(record)

    def _take(
        self, id: str, decision: ApprovalDecision, by: AnsweredBy, recorded_by: AnsweredBy | None = None
    ) -> ApprovalRecord | None:
        """Claim the question, atomically; None when it was claimed before."""
        with self._lock:
            item = self._waiting.pop(id, None)
            if item is None:
                return None
            if decision.arguments is not None and not decision.approved:
                decision = replace(decision, arguments=None)
            record = ApprovalRecord(
                request=item.request, decision=decision, answered_by=by, at=time.time(), recorded_by=recorded_by
            )
            self._history.append(record)
            return record

    def _gone(self, id: str) -> ApprovalError:
        with self._lock:
            past = next((record for record in self._history if record.request.id == id), None)
            waiting = sorted(self._waiting)
        if past:
            verdict = "approved" if past.decision.approved else "declined"
            return ApprovalError(
                f"that question was already {verdict} ({past.answered_by}); nothing was changed", code="approval_closed"
            )
        hint = f"waiting: {', '.join(waiting)}" if waiting else "nothing waits"
        return ApprovalError(f'no question "{str(id)[:80]}" waits for an answer; {hint}')


def _expired(request: ApprovalRequest) -> bool:
    return request.expires_at is not None and time.time() >= request.expires_at


def _no_answer(request: ApprovalRequest) -> str:
    return f"no answer within {in_words((request.expires_at or request.created_at) - request.created_at)}"


def in_words(seconds: float) -> str:
    """A length of time for a sentence: "15 minutes", "1 second"."""
    count, unit = (round(seconds / 60), "minute") if seconds >= 60 else (max(1, round(seconds)), "second")
    return f"{count} {unit}{'' if count == 1 else 's'}"
