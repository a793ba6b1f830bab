"""JavaScript, run by quickjs-ng in a child process that is killed at its limits: programs, and patterns.

Nothing of this machine is there: no file, no network, no process, no variable of the environment, no package. What a
program and a pattern mean is what ECMA-262 says.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import math
import os
import re
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from ..protocol.errors import ToolCallError
from .child import ChildDied, run_child
from .paths import quoted

WORKER = Path(__file__).with_name("javascript_worker.py")
HEAP_BYTES = 128 * 1024 * 1024
PATTERN_HEAP_BYTES = 320 * 1024 * 1024  # the engine notes each step of a long match: a+ over five million characters
MEMORY_BYTES = 512 * 1024 * 1024  # of the whole process
MAX_STDOUT = 100_000  # characters, as are the next three
MAX_RESULT = 1_000_000
MAX_CODE = 1_000_000
MAX_TEXT = 5_000_000  # also of all matches together, and of a text with replacements
MAX_PATTERN = 100_000
MAX_MATCHES = 10_000
MAX_DEPTH = 100
MAX_MESSAGE = 500
ESCAPED = 6  # bytes of the longest character in JSON, as in \u001b

LARGE = 50_000  # characters of a result; reading so many takes a few milliseconds

# Where a stack goes on with the calls below a program: those of the file that runs it.
_OURS = re.compile(r"^ +at eval \(native\)\n +at start \(<", re.MULTILINE)

_AT_AWAIT = ("expecting ", "Unexpected identifier ")  # what the engine says of what follows an await that is none

Stop = Callable[[], Awaitable[Any]]


class JavaScriptError(ToolCallError):
    """A program ended with an exception, or gave what can't be passed on.

    ``name`` is that of the exception, or None; ``line`` where it was thrown, from 1, if known; ``stdout`` what had been
    logged; ``execution_ms`` how long it took.
    """

    default_code = "javascript_failed"

    def __init__(
        self, message: str, *, name: str | None = None, line: int | None = None, stdout: str = "", execution_ms: int = 0
    ) -> None:
        super().__init__(message)
        self.name, self.line, self.stdout, self.execution_ms = name, line, stdout, execution_ms


class PatternError(ToolCallError):
    """A pattern or its flags are none, or its matches are more than can be held."""

    default_code = "pattern_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What a program gave: the value of its last expression, passed through JSON, and what it logged."""

    result: Any
    stdout: str
    execution_ms: int


def unavailable() -> str | None:
    """Why there is no JavaScript here, with what to do; None when there is."""
    if sys.platform == "emscripten":
        return "JavaScript needs a child process, which a browser can't start"
    try:
        _engine()
    except ModuleNotFoundError:
        return "JavaScript needs the package quickjs-ng: pip install quickjs-ng"
    return None


@cache  # what is there; what is not may be installed meanwhile
def _engine() -> str:
    """The folder of the engine's module, which is not imported here. Raises ModuleNotFoundError.

    Another package brings a module of the same name, with an older engine that understands less.
    """
    metadata.version("quickjs-ng")
    spec = importlib.util.find_spec("_quickjs")
    if not spec or not spec.origin:
        raise ModuleNotFoundError("_quickjs")
    return os.path.dirname(os.path.abspath(spec.origin))


async def evaluate(code: str, timeout_s: float, stop: Stop | None = None) -> Evaluation:
    """Run ``code`` in a fresh context: the language and a ``console``, nothing else.

    A promise is awaited. All that the program leaves to be done later belongs to it, also in time. Raises
    JavaScriptError, ChildTimeout, ChildDied, and CancelledByUser after ``stop()``.
    """
    if len(code) > MAX_CODE:
        raise JavaScriptError(f"the code is too long: {len(code):,} characters; {MAX_CODE:,} are allowed")
    order = {"code": code, "max_output": MAX_STDOUT, "max_result": MAX_RESULT}
    answer, ms = await _run("evaluate", order, timeout_s, ESCAPED * 2 * (MAX_STDOUT + MAX_RESULT), stop)
    stdout = _output(answer["stdout"], int(answer["stdout_total"]))
    if "error" in answer:
        raise _error(code, answer["error"], stdout, ms)
    try:
        return Evaluation(result=await _value(answer["result"]), stdout=stdout, execution_ms=ms)
    except ValueError as error:
        raise JavaScriptError(str(error), stdout=stdout, execution_ms=ms) from None


