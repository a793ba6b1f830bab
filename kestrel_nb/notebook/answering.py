"""Which road an approval takes to a person: buttons, stdin as well, or the declared policy where nobody is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Literal, Protocol, get_args

from ..protocol.errors import ApprovalError
from ..protocol.events import ApprovalRequested, ApprovalResolved, SessionEvent
from ..protocol.sessions import ApprovalDecision, ApprovalRequest
from ..runtime.approvals import ApprovalBroker
from .summaries import arguments_line, arguments_text, is_whole
from .visible import dense
from .waiting import ask_stdin

HeadlessPolicy = Literal["deny", "approve", "fail"]
POLICIES: tuple[str, ...] = get_args(HeadlessPolicy)
HANDSHAKE_S = 5.0  # a page that has not drawn the view by then may not be able to: stdin asks as well


class Drawn(Protocol):
    """A view that says when a browser has drawn it."""

    @property
    def ready(self) -> asyncio.Event: ...


class PolicyAnswers:
    """Answers at once, as declared: for notebooks that run without a person. ``failed_on`` tells of policy "fail"."""

    def __init__(self, broker: ApprovalBroker, policy: HeadlessPolicy, stop: Callable[[], object]) -> None:
        self._broker = broker
        self._policy = policy
        self._stop = stop
        self.failed_on: ApprovalRequest | None = None

    def on_event(self, event: SessionEvent) -> None:
        """Answer a question."""
        if not isinstance(event, ApprovalRequested):
            return
        decision = ApprovalDecision(approved=self._policy == "approve", reason=self._policy)
        with contextlib.suppress(ApprovalError):  # a handler of the application's was quicker
            self._broker.resolve(event.request.id, decision, answered_by="policy")
            if self._policy == "fail":
                self.failed_on = event.request
                self._stop()

    def close(self) -> None:
        """Nothing is open."""


class PersonAnswers:
    """Buttons answer by themselves; this asks on stdin as well when no browser draws the view in time."""

    def __init__(self, broker: ApprovalBroker, view: Drawn | None) -> None:
        self._broker = broker
        self._view = view
        self._asking: dict[str, asyncio.Task[None]] = {}
        self.used_stdin = False  # no browser drew the view in time: this front end may have none

    def on_event(self, event: SessionEvent) -> None:
        """Begin to ask, or stop asking what was answered."""
        if isinstance(event, ApprovalRequested) and self._broker.is_open(event.request.id):
            self._asking[event.request.id] = asyncio.ensure_future(self._ask(event.request))
        elif isinstance(event, ApprovalResolved) and (task := self._asking.pop(event.request.id, None)):
            task.cancel()

    def close(self) -> None:
        """Stop asking."""
        for task in self._asking.values():
            task.cancel()
        self._asking.clear()

    async def _ask(self, request: ApprovalRequest) -> None:
        if self._view is not None:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._view.ready.wait(), HANDSHAKE_S)
                return
        self.used_stdin = True
        try:
            reply = await ask_stdin(question(request))
        except EOFError:
            reply = ""  # Ctrl-D: whoever is there does not want it
        except (OSError, NotImplementedError):
            return  # the question stays open for the other roads
        with contextlib.suppress(ApprovalError):
            self._broker.resolve(request.id, read_reply(reply), answered_by="stdin")


def question(request: ApprovalRequest) -> str:
    """The question in one line of text; what that line cannot hold stands above it, in full."""
    line = arguments_line(request.arguments)
    if is_whole(line):
        return f"May it run {request.tool} {line}? [y/N, or n and a reason] "
    text = dense(arguments_text(request.arguments))
    return f"{request.tool} asks to run with this:\n{text}\nMay it run {request.tool}? [y/N, or n and a reason] "


def read_reply(reply: str) -> ApprovalDecision:
    """``y`` or ``yes`` approves; anything else declines, with what stands after ``n`` as the reason."""
    words = reply.strip().split(maxsplit=1)
    if words and words[0].lower() in ("y", "yes") and len(words) == 1:
        return ApprovalDecision(approved=True)
    if words and words[0].lower().rstrip(",:") in ("n", "no"):
        words = words[1:]
    return ApprovalDecision(approved=False, reason=" ".join(words) or None)
