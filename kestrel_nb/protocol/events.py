"""Everything that happens in a session, one frozen dataclass per kind.

``type`` is the name that listeners subscribe to. Every event carries the session, the run (or None), ``seq`` (per
session, without gaps, from 1) and ``at`` (seconds since 1970). These names are API.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from .messages import ChatMessage, JsonObject
from .sessions import AnsweredBy, ApprovalDecision, ApprovalRequest, RunStatus, SessionSummary, Usage
from .tools import JsonValue, TodoItem


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEvent:
    """Base of all events."""

    type: ClassVar[str] = ""
    session_id: str
    run_id: str | None = None
    seq: int = 0
    at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCreated(SessionEvent):
    """A session came into being."""

    type: ClassVar[str] = "session.created"
    summary: SessionSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionUpdated(SessionEvent):
    """Title, model, prompt, messages or time of a session changed."""

    type: ClassVar[str] = "session.updated"
    summary: SessionSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDeleted(SessionEvent):
    """A session was deleted, its stored form too."""

    type: ClassVar[str] = "session.deleted"
    summary: SessionSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRewound(SessionEvent):
    """``removed`` messages were taken back; ``messages`` are left."""

    type: ClassVar[str] = "session.rewound"
    messages: tuple[ChatMessage, ...]
    removed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(SessionEvent):
    """A run began on ``model`` with ``input``; ``resumed`` when it goes on after a restart."""

    type: ClassVar[str] = "run.started"
    model: str
    input: str
    resumed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCompleted(SessionEvent):
    """A run ended by itself, by cancel, or at the step limit."""

    type: ClassVar[str] = "run.completed"
    status: RunStatus
    usage: Usage = field(default_factory=Usage)
    steps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailed(SessionEvent):
    """A run ended with an error of the model, the transport or the runtime."""

    type: ClassVar[str] = "run.failed"
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted(SessionEvent):
    """Model call number ``step`` of the run begins; the first is 1."""

    type: ClassVar[str] = "step.started"
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDelta(SessionEvent):
    """New text of the message ``message_id``."""

    type: ClassVar[str] = "message.delta"
    message_id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningDelta(SessionEvent):
    """New reasoning text of the message ``message_id``."""

    type: ClassVar[str] = "reasoning.delta"
    message_id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageCompleted(SessionEvent):
    """A whole message is in the transcript."""

    type: ClassVar[str] = "message.completed"
    message: ChatMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDelta(SessionEvent):
    """More of a call's argument text arrived."""

    type: ClassVar[str] = "tool.delta"
    call_id: str
    tool: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted(SessionEvent):
    """A call begins to execute, with the arguments it really gets."""

    type: ClassVar[str] = "tool.started"
    call_id: str
    tool: str
    arguments: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProgress(SessionEvent):
    """A status line of a call that is executing."""

    type: ClassVar[str] = "tool.progress"
    call_id: str
    tool: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExecuted(SessionEvent):
    """A call ran. ``content`` is what the model reads, ``data`` is for clients only."""

    type: ClassVar[str] = "tool.executed"
    call_id: str
    tool: str
    content: str
    data: JsonValue = None
    is_error: bool = False
    duration_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFailed(SessionEvent):
    """A call threw, named an unknown tool, or had bad arguments."""

    type: ClassVar[str] = "tool.failed"
    call_id: str
    tool: str
    error: str
    arguments: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSkipped(SessionEvent):
    """A call did not run: ``cause`` says which way, ``reason`` is what the model reads."""

    type: ClassVar[str] = "tool.skipped"
    call_id: str
    tool: str
    reason: str
    cause: Literal["declined", "denied", "cancelled", "not_run", "interrupted", "not_decided"] = "not_run"
    arguments: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequested(SessionEvent):
    """A call waits for a person."""

    type: ClassVar[str] = "approval.requested"
    request: ApprovalRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalResolved(SessionEvent):
    """A question was answered, or closed without an answer. ``recorded_by``: see ``ApprovalRecord``."""

    type: ClassVar[str] = "approval.resolved"
    request: ApprovalRequest
    decision: ApprovalDecision
    answered_by: AnsweredBy
    recorded_by: AnsweredBy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice(SessionEvent):
    """Something that a person should know: a retry wait, a repair, a truncation."""

    type: ClassVar[str] = "notice"
    level: Literal["info", "warning", "error"]
    code: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageUpdated(SessionEvent):
    """The usage of the run so far; ``cost`` in US dollars, None when the price is unknown."""

    type: ClassVar[str] = "usage.updated"
    usage: Usage
    cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TodoUpdated(SessionEvent):
    """The task list of the run as it is now."""

    type: ClassVar[str] = "todo.updated"
    items: tuple[TodoItem, ...]


EVENT_TYPES: tuple[type[SessionEvent], ...] = (
    SessionCreated,
    SessionUpdated,
    SessionDeleted,
    SessionRewound,
    RunStarted,
    RunCompleted,
    RunFailed,
    StepStarted,
    MessageDelta,
    ReasoningDelta,
    MessageCompleted,
    ToolDelta,
    ToolStarted,
    ToolProgress,
    ToolExecuted,
    ToolFailed,
    ToolSkipped,
    ApprovalRequested,
    ApprovalResolved,
    Notice,
    UsageUpdated,
    TodoUpdated,
)
