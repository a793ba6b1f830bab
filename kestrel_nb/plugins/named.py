"""Plugins by name: those of this package, and those that other packages bring."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.plugins import Plugin

if TYPE_CHECKING:
    from .builtin_tools.config import BuiltInToolConfig

CORE_TOOLS = "tools-core"
BUILT_IN_TOOLS = "builtin-tools"


def plugin_named(name: str, *, built_in_tools: BuiltInToolConfig | None = None) -> Plugin:
    """The plugin ``name``; ``built_in_tools`` configures that of the built-in tools.

    Raises PluginError for a name that is unknown, or what it names is no plugin.
    """
    if name == CORE_TOOLS:
        from .core_tools.plugin import CoreTools

        return CoreTools()
    if name == BUILT_IN_TOOLS:
        from .builtin_tools.plugin import BuiltInTools

        return BuiltInTools(built_in_tools)
    from .installed import installed_plugin, unknown_plugin

    plugin = installed_plugin(name)
    if plugin is None:
        raise unknown_plugin(name, (CORE_TOOLS, BUILT_IN_TOOLS))
    return plugin
