"""What can be configured of the built-in tools, and which of them there are."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...protocol.errors import UsageError
from . import checks
from .search_provider import WebSearchProvider

DEFAULT_BUILT_IN_TOOLS = ("http-fetch", "date-time", "json-parse", "math-eval", "regex-match", "image-describe")
UNSAFE_BUILT_IN_TOOLS = ("file-read", "file-write", "shell-exec", "code-eval", "database-query")
BUILT_IN_TOOLS = (*DEFAULT_BUILT_IN_TOOLS, "web-search", *UNSAFE_BUILT_IN_TOOLS)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpFetchConfig:
    """How http-fetch may reach out. ``max_response_bytes`` counts after decompression; ``timeout_ms`` is a ceiling.
    ``allow_private_network`` also holds for the addresses of image-describe.

    Raises UsageError for values that can't work.
    """

    allow_private_network: bool = False
    max_response_bytes: int = 1_000_000
    timeout_ms: int = 30_000

    def __post_init__(self) -> None:
        checks.flag("http_fetch.allow_private_network", self.allow_private_network)
        checks.whole("http_fetch.max_response_bytes", self.max_response_bytes, checks.MAX_BYTES)
        checks.whole("http_fetch.timeout_ms", self.timeout_ms, checks.MAX_MS, "milliseconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltInToolConfig:
    """Which built-in tools there are, and their limits. Times are in milliseconds and ceilings: no call gets more.

    ``enabled`` is a whitelist, by default DEFAULT_BUILT_IN_TOOLS (and web-search when there is a provider);
    ``disabled`` beats it. ``sandbox_dir`` is the root of the file tools and of shell-exec, by default the session's
    workspace. ``shell_env`` is added to the small environment of shell-exec. database-query needs ``database_path``.
    Relative paths are taken from the folder that the process works in now.

    Raises UsageError for a name that is no built-in tool, with the nearest one, and for values that can't work.
    """

    enabled: Sequence[str] | None = None
    disabled: Sequence[str] = ()
    sandbox_dir: str | os.PathLike[str] | None = None
    shell_timeout: int = 30_000
    shell_env: Mapping[str, str] = field(default_factory=dict)
    code_eval_timeout: int = 5_000
    database_path: str | os.PathLike[str] | None = None
    web_search_provider: WebSearchProvider | None = None
    http_fetch: HttpFetchConfig = field(default_factory=HttpFetchConfig)

    def __post_init__(self) -> None:
        keep = object.__setattr__
        if self.enabled is not None:
            keep(self, "enabled", checks.ids("enabled", self.enabled, BUILT_IN_TOOLS))
        keep(self, "disabled", checks.ids("disabled", self.disabled, BUILT_IN_TOOLS))
        keep(self, "sandbox_dir", checks.place("sandbox_dir", self.sandbox_dir, folder=True))
        keep(self, "database_path", checks.place("database_path", self.database_path, folder=False))
        keep(self, "shell_env", checks.environment("shell_env", self.shell_env))
        checks.whole("shell_timeout", self.shell_timeout, checks.MAX_MS, "milliseconds")
        checks.whole("code_eval_timeout", self.code_eval_timeout, checks.MAX_MS, "milliseconds")
        if self.web_search_provider is not None and not callable(getattr(self.web_search_provider, "search", None)):
            raise UsageError("web_search_provider must have a method search(query, max_results)")
        given = self.web_search_provider
        if isinstance(given, type) and inspect.isfunction(inspect.getattr_static(given, "search")):
            name = given.__name__
            raise UsageError(f"web_search_provider is the class {name}; make an object of it: {name}(...)")
        if not isinstance(self.http_fetch, HttpFetchConfig):
            raise UsageError("http_fetch must be an HttpFetchConfig")


_KEYS = {
    "enabled": "enabled",
    "disabled": "disabled",
    "sandboxDir": "sandbox_dir",
    "shellTimeout": "shell_timeout",
    "shellEnv": "shell_env",
    "codeEvalTimeout": "code_eval_timeout",
    "databasePath": "database_path",
    "webSearchProvider": "web_search_provider",
}
_FETCH_KEYS = {
    "allowPrivateNetwork": "allow_private_network",
    "maxResponseBytes": "max_response_bytes",
    "timeoutMs": "timeout_ms",
}


def config_from(section: object) -> BuiltInToolConfig:
    """The configuration in the section ``builtin-tools``, with its keys in camelCase. Raises UsageError."""
    given = checks.keys("builtin-tools", section, (*_KEYS, "httpFetch"))
    values = {_KEYS[key]: value for key, value in given.items() if key in _KEYS}
    if "httpFetch" in given:
        fetch = checks.keys("builtin-tools: httpFetch", given["httpFetch"], tuple(_FETCH_KEYS))
        values["http_fetch"] = HttpFetchConfig(**{_FETCH_KEYS[key]: value for key, value in fetch.items()})  # type: ignore[arg-type]
    return BuiltInToolConfig(**values)  # type: ignore[arg-type]
