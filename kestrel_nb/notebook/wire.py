"""A view state as the page gets it: only what is drawn, text as safe HTML, sizes bounded, strict JSON.

``page_state`` is the whole, for a synced trait; ``page_block`` one block of it. The page holds no rules: words,
sentences and HTML are made here.
"""

from __future__ import annotations

import time
from typing import Any

from .rendering import markdown_html, sealed_length
from .shown import arguments_of, frame_of, image_words, more_images, note_of, row_words, table_foot
from .view_state import Block, ViewState
from .visible import visible
from .words import (
    SENT_COLUMNS,
    SENT_TEXT,
    STATE_WORDS,
    decision_of,
    error_of,
    facts,
    left_out,
    sent_rest,
    sent_rows,
    sent_title,
    sent_values,
    sent_whole,
    status_mark,
    status_word,
    todo_title,
    todo_words,
)

BUDGET = 400_000  # characters of all rows together; older rows are cut first
_LINES = 20_000  # characters of a text result that go to the page at once
_SHORT = 2_000
_CODE = 1_000  # lines of a program


def page_header(state: ViewState) -> dict[str, Any]:
    """What stands above the blocks. ``now`` is the kernel's clock, so that the page can count with its own."""
    live = state["status"] == "running"
    return {
        "status": state["status"],
        "mark": status_mark(state),
        "word": status_word(state),
        "facts": facts(state, with_time=False),
        "model": state["model"],
        "step": state["step"],
        "timed": not state["stable"],
        "started_at": state["started_at"],
        "ended_at": None if live else state["ended_at"],
        "now": time.time(),
        "error": error_of(state),
    }


def page_state(state: ViewState) -> dict[str, Any]:
    """Everything that a page needs to draw the run from nothing."""
    blocks, left = [], BUDGET
    for block in reversed(state["blocks"]):
        drawn = page_block(state, block, short=left < 0)
        left -= _size(drawn)
        blocks.append(drawn)
    return {**page_header(state), "blocks": blocks[::-1]}


def _size(drawn: dict[str, Any]) -> int:
    table = drawn.get("table")
    cells = (
        sum(len(cell or "") + 4 for row in (*table["rows"], *(table["heads"] or ())) for cell in row) if table else 0
    )
    text = len(drawn.get("detail", "")) + len(drawn.get("arguments", "")) + len(drawn.get("html", ""))
    return cells + text  # figures have a limit of their own


def page_block(state: ViewState, block: Block, *, short: bool = False) -> dict[str, Any]:
    """One block as it is drawn; ``short`` leaves all but the first part of a result out."""
    kind = block["kind"]
    base = {"kind": kind, "key": block["key"]}
    if kind in ("text", "reasoning"):
        return {**base, **_text(block, short)}
    if kind == "tool":
        return {**base, **_row(state, block, short)}
    if kind == "notice":
        return {**base, "level": block["level"], "text": block["text"], "retry": block["retry"]}
    if kind == "todo":
        words = [(item["text"], *todo_words(state, item)) for item in block["items"]]
        items = [{"text": text, "mark": mark, "word": word} for text, mark, word in words]
        return {**base, "title": todo_title(block["items"]), "items": items}
    return {**base, **_sent(block["rows"]), "whole": sent_whole(state)}


def _sent(rows: list[dict[str, Any]]) -> dict[str, Any]:
    grid = {"columns": list(SENT_COLUMNS), "text_columns": SENT_TEXT, "rows": [list(row) for row in sent_rows(rows)]}
    return {"title": sent_title(rows), **grid, "more": sent_rest(rows), "opens": sent_values(rows) > 1}


def _text(block: Block, short: bool) -> dict[str, Any]:
    if short and len(block["text"]) > _LINES:
        left = len(block["text"]) - _LINES + block["cut"]
        block = {**block, "text": block["text"][:_LINES], "cut": left}
    words = len(block["text"].split())
    more = f"{left_out(block['cut'], 'character')} here." if block["cut"] else ""
    sealed = len(block["text"]) if block["done"] else sealed_length(block["text"])
    text = block["text"]
    tail = visible(text[sealed:])
    return {"done": block["done"], "html": markdown_html(text[:sealed]), "tail": tail, "words": words, "more": more}


def _row(state: ViewState, row: Block, short: bool) -> dict[str, Any]:
    table, size = row["table"], _SHORT if short else _LINES
    result, _ = row_words(state, row) if row["state"] in ("declined", "not-run") else (row["result"], "")
    arguments, arguments_more = arguments_of(state, row, size, _CODE)
    drawn = {
        "tool": row["tool"],
        "line": row["line"],
        "state": row["state"],
        "word": STATE_WORDS[row["state"]],
        "result": result,
        "progress": row["progress"],
        "detail": "" if row["detail_kind"] == "reason" else row["detail"][:size],
        "detail_kind": row["detail_kind"],
        "more": max(0, len(row["detail"]) - size) + row["cut"],
        "note": note_of(row) if row["state"] in ("declined", "not-run", "failed") else "",
        "arguments": arguments,
        "arguments_more": arguments_more,
        "code": row["code"],
        "diff": row["diff"],
        "images": [{**image, "words": words} for image, words in zip(row["images"], image_words(row), strict=True)],
        "images_more": more_images(row),
        "text_too": row["text_too"],
        "table": None,
        "seconds": None if state["stable"] else row["seconds"],
        "started_at": None if state["stable"] else row.get("started_at"),
        "card": row["card"],
        "decision": decision_of(state, row),
        "by": row["decision"]["by"] if row["decision"] else "",
    }
    if table is not None and table["rows"]:
        rows = table["rows"][: 10 if short else None]
        heads = table["heads"] and table["heads"][: len(rows)]
        foot = table_foot(table, len(table["rows"]))
        drawn["table"] = {**table, "rows": rows, "heads": heads, "foot": foot, "frame": frame_of(state, row)}
    return drawn
