"""An agent toolkit for Jupyter: a cell that runs an agent, asks before it acts, and leaves a readable record.

In a notebook: ``%load_ext kestrel_nb``, then a ``%%kestrel`` cell. In Python: ``Kestrel`` is the way in.
Importing this package loads nothing but this file; each name below brings its module in when it is first used.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .app import Kestrel
    from .config import KestrelConfig
    from .plugins.builtin_tools.config import (
        DEFAULT_BUILT_IN_TOOLS,
        UNSAFE_BUILT_IN_TOOLS,
        BuiltInToolConfig,
        HttpFetchConfig,
    )
    from .plugins.builtin_tools.search_adapters import BraveSearch, SearXNGSearch, TavilySearch
    from .plugins.builtin_tools.search_provider import SearchResult, WebSearchProvider
    from .plugins.builtin_tools.selection import ToolChoice, select_built_in_tools
    from .plugins.builtin_tools.web_search import create_web_search_tool
    from .protocol.errors import (
        ApprovalError,
        KestrelError,
        ModelError,
        ModelRequestError,
        SandboxViolationError,
        SessionError,
        StoreError,
        ToolCallError,
        ToolError,
    )
    from .protocol.sessions import ApprovalDecision, CreateSessionRequest, ModelInfo, PermissionRule, RunResult, Usage
    from .protocol.tools import ToolSchema
    from .providers.cassette import Cassette
    from .runtime.file_store import FileSessionStore
    from .runtime.manager import SessionManager
    from .runtime.models import CompletionRequest, CompletionResponse, LanguageModel, TokenDelta
    from .runtime.session import AgentSession
    from .runtime.stores import MemorySessionStore
    from .runtime.tool_policy import ToolPolicy
    from .runtime.tools import ToolContext, ToolExecutionResult
    from .tool import tool

    __version__: str

__all__ = [
    "DEFAULT_BUILT_IN_TOOLS",
    "UNSAFE_BUILT_IN_TOOLS",
    "AgentSession",
    "ApprovalDecision",
    "ApprovalError",
    "BraveSearch",
    "BuiltInToolConfig",
    "Cassette",
    "CompletionRequest",
    "CompletionResponse",
    "CreateSessionRequest",
    "FileSessionStore",
    "HttpFetchConfig",
    "Kestrel",
    "KestrelConfig",
    "KestrelError",
    "LanguageModel",
    "MemorySessionStore",
    "ModelError",
    "ModelInfo",
    "ModelRequestError",
    "PermissionRule",
    "RunResult",
    "SandboxViolationError",
    "SearXNGSearch",
    "SearchResult",
    "SessionError",
    "SessionManager",
    "StoreError",
    "TavilySearch",
    "TokenDelta",
    "ToolCallError",
    "ToolChoice",
    "ToolContext",
    "ToolError",
    "ToolExecutionResult",
    "ToolPolicy",
    "ToolSchema",
    "Usage",
    "WebSearchProvider",
    "__version__",
    "create_web_search_tool",
    "load_ipython_extension",
    "select_built_in_tools",
    "tool",
    "unload_ipython_extension",
]

_HOMES = {
    "app": "Kestrel",
    "config": "KestrelConfig",
    "plugins.builtin_tools.config": ("BuiltInToolConfig DEFAULT_BUILT_IN_TOOLS HttpFetchConfig UNSAFE_BUILT_IN_TOOLS"),
    "plugins.builtin_tools.search_provider": "SearchResult WebSearchProvider",
    "plugins.builtin_tools.search_adapters": "BraveSearch SearXNGSearch TavilySearch",
    "plugins.builtin_tools.selection": "ToolChoice select_built_in_tools",
    "plugins.builtin_tools.web_search": "create_web_search_tool",
    "protocol.errors": (
        "ApprovalError KestrelError ModelError ModelRequestError SandboxViolationError SessionError StoreError "
        "ToolCallError ToolError"
    ),
    "protocol.sessions": "ApprovalDecision CreateSessionRequest ModelInfo PermissionRule RunResult Usage",
    "protocol.tools": "ToolSchema",
    "providers.cassette": "Cassette",
    "runtime.file_store": "FileSessionStore",
    "runtime.manager": "SessionManager",
    "runtime.models": "CompletionRequest CompletionResponse LanguageModel TokenDelta",
    "runtime.session": "AgentSession",
    "runtime.stores": "MemorySessionStore",
    "runtime.tool_policy": "ToolPolicy",
    "runtime.tools": "ToolContext ToolExecutionResult",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def load_ipython_extension(ip: Any) -> None:
    """``%load_ext kestrel_nb``: register the magics."""
    import logging

    from .notebook import magics

    # A cell holds its record and nothing else; without a handler of the user's, Python would print the log there.
    log = logging.getLogger(__name__)
    if not log.handlers:
        log.addHandler(logging.NullHandler())
    magics.load(ip)


def unload_ipython_extension(ip: Any) -> None:
    """``%unload_ext kestrel_nb``: take the magics away and close the app."""
    from .notebook import magics

    magics.unload(ip)


def _version() -> str:
    from importlib.metadata import version

    return version("kestrel-nb")


if not TYPE_CHECKING:  # so that a type checker still sees a misspelled name

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            value = _version()
        elif name in _HOME_OF:
            value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Face(ModuleType):
    """This package as a module. ``tool`` is the decorator here, though a submodule has the same name."""

    @property
    def tool(self) -> Any:
        return import_module(f"{__name__}.tool").tool

    @tool.setter
    def tool(self, module: ModuleType) -> None:
        """Python binds a submodule to its package when it is imported; this one stays out of the way."""


sys.modules[__name__].__class__ = _Face
