"""The plugin that contributes the core tools."""

from __future__ import annotations

from ...runtime.plugins import PluginContext
from ...runtime.tools import Tool
from .edit import EditFile, WriteFile
from .files import ListDir, ReadFile
from .grep import Grep
from .progress import Finish, TodoWrite
from .search import Glob
from .settings import CoreSettings
from .shell import Shell


def core_tools(settings: CoreSettings) -> list[Tool]:
    """The core tools as ``settings`` make them."""
    return [
        ReadFile(settings),
        ListDir(settings),
        Glob(settings),
        Grep(settings),
        WriteFile(settings),
        EditFile(settings),
        Shell(settings),
        TodoWrite(),
        Finish(),
    ]


class CoreTools:
    """Files, search, shell and the task list. Configured by the section ``tools-core``, see ``CoreSettings``."""

    name = "tools-core"

    def activate(self, context: PluginContext) -> None:
        """Register the tools. Raises PluginError when the configuration is wrong."""
        for tool in core_tools(CoreSettings.from_config(context.config)):
            context.add_tool(tool, check=False)
