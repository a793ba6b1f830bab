"""openai-agents with a scripted Model subclass: no HTTP."""

from agents import Agent, Model, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText


@function_tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


class Scripted(Model):
    def __init__(self, n):
        self.n, self.count = n, 0

    async def get_response(self, *args, **kwargs):
        self.count += 1
        if self.count <= self.n:
            item = ResponseFunctionToolCall(
                call_id=f"call_{self.count}",
                name="add",
                type="function_call",
                arguments='{"a": %d, "b": 1}' % self.count,
            )
        else:
            item = ResponseOutputMessage(
                id="m",
                role="assistant",
                status="completed",
                type="message",
                content=[ResponseOutputText(text=f"done {self.n}", type="output_text", annotations=[])],
            )
        return ModelResponse(output=[item], usage=Usage(), response_id=None)

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError


def setup(url):
    set_tracing_disabled(True)


async def steps(prompt, n):
    agent = Agent(name="a", instructions="You are helpful.", tools=[add], model=Scripted(n))
    return (await Runner.run(agent, prompt, max_turns=n + 5)).final_output
