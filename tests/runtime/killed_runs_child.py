"""Works runs until it is killed: ``python killed_runs_child.py FOLDER FIRST COUNT``.

COUNT sessions at a time, each with a run of many steps. When a step is over, its session and number go to stdout.
"""

import asyncio
import random
import sys
from collections.abc import Iterator

from stage import FunctionTool

from kestrel_nb import Kestrel
from kestrel_nb.protocol.events import SessionEvent, StepStarted
from kestrel_nb.protocol.sessions import CreateSessionRequest
from kestrel_nb.runtime.file_store import FileSessionStore
from kestrel_nb.testing import Reply, ScriptedModel

STEPS = 200


def replies() -> Iterator[Reply]:
    for number in range(STEPS):
        yield Reply(f"step {number + 1}", tool_calls=[("act", {"x": number})] * random.randint(1, 3))


def say(name: str, step: int) -> None:
    sys.stdout.write(f"{name} {step}\n")
    sys.stdout.flush()


def tell(event: SessionEvent) -> None:
    """The start of a step says that the one before it is over."""
    if isinstance(event, StepStarted) and event.step > 1:
        say(event.session_id, event.step - 1)


async def main() -> None:
    say("ready", 0)
    folder, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    tool = FunctionTool("act", lambda args, _: f"did {args['x']}")
    app = Kestrel(tools=[tool], store=FileSessionStore(folder), workspace=folder)
    app.sessions.subscribe(tell)
    names = [f"s{number}" for number in range(first, first + count)]
    for name in names:
        app.models.register(ScriptedModel(list(replies()), id=name))
    await asyncio.gather(
        *(app.sessions.create(CreateSessionRequest(id=name, model=name)).start("go") for name in names)
    )


asyncio.run(main())
