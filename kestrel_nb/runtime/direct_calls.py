"""A tool called by code instead of by a model, and why a tool can't be had."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..protocol.codec import dumps, jsonable, parse_call
from ..protocol.errors import SandboxViolationError, ToolCallError
from ..protocol.messages import new_id
from ..protocol.suggest import suggestion
from .plugins import PluginRegistry
from .session import AgentSession
from .tool_policy import ToolPolicy
from .tools import ToolRegistry, missing


async def call_directly(
    session: AgentSession, name: str, arguments: Mapping[str, Any] | None, *, answers: bool = False
) -> Any:
    """The data of one call, or its content when it has none.

    An error object ``{error: True, ...}`` is data like any other, as is everything of a tool that ``answers`` its
    failures. Raises ToolCallError for a call that did not run or failed, with the code of the tool's own error.
    """
    call = parse_call(new_id("call"), name, dumps(jsonable(arguments or {})))
    outcome = await session.use_tool(call)
    is_object = isinstance(outcome.data, Mapping) and (answers or outcome.data.get("error") is True)
    if outcome.state != "executed" or (outcome.is_error and not is_object):
        kind = SandboxViolationError if outcome.content.startswith("SANDBOX_VIOLATION") else ToolCallError
        raise kind(outcome.content, code=outcome.code)
    return outcome.content if outcome.data is None else outcome.data


def why_not(name: str, tools: ToolRegistry, plugins: PluginRegistry, policy: ToolPolicy) -> str | None:
    """Why no model can be offered the tool ``name``, in one line that says what can be done; None when one can."""
    tool = tools.get(name)
    if tool is not None:
        lack = missing(tool)
        return policy.refusal(name) or (lack and f'the tool "{name}" can\'t work yet: {lack}')
    absent = plugins.absent_tools().get(name)
    if absent is not None:
        return f'the tool "{name}" is not there, {absent.why}; to have it: {absent.remedy}'
    names = [schema.name for schema in tools.schemas() if policy.refusal(schema.name) is None]
    hint = suggestion(name, [*names, *plugins.absent_tools()], f"tools: {', '.join(names)}")
    return f'no tool "{name}"; {hint}'
