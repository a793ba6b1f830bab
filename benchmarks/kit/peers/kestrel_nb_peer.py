"""kestrel-nb: Kestrel with its file store, argument validation, and one subscriber that reads every event."""

import tempfile
import time

from kestrel_nb import CreateSessionRequest, FileSessionStore, Kestrel, tool
from kestrel_nb.providers import OpenAIChatModel
from kestrel_nb.runtime.run import RunOptions


@tool(permission="auto")
def add(a: int, b: int) -> int:
    """Add two integers.

    Args:
        a: the one
        b: the other
    """
    return a + b


async def setup(url):
    global app, folder
    folder = tempfile.TemporaryDirectory()
    whole = OpenAIChatModel("fake", id="whole", base_url=url, api_key="x", stream=False)
    app = Kestrel(
        model=OpenAIChatModel("fake", id="streamed", base_url=url, api_key="x"),
        workspace=folder.name,
        tools=[add],
        store=FileSessionStore(folder.name + "/sessions"),
    )
    app.models.register(whole)
    app.sessions.subscribe(read)
    await app.initialize()


async def close():
    await app.aclose()
    folder.cleanup()


def read(event):
    """The subscriber that reads them all."""
    return event.type, event.seq


async def run(model, prompt, tools=(), max_steps=50, listener=None):
    session = app.sessions.create(CreateSessionRequest(model=model, tools=tools, system_prompt="You are helpful."))
    if listener is not None:
        session.subscribe(listener)
    return (await session.start(prompt, options=RunOptions(max_steps=max_steps))).text


async def steps(prompt, n):
    return await run("whole", prompt, ("add",), n + 5)


async def steps_stream(prompt, n):
    return await run("streamed", prompt, ("add",), n + 5)


async def text_stream(prompt):
    first, chars = None, 0

    def heard(event):
        nonlocal first, chars
        if event.type == "message.delta":
            if first is None:
                first = time.perf_counter()
            chars += len(event.text)

    await run("streamed", prompt, listener=heard)
    return first, chars


async def oneshot(prompt):
    return await run("whole", prompt)
