"""States: pure, JSON, complete, whatever order the events come in."""

from __future__ import annotations

import copy
import json

from sample_events import EDIT, SHELL, answered, asked, call, ended, make, play, ran, said, started

from kestrel_nb.notebook import view_state
from kestrel_nb.protocol import events as ev
from kestrel_nb.protocol.messages import ReasoningPart, TextPart, ToolCallPart, create_message
from kestrel_nb.protocol.sessions import SessionSummary, Usage
from kestrel_nb.protocol.tools import TodoItem

SUMMARY = SessionSummary(id="s", title="t", model="m", workspace="w")


def test_apply_changes_nothing_in_place_and_every_event_is_taken() -> None:
    asking = asked(SHELL)
    events = [
        make(ev.SessionCreated, summary=SUMMARY),
        *started(),
        make(ev.ReasoningDelta, message_id="m", text="hm"),
        *said("text"),
        make(ev.ToolDelta, call_id="call_1", tool="shell", text='{"command": "py'),
        *asking,
        *answered(SHELL, "button", approved=True),
        *call("shell", SHELL.arguments),
        make(ev.ToolProgress, call_id="call_1", tool="shell", message="17 of 41"),
        *ran("shell", "ok", {"exit_code": 0}),
        make(ev.ToolFailed, call_id="c2", tool="x", error="no"),
        make(ev.ToolSkipped, call_id="c3", tool="x", reason="no"),
        make(ev.Notice, level="info", code="retry", text="again"),
        make(ev.UsageUpdated, usage=Usage(input_tokens=1), cost=float("nan")),
        make(ev.TodoUpdated, items=(TodoItem(text="a"),)),
        make(ev.MessageCompleted, message=create_message("assistant", "text")),
        make(ev.SessionUpdated, summary=SUMMARY),
        make(ev.SessionRewound, messages=(), removed=1),
        make(ev.SessionDeleted, summary=SUMMARY),
        *ended(),
        make(ev.RunFailed, code="c", message="m"),
    ]
    assert {type(event) for event in events} == set(ev.EVENT_TYPES)
    state = view_state.initial()
    for event in events:
        before = copy.deepcopy(state)
        after = view_state.apply(state, event)
        assert state == before
        json.dumps(after, allow_nan=False).encode()
        state = after


def test_untouched_blocks_are_the_same_objects() -> None:
    state = play([*started(), *said("a"), *call("t", {}), *ran("t", "x")])
    after = view_state.apply(state, said("more", "m2")[0])
    assert len(after["blocks"]) > len(state["blocks"]) > 1
    assert all(old is new for old, new in zip(state["blocks"], after["blocks"], strict=False))


def test_the_steps_of_a_call_may_come_in_any_order() -> None:
    asking, begin, done = (
        asked(EDIT),
        call("edit_file", EDIT.arguments, "call_2"),
        ran("edit_file", "ok", None, "call_2"),
    )
    delta = [make(ev.ToolDelta, call_id="call_2", tool="edit_file", text="{")]
    yes = answered(EDIT, "button", approved=True)
    for events in (
        [*delta, *asking, *yes, *begin, *done],
        [*asking, *yes, *begin, *done],
        [*delta, *begin, *asking, *yes, *done],
        done,
    ):
        rows = [block for block in play([*started(), *events])["blocks"] if block["kind"] == "tool"]
        assert len(rows) == 1
        assert rows[0]["state"] == "done"
        assert rows[0]["card"] is None


def test_an_id_that_a_model_uses_again_gets_a_row_of_its_own() -> None:
    events = [
        *call("a", {}, "call_0"),
        *ran("a", "1", None, "call_0"),
        *call("b", {}, "call_0"),
        *ran("b", "2", None, "call_0"),
    ]
    rows = play([*started(), *events])["blocks"]
    assert [(row["tool"], row["detail"]) for row in rows] == [("a", "1"), ("b", "2")]


def test_late_news_changes_no_row_that_has_ended() -> None:
    runs, ended_before = play([*started(), *call("a", {})]), play([*started(), *call("a", {}), *ran("a", "1")])
    news = make(ev.ToolProgress, call_id="call_1", tool="a", message="late")
    assert view_state.apply(runs, news)["blocks"] != runs["blocks"]
    assert view_state.apply(ended_before, news)["blocks"] == ended_before["blocks"]


