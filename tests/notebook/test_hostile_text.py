"""Hostile text in every place that text can come from: it is shown, and nothing of it acts."""

from dataclasses import replace
from typing import Any

import pytest
from active_content import active
from markdown_it import MarkdownIt
from sample_events import answered, asked, call, ended, make, play, ran, request, said, started

from kestrel_nb.frames import to_frame
from kestrel_nb.notebook.inbox import Inbox
from kestrel_nb.notebook.record import render
from kestrel_nb.protocol import events as ev
from kestrel_nb.protocol.tools import TodoItem

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=y onerror=alert(2)>",
    "</td></table><svg onload=alert(1)>",
    '"><a href="javascript:alert(1)">x</a>',
    "![x](http://127.0.0.1:9/leak?q=1)",
    "\x1b[8mhidden\x1b[0m \u202egpj.exe",
]


def everywhere(text: str) -> list[ev.SessionEvent]:
    """A run with ``text`` as everything that it can be."""
    data: Any = [{text: text, "s": text, "nested": {text: [text]}}]
    question = replace(request("shell", {"command": text, text: text}, call_id="call_2"), reason=text)
    return [
        *started(text),
        *said(text),
        *call(text, {text: text}),
        make(ev.ToolProgress, call_id="call_1", tool=text, message=text),
        *ran(text, text, data),
        *call("shell", {"command": text}, "call_2"),
        *asked(question),
        *answered(question, "button", approved=False, reason=text),
        make(ev.ToolSkipped, call_id="call_2", tool="shell", reason=text, cause="declined"),
        *call(text, {}, "call_3"),
        make(ev.ToolFailed, call_id="call_3", tool=text, error=text),
        make(ev.Notice, level="warning", code="store_failed", text=text),
        make(ev.TodoUpdated, items=(TodoItem(text=text),)),
        make(ev.RunFailed, code=text, message=text),
    ]


@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize("text", HOSTILE)
def test_r03_nothing_acts_in_a_record(text: str, stable: bool) -> None:
    bundle = render(play(everywhere(text), stable=stable))
    assert active(bundle["text/html"]) == []
    for form in bundle.values():
        assert "\x1b" not in form
        assert "\u202e" not in form
    raw = MarkdownIt("commonmark", {"html": True}).enable("table").render(bundle["text/markdown"])
    assert [found for found in active(raw) if "style=" not in found] == []  # the parser's own alignment of columns


@pytest.mark.parametrize("text", HOSTILE)
def test_r03_nothing_acts_in_a_frame_or_the_inbox(text: str) -> None:
    frame = to_frame([{text: text, "s": text}])
    drawn = frame._repr_html_()
    for tag in ("<script", "<img", "<svg", "<a "):
        assert tag not in drawn
    question = replace(request("shell", {"command": text}), reason=text)
    box = Inbox([("a1", question, text)], [])
    assert active(box._repr_mimebundle_()["text/html"]) == []


def test_an_ended_run_has_no_hostile_parts_left_out() -> None:
    """The events used above are those of a real run: none is dropped on the way to the record."""
    bundle = render(play([*everywhere("plain words")[:-1], *ended()], stable=False))
    assert bundle["text/plain"].count("plain words") >= 8
