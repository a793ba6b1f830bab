"""The demo model: no AI, but rules that turn plain requests into real tool calls, the same every time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...protocol.codec import dumps, jsonable
from ...protocol.messages import ChatMessage, ToolCallPart
from ...protocol.sessions import ModelInfo
from ...runtime.models import CompletionRequest, CompletionResponse, DeltaListener, TokenDelta
from ..pacing import Pace, chunks, free_call_ids, stop, words
from . import fixing
from .offered import Step
from .outcomes import exchanges, follow
from .replies import before, final, not_understood
from .requests import understand

ARGUMENT_CHARS = 24  # of a delta of argument text


class DemoModel:
    """A deterministic rule model that works with whatever tools a request offers.

    Neither clock nor chance is used: the same messages and tools give the same reply, byte for byte. Each request is
    read anew from the transcript, so it also goes on where another process stopped. ``pace_s`` is the wait between
    two deltas, in seconds.
    """

    def __init__(self, *, id: str = "demo", pace_s: float = 0.01) -> None:
        self._pace_s = pace_s
        self._info = ModelInfo(id=id, provider="demo", label="demo (a rule model, no AI)", supports_tools=True)

    @property
    def info(self) -> ModelInfo:
        """What lists show."""
        return self._info

    async def generate(self, request: CompletionRequest, on_delta: DeltaListener | None = None) -> CompletionResponse:
        """The next calls, or the final answer. Raises CancelledByUser when the request's signal is cancelled."""
        stop(request.signal)
        text, steps = reply(request)
        calls = _calls(steps, request.messages)
        pace = Pace(self._pace_s)
        for delta in _deltas(text, calls):
            await pace.wait(request.signal)
            if on_delta is not None:
                on_delta(delta)
        return CompletionResponse(
            content=text, tool_calls=calls, finish_reason="tool_calls" if calls else "stop", provider="demo"
        )


def reply(request: CompletionRequest) -> tuple[str, Sequence[Step]]:
    """What to say now, and the calls to make with it."""
    asked = next((message.content for message in reversed(request.messages) if message.role == "user"), "")
    about_a_cell = fixing.reply(asked, request)
    if about_a_cell is not None:
        return about_a_cell
    understanding = understand(asked, request.tools)
    if not understanding.steps:
        return not_understood(understanding, request.tools), ()
    progress = follow(understanding.steps, exchanges(request.messages), request.tools)
    if progress.calls:
        return before(progress.calls), progress.calls
    return final(progress.outcomes), ()


def _calls(steps: Sequence[Step], messages: Sequence[ChatMessage]) -> tuple[ToolCallPart, ...]:
    made = sum(len(message.tool_calls) for message in messages)
    ids = iter(free_call_ids(messages, made + 1))
    return tuple(
        ToolCallPart(
            id=next(ids), name=step.tool, arguments=step.arguments, raw_arguments=dumps(jsonable(step.arguments))
        )
        for step in steps
    )


def _deltas(text: str, calls: Sequence[ToolCallPart]) -> Iterator[TokenDelta]:
    for piece in words(text):
        yield TokenDelta(text=piece)
    for call in calls:
        for piece in chunks(call.raw_arguments, ARGUMENT_CHARS):
            yield TokenDelta(call_id=call.id, tool=call.name, arguments=piece)
