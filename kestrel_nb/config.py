"""Settings of an application, with the specification's names in snake_case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .plugins.builtin_tools.config import BuiltInToolConfig, config_from
from .plugins.named import BUILT_IN_TOOLS, CORE_TOOLS
from .protocol.errors import UsageError
from .runtime.approvals import DEFAULT_TIMEOUT_S
from .runtime.manager import DEFAULT_MAX_STEPS
from .runtime.retry import RetryOptions


@dataclass(frozen=True, kw_only=True)
class KestrelConfig:
    """What an application may be told beside its models and tools.

    ``plugins`` are names to activate; ``plugin_config`` holds each plugin's own section by name.
    ``approval_timeout_s`` is in seconds, None waits for ever. Raises UsageError for values that can't work.
    """

    model: str | None = None
    plugins: tuple[str, ...] = (CORE_TOOLS, BUILT_IN_TOOLS)
    plugin_config: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    system_prompt: str | None = None  # appended to the default prompt as additional instructions
    max_steps: int = DEFAULT_MAX_STEPS
    temperature: float | None = None
    max_tokens: int | None = None
    retry: RetryOptions = field(default_factory=RetryOptions)
    approval_timeout_s: float | None = DEFAULT_TIMEOUT_S

    def __post_init__(self) -> None:
        if self.max_steps < 1:
            raise UsageError("max_steps must be at least 1")
        if self.approval_timeout_s is not None and self.approval_timeout_s <= 0:
            raise UsageError("approval_timeout_s must be more than 0, or None to wait for ever")

    def built_in_tools(self, given: BuiltInToolConfig | None = None) -> BuiltInToolConfig | None:
        """The configuration of the built-in tools: ``given`` in code, or the section ``builtin-tools``; None: neither.

        Raises UsageError for one that is wrong, or when there are two.
        """
        section = self.plugin_config.get(BUILT_IN_TOOLS)
        if given is None:
            return None if section is None else config_from(section)
        if not isinstance(given, BuiltInToolConfig):
            raise UsageError("built_in_tools must be a BuiltInToolConfig: BuiltInToolConfig(enabled=[...])")
        if section:
            raise UsageError('the built-in tools are configured twice: by built_in_tools and by "builtin-tools"')
        return given
