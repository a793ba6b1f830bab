"""``%kestrel doctor``: what works here, what does not, and what to do. It never raises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .checkup import Line, looked_at, told
from .command import Command
from .rendering import escape_text
from .rewound import count
from .state import NotebookState
from .visible import visible

if TYPE_CHECKING:
    from ..frames import DataFrame

HEADS = ("what", "", "state", "what to do")
_CELL = '<td class="kestrel-t" style="white-space: normal; max-width: none">'  # a sentence, never cut


class Report:
    """What was found, one line each. ``frame`` has it as data; ``problems`` are the lines that want something done."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines = tuple(lines)

    @property
    def problems(self) -> tuple[Line, ...]:
        """The lines that want something done."""
        return tuple(line for line in self.lines if line.level == "problem")

    @property
    def frame(self) -> DataFrame:
        """One row per line: what, level (ok, note, problem), state, todo."""
        from ..frames import to_frame

        rows = [[line.what, line.level, line.state, line.todo] for line in self.lines]
        return to_frame({"columns": ["what", "level", "state", "todo"], "rows": rows})

    def _headline(self) -> str:
        return count(len(self.problems), "problem") if self.problems else "No problems"

    def __repr__(self) -> str:
        wide = max((len(line.what) for line in self.lines), default=0)
        said = [self._headline()]
        for line in self.lines:
            todo = f"\n{'':<{wide + 11}}-> {line.todo}" if line.todo else ""
            said.append(f"{line.what:<{wide}}  {line.level:<7}  {line.state}{todo}")
        return visible("\n".join(said))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._html()}

    def _html(self) -> str:
        from .sheet import record_sheet

        heads = "".join(f'<th class="kestrel-t">{head}</th>' for head in HEADS)
        rows = "".join(
            "<tr>"
            + "".join(f"{_CELL}{escape_text(text)}</td>" for text in (line.what, line.level, line.state, line.todo))
            + "</tr>"
            for line in self.lines
        )
        table = f'<table class="kestrel-table"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'
        head = f'<p class="kestrel-ask"><b>{self._headline()}</b></p>'
        html = f'<div class="kestrel-view kestrel-inbox">{head}<div class="kestrel-scroll">{table}</div></div>'
        return f"<style>{record_sheet(html)}</style>{html}"


async def _doctor(state: NotebookState, words: list[str]) -> Report:
    broken = []
    if state.can_wait:
        try:
            await state.app.initialize()
            await state.app.catalog.usable()  # asks the keyring, which may take a moment
        except Exception as error:  # a plugin, a store or a folder that is broken: that is what a doctor is for
            broken.append(Line("application", f"does not come to life ({told(error)})", "problem"))
    return Report([*broken, *looked_at(state)])


COMMANDS = {"doctor": Command("", "what works here, what does not, and what to do", 0, _doctor)}
