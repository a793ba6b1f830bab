"""A question is heard of although nobody looks: far below the view, behind another tab, in a collapsed output."""

from collections.abc import Callable

import pytest
from lab_page import NotebookPage, Open
from playwright.sync_api import expect
from sample_cells import AFTER, ASK, LOAD, NOTE_THEN_DONE, setup
from test_approval_cards import card, press

TRACKER = "@jupyterlab/notebook-extension:tracker"
TALL = "from IPython.display import HTML; HTML('<div style=\"height: 400px\">tall</div>')"
CELLS = [LOAD, setup(*NOTE_THEN_DONE), *[TALL] * 28, ASK, AFTER, *[TALL] * 10]
ASKING = CELLS.index(ASK)


@pytest.fixture
def windowing(open_lab: Open) -> Callable[[str], NotebookPage]:
    """``windowing(mode)``: a long notebook in a JupyterLab that draws cells in this way."""

    def open_with(mode: str) -> NotebookPage:
        page = open_lab(CELLS)
        page.page.evaluate(
            "([id, raw]) => window.jupyterapp.serviceManager.settings.save(id, raw)",
            [TRACKER, f'{{"windowingMode": "{mode}"}}'],
        )
        page.reload()
        page.wait_ready()
        return page

    return open_with


@pytest.mark.parametrize("mode", ["contentVisibility", "full", "defer", "none"])
def test_far_below_the_view(windowing: Callable[[str], NotebookPage], mode: str) -> None:
    page = windowing(mode)
    page.run_all()
    # Without "ready" from the view an input box would stand there after five seconds.
    page.page.wait_for_timeout(7_000)
    expect(page.page.locator(".jp-Stdin-input")).to_have_count(0)
    page.scroll_to(ASKING, "center")
    waiting = page.page.locator(".jp-Notebook .kestrel-card")
    waiting.wait_for(timeout=30_000)
    page.page.wait_for_timeout(700)
    waiting.get_by_role("button", name="Approve", exact=True).click()
    page.page.get_by_text("after [['alpha', 1]] completed").first.wait_for(timeout=30_000)


def test_behind_another_tab(open_lab: Open) -> None:
    page = open_lab([LOAD, setup(*NOTE_THEN_DONE), ASK, AFTER])
    page.run_all()
    page.command("launcher:create")
    page.page.wait_for_timeout(6_000)
    expect(page.page.locator(".jp-Stdin-input")).to_have_count(0)
    page.page.evaluate("() => { const s = window.jupyterapp.shell; s.activateById([...s.widgets('main')][0].id); }")
    card(page, 2).wait_for(timeout=30_000)
    page.page.wait_for_timeout(700)
    press(page, 2, "Approve")
    page.wait_text(3, "after [['alpha', 1]] completed")


def test_in_a_collapsed_output(open_lab: Open) -> None:
    page = open_lab([LOAD, setup(*NOTE_THEN_DONE), ASK, AFTER])
    page.page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.widgets[2].outputHidden = true; }")
    page.run_all()
    page.page.wait_for_timeout(6_000)
    expect(page.page.locator(".jp-Stdin-input")).to_have_count(0)
    page.page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.widgets[2].outputHidden = false; }")
    card(page, 2).wait_for(timeout=30_000)
    page.page.wait_for_timeout(700)
    press(page, 2, "Approve")
    page.wait_text(3, "after [['alpha', 1]] completed")
