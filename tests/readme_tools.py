"""The README's table of tools, made from the tools themselves. Run this file to write it into the README."""

from __future__ import annotations

import re
from pathlib import Path

from kestrel_nb.plugins.builtin_tools.config import BuiltInToolConfig
from kestrel_nb.plugins.builtin_tools.making import Parts, make_tool
from kestrel_nb.plugins.builtin_tools.selection import ToolChoice, select_built_in_tools
from kestrel_nb.plugins.core_tools.plugin import core_tools
from kestrel_nb.plugins.core_tools.settings import CoreSettings
from kestrel_nb.runtime.models import ModelRegistry
from kestrel_nb.runtime.tools import Tool, missing, permission_words
from kestrel_nb.sandbox.network import Network

HEADING = "| tool | plugin | permission | by default | what it does |\n|---|---|---|---|---|\n"
CONDITIONS = {
    "image-describe": "on, once a model that sees images is registered",
    "web-search": "on, once there is a `web_search_provider`",
    "database-query": "off; also needs a `database_path`",
}
README = Path(__file__).parents[1] / "README.md"


def table() -> str:
    """The whole table: the core tools, then the built-in ones."""
    rows = [_row(tool, "tools-core", "on") for tool in core_tools(CoreSettings())]
    parts = Parts(config=BuiltInToolConfig(), models=ModelRegistry(), network=Network())
    for choice in select_built_in_tools(parts.config):
        tool = make_tool(choice.id, parts)
        rows.append(_row(tool, "builtin-tools", _state(choice, tool)))
    return HEADING + "".join(rows)


def _state(choice: ToolChoice, tool: Tool) -> str:
    conditional = bool(choice.on and missing(tool)) or ("needs" in choice.why or "_path" in choice.remedy)
    assert conditional == (choice.id in CONDITIONS), choice
    return CONDITIONS.get(choice.id, "on" if choice.on else "off")


def _row(tool: Tool, plugin: str, state: str) -> str:
    first = re.split(r"(?<!\.)[.:;](?:\s|$)", tool.schema.description, maxsplit=1)[0].replace("|", "\\|")
    return f"| `{tool.schema.name}` | {plugin} | {permission_words(tool)} | {state} | {first} |\n"


def shown(readme: str) -> str:
    """The table that ``readme`` has."""
    begin = readme.index(HEADING)
    return readme[begin : readme.index("\n\n", begin) + 1]


if __name__ == "__main__":
    text = README.read_text("utf-8")
    README.write_text(text.replace(shown(text), table()), "utf-8")
