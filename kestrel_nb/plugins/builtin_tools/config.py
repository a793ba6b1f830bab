"""What can be configured of the built-in tools, and which of them there are."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .search_provider import WebSearchProvider

DEFAULT_BUILT_IN_TOOLS = ("http-fetch", "date-time", "json-parse", "math-eval", "regex-match", "image-describe")
UNSAFE_BUILT_IN_TOOLS = ("file-read", "file-write", "shell-exec", "code-eval", "database-query")
BUILT_IN_TOOLS = (*DEFAULT_BUILT_IN_TOOLS, "web-search", *UNSAFE_BUILT_IN_TOOLS)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpFetchConfig:
    """How http-fetch may reach out. ``max_response_bytes`` counts after decompression; ``timeout_ms`` is a ceiling."""

    allow_private_network: bool = False
    max_response_bytes: int = 1_000_000
    timeout_ms: int = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltInToolConfig:
    """Which built-in tools there are, and their limits. Times are in milliseconds and ceilings: no call gets more.

    ``enabled`` is a whitelist, by default DEFAULT_BUILT_IN_TOOLS (and web-search when there is a provider);
    ``disabled`` beats it. ``sandbox_dir`` is the root of the file tools and of shell-exec, by default the session's
    workspace. ``shell_env`` is added to the small environment of shell-exec. database-query needs ``database_path``.
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
