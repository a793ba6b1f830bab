"""The extension: ``%load_ext kestrel_nb`` and what it puts into the shell. Loading it is its first effect.

``%%kestrel`` becomes an awaited call before IPython sees a cell magic, and so does ``%kestrel`` at the left margin:
then widget messages are handled while they wait. Both names are ordinary magics too, for help, completion and places
where nothing can be awaited.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

from IPython.core.error import UsageError
from IPython.core.getipython import get_ipython
from IPython.core.inputtransformer2 import TokenTransformBase

from ..protocol.errors import KestrelError

_CELL = re.compile(r"[ \t]*%%kestrel(?:[ \t]+(?P<line>.*))?$")
RUNNER = re.compile(r"%%(capture|time|timeit|prun)\b")  # magics that run their body, but await nothing in it
_RUN_CELL = "await __import__('kestrel_nb.notebook.run_cell', fromlist=['run_cell']).run_cell"
_REFUSE = "__import__('kestrel_nb.notebook.magics', fromlist=['refuse']).refuse"
_RUN_LINE = "await __import__('kestrel_nb.notebook.commands', fromlist=['run_line']).run_line"


class CellRewrite:
    """``%%kestrel ARGS`` and the body below it as one awaited call."""

    has_side_effects = True  # so that a terminal, asking whether the cell is complete, still sees a cell magic

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def __call__(self, lines: list[str]) -> list[str]:
        """The lines of the cell, rewritten when it is ours."""
        start, found = find_cell(lines)
        if found is not None and self._shell.autoawait:
            body = "".join(lines[start + 1 :])
            return [f"{_RUN_CELL}({(found['line'] or '').strip()!r}, {body!r})\n"]
        runner = RUNNER.match(lines[start]) if lines else None
        if runner and find_cell(lines[start + 1 :])[1]:
            return [f"{_REFUSE}({runner[0]!r})\n"]
        return lines


def find_cell(lines: list[str]) -> tuple[int, re.Match[str] | None]:
    """The first line that is neither empty nor a comment, and its match when it is ours."""
    said = (index for index, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#"))
    start = next(said, 0)
    return start, _CELL.match(lines[start].rstrip("\r\n")) if lines else None


def refuse(runner: str) -> None:
    """Raise UsageError: a magic that awaits nothing stands above ``%%kestrel``, and would drop the request."""
    raise UsageError(f"{runner} can't wait for a run: %%kestrel has to be the first line of its cell")


class LineRewrite(TokenTransformBase):  # type: ignore[misc]
    """``%kestrel ...`` or ``name = %kestrel ...`` at the left margin as an awaited call."""

    priority = 4  # before IPython's own reading of a line that begins with % or ends with ?

    def __init__(self, start: tuple[int, int], target: str = "") -> None:
        super().__init__(start)
        self._target = target

    @classmethod
    def find(cls, tokens_by_line: list[list[Any]]) -> LineRewrite | None:
        """The first such line, in a shell that awaits."""
        shell = get_ipython()
        if shell is None or not shell.autoawait:
            return None
        for line in tokens_by_line:
            words = [token for token in line if token.string.strip()]
            texts = [token.string for token in words[:4]]
            if texts[:3] == ["%", "kestrel", "?"]:
                continue  # asks for help
            if texts[:2] == ["%", "kestrel"] and words[0].start[1] == 0:
                return cls(words[0].start)
            assigned = texts[1:4] == ["=", "%", "kestrel"] and words[0].start[1] == 0
            if assigned and texts[0].isidentifier():
                return cls(words[0].start, f"{texts[0]} = ")
        return None

    def transform(self, lines: list[str]) -> list[str]:
        """The cell with that line rewritten; a line that ends in a backslash goes on."""
        end = self.start_line
        while lines[end].rstrip().endswith("\\") and end + 1 < len(lines):
            end += 1
        text = " ".join(line.rstrip().removesuffix("\\") for line in lines[self.start_line : end + 1])
        words = text[text.index("%kestrel") + len("%kestrel") :].strip()
        return [*lines[: self.start_line], f"{self._target}{_RUN_LINE}({words!r})\n", *lines[end + 1 :]]


def load(shell: Any) -> None:
    """Put the extension into ``shell``; loading it twice changes nothing.

    Raises UsageError on an ipykernel that would never hear a click, and for a setting with a value that is not allowed.
    """
    from . import settings, tab, waiting
    from .failures import failures_of
    from .open_cells import cells_of

    if not waiting.hears_clicks_while_awaiting():
        import ipykernel

        raise UsageError(
            f"kestrel-nb needs ipykernel {waiting.OLDEST_IPYKERNEL} or newer; {ipykernel.__version__} hears no "
            f'button while a cell runs. Run: pip install -U "ipykernel>={waiting.OLDEST_IPYKERNEL}", then restart'
        )
    if _installed(shell):
        return
    try:
        settings.install(shell)
    except KestrelError as error:
        raise UsageError(str(error)) from None
    shell.input_transformers_cleanup.append(CellRewrite(shell))
    shell.input_transformer_manager.token_transformers.append(LineRewrite)
    shell.register_magic_function(_Documented(_cell_magic, "%%kestrel"), "cell", "kestrel")
    shell.register_magic_function(_Documented(_line_magic, "%kestrel"), "line", "kestrel")
    tab.install(shell)
    cells_of(shell).install()
    failures_of(shell).install()


def unload(shell: Any) -> None:
    """Take the extension out of ``shell`` and close its application."""
    from . import settings, tab
    from .failures import failures_of
    from .open_cells import cells_of
    from .state import forget

    for transformer in _installed(shell):
        shell.input_transformers_cleanup.remove(transformer)
    manager = shell.input_transformer_manager
    manager.token_transformers = [kind for kind in manager.token_transformers if kind is not LineRewrite]
    for kind in ("cell", "line"):
        shell.magics_manager.magics[kind].pop("kestrel", None)
    failures_of(shell).remove()
    cells_of(shell).remove()
    tab.remove(shell)
    forget(shell)
    settings.remove(shell)


def _installed(shell: Any) -> list[CellRewrite]:
    return [item for item in shell.input_transformers_cleanup if isinstance(item, CellRewrite)]


class _Documented:
    """A magic whose documentation is made from the tables of words and options when somebody asks for it."""

    def __init__(self, work: Callable[..., Any], magic: str) -> None:
        self._work, self._magic = work, magic
        self.__name__ = work.__name__

    def __call__(self, *words: Any) -> Any:
        return self._work(*words)

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        from .commands import COMMANDS
        from .helping import docs

        return docs(self._magic, COMMANDS)


def _cell_magic(line: str, cell: str = "") -> None:
    """Send the cell's text to an agent and show its run here. ``%kestrel help`` lists the options."""
    from .run_cell import run_cell

    if _loop_runs():
        raise UsageError("%%kestrel can't wait here: give it a cell of its own, with %autoawait on (the default)")
    _run_on_the_shells_loop(run_cell(line, cell))


def _line_magic(line: str) -> Any:
    """Work with agents, sessions, models, tools and approvals. ``%kestrel help`` lists what there is."""
    from .commands import run_line, run_line_at_once

    if _loop_runs():
        return run_line_at_once(line)
    return _run_on_the_shells_loop(run_line(line))


def _loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _run_on_the_shells_loop(work: Any) -> Any:
    """For shells that don't await: a terminal between its prompts."""
    from IPython.core.async_helpers import get_asyncio_loop

    return get_asyncio_loop().run_until_complete(work)
