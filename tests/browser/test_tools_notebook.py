"""The notebook of the tools as a person runs it: Run All, a diff to approve, tables of what was found and queried."""

import re
from collections.abc import Iterator

import pytest
from lab_page import NotebookPage, Open
from lab_server import Server, copied_notebooks

TOOLS, SEARCH, EDIT, QUERY, FRAME, LAST = 4, 6, 10, 12, 13, 27  # cells, Markdown cells included


@pytest.fixture(params=["light", "dark"])
def tools_notebook(open_lab: Open, lab: Server, request: pytest.FixtureRequest) -> Iterator[NotebookPage]:
    """The notebook as it is in the repository, in a folder of its own, without its outputs."""
    with copied_notebooks(lab, f"tools_{request.param}") as folder:
        page = open_lab(None, f"{folder.name}/02_tools.ipynb", dark=request.param == "dark")
        page.use_theme(request.param)
        page.page.evaluate("window.jupyterapp.commands.execute('editmenu:clear-all')")
        yield page


def test_run_all_and_approve_the_change(tools_notebook: NotebookPage, request: pytest.FixtureRequest) -> None:
    page, look = tools_notebook, request.node.callspec.id
    page.run_all()
    card = page.show(EDIT, ".kestrel-card")
    page.tidy()
    assert page.prompt(EDIT) == "*"
    text = re.sub(r"\s+", " ", card.inner_text())
    assert 'orders worth {total:.2f}")' in text
    page.shot(f"tools-card-{look}")
    page.button(EDIT, "Approve").click()
    page.wait_done(QUERY, FRAME, timeout=60)
    page.show(LAST, "table")
    for index, name in ((TOOLS, "list"), (SEARCH, "search"), (EDIT, "edit"), (QUERY, "query"), (LAST, "last")):
        page.show(index, ".jp-OutputArea-output")
        page.shot(f"tools-{name}-{look}")
    page.show(QUERY, "table")
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
