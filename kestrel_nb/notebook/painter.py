"""When and what a view sends: new text 25 times a second, changed blocks, the header at most 4 times a second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from .rendering import markdown_html, sealed_length
from .view_state import Block, ViewState
from .visible import visible
from .wire import page_block, page_header

TEXT_S = 0.04  # 25 a second: smooth to the eye, and cheap enough for 5,000 deltas
FACTS_S = 0.25
_CALM = ("todo",)


class Painter:
    """Compares states and posts messages. ``post`` takes JSON data.

    ``text``: ``key``, ``text`` to append. ``seal``: ``key``, the ``html`` of the Markdown blocks that have ended, and
    the ``tail`` after them. ``patch``: ``blocks`` that changed, ``gone`` keys, and ``header``.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, post: Callable[[dict[str, Any]], None]) -> None:
        self._loop, self._post = loop, post
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._header_at = 0.0
        self._shown: dict[str, Block] = {}
        self._header: dict[str, Any] = {}
        self._sent = 0  # characters of the streaming block that the page has
        self._sealed = 0  # of these, characters that are drawn as HTML
        self._streaming = ""
        self._state: ViewState | None = None

    def start(self, state: ViewState) -> None:
        """The page has, or will have, ``state``."""
        self.settled(state)

    def settled(self, state: ViewState) -> None:
        """A checkpoint brings all of ``state`` to the page."""
        self._state = state
        self._shown = {block["key"]: block for block in state["blocks"]}
        self._header = _comparable(page_header(state))
        last = state["blocks"][-1] if state["blocks"] else None
        open_text = last is not None and last.get("done") is False
        self._streaming = last["key"] if last is not None and open_text else ""
        self._sent = len(last["text"]) if last is not None and open_text else 0
        self._sealed = 0

    def paint(self, state: ViewState) -> None:
        """Let ``state`` reach the page soon."""
        self._state = state
        wait = TEXT_S if self._is_urgent(state) else FACTS_S
        due = self._loop.time() + wait
        if self._timer is None or due < self._due - 0.001:
            if self._timer is not None:
                self._timer.cancel()
            self._due = due
            self._timer = self._loop.call_later(wait, self.flush)

    def stop(self) -> None:
        """Send nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _is_urgent(self, state: ViewState) -> bool:
        for block in reversed(state["blocks"]):
            if block["kind"] in _CALM:
                continue
            if self._shown.get(block["key"]) is not block:
                return True
            break
        return any(
            self._shown.get(block["key"]) is not block for block in state["blocks"] if block["kind"] not in _CALM
        ) or page_header(state)["mark"] != self._header.get("mark")

    def flush(self, *, text_only: bool = False) -> None:
        """Send what has changed since the last time."""
        self.stop()
        state = self._state
        if state is None or text_only:
            return
        changed = [block for block in state["blocks"] if self._shown.get(block["key"]) is not block]
        patches = []
        for block in changed:
            if block.get("done") is False:
                self._stream(block, patches)
            else:
                patches.append(block)
        keys = {block["key"] for block in state["blocks"]}
        gone = [key for key in self._shown if key not in keys]
        self._send_patch(state, patches, gone)
        for block in changed:
            self._shown[block["key"]] = block

    def _stream(self, block: Block, patches: list[Block]) -> None:
        """Send the new part of a text that is arriving."""
        if self._streaming != block["key"]:
            if patches:
                raise AssertionError("a streaming block is the last one")
            self._streaming, self._sent, self._sealed = block["key"], 0, 0
            self._post({"type": "open", "key": block["key"], "kind": block["kind"]})
        text: str = block["text"]
        end = sealed_length(text[self._sealed :]) if "\n" in text[self._sent :] else 0
        if end:
            html = markdown_html(text[self._sealed : self._sealed + end])
            self._sealed += end
            self._post({"type": "seal", "key": block["key"], "html": html, "tail": visible(text[self._sealed :])})
        elif len(text) > self._sent:
            self._post({"type": "text", "key": block["key"], "text": visible(text[self._sent :])})
        self._sent = len(text)

    def _send_patch(self, state: ViewState, patches: list[Block], gone: list[str]) -> None:
        header = page_header(state)
        content: dict[str, Any] = {}
        if patches:
            content["blocks"] = [self._drawn(state, block) for block in patches]
        if gone:
            content["gone"] = gone
            for key in gone:
                del self._shown[key]
        if _comparable(header) != self._header:
            content["header"] = header
            self._header = _comparable(header)
        if content:
            self._post({"type": "patch", "order": [b["key"] for b in state["blocks"]][-4:], **content})

    def _drawn(self, state: ViewState, block: Block) -> dict[str, Any]:
        drawn = page_block(state, block)
        if block["kind"] in ("text", "reasoning") and block["key"] == self._streaming and self._sealed:
            # The page has the rest: only what came after it is drawn now.
            drawn["html"] = markdown_html(block["text"][self._sealed :])
            drawn["append"] = True
        return drawn


def _comparable(header: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in header.items() if name != "now"}
