"""What the demo model says of data: of variables, of what was computed, of a figure. It knows what the tool told it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

from .outcomes import Outcome
from .quoting import block, code

COUNTED = 5_000_000  # cells: of a larger table the notebook's schema does not count the missing ones
MOST_ROWS = 20  # of a small table that an answer repeats
_SCHEMA = re.compile(
    r"(?:[^\n]*?: )?(?P<type>[A-Za-z]\w*), (?P<size>[\d,]+ (?:rows?|values?)(?: × [\d,]+ columns?)?)(?P<more>;.*)?"
)
_NUMPY = re.compile(r"np\.\w+\((.*)\)")
_ALONE = re.compile(r"(?:np\.\w+\(.*\)|-?\d[\w.+-]*|nan|True|False)")
_NOT_SENT = "what it printed and returned is not sent"
_WHERE = "are in the DataFrame of the run's `frames`"


def told(outcome: Outcome) -> str | None:
    """The answer for a step about data; None for another, or a result that is of no form known here."""
    text, op = outcome.text.strip("\n"), outcome.step.op
    if outcome.edited or not text:
        return None
    match op.kind:
        case "variables":
            return _variables(text)
        case "variable":
            return _variable(code(str(outcome.step.arguments.get("name", ""))), text)
        case "computed":
            return _computed(str(op.args.get("what", "result")), text)
        case "drawn":
            what = str(op.args.get("what", "figure"))
            return f"Drew the {what}; it is shown above." if "figure was drawn and shown" in text else None
        case _:
            return None


def _variables(text: str) -> str:
    lines = text.split("\n")
    rows = [line.partition(": ") for line in lines]
    if not all(name.isidentifier() and said for name, _, said in rows):
        return f"The variables:\n\n{block(text, output=True)}" if ": " in text else f"{text[:1].upper()}{text[1:]}."
    return f"The variables:\n\n{_grid(('variable', 'what it is'), [(code(name), said) for name, _, said in rows])}"


def _variable(name: str, text: str) -> str | None:
    first, *lines = text.split("\n")
    found = _SCHEMA.fullmatch(first)
    if found is None:
        return f"{code(text)}." if not lines else None
    if any(line.startswith("|") for line in lines):
        return f"{name} is a {found['type']} of {found['size']}{found['more'] or ''}.\n\n" + _as_it_is(lines)
    rows = [_typed(line, counted=_cells(found["size"]) <= COUNTED) for line in lines if line.startswith("- ")]
    grid = _grid(("column", "type", "missing"), rows)
    return f"{name} is a {found['type']} of {found['size']}.\n\n{grid}"


def _cells(size: str) -> int:
    """How many cells ``120 rows × 4 columns`` or ``120 values`` are."""
    return prod(int(number.replace(",", "")) for number in re.findall(r"[\d,]+", size))


def _typed(line: str, *, counted: bool) -> tuple[str, str, str]:
    name, _, said = line[2:].rpartition(": ")
    dtype, _, missing = said.partition(", ")
    number = missing.removesuffix(" missing") or ("0" if counted else "not counted")
    return code(name) if name else "", dtype, number


def _computed(what: str, text: str) -> str | None:
    if _NOT_SENT in text:
        return f"Computed the {what}. The result was not sent to me; it is shown above."
    first, *lines = text.split("\n")
    if _ALONE.fullmatch(first) and not lines:
        number = _NUMPY.fullmatch(first)
        return f"The {what} is {code(number[1] if number else first)}."
    found = _SCHEMA.fullmatch(first)
    if found is None or not any(line.startswith("|") for line in lines):
        return None
    rows, told = (re.match(r"\D*([\d,]+)", part or "") for part in (found["size"], found["more"]))
    if rows is None or told is None or rows[1] == told[1]:
        return f"The {what}:\n\n{_as_it_is(lines)}"
    of = f"{told[1]} of {rows[1]} rows"
    return f"The {what}, {of}:\n\n{_as_it_is(lines)}\n\nMore rows {_WHERE}."


def _grid(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    shown = [heads, ["---"] * len(heads), *rows[:MOST_ROWS]]
    left = len(rows) - MOST_ROWS
    more = f"\n\n{left:,} more in the tool's result." if left > 0 else ""
    lines = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in shown]
    return "\n".join(f"| {line} |" for line in lines) + more


def _as_it_is(lines: Sequence[str]) -> str:
    """The Markdown table in ``lines``, and what stands below it, as the tool gave them."""
    table = [line for line in lines if line.startswith("|")]
    below = [line for line in lines if line.startswith("…")]
    left = len(table) - 2 - MOST_ROWS
    more = [f"{left:,} more rows in the tool's result."] if left > 0 else []
    return "\n\n".join(["\n".join(table[: MOST_ROWS + 2]), *more, *below])
