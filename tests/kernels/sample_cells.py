"""Cells that kernel and browser tests run: an app of the user's with a scripted model and a tool that asks."""

LOAD = "%load_ext kestrel_nb"

HEAD = '''import asyncio, time
from kestrel_nb import Kestrel, tool
from kestrel_nb.testing import Reply, ScriptedModel
notes = []

@tool(permission="ask")
async def note(text: str, times: int = 1) -> str:
    """Write a note.

    Args:
        text: what to write
        times: how often
    """
    notes.append([text, times])
    return f"noted {text} times {times}"

@tool
async def wait(seconds: float) -> str:
    """Wait.

    Args:
        seconds: how long
    """
    await asyncio.sleep(seconds)
    return "waited"

def said():
    """What the model has read of the tools."""
    return [m.content for r in model.requests[-1:] for m in r.messages if m.role == "tool"]
'''


def calling(tool: str, **arguments: object) -> str:
    """A reply that calls a tool, as source text."""
    return f"Reply('I will use {tool}.', tool_calls=[({tool!r}, {arguments!r})])"


def setup(*replies: str) -> str:
    """A cell for after LOAD that uses an app whose model plays ``replies``, given as source text."""
    script = ",\n    ".join(replies)
    model = f"model = ScriptedModel([\n    {script},\n])"
    return f"{HEAD}\n{model}\napp = Kestrel(model=model, tools=[note, wait])\n%kestrel use app"


NOTE_THEN_DONE = (calling("note", text="alpha"), "'All done.'")
ASK = "%%kestrel\nPlease note alpha."
AFTER = "print('after', notes, _.status)"
