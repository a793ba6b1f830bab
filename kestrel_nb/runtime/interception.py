"""The port through which the replies, answers and results of runs can be recorded and played again.

What stands behind it is asked at three places and no other: for the model of a run, when a call would ask a person, and
when a tool would execute. Look-up, validation, permission, events and the transcript are as ever.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from ..protocol.messages import JsonObject, ToolCallPart
from ..protocol.sessions import AnsweredBy, ApprovalDecision, ApprovalRecord
from ..protocol.tools import ToolSchema
from .execution import Failure, Outcome
from .models import LanguageModel
from .tools import ToolExecutionResult

Played = ToolExecutionResult | Failure
Schemas = Callable[[], Sequence[ToolSchema]]

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")
_SHOWN = 80  # characters of a result in a sentence about it


@dataclass(frozen=True, slots=True, kw_only=True)
class Intercepted:
    """One call of a tool: the arguments that count, and the folder that its session works in."""

    call: ToolCallPart
    schema: ToolSchema
    arguments: JsonObject
    workspace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedAnswer:
    """An answer from a recording, and who had given it."""

    decision: ApprovalDecision
    recorded_by: AnsweredBy


class Interceptor(Protocol):
    """What stands between the runs of an application and the outside."""

    def model(self, id: str, find: Callable[[], LanguageModel], workspace: str, depends: Schemas) -> LanguageModel:
        """The model of a run; ``find`` gives the one that is really there. Raises what ``find`` raises.

        ``depends`` gives the tools that are offered only where what they need is there, offered now or not.
        """
        ...

    def asks(self, call: Intercepted, asks: bool) -> bool:
        """Whether there is a question about this call, which may run; ``asks``: what the rules say."""
        ...

    def answer(self, call: Intercepted) -> PlayedAnswer | None:
        """The recorded answer to the question about exactly this call; None: ask."""
        ...

    def answered(self, call: Intercepted, record: ApprovalRecord) -> None:
        """A question was answered by whom it was put to."""
        ...

    def keeps(self, schema: ToolSchema) -> bool:
        """Whether results of this tool are recorded and played; those of other tools are made anew each time."""
        ...

    def result(self, call: Intercepted, *, asked: bool) -> Played | None:
        """The recorded result of exactly this call; None: execute it. ``asked``: somebody was asked and approved."""
        ...

    def executed(self, call: Intercepted, outcome: Outcome, left: str) -> Outcome:
        """A tool was executed; returns what counts as its outcome. The data in it is JSON. ``left``: see
        ``RepeatingTool``."""
        ...

    @property
    def left(self) -> frozenset[str]:
        """All that was ``left`` by the calls which are recorded."""
        ...


AROUND: ContextVar[Interceptor | None] = ContextVar("kestrel_around", default=None)
"""What records or plays the run whose tool this code belongs to: runs that it begins are a part of that one."""


def otherwise(recorded: Played, now: Outcome) -> str:
    """A sentence when a tool that was run again said something else than was recorded; "" when it did not.

    Addresses of objects differ in each process and count for nothing.
    """
    before, after = _said(recorded), _said(now)
    if _ADDRESS.sub("", before) == _ADDRESS.sub("", after):
        return ""
    pairs = enumerate(zip(before, after, strict=False))
    start = next((place for place, (old, new) in pairs if old != new), min(len(before), len(after)))
    return (
        "gave another result than the recorded one, which is shown: "
        f"recorded {_at(before, start)}, now {_at(after, start)}"
    )


def _said(outcome: Outcome) -> str:
    if isinstance(outcome, Failure):
        return outcome.text
    return outcome.content if isinstance(outcome, ToolExecutionResult) else ""


def _at(text: str, start: int) -> str:
    """A piece of ``text`` around the place ``start``, in quotes."""
    begin = max(0, start - _SHOWN // 4)
    piece = " ".join(text[begin : begin + _SHOWN].split())
    return f'"{"…" if begin else ""}{piece}{"…" if begin + _SHOWN < len(text) else ""}"'
