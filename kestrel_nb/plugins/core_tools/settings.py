"""What can be configured of the core tools, and what they have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ...protocol.errors import PluginError
from ...runtime.tools import ToolContext
from ...sandbox.workspace import Workspace

Permission = Literal["auto", "ask"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreSettings:
    """The configuration; its keys there are these names in camelCase. ``shell_timeout_ms`` is default and ceiling."""

    restrict_to_workspace: bool = True
    shell_permission: Permission = "ask"
    web_permission: Permission = "ask"
    shell_timeout_ms: int = 120_000
    max_output_chars: int = 100_000

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> CoreSettings:
        """The settings in ``config``. Raises PluginError that names the key and what it must be."""
        known = {
            "restrictToWorkspace": ("restrict_to_workspace", _boolean),
            "shellPermission": ("shell_permission", _permission),
            "webPermission": ("web_permission", _permission),
            "shellTimeoutMs": ("shell_timeout_ms", _positive),
            "maxOutputChars": ("max_output_chars", _positive),
        }
        values: dict[str, Any] = {}
        for key, value in config.items():
            if key not in known:
                raise PluginError(f"tools-core: {key} is no setting; known are {', '.join(sorted(known))}")
            name, check = known[key]
            values[name] = check(key, value)
        return cls(**values)

    def workspace(self, context: ToolContext) -> Workspace:
        """The session's workspace as these settings confine it."""
        return Workspace(context.session.workspace, restrict=self.restrict_to_workspace)


def _boolean(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise PluginError(f"tools-core: {key} must be true or false")
    return value


def _permission(key: str, value: object) -> Permission:
    if value not in ("auto", "ask"):
        raise PluginError(f'tools-core: {key} must be "auto" or "ask"')
    return value


def _positive(key: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise PluginError(f"tools-core: {key} must be a whole number of at least 1")
    return value
