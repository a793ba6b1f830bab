"""The process around a piece of code: what it had before, and what of it the code has changed."""

from __future__ import annotations

import builtins
import os
from collections.abc import Iterable
from typing import Any

from .variables import snapshot, user_variables


class Surroundings:
    """The variables, the working folder and the environment before the code."""

    def __init__(self, shell: Any) -> None:
        self.variables = snapshot(user_variables(shell))
        self._folder, self._environment = _folder(), dict(os.environ)
        self._builtins = dict(vars(builtins))

    def news(self) -> list[str]:
        """What the code has changed of the process, in sentences. Names only, no values."""
        notes = []
        folder, environment, named = _folder(), dict(os.environ), vars(builtins)
        if folder != self._folder:
            notes.append(f"the working folder is now {_short(folder, self._folder)}")
        names = {*self._environment, *environment}
        if changed := _listed(name for name in names if self._environment.get(name) != environment.get(name)):
            notes.append(f"environment variables changed: {changed}")
        names = {*self._builtins, *named} - {"_"}
        if changed := _listed(n for n in names if self._builtins.get(n, n) is not named.get(n, n)):
            notes.append(f"builtins changed: {changed}")
        return notes


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


def _short(folder: str, before: str) -> str:
    if not folder:
        return "gone"
    near = os.path.relpath(folder, before) if before else folder
    return near if not near.startswith("../../..") else os.path.join("…", os.path.basename(folder))


def _listed(names: Iterable[str]) -> str:
    found = sorted(names)
    return ", ".join(found[:20]) + (", …" if len(found) > 20 else "")
