"""What a record shows of a block, cut to size: shared by its HTML, Markdown and plain forms."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass

from ..runtime.store_place import store_folder
from ..sandbox.output import plural
from .figures import Figure
from .summaries import duration, figure_count, is_whole, shape
from .tables import Table
from .view_state import Block, ViewState
from .visible import one_line
from .words import declined_word


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """How much of each block is kept."""

    rows: int = 20
    columns: int = 12
    lines: int = 40
    detail: int = 8_000  # characters of a text result
    diff: int = 80  # lines
    text: int = 100_000  # characters of one text block of the model
    arguments: int = 4_000  # characters; of a program four times as many
    code: int = 200  # lines of a program or of the change of one, which people copy
    blocks: int = 4_000  # rows without a decision, and notices


# Folders whose names tell about one machine, not about the work.
_PRIVATE_PATH = re.compile(
    r"(?<![\w./:~%-])/(?:home|Users|root|tmp|private|var|mnt|opt|srv|workspaces?|work|content)(?:/[\w.@+-]+)+"
    r"|(?<!\w)[A-Za-z]:[\\/](?:[\w.@+ -]+[\\/])+[\w.@+-]+"
)


# Names that this project makes up, which are others each time: of sessions, runs, messages, calls and questions.
_OWN_ID = re.compile(r"\b(sess|run|msg|call|appr)_[0-9a-f]{24}\b")


class Scrub:
    """Takes absolute paths and ids out of the texts of a stable record; of another record it changes nothing."""

    def __init__(self, state: ViewState) -> None:
        self._on = state["stable"]
        self._root = state["workspace"].rstrip("/\\") if self._on else ""
        self._others = _others() if self._on else ()

    def __call__(self, text: str) -> str:
        if not self._on:
            return text
        store, *others = self._others
        text = store[0].sub(store[1], text)  # it may lie in the workspace
        if self._root:
            text = text.replace(self._root + "/", "").replace(self._root + "\\", "")
            text = re.sub(rf"{re.escape(self._root)}(?![\w-])", ".", text)
        for folder, name in others:
            text = folder.sub(name, text)
        text = _PRIVATE_PATH.sub(lambda found: "…/" + re.split(r"[\\/]", found.group())[-1], text)
        return _OWN_ID.sub(r"\1_…", text)


def _others() -> tuple[tuple[re.Pattern[str], str], ...]:
    """The folders of sessions, of the home and of temporary files, and what stands for them on every machine."""
    home, temporary = os.path.expanduser("~"), tempfile.gettempdir()
    names = ((store_folder(), "…"), (home, "~"), (temporary, "/tmp"))
    found = [(_folder(folder), name) for folder, name in names]
    inside = re.compile(rf"{found[1][0].pattern}(?=[/\\][\w.@+-])")
    return found[0], (inside, "/home/user"), *found[1:]


def _folder(path: str) -> re.Pattern[str]:
    """Finds ``path`` as a whole; nothing where it is the root of everything."""
    whole = re.escape(path.rstrip("/\\"))
    return re.compile(rf"(?<![\w/.]){whole}(?![\w-])" if whole else r"(?!)")


# Notices of what may be otherwise each time; the events have them.
_OF_ONE_TIME = ("played_otherwise",)


def blocks_of(state: ViewState, caps: Caps) -> tuple[list[Block], int]:
    """The blocks of the record, and how many rows are left out: never one with a decision, never text."""
    kept = [block for block in state["blocks"] if block["kind"] != "reasoning" and not block.get("retry")]
    if state["stable"]:
        kept = [block for block in kept if block.get("code") not in _OF_ONE_TIME]
    loose = [i for i, block in enumerate(kept) if _is_loose(block)]
    dropped = set(loose[caps.blocks :])
    return [block for i, block in enumerate(kept) if i not in dropped], len(dropped)


def _is_loose(block: Block) -> bool:
    return block["kind"] == "notice" or (block["kind"] == "tool" and not block["decision"])


def text_of(block: Block, caps: Caps) -> tuple[str, int]:
    """The model's text and the number of characters left out."""
    text: str = block["text"]
    return text[: caps.text], block["cut"] + max(0, len(text) - caps.text)


def row_words(state: ViewState, row: Block) -> tuple[str, str]:
    """Result and time of a row; a stable record has no times."""
    result = row["result"] if row["state"] != "declined" else declined_word(row)
    if row["state"] == "not-run":
        result = _not_run(state, row)
    timed = row["seconds"] is not None and not state["stable"]
    return result, duration(row["seconds"]) if timed else ""


def _not_run(state: ViewState, row: Block) -> str:
    asked_in_vain = row["decision"] is not None and row["decision"]["by"] == "cancel"
    if state["status"] == "cancelled" and (asked_in_vain or row["cause"] in ("", "cancelled")):
        return "the run was interrupted" if state["interrupted"] else "the run was stopped"
    reason: str = row["detail"] if row["detail_kind"] == "reason" else ""
    return one_line(reason.split("\n")[0].removeprefix("not run: "), 80)


