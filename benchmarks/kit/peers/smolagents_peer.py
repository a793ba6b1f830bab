"""smolagents: ToolCallingAgent + OpenAIModel (synchronous; fan-out runs in threads)."""

import time

from smolagents import OpenAIModel, ToolCallingAgent, tool
from smolagents.monitoring import LogLevel

SCENARIO = "stepsfa"


@tool
def add(a: int, b: int) -> int:
    """Add two integers.

    Args:
        a: first
        b: second
    """
    return a + b


def setup(url):
    global model
    model = OpenAIModel("fake", api_base=url, api_key="x", client_kwargs={"max_retries": 0})


def agent(n, stream):
    return ToolCallingAgent(
        tools=[add], model=model, max_steps=n + 5, verbosity_level=LogLevel.OFF, stream_outputs=stream
    )


def steps(prompt, n):
    return agent(n, False).run(prompt)


def steps_stream(prompt, n):
    last = None
    for e in agent(n, True).run(prompt, stream=True):
        last = e
    return last.output


def text_stream(prompt):
    first, chars = None, 0
    for d in model.generate_stream([{"role": "user", "content": [{"type": "text", "text": prompt}]}]):
        if d.content:
            if first is None:
                first = time.perf_counter()
            chars += len(d.content)
    return first, chars


def oneshot(prompt):
    return model.generate([{"role": "user", "content": [{"type": "text", "text": prompt}]}]).content
