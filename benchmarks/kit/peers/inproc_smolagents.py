"""smolagents with a scripted Model subclass: no HTTP."""

from smolagents import ToolCallingAgent, tool
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole, Model
from smolagents.monitoring import LogLevel


@tool
def add(a: int, b: int) -> int:
    """Add two integers.

    Args:
        a: first
        b: second
    """
    return a + b


class Scripted(Model):
    def __init__(self, n):
        super().__init__(model_id="scripted")
        self.n, self.count = n, 0

    def generate(self, messages, **kwargs):
        self.count += 1
        if self.count <= self.n:
            f = ChatMessageToolCallFunction(name="add", arguments={"a": self.count, "b": 1})
        else:
            f = ChatMessageToolCallFunction(name="final_answer", arguments={"answer": f"done {self.n}"})
        return ChatMessage(
            role=MessageRole.ASSISTANT,
            content="",
            tool_calls=[ChatMessageToolCall(id=f"c{self.count}", type="function", function=f)],
        )


def setup(url):
    pass


def steps(prompt, n):
    return ToolCallingAgent(tools=[add], model=Scripted(n), max_steps=n + 5, verbosity_level=LogLevel.OFF).run(prompt)
