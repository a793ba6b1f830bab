"""When and what a view sends: new text 25 times a second, the changed fields of blocks, the header 4 times a second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from .rendering import markdown_html, sealed_length
from .view_state import Block, ViewState
from .visible import visible
from .wire import page_block, page_header

TEXT_S = 0.04  # 25 a second: smooth to the eye, and cheap enough for 5,000 deltas
CALM_S = 0.25  # header and task list: numbers that change faster cannot be read


class Painter:
    """Compares states and posts what differs. ``post`` takes JSON data.

    ``text``: ``key`` and the ``text`` to append. ``seal``: ``key``, the ``html`` of Markdown blocks that have ended,
    and the ``tail`` after them. ``patch``: ``blocks`` (new ones whole, known ones as their changed fields), ``gone``
    (keys) and ``header``.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, post: Callable[[dict[str, Any]], None]) -> None:
        self._loop, self._post = loop, post
        self._timer: asyncio.TimerHandle | None = None
        self._calm_at = 0.0
        self._state: ViewState | None = None
        self._blocks: dict[str, Block] = {}  # as the page knows them
        self._fields: dict[str, dict[str, Any]] = {}
        self._header: dict[str, Any] = {}
        self._streaming = ""  # the key of the text that is arriving
        self._ended_key, self._ended_at = "", 0.0  # the last text that has ended, and when
        self._sent = 0  # characters of it that the page has
        self._sealed = 0  # of these, the ones that are drawn as HTML for good

    def settled(self, state: ViewState) -> None:
        """The page gets all of ``state`` by a checkpoint."""
        self.stop()
        self._state = state
        self._blocks = {block["key"]: block for block in state["blocks"]}
        self._fields.clear()
        self._header = _comparable(page_header(state))
        self._streaming = ""
        if state["blocks"] and state["blocks"][-1].get("done") is False:
            self._stream_from(state["blocks"][-1])

    def paint(self, state: ViewState) -> None:
        """Let ``state`` reach the page soon."""
        self._state = state
        if self._timer is None:
            self._timer = self._loop.call_later(TEXT_S, self._flush)

    def stop(self) -> None:
        """Send nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _flush(self) -> None:
        self._timer = None
        state = self._state
        if state is None:
            return
        now = self._loop.time()
        calm = now - self._calm_at >= CALM_S
        changed = [block for block in state["blocks"] if self._blocks.get(block["key"]) is not block]
        later = [block for block in changed if self._can_wait(state, block, calm=calm, now=now)]
        patches = [self._patch(state, block) for block in changed if not any(block is other for other in later)]
        header = self._changed_header(state, calm)
        self._send(state, [patch for patch in patches if patch], header)
        if calm and (header or any(block["kind"] == "todo" for block in changed)):
            self._calm_at = now
        if later or _comparable(page_header(state)) != self._header:
            self._timer = self._loop.call_later(CALM_S, self._flush)

    def _can_wait(self, state: ViewState, block: Block, *, calm: bool, now: float) -> bool:
        """True for a task list that was sent a moment ago, and for the last text a moment after its end: most runs
        end with it, and their record brings it anyway."""
        if block["kind"] == "todo":
            return not calm
        if block["key"] != self._streaming or not block["done"] or block is not state["blocks"][-1]:
            return False
        if self._ended_key != block["key"]:
            self._ended_key, self._ended_at = block["key"], now
            self._grown(block)
        return now - self._ended_at < CALM_S

    def _changed_header(self, state: ViewState, calm: bool) -> dict[str, Any] | None:
        header = page_header(state)
        plain = _comparable(header)
        if plain == self._header or not (calm or header["mark"] != self._header.get("mark")):
            return None
        self._header = plain
        return header

    def _send(self, state: ViewState, patches: list[dict[str, Any]], header: dict[str, Any] | None) -> None:
        keys = {block["key"] for block in state["blocks"]}
        gone = [key for key in self._blocks if key not in keys]
        for key in gone:
            del self._blocks[key]
            self._fields.pop(key, None)
        parts = {"blocks": patches, "gone": gone, "header": header}
        content = {name: part for name, part in parts.items() if part}
        if content:
            self._post({"type": "patch", **content})

    def _patch(self, state: ViewState, block: Block) -> dict[str, Any] | None:
        """What the page must change for ``block``; text that goes on is sent at once, so None."""
        known = block["key"] in self._blocks
        self._blocks[block["key"]] = block
        if known and block["key"] == self._streaming:
            if block["done"]:
                return self._ended(block)
            self._grown(block)
            return None
        fields = page_block(state, block)
        if block.get("done") is False:
            self._stream_from(block)
        old = self._fields.get(block["key"], {}) if known else {}
        self._fields[block["key"]] = fields
        fixed = ("kind", "key")
        return {name: value for name, value in fields.items() if name in fixed or name not in old or old[name] != value}

    def _stream_from(self, block: Block) -> None:
        self._streaming, self._sent = block["key"], len(block["text"])
        self._sealed = sealed_length(block["text"])

    def _grown(self, block: Block) -> None:
        text: str = block["text"]
        end = sealed_length(text[self._sealed :]) if "\n" in text[self._sent :] else 0
        if end:
            html = markdown_html(text[self._sealed : self._sealed + end])
            self._sealed += end
            self._post({"type": "seal", "key": block["key"], "html": html, "tail": visible(text[self._sealed :])})
        elif len(text) > self._sent:
            self._post({"type": "text", "key": block["key"], "text": visible(text[self._sent :])})
        self._sent = len(text)

    def _ended(self, block: Block) -> dict[str, Any]:
        """The part that was a tail so far becomes HTML; what stands above it does not move."""
        self._streaming = ""
        rest = markdown_html(block["text"][self._sealed :])
        words = len(block["text"].split())
        return {"kind": block["kind"], "key": block["key"], "done": True, "rest": rest, "words": words}


def _comparable(header: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in header.items() if name != "now"}
