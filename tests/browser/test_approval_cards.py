"""The main job: an agent asks in the running cell, a person answers there, and a readable record stays."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from lab_page import NotebookPage, Open
from lab_server import Server
from playwright.sync_api import Locator, expect
from sample_cells import AFTER, ASK, LOAD, NOTE_THEN_DONE, calling, setup

RECORD_TYPES = {"text/html", "text/markdown", "text/plain"}
SOON = 2.0  # seconds; answers must act within about one, the rest is for a busy machine


def card(page: NotebookPage, index: int) -> Locator:
    """The approval card of a cell."""
    return page.output(index).locator(".kestrel-card")


def wait_card(page: NotebookPage, index: int) -> Locator:
    """Wait for the card and until its buttons act: in the first moments of a new card they don't, and say so."""
    card(page, index).first.wait_for(timeout=30_000)
    expect(page.button(index, "Decline…").first).to_be_enabled()
    return card(page, index)


def press(page: NotebookPage, index: int, name: str) -> float:
    """Press a button of the card; the time of the press."""
    page.button(index, name).click()
    return time.monotonic()


def assert_one_record(saved: dict[str, Any], index: int) -> dict[str, str]:
    """The saved cell has one output: the record in its three forms, without a widget. Returns its texts."""
    outputs = saved["cells"][index]["outputs"]
    displays = [output for output in outputs if output["output_type"] == "display_data"]
    assert len(displays) == 1, outputs
    assert [output["output_type"] for output in outputs if output["output_type"] not in ("display_data", "error")] == []
    assert set(displays[0]["data"]) == RECORD_TYPES
    assert "widgets" not in saved["metadata"]
    return {kind: "".join(text) for kind, text in displays[0]["data"].items()}


@pytest.mark.parametrize("front", ["lab", "notebook7"])
def test_approve(front: str, open_pages: Open, request: pytest.FixtureRequest) -> None:
    server: Server = request.getfixturevalue(front)
    page = open_pages(server, [LOAD, setup(*NOTE_THEN_DONE), ASK, AFTER])
    page.run_all()
    wait_card(page, 2)
    assert (page.prompt(2), page.prompt(3)) == ("*", "*")
    assert "alpha" in card(page, 2).inner_text()
    page.shot(f"card-{front}")
    pressed = press(page, 2, "Approve")
    page.wait_text(3, "after [['alpha', 1]] completed")
    assert time.monotonic() - pressed < SOON
    page.wait_text(2, "All done.")
    assert card(page, 2).count() == 0
    texts = assert_one_record(page.save(), 2)
    assert all("noted alpha times 1" in text and "All done." in text for text in texts.values())
    assert page.errors == []
    page.shot(f"record-{front}")


def test_decline_with_a_reason(open_lab: Open) -> None:
    page = open_lab([LOAD, setup(*NOTE_THEN_DONE), ASK, AFTER + "; print(said())"])
    page.run_all()
    wait_card(page, 2)
    press(page, 2, "Decline…")
    page.output(2).locator(".kestrel-card textarea, .kestrel-card input").first.fill("not on a Sunday")
    press(page, 2, "Decline this call")
    page.wait_text(3, "after [] completed")
    assert "not on a Sunday" in page.text(3)
    texts = assert_one_record(page.save(), 2)
    assert "Declined" in texts["text/markdown"]
    assert "not on a Sunday" in texts["text/markdown"]


def test_edit_before_approving(open_lab: Open) -> None:
    page = open_lab([LOAD, setup(*NOTE_THEN_DONE), ASK, AFTER + "; print(said())"])
    page.run_all()
    wait_card(page, 2)
    press(page, 2, "Edit…")
    card(page, 2).get_by_label("times").fill("many")
    press(page, 2, "Approve as edited")
    expect(card(page, 2).get_by_text("must be", exact=False).first).to_be_visible()
    card(page, 2).get_by_label("times").fill("3")
    card(page, 2).get_by_label("text").fill("beta")
    page.shot("edit")
    press(page, 2, "Approve as edited")
    page.wait_text(3, "after [['beta', 3]] completed")
    assert "noted beta times 3" in page.text(3)
    assert "chang" in page.text(3)  # the model is told that a person changed the arguments
    texts = assert_one_record(page.save(), 2)
    assert "beta" in texts["text/markdown"]


