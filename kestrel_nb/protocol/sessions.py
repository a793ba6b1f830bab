"""Sessions as values: what is asked for, shown, stored and answered."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import Literal

from .messages import ChatMessage, JsonObject
from .tools import PermissionDecision, Preview

RunStatus = Literal["completed", "cancelled", "max_steps"]
AnsweredBy = Literal[
    "button", "stdin", "command", "http", "terminal", "rule", "policy", "timeout", "code", "cassette", "cancel"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one or more model calls; ``input_tokens`` includes cached ones, ``output_tokens`` reasoning."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUsage:
    """What the replies of one model took. ``cost`` is in US dollars and leaves out ``unpriced``, tokens whose price was
    not known."""

    model: str
    usage: Usage = field(default_factory=Usage)
    cost: float = 0.0
    unpriced: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """A model as lists show it. ``context_window`` is in tokens; None means unknown.

    ``max_tools`` is how many tools it can choose among, where more only confuse it. ``every_call_asks`` says that it is
    so often wrong that each of its calls needs an answer, unless a rule lets it run.
    """

    id: str
    provider: str
    label: str | None = None
    context_window: int | None = None
    supports_tools: bool | None = None
    supports_reasoning: bool | None = None
    supports_images: bool | None = None
    max_tools: int | None = None
    every_call_asks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionRule:
    """Says what happens to calls of ``tool``: run, ask, or refuse.

    ``tool`` is a name, ``*``, or ``@changing`` for every tool that is not marked ``read_only``. ``match`` narrows the
    rule: for ``shell`` it is compared word by word with the parsed command (a command with a shell metacharacter never
    matches), for other tools it is a glob over the call's first string argument. The last rule that matches wins, but a
    deny is never overridden. Rules of the user come first, then those of the notebook, then those of the session.
    """

    tool: str
    action: PermissionDecision
    match: str | None = None
    scope: Literal["session", "notebook", "user"] = "session"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """One question to a person about one exact call. Times are seconds since 1970; no ``expires_at``: no limit."""

    id: str
    session_id: str
    run_id: str
    call_id: str
    tool: str
    arguments: JsonObject
    reason: str
    fingerprint: str
    created_at: float
    expires_at: float | None = None
    preview: Preview | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalDecision:
    """The answer. ``arguments`` replaces the call's arguments; ``remember="session"`` allows the tool from now on."""

    approved: bool
    reason: str | None = None
    arguments: JsonObject | None = None
    remember: Literal["session"] | None = None

    def __post_init__(self) -> None:
        # Anything but True declines: a truthy string from a client must not approve.
        if self.approved is not True and self.approved is not False:
            raise ValueError("approved must be True or False")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRecord:
    """A question with its answer, as history keeps it. ``recorded_by``: who gave the answer that a cassette played."""

    request: ApprovalRequest
    decision: ApprovalDecision
    answered_by: AnsweredBy
    at: float
    recorded_by: AnsweredBy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSessionRequest:
    """What a new session starts with; everything left out falls back to the manager's defaults."""

    title: str | None = None
    model: str | None = None
    workspace: str | None = None
    system_prompt: str | None = None
    id: str | None = None
    hidden: bool = False  # scratch sessions of direct tool calls: neither listed nor stored
    tools: tuple[str, ...] | None = None  # names that the model is offered; None: all


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """A session in a list. Times are seconds since 1970."""

    id: str
    title: str
    model: str
    workspace: str
    created_at: float = 0.0
    updated_at: float = 0.0
    message_count: int = 0
    is_running: bool = False
    pending_approvals: int = 0
    tenant_id: str | None = None
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None  # of all its runs in US dollars, None when it is not known


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDetail:
    """Everything of a session that is stored. ``seq`` is the number of its last event.

    ``started`` names the calls that were approved and begun: after a crash they count as interrupted and are never
    run again. ``extra`` holds fields that this version does not know; they are written back unchanged.
    """

    id: str
    title: str = ""
    model: str = ""
    workspace: str = ""
    created_at: float = 0.0
    updated_at: float = 0.0
    tenant_id: str | None = None
    system_prompt: str | None = None
    tools: tuple[str, ...] | None = None
    messages: tuple[ChatMessage, ...] = ()
    rules: tuple[PermissionRule, ...] = ()
    pending: tuple[ApprovalRequest, ...] = ()
    approvals: tuple[ApprovalRecord, ...] = ()
    started: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    spent: tuple[ModelUsage, ...] = ()  # the same tokens by model, with their cost
    run_id: str | None = None  # the run that was going when this was written
    seq: int = 0
    extra: JsonObject = field(default_factory=dict)

    def summary(self, *, is_running: bool = False) -> SessionSummary:
        """The same session as a list shows it."""
        return SessionSummary(
            id=self.id,
            title=self.title,
            model=self.model,
            workspace=self.workspace,
            created_at=self.created_at,
            updated_at=self.updated_at,
            message_count=len(self.messages),
            is_running=is_running,
            pending_approvals=len(self.pending),
            tenant_id=self.tenant_id,
            usage=self.usage,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStep:
    """What one step adds to a stored session: new messages and approvals, and the small fields as they are now."""

    seq: int
    updated_at: float
    run_id: str | None = None
    title: str | None = None
    messages: tuple[ChatMessage, ...] = ()
    approvals: tuple[ApprovalRecord, ...] = ()
    pending: tuple[ApprovalRequest, ...] = ()
    started: tuple[str, ...] = ()
    rules: tuple[PermissionRule, ...] = ()
    usage: Usage = field(default_factory=Usage)
    spent: tuple[ModelUsage, ...] = ()


def apply_step(detail: SessionDetail, step: SessionStep) -> SessionDetail:
    """``detail`` with ``step`` added. Applying a step twice changes nothing more."""
    if step.seq <= detail.seq:
        return detail
    known = {message.id for message in detail.messages[-64:]}
    return replace(
        detail,
        seq=step.seq,
        updated_at=step.updated_at,
        run_id=step.run_id,
        title=step.title if step.title is not None else detail.title,
        messages=(*detail.messages, *(m for m in step.messages if m.id not in known)),
        approvals=(*detail.approvals, *step.approvals),
        pending=step.pending,
        started=step.started,
        rules=step.rules,
        usage=step.usage,
        spent=step.spent,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How a run ended. ``tool_data`` maps a tool's name to the data of its calls, in order.

    ``cost`` is in US dollars, None when a price is not known.
    """

    run_id: str
    status: RunStatus
    usage: Usage = field(default_factory=Usage)
    text: str = ""
    steps: int = 0
    tool_data: JsonObject = field(default_factory=dict)
    cost: float | None = None


def fingerprint(session_id: str, call_id: str, tool: str, arguments: JsonObject) -> str:
    """SHA-256 (hex) over session, call, tool and canonical arguments: what is shown is what runs."""
    # ensure_ascii also carries lone surrogates, which UTF-8 can't.
    text = json.dumps([session_id, call_id, tool, arguments], sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
