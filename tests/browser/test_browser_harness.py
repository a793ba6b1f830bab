"""The harness itself, on plain notebooks in both front ends: run, click while a cell awaits, interrupt, save."""

import pytest
from lab_page import Open
from lab_server import Server

BUTTON = """import asyncio, ipywidgets
from IPython.display import display
answer = asyncio.get_running_loop().create_future()
button = ipywidgets.Button(description="Approve")
button.on_click(lambda _: answer.set_result("clicked"))
async def tick():
    while True: await asyncio.sleep(0.1)
ticker = asyncio.ensure_future(tick())
display(button)
print("result:", await answer)"""


@pytest.mark.parametrize("front", ["lab", "notebook7"])
def test_a_click_while_a_cell_awaits(front: str, open_pages: Open, request: pytest.FixtureRequest) -> None:
    server: Server = request.getfixturevalue(front)
    page = open_pages(server, ["# md ## Title", "print('hello')", BUTTON, "6 * 7"])
    page.run_all()
    page.wait_text(1, "hello")
    page.button(2, "Approve").wait_for()
    assert page.prompt(2) == "*"
    page.button(2, "Approve").click()
    page.wait_text(2, "result: clicked")
    page.wait_done(1, 2, 3)
    assert "42" in page.text(3)
    saved = page.save()
    assert [cell["cell_type"] for cell in saved["cells"]] == ["markdown", "code", "code", "code"]
    assert saved["cells"][1]["outputs"][0]["text"] == ["hello\n"]
    assert page.shot("plain").stat().st_size > 10_000


def test_interrupt_restart_and_running_one_cell(open_lab: Open) -> None:
    page = open_lab(["x = 5", BUTTON, "print('x' in globals())"])
    page.run(0)
    page.wait_done(0)
    page.run(1)
    page.button(1, "Approve").wait_for()
    page.interrupt()
    page.wait_text(1, "CancelledError", timeout=5)
    page.run(2)
    page.wait_text(2, "True")
    page.restart()
    page.run(2)
    page.wait_text(2, "False")
