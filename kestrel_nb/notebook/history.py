"""What was said, used and decided, as DataFrames; and going back in a conversation, or on with a copy of it."""

from __future__ import annotations

from typing import Any

from ..protocol.errors import UsageError
from ..protocol.sessions import Usage
from ..runtime.forking import fork_title
from ..runtime.session import AgentSession
from .command import Command, Text
from .handle import RunHandle
from .rewound import Rewound, count, take_back
from .state import NotebookState, variables_of
from .visible import one_line

REQUEST_CHARS = 60  # of a request, as the name of its run
HISTORY_ORDER = ("role", "text", "calls", "tool", "is_error", "reasoning", "at", "provider", "id")
EVENT_ORDER = ("seq", "type", "tool", "text", "is_error", "duration_ms", "at", "call_id", "run_id", "session_id")


async def _session(state: NotebookState, name: str | None) -> AgentSession:
    """The session ``name``, as it is stored now, else the current one. Raises UsageError."""
    await state.app.initialize()
    await state.app.sessions.refresh()
    return state.find_session(name)


async def _current(state: NotebookState) -> AgentSession | None:
    await state.app.initialize()
    await state.app.sessions.refresh()
    return state.begun


async def _history(state: NotebookState, words: list[str]) -> Any:
    """Messages with the number of their turn; what stands before the first request is turn 0."""
    from ..frames import messages_frame

    messages = (await _session(state, words[0] if words else None)).messages
    turns, turn = [], 0
    for message in messages:
        turn += message.role == "user"
        turns.append(turn)
    frame = messages_frame(messages)[list(HISTORY_ORDER)]
    frame.insert(0, "turn", turns)
    return frame.astype({"turn": "int64"})


async def _usage(state: NotebookState, words: list[str]) -> Any:
    """The runs of a session in this kernel, then sessions, then their sum. A cost is missing where it is unknown."""
    from ..frames import usage_frame

    session = await _session(state, words[0]) if words else await _current(state)
    runs = state.runs.of(session.id) if session is not None else ()
    uses = [_Used(run.model, run.usage, run.cost) for run in runs]
    kinds = ["run"] * len(uses)
    names = [one_line(state.runs.typed(run.request), REQUEST_CHARS) for run in runs]
    sessions = [session] if words and session is not None else _sessions_here(state, session)
    totals = [_Used(_models_of(each), each.usage, each.cost) for each in sessions]
    kinds += ["session"] * len(totals)
    names += [one_line(each.title or each.id, REQUEST_CHARS) for each in sessions]
    if not words:
        totals.append(_sum(totals))
        kinds.append("total")
        names.append("")
    frame = usage_frame([*uses, *totals])
    frame["name"] = names
    frame.insert(0, "what", kinds)
    return frame


def _models_of(session: AgentSession) -> str:
    """The models that gave the session's replies, in the order in which they came in."""
    return ", ".join(entry.model for entry in session.spent) or session.model


class _Used:
    """A row of usage."""

    def __init__(self, model: str | None, usage: Usage, cost: float | None) -> None:
        self.model, self.usage, self.cost = model, usage, cost


def _sum(rows: list[_Used]) -> _Used:
    """All together; the cost is known only when that of each row with tokens is."""
    usage, cost = Usage(), 0.0
    unknown = False
    for row in rows:
        usage += row.usage
        unknown = unknown or (row.cost is None and row.usage.total_tokens > 0)
        cost += row.cost or 0.0
    return _Used(None, usage, None if unknown or not usage.total_tokens else cost)


def _sessions_here(state: NotebookState, current: AgentSession | None) -> list[AgentSession]:
    """The current session, and those of its workspace that have used anything, the one used last first.

    Through a cassette only those of this kernel: what earlier ones have left is not in it.
    """
    recorded = state.cassettes.are_used(state.app)
    workspace = current.workspace if current is not None else state.app.workspace
    sessions = [state.app.sessions.get(summary.id) for summary in state.app.sessions.list()]
    return [
        session
        for session in sessions
        if session is current
        or (
            session.workspace == workspace
            and session.usage.total_tokens
            and (state.runs.of(session.id) or not recorded)
        )
    ]


