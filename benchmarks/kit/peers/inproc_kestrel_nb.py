"""kestrel-nb with a scripted model: no HTTP, sessions in memory."""

from kestrel_nb import CreateSessionRequest, Kestrel, tool
from kestrel_nb.protocol.codec import parse_call
from kestrel_nb.runtime.run import RunOptions
from kestrel_nb.testing import Reply, ScriptedModel


@tool(permission="auto")
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def setup(url):
    global app
    app = Kestrel(model=ScriptedModel([]), tools=[add])
    app.sessions.subscribe(lambda event: event.seq)


async def steps(prompt, n):
    replies = [Reply(tool_calls=[parse_call(f"call_{i}", "add", f'{{"a": {i}, "b": 1}}')]) for i in range(n)]
    app.models.register(ScriptedModel([*replies, f"done {n}"]), replace=True)
    request = CreateSessionRequest(model="scripted", tools=("add",), system_prompt="You are helpful.")
    session = app.sessions.create(request)
    return (await session.start(prompt, options=RunOptions(max_steps=n + 5))).text
