"""What a run looks like, as JSON data: ``initial`` and a pure ``apply(state, event)``.

A state holds everything that a page needs to draw the run from nothing, pending cards included. ``blocks`` stand in
the order in which they appeared; each has ``kind`` and a ``key`` that never changes:

``text``, ``reasoning``  ``text`` as the model wrote it, ``done``, ``cut`` (characters left out)
``tool``                 ``tool``, ``line`` (arguments on a line), ``arguments`` (as text), ``state``, ``progress``,
                         ``result``, ``detail``, ``detail_kind``, ``cut``, ``table``, ``diff``, ``images``,
                         ``seconds``, ``card``, ``decision``
``notice``               ``level``, ``code``, ``text``, ``retry``
``todo``                 ``items``
``sent``                 ``rows``: what of the user's variables went into the prompt

A block that an event does not touch is the same object before and after, so a change is found by identity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, cast

from ..protocol import events as ev
from ..protocol.codec import jsonable
from ..protocol.messages import ChatMessage, ReasoningPart, TextPart
from .call_results import Block
from .calls import apply_call, next_key
from .summaries import arguments_line as one_line_arguments
from .visible import one_line, visible, whole

__all__ = ["Block", "Schemas", "ViewState", "apply", "close", "initial", "one_line_arguments", "refused", "stopped"]

Schemas = Callable[[str], Mapping[str, Any] | None]

ERROR = 8_000  # characters of the message of a failed run
TEXT = 100_000  # characters of one text block; the whole text is in the run's result
_ENDED = {"completed": "done", "cancelled": "cancelled", "max_steps": "max_steps"}


class ViewState(TypedDict):
    """See the module. ``status``: running, done, failed, cancelled, max_steps. Times are seconds since 1970."""

    model: str
    stable: bool
    workspace: str
    handle: str
    status: str
    interrupted: bool
    step: int
    started_at: float | None
    ended_at: float | None
    tokens: int | None
    cost: float | None
    tries: int
    error: dict[str, str] | None
    blocks: list[Block]


def initial(
    *,
    model: str = "",
    stable: bool = False,
    workspace: str = "",
    handle: str = "_",
    sent: Sequence[Mapping[str, Any]] = (),
) -> ViewState:
    """The state before the first event.

    ``stable``: the record must be the same on every run, so it leaves out ids, times, durations, tokens, cost and
    absolute paths. ``workspace``: the folder whose paths the stable record shows as relative. ``handle``: the variable
    that holds the run, named below its tables. ``sent``: rows of
    ``variable``, ``type``, ``disclosed``, ``values``, ``characters`` that say what the prompt disclosed.
    """
    blocks: list[Block] = []
    if sent:
        blocks.append({"kind": "sent", "key": "sent", "rows": jsonable([dict(row) for row in sent])})
    return ViewState(
        model=one_line(model, 120),
        stable=stable,
        workspace=workspace,
        handle=handle,
        status="running",
        interrupted=True,
        step=0,
        started_at=None,
        ended_at=None,
        tokens=None,
        cost=None,
        tries=0,
        error=None,
        blocks=blocks,
    )


def apply(state: ViewState, event: ev.SessionEvent, *, schemas: Schemas | None = None) -> ViewState:
    """The state after ``event``, which must belong to the run that is drawn. Events that change nothing visible give
    the state back. ``schemas`` gives a tool's parameters, for the form of its card."""
    handler = _HANDLERS.get(type(event))
    if handler is None:
        blocks = apply_call(state["blocks"], event, schemas)
        return state if blocks is state["blocks"] else _with(state, blocks=_no_retry(blocks))
    return handler(state, event)


def stopped(state: ViewState) -> ViewState:
    """The state once a person pressed Stop or cancelled: the record says so instead of naming the interrupt."""
    return _with(state, interrupted=False)


def refused(state: ViewState, reason: str) -> ViewState:
    """The state of a run that was ended for ``reason``, by a rule and not by a person: it failed."""
    return _with(state, status="failed", error=_error("", reason))


def close(state: ViewState, *, error: str = "", code: str = "") -> ViewState:
    """A state in which nothing is open, for a run that ended without its last event: as failed with ``error``, else
    as cancelled. A state that has ended stays as it is."""
    if state["status"] != "running":
        return state
    if error:
        return _end(_with(state, error=_error(code, error)), "failed", state["ended_at"])
    return _end(state, "cancelled", state["ended_at"])


def _with(state: ViewState, **changes: Any) -> ViewState:
    return cast(ViewState, {**state, **changes})


def _run_started(state: ViewState, event: ev.RunStarted) -> ViewState:
    model = state["model"] or one_line(event.model, 120)
    return _with(state, model=model, started_at=state["started_at"] or event.at or None, status="running")


def _run_completed(state: ViewState, event: ev.RunCompleted) -> ViewState:
    tokens = event.usage.total_tokens or state["tokens"]
    state = _with(state, tokens=tokens or 0, step=event.steps or state["step"])
    return _end(state, _ENDED.get(event.status, "done"), event.at)


def _run_failed(state: ViewState, event: ev.RunFailed) -> ViewState:
    return _end(_with(state, error=_error(event.code, event.message)), "failed", event.at)


