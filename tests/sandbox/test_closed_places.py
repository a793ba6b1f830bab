"""No file tool opens the stored sessions and the rules, also where they lie in the workspace."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kestrel_nb import Kestrel
from kestrel_nb.notebook.rule_book import RuleBook
from kestrel_nb.protocol.errors import SandboxViolationError, ToolCallError
from kestrel_nb.runtime.file_store import FileSessionStore
from kestrel_nb.sandbox.closed import close_off
from kestrel_nb.sandbox.workspace import Workspace

RULES = '{"version": 1, "kind": "rules", "rules": [{"tool": "shell", "action": "deny"}]}'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A workspace with the folder of sessions and rules in it, and links that lead there."""
    kept = tmp_path / "share/kept"
    (kept / "sessions").mkdir(parents=True)
    (kept / "rules.json").write_text(RULES)
    (kept / "sessions/note.txt").write_text("deny")
    (tmp_path / "mine.txt").write_text("deny")
    os.symlink(kept, tmp_path / "link")
    os.symlink(kept / "rules.json", tmp_path / "rules-link.json")
    return tmp_path


def app_in(workspace: Path, folder: Path) -> Kestrel:
    """An application whose sessions and rules are kept in ``folder``."""
    app = Kestrel(workspace=workspace, store=FileSessionStore(folder))
    RuleBook(lambda: str(folder)).attach(app)
    return app


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read_file", {"path": "share/kept/rules.json"}),
        ("read_file", {"path": "share/../share/./kept//RULES.json"}),
        ("read_file", {"path": "rules-link.json"}),
        ("read_file", {"path": "link/sessions/note.txt"}),
        ("write_file", {"path": "share/kept/rules.json", "content": "{}"}),
        ("write_file", {"path": "link/new.txt", "content": "{}"}),
        ("write_file", {"path": "rules-link.json", "content": "{}"}),
        ("edit_file", {"path": "link/rules.json", "old_string": "deny", "new_string": "auto"}),
        ("list_dir", {"path": "share/kept"}),
        ("glob", {"pattern": "*", "path": "link"}),
        ("grep", {"pattern": "deny", "path": "share/kept/rules.json"}),
    ],
)
async def test_it_is_refused(home: Path, tool: str, arguments: Mapping[str, Any]) -> None:
    app = app_in(home, home / "share/kept")
    with pytest.raises(SandboxViolationError, match="stored sessions and rules"):
        await app.use_tool(tool, arguments)
    assert (home / "share/kept/rules.json").read_text() == RULES
    assert sorted(os.listdir(home / "share/kept")) == ["rules.json", "sessions"]


async def test_searches_pass_it_over(home: Path) -> None:
    app = app_in(home, home / "share/kept")
    assert (await app.use_tool("glob", {"pattern": "**/*"}))["rows"] == [["mine.txt", 4]]
    assert (await app.use_tool("grep", {"pattern": "deny"}))["rows"] == [["mine.txt", 1, "deny"]]
    assert (await app.use_tool("list_dir", {"path": "share"}))["rows"] == []


async def test_a_workspace_that_holds_them_itself_stays_usable(home: Path) -> None:
    folder = home / "share/kept"
    app = app_in(folder, folder)
    await app.use_tool("write_file", {"path": "mine.txt", "content": "x"})
    assert [row[0] for row in (await app.use_tool("list_dir"))["rows"]] == ["mine.txt"]
    for path in ("rules.json", "rules.lock", "sessions/note.txt"):
        with pytest.raises(SandboxViolationError):
            await app.use_tool("write_file", {"path": path, "content": "{}"})


def test_no_file_takes_the_way_to_a_place_that_is_not_there_yet(tmp_path: Path) -> None:
    close_off(tmp_path / "a/b/kept")
    for restrict in (True, False):
        workspace = Workspace(tmp_path, restrict=restrict)
        with pytest.raises(ToolCallError, match="is a folder"):
            workspace.write_file("a", b"")
        with pytest.raises(SandboxViolationError):
            workspace.write_file("a/b/kept/x", b"")
    assert not (tmp_path / "a").exists()
    assert workspace.write_file("a/b/kept2", b"")
