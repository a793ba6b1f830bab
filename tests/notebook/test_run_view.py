"""The widget: what goes over the wire, and what it takes from a page. Its comm is a list."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import math
import re
import threading
from pathlib import Path
from typing import Any

import comm
import pytest
from comm.base_comm import BaseComm
from sample_events import EDIT, SHELL, answered, asked, call, ended, make, ran, said, started

from kestrel_nb.notebook import sheet
from kestrel_nb.notebook.record import render
from kestrel_nb.notebook.run_view import RunView
from kestrel_nb.protocol import events as ev
from kestrel_nb.protocol.messages import TextPart, create_message
from kestrel_nb.protocol.sessions import Usage
from kestrel_nb.protocol.tools import TodoItem


class Wire:
    """Every message to the front end, as strict JSON, and the door for messages from it."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.size = 0
        self.comm: BaseComm | None = None

    def take(self, kind: str, data: Any) -> None:
        text = json.dumps(data, allow_nan=False, ensure_ascii=False).encode("utf-8")
        self.size += len(text) + 500  # about the envelope of a message
        self.messages.append({"kind": kind, **json.loads(text)})

    def custom(self, kind: str | None = None) -> list[dict[str, Any]]:
        found = [message["content"] for message in self.messages if message.get("method") == "custom"]
        return [content for content in found if kind is None or content["type"] == kind]

    def states(self) -> list[dict[str, Any]]:
        return [message["state"] for message in self.messages if message.get("method") == "update"]

    def receive(self, content: dict[str, Any]) -> None:
        assert self.comm is not None
        self.comm.handle_msg({"content": {"data": {"method": "custom", "content": content}}, "buffers": []})


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    wire = Wire()

    class Comm(BaseComm):
        def publish_msg(
            self, msg_type: str, data: Any = None, metadata: Any = None, buffers: Any = None, **keys: Any
        ) -> None:
            wire.comm = self
            wire.take(msg_type, data or {})

    monkeypatch.setattr(comm, "create_comm", Comm)
    return wire


class Answers:
    def __init__(self, problem: str | None = None) -> None:
        self.given: list[tuple[str, dict[str, Any]]] = []
        self.problem = problem
        self.stops = 0

    def __call__(self, approval_id: str, answer: dict[str, Any]) -> str | None:
        self.given.append((approval_id, answer))
        return self.problem

    def stop(self) -> None:
        self.stops += 1


def view_of(answers: Answers, **options: Any) -> RunView:
    options = {"model": "scripted", "stable": True, **options}
    return RunView(on_answer=answers, on_stop=answers.stop, **options)


async def drawn(view: RunView, wire: Wire) -> None:
    wire.receive({"type": "ready"})
    await asyncio.wait_for(view.ready.wait(), 5)


async def settled() -> None:
    await asyncio.sleep(0.4)


