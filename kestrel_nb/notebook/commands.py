"""``%kestrel WORD ...``: each command parses its words and calls one thing. They return objects and print nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from IPython.core.error import UsageError as ShellUsageError
from IPython.display import display

from ..protocol.errors import KestrelError, UsageError
from ..protocol.sessions import ApprovalDecision
from . import cassette_words, doctor, fixing, helping, history, model_list, policy, tool_list, using
from .cell import split_words
from .command import Command, Text, shell_error, table
from .inbox import Inbox
from .screen import Screen
from .state import NotebookState, current
from .waiting import interruptible

# These need not wait, once the application has come to life.
AT_ONCE = ("use", "new", "show", "policy", "record", "replay", "doctor", "help")
CANT_WAIT = "%kestrel can't wait here: put it at the left margin of a cell of its own, with %autoawait on (the default)"
LOADS = "%kestrel {} can't wait in the cell that loads the extension: run it in a cell after that one"


async def run_line(line: str) -> Any:
    """Work one ``%kestrel`` line. A person's mistake is one line of text."""
    try:
        words = _split(line)
        if not words:
            raise UsageError(f"%kestrel needs a word: {', '.join(COMMANDS)}; %kestrel help says more")
        words = _asking(words)
        command = COMMANDS.get(words[0])
        if command is None:
            raise UsageError(helping.unknown_word(words[0], COMMANDS))
        if len(words) - 1 > command.most:
            raise UsageError(f"usage: %kestrel {words[0]} {command.usage}".rstrip())
        async with interruptible("interrupted"):
            return await command.work(current(), words[1:])
    except KestrelError as error:
        raise shell_error(error) from None


def _split(line: str) -> list[str]:
    word, _, rest = line.strip().partition(" ")
    command = COMMANDS.get(word)
    return [word, rest.strip()] if command is not None and command.raw else split_words(line)


def _asking(words: list[str]) -> list[str]:
    """``words``, or ``help WORD`` for another way to ask for it: ``--help``, ``WORD --help``, ``WORD?``."""
    if words[0] in ("-h", "--help"):
        return ["help", *words[1:]]
    if words[0] in COMMANDS and words[1:] in (["-h"], ["--help"]):
        return ["help", words[0]]
    bare = words[0].rstrip("?")
    if len(words) == 1 and bare != words[0] and (not bare or bare in COMMANDS):
        return ["help", bare] if bare else ["help"]
    return words


def run_line_at_once(line: str) -> Any:
    """Work a line where nothing can be awaited, as in the cell that loads the extension.

    Raises a usage error for a command that would have to wait.
    """
    words = line.split()
    work = run_line(line)
    if words and words[0] in COMMANDS and words[0] not in AT_ONCE:
        work.close()
        raise ShellUsageError(_why_not(words[0]))
    state = current()
    state.can_wait = False
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    finally:
        state.can_wait = True
    work.close()
    raise ShellUsageError(_why_not(words[0]))


def _why_not(word: str) -> str:
    """Why a word can't wait where it stands, and where it can."""
    return LOADS.format(word) if current().cells.loading else CANT_WAIT


async def _sessions(state: NotebookState, words: list[str]) -> Any:
    """Every stored session, of other folders too, the one used last first; ``updated`` is in UTC."""
    await state.app.initialize()
    await state.app.sessions.refresh()
    rows = []
    for summary in state.app.sessions.list():
        session = state.app.sessions.get(summary.id)
        rows.append(
            {
                "session": summary.id,
                "title": summary.title,
                "model": summary.model,
                "messages": summary.message_count,
                "updated": datetime.fromtimestamp(summary.updated_at, UTC) if summary.updated_at else None,
                "running": summary.is_running,
                "waiting": summary.pending_approvals,
                "interrupted": len(session.interrupted),
                "workspace": summary.workspace,
            }
        )
    names = "session title model messages updated running waiting interrupted workspace"
    return table(rows, tuple(names.split()))


async def _show(state: NotebookState, words: list[str]) -> None:
    """Display a record again: of the last run, or of the one that a variable holds."""
    handle = state.namespace.get(words[0]) if words else state.last
    if handle is None and words:
        raise UsageError(f'no variable "{words[0]}" holds a run')
    if handle is None:
        raise UsageError("no run yet in this kernel; a %%kestrel cell starts one")
    record = getattr(handle, "record", None)
    if not isinstance(record, dict):
        raise UsageError(f'"{words[0]}" holds no run')
    display(record, raw=True)


