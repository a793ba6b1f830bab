"""Runs as events, for tests of view and record: one call each, spelled as the runtime emits them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kestrel_nb.notebook import view_state
from kestrel_nb.notebook.view_state import ViewState
from kestrel_nb.protocol import events as ev
from kestrel_nb.protocol.sessions import AnsweredBy, ApprovalDecision, ApprovalRequest, Usage
from kestrel_nb.protocol.tools import CommandPreview, DiffPreview, Preview, RequestPreview

AT = 1_000.0
LIMIT = 900.0


def make(kind: type[ev.SessionEvent], at: float = AT, **fields: Any) -> Any:
    return kind(session_id="ses_1", run_id="run_1", at=at, **fields)


def started(model: str = "openai:gpt-5-mini") -> list[ev.SessionEvent]:
    return [make(ev.RunStarted, model=model, input="do it"), make(ev.StepStarted, step=1)]


def said(text: str, message_id: str = "msg_1") -> list[ev.SessionEvent]:
    return [make(ev.MessageDelta, message_id=message_id, text=text)]


def call(tool: str, arguments: dict[str, Any], call_id: str = "call_1") -> list[ev.SessionEvent]:
    return [make(ev.ToolStarted, call_id=call_id, tool=tool, arguments=arguments)]


def ran(tool: str, content: str = "", data: Any = None, call_id: str = "call_1", **more: Any) -> list[ev.SessionEvent]:
    more.setdefault("duration_ms", 40.0)
    return [make(ev.ToolExecuted, call_id=call_id, tool=tool, content=content, data=data, **more)]


def request(
    tool: str, arguments: dict[str, Any], preview: Preview | None = None, call_id: str = "call_1", at: float = AT
) -> ApprovalRequest:
    return ApprovalRequest(
        id=f"apr_{call_id}",
        session_id="ses_1",
        run_id="run_1",
        call_id=call_id,
        tool=tool,
        arguments=arguments,
        reason=f"Asked because {tool} always asks (the tool’s default).",
        fingerprint="0" * 64,
        created_at=at,
        expires_at=at + LIMIT,
        preview=preview,
    )


def asked(asking: ApprovalRequest) -> list[ev.SessionEvent]:
    return [make(ev.ApprovalRequested, request=asking)]


def answered(asking: ApprovalRequest, by: AnsweredBy, *, approved: bool, **decision: Any) -> list[ev.SessionEvent]:
    answer = ApprovalDecision(approved=approved, **decision)
    return [make(ev.ApprovalResolved, request=asking, decision=answer, answered_by=by)]


def ended(status: str = "completed", steps: int = 2, tokens: int = 3_482) -> list[ev.SessionEvent]:
    usage = Usage(input_tokens=tokens - 82, output_tokens=82)
    return [
        make(ev.UsageUpdated, usage=usage, cost=0.004),
        make(ev.RunCompleted, at=AT + 14, status=status, usage=usage, steps=steps),
    ]


def play(events: Iterable[ev.SessionEvent], **options: Any) -> ViewState:
    state = view_state.initial(**options)
    for event in events:
        state = view_state.apply(state, event)
    return state


SHELL = request(
    "shell",
    {"command": "pytest -q tests/test_fetch.py"},
    CommandPreview(command="pytest -q tests/test_fetch.py", cwd="analysis", timeout_s=120),
)
EDIT = request(
    "edit_file",
    {"path": "src/poll.py", "old_string": "time.sleep(1)", "new_string": "await asyncio.sleep(1)"},
    DiffPreview(
        path="src/poll.py",
        diff="--- a/src/poll.py\n+++ b/src/poll.py\n@@ -11,3 +11,3 @@\n while not self.done:\n"
        "-    time.sleep(1)\n+    await asyncio.sleep(1)\n done\n",
        added=1,
        removed=1,
    ),
    call_id="call_2",
)
FETCH = request(
    "http-fetch",
    {
        "url": "https://api.example.org/v1/geocode",
        "method": "POST",
        "headers": {"content-type": "application/json", "authorization": "Bearer abc"},
        "body": '{"q": "Rue de la Loi 16, Bruxelles", "limit": 5}',
        "timeoutMs": 9000,
    },
    RequestPreview(
        method="POST",
        url="https://api.example.org/v1/geocode",
        headers={"content-type": "application/json", "authorization": "Bearer abc"},
        body='{"q": "Rue de la Loi 16, Bruxelles", "limit": 5}',
    ),
    call_id="call_3",
)
ROWS = [
    {"path": "src/fetch.py", "line": 41, "text": "    resp = requests.get(url)"},
    {"path": "src/poll.py", "line": 12, "text": "        time.sleep(1)"},
]
