"""Reading JSON as RFC 8259 has it, with a place for each fault."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from ...protocol.json_text import MAX_DEPTH

MAX_INPUT = 2_000_000  # characters: reading them holds the interpreter's lock, 0.5 s for as many lists as fit in
MAX_LEVELS = MAX_DEPTH - 10  # what a result may have, with room for what is around it
MAX_VALUES = 100_000  # in a result: each is looked at several times on its way to whoever reads it
TOO_MANY = f"the result has over {MAX_VALUES:,} values; extract a part of it with path"
NEAR = 20

_WORDS = re.compile(r'"(?:[^"\\]|\\.)*"|[-+.\w]+', re.DOTALL)  # texts, and what is between the signs of JSON
_WORDING = {
    "Unexpected UTF-8 BOM (decode using utf-8-sig)": "a byte order mark can stand at the beginning only once",
    "Invalid control character at": "a control character must be escaped in a text",
    "Unterminated string starting at": "a text that does not end",
    "Extra data": "something follows the value",
}


class JsonFault(ValueError):
    """Text that is no JSON, or more than is read. The message is for people: line and column count from 1."""


def read_json(text: str) -> Any:
    """The value of ``text``. One byte order mark is passed over; of two equal keys the last one counts.

    Integers are exact. Raises JsonFault for all that RFC 8259 does not allow (NaN, comments, trailing commas ...), for
    a number beyond the doubles (1e400) or of more digits than Python turns into an integer, and for what is too long.
    """
    if len(text) > MAX_INPUT:
        raise JsonFault(f"the input is too long: {len(text):,} characters of at most {MAX_INPUT:,}")
    skipped = 1 if text.startswith("\ufeff") else 0
    text = text[skipped:]
    try:
        return json.loads(text, parse_constant=_constant, parse_float=_float, parse_int=_int)
    except json.JSONDecodeError as error:
        raise JsonFault(_at(text, error.pos, error.msg)) from None
    except _Literal as fault:
        raise JsonFault(_at(text, _find(text, fault.literal), fault.problem)) from None
    except RecursionError:
        raise JsonFault("nested too deeply to be read") from None


def check_result(value: Any) -> None:
    """Raise JsonFault when ``value`` is nested deeper, or has more values in it, than a result may."""
    level, count = [value], 0
    for _ in range(MAX_LEVELS + 1):
        level = [item for container in level if isinstance(container, (dict, list)) for item in _items(container)]
        count += len(level)
        if count > MAX_VALUES:
            raise JsonFault(TOO_MANY)
        if not level:
            return
    raise JsonFault(f"nested deeper than {MAX_LEVELS} levels; extract a part of it with path")


def _items(container: dict[str, Any] | list[Any]) -> Any:
    return container.values() if isinstance(container, dict) else container


class _Literal(Exception):
    """A number or a word that json would take and we do not."""

    def __init__(self, literal: str, problem: str) -> None:
        super().__init__(problem)
        self.literal, self.problem = literal, problem


def _constant(name: str) -> Any:
    raise _Literal(name, f"{name} is not JSON")


def _float(literal: str) -> float:
    number = float(literal)
    if number in (float("inf"), float("-inf")):
        raise _Literal(literal, "the number is beyond what a double can hold")
    return number


def _int(literal: str) -> int:
    try:
        return int(literal)
    except ValueError:
        most = sys.get_int_max_str_digits()
        raise _Literal(literal, f"the integer has more than {most:,} digits") from None


def _find(text: str, literal: str) -> int:
    """Where ``literal`` stands outside texts."""
    return next((match.start() for match in _WORDS.finditer(text) if match.group().startswith(literal)), 0)


def _at(text: str, position: int, problem: str) -> str:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    problem = _WORDING.get(problem, problem)
    problem = problem[:1].lower() + problem[1:] if not problem.startswith(("NaN", "Infinity")) else problem
    near = text[position : position + NEAR]
    where = f", near {json.dumps(near)}" if near.strip() else ", where the text ends" if position >= len(text) else ""
    return f"not valid JSON at line {line}, column {column}: {problem}{where}"
