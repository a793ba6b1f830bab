"""A cell with a typo fails, ``%kestrel fix`` shows the difference on a card, Approve puts the corrected cell below."""

from lab_page import NotebookPage, Open
from playwright.sync_api import Locator

LOAD = "%load_ext kestrel_nb"
TYPO = "prices = [2.5, 4.0, 3.5]\ntotal = sum(pricse)\nprint('total', total)"
FIXED = TYPO.replace("pricse", "prices")
FIX = "%kestrel fix"


def sources(page: NotebookPage) -> list[str]:
    """The texts of the cells, as saved."""
    return ["".join(cell["source"]) for cell in page.save()["cells"]]


def fail_and_fix(page: NotebookPage) -> Locator:
    """Run the cell that fails and the one that asks for a fix; its card, once the buttons act."""
    page.run(0)
    page.wait_done(0)
    page.run(1)
    page.wait_text(1, "NameError")
    page.wait_ready()
    card = page.output(2).locator(".kestrel-card")
    for _ in range(3):  # a front end drops what it is told to run in the moment after an error, as part of Run All
        page.page.wait_for_timeout(500)
        if not page.prompt(2):
            page.run(2)
        page.page.wait_for_timeout(500)
    card.wait_for(timeout=30_000)
    page.tidy()
    page.page.wait_for_timeout(700)
    return card


def test_a_failed_cell_is_fixed_in_a_new_one(open_lab: Open) -> None:
    page = open_lab([LOAD, TYPO, FIX, "print('end')"])
    card = fail_and_fix(page)
    assert "insert_cell" in card.inner_text()
    assert card.locator(".kestrel-del").inner_text().strip().endswith("total = sum(pricse)")
    assert card.locator(".kestrel-add").inner_text().strip().endswith("total = sum(prices)")
    page.shot("fix-card")
    page.button(2, "Approve").click()
    page.wait_done(2)
    page.page.wait_for_function("() => window.jupyterapp.shell.currentWidget.content.widgets.length === 5")
    assert sources(page) == [LOAD, TYPO, FIX, FIXED, "print('end')"]
    assert page.prompt(3) == ""  # inserted, not run
    page.run(3)
    page.wait_text(3, "total 10.0")
    page.page.wait_for_timeout(300)
    page.shot("fix-record")
    (output,) = page.save()["cells"][2]["outputs"]
    assert set(output["data"]) == {"text/html", "text/markdown", "text/plain"}
    assert "inserted below" in "".join(output["data"]["text/plain"])
    assert page.errors == []


def test_a_declined_fix_leaves_the_notebook_and_keeps_the_difference(open_lab: Open) -> None:
    page = open_lab([LOAD, TYPO, FIX])
    fail_and_fix(page)
    page.button(2, "Decline…").click()
    page.button(2, "Decline this call").click()
    page.wait_done(2)
    assert sources(page) == [LOAD, TYPO, FIX]
    text = "".join(page.save()["cells"][2]["outputs"][0]["data"]["text/plain"])
    assert "-total = sum(pricse)" in text
    assert "+total = sum(prices)" in text
    assert "Declined" in text