async def _events(state: NotebookState, words: list[str]) -> Any:
    """The events of the last run, or of the one that a variable holds."""
    from ..frames import events_frame

    handle = state.namespace.get(words[0]) if words else state.last
    if not isinstance(handle, RunHandle):
        if not words:
            raise UsageError("no run yet in this kernel; a %%kestrel cell starts one")
        runs = variables_of(state.namespace, RunHandle)
        raise UsageError(
            f'no variable "{words[0]}" holds a run; ' + (f"these do: {', '.join(runs)}" if runs else "none does")
        )
    return events_frame(handle.events)[list(EVENT_ORDER)]


async def _approvals(state: NotebookState, words: list[str]) -> Any:
    from ..frames import approvals_frame

    return approvals_frame((await _session(state, words[0] if words else None)).approvals)


async def _rewind(state: NotebookState, words: list[str]) -> Rewound:
    rest, name = _after_s(words, "rewind")
    session = await _session(state, name)
    done = take_back(session, rest, state.runs.typed)
    await session.drain()
    return done


async def _fork(state: NotebookState, words: list[str]) -> Text:
    """Copy a session, and go on in the copy. Raises UsageError."""
    rest, name = _after_s(words, "fork")
    if rest is not None and rest.startswith("-"):
        raise UsageError(f"no option {rest}; usage: %kestrel fork {COMMANDS['fork'].usage}")
    source = await _session(state, name)
    if source.is_running:
        raise UsageError("the session is running; wait for its end, or stop it with %kestrel cancel")
    title = None
    if state.cassettes.are_used(state.app):
        title = fork_title(source.title, {each.title for each in _sessions_here(state, source)})
    if rest is None:
        fork = state.app.sessions.fork(source.id, title=title)
    else:
        state.must_be_free(rest)
        fork = state.app.sessions.fork(source.id, new_id=state.names.free_id(state.app, rest), title=title)
        state.names.take(rest, fork)
    state.go_on_with(fork)
    await fork.drain()
    called = f"session {rest}" if rest else f'"{fork.title}"' if fork.title else "a new session"
    held = count(len(fork.messages), "message")
    return Text(f"Cells go on in {called}, a copy with {held}. The session it was made from stays as it is.")


def _after_s(words: list[str], command: str) -> tuple[str | None, str | None]:
    """``[WORD] [-s SESSION]``, in either order. Raises UsageError."""
    rest, name = list(words), None
    if "-s" in rest:
        at = rest.index("-s")
        if at + 1 >= len(rest):
            raise UsageError("-s needs a value: -s SESSION; %kestrel sessions lists them")
        name = rest[at + 1]
        del rest[at : at + 2]
    if len(rest) > 1:
        raise UsageError(f"usage: %kestrel {command} {COMMANDS[command].usage}")
    return (rest[0] if rest else None), name


COMMANDS = {
    "history": Command("[SESSION]", "what was said, as a DataFrame", 1, _history, ("session",)),
    "usage": Command(
        "[SESSION]",
        "tokens and cost of runs, of the folder's sessions and in total, as a DataFrame",
        1,
        _usage,
        ("session",),
    ),
    "events": Command("[NAME]", "the events of the last run, or of a variable's, as a DataFrame", 1, _events, ("run",)),
    "approvals": Command("[SESSION]", "who allowed or declined what, as a DataFrame", 1, _approvals, ("session",)),
    "rewind": Command(
        "[TURN] [-s SESSION]",
        "take back the last turn, or all from a turn on; files stay as they are",
        3,
        _rewind,
        ("message|=-s=session",),
    ),
    "fork": Command("[NAME] [-s SESSION]", "go on in a copy of the session", 3, _fork, ("=-s=session",)),
}
