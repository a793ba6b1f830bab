"""A notebook recorded in JupyterLab with buttons pressed, then played: fresh, twice in one kernel, without a person."""

import json
from typing import Any

from lab_page import NotebookPage, Open
from sample_cells import LOAD, calling
from test_approval_cards import card, press, wait_card

TOOL = """import time
from kestrel_nb import tool

@tool(permission="ask")
def note(text: str, times: int = 1) -> str:
    \"\"\"Write a note.\"\"\"
    with open("noted.txt", "a") as file:
        file.write(text)
    return f"noted {text} times {times} at {time.time()}"
"""
MODEL = f"""from kestrel_nb.testing import Reply, ScriptedModel
far = ScriptedModel(
    [{calling("note", text="a")}, "'One' and more.", {calling("note", text="b")}, "Two.",
     {calling("note", text="c")}, "Three.", {calling("note", text="d")}, "Four."],
    id="far:big", delta_chars=3,
)
%kestrel use far
"""
ASKS = [f"%%kestrel -t note\nNote {letter}." for letter in "abcd"]


def cells(word: str, model: str) -> list[str]:
    return [LOAD, TOOL, f"%kestrel {word} talk.jsonl", model, *ASKS, "print('the end')"]


def outputs(book: dict[str, Any]) -> list[Any]:
    return [cell["outputs"] for cell in book["cells"]][2:]


def run_all(page: NotebookPage) -> None:
    page.page.evaluate("window.jupyterapp.commands.execute('editmenu:clear-all')")
    page.run_all()
    page.wait_text(8, "the end", timeout=60)


def test_what_was_recorded_with_buttons_plays_again(open_lab: Open) -> None:
    page = open_lab(cells("record", MODEL), "recorded/talk.ipynb")
    folder = page.server.root / "recorded"
    page.run_all()
    wait_card(page, 4)
    press(page, 4, "Approve")
    wait_card(page, 5)
    press(page, 5, "Decline…")
    page.output(5).locator(".kestrel-card textarea, .kestrel-card input").first.fill("not this one")
    press(page, 5, "Decline this call")
    wait_card(page, 6)
    press(page, 6, "Edit…")
    card(page, 6).get_by_label("times").fill("3")
    press(page, 6, "Approve as edited")
    wait_card(page, 7)
    press(page, 7, "Approve for this session")
    page.wait_text(8, "the end")
    recorded = outputs(page.save())
    assert (folder / "noted.txt").read_text() == "acd"
    answers = [json.loads(line) for line in (folder / "talk.jsonl").read_text("utf-8").splitlines()]
    assert [entry["by"] for entry in answers if entry.get("kind") == "answer"] == ["button"] * 4

    again = open_lab(cells("replay", "%kestrel use far:big"), "recorded/again.ipynb")
    for _ in "12":  # in a fresh kernel, and once more in the same one
        run_all(again)
        assert [row[0]["data"] for row in outputs(again.save())[:6]] == [row[0]["data"] for row in recorded[:6]]
        assert again.page.locator(".kestrel-card").count() == 0
    assert (folder / "noted.txt").read_text() == "acd"
    assert again.errors == []
