"""What a card shows before a tool runs, for every tool that shows something, and what the record keeps of it."""

import pytest
from lab_page import NotebookPage, Open
from sample_cells import LOAD
from test_approval_cards import assert_one_record, press, wait_card

APP = """
import shutil
import sqlite3
from pathlib import Path
from kestrel_nb import BuiltInToolConfig, Kestrel, ModelInfo, PermissionRule
from kestrel_nb.plugins.builtin_tools.config import BUILT_IN_TOOLS
from kestrel_nb.testing import Reply, ScriptedModel

desk = Path("preview_desk")
shutil.rmtree(desk, ignore_errors=True)
desk.mkdir()
(desk / "notes.py").write_text("import math\\n\\ndef area(r):\\n    return 3.14 * r * r\\n\\nprint(area(2))\\n")
with sqlite3.connect(desk / "shop.sqlite") as connection:
    connection.execute("CREATE TABLE items (name, price)")
    connection.execute("INSERT INTO items VALUES ('tea', 3.5)")

class Seeing(ScriptedModel):
    info = ModelInfo(id="seeing", provider="scripted", supports_images=True)

def play(tool, **arguments):
    global app
    app = Kestrel(
        model=Seeing([Reply(tool_calls=[(tool, arguments)]), "That is all."]),
        workspace="preview_desk",
        rules=[PermissionRule(tool=tool, action="ask")],
        built_in_tools=BuiltInToolConfig(
            enabled=[*BUILT_IN_TOOLS], disabled=["web-search"], database_path="preview_desk/shop.sqlite"
        ),
    )
"""
CODE = "const prices = [3.5, 4.25];\nconst total = prices.reduce((sum, price) => sum + price, 0);\ntotal"
QUERY = "SELECT name, price\nFROM items\nWHERE price > ?"
# tool, arguments, approved or declined, what the card shows, what the record shows
CALLS = [
    (
        "edit_file",
        {"path": "notes.py", "old_string": "3.14", "new_string": "math.pi"},
        True,
        ["notes.py", "math.pi * r * r"],
        ["+    return math.pi * r * r"],
    ),
    (
        "write_file",
        {"path": "new.txt", "content": "first line\nsecond line\n"},
        True,
        ["new.txt", "second line"],
        ["+second line"],
    ),
    (
        "file-write",
        {"path": "notes.py", "content": "import math\n\nprint(math.pi)\n"},
        True,
        ["notes.py", "print(math.pi)"],
        ["+print(math.pi)"],
    ),
    (
        "shell",
        {"command": "for n in 1 2 3; do\n  echo line $n\ndone", "timeout_ms": 5000},
        True,
        ["echo line $n", "5 s", "Folder", "PATH"],
        ["echo line $n", "line 3"],
    ),
    (
        "shell-exec",
        {"command": "echo $GREETING", "env": {"GREETING": "hello there"}, "timeout": 2500},
        True,
        ["echo $GREETING", "2.5 s", "hello there", "GREETING"],
        ["echo $GREETING", "hello there"],
    ),
    (
        "http-fetch",
        {
            "url": "https://api.example.com/v1/orders?day=5",
            "method": "POST",
            "headers": {"Authorization": "Bearer abcdef", "Content-Type": "application/json"},
            "body": '{"item": "tea", "count": 2}',
        },
        False,
        ["POST https://api.example.com/v1/orders?day=5", "application/json", '"count": 2'],
        ["https://api.example.com/v1/orders?day=5"],
    ),
    (
        "web_fetch",
        {"url": "https://example.com/a page"},
        False,
        ["GET https://example.com/a%20page"],
        ["https://example.com/a page"],
    ),
    (
        "image-describe",
        {"url": "https://example.com/chart.png", "prompt": "What does the axis say?"},
        False,
        ["GET https://example.com/chart.png", "What does the axis say?"],
        ["https://example.com/chart.png"],
    ),
    (
        "database-query",
        {"query": QUERY, "params": [2]},
        True,
        ["WHERE price > ?", "params: [2]", "Query shop.sqlite"],
        ["price > ?"],
    ),
    ("code-eval", {"code": CODE}, True, ["prices.reduce", "Run JavaScript"], ["prices.reduce", "7.75"]),
]


def notebook() -> list[str]:
    cells = [LOAD, APP]
    for tool, arguments, *_ in CALLS:
        cells += [f"play({tool!r}, **{arguments!r})\n%kestrel use app", "%%kestrel\ngo"]
    return cells


@pytest.mark.parametrize("look", ["light", "dark"])
def test_every_preview_is_in_its_card_and_its_record(open_lab: Open, look: str) -> None:
    page: NotebookPage = open_lab(notebook(), dark=look == "dark")
    page.use_theme(look)
    page.run_all()
    for number, (tool, _, approved, shows, _) in enumerate(CALLS):
        index = 3 + 2 * number
        page.scroll_to(index)
        text = wait_card(page, index).inner_text()
        page.shot(f"preview-{tool}-{look}")
        for part in shows:
            assert part in text, f"{tool}: {part!r} is not in {text!r}"
        assert "abcdef" not in text
        press(page, index, "Approve" if approved else "Decline…")
        if not approved:
            press(page, index, "Decline this call")
        page.wait_text(index, "That is all.")
        page.shot(f"preview-{tool}-record-{look}")
    saved = page.save()
    for number, (tool, _, _, _, keeps) in enumerate(CALLS):
        texts = assert_one_record(saved, 3 + 2 * number)
        assert not any("abcdef" in text for text in texts.values())
        for part in keeps:
            assert part in texts["text/plain"], f"{tool}: {part!r} is not in {texts['text/plain']}"
    assert page.errors == []
