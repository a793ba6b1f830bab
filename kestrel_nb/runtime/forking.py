"""A copy of a session that goes its own way from here on."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import replace

from ..protocol.messages import ChatMessage, ToolCallPart, tool_message
from ..protocol.sessions import SessionDetail, Usage
from .tool_calls import INTERRUPTED
from .transcript import Transcript

STAYED = "not decided: the question stayed with the session that this one was copied from; it was not run here"
NOT_BEGUN = "not run: its turn had not come when this session was copied"

_NUMBERED = re.compile(r" \(fork(?: \d+)?\)$")


def forked(source: SessionDetail, *, id: str, title: str, at: float) -> SessionDetail:
    """What a fork of ``source`` begins with: its transcript, model, workspace, prompt and tools.

    Open questions stay there, and so does what somebody allowed for that session only, while its asks and denials
    hold here too. Nothing is used yet. A call without a result gets one that says so, since a question that stays
    behind could never be answered here.
    """
    return replace(
        source,
        id=id,
        title=title,
        created_at=at,
        updated_at=at,
        messages=(*source.messages, *_closing(source)),
        rules=tuple(rule for rule in source.rules if rule.action != "auto"),
        pending=(),
        approvals=(),
        started=(),
        usage=Usage(),
        spent=(),
        run_id=None,
        seq=0,
    )


def fork_title(title: str, taken: Container[str]) -> str:
    """A title for a fork of ``title`` that nobody has: "Sales (fork)", "Sales (fork 2)"; "" stays ""."""
    if not title:
        return ""
    stem, number = _NUMBERED.sub("", title), 1
    while (made := f"{stem} (fork{'' if number == 1 else f' {number}'})") in taken:
        number += 1
    return made


def _closing(source: SessionDetail) -> list[ChatMessage]:
    waiting = {request.call_id for request in source.pending}
    calls = Transcript(source.messages).unanswered()
    return [tool_message(call, _left(call, waiting, source.started)) for call in calls]


def _left(call: ToolCallPart, waiting: set[str], started: tuple[str, ...]) -> str:
    if call.id in waiting:
        return STAYED
    return NOT_BEGUN if waiting and call.id not in started else INTERRUPTED
