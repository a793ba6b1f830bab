"""The transcript of a session, kept valid: what a model may be sent is always ready, in order and complete."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from ..protocol.messages import (
    ChatMessage,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    create_message,
    new_id,
    unanswered_calls,
)
from .truncation import clean_text

_NOT_NAME = re.compile(r"[^a-zA-Z0-9_-]")


class Transcript:
    """Messages in order. ``sendable`` leaves out empty assistant messages, which several providers refuse."""

    def __init__(self, messages: Iterable[ChatMessage] = ()) -> None:
        self._messages: list[ChatMessage] = []
        self._sendable: list[ChatMessage] = []
        self._call_ids: set[str] = set()
        for message in messages:
            self.append(message)

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        """Every message, as stored."""
        return tuple(self._messages)

    def since(self, index: int) -> tuple[ChatMessage, ...]:
        """The messages from ``index`` on."""
        return tuple(self._messages[index:])

    def __len__(self) -> int:
        return len(self._messages)

    def append(self, message: ChatMessage) -> None:
        """Add ``message`` at the end."""
        self._messages.append(message)
        self._call_ids.update(call.id for call in message.tool_calls)
        if message.role != "assistant" or any(_says_something(part) for part in message.parts):
            self._sendable.append(message)

    def request(self, system_prompt: str) -> tuple[ChatMessage, ...]:
        """What a model is sent: the system message and everything sendable."""
        system = create_message("system", system_prompt, id="system", created_at=0.0)
        return (system, *self._sendable)

    def unanswered(self) -> tuple[ToolCallPart, ...]:
        """The calls of the last assistant message that have no result yet, in order."""
        for index in range(len(self._messages) - 1, -1, -1):
            if self._messages[index].role == "assistant":
                return unanswered_calls(self._messages[index:])
        return ()

    def adopt(self, message: ChatMessage) -> ChatMessage:
        """``message`` made fit for the transcript: no lone surrogates, unique call ids, names that providers take."""
        seen: set[str] = set()
        parts: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                part = self._adopt_call(part, seen)
            elif isinstance(part, (TextPart, ReasoningPart)) and clean_text(part.text) != part.text:
                part = replace(part, text=clean_text(part.text))
            parts.append(part)
        return replace(message, parts=tuple(parts))

    def _adopt_call(self, call: ToolCallPart, seen: set[str]) -> ToolCallPart:
        fresh = call.id and call.id not in self._call_ids and call.id not in seen
        id = call.id if fresh else new_id("call")
        seen.add(id)
        name = _NOT_NAME.sub("_", call.name)[:64] or "unnamed"
        problem = call.problem
        if name != call.name and problem is None:
            problem = f'"{clean_text(call.name)[:80]}" is not the name of a tool'
        raw = clean_text(call.raw_arguments)
        if id == call.id and name == call.name and raw == call.raw_arguments:
            return call
        return replace(call, id=id, name=name, raw_arguments=raw, problem=problem)


def _says_something(part: Part) -> bool:
    return not isinstance(part, TextPart) or bool(part.text.strip())