def test_keys_are_never_used_twice() -> None:
    events = [
        *said("a"),
        make(ev.Notice, level="info", code="retry", text="wait"),
        *call("t", {}, "c1"),
        *call("u", {}, "c2"),
    ]
    events += [make(ev.Notice, level="info", code="retry", text="wait"), *said("b", "m2"), *call("v", {}, "c3")]
    keys = [block["key"] for block in play([*started(), *events])["blocks"]]
    assert len(keys) == len(set(keys)) == 5


def test_a_message_that_did_not_stream_appears_whole() -> None:
    part = ToolCallPart(id="c", name="grep", arguments={"pattern": "x"}, raw_arguments='{"pattern": "x"}')
    message = create_message("assistant", [ReasoningPart(text="hm"), TextPart(text="Look."), part], id="m")
    blocks = play([*started(), make(ev.MessageCompleted, message=message)])["blocks"]
    assert [(block["kind"], block.get("text", block.get("line"))) for block in blocks] == [
        ("reasoning", "hm"),
        ("text", "Look."),
        ("tool", "x"),
    ]
    streamed = play([*started(), *said("Look.", "m"), make(ev.MessageCompleted, message=message)])["blocks"]
    assert [block["kind"] for block in streamed] == ["text", "tool"]


def test_progress_keeps_five_lines() -> None:
    events = [make(ev.ToolProgress, call_id="call_1", tool="t", message=f"line {n}") for n in range(9)]
    row = play([*started(), *call("t", {}), *events])["blocks"][0]
    assert row["progress"] == [f"line {n}" for n in range(4, 9)]
    assert row["result"] == "line 8"


def test_a_retry_notice_goes_when_the_next_try_begins() -> None:
    wait = make(ev.Notice, level="info", code="retry", text="Trying again in 8 s, attempt 2 of 5.")
    state = play([*started(), wait])
    assert state["blocks"][0]["retry"]
    state = view_state.apply(state, said("a")[0])
    assert [block["kind"] for block in state["blocks"]] == ["text"]
    assert state["tries"] == 2


def test_a_huge_text_is_bounded() -> None:
    state = play([*started(), *said("x" * 10**7), *said("y" * 100)])
    assert len(state["blocks"][0]["text"]) == view_state.TEXT
    assert state["blocks"][0]["cut"] == 10**7 + 100 - view_state.TEXT


def test_a_todo_list_stays_where_it_first_appeared() -> None:
    first, second = (make(ev.TodoUpdated, items=(TodoItem(text=name),)) for name in "ab")
    blocks = play([*started(), first, *said("x"), second])["blocks"]
    assert [block["kind"] for block in blocks] == ["todo", "text"]
    assert blocks[0]["items"][0]["text"] == "b"


def test_a_call_that_was_answered_in_another_kernel_shows_its_arguments() -> None:
    """After a restart the run goes on with the answer: no question and no start were seen."""
    skipped = make(ev.ToolSkipped, call_id="call_1", tool="shell", reason="no", cause="declined")
    for events in (
        [*answered(SHELL, "command", approved=False), skipped],
        [skipped, *answered(SHELL, "command", approved=False)],
        [*answered(SHELL, "command", approved=True), *ran("shell", "ok")],
    ):
        (row,) = play([*started(), *events])["blocks"]
        assert row["line"] == "pytest -q tests/test_fetch.py"
        assert "pytest -q tests/test_fetch.py" in row["arguments"]
        assert row["state"] in ("declined", "done")
        assert row["card"] is None
    (row,) = play([*started(), *answered(EDIT, "command", approved=False)])["blocks"]
    assert row["line"] == 'path="src/poll.py"'
    assert "+    await asyncio.sleep(1)" in row["diff"]["text"]


def test_data_kept_in_a_file_leave_the_text_in_view() -> None:
    kept = {"truncated": True, "characters": 50_000_000, "file": "data/x.json"}
    state = play([*started(), *call("t", {}), *ran("t", "the first line\nthe second", kept), *ended()])
    row = next(block for block in state["blocks"] if block["kind"] == "tool")
    assert row["table"] is None
    assert row["detail"].startswith("the first line")
