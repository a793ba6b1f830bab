"""The notebook on one's own data as a person runs it: Run All, a card for each piece of code, a figure, a frame."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_page import NotebookPage, Open, Server
from playwright.sync_api import Locator

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SCHEMA, COMPUTED, MEANS, DRAWN, NO_DATA, LAST = 3, 6, 8, 10, 12, 13  # cells, Markdown cells included


@pytest.fixture
def your_data(open_lab: Open, lab: Server) -> Iterator[NotebookPage]:
    """The notebook as it is in the repository, in a folder of its own, without its outputs."""
    folder = lab.root / "your_data"
    shutil.copytree(NOTEBOOKS, folder, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
    page = open_lab(None, "your_data/01_your_data.ipynb")
    page.command("editmenu:clear-all")
    yield page
    shutil.rmtree(folder)


def tidy(page: NotebookPage) -> None:
    """Put away what is not the notebook, so that a picture shows the run."""
    page.page.add_style_tag(content=".jp-toast-container, .Toastify { display: none }")
    page.page.evaluate("window.jupyterapp.shell.collapseLeft()")
    page.page.wait_for_timeout(300)


def show(page: NotebookPage, index: int, what: str) -> Locator:
    """Bring a cell into sight, as only those are drawn, and wait until its output has ``what``."""
    found = page.output(index).locator(what).first
    for _ in range(30):
        page.page.evaluate("i => window.jupyterapp.shell.currentWidget.content.scrollToItem(i, 'start')", index)
        page.page.wait_for_timeout(500)
        if found.is_visible():
            return found
        page.page.wait_for_timeout(1_500)
    raise AssertionError(f"cell {index} has no {what}: {page.text(index)}")


def approve(page: NotebookPage, index: int, code: str) -> None:
    """Wait for the card of a cell, which shows ``code``, and approve it by a click."""
    card = show(page, index, ".kestrel-card")
    assert page.prompt(index) == "*"
    assert code in re.sub(r"\s+", " ", card.inner_text())
    page.button(index, "Approve").click()


def test_run_all_and_approve_each_piece_of_code(your_data: NotebookPage) -> None:
    page = your_data
    page.run_all()
    show(page, COMPUTED, ".kestrel-card")
    tidy(page)
    page.output(COMPUTED).locator(".kestrel-card").scroll_into_view_if_needed()
    page.page.wait_for_timeout(500)
    page.shot("data-card")
    approve(page, COMPUTED, 'penguins.groupby(["species", "sex"]')
    approve(page, DRAWN, "plt.scatter(")
    show(page, DRAWN, ".kestrel-figure img")
    approve(page, NO_DATA, "value_counts(dropna=False)")
    page.wait_done(MEANS, LAST, timeout=60)
    show(page, DRAWN, "img")
    assert page.output(DRAWN).locator("img").count() == 1
    page.output(DRAWN).locator("img").scroll_into_view_if_needed()
    page.page.wait_for_timeout(500)
    page.shot("data-figure")
    show(page, SCHEMA, ".kestrel-view")
    assert "What was sent" in page.text(SCHEMA)
    page.shot("data-sent")
    saved = page.save()
    for index in (SCHEMA, COMPUTED, DRAWN, NO_DATA):
        (output,) = saved["cells"][index]["outputs"]
        assert output["output_type"] == "display_data"
        assert set(output["data"]) == {"text/html", "text/markdown", "text/plain"}
    means = "".join(saved["cells"][MEANS]["outputs"][0]["data"]["text/plain"])
    assert re.search(r"Gentoo +4680\.0 +5485\.0", means)
    html = "".join(saved["cells"][DRAWN]["outputs"][0]["data"]["text/html"])
    assert html.count("data:image/png;base64,") == 1
    assert "widgets" not in saved["metadata"]
    assert page.errors == []
