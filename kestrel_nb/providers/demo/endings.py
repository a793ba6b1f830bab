"""What the demo model says of a call that was not run, or whose result nobody knows: which call it was, and why."""

from __future__ import annotations

import re

from .outcomes import Outcome
from .quoting import code, inline

_DEED = {
    "list": "list {path}",
    "find": "look for {pattern}",
    "count_files": "count the files that match {pattern}",
    "read": "read {path}",
    "summary": "read {path}",
    "search": "search for {pattern}",
    "count": "count the lines that match {pattern}",
    "write": "write {path}",
    "append": "append to {path}",
    "edit": "edit {path}",
    "run": "run {command}",
    "todo": "update the task list",
    "fetch": "fetch {url}",
    "request": "send a request to {url}",
    "compute": "compute {expression}",
    "javascript": "run the JavaScript",
    "sql": "query the database",
    "web_search": "search the web for {query}",
    "image": "look at the image",
    "computed": "compute the {what}",
    "drawn": "draw the {what}",
}
_INSTEAD = {
    "run": "You can run it yourself, or ask me to read, search or list files instead.",
    "write": "I can show files instead, or write another text or another file.",
    "append": "I can show the file instead, or write another text.",
    "edit": "I can show the lines instead, or make another change.",
    "computed": "You can run the code yourself, or ask for something else instead.",
    "drawn": "You can run the code yourself, or ask for something else instead.",
    "request": "You can send it yourself, or ask for something else instead.",
    "fetch": "You can paste the text, or ask for a file of the workspace instead.",
}
_POLICIES = ("deny", "fail", "approve")
_AGAIN = "Ask for something else instead, or ask again if that was a mistake."


def deed(outcome: Outcome) -> str:
    """The call as an infinitive: ``run `make all```."""
    values = {**outcome.step.op.args, **outcome.step.arguments, "tool": outcome.step.tool}
    template = _DEED.get(outcome.step.op.kind, "call {tool}")
    if outcome.step.op.kind == "count" and outcome.step.arguments.get("pattern") == "^":
        template = "count the lines"
    template = template.replace("{what}", str(values.get("what", "result")))
    return re.sub(r"\{(\w+)\}", lambda found: code(str(values.get(found[1], "."))), template)


def declined(outcome: Outcome) -> str:
    """That a person, or the rule for when nobody is there, said no, with the reason given."""
    who, reason = _who_and_why(outcome.text)
    why = f" The reason given: {inline(reason)}." if reason else ""
    return f"I did not {deed(outcome)}, because {who}.{why} {_INSTEAD.get(outcome.step.op.kind, _AGAIN)}"


def _who_and_why(text: str) -> tuple[str, str]:
    found = re.fullmatch(r"the (user|policy)\b(.*?) declined this call(?:\. Reason: (.*)|\.?)", text.strip(), re.S)
    if found is None:
        return "that call was declined", text.strip()
    reason = (found[3] or "").strip()
    if found[1] == "policy":
        named = re.search(r"\((.*)\)", found[2], re.S)
        reason = named[1] if named and named[1] not in _POLICIES else reason
        return "nobody was there to approve it, and the policy for such runs declines", reason
    return "you declined that call", reason


def not_run(outcome: Outcome) -> str:
    """What became of a call that has no result, from the words that the runtime gave it in the place of one."""
    cause, _, why = outcome.text.partition(":")
    cause, why, what = cause.strip().lower(), why.strip(), deed(outcome)
    if "nobody answered" in why:
        return f"I did not {what}: I asked, and nobody answered in time. Ask again when you can answer."
    if cause == "interrupted":
        return (
            f"I began to {what}, but the process ended before the result came, so I do not know how far it got. "
            "I did not try it again."
        )
    if cause == "cancelled":
        return f"The run was stopped while I began to {what}; a part of it may have been done. I did not try it again."
    if cause == "not decided":
        return f"I did not {what}: your new message came before anybody had answered. Ask again if you still want it."
    if why.startswith("the run "):
        return f"I did not {what}, because {why.rstrip('.')}."
    return f"I did not {what}, it was not allowed to run: {inline(why or outcome.text)}."
