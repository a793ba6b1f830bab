"""Cells that kernel and browser tests run: an app of the user's with a scripted model and a tool that asks."""

HEAD = '''%load_ext kestrel_nb
import asyncio, time
from kestrel_nb import Kestrel, ToolSchema, ToolExecutionResult
from kestrel_nb.testing import Reply, ScriptedModel
notes = []

class Note:
    schema = ToolSchema(name="note", description="Write a note.", permission="ask", parameters={"type": "object",
        "properties": {"text": {"type": "string", "description": "what to write"}, "times": {"type": "integer", "default": 1}}, "required": ["text"]})
    async def execute(self, args, context):
        text, times = args["text"], args.get("times", 1)
        notes.append([text, times])
        return ToolExecutionResult(content=f"noted {text} times {times}")

class Wait:
    schema = ToolSchema(name="wait", description="Wait.", parameters={"type": "object", "properties": {"seconds": {"type": "number"}}})
    async def execute(self, args, context):
        await asyncio.sleep(args["seconds"])
        return ToolExecutionResult(content="waited")
note, wait = Note(), Wait()

def said():
    """What the model has read of the tools."""
    return [m.content for r in model.requests[-1:] for m in r.messages if m.role == "tool"]
'''


def calling(tool: str, **arguments: object) -> str:
    """A reply that calls a tool, as source text."""
    return f"Reply('I will use {tool}.', tool_calls=[({tool!r}, {arguments!r})])"


def setup(*replies: str) -> str:
    """A cell that loads the extension and uses an app whose model plays ``replies``, given as source text."""
    script = ",\n    ".join(replies)
    model = f"model = ScriptedModel([\n    {script},\n])"
    return f"{HEAD}\n{model}\napp = Kestrel(model=model, tools=[note, wait])\n%kestrel use app"


NOTE_THEN_DONE = (calling("note", text="alpha"), "'All done.'")
ASK = "%%kestrel\nPlease note alpha."
AFTER = "print('after', notes, _.status)"
