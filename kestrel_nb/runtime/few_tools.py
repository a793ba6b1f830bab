"""Which tools a model is offered that can choose among a few only."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ..protocol.messages import ChatMessage
from ..protocol.tools import ToolSchema

_LAST: Final = ("finish", "todo_write")  # a reply without a call ends a run, too
_FIRST: Final = ("read_file", "list_dir", "grep", "math-eval", "date-time", "run_python", "glob", "write_file")
_WORD: Final = re.compile(r"[^\W_]{3,}")
_SMALL: Final = frozenset(("the", "and", "for", "with", "that", "this", "what", "from", "into", "are", "one", "use"))


def few_tools(
    tools: Sequence[ToolSchema], limit: int | None, messages: Sequence[ChatMessage]
) -> tuple[ToolSchema, ...]:
    """At most ``limit`` of ``tools``, in their order: those that the last message of the person has most words of, and
    rather those that only read.

    A tool that was called since then stays. Without a limit, and where all fit, it is all of them.
    """
    if limit is None or len(tools) <= limit:
        return tuple(tools)
    since = [message for message in messages[_last_user(messages) :] if message.role != "system"]
    called = {call.name for message in since for call in message.tool_calls}
    asked = _words(since[0].content) if since else frozenset()

    def rank(tool: ToolSchema) -> tuple[bool, bool, int, int, str]:
        name = tool.name
        likeness = 3 * tool.read_only + 3 * len(asked & _words(name)) + len(asked & _words(tool.description))
        order = _FIRST.index(name) if name in _FIRST else len(_FIRST)
        return name not in called, name in _LAST, -likeness, order, name

    chosen = {tool.name for tool in sorted(tools, key=rank)[:limit]}
    return tuple(tool for tool in tools if tool.name in chosen)


def _last_user(messages: Sequence[ChatMessage]) -> int:
    places = [place for place, message in enumerate(messages) if message.role == "user"]
    return places[-1] if places else 0


def _words(text: str) -> frozenset[str]:
    """The words of ``text`` without their endings, so that "files" is "file"."""
    found = (word.lower() for word in _WORD.findall(text))
    return frozenset(word.rstrip("s") for word in found if word not in _SMALL)
