"""Figures of a tool in JupyterLab: live, in the record, in the file, after a reload. Code in an approval card."""

import json
from pathlib import Path

import pytest
from lab_page import NotebookPage, Open
from playwright.sync_api import Locator, expect
from sample_cells import ASK, LOAD
from test_approval_cards import assert_one_record, card, press, wait_card

PLOT = '''import asyncio, base64, io
import matplotlib; matplotlib.use("Agg")
from matplotlib.figure import Figure
from kestrel_nb import Kestrel, tool
from kestrel_nb.testing import Reply, ScriptedModel

def picture(clear=False):
    figure = Figure(figsize=(4.2, 1.5), dpi=200)
    axes = figure.subplots()
    axes.bar(range(1, 13), [5, 4, 3, 3, 5, 6, 12, 6, 5, 9, 6, 6])
    file = io.BytesIO()
    figure.savefig(file, transparent=clear)
    return {"type": "image/png", "data": base64.b64encode(file.getvalue()).decode(), "width": 420, "height": 150}

@tool(permission="ask")
def run_code(code: str) -> dict:
    """Run code.

    Args:
        code: the program
    """
    ran.append(code)
    return {"columns": ["month", "mm"], "rows": [["July", 12.5], ["August", 6.0]],
            "figures": [picture(), picture(clear=True)]}

@tool
async def wait() -> str:
    """Wait for an hour."""
    await asyncio.sleep(3600)
    return "waited"

ran = []
CODE = "# rain by month\\nfor month in range(12):\\n\\tprint(month)"
model = ScriptedModel([
    Reply("I draw it.", tool_calls=[("run_code", {"code": CODE})]),
    Reply("A moment.", tool_calls=[("wait", {})]),
    "July is the wettest month.",
])
app = Kestrel(model=model, tools=[run_code, wait])
%kestrel use app
'''
SHOWN = "print('after', len(_.frames['run_code'].attrs['figures']))"
DIRTY = "() => window.jupyterapp.shell.currentWidget.context.model.dirty"


def figures(page: NotebookPage, index: int) -> Locator:
    return page.output(index).locator(".kestrel-figure img")


def assert_drawn(page: NotebookPage, index: int) -> None:
    """Two figures stand open in their size, on a white ground, with the table below them."""
    expect(figures(page, index)).to_have_count(2)
    expect(figures(page, index).first).to_be_visible()
    for one in figures(page, index).all():
        one.scroll_into_view_if_needed()
        expect(one).to_have_js_property("complete", True)
        expect(one).to_have_js_property("naturalWidth", 840)
        assert one.evaluate("el => [el.width, el.height]") == [420, 150]
        assert one.evaluate("el => getComputedStyle(el).backgroundColor") == "rgb(255, 255, 255)"
    table = page.output(index).locator(".kestrel-table", has_text="July")
    assert table.bounding_box()["y"] > figures(page, index).last.bounding_box()["y"]  # type: ignore[index]
    expect(page.output(index).get_by_text("2 figures", exact=True)).to_be_visible()
    assert "base64" not in page.text(index)


def begin(page: NotebookPage) -> None:
    """Run up to the card of the code, in cell 2."""
    page.run(0)
    page.run(1)
    page.wait_done(1)
    page.run(2)
    wait_card(page, 2)


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_figures_live_and_in_the_record(open_lab: Open, theme: str) -> None:
    page = open_lab([LOAD, PLOT, ASK, SHOWN])
    page.use_theme(theme)
    page.page.locator(f"body[data-jp-theme-light={'true' if theme == 'Light' else 'false'}]").wait_for(state="attached")
    begin(page)
    page.shot(f"code-card-{theme}")
    press(page, 2, "Approve")
    expect(figures(page, 2)).to_have_count(2, timeout=30_000)
    expect(page.button(2, "Stop")).to_have_count(1)
    assert_drawn(page, 2)
    page.shot(f"figures-live-{theme}")
    press(page, 2, "Stop")
    page.output(2).locator(".kestrel-record").wait_for()
    assert_drawn(page, 2)
    page.shot(f"figures-record-{theme}")
    page.run(3)
    page.wait_text(3, "after 2")
    texts = assert_one_record(page.save(), 2)
    assert texts["text/html"].count("data:image/png;base64,") == 2
    for kind in ("text/plain", "text/markdown"):
        assert "Figure 2 of 2, 840 × 300 px" in texts[kind]
        assert "base64" not in texts[kind]
    page.reload()
    expect(figures(page, 2)).to_have_count(2, timeout=30_000)
    assert_drawn(page, 2)
    assert page.errors == []


def test_figures_of_a_live_view_outlast_a_reload(open_lab: Open) -> None:
    page = open_lab([LOAD, PLOT, ASK])
    begin(page)
    press(page, 2, "Approve")
    expect(figures(page, 2)).to_have_count(2, timeout=30_000)
    page.save()
    page.reload()
    expect(figures(page, 2)).to_have_count(2, timeout=30_000)
    assert_drawn(page, 2)
    press(page, 2, "Stop")
    page.output(2).locator(".kestrel-record").wait_for()
    assert_drawn(page, 2)


def test_of_the_shortcuts_only_save_acts_in_a_card(open_lab: Open) -> None:
    page = open_lab([LOAD, PLOT, ASK])
    begin(page)
    for focus in (card(page, 2), page.button(2, "Decline…"), page.output(2).locator("summary.kestrel-row")):
        focus.focus()
        for key in ("b", "x", "d", "d"):
            page.page.keyboard.press(key)
    page.page.wait_for_timeout(500)
    assert page.page.locator(".jp-Notebook .jp-Cell").count() == 3
    card(page, 2).focus()
    path = Path(page.server.root / page.name)
    for where in ("card", "field"):
        if where == "field":
            press(page, 2, "Edit…")
            page.output(2).locator("textarea").press("End")
            page.page.keyboard.type("x")
        page.page.evaluate("() => { window.jupyterapp.shell.currentWidget.context.model.dirty = true; }")
        page.page.keyboard.press("Control+s")
        page.page.wait_for_function(f"({DIRTY})() === false")
    saved = json.loads(path.read_text(encoding="utf-8"))
    words = "".join(saved["cells"][2]["outputs"][0]["data"]["text/plain"])
    assert words == "kestrel run: still going when this was saved; run the cell again, or look at %kestrel inbox"
    page.shot("code-edit")
    card(page, 2).focus()
    page.page.keyboard.press("b")
    page.page.wait_for_timeout(500)
    assert page.page.locator(".jp-Notebook .jp-Cell").count() == 3
    page.interrupt()
    page.wait_text(2, "nterrupted")
