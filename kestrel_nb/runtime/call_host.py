"""What the calls of a run stand on: their session, and what the application decided for all calls."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..protocol.events import SessionEvent
from ..protocol.sessions import ApprovalRecord, ApprovalRequest, PermissionRule
from ..protocol.tools import ToolSchema
from .approvals import AnswerPoll, ApprovalBroker, ApprovalHandler
from .interception import Interceptor
from .permissions import PermissionResolver
from .secrets import Masker
from .tool_policy import ToolPolicy
from .tools import ToolRegistry, ToolSession


class CallHost(ToolSession, Protocol):
    """What a call needs of its session."""

    @property
    def rules(self) -> tuple[PermissionRule, ...]: ...
    def offers(self, name: str) -> bool: ...
    def offered(self) -> Sequence[ToolSchema]: ...
    def emit(self, kind: type[SessionEvent], **fields: Any) -> None: ...
    def add_rule(self, rule: PermissionRule) -> None: ...
    async def question_opened(self, request: ApprovalRequest) -> None: ...
    async def question_closed(self, record: ApprovalRecord) -> None: ...
    async def call_started(self, call_id: str, *, asked: bool) -> bool: ...
    async def keep_data(self, name: str, text: str) -> str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSettings:
    """What the application decides for all calls. ``to_data`` turns values such as DataFrames into JSON data;
    ``intercept`` says, for each run as it begins, what records or plays it."""

    tools: ToolRegistry
    broker: ApprovalBroker
    logger: logging.Logger
    masker: Masker
    resolve_permission: PermissionResolver | None = None
    approve: ApprovalHandler | None = None
    poll_answer: AnswerPoll | None = None
    to_data: Callable[[Any], Any] | None = None
    policy: ToolPolicy = field(default_factory=ToolPolicy)
    intercept: Callable[[], Interceptor | None] | None = None
