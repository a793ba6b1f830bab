"""What happened in a session as tables: events, messages, approvals, usage. The columns are always the same."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from ..protocol import events as ev
from ..protocol.messages import ChatMessage, JsonObject
from ..protocol.sessions import ApprovalRecord, SessionSummary, Usage
from .tables import Table

_TIME: Final = "datetime64[us, UTC]"
_TOKENS: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")

EVENT_COLUMNS: Final = {
    "seq": "int64",
    "at": _TIME,
    "type": "str",
    "session_id": "str",
    "run_id": "str",
    "tool": "str",
    "call_id": "str",
    "text": "str",
    "is_error": "boolean",
    "duration_ms": "Float64",
}
MESSAGE_COLUMNS: Final = {
    "at": _TIME,
    "role": "str",
    "text": "str",
    "reasoning": "str",
    "calls": "object",
    "tool": "str",
    "is_error": "boolean",
    "provider": "str",
    "id": "str",
}
APPROVAL_COLUMNS: Final = {
    "when": _TIME,
    "who": "str",
    "what": "str",
    "decision": "str",
    "reason": "str",
    "edited": "bool",
    "remember": "str",
    "tool": "str",
    "arguments": "object",
    "asked": _TIME,
    "session_id": "str",
    "run_id": "str",
    "id": "str",
}
USAGE_COLUMNS: Final = {
    "name": "str",
    "model": "str",
    **dict.fromkeys((*_TOKENS, "total_tokens"), "int64"),
    "cost": "Float64",
}


def events_table(events: Iterable[ev.SessionEvent]) -> Table:
    """One row per event; ``text`` is what the event says, in short."""
    return _table(EVENT_COLUMNS, (_event(event) for event in events))


def messages_table(messages: Iterable[ChatMessage]) -> Table:
    """One row per message; ``calls`` are the names of the tools it calls, ``tool`` the one it answers for."""
    return _table(MESSAGE_COLUMNS, (_message(message) for message in messages))


def approvals_table(records: Iterable[ApprovalRecord]) -> Table:
    """One row per answered question; ``arguments`` are those that ran or would have run."""
    return _table(APPROVAL_COLUMNS, (_approval(record) for record in records))


def usage_table(items: Iterable[Any] | Mapping[str, Any]) -> Table:
    """One row per usage, or thing that has one."""
    named = items.items() if isinstance(items, Mapping) else ((None, item) for item in items)
    return _table(USAGE_COLUMNS, (_usage(name, item) for name, item in named))


def _table(columns: Mapping[str, str], rows: Iterable[list[Any]]) -> Table:
    lines = list(rows)
    cells = [[line[position] for line in lines] for position in range(len(columns))]
    return Table(names=list(columns), columns=cells, height=len(lines), dtypes=list(columns.values()))


def _time(seconds: float) -> str | None:
    """ISO text; None for the zero that stands for "not known"."""
    return datetime.fromtimestamp(seconds, UTC).isoformat() if seconds else None


def _call(tool: str, arguments: JsonObject) -> str:
    return f"{tool} {json.dumps(arguments, ensure_ascii=False, default=str)}"


def _event(event: ev.SessionEvent) -> list[Any]:
    request = getattr(event, "request", None)
    tool = getattr(event, "tool", None) or getattr(request, "tool", None)
    call_id = getattr(event, "call_id", None) or getattr(request, "call_id", None)
    failed = True if isinstance(event, (ev.ToolFailed, ev.RunFailed)) else getattr(event, "is_error", None)
    place = [event.seq, _time(event.at), event.type, event.session_id, event.run_id]
    return [*place, tool, call_id, _said(event), failed, getattr(event, "duration_ms", None)]


def _said(event: ev.SessionEvent) -> str | None:
    match event:
        case ev.RunStarted(input=text) | ev.ToolExecuted(content=text) | ev.ToolFailed(error=text):
            return text
        case ev.RunCompleted(status=status):
            return status
        case ev.RunFailed(code=code, message=text):
            return f"{code}: {text}"
        case ev.ToolStarted(tool=tool, arguments=arguments):
            return _call(tool, arguments)
        case ev.ToolSkipped(cause=cause, reason=reason):
            return f"{cause}: {reason}"
        case ev.MessageCompleted(message=message):
            return f"{message.role}: {message.content}"
        case ev.ApprovalRequested(request=request):
            return _call(request.tool, request.arguments)
        case ev.ApprovalResolved(decision=decision, answered_by=who):
            reason = f": {decision.reason}" if decision.reason else ""
            return f"{'approved' if decision.approved else 'declined'} by {who}{reason}"
        case ev.StepStarted(step=step):
            return f"step {step}"
        case ev.UsageUpdated(usage=usage):
            return f"{usage.total_tokens} tokens"
        case ev.TodoUpdated(items=items):
            return "; ".join(f"[{item.state}] {item.text}" for item in items)
        case ev.SessionRewound(removed=removed):
            return f"{removed} messages taken back"
        case (
            ev.SessionCreated(summary=summary) | ev.SessionUpdated(summary=summary) | ev.SessionDeleted(summary=summary)
        ):
            return summary.title
        case ev.ToolProgress(message=text) | ev.Notice(text=text) | ev.ToolDelta(text=text):
            return text
        case ev.MessageDelta(text=text) | ev.ReasoningDelta(text=text):
            return text
    return None


def _message(message: ChatMessage) -> list[Any]:
    results = message.tool_results
    return [
        _time(message.created_at),
        message.role,
        message.content,
        message.reasoning or None,
        [call.name for call in message.tool_calls],
        results[0].name if results else None,
        any(result.is_error for result in results) if results else None,
        message.provider,
        message.id,
    ]


def _approval(record: ApprovalRecord) -> list[Any]:
    request, decision = record.request, record.decision
    arguments = request.arguments if decision.arguments is None else decision.arguments
    return [
        _time(record.at),
        record.answered_by,
        _call(request.tool, arguments),
        "approved" if decision.approved else "declined",
        decision.reason,
        decision.arguments is not None,
        decision.remember,
        request.tool,
        dict(arguments),
        _time(request.created_at),
        request.session_id,
        request.run_id,
        request.id,
    ]


def _usage(name: str | None, item: Any) -> list[Any]:
    usage: Usage = item if isinstance(item, Usage) else item.usage
    if name is None:
        name = item.title or item.id if isinstance(item, SessionSummary) else getattr(item, "run_id", None)
    tokens = [getattr(usage, field) for field in _TOKENS]
    return [name, getattr(item, "model", None), *tokens, usage.total_tokens, getattr(item, "cost", None)]
