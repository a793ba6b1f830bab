"""The plugin that contributes the core tools."""

from __future__ import annotations

from ...runtime.plugins import PluginContext
from ...runtime.tools import Tool
from ...sandbox.network import Network
from .edit import EditFile, WriteFile
from .files import ListDir, ReadFile
from .grep import Grep
from .progress import Finish, TodoWrite
from .search import Glob
from .settings import CoreSettings
from .shell import Shell
from .web import WebFetch


def core_tools(settings: CoreSettings, *, network: Network | None = None) -> list[Tool]:
    """The core tools as ``settings`` make them. ``network`` is the way out of web_fetch."""
    return [
        ReadFile(settings),
        ListDir(settings),
        Glob(settings),
        Grep(settings),
        WriteFile(settings),
        EditFile(settings),
        Shell(settings),
        WebFetch(settings, network or Network()),
        TodoWrite(),
        Finish(),
    ]


class CoreTools:
    """Files, search, shell, the web and the task list.

    Configured by the section ``tools-core``, see ``CoreSettings``. ``network`` is the way out of web_fetch; by default
    one that reaches public addresses alone.
    """

    name = "tools-core"

    def __init__(self, *, network: Network | None = None) -> None:
        self._network = network

    def activate(self, context: PluginContext) -> None:
        """Register the tools. Raises PluginError when the configuration is wrong."""
        for tool in core_tools(CoreSettings.from_config(context.config), network=self._network):
            context.add_tool(tool, check=False)
