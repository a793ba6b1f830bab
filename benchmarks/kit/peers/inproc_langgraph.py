"""langchain's create_agent with a scripted chat model: no HTTP."""

from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool


@tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


class Scripted(BaseChatModel):
    n: int
    count: int = 0

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **kwargs: Any):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        self.count += 1
        if self.count <= self.n:
            m = AIMessage("", tool_calls=[{"name": "add", "args": {"a": self.count, "b": 1}, "id": f"c{self.count}"}])
        else:
            m = AIMessage(f"done {self.n}")
        return ChatResult(generations=[ChatGeneration(message=m)])

    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
        return self._generate(messages)


def setup(url):
    pass


async def steps(prompt, n):
    agent = create_agent(Scripted(n=n), [add], system_prompt="You are helpful.")
    out = await agent.ainvoke({"messages": [{"role": "user", "content": prompt}]}, {"recursion_limit": 2 * n + 10})
    return out["messages"][-1].content
