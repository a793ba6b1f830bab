"""Which of the twelve built-in tools an application has: a pure function of its configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .config import BUILT_IN_TOOLS, DEFAULT_BUILT_IN_TOOLS, BuiltInToolConfig

JAVASCRIPT_TOOLS = ("regex-match", "code-eval")
_NEEDS = {"web-search": "web_search_provider", "database-query": "database_path"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChoice:
    """Whether the built-in tool ``id`` is on, and ``why``; for one that is off, ``remedy`` says what to do for it."""

    id: str
    on: bool
    why: str
    remedy: str = ""

    @property
    def reason(self) -> str:
        """Why, and what to do, in one line."""
        return f"{self.why}; {self.remedy}" if self.remedy else self.why


def select_built_in_tools(
    config: BuiltInToolConfig, *, no_javascript: Callable[[], str | None] = lambda: None
) -> tuple[ToolChoice, ...]:
    """The choice for every built-in tool, in the order of BUILT_IN_TOOLS.

    ``disabled`` is stronger than ``enabled``; ``enabled``, where it is given, is the whole list; without it the
    default ones are on, and web-search where there is a provider. What a tool needs it needs in any case: web-search
    a provider, database-query a ``database_path``, regex-match and code-eval the JavaScript engine, about which
    ``no_javascript`` says what is wrong with it, or None. image-describe is on without a vision model too: one may be
    registered later, and until then no model is offered the tool.
    """
    return tuple(_choice(id, config, no_javascript) for id in BUILT_IN_TOOLS)


def _choice(id: str, config: BuiltInToolConfig, no_javascript: Callable[[], str | None]) -> ToolChoice:
    if id in config.disabled:
        return ToolChoice(id=id, on=False, why="it is in disabled", remedy=f'take "{id}" out of disabled')
    need = _need(id, config)
    if not _is_wanted(id, config):
        why = "off by default" if config.enabled is None else "it is not in enabled"
        return ToolChoice(id=id, on=False, why=why, remedy=_config(f'enabled=[..., "{id}"]', need))
    if need:
        return ToolChoice(id=id, on=False, why=f"it needs a {_NEEDS[id]}", remedy=_config(need))
    lack = no_javascript() if id in JAVASCRIPT_TOOLS else None
    if lack:
        return ToolChoice(id=id, on=False, why="it needs the JavaScript engine", remedy=lack)
    return ToolChoice(id=id, on=True, why="on by default" if config.enabled is None else "it is in enabled")


def _is_wanted(id: str, config: BuiltInToolConfig) -> bool:
    if config.enabled is not None:
        return id in config.enabled
    return id in DEFAULT_BUILT_IN_TOOLS or id == "web-search"


def _need(id: str, config: BuiltInToolConfig) -> str:
    """What of the configuration the tool still needs, as it is written; "" when it needs nothing."""
    setting = _NEEDS.get(id)
    return f"{setting}=..." if setting and getattr(config, setting) is None else ""


def _config(*settings: str) -> str:
    return f"BuiltInToolConfig({', '.join(filter(None, settings))})"
