"""Tab in real JupyterLab: what the list shows in our cells and lines, and what taking an offer writes."""

import pytest
from lab_page import NotebookPage, Open
from playwright.sync_api import Locator, expect

SETUP = "%load_ext kestrel_nb\nimport pandas as pd\ndf_sales = pd.DataFrame({'price': [1.5], 'city': ['Oslo']})"


@pytest.fixture
def page(open_lab: Open) -> NotebookPage:
    """A notebook whose extension is loaded, and empty cells to type in."""
    opened = open_lab([SETUP, "", "", "", ""])
    opened.run(0)
    opened.wait_done(0, timeout=60)
    return opened


def tab_after(page: NotebookPage, index: int, text: str) -> None:
    """Type ``text`` into a cell and press Tab."""
    page.cell(index).locator(".cm-content").click()
    page.page.keyboard.type(text)
    page.page.keyboard.press("Tab")


def offer(page: NotebookPage, text: str) -> Locator:
    """The row of the list whose offer is ``text``, once it is there."""
    row = page.page.locator(".jp-Completer-item").filter(has=page.page.get_by_text(text, exact=True))
    expect(row).to_be_visible(timeout=20_000)
    page.page.wait_for_timeout(300)  # the list finds its place
    return row


def line(page: NotebookPage, index: int, number: int) -> Locator:
    """A line of the source of a cell."""
    return page.cell(index).locator(".cm-line").nth(number)


def test_tab_offers_words_models_and_variables(page: NotebookPage) -> None:
    tab_after(page, 1, "%kestrel ")
    models = offer(page, "models")
    expect(models.locator(".jp-Completer-typeExtended")).to_have_text("the models, or a provider's, as a dataframe")
    page.shot("words")
    models.click()
    expect(line(page, 1, 0)).to_have_text("%kestrel models")

    tab_after(page, 2, "%%kestrel -m ")
    offer(page, "demo")
    page.shot("models")
    page.page.keyboard.press("Enter")
    expect(line(page, 2, 0)).to_have_text("%%kestrel -m demo")

    page.page.keyboard.type("\nLook at {d")
    page.page.keyboard.press("Tab")
    frame = offer(page, "df_sales")
    page.shot("variable")
    frame.click()
    expect(line(page, 2, 1)).to_have_text("Look at {df_sales")
    page.page.keyboard.type(".pri")
    page.page.keyboard.press("Tab")
    offer(page, "price").click()
    expect(line(page, 2, 1)).to_have_text("Look at {df_sales.price")

    tab_after(page, 3, "%%kestrel --")
    steps = offer(page, "--max-steps")
    page.shot("options")
    steps.click()
    expect(line(page, 3, 0)).to_have_text("%%kestrel --max-steps")
    assert page.errors == []
