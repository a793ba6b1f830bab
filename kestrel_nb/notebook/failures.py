"""The last cell of the user's that failed, kept as text: ``%kestrel fix`` and ``%kestrel explain`` send it.

It stays until another cell fails, until the same cell runs without an error, or until a proposed correction does.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from IPython.core.error import UsageError as ShellUsageError

from ..runtime.secrets import Masker
from .code_places import Places
from .tracebacks import (
    cut,
    failed_line,
    is_a,
    last_error,
    plain_name,
    stopped_on_purpose,
    traceback_of,
    type_of,
)

SOURCE = 20_000  # characters of a cell that are kept
TRACEBACK = 8_000  # characters

_OURS = re.compile(r"^[ \t]*(?:\w+\s*=\s*)?%{1,2}kestrel\b|^[ \t]*%(?:re|un)?load_ext\s+kestrel_nb\b", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A cell that failed: nothing but text, keys masked.

    ``source`` is the cell as it was typed, ``whole`` False when it was too long to be kept so, ``masked`` True when
    it held a key. ``line`` counts from 1. ``traceback_only`` is ``traceback`` without what the errors say.
    """

    source: str
    whole: bool
    masked: bool
    type: str
    line: int | None
    traceback: str
    traceback_only: str


@dataclass(slots=True)
class _Same:
    """How the failed cell, or a correction of it, is known again."""

    cell_id: str | None = None
    texts: set[str] = field(default_factory=set)


class Failures:
    """Watches the cells of ``shell``. ``repairing``: session id -> the failure that its run is about."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._same = _Same()
        self._quiet = 0
        self.last: Failure | None = None
        self.repairing: dict[str, Failure] = {}

    def install(self) -> None:
        """Begin to watch; a cell that failed just before counts, when it can be told which it was."""
        self._shell.events.register("post_run_cell", self._ended)
        with contextlib.suppress(Exception):  # what another program has left in IPython's own records
            self._adopt()

    def remove(self) -> None:
        """Watch no more."""
        with contextlib.suppress(ValueError):
            self._shell.events.unregister("post_run_cell", self._ended)
        self.last = None

    @contextlib.contextmanager
    def unwatched(self) -> Iterator[None]:
        """For code that a tool runs: its errors are the tool's result, not a failed cell of the user's."""
        self._quiet += 1
        try:
            yield
        finally:
            self._quiet -= 1

    def proposed(self, code: str) -> None:
        """``code`` was proposed as a correction: when it has run without an error, the failure is over."""
        if self.last is not None:
            self._same.texts.add(_digest(code))

    def _ended(self, result: Any) -> None:
        """Called by IPython after each cell; ``result`` is None when the cell was cancelled."""
        if result is None or self._quiet or getattr(result, "info", None) is None:
            return
        error = result.error_before_exec or result.error_in_exec
        source = result.info.raw_cell or ""
        if error is None:
            self._went_well(result, source)
        elif not _is_ours(error, source):
            self._keep(error, source, result.execution_count, getattr(result.info, "cell_id", None))

    def _went_well(self, result: Any, source: str) -> None:
        if self.last is None or not source.strip():
            return
        cell_id = getattr(result.info, "cell_id", None)
        if _digest(source) in self._same.texts or (cell_id is not None and cell_id == self._same.cell_id):
            self.last = None

    def _keep(self, error: BaseException, source: str, count: int | None, cell_id: str | None) -> None:
        if count is None:  # IPython itself stumbled over the error
            count = self._shell.execution_count - 1
        mask = Masker.from_environment().mask
        counts = dict(getattr(self._shell.compile, "_filename_map", None) or {})
        places = Places(_workspace(), source, count, counts, mask)
        masked = mask(source)
        kind, line, traceback, traceback_only = _described(error, places)
        self.last = Failure(
            source=cut(masked, SOURCE),
            whole=len(masked) <= SOURCE,
            masked=masked != source,
            type=kind,
            line=line,
            traceback=cut(traceback, TRACEBACK),
            traceback_only=cut(traceback_only, TRACEBACK),
        )
        self._same = _Same(cell_id, {_digest(source)})

    # ---- from before the extension was loaded -----------------------------------------------------------------

    def _adopt(self) -> None:
        result = getattr(self._shell, "last_execution_result", None)
        if result is not None and not result.success:
            self._ended(result)
        if self.last is None:
            self._adopt_shown()

    def _adopt_shown(self) -> None:
        """The error that IPython showed last, when its cell ran only once: else the cell may run fine by now."""
        error = last_error()
        counts = getattr(self._shell.compile, "_filename_map", None) or {}
        count = None if error is None else _count_of(error, counts)
        if error is None or count is None:
            return
        typed = list(self._shell.history_manager.input_hist_raw)
        source = typed[count] if 0 < count < len(typed) else ""
        if source and typed.count(source) == 1 and not _is_ours(error, source):
            self._keep(error, source, count, None)


def _described(error: BaseException, places: Places) -> tuple[str, int | None, str, str]:
    """Its type, its line in the cell, its text, and that without what it says; never raises."""
    try:
        return (
            type_of(error),
            failed_line(error, places),
            traceback_of(error, places),
            traceback_of(error, places, messages=False),
        )
    except (Exception, SystemExit) as problem:  # code of the error's class
        name = plain_name(type(error))
        text = f"{name}\n[this error can't be looked at: that raises {plain_name(type(problem))}]"
        return name, None, text, text


def _count_of(error: BaseException, counts: Any) -> int | None:
    if isinstance(error, SyntaxError) and error.filename in counts:
        return int(counts[error.filename])
    traceback = error.__traceback__
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if file in counts:
            return int(counts[file])
        traceback = traceback.tb_next
    return None


def _is_ours(error: BaseException, source: str) -> bool:
    """True when the cell needs no fixing: it was stopped, or a run or a command of ours in it said what is wrong."""
    from .screen import RunError

    if stopped_on_purpose(error) or is_a(error, RunError):
        return True
    return is_a(error, ShellUsageError) and _OURS.search(source) is not None


def _digest(source: str) -> str:
    return hashlib.sha256(source.strip().encode("utf-8", "surrogatepass")).hexdigest()


def _workspace() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


_of_shell: dict[int, Failures] = {}


def failures_of(shell: Any) -> Failures:
    """The one that watches the cells of ``shell``, made when there is none."""
    return _of_shell.setdefault(id(shell), Failures(shell))
