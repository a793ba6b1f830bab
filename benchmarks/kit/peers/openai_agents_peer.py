"""openai-agents: Agent + Runner over chat completions, tracing off."""

import time

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI


@function_tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def setup(url):
    global agent, plain
    set_tracing_disabled(True)
    model = OpenAIChatCompletionsModel("fake", AsyncOpenAI(base_url=url, api_key="x", max_retries=0))
    agent = Agent(name="a", instructions="You are helpful.", tools=[add], model=model)
    plain = Agent(name="p", model=model)


async def steps(prompt, n):
    return (await Runner.run(agent, prompt, max_turns=n + 5)).final_output


async def steps_stream(prompt, n):
    r = Runner.run_streamed(agent, prompt, max_turns=n + 5)
    async for _ in r.stream_events():
        pass
    return r.final_output


async def text_stream(prompt):
    first, chars = None, 0
    r = Runner.run_streamed(plain, prompt)
    async for e in r.stream_events():
        if e.type == "raw_response_event" and e.data.type == "response.output_text.delta":
            if first is None:
                first = time.perf_counter()
            chars += len(e.data.delta)
    return first, chars


async def oneshot(prompt):
    return (await Runner.run(plain, prompt)).final_output
