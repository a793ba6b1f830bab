"""The loop of a run. Read this first.

One step is one model call and the tool calls it asks for. The model answers; its message goes into the transcript;
each call is worked through ``ToolCalls.run``; the results go into the transcript in call order; and so on until the
model asks for nothing more and has not paused, a tool ends the run, or the step limit is reached. However a run ends,
every call in the transcript has exactly one result.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..protocol.errors import CancelledByUser, ModelRequestError
from ..protocol.events import MessageDelta, Notice, ReasoningDelta, SessionEvent, StepStarted, ToolDelta, UsageUpdated
from ..protocol.messages import ChatMessage, ToolCallPart, new_id
from ..protocol.sessions import ModelInfo, RunStatus, Usage
from .models import CompletionRequest, CompletionResponse, LanguageModel, TokenDelta
from .prompts import assistant_message
from .reply_mask import StreamMask, masked_reply
from .retry import RetryOptions, is_model_request_error, retry_delay, sleep
from .secrets import Masker
from .signals import CancelSignal, until_cancelled
from .tool_calls import CallOutcome, ToolCalls
from .truncation import clean_text

CUT_OFF = "not run: the reply was cut off at its token limit, so the call may be incomplete; make a shorter one"
FILTERED = "The provider's content filter ended the reply."
PAUSED = "pause_turn"  # Anthropic's word for work on its side that goes on once the reply is sent back as it is
RUN_FINISHED = "not run: the run was finished"
RUN_ENDED = "not run: the run ended before its turn"


class LoopHost(Protocol):
    """What the loop needs of its session."""

    def emit(self, kind: type[SessionEvent], **fields: Any) -> None: ...
    def request(self, signal: CancelSignal, info: ModelInfo) -> CompletionRequest: ...
    def append(self, message: ChatMessage) -> ChatMessage: ...
    def unanswered(self) -> tuple[ToolCallPart, ...]: ...
    def add_usage(self, response: CompletionResponse) -> float | None: ...
    async def save_step(self, *, over: bool) -> None: ...


@dataclass(kw_only=True, slots=True)
class RunLoop:
    """One run. ``text``, ``steps``, ``usage`` and ``tool_data`` tell afterwards what happened."""

    host: LoopHost
    model: LanguageModel
    calls: ToolCalls
    signal: CancelSignal
    max_steps: int
    retry: RetryOptions
    text: str = ""
    steps: int = 0
    usage: Usage = field(default_factory=Usage)
    tool_data: dict[str, list[Any]] = field(default_factory=dict)

    async def work(self, *, resume: bool = False) -> RunStatus:
        """Work the run to its end. Raises what the model raised; the transcript is valid even then."""
        try:
            if resume and await self._run_calls(self.host.unanswered()):
                return "completed"
            while self.steps < self.max_steps:
                self.signal.raise_if_cancelled()
                if await self._step():
                    return "completed"
            return "max_steps"
        except CancelledByUser:
            return "cancelled"
        finally:
            self._close_open_calls()

    async def _step(self) -> bool:
        """One step; True when the run is over."""
        self.steps += 1
        self.host.emit(StepStarted, step=self.steps)
        message_id = new_id("msg")
        response = masked_reply(await self._generate(message_id), self.calls.settings.masker.now())
        message = self.host.append(assistant_message(response, id=message_id))
        self._count(response)
        self.text = message.content or self.text
        if response.finish_reason == "length":
            self._refuse_cut_off(message)
        elif response.finish_reason == "content_filter":
            self.host.emit(Notice, level="warning", code="content_filter", text=FILTERED)
        if not message.tool_calls:
            return response.finish_reason != PAUSED
        await self.host.save_step(over=False)  # after a crash the model then hears of these calls
        over = await self._run_calls(self.host.unanswered())
        await self.host.save_step(over=True)
        return over

    # ---- the model --------------------------------------------------------------------------------------------

    async def _generate(self, message_id: str) -> CompletionResponse:
        """Ask the model, again after failures that may pass, but never once a first token was shown."""
        request = self.host.request(self.signal, self.model.info)
        attempt = 1
        while True:
            stream = _Stream(self.host, message_id, self.calls.settings.masker.now())
            try:
                reply = await until_cancelled(self.model.generate(request, stream.on_delta), self.signal)
                stream.end(whole=True)
                return _checked(reply)
            except Exception as error:
                self.signal.raise_if_cancelled()
                if stream.started or attempt >= self.retry.attempts or not _may_pass(error):
                    raise
                await self._wait(error, attempt)
            finally:
                stream.end()
            attempt += 1

    async def _wait(self, error: Exception, attempt: int) -> None:
        delay = retry_delay(error, attempt, self.retry)
        text = f"{error} Trying again in {delay / 1000:.1f} s, attempt {attempt + 1} of {self.retry.attempts}."
        self.host.emit(Notice, level="info", code="retry", text=text)
        await sleep(0 if getattr(error, "recorded", False) else delay, self.signal)

    def _count(self, response: CompletionResponse) -> None:
        self.usage = self.usage + response.usage
        cost = self.host.add_usage(response)
        self.host.emit(UsageUpdated, usage=self.usage, cost=cost)

    def _refuse_cut_off(self, message: ChatMessage) -> None:
        text = "The reply was cut off at its token limit."
        self.host.emit(Notice, level="warning", code="cut_off", text=text)
        for call in message.tool_calls:
            self._finish(call, self.calls.fail(call, CUT_OFF))

    # ---- the calls --------------------------------------------------------------------------------------------

    async def _run_calls(self, calls: tuple[ToolCallPart, ...]) -> bool:
        """Run ``calls`` in order; True when one of them ended the run. Calls after that one are not run."""
        over = False
        for batch in self._batches(calls):
            if over:
                outcomes = [self.calls.skip(call, RUN_FINISHED, "not_run") for call in batch]
            elif len(batch) == 1:
                outcomes = [await self.calls.run(batch[0])]
            else:
                outcomes = await self._together(batch)
            for call, outcome in zip(batch, outcomes, strict=True):
                self._finish(call, outcome)
                if outcome.terminate and not over:
                    over, self.text = True, outcome.content
        self.signal.raise_if_cancelled()
        return over

    async def _together(self, batch: list[ToolCallPart]) -> list[CallOutcome]:
        """Run the calls of ``batch`` at once. When the loop is closing, those that had ended keep their results."""
        tasks = [asyncio.ensure_future(self.calls.run(call)) for call in batch]
        try:
            return await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            for call, task in zip(batch, tasks, strict=True):
                lost = task.cancelled() or task.exception() is not None
                self._finish(call, self.calls.leave(call, RUN_ENDED, "cancelled") if lost else task.result())
            raise

    def _batches(self, calls: tuple[ToolCallPart, ...]) -> Iterator[list[ToolCallPart]]:
        """Neighbouring calls of parallel-safe tools together, every other call alone."""
        batch: list[ToolCallPart] = []
        for call in calls:
            tool = self.calls.settings.tools.get(call.name)
            if tool is not None and tool.schema.parallel_safe:
                batch.append(call)
                continue
            if batch:
                yield batch
                batch = []
            yield [call]
        if batch:
            yield batch

    def _finish(self, call: ToolCallPart, outcome: CallOutcome) -> None:
        self.host.append(outcome.message)
        if outcome.data is not None:
            self.tool_data.setdefault(call.name, []).append(outcome.data)

    def _close_open_calls(self) -> None:
        for call in self.host.unanswered():
            self.host.append(self.calls.leave(call, RUN_ENDED, "cancelled").message)


class _Stream:
    """Turns what a model streams into events, and remembers whether anything was shown.

    A model that was left behind may go on streaming; once the request is ``over`` nothing of that is told.
    """

    def __init__(self, host: LoopHost, message_id: str, masker: Masker) -> None:
        self._host = host
        self._message_id = message_id
        self._text, self._reasoning = StreamMask(masker), StreamMask(masker)
        self._arguments: dict[str, StreamMask] = defaultdict(lambda: StreamMask(masker))
        self.started = self.over = False

    def on_delta(self, delta: TokenDelta) -> None:
        if self.over or not (delta.text or delta.reasoning or delta.tool or delta.arguments):
            return  # an empty delta shows nothing, so a failure after it may still be tried again
        self.started = True
        if not delta.text:
            self._tell_text(self._text.end())
        if not delta.reasoning:
            self._tell_reasoning(self._reasoning.end())
        self._tell_text(self._text.feed(clean_text(delta.text)))
        self._tell_reasoning(self._reasoning.feed(clean_text(delta.reasoning)))
        if delta.tool or delta.arguments:
            text = self._arguments[delta.call_id].feed(clean_text(delta.arguments))
            if delta.tool or text:
                self._host.emit(ToolDelta, call_id=delta.call_id, tool=clean_text(delta.tool), text=text)

    def end(self, *, whole: bool = False) -> None:
        """The request is over: tell what was held back; ``whole``: no key can have been broken off."""
        if self.over:
            return
        self.over = True
        self._tell_reasoning(self._reasoning.end(whole=whole))
        self._tell_text(self._text.end(whole=whole))
        for call_id, arguments in self._arguments.items():
            if text := arguments.end(whole=whole):
                self._host.emit(ToolDelta, call_id=call_id, tool="", text=text)

    def _tell_text(self, text: str) -> None:
        if text:
            self._host.emit(MessageDelta, message_id=self._message_id, text=text)

    def _tell_reasoning(self, text: str) -> None:
        if text:
            self._host.emit(ReasoningDelta, message_id=self._message_id, text=text)


def _checked(response: CompletionResponse) -> CompletionResponse:
    if not isinstance(response, CompletionResponse):
        raise ModelRequestError(f"the model gave {type(response).__name__} and not a CompletionResponse")
    if response.finish_reason == "error":
        raise ModelRequestError("the model ended its reply with an error")
    return response


def _may_pass(error: Exception) -> bool:
    return is_model_request_error(error) and getattr(error, "retryable", False) is True
