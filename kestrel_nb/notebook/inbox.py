"""The questions that wait, as ``%kestrel inbox`` shows them. It can't approve: that takes the whole call in view."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ..protocol.messages import ToolCallPart
from ..protocol.sessions import ApprovalRequest
from .rendering import escape_text
from .summaries import arguments_line
from .visible import one_line, visible

if TYPE_CHECKING:
    from ..frames import DataFrame
    from ..runtime.manager import SessionManager
    from .state import NotebookState

HOW = 'Answer: %kestrel approve ID, or %kestrel decline ID "reason"'


class Inbox:
    """Open questions with their short ids, and calls that a restart interrupted. ``frame`` has them as data."""

    def __init__(
        self, questions: list[tuple[str, ApprovalRequest, str]], interrupted: list[tuple[ToolCallPart, str]]
    ) -> None:
        self._questions = questions
        self._interrupted = interrupted

    @classmethod
    def of(cls, state: NotebookState) -> Inbox:
        """Everything that waits in the application of ``state``."""
        sessions = state.app.sessions
        titles = {summary.id: summary.title or summary.id for summary in sessions.list()}
        questions = [
            (state.short_id(request), _as_asked(sessions, request), titles.get(request.session_id, request.session_id))
            for request in state.app.approvals.pending()
        ]
        interrupted = [(call, titles[id]) for id in sorted(titles) for call in sessions.get(id).interrupted]
        return cls(questions, interrupted)

    @property
    def frame(self) -> DataFrame:
        """The questions: short id, whole id, tool, call, session, seconds left (missing: no limit)."""
        from ..frames import to_frame

        names = ["id", "approval", "tool", "call", "session", "seconds_left"]
        rows = [
            [short, request.id, request.tool, arguments_line(request.arguments), title, _left(request)]
            for short, request, title in self._questions
        ]
        return to_frame({"columns": names, "rows": rows})

    def __len__(self) -> int:
        return len(self._questions)

    def __repr__(self) -> str:
        lines = [self._headline()]
        for short, request, title in self._questions:
            lines.append(
                f"{short}  {request.tool} {arguments_line(request.arguments)}  ({visible(title)}, {_words(request)})"
            )
        if self._questions:
            lines.append(HOW)
        lines += [
            f"interrupted, not run again: {call.name} {_arguments(call)}  ({visible(title)})"
            for call, title in self._interrupted
        ]
        return "\n".join(lines)

    def _headline(self) -> str:
        count = len(self._questions)
        return (
            "Nothing waits"
            if count == 0
            else f"{count} question{'' if count == 1 else 's'} wait{'s' if count == 1 else ''}"
        )

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._html()}

    def _html(self) -> str:
        from .sheet import record_sheet

        body = f'<p class="kestrel-ask"><b>{self._headline()}</b></p>'
        if self._questions:
            body += _table(self._questions) + f'<p class="kestrel-hint">{escape_text(HOW)}</p>'
        for call, title in self._interrupted:
            body += (
                f'<p class="kestrel-hint">Interrupted, not run again: {_code(call.name)} {_code(_arguments(call))} '
                f"({escape_text(title)})</p>"
            )
        html = f'<div class="kestrel-view kestrel-inbox">{body}</div>'
        return f"<style>{record_sheet(html)}</style>{html}"


def _table(questions: list[tuple[str, ApprovalRequest, str]]) -> str:
    heads = "".join(f'<th class="kestrel-t">{name}</th>' for name in ("id", "tool", "call", "session", "left"))
    rows = ""
    for short, request, title in questions:
        call = _code(arguments_line(request.arguments))
        cells = (_code(short), _code(request.tool), call, escape_text(one_line(title, 48)), _words(request))
        rows += "<tr>" + "".join(f'<td class="kestrel-t">{cell}</td>' for cell in cells) + "</tr>"
    table = f'<table class="kestrel-table"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'
    return f'<div class="kestrel-scroll">{table}</div>'


def _code(text: str) -> str:
    return f"<code>{escape_text(text)}</code>"


def _arguments(call: ToolCallPart) -> str:
    return arguments_line(call.arguments or {})


def _as_asked(sessions: SessionManager, request: ApprovalRequest) -> ApprovalRequest:
    """The question with its own time limit when a run in another process waits for it; here no clock runs."""
    session = sessions.get(request.session_id) if sessions.has(request.session_id) else None
    if session is None or session.owner is None:
        return request
    return next((stored for stored in session.pending if stored.id == request.id), request)


def _left(request: ApprovalRequest) -> int | None:
    return None if request.expires_at is None else max(0, round(request.expires_at - time.time()))


def _words(request: ApprovalRequest) -> str:
    left = _left(request)
    return "no limit" if left is None else f"{left // 60}:{left % 60:02d} left"
