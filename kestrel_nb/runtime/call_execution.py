"""The execution of one call: the tool's, or the recorded outcome of exactly this call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..protocol.messages import JsonObject
from .call_data import copied
from .execution import Failure, Outcome, Stopped, execute, in_daemon_thread
from .interception import AROUND, Intercepted, Interceptor, Played, otherwise
from .result_data import ResultData
from .tools import RepeatingTool, Tool, ToolContext, ToolExecutionResult
from .truncation import clean_text


@dataclass(kw_only=True, slots=True)
class CallExecution:
    """One call that may run. ``mask`` hides keys, ``warn`` is told the code and the text of what a person should
    know."""

    tool: Tool
    call: Intercepted
    context: ToolContext
    data: ResultData
    mask: Callable[[str], str]
    warn: Callable[[str, str], None]

    async def outcome(self, port: Interceptor | None, *, asked: bool) -> Outcome:
        """Execute the tool, or play what ``port`` has recorded. ``asked``: somebody was asked and approved."""
        token = AROUND.set(port)
        try:
            if port is None or not port.keeps(self.tool.schema):
                return await self._execute(self.tool)
            played = port.result(self.call, asked=asked)
            if played is not None:
                return await self._played(played, port.left)
            outcome = await self._plain(await self._execute(self.tool))
            return port.executed(self.call, outcome, await self._left(outcome))
        finally:
            AROUND.reset(token)

    async def _execute(self, tool: Tool) -> Outcome:
        return await execute(tool, copied(self.call.arguments), self.context)

    async def _left(self, outcome: Outcome) -> str:
        tool = self.tool
        if not isinstance(tool, RepeatingTool) or not isinstance(outcome, ToolExecutionResult) or outcome.is_error:
            return ""
        try:
            return str(await in_daemon_thread(tool.left, self.call.arguments, self.context))
        except Exception:  # the file is gone again; then it is not known
            return ""

    async def _played(self, played: Played, left: frozenset[str]) -> Outcome:
        """``played``, once what later code needs of the call is done again."""
        tool = self.tool
        if isinstance(tool, RepeatingTool) and isinstance(played, ToolExecutionResult) and not played.is_error:
            again = await self._execute(_Repeated(tool, played, left))
            return again if isinstance(again, Stopped) else played
        if not tool.schema.in_kernel:
            return played
        now = await self._execute(tool)
        if isinstance(now, Stopped):
            return now
        if difference := otherwise(played, now):
            self.warn("played_otherwise", self.mask(f"{tool.schema.name} {difference}"))
        return played

    async def _plain(self, outcome: Outcome) -> Outcome:
        """``outcome`` with its data as JSON, without keys: what may be recorded. Data that is no JSON is left out."""
        if isinstance(outcome, Failure):
            return replace(outcome, text=self.mask(outcome.text))
        if isinstance(outcome, Stopped):
            return outcome
        try:
            data = None if outcome.data is None else (await self.data.json(outcome.data)).value
        except Exception:
            return outcome  # what it is told of that is said where the result is finished
        return replace(outcome, content=self.mask(clean_text(outcome.content)), data=data)


class _Repeated:
    """A tool that does again what a recorded result of it tells of."""

    def __init__(self, tool: RepeatingTool, recorded: ToolExecutionResult, left: frozenset[str]) -> None:
        self.schema, self._tool, self._recorded, self._left = tool.schema, tool, recorded, left

    def execute(self, args: JsonObject, context: ToolContext) -> ToolExecutionResult:
        self._tool.repeat(args, context, self._recorded, self._left)
        return self._recorded
