"""The tool rows of a view state: one row a call, from the first letter of its arguments to its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..protocol import events as ev
from ..protocol.codec import loads
from ..protocol.errors import CodecError
from ..protocol.sessions import ApprovalRequest
from ..sandbox.headers import shown
from .call_results import DETAIL, Block, executed, with_figures
from .cards import Card, beside_diff, card_of
from .figures import RUN_BYTES, bytes_of, figures_of_result
from .summaries import ARGUMENTS, arguments_line, arguments_text, as_json, code_of, figure_count
from .visible import one_line, visible

PROGRESS = 5  # status lines kept
_OPEN = ("streaming", "waiting", "running")
_SKIPPED = {"declined": "declined", "denied": "declined", "cancelled": "cancelled"}


def apply_call(
    blocks: list[Block], event: ev.SessionEvent, schemas: Callable[[str], Mapping[str, Any] | None] | None
) -> list[Block]:
    """``blocks`` after an event of a call; the same list when the event is of another kind."""
    if isinstance(event, ev.ToolDelta):
        return _row(blocks, event.call_id, event.tool, lambda row: _arriving(row, event.text))
    if isinstance(event, ev.ToolStarted):
        return _row(blocks, event.call_id, event.tool, lambda row: _started(row, event))
    if isinstance(event, ev.ToolProgress):
        return _late(blocks, event.call_id, event.tool, lambda row: _progress(row, event.message))
    if isinstance(event, ev.ApprovalRequested):
        request = event.request
        schema = schemas(request.tool) if schemas is not None else None
        return _row(blocks, request.call_id, request.tool, lambda row: _asked(row, request, schema))
    if isinstance(event, ev.ApprovalResolved):
        call_id = event.request.call_id
        return _late(blocks, call_id, event.request.tool, lambda row: _resolved(row, event), reopen=True)
    if isinstance(event, ev.ToolExecuted):
        room = _room(blocks)
        return _late(blocks, event.call_id, event.tool, lambda row: executed(row, event, room))
    if isinstance(event, (ev.ToolFailed, ev.ToolSkipped)):
        return _late(blocks, event.call_id, event.tool, lambda row: _ended(row, event))
    if isinstance(event, ev.MessageCompleted):
        return _from_message(blocks, event)
    return blocks


Change = Callable[[Block], Block]


def _find(blocks: list[Block], call_id: str) -> int | None:
    for index in range(len(blocks) - 1, -1, -1):
        if blocks[index]["kind"] == "tool" and blocks[index]["call"] == call_id:
            return index
    return None


def _row(blocks: list[Block], call_id: str, tool: str, change: Change) -> list[Block]:
    """Change the open row of a call, or begin one: some models use an id again in a later step."""
    index = _find(blocks, call_id)
    if index is not None and blocks[index]["state"] in _OPEN:
        return [*blocks[:index], change(blocks[index]), *blocks[index + 1 :]]
    closed = [{**block, "done": True} if block.get("done") is False else block for block in blocks]
    return [*closed, change(_new_row(next_key("tool", blocks), call_id, tool))]


def next_key(kind: str, blocks: list[Block]) -> str:
    """A key that no block has or, while it stood, had."""
    numbers = (block["key"].rpartition("-")[2] for block in blocks)
    return f"{kind}-{max((int(number) for number in numbers if number.isdecimal()), default=0) + 1}"


def _late(blocks: list[Block], call_id: str, tool: str, change: Change, *, reopen: bool = False) -> list[Block]:
    """As ``_row``, but a row that has ended takes no more news, save the answer to its question."""
    index = _find(blocks, call_id)
    if index is None:
        return _row(blocks, call_id, tool, change)
    if blocks[index]["state"] not in _OPEN and not reopen:
        return blocks
    return [*blocks[:index], change(blocks[index]), *blocks[index + 1 :]]


def _new_row(key: str, call_id: str, tool: str) -> Block:
    return {
        "kind": "tool",
        "key": key,
        "call": call_id,
        "tool": one_line(tool, 64),
        "state": "streaming",
        "arriving": "",
        "arrived": 0,
        "line": "",
        "arguments": "",
        "code": False,
        "progress": [],
        "result": "",
        "detail": "",
        "detail_kind": "text",
        "cut": 0,
        "table": None,
        "has_data": False,
        "images": [],
        "image_count": 0,
        "text_too": False,
        "seconds": None,
        "diff": None,
        "card": None,
        "decision": None,
        "cause": "",
    }


def _arriving(row: Block, text: str) -> Block:
    if row["state"] != "streaming":
        return row
    size = row["arrived"] + len(text)
    head = (row["arriving"] + text)[:400]
    result = f"{size / 1000:.1f} kB so far" if size >= 1000 else ""
    return {**row, "arriving": head, "arrived": size, "line": one_line(head, ARGUMENTS), "result": result}


def _with_arguments(row: Block, arguments: Mapping[str, Any] | None) -> Block:
    arguments = _shareable(arguments)
    if arguments is None or (row["diff"] is not None and row["arguments"] == arguments_text(arguments)[:DETAIL]):
        return row
    text, is_code = arguments_text(arguments), code_of(arguments) is not None
    row = {**row, "arriving": "", "arguments": text[:DETAIL], "code": is_code, "result": ""}
    return {**row, "line": arguments_line(arguments)}


def _shareable(arguments: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """``arguments`` with the secrets in headers hidden: a record is saved, and given to others."""
    headers = arguments.get("headers") if arguments else None
    if arguments is None or not isinstance(headers, Mapping):
        return arguments
    texts = {str(name): value for name, value in headers.items() if isinstance(value, str)}
    return {**arguments, "headers": {**headers, **shown(texts)}}


def _started(row: Block, event: ev.ToolStarted) -> Block:
    return {**_with_arguments(row, event.arguments), "state": "running", "card": None, "started_at": event.at}


def _progress(row: Block, message: str) -> Block:
    lines = [*row["progress"], *visible(message).rstrip("\n").split("\n")][-PROGRESS:]
    lines = [one_line(line, 400) for line in lines]
    return {**row, "progress": lines, "result": one_line(lines[-1], 60)}


def _asked(row: Block, request: ApprovalRequest, schema: Mapping[str, Any] | None) -> Block:
    card = card_of(request, schema)
    return {**_with_request(row, request, card), "state": "waiting", "card": card}


def _with_request(row: Block, request: ApprovalRequest, card: Card) -> Block:
    diff = {"text": card["text"], "numbers": card["numbers"]} if card["kind"] == "diff" else None
    row = _with_arguments(row, request.arguments)
    beside = diff is not None and code_of(request.arguments) is None
    line = arguments_line(beside_diff(request), alone=False) if beside else row["line"]
    return {**row, "line": line, "diff": diff}


def _resolved(row: Block, event: ev.ApprovalResolved) -> Block:
    decision, asked = event.decision, event.request.arguments
    changed = [] if decision.arguments is None else _changed(asked, decision.arguments)
    answer = {
        "approved": decision.approved is True,
        "by": event.recorded_by or event.answered_by,
        "reason": visible(decision.reason or "")[:2000],
        "changed": changed if decision.approved else [],
        "remember": decision.remember if decision.approved else None,
        "limit_s": _limit(event.request),
    }
    if not row["arguments"]:  # asked by a run before this one
        row = _with_request(row, event.request, card_of(event.request))
    row = {**row, "card": None, "decision": answer}
    if row["state"] in _OPEN:
        row["state"] = "running" if decision.approved else "not-run" if event.answered_by == "cancel" else "declined"
    if changed and decision.approved:
        row = {**_with_arguments(row, decision.arguments), "diff": None}
    return row


def _limit(request: ApprovalRequest) -> float | None:
    return None if request.expires_at is None else round(request.expires_at - request.created_at)


def _changed(asked: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    names = (*given, *(name for name in asked if name not in given))
    return [one_line(str(name), 64) for name in names if as_json(asked.get(name)) != as_json(given.get(name))]


def _ended(row: Block, event: ev.ToolFailed | ev.ToolSkipped) -> Block:
    row = {**row, "card": None}
    row = _with_arguments(row, event.arguments) if not row["arguments"] else row
    if isinstance(event, ev.ToolFailed):
        return {**row, "state": "failed", "result": "", "detail": visible(event.error)[:DETAIL], "detail_kind": "error"}
    state = _SKIPPED.get(event.cause, "not-run")
    if state == "cancelled" and row["state"] != "running":
        state = "not-run"
    reason = visible(event.reason)
    return {
        **row,
        "state": state,
        "result": "",
        "detail": reason[:DETAIL],
        "detail_kind": "reason",
        "cause": event.cause,
    }


def _room(blocks: list[Block]) -> int:
    """The bytes of figures that the run has left."""
    return RUN_BYTES - sum(bytes_of(block["images"]) for block in blocks if block["kind"] == "tool" and block["images"])


def _from_message(blocks: list[Block], event: ev.MessageCompleted) -> list[Block]:
    """The calls that an assistant message asks for, and the images that a result carries."""
    for part in event.message.tool_calls:
        index = _find(blocks, part.id)
        if index is None or blocks[index]["state"] == "streaming":
            arguments = part.arguments if part.arguments is not None else _parsed(part.raw_arguments)
            blocks = _row(blocks, part.id, part.name, lambda row, given=arguments: _with_arguments(row, given))  # type: ignore[misc]
    for result in event.message.tool_results:
        index = _find(blocks, result.call_id)
        if index is not None and result.images:
            row = blocks[index]
            row = {**row, **with_figures(row, figures_of_result(result), _room(blocks))}
            word = {"result": figure_count(row["image_count"])} if row["state"] == "done" else {}
            blocks = [*blocks[:index], {**row, **word}, *blocks[index + 1 :]]
    return blocks


def _parsed(raw: str) -> Mapping[str, Any] | None:
    try:
        value = loads(raw)
    except CodecError:
        return None
    return value if isinstance(value, Mapping) else None