async def match(
    text: str, pattern: str, flags: str = "", replace: str | None = None, *, timeout_s: float, stop: Stop | None = None
) -> dict[str, Any]:
    """Search ``text``, or replace in it.

    Without ``replace``: ``matches``, ``groups`` (of the named groups, one object a match; empty without such groups)
    and ``truncated``. With it: ``result`` and ``replacements``. Without the flag g only the first match counts. Raises
    PatternError, ChildTimeout, ChildDied, and CancelledByUser after ``stop()``.
    """
    for name, value, most in (("text", text, MAX_TEXT), ("pattern", pattern, MAX_PATTERN), ("flags", flags, 100)):
        if len(value) > most:
            raise PatternError(f"{name}: {len(value):,} characters are too many; {most:,} are allowed")
    if replace is not None and len(replace) > MAX_TEXT:
        raise PatternError(f"replace: {len(replace):,} characters are too many; {MAX_TEXT:,} are allowed")
    order = {"text": text, "pattern": pattern, "flags": flags, "replace": replace}
    limits = {"max_matches": MAX_MATCHES, "max_output": MAX_TEXT}
    answer, _ = await _run("match", {**order, **limits}, timeout_s, ESCAPED * 2 * MAX_TEXT, stop)
    if "invalid" in answer:
        raise PatternError(f"Invalid regular expression: /{_shown(pattern)}/{_shown(flags)}: {answer['invalid']}")
    if "error" in answer:
        raise PatternError(answer["error"])
    return answer


async def _run(
    kind: str, order: dict[str, Any], timeout_s: float, max_bytes: int, stop: Stop | None
) -> tuple[dict[str, Any], int]:
    reason = unavailable()
    if reason:
        raise ChildDied(reason)
    head = {"engine": os.fsencode(_engine()).hex(), "kind": kind, "heap": _heap(kind)}
    found = await run_child(
        WORKER, head | order, timeout_s=timeout_s, memory_bytes=MEMORY_BYTES, max_bytes=max_bytes, stop=stop
    )
    if "failed" in found:
        raise (JavaScriptError if kind == "evaluate" else PatternError)(_failed(kind, found["failed"]))
    return found["answer"], found["ms"]


def _heap(kind: str) -> int:
    return HEAP_BYTES if kind == "evaluate" else PATTERN_HEAP_BYTES


def _failed(kind: str, said: str) -> str:
    """Why the engine gave up: nearly always for want of memory, of which it may find none to say so."""
    if said not in ("", "null") and "out of memory" not in said:
        return f"the work could not be done: {said}"
    most = f"more memory than it may have ({_heap(kind) // 1024**2} MB)"
    if kind == "evaluate":
        return f"the program needs {most}"
    return f"the pattern needs {most} for this text; make it simpler or the text shorter"


def _shown(text: str) -> str:
    """``text`` in one short line that can be printed."""
    return quoted(text)[1:-1]


def _output(text: str, total: int) -> str:
    if total <= MAX_STDOUT:
        return text
    kept = text[:-1] if "\ud800" <= text[-1] <= "\udbff" else text  # the cut may go through a character
    return f"{kept}\n[cut: {MAX_STDOUT:,} of {total:,} characters shown]"


def _error(code: str, error: dict[str, str], stdout: str, ms: int) -> JavaScriptError:
    name, message = error["name"], error["message"]
    place = re.search(r"<(?:evalScript|input|eval)>:(\d+)", _OURS.split(error["stack"], maxsplit=1)[0])
    line = int(place[1]) if place else None
    said = " ".join((f"{name}: {message}" if name and message else name or message).split())
    if name == "SyntaxError" and message.startswith(_AT_AWAIT) and re.search(r"\bawait\b", code):
        said += " (await works in async functions only: end with (async () => { ... })(), whose promise is awaited)"
    return JavaScriptError(said[:MAX_MESSAGE], name=name or None, line=line, stdout=stdout, execution_ms=ms)


async def _value(text: str) -> Any:
    """The value of JSON ``text``: a large one is read in a thread. Raises ValueError as ``_plain`` does."""
    return await asyncio.to_thread(_plain, text) if len(text) > LARGE else _plain(text)


def _plain(text: str) -> Any:
    """The value of JSON ``text``. Raises ValueError when it is nested too deeply."""
    try:
        value = json.loads(text, parse_float=_finite, parse_int=_whole)
    except RecursionError:
        value, depth = None, MAX_DEPTH + 1
    else:
        depth = _depth(text) if text.count("[") + text.count("{") > MAX_DEPTH else 0
    if depth > MAX_DEPTH:
        raise ValueError(f"the result is nested too deeply; {MAX_DEPTH} levels are allowed")
    return value


def _finite(text: str) -> float | None:
    """JSON.rawJSON may write a number that is none here."""
    value = float(text)
    return value if math.isfinite(value) else None


def _whole(text: str) -> int | float | None:
    return int(text) if len(text) <= 22 else _finite(text)  # JavaScript writes whole numbers up to 1e21 like this


def _depth(text: str) -> int:
    deepest = depth = 0
    for mark in re.findall(r'[\[{\]}]|"(?:[^"\\]|\\.)*"', text):
        if mark in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif mark in "]}":
            depth -= 1
    return deepest
