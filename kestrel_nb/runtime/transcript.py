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
    ToolResultPart,
    create_message,
    new_id,
    tool_message,
)
from .truncation import clean_text

LOST = "the result of this call is lost"

_NOT_NAME = re.compile(r"[^a-zA-Z0-9_-]")


class Transcript:
    """Messages in order.

    What is sent leaves out empty assistant messages, which several providers refuse, and results that answer nothing;
    calls that a stored transcript left open in its middle get a result that says so.
    """

    def __init__(self, messages: Iterable[ChatMessage] = ()) -> None:
        self._messages: list[ChatMessage] = []
        self._sendable: list[ChatMessage] = []
        self._call_ids: set[str] = set()
        self._open: dict[str, ToolCallPart] = {}  # calls of the last assistant message without a result, in order
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
        if message.role == "tool":
            self._append_results(message)
            return
        self._sendable += [tool_message(call, LOST) for call in self._open.values()]
        self._open = {call.id: call for call in message.tool_calls}
        self._call_ids.update(self._open)
        if message.role != "assistant" or any(_says_something(part) for part in message.parts):
            self._sendable.append(message)

    def _append_results(self, message: ChatMessage) -> None:
        results = message.tool_results
        answers = [part for part in results if self._open.pop(part.call_id, None) is not None]
        if len(answers) == len(results):
            self._sendable.append(message)
        elif answers:
            self._sendable.append(replace(message, parts=tuple(answers)))

    def request(self, system_prompt: str) -> tuple[ChatMessage, ...]:
        """What a model is sent: the system message, if there is one, and everything sendable."""
        if not system_prompt:
            return tuple(self._sendable)
        system = create_message("system", system_prompt, id="system", created_at=0.0)
        return (system, *self._sendable)

    def unanswered(self) -> tuple[ToolCallPart, ...]:
        """The calls of the last assistant message that have no result yet, in order."""
        return tuple(self._open.values())

    def adopt(self, message: ChatMessage) -> ChatMessage:
        """``message`` made fit for the transcript: no lone surrogates, unique call ids, names that providers take."""
        seen: set[str] = set()
        parts: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                part = self._adopt_call(part, seen)
            elif isinstance(part, (TextPart, ReasoningPart)) and clean_text(part.text) != part.text:
                part = replace(part, text=clean_text(part.text))
            elif isinstance(part, ToolResultPart) and clean_text(part.content) != part.content:
                part = replace(part, content=clean_text(part.content))
            parts.append(part)
        same = all(new is old for new, old in zip(parts, message.parts, strict=True))
        return message if same else replace(message, parts=tuple(parts))

    def _adopt_call(self, call: ToolCallPart, seen: set[str]) -> ToolCallPart:
        fresh = call.id and call.id not in self._call_ids and call.id not in seen and clean_text(call.id) == call.id
        id = call.id if fresh else new_id("call")
        seen.add(id)
        name = _NOT_NAME.sub("_", call.name)[:64] or "unnamed"
        problem = call.problem
        if name != call.name and problem is None:
            problem = f'no tool can be named "{clean_text(call.name)[:80]}"'
        raw = clean_text(call.raw_arguments)
        if id == call.id and name == call.name and raw == call.raw_arguments:
            return call
        return replace(call, id=id, name=name, raw_arguments=raw, problem=problem)


def _says_something(part: Part) -> bool:
    return not isinstance(part, TextPart) or bool(part.text.strip())
