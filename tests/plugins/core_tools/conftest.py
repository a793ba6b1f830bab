"""The core tools on a workspace in a temporary folder, called as the runtime calls them: arguments checked first."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kestrel_nb.plugins.core_tools.plugin import core_tools
from kestrel_nb.plugins.core_tools.settings import CoreSettings
from kestrel_nb.protocol.tools import TodoItem
from kestrel_nb.runtime.signals import CancelSignal
from kestrel_nb.runtime.tools import Tool, ToolContext, ToolExecutionResult
from kestrel_nb.runtime.validation import format_validation_issues, validate_arguments


@dataclass
class Session:
    """The part of a session that tools see."""

    workspace: str
    id: str = "s1"
    messages: tuple[Any, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class Desk:
    """A workspace and the tools on it."""

    root: Path
    settings: CoreSettings = field(default_factory=CoreSettings)
    workspace: str = ""
    signal: CancelSignal = field(default_factory=CancelSignal)
    progress: list[str] = field(default_factory=list)
    todos: list[tuple[TodoItem, ...]] = field(default_factory=list)

    def tool(self, name: str) -> Tool:
        return next(tool for tool in core_tools(self.settings) if tool.schema.name == name)

    def context(self, **more: Any) -> ToolContext:
        return ToolContext(
            session=Session(self.workspace or str(self.root)),
            call_id="c1",
            signal=self.signal,
            logger=logging.getLogger("test"),
            on_progress=self.progress.append,
            on_todos=self.todos.append,
            **more,
        )

    def run(self, name: str, /, **args: Any) -> ToolExecutionResult:
        """One call of a tool that is no coroutine function."""
        result = self._execute(name, args)
        assert isinstance(result, ToolExecutionResult)
        return result

    async def arun(self, name: str, /, **args: Any) -> ToolExecutionResult:
        """One call of a tool that is a coroutine function."""
        result = self._execute(name, args)
        assert inspect.isawaitable(result)
        return await result

    def _execute(self, name: str, args: Mapping[str, Any]) -> ToolExecutionResult | Awaitable[ToolExecutionResult]:
        tool = self.tool(name)
        issues = validate_arguments(tool.schema.parameters, args)
        assert not issues, format_validation_issues(issues)
        return tool.execute(args, self.context())

    def put(self, path: str, content: str | bytes) -> Path:
        """A file with exactly this content."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    root = tmp_path / "ws"
    root.mkdir()
    return Desk(root)


@pytest.fixture
def make_desk(tmp_path: Path) -> Callable[..., Desk]:
    def make(**settings: Any) -> Desk:
        root = tmp_path / "ws"
        root.mkdir(exist_ok=True)
        return Desk(root, CoreSettings(**settings))

    return make
