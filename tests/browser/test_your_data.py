"""The notebook on one's own data as a person runs it: Run All, a card for each piece of code, a figure, a frame."""

import re
from collections.abc import Iterator

import pytest
from lab_page import NotebookPage, Open
from lab_server import Server, copied_notebooks

SCHEMA, COMPUTED, MEANS, DRAWN, NO_DATA, LAST = 3, 6, 8, 10, 12, 13  # cells, Markdown cells included


@pytest.fixture
def your_data(open_lab: Open, lab: Server) -> Iterator[NotebookPage]:
    """The notebook as it is in the repository, in a folder of its own, without its outputs."""
    with copied_notebooks(lab, "your_data"):
        page = open_lab(None, "your_data/01_your_data.ipynb")
        page.command("editmenu:clear-all")
        yield page


def approve(page: NotebookPage, index: int, code: str) -> None:
    """Wait for the card of a cell, which shows ``code``, and approve it by a click."""
    card = page.show(index, ".kestrel-card")
    assert page.prompt(index) == "*"
    assert code in re.sub(r"\s+", " ", card.inner_text())
    page.button(index, "Approve").click()


def test_run_all_and_approve_each_piece_of_code(your_data: NotebookPage) -> None:
    page = your_data
    page.run_all()
    page.show(COMPUTED, ".kestrel-card")
    page.tidy()
    page.output(COMPUTED).locator(".kestrel-card").scroll_into_view_if_needed()
    page.page.wait_for_timeout(500)
    page.shot("data-card")
    approve(page, COMPUTED, 'penguins.groupby(["species", "sex"]')
    approve(page, DRAWN, "plt.scatter(")
    page.show(DRAWN, ".kestrel-figure img")
    approve(page, NO_DATA, "value_counts(dropna=False)")
    page.wait_done(MEANS, LAST, timeout=60)
    page.show(DRAWN, "img")
    assert page.output(DRAWN).locator("img").count() == 1
    page.output(DRAWN).locator("img").scroll_into_view_if_needed()
    page.page.wait_for_timeout(500)
    page.shot("data-figure")
    page.show(SCHEMA, ".kestrel-view")
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
