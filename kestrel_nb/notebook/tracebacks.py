"""An error of a cell as text: for a model to read, the same each time, and no longer than it has to be.

It holds nothing of the objects that the error points to. Frames of the cell, of other cells and of files in the
workspace are kept, the long way through libraries is cut in the middle. Known keys are masked before anything is cut.
"""

from __future__ import annotations

import builtins
import linecache
import re
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice
from types import TracebackType
from typing import Any

from .code_places import Places
from .visible import one_line

MESSAGE = 2_000  # characters of one error's message
NAME = 200  # of a type
LINE = 300  # characters of a line of source
FRAMES = 20  # of one error
LIBRARY = 5  # frames in a row outside the user's own code
CHAIN = 5  # causes
GROUP = 5  # errors of a group
DEPTH = 3  # groups inside groups
NAMES = 5_000  # looked through for a near one

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{8,}\b")
_CAUSE = "The error above was the direct cause of this one:"
_CONTEXT = "While the error above was being handled, this one happened:"


def failed_line(error: BaseException, places: Places) -> int | None:
    """The last line of the cell, as typed and from 1 on, that the error came through."""
    if isinstance(error, SyntaxError):
        file, line = error.filename, error.lineno
        if isinstance(file, str) and isinstance(line, int) and places.kind(file) == "cell":
            return places.line(file, line)
    found = None
    for code, number, _ in _steps(error.__traceback__):
        if places.kind(code.co_filename) == "cell":
            found = places.line(code.co_filename, number)
    return found


def type_of(error: BaseException) -> str:
    """The type's name, with its module unless that is Python's own or the notebook."""
    kind = type(error)
    try:
        module, name = str(kind.__module__), str(kind.__qualname__)
    except Exception:  # of its metaclass
        return plain_name(kind)
    return one_line(name if module in ("builtins", "__main__") else f"{module}.{name}", NAME)


def plain_name(kind: type) -> str:
    """The name that the class was made with, whatever it says itself."""
    return one_line(str(type.__dict__["__name__"].__get__(kind)), NAME)


def is_a(error: BaseException, *kinds: type) -> bool:
    """``isinstance`` that asks the type alone: an object may say anything of its class, or raise."""
    return issubclass(type(error), kinds)


def traceback_of(error: BaseException, places: Places, *, messages: bool = True) -> str:
    """The whole text; ``messages=False`` leaves out what the errors say, which may hold the user's data."""
    return "\n".join(_chain(error, places, messages, 0))


def _chain(error: BaseException, places: Places, messages: bool, depth: int) -> Iterator[str]:
    links: list[tuple[BaseException, str]] = []
    seen: set[int] = set()
    current: BaseException | None = error
    joint = ""
    while current is not None and id(current) not in seen and len(links) <= CHAIN:
        seen.add(id(current))
        links.append((current, joint))
        if current.__cause__ is not None:
            current, joint = current.__cause__, _CAUSE
        elif current.__context__ is not None and not current.__suppress_context__:
            current, joint = current.__context__, _CONTEXT
        else:
            current = None
    for one, after in reversed(links):
        yield from _one(one, places, messages, depth)
        if after:
            yield from ("", after, "")


def _one(error: BaseException, places: Places, messages: bool, depth: int) -> Iterator[str]:
    frames = list(_frames(error, places))
    if frames:
        yield "Traceback (most recent call last):"
        yield from frames
    yield from _syntax(error, places)
    yield from _said(error, places, messages)
    if isinstance(error, BaseExceptionGroup):
        yield from _group(error, places, messages, depth)


def _group(error: BaseExceptionGroup[BaseException], places: Places, messages: bool, depth: int) -> Iterator[str]:
    parts = error.exceptions
    for number, part in enumerate(parts[:GROUP] if depth < DEPTH else (), 1):
        yield f"  Error {number} of {len(parts)} inside it:"
        for line in _chain(part, places, messages, depth + 1):
            yield f"    {line}".rstrip()
    if len(parts) > GROUP or depth >= DEPTH:
        yield f"  [{len(parts) - GROUP if depth < DEPTH else len(parts)} more errors inside it]"


