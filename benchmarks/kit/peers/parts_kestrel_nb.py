"""The parts of kestrel-nb that are measured alone, as the runtime calls them."""

import json
import logging
from types import SimpleNamespace

from kestrel_nb.plugins.core_tools.grep import Grep
from kestrel_nb.plugins.core_tools.search import Glob
from kestrel_nb.plugins.core_tools.settings import CoreSettings
from kestrel_nb.protocol.codec import parse_call
from kestrel_nb.protocol.messages import create_message, tool_message
from kestrel_nb.protocol.sessions import SessionDetail, SessionStep
from kestrel_nb.runtime.file_store import FileSessionStore
from kestrel_nb.runtime.signals import CancelSignal
from kestrel_nb.runtime.tools import ToolContext
from kestrel_nb.runtime.validation import check_schema, validate_arguments


def converted(messages):
    """Chat messages of the kit as a session's."""
    calls = {}
    made = []
    for message in messages:
        if message["role"] == "tool":
            call = calls.get(message["tool_call_id"]) or parse_call(message["tool_call_id"], "add", "{}")
            made.append(tool_message(call, message["content"]))
            continue
        parts = [parse_call(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in message["tool_calls"]]
        calls.update((part.id, part) for part in parts)
        made.append(create_message("assistant", parts))
    return tuple(made)


async def store(folder, history):
    sessions = FileSessionStore(folder)
    await sessions.save(SessionDetail(id="session", messages=converted(history)))
    seq = 0

    async def step(messages):
        nonlocal seq
        seq += 1
        await sessions.append_step("session", SessionStep(seq=seq, updated_at=1.0, messages=converted(messages)))

    return step


def validator(schema):
    if isinstance(schema, dict) and schema.get("type") == "object":
        check_schema(schema)
        return lambda value: validate_arguments(schema, value)
    if "$ref" in json.dumps(schema):  # it points into a root that would move
        return lambda value: ["the parameters of a tool are an object"]
    whole = {"type": "object", "properties": {"value": schema}}  # the parameters of a tool are an object
    check_schema(whole)
    return lambda value: validate_arguments(whole, {"value": value})


def use(tool, root, args):
    """The data of one call of a search tool in the folder ``root``."""
    session = SimpleNamespace(workspace=str(root), id="bench", messages=(), metadata={})
    context = ToolContext(session=session, call_id="c", signal=CancelSignal(), logger=logging.getLogger("bench"))
    return tool.execute(args, context).data


def grep(root, pattern):
    return len(use(Grep(CoreSettings()), root, {"pattern": pattern})["rows"])


def glob(root, pattern):
    return use(Glob(CoreSettings()), root, {"pattern": f"**/{pattern}"})["total"]
