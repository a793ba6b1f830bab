"""Stop while code of a tool has the kernel's main thread: nothing hears it, and the view says what would help."""

import pytest
from lab_page import NotebookPage, Open
from playwright.sync_api import expect
from sample_cells import ASK, LOAD
from test_approval_cards import assert_one_record, press, wait_card

BLOCKING = {
    "run_python": ("run_python", {"code": "import time\ntime.sleep(60)"}),
    "a tool of one's own": ("hold", {}),
}
SETUP = """import time
from kestrel_nb import Kestrel, tool
from kestrel_nb.notebook.kernel_tools import NotebookTools
from kestrel_nb.testing import Reply, ScriptedModel

@tool(permission="ask")
async def hold() -> str:
    "Hold the thread for a minute."
    time.sleep(60)
    return "held"

app = Kestrel(model=ScriptedModel([Reply("", tool_calls=[{call!r}]), "Done."]), tools=[hold], plugins=[NotebookTools()])
%kestrel use app
"""
WORDS = "code is running that can't be stopped from here"


def begin(open_lab: Open, what: str) -> NotebookPage:
    page = open_lab([LOAD, SETUP.replace("{call!r}", repr(BLOCKING[what])), ASK])
    page.run_all()
    wait_card(page, 2)
    return page


@pytest.mark.parametrize("what", BLOCKING)
def test_stop_that_nothing_hears_names_interrupt(open_lab: Open, what: str) -> None:
    page = begin(open_lab, what)
    press(page, 2, "Approve")
    page.page.wait_for_timeout(1000)
    assert WORDS not in page.text(2)
    press(page, 2, "Stop")
    tail = page.output(2).locator(".kestrel-tail")
    expect(tail).to_contain_text(WORDS, timeout=10_000)
    expect(tail).to_contain_text("use Interrupt")
    page.shot("unheard-stop")
    page.interrupt()
    page.output(2).locator(".kestrel-record").wait_for(timeout=30_000)
    assert WORDS not in page.text(2)
    texts = assert_one_record(page.save(), 2)
    assert all(WORDS not in text for text in texts.values())
    assert page.errors == []


def test_stop_that_is_heard_says_nothing_of_it(open_lab: Open) -> None:
    page = begin(open_lab, "run_python")
    press(page, 2, "Stop")
    page.output(2).locator(".kestrel-record").wait_for(timeout=30_000)
    assert WORDS not in page.text(2)
