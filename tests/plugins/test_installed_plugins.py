"""Plugins that other packages declare: found by name, loaded only then, and told clearly when they are wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kestrel_nb import Kestrel
from kestrel_nb.plugins.installed import installed_names
from kestrel_nb.protocol.errors import PluginError

MODULE = '''
from kestrel_nb import tool

@tool
def wink() -> str:
    """Wink."""
    return "winked"

class Winks:
    name = "winks"
    def activate(self, context):
        context.add_tool(wink)

ready = Winks()
ready.name = "ready"
def made():
    return Winks()
def broken():
    raise RuntimeError("no luck")
nothing = dict
'''
ENTRIES = """[kestrel_nb.plugins]
winks = winking_plugin:Winks
ready = winking_plugin:ready
made = winking_plugin:made
broken = winking_plugin:broken
nothing = winking_plugin:nothing
missing = winking_plugin:missing
absent = no_such_module_anywhere:X
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is installed as far as Python can tell."""
    (tmp_path / "winking_plugin.py").write_text(MODULE, "utf-8")
    info = tmp_path / "winking_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: winking-plugin\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text(ENTRIES, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "winking_plugin", raising=False)


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("name", ["winks", "ready", "made"])
async def test_a_plugin_by_its_name(name: str) -> None:
    async with Kestrel(model="demo", plugins=[name]) as app:
        assert app.tools.get("wink") is not None
        assert await app.use_tool("wink") == "winked"


@pytest.mark.usefixtures("package")
def test_what_is_not_named_is_not_loaded() -> None:
    Kestrel(model="demo")
    assert "winks" in installed_names()
    assert "winking_plugin" not in sys.modules


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("broken", "can't be loaded: RuntimeError: no luck"),
        ("nothing", "is no plugin: it needs a name and an activate method"),
        ("missing", "can't be loaded: AttributeError"),
        ("absent", "can't be loaded: ModuleNotFoundError"),
        ("wink", 'did you mean "winks"?'),
        ("zzz", "there are: "),
    ],
)
def test_a_plugin_that_can_not_be_had(name: str, said: str) -> None:
    with pytest.raises(PluginError) as caught:
        Kestrel(model="demo", plugins=[name])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
