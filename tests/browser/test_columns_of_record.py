"""The record stands where the live view stood."""

from lab_page import Open
from sample_cells import ASK, LOAD, NOTE_THEN_DONE, setup
from test_approval_cards import press, wait_card

LEFT = """() => [...document.querySelectorAll('.jp-OutputArea-output .kestrel-row .kestrel-word')]
  .map((el) => Math.round(el.getBoundingClientRect().left))"""
OVER = """() => [...document.querySelectorAll('.jp-OutputArea-output')]
  .map((el) => el.scrollWidth - el.clientWidth).filter((over) => over > 0)"""


def test_state_words_keep_their_column(open_lab: Open) -> None:
    page = open_lab([LOAD, setup(*NOTE_THEN_DONE), ASK])
    page.run_all()
    wait_card(page, 2)
    live = page.page.evaluate(LEFT)
    press(page, 2, "Approve")
    page.wait_text(2, "All done.")
    page.wait_ready()
    page.page.locator(".jp-OutputArea-output .kestrel-record").wait_for()
    record = page.page.evaluate(LEFT)
    assert len(live) == len(record) == 1
    assert abs(live[0] - record[0]) <= 1, (live, record)
    assert page.page.evaluate(OVER) == []
