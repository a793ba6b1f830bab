"""What runtime tests share: tools made of functions, a manager around a scripted model, and checks of what came out."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kestrel_nb.protocol.events import SessionEvent
from kestrel_nb.protocol.messages import ChatMessage
from kestrel_nb.protocol.sessions import ApprovalRequest, RunResult
from kestrel_nb.protocol.tools import ToolSchema
from kestrel_nb.runtime.manager import SessionManager, SessionManagerOptions
from kestrel_nb.runtime.models import LanguageModel, ModelRegistry
from kestrel_nb.runtime.session import AgentSession
from kestrel_nb.runtime.tools import ToolContext, ToolExecutionResult, ToolRegistry

ENDINGS = ("tool.executed", "tool.failed", "tool.skipped")
X_OR_NOTHING = {"type": "object", "properties": {"x": {"type": "integer"}}, "additionalProperties": False}


class FunctionTool:
    """A tool around ``function(args, context)``: a plain function, or ``AsyncFunctionTool`` for a coroutine one."""

    def __init__(self, name: str, function: Callable[[Mapping[str, Any], ToolContext], Any], **schema: Any) -> None:
        schema.setdefault("parameters", X_OR_NOTHING)
        self.schema = ToolSchema(name=name, description=name, **schema)
        self.function = function

    def execute(self, args: Mapping[str, Any], context: ToolContext) -> Any:
        return _result(self.function(args, context))


class AsyncFunctionTool(FunctionTool):
    async def execute(self, args: Mapping[str, Any], context: ToolContext) -> Any:
        return _result(await self.function(args, context))


def _result(value: Any) -> Any:
    return ToolExecutionResult(content=value) if isinstance(value, str) else value


class Stage:
    """A manager with one model and some tools, one session of it, and every event that was published."""

    def __init__(self, model: LanguageModel, tools: Iterable[Any] = (), **options: Any) -> None:
        self.models = models = ModelRegistry()
        models.register(model)
        self.model: Any = model
        self.tools = ToolRegistry()
        for tool in tools:
            self.tools.register(tool)
        options.setdefault("default_workspace", tempfile.gettempdir())
        logger = logging.getLogger("stage")
        self.manager = SessionManager(SessionManagerOptions(models=models, tools=self.tools, logger=logger, **options))
        self.events: list[SessionEvent] = []
        self.manager.subscribe(self.events.append)
        self._session: AgentSession | None = None

    @property
    def session(self) -> AgentSession:
        if self._session is None:
            self._session = self.manager.create()
        return self._session

    async def ask(self, text: str = "go", **options: Any) -> RunResult:
        return await self.session.start(text, **options)

    def types(self) -> list[str]:
        return [event.type for event in self.events]

    def of(self, type: str) -> list[Any]:
        return [event for event in self.events if event.type == type]

    async def until(self, type: str, count: int = 1) -> Any:
        """The ``count``-th event of ``type``, once it came."""
        heard = asyncio.Event()
        dispose = self.manager.subscribe(lambda _: heard.set())
        async with asyncio.timeout(20):
            while len(self.of(type)) < count:
                heard.clear()
                await heard.wait()
        dispose()
        return self.of(type)[count - 1]

    async def question(self, count: int = 1) -> ApprovalRequest:
        """The ``count``-th question that was asked."""
        event = await self.until("approval.requested", count)
        request: ApprovalRequest = event.request
        return request

    def check(self) -> None:
        """Everything that must hold for every run, however it ended."""
        seqs = [event.seq for event in self.events]
        assert seqs == list(range(1, len(seqs) + 1))
        assert_valid(self.session.messages)
        assert_endings(self.events, self.session.messages)
        for request in getattr(self.model, "requests", ()):
            assert_valid(request.messages)


def results(messages: Iterable[ChatMessage]) -> list[str]:
    """The contents of all tool results, in order."""
    return [part.content for message in messages for part in message.tool_results]


def assert_valid(messages: Sequence[ChatMessage]) -> None:
    """Every call has exactly one result, in call order, before anything else is said."""
    expected: list[str] = []
    for message in messages:
        if message.role == "tool":
            for part in message.tool_results:
                assert expected, "a result without a call"
                assert part.call_id == expected.pop(0)
        else:
            assert not expected, f"no result of {expected}"
            expected = [call.id for call in message.tool_calls]
    assert not expected, f"no result of {expected}"


def assert_endings(events: Iterable[SessionEvent], messages: Iterable[ChatMessage]) -> None:
    """Exactly one of executed, failed and skipped for each call, and nothing of a call after its end."""
    ended: Counter[str] = Counter()
    for event in events:
        call_id = getattr(event, "call_id", None)
        if event.type in ENDINGS:
            ended[event.call_id] += 1  # type: ignore[attr-defined]
        elif event.type in ("tool.started", "tool.progress"):
            assert not ended[call_id or ""], f"{event.type} after the end of {call_id}"
    calls = [call.id for message in messages for call in message.tool_calls]
    assert ended == Counter(calls)
