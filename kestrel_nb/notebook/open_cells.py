"""Which cell is running, and how code gets below it.

A front end adds a cell when the reply to the running cell says so, one cell for each reply. So nothing can be added
once the cell is over (a run in the background), and nobody adds anything where nobody looks.
"""

from __future__ import annotations

import contextlib
from contextvars import ContextVar
from typing import Any

from IPython.display import display

from .waiting import kernel, stdin_allowed

LOST = "The new cell was not inserted, because this cell ended with an error. Its code is in the record above."


class OpenCell:
    """A cell that is running: below it code can be put until it ends. ``info`` is IPython's own, or None."""

    def __init__(self, info: Any = None) -> None:
        self.info = info
        self.is_open = True
        self.codes: list[str] = []


# A task that a cell starts inherits its cell, also when another cell runs by then.
_cell: ContextVar[OpenCell | None] = ContextVar("kestrel_open_cell", default=None)


class OpenCells:
    """Knows which cell of ``shell`` is running, for whoever wants to put code below it."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._open: list[OpenCell] = []

    def install(self) -> None:
        """Begin to watch. The cell that is running now takes part."""
        self._shell.events.register("pre_run_cell", self._begins)
        self._shell.events.register("post_run_cell", self._ends)
        self._begins()

    def remove(self) -> None:
        """Watch no more. Nobody will tell of the end of a cell that is running now."""
        for cell in self._open:
            cell.is_open = False
        self._open.clear()
        for event, function in (("pre_run_cell", self._begins), ("post_run_cell", self._ends)):
            with contextlib.suppress(ValueError):
                self._shell.events.unregister(event, function)

    @property
    def loading(self) -> bool:
        """True in the very cell in which the watch began: no line of it was rewritten."""
        return any(cell.info is None for cell in self._open)

    def insert(self, code: str) -> bool:
        """Put ``code`` below the cell that the caller's run began in, behind what was put there; False if it can't."""
        cell = _cell.get()
        if cell is None or not cell.is_open or (kernel() is not None and not stdin_allowed()):
            return False
        cell.codes.append(code)
        # Front ends take the first of these only, so every cell of a reply goes into one.
        self._shell.set_next_input("\n\n".join(cell.codes), replace=False)
        return True

    def _begins(self, info: Any = None) -> None:
        outer = _cell.get()
        if outer is not None and outer.is_open:
            return  # code that a running cell runs
        cell = OpenCell(info)
        self._open.append(cell)
        _cell.set(cell)

    def _ends(self, result: Any = None) -> None:
        """Called by IPython after each cell; ``result`` is None when the cell was cancelled."""
        info = getattr(result, "info", None)
        for cell in [cell for cell in self._open if info is None or cell.info in (None, info)]:
            self._open.remove(cell)
            cell.is_open = False
            if cell.codes and kernel() is not None and (result is None or not result.success):
                display({"text/plain": LOST}, raw=True)


_of_shell: dict[int, OpenCells] = {}


def cells_of(shell: Any) -> OpenCells:
    """The one that knows the cells of ``shell``, made when there is none."""
    return _of_shell.setdefault(id(shell), OpenCells(shell))