async def _cancel(state: NotebookState, words: list[str]) -> Text:
    await state.app.initialize()
    session = state.find_session(words[0]) if words else state.begun
    if session is None or not session.cancel():
        return Text("nothing is running there")
    await session.ended()
    return Text("stopped")


async def _approve(state: NotebookState, words: list[str]) -> Any:
    """Approve a question; ``--session`` also allows its tool from now on. Finishes a run left by an earlier kernel."""
    remember = "--session" in words
    ids = [word for word in words if word != "--session"]
    if len(ids) != 1:
        raise UsageError("usage: %kestrel approve ID [--session]; %kestrel inbox lists the questions")
    return await _answer(state, ids[0], ApprovalDecision(approved=True, remember="session" if remember else None))


async def _decline(state: NotebookState, words: list[str]) -> Any:
    if not words:
        raise UsageError('usage: %kestrel decline ID ["reason"]; %kestrel inbox lists the questions')
    return await _answer(state, words[0], ApprovalDecision(approved=False, reason=" ".join(words[1:]) or None))


async def _answer(state: NotebookState, word: str, decision: ApprovalDecision) -> Any:
    """Answer, and show the run that goes on here, if one does."""
    await state.app.initialize()
    await state.app.sessions.refresh()
    id = state.approval_id(word)
    request = next((item for item in state.app.approvals.pending() if item.id == id), None)
    sessions = state.app.sessions  # a session that is not listed may ask as well
    session = sessions.get(request.session_id) if request and sessions.has(request.session_id) else None
    screen = Screen.for_resumed(state, session) if session and not session.is_running else None
    try:
        state.app.approvals.resolve(id, decision, answered_by="command")
    except BaseException:
        if screen:
            screen.abandon()
        raise
    verb = "approved" if decision.approved else "declined"
    if screen is None or session is None:
        return Text(f"{verb}; the run goes on in its own cell")
    if not session.is_running:
        screen.abandon()
        return Text(f"{verb}; the process that works on that session takes the answer")
    await screen.follow(session)
    return None


async def _inbox(state: NotebookState, words: list[str]) -> Inbox:
    await state.app.initialize()
    await state.app.sessions.refresh()
    return Inbox.of(state)


async def _help(state: NotebookState, words: list[str]) -> Text:
    return help_text(words)


def help_text(words: list[str]) -> Text:
    """What there is, or one word or option of it. Raises UsageError for another one."""
    return Text(helping.help_for(words[0], COMMANDS) if words else helping.overview(COMMANDS))


COMMANDS = {
    "use": Command(
        "NAME",
        "use a model (an id, or PROVIDER:MODEL), or the model, Kestrel or tool that a variable holds",
        1,
        using.use,
        ("model|usermodel|app|usertool",),
    ),
    "models": Command(
        "[PROVIDER]",
        "the models, or a provider's, as a DataFrame",
        1,
        model_list.models,
        ("provider",),
    ),
    "tools": Command(
        "", "every tool: its permission, whether it is on or what to do, its arguments; a DataFrame", 0, tool_list.tools
    ),
    "sessions": Command("", "the sessions, newest first, as a DataFrame", 0, _sessions),
    "new": Command("[NAME]", "begin a new session", 1, using.new),
    "show": Command("[NAME]", "show the record of the last run again, or of a variable's", 1, _show, ("run",)),
    "cancel": Command("[SESSION]", "stop a run", 1, _cancel, ("session",)),
    "inbox": Command("", "the questions that wait for an answer", 0, _inbox),
    "approve": Command("ID [--session]", "approve a question", 2, _approve, ("approval|=--session",)),
    "decline": Command("ID [REASON]", "decline a question", 99, _decline, ("approval",)),
    **history.COMMANDS,
    **policy.COMMANDS,
    **fixing.COMMANDS,
    **cassette_words.COMMANDS,
    **doctor.COMMANDS,
    "help": Command("[WORD]", "this list, or one word of it", 1, _help, ("command|option",)),
}
