"""The quickstart as a newcomer runs it: Run All, a card in the running cell, a click, and a record that stays."""

from collections.abc import Iterator

import pytest
from lab_page import NotebookPage, Open
from lab_server import Server, copied_notebooks

FIRST, FRAME, ASKING, STATUS, OWN, TOOLS = 3, 5, 7, 8, 11, 14  # cells of the notebook, Markdown cells included


@pytest.fixture
def quickstart(open_lab: Open, lab: Server) -> Iterator[NotebookPage]:
    """The notebook as it is in the repository, in a folder of its own."""
    with copied_notebooks(lab, "quickstart"):
        yield open_lab(None, "quickstart/00_quickstart.ipynb")


def test_run_all_and_approve(quickstart: NotebookPage) -> None:
    page = quickstart
    page.run_all()
    card = page.output(ASKING).locator(".kestrel-card")
    card.wait_for(timeout=60_000)
    page.tidy()
    assert page.prompt(ASKING) == "*"
    assert page.prompt(STATUS) == "*"
    assert "python3 shop/report.py" in card.inner_text()
    card.scroll_into_view_if_needed()
    page.page.wait_for_timeout(700)
    page.shot("card")
    page.button(ASKING, "Approve").click()
    page.wait_done(STATUS, TOOLS, timeout=60)
    assert "12 orders" in page.text(ASKING)
    assert "'completed'" in page.text(STATUS)
    assert "shop/orders.py" in page.text(FRAME)
    assert "coffee" in page.text(OWN)
    page.output(FIRST).scroll_into_view_if_needed()
    page.page.wait_for_timeout(300)
    page.shot("record")
    saved = page.save()
    for index in (FIRST, ASKING, OWN):
        (output,) = saved["cells"][index]["outputs"]
        assert output["output_type"] == "display_data"
        assert set(output["data"]) == {"text/html", "text/markdown", "text/plain"}
    assert "widgets" not in saved["metadata"]
    assert page.errors == []