# ---- what it says -------------------------------------------------------------------------------------------------


def _said(error: BaseException, places: Places, messages: bool) -> Iterator[str]:
    if not messages:
        yield type_of(error)
        return
    text = _message(error, places)
    near = near_name(error)
    if near is not None:
        text = f"{text.rstrip('.')}. Did you mean: {near!r}?"
    yield f"{type_of(error)}: {text}" if text else type_of(error)
    notes = getattr(error, "__notes__", None)
    for note in islice(notes, 5) if isinstance(notes, list) else ():
        if isinstance(note, str):
            yield _short(places, note)


def _message(error: BaseException, places: Places) -> str:
    try:
        text = "".join(("", error.msg if isinstance(error, SyntaxError) else str(error)))
    except (Exception, SystemExit) as problem:
        return f"[its text can't be read: that raises {type_of(problem)}]"
    return _short(places, text)


def _short(places: Places, text: str) -> str:
    text = places.mask(text)
    if len(text) > 8 * MESSAGE:
        text = cut(text, 4 * MESSAGE)
    if places.workspace:
        text = text.replace(places.workspace + "/", "")
    return cut(_ADDRESS.sub("0x…", text), MESSAGE)


def cut(text: str, size: int) -> str:
    """``text``, or about ``size`` characters of it: a third of them from its head, the rest from its tail."""
    if len(text) <= size:
        return text
    head, tail = size // 3, size - size // 3
    return f"{text[:head]}\n[{len(text) - size:,} characters left out]\n{text[-tail:]}"


def near_name(error: BaseException) -> str | None:
    """A known name that is like the one that the error did not find."""
    name = getattr(error, "name", None)
    if not isinstance(name, str) or not name:
        return None
    try:
        if isinstance(error, AttributeError):
            return nearest(name, islice((str(known) for known in dir(error.obj)), NAMES))
        if isinstance(error, NameError):
            return nearest(name, islice(_names(error.__traceback__), NAMES))
    except Exception:  # __dir__ of the user's class
        return None
    return None


def nearest(name: str, known: Any) -> str | None:
    """The one of ``known`` that ``name`` was most likely meant to be."""
    usual = [word for word in known if word != name and (name.startswith("_") or not word.startswith("_"))]
    same = [word for word in usual if word.lower().replace("_", "") == name.lower().replace("_", "")]
    return next(iter(same or get_close_matches(name, usual, n=1, cutoff=0.7)), None)


def _names(traceback: TracebackType | None) -> Iterator[str]:
    if traceback is None:
        return
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    frame = traceback.tb_frame
    yield from list(frame.f_locals)
    yield from list(frame.f_globals)
    yield from dir(builtins)


# ---- where it happened --------------------------------------------------------------------------------------------


def _steps(traceback: TracebackType | None) -> Iterator[tuple[Any, int, int]]:
    while traceback is not None:
        yield traceback.tb_frame.f_code, traceback.tb_lineno or 0, traceback.tb_lasti
        traceback = traceback.tb_next


def _frames(error: BaseException, places: Places) -> Iterator[str]:
    steps = list(_steps(error.__traceback__))
    own = [index for index, (code, _, _) in enumerate(steps) if places.kind(code.co_filename) in ("cell", "other")]
    if isinstance(error, SyntaxError) and not own:
        return  # Python and IPython read the cell; none of it ran
    steps = steps[own[0] if own else 0 :]
    for item in _chosen(steps, places):
        if isinstance(item, int):
            yield f"  [{item:,} more {'frame' if item == 1 else 'frames'}]"
        else:
            yield from _frame(*item, places)


Step = tuple[Any, int, int]


