"""A model that plays given replies: for tests, examples and anything else that must run the same every time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from ..protocol.codec import dumps, jsonable, parse_call
from ..protocol.errors import ModelRequestError
from ..protocol.messages import ToolCallPart
from ..protocol.sessions import ModelInfo, Usage
from ..runtime.models import CompletionRequest, CompletionResponse, DeltaListener, TokenDelta
from .pacing import Pace, chunks, free_call_ids, pause, stop, until_cancelled

ScriptedCall = ToolCallPart | tuple[str, Mapping[str, Any] | str]


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply to play.

    ``tool_calls`` holds ``(name, arguments)``, ``(name, "raw argument text")`` or ready parts. ``deltas`` are the
    exact pieces in which the text streams. ``before`` is what happens ahead of the first token: seconds to wait, or a
    coroutine function to await. ``delay`` is the seconds between two deltas. ``error`` is raised before the first
    token, or after ``error_after`` deltas (without ``error``: as a broken stream).
    """

    content: str = ""
    _: KW_ONLY
    reasoning: str = ""
    tool_calls: Sequence[ScriptedCall] = ()
    finish_reason: str | None = None
    deltas: Sequence[str] | None = None
    delay: float | None = None
    before: float | Callable[[], Awaitable[None]] | None = None
    error: Exception | None = None
    error_after: int | None = None
    usage: Usage | None = None

    @property
    def text(self) -> str:
        """The whole text: ``content``, or the ``deltas`` joined."""
        return self.content or "".join(self.deltas or ())


ScriptedReply = str | Reply | Callable[[CompletionRequest], "str | Reply"]


class ScriptedModel:
    """Plays ``replies`` in order, one for each request; a callable is given the request and returns the reply.

    ``requests`` holds what the model was asked. ``delta_chars`` is the length of a delta, ``delay_s`` the wait
    between two. ``context_window`` is in tokens, None where it is unknown. Call ids are ``call_1``, ``call_2``, ...
    over the life of the object.
    """

    def __init__(
        self,
        replies: Sequence[ScriptedReply],
        *,
        id: str = "scripted",
        delta_chars: int = 16,
        delay_s: float = 0,
        context_window: int | None = None,
    ) -> None:
        if isinstance(replies, str):
            raise TypeError("replies must be a list of replies; put the text in a list")
        if delta_chars < 1:
            raise ValueError("delta_chars must be 1 or more")
        self.requests: list[CompletionRequest] = []
        self._replies = list(replies)
        self._played = 0
        self._calls_made = 0
        self._delta_chars = delta_chars
        self._delay_s = delay_s
        self._info = ModelInfo(
            id=id,
            provider="scripted",
            label="scripted (given replies)",
            context_window=context_window,
            supports_tools=True,
            supports_reasoning=True,
            supports_images=True,
        )

    @property
    def info(self) -> ModelInfo:
        """What lists show."""
        return self._info

    async def generate(self, request: CompletionRequest, on_delta: DeltaListener | None = None) -> CompletionResponse:
        """Play the next reply. Raises ModelRequestError when none is left, and whatever the reply says."""
        stop(request.signal)
        self.requests.append(request)
        reply = self._next(request)
        await self._wait_before(reply, request)
        if reply.error is not None and reply.error_after is None:
            raise reply.error
        calls = self._calls(reply, request)
        await self._stream(reply, calls, request, on_delta)
        return CompletionResponse(
            content=reply.text,
            reasoning=reply.reasoning,
            tool_calls=calls,
            usage=reply.usage or Usage(),
            finish_reason=reply.finish_reason or ("tool_calls" if calls else "stop"),
            provider="scripted",
        )

    def assert_complete(self) -> None:
        """Raise AssertionError that names the replies which nobody asked for."""
        left = self._replies[self._played :]
        if left:
            names = "; ".join(f"{self._played + n}: {_describe(reply)}" for n, reply in enumerate(left, 1))
            raise AssertionError(f"{len(left)} of {len(self._replies)} replies were not played: {names}")

    def _next(self, request: CompletionRequest) -> Reply:
        if self._played >= len(self._replies):
            raise ModelRequestError(
                f'the scripted model "{self._info.id}" has no reply left: it was given {len(self._replies)} '
                f"and this is request {len(self.requests)}; add a reply",
                code="script_exhausted",
            )
        reply = self._replies[self._played]
        self._played += 1
        if callable(reply):
            reply = reply(request)
        return Reply(reply) if isinstance(reply, str) else reply

    async def _wait_before(self, reply: Reply, request: CompletionRequest) -> None:
        if callable(reply.before):
            await until_cancelled(reply.before(), request.signal)
        elif reply.before is not None:
            await pause(reply.before, request.signal)

    def _calls(self, reply: Reply, request: CompletionRequest) -> tuple[ToolCallPart, ...]:
        ids = iter(free_call_ids(request.messages, self._calls_made + 1))
        calls: list[ToolCallPart] = []
        for call in reply.tool_calls:
            if isinstance(call, ToolCallPart):
                calls.append(call)
                continue
            name, arguments = call
            raw = arguments if isinstance(arguments, str) else dumps(jsonable(arguments))
            calls.append(parse_call(next(ids), name, raw))
            self._calls_made = int(calls[-1].id.removeprefix("call_"))
        return tuple(calls)

    async def _stream(
        self,
        reply: Reply,
        calls: tuple[ToolCallPart, ...],
        request: CompletionRequest,
        on_delta: DeltaListener | None,
    ) -> None:
        pace = Pace(self._delay_s if reply.delay is None else reply.delay)
        sent = 0
        for delta in self._deltas(reply, calls):
            if sent == reply.error_after:
                break
            await pace.wait(request.signal)
            if on_delta is not None:
                on_delta(delta)
            sent += 1
        if reply.error_after is not None:
            raise reply.error or ModelRequestError(f"the stream broke off after {sent} deltas")

    def _deltas(self, reply: Reply, calls: tuple[ToolCallPart, ...]) -> Iterator[TokenDelta]:
        for piece in chunks(reply.reasoning, self._delta_chars):
            yield TokenDelta(reasoning=piece)
        for piece in chunks(reply.text, self._delta_chars) if reply.deltas is None else reply.deltas:
            yield TokenDelta(text=piece)
        for call in calls:
            for piece in chunks(call.raw_arguments, self._delta_chars) or [""]:
                yield TokenDelta(call_id=call.id, tool=call.name, arguments=piece)


def _describe(reply: ScriptedReply) -> str:
    """A reply in a few words, for an assertion."""
    if callable(reply):
        return f"callable {getattr(reply, '__name__', type(reply).__name__)}"
    if isinstance(reply, str):
        reply = Reply(reply)
    if reply.error is not None:
        return f"error {type(reply.error).__name__}"
    names = [call.name if isinstance(call, ToolCallPart) else call[0] for call in reply.tool_calls]
    return f"call of {', '.join(names)}" if names else repr(reply.text[:60])
