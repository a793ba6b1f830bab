"""What one step of a run costs in the process, beside a bare loop that does the least a loop must.

    python benchmarks/step.py

A step is one reply of a model that answers at once and one call of a tool that does nothing, with the store in
memory. The bare loop appends the same messages to a list, hands the model a tuple of them and awaits the same two
coroutines. Printed is CPU time per step of short and of long runs (best of five): it should not grow with the run.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kestrel_nb.protocol.messages import ChatMessage, ToolCallPart, create_message, tool_message
from kestrel_nb.protocol.sessions import ModelInfo
from kestrel_nb.protocol.tools import ToolSchema
from kestrel_nb.runtime.manager import SessionManager, SessionManagerOptions
from kestrel_nb.runtime.models import CompletionRequest, CompletionResponse, ModelRegistry
from kestrel_nb.runtime.prompts import assistant_message
from kestrel_nb.runtime.tools import ToolContext, ToolExecutionResult, ToolRegistry

STEPS = (50, 800)
ROUNDS = 5


class Model:
    """Asks for ``steps`` calls, then says that it is done."""

    info = ModelInfo(id="bench", provider="bench")

    def __init__(self, steps: int) -> None:
        self.left = steps
        self.steps = steps

    async def generate(self, request: CompletionRequest, on_delta: Any = None) -> CompletionResponse:
        if self.left == 0:
            self.left = self.steps
            return CompletionResponse(content="done")
        self.left -= 1
        call = ToolCallPart(id=f"call_{self.left}", name="noop", arguments={"x": 1}, raw_arguments='{"x": 1}')
        return CompletionResponse(content="on it", tool_calls=(call,), finish_reason="tool_calls")


class Noop:
    """A tool that does nothing."""

    schema = ToolSchema(
        name="noop",
        description="Nothing.",
        parameters={"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
    )

    async def execute(self, args: Mapping[str, Any], context: ToolContext) -> ToolExecutionResult:
        return ToolExecutionResult(content="nothing")


async def bare(model: Model) -> None:
    tool = Noop()
    messages: list[ChatMessage] = [create_message("system", "be brief"), create_message("user", "go")]
    while True:
        response = await model.generate(CompletionRequest(model="bench", messages=tuple(messages)))
        messages.append(assistant_message(response))
        if not response.tool_calls:
            return
        for call in response.tool_calls:
            result = await tool.execute(call.arguments or {}, None)  # type: ignore[arg-type]
            messages.append(tool_message(call, result.content))


async def runtime(model: Model) -> None:
    models, tools = ModelRegistry(), ToolRegistry()
    models.register(model)
    tools.register(Noop())
    options = SessionManagerOptions(
        models=models, tools=tools, logger=logging.getLogger("bench"), default_workspace=".", max_steps=10**6
    )
    manager = SessionManager(options)
    manager.subscribe(lambda event: None)
    await manager.create().start("go")
    await manager.close()


def measure(work: Callable[[Model], Awaitable[None]], steps: int) -> float:
    """CPU milliseconds per step."""

    async def main() -> float:
        await work(Model(3))  # imports and caches
        began = time.process_time()
        await work(Model(steps))
        return (time.process_time() - began) * 1000 / steps

    return min(asyncio.run(main()) for _ in range(ROUNDS))


def main() -> None:
    print(f"{'steps':>6}{'bare ms':>10}{'runtime ms':>12}")
    for steps in STEPS:
        print(f"{steps:6}{measure(bare, steps):10.3f}{measure(runtime, steps):12.3f}")


if __name__ == "__main__":
    main()