async def test_five_thousand_deltas_stay_cheap(wire: Wire) -> None:
    view = view_of(Answers())
    await drawn(view, wire)
    for event in started():
        view.apply(event)
    for second in range(60):
        for n in range(5_000 // 60 + 1):
            view.apply(said("words " if n % 20 else "end.\n\n")[0])
        if second % 5 == 0:
            view.apply(make(ev.UsageUpdated, usage=Usage(input_tokens=second)))
            view.apply(make(ev.TodoUpdated, items=(TodoItem(text=str(second)),)))
        await asyncio.sleep(0.05)
    for event in ended():
        view.apply(event)
    view.finish(render(view.state))
    assert len(wire.messages) <= 100
    assert wire.size <= 200_000


async def test_the_page_has_the_whole_text(wire: Wire) -> None:
    view = view_of(Answers())
    await drawn(view, wire)
    for n in range(30):
        view.apply(said(f"{n}\n\n" if n % 3 == 0 else f"{n} ")[0])
        await asyncio.sleep(0.01)
    await settled()
    text = view.state["blocks"][0]["text"]
    tail = ""
    html = ""
    for content in wire.custom():
        if content["type"] == "patch":
            for block in content.get("blocks", []):
                html, tail = block["html"], block["tail"]
        elif content["type"] == "seal":
            html, tail = html + content["html"], content["tail"]
        elif content["type"] == "text":
            tail += content["text"]
    assert text.endswith(tail)
    assert re.sub(r"<[^>]+>", " ", html + tail).split() == text.split()


async def test_nothing_is_sent_before_a_page_is_ready(wire: Wire) -> None:
    view = view_of(Answers())
    opening = len(wire.messages)
    for event in [*started(), *said("first words")]:
        view.apply(event)
    await settled()
    assert len(wire.messages) == opening
    await drawn(view, wire)
    assert view.views == 1
    assert "first words" in json.dumps(wire.states()[-1]["page"])


async def test_a_checkpoint_holds_pending_cards(wire: Wire) -> None:
    view = view_of(Answers())
    await drawn(view, wire)
    for event in [*started(), *asked(SHELL)]:
        view.apply(event)
    page = wire.states()[-1]["page"]
    assert page["blocks"][-1]["card"]["id"] == SHELL.id
    for event in answered(SHELL, "button", approved=True):
        view.apply(event)
    assert wire.states()[-1]["page"]["blocks"][-1]["card"] is None


@pytest.mark.parametrize("approved", ["true", 1, None, [True], {}, "yes", False])
async def test_nothing_but_true_approves(wire: Wire, approved: Any) -> None:
    answers = Answers()
    view = view_of(answers)
    await drawn(view, wire)
    view.apply(asked(SHELL)[0])
    wire.receive({"type": "answer", "id": SHELL.id, "approved": approved, "remember": "session", "reason": " no "})
    await settled()
    assert answers.given == [(SHELL.id, {"approved": False, "reason": "no"})]


async def test_an_answer_reaches_the_loop_thread_from_any_thread(wire: Wire) -> None:
    answers, seen = Answers(), []
    view = view_of(answers)
    view.apply(asked(EDIT)[0])
    view._on_answer = lambda *given: seen.append(threading.get_ident())
    message = {"type": "answer", "id": EDIT.id, "approved": True}
    await asyncio.to_thread(wire.receive, message)
    await settled()
    assert seen == [threading.get_ident()]


async def test_edited_arguments_are_the_requests_own_but_for_the_change(wire: Wire) -> None:
    answers = Answers()
    view = view_of(answers)
    view.apply(asked(EDIT)[0])
    wire.receive({"type": "answer", "id": EDIT.id, "approved": True, "changes": {"new_string": "pass"}})
    wire.receive({"type": "answer", "id": EDIT.id, "approved": True, "changes": {}})
    await settled()
    assert answers.given == [
        (EDIT.id, {"approved": True, "arguments": {**EDIT.arguments, "new_string": "pass"}}),
        (EDIT.id, {"approved": True}),
    ]


async def test_a_refused_answer_is_said_in_the_card(wire: Wire) -> None:
    view = view_of(Answers("command: must be shorter"))
    await drawn(view, wire)
    view.apply(asked(SHELL)[0])
    wire.receive({"type": "answer", "id": SHELL.id, "approved": True})
    wire.receive({"type": "answer", "id": "apr_unknown", "approved": True})
    await settled()
    assert wire.custom("answer_failed") == [
        {"type": "answer_failed", "id": SHELL.id, "message": "command: must be shorter"},
        {"type": "answer_failed", "id": "apr_unknown", "message": "This question is closed."},
    ]
    view.checkpoint()
    assert wire.states()[-1]["page"]["errors"] == {SHELL.id: "command: must be shorter"}


async def test_stop_is_handed_over(wire: Wire) -> None:
    answers = Answers()
    view = view_of(answers)
    wire.receive({"type": "stop"})
    wire.receive({"type": "what"})
    await settled()
    assert answers.stops == 1
    assert view.state["interrupted"] is False


async def test_numbers_that_json_lacks_never_reach_the_comm(wire: Wire) -> None:
    view = view_of(Answers(), stable=False)
    await drawn(view, wire)
    data = {"rows": [{"a": math.nan}, {"a": math.inf}, {"a": 1.5}]}
    events = [*started(), *call("t", {"x": math.nan}), *ran("t", "\ud800", data, duration_ms=math.nan)]
    for event in [*events, make(ev.UsageUpdated, usage=Usage(), cost=math.nan), *ended()]:
        view.apply(event)
    await settled()
    view.checkpoint()
    view.finish(render(view.state))
    assert "NaN" in json.dumps(wire.states()[-1]["page"])


async def test_the_widget_closes_when_one_page_drew_it(wire: Wire) -> None:
    view = view_of(Answers())
    await drawn(view, wire)
    view.finish({"text/html": "<p>record</p>"})
    view.finish({"text/html": "<p>again</p>"})
    assert wire.messages[-1]["kind"] == "comm_close"


async def test_a_second_page_gets_the_record(wire: Wire) -> None:
    view = view_of(Answers())
    await drawn(view, wire)
    wire.receive({"type": "ready"})
    await settled()
    view.finish({"text/html": "<p>record</p>"})
    assert wire.states()[-1] == {"final": "<p>record</p>"}
    assert not any(message["kind"] == "comm_close" for message in wire.messages)


async def test_the_plain_form_has_no_address(wire: Wire) -> None:
    bundle = view_of(Answers())._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    words = "kestrel run: still going when this was saved; run the cell again, or look at %kestrel inbox"
    assert data["text/plain"] == words


def test_the_script_that_is_sent_holds_the_whole_one() -> None:
    packed = re.search(r'atob\("([A-Za-z0-9+/=]+)"\)', sheet.live_script())
    assert packed is not None
    assert gzip.decompress(base64.b64decode(packed[1])) == (Path(sheet.__file__).parent / "run_view.js").read_bytes()


async def test_the_last_text_becomes_html_a_moment_later(wire: Wire) -> None:
    """A run that ends with it sends it once, in its record."""
    view = view_of(Answers())
    await drawn(view, wire)
    for event in (*started(), *said("one *two*")):
        view.apply(event)
    await settled()
    message = create_message("assistant", [TextPart(text="one *two*")], id="msg_1")
    view.apply(make(ev.MessageCompleted, message=message))
    await asyncio.sleep(0.1)
    assert "<em>two</em>" not in str(wire.custom())
    await settled()
    assert "<em>two</em>" in str(wire.custom("patch"))
