"""A process of its own around a stored session: ``python resume_child.py MODE FOLDER``.

It writes one JSON line to stdout for each thing that the tests wait for, and one line to ``FOLDER/ran`` whenever a
tool runs.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from stage import AsyncFunctionTool, FunctionTool

from kestrel_nb import ApprovalDecision, Kestrel
from kestrel_nb.protocol.errors import KestrelError
from kestrel_nb.protocol.messages import ToolCallPart
from kestrel_nb.protocol.sessions import CreateSessionRequest
from kestrel_nb.runtime.file_store import FileSessionStore
from kestrel_nb.testing import Reply, ScriptedModel

SESSION = "s1"


def act(name: str, number: int) -> ToolCallPart:
    return ToolCallPart(id=f"{name}-{number}", name=name, arguments={"x": number}, raw_arguments=f'{{"x":{number}}}')


SCRIPTS: dict[str, list[Any]] = {
    "one": [Reply(tool_calls=[act("act", 1)]), "finished"],
    "sequence": [Reply(tool_calls=[act("quick", 1), act("act", 2), act("quick", 3)]), "finished"],
    "parallel": [Reply(tool_calls=[act("together", 1), act("together", 2)]), "finished"],
    "hang": [Reply(tool_calls=[act("hang", 1)]), "finished"],
    "hang auto": [Reply(tool_calls=[act("hang_auto", 1)]), "finished"],
    "begun": [Reply(tool_calls=[act("hang_together", 1), act("together", 2)]), "finished"],
}


def make_app(folder: str | Path, replies: list[Any], **options: Any) -> Kestrel:
    """An application on the store in ``folder``, with tools that leave a line each time they run."""
    ran = Path(folder) / "ran"

    def note(args: Any, context: Any) -> str:
        with ran.open("a") as file:
            file.write(f"{context.call_id}\n")
        return f"did {args['x']}"

    async def hang(args: Any, context: Any) -> str:
        note(args, context)
        say(began=context.call_id)
        await asyncio.sleep(3600)
        return "never"

    tools = [
        FunctionTool("act", note, permission="ask"),
        FunctionTool("quick", note),
        FunctionTool("together", note, permission="ask", parallel_safe=True),
        AsyncFunctionTool("hang", hang, permission="ask"),
        AsyncFunctionTool("hang_auto", hang),
        AsyncFunctionTool("hang_together", hang, parallel_safe=True),
    ]
    store = FileSessionStore(folder)
    return Kestrel(model=ScriptedModel(replies), tools=tools, store=store, workspace=folder, **options)


def say(**fact: Any) -> None:
    sys.stdout.write(json.dumps(fact) + "\n")
    sys.stdout.flush()


async def run(script: str, folder: str) -> None:
    app = make_app(folder, SCRIPTS[script])
    await app.initialize()
    if script == "hang":
        app.events.subscribe("approval.requested", lambda e: app.approvals.resolve(e.request.id, YES))  # type: ignore[attr-defined]
    else:
        app.events.subscribe("approval.requested", lambda e: say(asked=e.request.id))  # type: ignore[attr-defined]
    session = app.sessions.create(CreateSessionRequest(id=SESSION))
    result = await session.start("do it")
    say(status=result.status, text=result.text)
    await app.aclose()


YES = ApprovalDecision(approved=True)


async def answer(approved: bool, folder: str) -> None:
    app = make_app(folder, ["finished"])
    await app.initialize()
    (request,) = app.approvals.pending()
    say(ready=request.id)
    await asyncio.to_thread(sys.stdin.readline)
    session = app.sessions.get(SESSION)
    try:
        app.approvals.resolve(request.id, ApprovalDecision(approved=approved))
    except KestrelError as error:
        say(outcome=error.code)
    else:
        say(outcome="resumed" if session.run else "handed over")
    await session.ended()  # also with an answer that was left before this one
    await app.aclose()


if __name__ == "__main__":
    mode, where = sys.argv[1:]
    asyncio.run(answer(mode == "approve", where) if mode in ("approve", "decline") else run(mode, where))
