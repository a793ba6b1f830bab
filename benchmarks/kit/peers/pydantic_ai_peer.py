"""pydantic-ai: Agent + OpenAIChatModel, one tool."""

import time

from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits

NO_LIMIT = UsageLimits(request_limit=None)


def setup(url):
    global agent, plain
    model = OpenAIChatModel(
        "fake", provider=OpenAIProvider(openai_client=AsyncOpenAI(base_url=url, api_key="x", max_retries=0))
    )
    agent = Agent(model, system_prompt="You are helpful.")
    plain = Agent(model)

    @agent.tool_plain
    def add(a: int, b: int) -> int:
        """Add two integers."""
        return a + b


async def steps(prompt, n):
    return (await agent.run(prompt, usage_limits=NO_LIMIT)).output


async def steps_stream(prompt, n):
    async def handler(ctx, events):
        async for _ in events:
            pass

    return (await agent.run(prompt, usage_limits=NO_LIMIT, event_stream_handler=handler)).output


async def text_stream(prompt):
    first, parts = None, []
    async with plain.run_stream(prompt, usage_limits=NO_LIMIT) as r:
        async for piece in r.stream_text(delta=True, debounce_by=None):
            if first is None:
                first = time.perf_counter()
            parts.append(piece)
    return first, len("".join(parts))


async def oneshot(prompt):
    return (await plain.run(prompt)).output
