"""The message of a ``%%kestrel`` cell on its way out: its references replaced, perhaps with the news of the variables.

Everything that can refuse it comes first; ``Outgoing.remember`` notes in the session what went out, once it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..protocol.errors import UsageError
from ..protocol.messages import ChatMessage
from ..runtime.prompts import title_from_input
from ..runtime.session import AgentSession
from .disclosure import LEVELS, Level
from .disclosure_kinds import hides, is_a
from .handle import RunHandle
from .inspecting import DISCLOSED
from .interpolation import Interpolated, Note, Sent, interpolate
from .state import NotebookState
from .variables import Changes, Snapshot, Variable, changes, snapshot, user_variables
from .visible import one_line

CONTEXT = "context"  # in a session's metadata: the variables that its model was last told of
WITHOUT_DATA = "without_data"  # in a session's metadata: the ids of messages that went out or came in below --no-data
EARLIER_VALUES = (
    "Earlier requests and results of this session go to the model again, and they may hold values; "
    "%kestrel new begins without them"
)
VARIABLES = 50  # of one message's news
_HEAD = "Variables of the notebook since you were last told, by name, type and shape:"
NAME = 80  # characters of a variable's name


@dataclass(frozen=True, slots=True)
class Outgoing:
    """``text`` as it is sent for what was ``typed``, and the ``rows`` of what it discloses."""

    typed: str
    text: str
    rows: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[Note, ...] = ()
    levels: Mapping[str, Level] | None = None
    variables: Snapshot | None = None

    def remember(self, session: AgentSession) -> None:
        """The message has gone out in ``session``, which is named after what a person typed, not after a schema."""
        named = session.title == title_from_input(self.text)
        if named and self.text != self.typed:
            session.rename(title_from_input(self.typed))
        if self.levels:
            known: dict[str, Level] = session.metadata.setdefault(DISCLOSED, {})
            for name, level in self.levels.items():
                known[name] = max(known.get(name, level), level, key=LEVELS.index)
        if self.variables is not None:
            session.metadata[CONTEXT] = self.variables


def compose(
    state: NotebookState, session: AgentSession, prompt: str, *, no_data: bool = False, context: bool = False
) -> Outgoing:
    """``prompt`` with its references replaced; with ``context``, the news of the variables below it.

    Raises UsageError, with ``no_data``, for a reference that would send a value.
    """
    found = interpolate(prompt, state.namespace, getattr(state.shell, "user_ns_hidden", None))
    if no_data:
        _refuse_values(found)
    text, sent, now = found.text, found.sent, None
    if context:
        variables = user_variables(state.shell)
        now = snapshot({name: value for name, value in variables.items() if not is_a(value, RunHandle)})
        news, told = _news(changes(session.metadata.get(CONTEXT) or Snapshot({}), now))
        text, sent = text + news, (*sent, *told)
    return Outgoing(prompt, text, tuple(asdict(row) for row in sent), found.notes, found.levels, now)


def may_hold_values(session: AgentSession) -> bool:
    """Whether a turn before the last one is not known to have been sent without data."""
    known = session.metadata.get(WITHOUT_DATA, ())
    talk = [message for message in session.messages if message.role in ("user", "assistant")]
    return any(message.id not in known for message in talk[: _last_request(talk)])


def note_without_data(session: AgentSession) -> None:
    """The last turn was sent without data."""
    messages = session.messages
    session.metadata.setdefault(WITHOUT_DATA, set()).update(
        message.id for message in messages[_last_request(messages) :]
    )


def _last_request(messages: Sequence[ChatMessage]) -> int:
    places = (place for place in range(len(messages) - 1, -1, -1) if messages[place].role == "user")
    return next(places, len(messages))


def _refuse_values(found: Interpolated) -> None:
    row = next((row for row in found.sent if row.values), None)
    if row is None:
        return
    level = "" if row.disclosed.startswith(("value", "schema")) else f" ({row.disclosed})"
    count = "a value" if row.values == 1 else f"{row.values:,} values"
    raise UsageError(
        f"{row.variable}{level} would send {count}, and --no-data is on; nothing was sent. "
        f"Write {{{row.variable}:schema}}, or drop the option or the setting"
    )


def _news(found: Changes) -> tuple[str, tuple[Sent, ...]]:
    """The block that tells what is new, changed and gone, and a row for each variable in it; "" when nothing is."""
    groups = (("new", found.new), ("changed", found.changed), ("gone", found.gone))
    listed = [(word, variable) for word, variables in groups for variable in variables]
    lines = [
        f"\n- {one_line(variable.name, NAME)}: {_brief(variable)} ({word})" for word, variable in listed[:VARIABLES]
    ]
    if not lines:
        return "", ()
    lines[0] = f"\n\n{_HEAD}{lines[0]}"  # each character belongs to the row of some variable
    left = len(listed) - VARIABLES
    lines[-1] += f"\n… {left:,} more {'variable' if left == 1 else 'variables'}" if left > 0 else ""
    rows = [
        Sent(one_line(variable.name, NAME), _brief(variable), f"name, type and shape ({word})", 0, len(line))
        for (word, variable), line in zip(listed, lines, strict=False)
    ]
    return "".join(lines), tuple(rows)


def _brief(variable: Variable) -> str:
    return variable.type if hides(variable.name) else variable.brief  # the length of a password is its own affair