def _chosen(steps: list[Step], places: Places) -> list[Step | int]:
    """The frames to show; a number stands for that many others."""
    keep: list[bool] = []
    runs: list[int] = []  # how many alike came before, in a row
    for index, (code, line, _) in enumerate(steps):
        again = index > 0 and steps[index - 1][0] is code and steps[index - 1][1] == line
        runs.append(runs[-1] + 1 if again else 0)
        keep.append(runs[-1] < 3)
    library = [places.kind(code.co_filename) == "library" for code, _, _ in steps]
    start = 0
    for end in range(len(steps) + 1):
        if end == len(steps) or not library[end]:
            if end - start > LIBRARY:
                keep[start + 2 : end - 3] = [False] * (end - start - 5)
            start = end + 1
    kept = [index for index, flag in enumerate(keep) if flag]
    if len(kept) > FRAMES:
        for index in kept[FRAMES // 2 - 1 : -FRAMES // 2]:
            keep[index] = False
    chosen: list[Step | int] = []
    for step, flag in zip(steps, keep, strict=True):
        if flag:
            chosen.append(step)
        elif chosen and isinstance(chosen[-1], int):
            chosen[-1] += 1
        else:
            chosen.append(1)
    return chosen


def _frame(code: Any, line: int, at: int, places: Places) -> Iterator[str]:
    file = code.co_filename
    function = "" if code.co_name == "<module>" else f", in {code.co_name}"
    yield f"  {places.name(file)}, line {places.line(file, line)}{function}"
    text = places.text(file, line)
    if text.strip():
        yield from _source(text, *_columns(code, line, at, text), places)


def _source(text: str, start: int | None, end: int | None, places: Places) -> Iterator[str]:
    """A line and, below it, marks under the part that failed, when it is a part."""
    stripped, indent = text.strip(), len(text) - len(text.lstrip())
    shown = places.mask(stripped)
    yield f"    {shown[:LINE]}{'…' if len(shown) > LINE else ''}"
    if start is None or end is None or shown != stripped or end > LINE + indent or start < indent:
        return
    if 0 < end - start < len(stripped):
        yield f"    {' ' * (start - indent)}{'^' * (end - start)}"


def _columns(code: Any, line: int, at: int, text: str) -> tuple[int | None, int | None]:
    """First and last column, in characters, of what ran at instruction ``at``, when it is on one line."""
    found = next(islice(code.co_positions(), at // 2, None), None) if at >= 0 else None
    if found is None or found[0] != line or found[1] != line or found[2] is None or found[3] is None:
        return None, None
    # Not the line that ran, when a magic was rewritten: marks would point to the wrong place.
    if linecache.getline(code.co_filename, line).strip() not in ("", text.strip()):
        return None, None
    data = text.encode("utf-8", "surrogatepass")
    start, end = (len(data[:column].decode("utf-8", "replace")) for column in found[2:4])
    return start, end


def _syntax(error: BaseException, places: Places) -> Iterator[str]:
    if not isinstance(error, SyntaxError) or not isinstance(error.lineno, int):
        return
    file = error.filename if isinstance(error.filename, str) else ""
    yield f"  {places.name(file) if file else 'Text'}, line {places.line(file, error.lineno)}"
    text = error.text if isinstance(error.text, str) else places.text(file, error.lineno)
    line = text.split("\n", 1)[0].rstrip()
    if line.strip():
        start = error.offset - 1 if isinstance(error.offset, int) and error.offset > 0 else None
        inside = start is not None and start <= len(line)
        end = error.end_offset - 1 if isinstance(error.end_offset, int) and error.end_lineno == error.lineno else 0
        last = max(end, (start or 0) + 1) if inside else None
        yield from _source(line, start if inside else None, last, places)


def stopped_on_purpose(error: BaseException) -> bool:
    """True for what no fix is wanted for: Interrupt, and a cell that ends itself."""
    import asyncio

    return is_a(error, KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError)


def last_error() -> BaseException | None:
    """The error that was shown last in this process, if any."""
    value = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    return value if isinstance(value, BaseException) else None
