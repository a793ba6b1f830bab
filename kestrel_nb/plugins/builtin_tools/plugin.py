"""The plugin that contributes the built-in tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.models import ModelRegistry
from ...runtime.plugins import AbsentTool, PluginContext
from .config import BuiltInToolConfig, config_from
from .making import Parts, make_tool
from .selection import ToolChoice, select_built_in_tools

if TYPE_CHECKING:
    from ...sandbox.network import Network


class BuiltInTools:
    """The twelve built-in tools, as far as the configuration has them: ``config``, or the section ``builtin-tools``.

    ``network`` is the way out for those that make requests; by default one that ``config`` confines.
    """

    name = "builtin-tools"

    def __init__(self, config: BuiltInToolConfig | None = None, *, network: Network | None = None) -> None:
        self._given = config
        self._network = network
        self._parts: Parts | None = None

    def activate(self, context: PluginContext) -> None:
        """Register the tools that are on. Raises UsageError when the configuration is wrong."""
        config = self._given or config_from(context.config)
        parts = self._parts = self._parts_of(config, context.models)
        for choice in self._choices(config):
            if choice.on:
                context.add_tool(make_tool(choice.id, parts), check=False)

    def absent_tools(self) -> list[AbsentTool]:
        """The tools that are off, each with the reason and what to do to have it."""
        parts = self._parts or self._parts_of(self._given or BuiltInToolConfig(), ModelRegistry())
        choices = self._choices(parts.config)
        return [
            AbsentTool(tool=make_tool(choice.id, parts), why=choice.why, remedy=choice.remedy)
            for choice in choices
            if not choice.on
        ]

    def _choices(self, config: BuiltInToolConfig) -> tuple[ToolChoice, ...]:
        from ...sandbox import javascript

        return select_built_in_tools(config, no_javascript=javascript.unavailable)

    def _parts_of(self, config: BuiltInToolConfig, models: ModelRegistry) -> Parts:
        from ...sandbox.network import Network

        network = self._network or Network(
            allow_private=config.http_fetch.allow_private_network,
            allowed_by="BuiltInToolConfig(http_fetch=HttpFetchConfig(allow_private_network=True))",
        )
        return Parts(config=config, models=models, network=network)
