"""langchain's create_agent (a langgraph graph) + ChatOpenAI."""

import time

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI


@tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def setup(url):
    global agent, plain
    model = ChatOpenAI(model="fake", base_url=url, api_key="x", max_retries=0)
    agent = create_agent(model, [add], system_prompt="You are helpful.")
    plain = create_agent(model, [])


def user(prompt):
    return {"messages": [{"role": "user", "content": prompt}]}


async def steps(prompt, n):
    out = await agent.ainvoke(user(prompt), {"recursion_limit": 2 * n + 10})
    return out["messages"][-1].content


async def steps_stream(prompt, n):
    last = []
    async for chunk, _ in agent.astream(user(prompt), {"recursion_limit": 2 * n + 10}, stream_mode="messages"):
        if chunk.type == "AIMessageChunk":
            if chunk.tool_call_chunks:
                last = []
            elif chunk.content:
                last.append(chunk.content)
    return "".join(last)


async def text_stream(prompt):
    first, chars = None, 0
    async for chunk, _ in plain.astream(user(prompt), stream_mode="messages"):
        if chunk.content:
            if first is None:
                first = time.perf_counter()
            chars += len(chunk.content)
    return first, chars


async def oneshot(prompt):
    return (await plain.ainvoke(user(prompt)))["messages"][-1].content
