"""What happens to an open question when pages come and go, the kernel restarts, or the cell is run again."""

import re
from collections.abc import Iterator

import pytest
from lab_page import NotebookPage, Open
from lab_server import Server
from playwright.sync_api import Browser, expect
from sample_cells import AFTER, ASK, LOAD, NOTE_THEN_DONE, setup
from test_approval_cards import assert_one_record, card, press, wait_card

CELLS = [LOAD, setup(*NOTE_THEN_DONE), ASK, AFTER]
# The box with open questions of views that are nowhere on the page.
FLOATING = "[aria-label='Questions of a run that is not on this page']"


@pytest.fixture
def second_page(browser: Browser, lab: Server, open_lab: Open) -> Iterator[Open]:
    """``second_page(first)``: the same notebook in another browser tab."""
    pages: list[NotebookPage] = []

    def open_again(first: NotebookPage) -> NotebookPage:
        page = NotebookPage(lab, first.name, first.page.context.new_page(), first.shots)
        pages.append(page)
        page.open(wait=False)
        page.wait_cells()
        return page

    yield open_again
    for page in pages:
        page.page.close()


def asked(open_lab: Open) -> NotebookPage:
    """A notebook whose cell 1 waits for an answer."""
    page = open_lab(CELLS)
    page.run_all()
    wait_card(page, 2)
    return page


def test_reload_while_the_question_is_open(open_lab: Open) -> None:
    page = asked(open_lab)
    page.save()
    page.reload()
    wait_card(page, 2)
    assert "I will use note." in page.text(2)
    press(page, 2, "Approve")
    page.wait_text(2, "All done.")
    assert "noted alpha times 1" in page.text(2)
    page.wait_ready()
    page.run(3)
    page.wait_text(3, "after [['alpha', 1]] completed")


def test_a_second_tab_shows_the_card_and_answers_for_both(open_lab: Open, second_page: Open) -> None:
    page = asked(open_lab)
    page.save()
    other = second_page(page)
    wait_card(other, 2)
    press(other, 2, "Approve")
    page.wait_text(3, "after [['alpha', 1]] completed")
    page.wait_text(2, "All done.")
    other.wait_text(2, "All done.")
    expect(card(other, 2)).to_have_count(0)
    expect(card(page, 2)).to_have_count(0)


def test_the_tab_closed_and_opened_again_after_a_save(open_lab: Open, second_page: Open) -> None:
    page = asked(open_lab)
    page.save()
    keep = page.page.context.new_page()
    page.page.close()
    page.page = keep
    other = second_page(page)
    wait_card(other, 2)
    press(other, 2, "Approve")
    other.wait_text(2, "All done.")


def test_the_tab_closed_and_opened_again_without_a_save(open_lab: Open, second_page: Open) -> None:
    """No output is left in the page, so the question floats on it."""
    page = open_lab(CELLS)
    page.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.save()")
    page.run_all()
    wait_card(page, 2)
    keep = page.page.context.new_page()
    page.page.close(run_before_unload=False)
    page.page = keep
    other = second_page(page)
    floating = other.page.locator(FLOATING)
    floating.get_by_role("button", name="Approve", exact=True).wait_for(timeout=30_000)
    other.page.wait_for_timeout(700)
    floating.get_by_role("button", name="Approve", exact=True).click()
    expect(other.page.locator(FLOATING).locator(".kestrel-card")).to_have_count(0)
    other.wait_ready()
    other.run(3)
    other.wait_text(3, "after [['alpha', 1]] completed")


def test_running_the_waiting_cell_again(open_lab: Open) -> None:
    """JupyterLab clears the output at once and queues the second run: the card must not be lost with it."""
    page = open_lab([LOAD, setup(*NOTE_THEN_DONE, *NOTE_THEN_DONE), ASK, AFTER])
    page.run(0)
    page.run(1)
    page.wait_done(0, 1)
    page.run(2)
    wait_card(page, 2)
    page.run(2)
    floating = page.page.locator(FLOATING).get_by_role("button", name="Approve", exact=True)
    floating.wait_for()
    page.page.wait_for_timeout(700)
    page.shot("floating")
    floating.click()
    wait_card(page, 2)
    expect(page.page.locator(FLOATING).locator(".kestrel-card")).to_have_count(0)
    press(page, 2, "Approve")
    page.wait_text(2, "All done.")
    page.run(3)
    page.wait_text(3, "after [['alpha', 1], ['alpha', 1]] completed")
    assert_one_record(page.save(), 2)


def test_a_restart_while_the_question_is_open(open_lab: Open) -> None:
    page = asked(open_lab)
    page.restart()
    page.button(2, "Approve").click(force=True)  # by now the card may know that nobody answers
    page.page.wait_for_timeout(3500)
    assert "run the cell again" in page.text(2)
    page.run_all()
    page.page.wait_for_timeout(500)
    wait_card(page, 2)
    press(page, 2, "Approve")
    page.wait_text(3, "after [['alpha', 1]] completed")
    assert_one_record(page.save(), 2)


def test_two_pages_open_before_the_run(open_lab: Open, second_page: Open) -> None:
    """The second page gets no output from JupyterLab; the first works as ever, and its file is right."""
    page = open_lab(CELLS)
    second_page(page)
    page.page.bring_to_front()
    page.run_all()
    wait_card(page, 2)
    press(page, 2, "Approve")
    page.wait_text(3, "after [['alpha', 1]] completed")
    page.wait_text(2, "All done.")
    expect(card(page, 2)).to_have_count(0)


def test_the_notebook_closed_and_opened_again_inside_jupyterlab(open_lab: Open) -> None:
    page = asked(open_lab)
    page.save()
    path = page.name
    page.page.evaluate("() => { window.jupyterapp.shell.currentWidget.dispose(); }")
    expect(page.page.locator(".jp-Notebook")).to_have_count(0)
    page.page.evaluate("path => { window.jupyterapp.commands.execute('docmanager:open', { path }); }", path)
    page.wait_cells()
    wait_card(page, 2)
    press(page, 2, "Approve")
    page.wait_text(2, "All done.")


def question(page: NotebookPage) -> str:
    """The id of the question on the card."""
    found = re.search(r"appr_\w+", card(page, 2).inner_text())
    assert found is not None
    return found.group()


def test_restart_and_run_all_while_the_question_is_open(open_lab: Open) -> None:
    page = asked(open_lab)
    old = question(page)
    page.command("notebook:restart-run-all")
    page.page.locator(".jp-Dialog .jp-mod-accept").click()
    page.page.wait_for_function(
        "old => { const c = document.querySelector('.kestrel-card'); return c && !c.innerText.includes(old); }", arg=old
    )
    wait_card(page, 2)
    press(page, 2, "Approve")
    page.wait_text(3, "after [['alpha', 1]] completed")
    assert_one_record(page.save(), 2)
