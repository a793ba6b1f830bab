"""The notebook of the tools as a person runs it: Run All, a diff to approve, tables of what was found and queried."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_page import NotebookPage, Open, Server
from playwright.sync_api import Locator

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
TOOLS, SEARCH, EDIT, QUERY, FRAME, LAST = 4, 6, 10, 12, 13, 27  # cells, Markdown cells included


@pytest.fixture(params=["light", "dark"])
def tools_notebook(open_lab: Open, lab: Server, request: pytest.FixtureRequest) -> Iterator[NotebookPage]:
    """The notebook as it is in the repository, in a folder of its own, without its outputs."""
    folder = lab.root / f"tools_{request.param}"
    shutil.copytree(NOTEBOOKS, folder, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
    page = open_lab(None, f"{folder.name}/02_tools.ipynb", dark=request.param == "dark")
    theme = f"JupyterLab {request.param.title()}"
    page.page.evaluate("theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme)
    page.page.evaluate("window.jupyterapp.commands.execute('editmenu:clear-all')")
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
    ran = [page.prompt(cell) for cell in (1, 3, 4, 6, 7, 9, 10)]
    raise AssertionError(f"cell {index} has no {what}: {page.text(index)}; prompts {ran}, {page.errors}")


def test_run_all_and_approve_the_change(tools_notebook: NotebookPage, request: pytest.FixtureRequest) -> None:
    page, look = tools_notebook, request.node.callspec.id
    page.run_all()
    card = show(page, EDIT, ".kestrel-card")
    tidy(page)
    assert page.prompt(EDIT) == "*"
    text = re.sub(r"\s+", " ", card.inner_text())
    assert 'orders worth {total:.2f}")' in text
    page.shot(f"tools-card-{look}")
    page.button(EDIT, "Approve").click()
    page.wait_done(QUERY, FRAME, timeout=60)
    show(page, LAST, "table")
    for index, name in ((TOOLS, "list"), (SEARCH, "search"), (EDIT, "edit"), (QUERY, "query"), (LAST, "last")):
        show(page, index, ".jp-OutputArea-output")
        page.shot(f"tools-{name}-{look}")
    show(page, QUERY, "table")
    assert re.search(r"Gentoo\s+124\s+5076", page.text(QUERY))
    saved = page.save()
    for index in (SEARCH, EDIT, QUERY):
        (output,) = saved["cells"][index]["outputs"]
        assert set(output["data"]) == {"text/html", "text/markdown", "text/plain"}
    shown = "".join(saved["cells"][EDIT]["outputs"][0]["data"]["text/plain"])
    assert '+    print(f"{len(orders)} orders worth {total:.2f}")' in shown
    assert "path            line" not in shown  # the difference says it; a table would say it again
    assert "file-read" in "".join(saved["cells"][LAST]["outputs"][0]["data"]["text/plain"])
    assert page.errors == []