def test_approve_for_this_session_asks_once(open_lab: Open) -> None:
    replies = (
        calling("note", text="one"),
        calling("note", text="two"),
        "'Twice.'",
        calling("note", text="three"),
        "'3'",
    )
    page = open_lab([LOAD, setup(*replies), ASK, "%%kestrel\nAgain.", AFTER])
    page.run_all()
    wait_card(page, 2)
    press(page, 2, "Approve for this session")
    page.wait_text(4, "after [['one', 1], ['two', 1], ['three', 1]] completed")
    assert_one_record(page.save(), 2)


def test_stop_ends_the_run_and_not_run_all(open_lab: Open) -> None:
    page = open_lab([LOAD, setup(calling("wait", seconds=60), "'x'"), "%%kestrel\nWait.", "print('after', _.status)"])
    page.run_all()
    page.button(2, "Stop").wait_for(timeout=30_000)
    page.output(2).get_by_text("wait", exact=True).first.wait_for()
    page.shot("run")
    pressed = press(page, 2, "Stop")
    page.wait_text(3, "after cancelled")
    assert time.monotonic() - pressed < SOON
    assert_one_record(page.save(), 2)


def test_interrupt_at_the_card_stops_run_all(open_lab: Open) -> None:
    page = open_lab([LOAD, setup(*NOTE_THEN_DONE), ASK, "print('must not run')", "print('later', notes)"])
    page.run_all()
    wait_card(page, 2)
    pressed = time.monotonic()
    page.interrupt()
    page.wait_text(2, "interrupted")
    assert time.monotonic() - pressed < SOON
    expect(card(page, 2)).to_have_count(0)
    page.run(4)
    page.wait_text(4, "later []")
    assert page.text(3) == ""
    assert_one_record(page.save(), 2)


def test_a_failed_run_stops_run_all_and_keeps_its_record(open_lab: Open) -> None:
    page = open_lab(
        [LOAD, setup("Reply('partly', error=RuntimeError('boom'), error_after=1)"), ASK, "print('must not run')"]
    )
    page.run_all()
    page.wait_text(2, "boom")
    page.wait_ready()
    page.page.wait_for_timeout(300)
    assert page.text(3) == ""
    saved = page.save()
    assert_one_record(saved, 2)
    assert [output["output_type"] for output in saved["cells"][2]["outputs"]] == ["display_data", "error"]


def test_enter_and_escape_on_a_new_card_do_nothing(open_lab: Open) -> None:
    page = open_lab([LOAD, setup(*NOTE_THEN_DONE), ASK, AFTER])
    page.run_all()
    card(page, 2).wait_for(timeout=30_000)
    for key in ("Enter", "Escape", "Space", "Enter"):
        page.page.keyboard.press(key)
    page.page.wait_for_timeout(1000)
    assert card(page, 2).is_visible()
    assert page.prompt(2) == "*"
    press(page, 2, "Approve")
    page.wait_text(3, "after [['alpha', 1]]")


def test_two_calls_each_with_its_own_card(open_lab: Open) -> None:
    both = "Reply(tool_calls=[('note', {'text': 'one'}), ('note', {'text': 'two'})])"
    page = open_lab([LOAD, setup(both, "'Both.'"), ASK, AFTER])
    page.run_all()
    wait_card(page, 2)
    assert "one" in card(page, 2).first.inner_text()
    press(page, 2, "Approve")
    page.output(2).locator(".kestrel-card", has_text="two").wait_for()
    press(page, 2, "Decline…")
    press(page, 2, "Decline this call")
    page.wait_text(3, "after [['one', 1]] completed")


def test_the_saved_record_needs_no_page_and_reopens(open_lab: Open, lab: Server, tmp_path: Path) -> None:
    page = open_lab([LOAD, setup(*NOTE_THEN_DONE), ASK, AFTER], "reopened.ipynb")
    page.run_all()
    wait_card(page, 2)
    press(page, 2, "Approve")
    page.wait_text(3, "after")
    page.save()
    lab.end_kernels()
    again = open_lab(None, "reopened.ipynb")
    again.wait_text(2, "All done.")
    assert "noted alpha times 1" in again.text(2)
    file = json.loads((lab.root / "reopened.ipynb").read_text(encoding="utf-8"))
    assert "<script" not in json.dumps(file)
