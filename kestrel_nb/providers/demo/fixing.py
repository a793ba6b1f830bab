"""Requests about a failed cell: a correction where a fixed rule knows one, and the error in plain words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...protocol.messages import ToolCallPart, ToolResultPart
from ...protocol.tools import ToolSchema
from ...runtime.models import CompletionRequest
from .cases import Case, Look, Mend
from .offered import Step, fit, tool_for
from .outcomes import exchanges, follow
from .phrases import Op
from .quoting import code, inline
from .repairs import repair

_ASKED = re.compile(r"A cell of my notebook failed\. (Propose|It is too long|Explain)\b")
_BLOCKS = re.compile(r"^The (cell|traceback):\n(`{3,})\w+\n(.*?)\n\2$", re.M | re.S)
_ERROR = re.compile(r"^([A-Za-z_][\w.]*)(?:: (.*))?$")

RULE_MODEL = "I am the demo, a rule model and no AI: I mend what fixed rules know, and understand nothing else."
_KINDS = {
    "NameError": "a name is used that nothing has defined",
    "UnboundLocalError": "a name is used before the function has given it a value",
    "AttributeError": "an object was asked for something that it does not have",
    "KeyError": "a key or a column was looked up that is not there",
    "ColumnNotFoundError": "a column was looked up that is not there",
    "IndexError": "a position was asked for that lies beyond the end",
    "TypeError": "a value has a type that does not fit what is done with it",
    "ValueError": "a value has the right type, but is not one that works there",
    "ZeroDivisionError": "something was divided by zero",
    "SyntaxError": "Python could not read the code, so none of the cell ran",
    "IndentationError": "the lines are not indented as Python needs it, so none of the cell ran",
    "TabError": "tabs and spaces are mixed in the indentation, so none of the cell ran",
    "ModuleNotFoundError": "a module was imported that is not installed here, or not by that name",
    "ImportError": "a module has no such name to import, or could not be loaded",
    "FileNotFoundError": "there is no file of that name in that place",
    "PermissionError": "the file may not be opened in that way",
    "RecursionError": "a function called itself without an end",
    "AssertionError": "something that the code asserts was not true",
    "StopIteration": "there was nothing left to take",
    "OverflowError": "a number became too large",
    "MemoryError": "there was not enough memory",
    "TimeoutError": "something took too long",
    "UnicodeDecodeError": "bytes were read as text in an encoding that they are not in",
    "JSONDecodeError": "a text is not JSON",
}
_ADVICE = {
    "ZeroDivisionError": "What should come out when it is zero is yours to decide, no rule can know that.",
    "ModuleNotFoundError": "If the name is right, install it with %pip install in a cell of its own.",
    "FileNotFoundError": "Which file was meant is yours to say.",
}


def reply(asked: str, request: CompletionRequest) -> tuple[str, Sequence[Step]] | None:
    """What to say about a failed cell, and the call to make; None when ``asked`` is another request."""
    task = _ASKED.match(asked)
    blocks = {name: text for name, _, text in _BLOCKS.findall(asked)}
    if not task or set(blocks) != {"cell", "traceback"}:
        return None
    case = case_of(blocks["cell"], blocks["traceback"])
    if task[1] == "Explain":
        return _explained(case, asked), ()
    if task[1] != "Propose":
        return f"The cell is too long for me. {_explained(case, asked)}", ()
    return _fixed(case, request)


def case_of(source: str, traceback: str) -> Case:
    """The case in a request: the last error of ``traceback`` is the one that the cell ended with."""
    lines = traceback.split("\n")
    errors = [(index, found) for index, line in enumerate(lines) if (found := _ERROR.match(line))]
    if not errors:
        return Case(source, "an error", "", 0)
    index, last = next(((i, f) for i, f in reversed(errors) if f[2] is not None), errors[-1])
    numbers = re.findall(r"^ {2}Cell, line (\d+)", "\n".join(lines[:index]), re.M)
    return Case(source, last[1], last[2] or "", int(numbers[-1]) if numbers else 0)


def _fixed(case: Case, request: CompletionRequest) -> tuple[str, Sequence[Step]]:
    done = exchanges(request.messages)
    cell = tool_for("cell", request.tools)
    if cell is None:
        return f"I have no tool to propose a cell with. {_explained(case, '')}", ()
    for call, result in done:
        if call.name == cell.name:
            return _ended(
                Step(Op("cell", {}, "the correction"), cell.name, dict(call.arguments or {})), call, result
            ), ()
    looked = {_look_of(call): result.content if result and not result.is_error else "" for call, result in done}

    def known(look: Look) -> str | None:
        return looked.get(look) if _step(look, request) else ""

    found = repair(case, known)
    if isinstance(found, Mend):
        return found.why, (_proposal(cell, found.code),)
    if isinstance(found, Look) and (step := _step(found, request)):
        said = f"Looking at {code(found.variable)}." if found.variable else "Looking at the names that there are."
        return said, (step,)
    return f"I found no rule that mends this, so I propose nothing. {_explained(case, '')}", ()


def _proposal(cell: ToolSchema, text: str) -> Step:
    return Step(Op("cell", {"code": text}, "the correction"), cell.name, fit({"code": text}, cell))


def _step(look: Look, request: CompletionRequest) -> Step | None:
    kind = "variable" if look.variable else "variables"
    tool = tool_for(kind, request.tools)
    args = {"name": look.variable} if look.variable else {}
    return Step(Op(kind, args, "look"), tool.name, fit(args, tool)) if tool else None


def _look_of(call: ToolCallPart) -> Look:
    return Look(str((call.arguments or {}).get("name", "")))


def _ended(step: Step, call: ToolCallPart, result: ToolResultPart | None) -> str:
    outcome = follow([step], [(call, result)], ()).outcomes[0]
    if outcome.state == "declined":
        reason = outcome.text.partition("Reason: ")[2]
        said = "The correction was declined, so there is no new cell."
        return f"{said} The reason: {inline(reason)}" if reason else said
    if outcome.state != "done":
        return f"The correction did not get into the notebook: {inline(outcome.text)}"
    changed = " A person changed it first." if outcome.edited else ""
    if outcome.text.startswith("not inserted"):
        return f"The corrected cell stands above, to be copied.{changed} I have not run it."
    return f"The corrected cell is below; run it when you like.{changed} I have not run it."


def _explained(case: Case, asked: str) -> str:
    kind = case.type.rpartition(".")[2]
    plain = _KINDS.get(kind, "an error for which I have no words of my own")
    where = f"It happened in line {case.line}: {code(case.failing)}. " if case.failing else ""
    message = f"The message: {inline(case.message)} " if case.message else "Its message was not sent to me. "
    parts = [f"{code(kind)} means that {plain}. {where}{message}".strip()]
    parts += [_ADVICE[kind]] if kind in _ADVICE else []
    found = repair(case, lambda _: "") if asked else None
    if isinstance(found, Mend):
        parts.append(f"{found.why} `%kestrel fix` proposes the change.")
    return "\n\n".join([*parts, RULE_MODEL])
