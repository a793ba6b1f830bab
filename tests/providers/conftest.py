"""Workspaces: one with a Python package, a data folder and a website, and an app that runs the demo model on it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kestrel_nb.app import Kestrel
from kestrel_nb.providers.demo import DemoModel

FILES = {
    "README.md": "# Weather station\n\nReads sensors and writes a report.\nSee docs/guide.md.\n",
    "pyproject.toml": '[project]\nname = "station"\nversion = "1.0"\n',
    "config.toml": 'host = "localhost"\nport = 8080\ndebug = true\nurl = "http://example.org"\n',
    "Makefile": "test:\n\tpytest -q\n",
    "src/station/__init__.py": "DEFAULT_PORT = 8080\n",
    "src/station/core.py": "import asyncio\nimport numpy\n\n\nasync def load(path):\n    await asyncio.sleep(0)\n"
    "    return parse_row(path)  # TODO faster\n\n\ndef parse_row(row):\n    if not row:\n"
    "        raise ValueError(row)\n    return row.split()\n",
    "src/station/io.py": "import json\n\nfrom station.core import load\n\n\n"
    "class Reader:\n    async def read(self, path):\n"
    "        return await load(path)\n\n\ndef connect():\n    return Reader()\n",
    "tests/test_core.py": "from station.core import parse_row\n\n\ndef test_parse_row():\n"
    "    assert parse_row('a b') == ['a', 'b']\n",
    "data/sales.csv": "day,amount\nmon,3\ntue,4\nwed,5\nthu,6\nfri,7\nsat,8\n",
    "data/users.csv": "id,name\n1,Ada\n2,Grace\n3,Edsger\n",
    "data/prices.json": '{"id": 1, "price": 2.5, "note": null}\n',
    "data/archive/old.json": '{"id": 2}\n',
    "docs/guide.md": "# Guide\n\n## Install\n\npip install station\n\nSay hello world to the station.\n",
    "docs/changes.md": "# Changes\n\n- parse_row replaces split_row (deprecated)\n"
    "- colour becomes color\n- one colour only\n",
    "site/index.html": "<h1>Station</h1>\n<a href='contact.html'>contact</a>\n",
    "site/contact.html": "<p>under construction</p>\n",
    "site/style.css": "h1 { colour: red }\n",
}


FOLDERS = json.loads((Path(__file__).parents[1] / "data/demo/folders.json").read_text(encoding="utf-8"))
"""Three more workspaces: a shop's package, a laboratory's data, a handbook."""


def fill(folder: Path, files: dict[str, str]) -> Path:
    """``files`` written below ``folder``."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def station(tmp_path: Path) -> Path:
    """The workspace."""
    return fill(tmp_path, FILES)


@pytest.fixture
async def app(station: Path) -> AsyncIterator[Kestrel]:
    """An app on the workspace, with the demo model as its default and nobody to ask."""
    async with Kestrel(model=DemoModel(id="demo-fast", pace_s=0), workspace=station) as app:
        yield app


@pytest.fixture
async def opened(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Kestrel]:
    """An app like ``app`` on the workspace that the row of the table names."""
    files = FOLDERS.get(request.node.callspec.params["row"].get("folder"), FILES)
    async with Kestrel(model=DemoModel(id="demo-fast", pace_s=0), workspace=fill(tmp_path, files)) as app:
        yield app
