"""pydantic-ai with its own FunctionModel: no HTTP."""

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import UsageLimits


def setup(url):
    pass


async def steps(prompt, n):
    count = 0

    def model(messages, info):
        nonlocal count
        count += 1
        if count <= n:
            return ModelResponse(parts=[ToolCallPart("add", '{"a": %d, "b": 1}' % count, f"call_{count}")])
        return ModelResponse(parts=[TextPart(f"done {n}")])

    agent = Agent(FunctionModel(model), system_prompt="You are helpful.")

    @agent.tool_plain
    def add(a: int, b: int) -> int:
        return a + b

    return (await agent.run(prompt, usage_limits=UsageLimits(request_limit=None))).output
