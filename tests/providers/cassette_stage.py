"""What tests of cassettes share: an application that records, and one that plays with a model that nobody has here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kestrel_nb import Cassette, Kestrel, ModelRequestError, ToolExecutionResult, ToolSchema
from kestrel_nb.protocol.events import SessionEvent
from kestrel_nb.testing import ScriptedModel

NUMBERS = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


class Counted:
    """A tool that counts how often it ran; ``give`` says what for."""

    def __init__(self, name: str = "measure", give: Callable[[Any], Any] | None = None, **schema: Any) -> None:
        options = {"permission": "ask", "deterministic": False, **schema}
        self.schema = ToolSchema(name=name, description=f"The tool {name}.", parameters=NUMBERS, **options)
        self.ran: list[Any] = []
        self._give = give or (lambda args: ToolExecutionResult(content=f"run {len(self.ran)} of {args['n']}"))

    async def execute(self, args: Any, context: Any) -> Any:
        self.ran.append(dict(args))
        return self._give(args)


async def yes(request: Any, signal: Any) -> bool:
    return True


async def nobody(request: Any, signal: Any) -> bool:
    raise AssertionError(f"asked about {request.tool} {request.arguments}")


async def play(
    path: Path, mode: Any, tools: list[Any], prompts: list[str], **options: Any
) -> tuple[list[Any], list[SessionEvent], Cassette]:
    """The results of ``prompts``, each in a fresh session, and the events."""
    cassette, events = Cassette(path, mode), list[SessionEvent]()
    folder = options.pop("folder", path.parent / "work")
    folder.mkdir(exist_ok=True)
    async with Kestrel(workspace=folder, tools=tools, cassette=cassette, **options) as app:
        app.sessions.subscribe(events.append)
        results = []
        for prompt in prompts:
            try:
                results.append(await app.ask(prompt))
            except ModelRequestError as error:
                results.append(error)
        return results, events, cassette


async def record(path: Path, replies: list[Any], tools: Any = (), prompts: Any = ("go",), **options: Any) -> Any:
    options.setdefault("approve", yes)
    model = ScriptedModel(replies, id="m", delta_chars=4)
    return await play(path, "record", list(tools), list(prompts), model=model, **options)


async def replay(path: Path, tools: Any = (), prompts: Any = ("go",), **options: Any) -> Any:
    """Played with a model that nobody has here."""
    options.setdefault("approve", nobody)
    return await play(path, "replay", list(tools), list(prompts), model="m", **options)


def told(events: list[SessionEvent]) -> list[Any]:
    """What a run told, without ids, times and who answered."""
    skipped = {"session_id", "run_id", "at", "seq", "message_id", "duration_ms", "request", "answered_by"}
    skipped.add("recorded_by")
    rows = []
    for event in events:
        if event.type.startswith("session.") or event.type == "message.completed":
            continue
        rows.append((event.type, {k: getattr(event, k) for k in event.__dataclass_fields__ if k not in skipped}))
    return rows
