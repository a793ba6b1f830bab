"""The sentences that view and record share: the header, who decided what, how a run failed.

A sentence is a list of parts, ``["b" | "code" | "", text]``, so that HTML, Markdown, plain text and the page each
write it in their own way.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from ..sandbox.output import plural
from .summaries import clock, money
from .visible import one_line, visible

if TYPE_CHECKING:
    from .view_state import ViewState

Sentence = list[list[str]]

STATE_WORDS = {
    "streaming": "arriving",
    "waiting": "waiting",
    "running": "running",
    "done": "done",
    "failed": "failed",
    "declined": "declined",
    "cancelled": "cancelled",
    "not-run": "not run",
}
_TODO = {"completed": ("done", "done"), "in_progress": ("running", "now"), "pending": ("not-run", "open")}
_STATUS = {"running": "Running", "done": "Finished", "failed": "Failed", "max_steps": "Stopped at the step limit"}
_BY = {
    "stdin": "by you at the prompt",
    "terminal": "by you at the prompt",
    "code": "by code",
    "http": "over HTTP",
    "rule": "by a rule",
    "cassette": "as recorded",
}


def status_word(state: ViewState) -> str:
    """``Running``, ``Waiting for you``, ``Finished`` and so on."""
    if state["status"] == "cancelled":
        return "Interrupted" if state["interrupted"] else "Stopped"
    if state["status"] == "running" and is_waiting(state):
        return "Waiting for you"
    return _STATUS[state["status"]]


def status_mark(state: ViewState) -> str:
    """The ``data-state`` of the whole run."""
    if state["status"] == "running" and is_waiting(state):
        return "waiting"
    return "cancelled" if state["status"] == "max_steps" else state["status"]


def is_waiting(state: ViewState) -> bool:
    """Whether a card is open."""
    return any(block.get("card") for block in state["blocks"][-200:])


def facts(state: ViewState, *, with_time: bool = True) -> list[str]:
    """What stands behind the state in the header. A stable run names its model and its steps only."""
    found = [model_label(state["model"])] if state["model"] else []
    step = state["step"]
    if state["status"] in ("running", "cancelled"):
        found += [f"step {step}"] if step else []
    else:
        found.append(plural(step, "step"))
    if state["stable"]:
        return found
    started, ended = state["started_at"], state["ended_at"]
    if with_time and started is not None:
        found.append(clock((ended if ended is not None else time.time()) - started))
    tokens = state["tokens"]
    if tokens is not None:
        found.append(plural(tokens, "token"))
        found += [money(state["cost"])] if state["cost"] is not None else ["cost unknown"] if tokens else []
    if state["tries"] > 1 and state["status"] not in ("running", "failed"):
        found.append(f"tried {state['tries']} times")
    return [fact for fact in found if fact]


def model_label(model: str) -> str:
    """The demo model says what it is."""
    return "demo (a rule model, no AI)" if model == "demo" else model


# ---- decisions ----------------------------------------------------------------------------------------------------


def decision_of(state: ViewState, row: dict[str, Any]) -> Sentence | None:
    """Who decided about a call, or None when nobody was asked and nothing was refused."""
    answer = row["decision"]
    if answer is None:
        return _denied(row) if row["state"] == "declined" else None
    verb = "Declined" if not answer["approved"] else "Approved with changes" if answer["changed"] else "Approved"
    sentence = [["b", verb], *_by(state, answer)]
    if answer["remember"]:
        sentence += [["", ", for this session: "], ["code", f"{row['tool']}: auto"]]
    if answer["changed"]:
        sentence.append(["", "; changed: "])
        for name in answer["changed"]:
            sentence += [["code", name], ["", ", "]]
        sentence.pop()
    sentence.append(["", "."])
    reason = answer["reason"]
    if reason and answer["by"] not in ("policy", "timeout", "cancel", "rule"):
        sentence.append(["", f" {'Note' if answer['approved'] else 'Reason'}: “{reason}”"])
    return sentence


def _by(state: ViewState, answer: dict[str, Any]) -> Sentence:
    by = answer["by"]
    verb = "approve" if answer["approved"] else "decline"
    if by == "policy":
        usual = "approve" if answer["approved"] else "deny"
        name = answer["reason"] if answer["reason"] in ("deny", "approve", "fail") else usual
        return [["", " by the policy for notebooks that run without a person ("], ["code", name], ["", ")"]]
    if by == "cancel" and answer["reason"].startswith("a new message"):
        return [["", f" because {answer['reason']}"]]
    if by == "cancel":
        who = "by the interrupt" if state["interrupted"] else "because the run was stopped"
        return [["", f" {who}; nobody had answered yet"]]
    if by == "timeout":
        return [["", f" because nobody answered{_within(answer['limit_s'])}"]]
    if state["stable"]:
        return [["", " by a rule"]] if by == "rule" else []
    if by == "button":
        return [["", " by you with the button"]]
    if by == "command":
        return [["", " by you with "], ["code", f"%kestrel {verb}"]]
    return [["", f" {_BY.get(by, 'by ' + visible(str(by)))}"]]


def _within(seconds: float | None) -> str:
    if not seconds:
        return ""
    if seconds < 60:
        return f" within {seconds:g} {'second' if seconds == 1 else 'seconds'}"
    return f" within {plural(round(seconds / 60), 'minute')}"


def _denied(row: dict[str, Any]) -> Sentence:
    rule = re.search(r"\brules?\b", row["detail"])
    if rule:
        return [["b", "Declined"], ["", " by a rule."]]
    return [["b", "Declined"], ["", " by the policy ("], ["code", "deny"], ["", ")."]]


def declined_word(row: dict[str, Any]) -> str:
    """What stands in the result column of a declined row."""
    by = row["decision"]["by"] if row["decision"] else "policy"
    people = ("button", "stdin", "command", "terminal")
    return "by you" if by in people else {"policy": "by policy", "rule": "by a rule", "code": "by code"}.get(by, "")


# ---- the end ------------------------------------------------------------------------------------------------------


def error_of(state: ViewState) -> list[Sentence]:
    """Why a run failed: one bold sentence with its code, then what to do."""
    error = state["error"]
    if error is None:
        return []
    first, rest = _first_sentence(visible(error["message"]).strip())
    tried = f", tried {state['tries']} times" if state["tries"] > 1 else ""
    code = f" ({error['code']}{tried})" if error["code"] else ""
    sentences: list[Sentence] = [[["b", first.rstrip(".") or "The run failed"], ["", f"{code}."]]]
    return [*sentences, [["", rest.strip()]]] if rest.strip() else sentences


def _first_sentence(text: str) -> tuple[str, str]:
    """The first sentence and the rest. What stands in double quotes, such as words of a model, is not cut."""
    ends = (found.start() for found in re.finditer(r"\. ", text))
    end = next((at for at in ends if text.count('"', 0, at) % 2 == 0), len(text))
    return text[: end + 1], text[end + 1 :]


def left_out(count: int, what: str) -> str:
    """``3 more rows are left out``."""
    return f"{plural(count, f'more {what}')} {'is' if count == 1 else 'are'} left out"


def todo_words(state: ViewState, item: dict[str, Any]) -> tuple[str, str]:
    """Mark and word of a task; nothing is going on once the run has ended."""
    going = state["status"] == "running" or item["state"] != "in_progress"
    return _TODO[item["state"] if going else "pending"]


def todo_title(items: list[dict[str, Any]]) -> str:
    """``Tasks: 2 of 5 done``."""
    return f"Tasks: {sum(item['state'] == 'completed' for item in items)} of {len(items)} done"


# ---- what was sent ------------------------------------------------------------------------------------------------

SENT_COLUMNS = ("variable", "type", "disclosed", "cell values", "characters")
SENT_TEXT = [True, True, True, False, False]  # the columns that align left
SENT_ROWS = 20


def sent_title(rows: list[dict[str, Any]]) -> str:
    """``What was sent: 3 variables, 21 cell values, 1,104 characters``."""
    count, values, size = len(rows), sent_values(rows), sum(_whole(row.get("characters")) for row in rows)
    if rows and all(row.get("part") for row in rows):
        return f"What was sent: {' and '.join(str(row['part']) for row in rows)}, {plural(size, 'character')}"
    cells = plural(values, "cell value") if values else "no cell values"
    return f"What was sent: {plural(count, 'variable')}, {cells}, {plural(size, 'character')}"


def sent_values(rows: list[dict[str, Any]]) -> int:
    """How many values of the user's the prompt holds. The fold opens by itself when there are several."""
    return sum(_whole(row.get("values")) for row in rows)


def sent_rows(rows: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """The cells of SENT_COLUMNS for the first SENT_ROWS variables."""
    return [
        (
            *(one_line(str(row.get(name, "")), 60) for name in ("variable", "type", "disclosed")),
            f"{_whole(row['values']):,}" if _whole(row.get("values")) else str(row.get("values") or "none"),
            f"{_whole(row.get('characters')):,}",
        )
        for row in rows[:SENT_ROWS]
    ]


def sent_rest(rows: list[dict[str, Any]]) -> str:
    """What the rows leave out."""
    return f"The first {SENT_ROWS} of {len(rows):,} variables are listed." if len(rows) > SENT_ROWS else ""


def sent_whole(state: ViewState) -> Sentence:
    """Where the message stands word for word."""
    return [["", "The whole message is in "], ["code", f"{state['handle']}.request"], ["", "."]]


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0
