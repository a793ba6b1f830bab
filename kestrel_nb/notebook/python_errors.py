"""What code raised, as text for a model: its own lines, nothing of this machine, the same each time."""

from __future__ import annotations

import os
import traceback
from typing import Any

from IPython.core.error import UsageError as ShellUsageError

from ..runtime.secrets import Masker
from .code_places import Places
from .scrolls import as_shown, stable
from .tracebacks import cut, traceback_of

LONGEST = 5_000  # characters

_HERE = os.path.dirname(__file__) + os.sep
_OWN = -1  # the execution count that stands for the code itself


def error_text(shell: Any, error: BaseException, code: str, file: str) -> str:
    """The traceback of ``error``, raised by ``code`` whose source is known as ``file``; one line for a mistake in the
    words of a magic. Never raises."""
    try:
        text = _text(shell, error, code, file)
    except Exception:  # a class that misbehaves when it is looked at
        text = "".join(traceback.format_exception_only(type(error), None)).strip().removesuffix(": None")
    return cut(stable(as_shown(text)), LONGEST)


def _text(shell: Any, error: BaseException, code: str, file: str) -> str:
    if type(error) is ShellUsageError:
        return f"UsageError: {error}"
    render = getattr(error, "_render_traceback_", None)
    if callable(render):
        return "\n".join(map(str, render()))
    _cut_off(error)
    counts = {**getattr(shell.compile, "_filename_map", {}), file: _OWN}
    return traceback_of(error, Places(_workspace(), code, _OWN, counts, Masker.from_environment().mask))


def _cut_off(error: BaseException) -> None:
    """The end of the way is the code's own call, not what stood in the place of ``input`` or ``exit``."""
    last, step = None, error.__traceback__
    while step is not None:
        if not step.tb_frame.f_code.co_filename.startswith(_HERE):
            last = step
        step = step.tb_next
    if last is not None:
        last.tb_next = None


def _workspace() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""