def _error(code: str, message: str) -> dict[str, str]:
    return {"code": one_line(code, 64), "message": visible(message)[:ERROR]}


def _end(state: ViewState, status: str, at: float | None) -> ViewState:
    """Nothing stays open: text is complete, a call that still ran was cancelled, a card is gone."""
    blocks = []
    for block in _no_retry(state["blocks"]):
        if block.get("done") is False:
            block = {**block, "done": True}
        elif block["kind"] == "tool" and block["state"] in ("streaming", "waiting", "running"):
            block = {**block, "state": "cancelled" if block["state"] == "running" else "not-run", "card": None}
        blocks.append(block)
    return _with(state, status=status, ended_at=at or state["ended_at"], blocks=blocks)


def _step_started(state: ViewState, event: ev.StepStarted) -> ViewState:
    return _with(state, step=event.step, blocks=_closed(_no_retry(state["blocks"])))


def _closed(blocks: list[Block]) -> list[Block]:
    """Text that another block follows is complete."""
    if any(block.get("done") is False for block in blocks):
        return [{**block, "done": True} if block.get("done") is False else block for block in blocks]
    return blocks


def _no_retry(blocks: list[Block]) -> list[Block]:
    if blocks and any(block.get("retry") for block in blocks[-3:]):
        return [block for block in blocks if not block.get("retry")]
    return blocks


# ---- text ---------------------------------------------------------------------------------------------------------


def _delta(state: ViewState, event: ev.MessageDelta | ev.ReasoningDelta) -> ViewState:
    if not event.text:
        return state
    kind = "text" if isinstance(event, ev.MessageDelta) else "reasoning"
    return _with(state, blocks=_say(_no_retry(state["blocks"]), kind, event.message_id, whole(event.text)))


def _say(blocks: list[Block], kind: str, message_id: str, text: str) -> list[Block]:
    last = blocks[-1] if blocks else None
    if last is not None and last["kind"] == kind and last["message"] == message_id and not last["done"]:
        room = max(0, TEXT - len(last["text"]))
        grown = {**last, "text": last["text"] + text[:room], "cut": last["cut"] + max(0, len(text) - room)}
        return [*blocks[:-1], grown]
    if not text.strip():
        return blocks
    block = {"kind": kind, "key": next_key(kind, blocks), "message": message_id, "done": False}
    return [*_closed(blocks), {**block, "text": text[:TEXT], "cut": max(0, len(text) - TEXT)}]


def _message_completed(state: ViewState, event: ev.MessageCompleted) -> ViewState:
    message, blocks = event.message, state["blocks"]
    if message.role == "assistant":
        blocks = _assistant(blocks, message)
    elif message.role == "tool":
        blocks = apply_call(blocks, event, None)
    return state if blocks is state["blocks"] else _with(state, blocks=blocks)


def _assistant(blocks: list[Block], message: ChatMessage) -> list[Block]:
    """A message that did not stream appears now; one that streamed is complete."""
    streamed = any(block.get("message") == message.id for block in blocks)
    if not streamed:
        blocks = _no_retry(blocks)
        for part in message.parts:
            if isinstance(part, (TextPart, ReasoningPart)) and part.text:
                blocks = _say(blocks, part.kind, message.id, whole(part.text))
    return _closed(apply_call(blocks, ev.MessageCompleted(session_id="", message=message), None))


# ---- facts --------------------------------------------------------------------------------------------------------


def _usage(state: ViewState, event: ev.UsageUpdated) -> ViewState:
    cost = jsonable(event.cost)
    return _with(state, tokens=event.usage.total_tokens, cost=cost if cost is None else float(cost))


def _notice(state: ViewState, event: ev.Notice) -> ViewState:
    retry = event.code.startswith("retry")
    blocks = _closed(_no_retry(state["blocks"]))
    notice = {"kind": "notice", "key": next_key("notice", blocks), "level": event.level, "retry": retry}
    block = {**notice, "code": one_line(event.code, 64), "text": visible(event.text)[:2000]}
    return _with(state, blocks=[*blocks, block], tries=max(1, state["tries"]) + 1 if retry else state["tries"])


def _todos(state: ViewState, event: ev.TodoUpdated) -> ViewState:
    items = [{"text": one_line(item.text, 300), "state": item.state} for item in event.items[:200]]
    block: Block = {"kind": "todo", "key": "todo", "items": items}
    blocks = state["blocks"]
    if any(old["kind"] == "todo" for old in blocks):
        return _with(state, blocks=[block if old["kind"] == "todo" else old for old in blocks])
    return _with(state, blocks=[*_closed(blocks), block]) if items else state


_HANDLERS: dict[type[ev.SessionEvent], Callable[[ViewState, Any], ViewState]] = {
    ev.RunStarted: _run_started,
    ev.RunCompleted: _run_completed,
    ev.RunFailed: _run_failed,
    ev.StepStarted: _step_started,
    ev.MessageDelta: _delta,
    ev.ReasoningDelta: _delta,
    ev.MessageCompleted: _message_completed,
    ev.UsageUpdated: _usage,
    ev.TodoUpdated: _todos,
    ev.Notice: _notice,
}