def table_rows(table: Table, caps: Caps) -> list[list[str | None]]:
    """The rows of the record."""
    return table["rows"][: caps.rows]


def heads_of(table: Table, count: int) -> list[list[str | None]]:
    """The labels of the first ``count`` rows: their numbers when they have none of their own."""
    return table["heads"][:count] if table["heads"] is not None else [[str(i)] for i in range(count)]


def table_foot(table: Table, shown: int) -> str:
    """``3 rows × 3 columns``, with what is left out."""
    foot = shape(table)
    if shown < table["total_rows"]:
        foot += f", the first {shown:,} shown" if shown else ", left out here to keep the record small"
    left = table["total_columns"] - len(table["columns"])
    return foot + (f", {plural(left, 'more column')}" if left > 0 else "")


def frame_of(state: ViewState, row: Block) -> str:
    """The code that gives the frame of a row's data: ``run.frames["grep"]``, numbered where there are several."""
    calls = [block["key"] for block in state["blocks"] if block.get("has_data") and block["tool"] == row["tool"]]
    key = f'"{row["tool"]}"' if len(calls) < 2 else f'"{row["tool"]}", {calls.index(row["key"])}'
    return f"{state['handle']}.frames[{key}]"


def head(text: str, lines: int, size: int) -> tuple[str, str]:
    """The first lines of ``text``, and a sentence about the rest."""
    every = text.rstrip("\n").split("\n")
    shown = "\n".join(every[:lines])
    if len(shown) > size:
        return shown[:size], plural(len(text) - size, "more character")
    more = len(every) - lines
    return shown, plural(more, "more line") if more > 0 else ""


def detail_of(row: Block, caps: Caps, scrub: Scrub) -> tuple[str, str]:
    """The text below a row and what is left out: a result, an error, or the output of a cancelled call.

    It is scrubbed first: how much is left out must not depend on how long a path is here.
    """
    if row["detail_kind"] == "reason":
        return "", ""
    text = scrub(row["detail"] or "\n".join(row["progress"]))
    if row["detail_kind"] == "error":
        return head(text, max(4, caps.lines), max(400, caps.detail))
    if row["table"] is not None and row["table"]["rows"] and not row["text_too"]:
        return "", ""
    shown, rest = head(text, caps.lines, caps.detail)
    if row["cut"] and not rest:
        rest = plural(row["cut"], "more character")
    return shown, rest


def note_of(row: Block) -> str:
    """One line that says what did not happen."""
    if row["state"] == "declined":
        return "Not run."
    if row["state"] == "not-run":
        return "Nothing was changed."
    return "The model has read this message." if row["state"] == "failed" else ""


def arguments_of(state: ViewState, row: Block, size: int, lines: int) -> tuple[str, str]:
    """All arguments, when the row's line could not hold them and no difference shows them, and what is left out.
    ``lines`` is for a program, and so are four times ``size`` characters."""
    if is_whole(row["line"]) or row["diff"] or not size:
        return "", ""
    if not row["code"]:
        return row["arguments"][:size], ""
    shown, rest = head(row["arguments"], lines, 4 * size)
    return shown, _elsewhere(state, rest)


def diff_of(state: ViewState, row: Block, caps: Caps) -> tuple[list[tuple[str, str]], str]:
    """Lines of the difference with their numbers, and what is left out."""
    if not row["diff"] or not caps.diff:
        return [], ""
    most = max(caps.diff, caps.code) if row["code"] else caps.diff
    lines = row["diff"]["text"].split("\n")
    more = len(lines) - most
    rest = plural(more, "more line") if more > 0 else ""
    kept = list(zip(lines, row["diff"]["numbers"], strict=False))[:most]
    return kept, _elsewhere(state, rest) if row["code"] else rest


def _elsewhere(state: ViewState, rest: str) -> str:
    return f"{rest}; all of it is in {state['handle']}.messages" if rest else ""


def opens(row: Block, rows: int) -> bool:
    """Whether a row stands open in the record: what failed, figures, a difference, a small table."""
    small = row["table"] is not None and 0 < row["table"]["total_rows"] <= 5 and rows > 0
    return bool(row["state"] == "failed" or row["images"] or (row["state"] == "done" and (row["diff"] or small)))


def image_words(row: Block) -> list[str]:
    """``Figure 1 of 1, 840 × 300 px, 14 kB`` for each figure of a row, and why one is not drawn."""
    return [_image_words(image, number, row["image_count"]) for number, image in enumerate(row["images"], 1)]


def _image_words(image: Figure, number: int, count: int) -> str:
    size = f", {image['width']} × {image['height']} px" if image["width"] else ""
    why = f", {image['why']}" if "why" in image else ""
    return f"Figure {number} of {count:,}{size}, {max(1, round(image['bytes'] / 1000)):,} kB{why}"


def more_images(row: Block) -> str:
    """How many figures are not even named."""
    more = row["image_count"] - len(row["images"])
    return f"{figure_count(more)} more" if more > 0 else ""
