"""Tools: the contract that a tool fulfils, what it is given, and the registry."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from ..protocol.errors import DuplicateNameError, ToolSchemaError
from ..protocol.messages import ChatMessage, ImagePart
from ..protocol.tools import Preview, TodoItem, ToolPermission, ToolSchema
from .signals import CancelSignal

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # what every provider accepts as a function name


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExecutionResult:
    """What a tool gives back.

    ``content`` is read by the model, ``data`` (any JSON) by clients only. ``is_error`` marks an expected failure,
    ``terminate`` ends the run after this result.
    """

    content: str
    data: Any = None
    is_error: bool = False
    terminate: bool = False
    images: tuple[ImagePart, ...] = ()


class ToolSession(Protocol):
    """The part of a session that a tool sees. ``metadata`` is shared by all calls of the session."""

    @property
    def id(self) -> str: ...
    @property
    def workspace(self) -> str: ...
    @property
    def messages(self) -> tuple[ChatMessage, ...]: ...
    @property
    def metadata(self) -> dict[str, Any]: ...


def _ignore(_: Any) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What a call is given beside its arguments.

    ``preview`` is what a person was shown before approving, if anyone was asked: a tool that made one refuses when
    its ``digest`` no longer fits.
    """

    session: ToolSession
    call_id: str
    signal: CancelSignal
    logger: logging.Logger
    preview: Preview | None = None
    on_progress: Callable[[str], None] = field(default=_ignore, repr=False)
    on_todos: Callable[[tuple[TodoItem, ...]], None] = field(default=_ignore, repr=False)

    def progress(self, message: str) -> None:
        """Show a status line. Thread-safe."""
        self.on_progress(message)

    def set_todos(self, items: Iterable[TodoItem]) -> None:
        """Replace the visible task list of the run. Thread-safe."""
        self.on_todos(tuple(items))


class Tool(Protocol):
    """One callable with a schema.

    ``execute`` may be a coroutine function; a plain function runs in a daemon thread. It may raise: the model then
    reads the message. A tool may also offer ``preview``, ``permission_for``, ``unavailable`` and ``repeat``: see
    the protocols below.
    """

    @property
    def schema(self) -> ToolSchema: ...

    def execute(
        self, args: Mapping[str, Any], context: ToolContext
    ) -> ToolExecutionResult | Awaitable[ToolExecutionResult]: ...


@runtime_checkable
class PreviewingTool(Protocol):
    """A tool that can say before it runs what it would do; must not change anything, and may raise."""

    def preview(self, args: Mapping[str, Any], context: ToolContext) -> Preview | None: ...


@runtime_checkable
class JudgingTool(Protocol):
    """A tool whose default permission depends on the arguments of a call; ``schema.permission`` is the stricter one.

    ``permission_for`` gets valid arguments and only looks at them. Where it raises, or answers neither "auto" nor
    "ask", the call asks. An attribute ``permission_words`` may say for lists when it asks.
    """

    def permission_for(self, args: Mapping[str, Any]) -> ToolPermission: ...


@runtime_checkable
class RepeatingTool(Protocol):
    """A tool with something to do where a recorded result of it is played, since later code needs it: a file.

    ``left`` names what a call has left behind, when it has ended well; "" for nothing. ``repeat`` gets valid arguments,
    the recorded result, which counts whatever it does, and everything that the recording has ``left``. It must lose
    nothing that was made since then; it may raise, and then it did nothing.
    """

    @property
    def schema(self) -> ToolSchema: ...

    def left(self, args: Mapping[str, Any], context: ToolContext) -> str: ...

    def repeat(
        self, args: Mapping[str, Any], context: ToolContext, recorded: ToolExecutionResult, left: frozenset[str]
    ) -> None: ...


@runtime_checkable
class ConditionalTool(Protocol):
    """A tool that may lack something that can come later, such as a model.

    ``unavailable`` says what it lacks and what to do, in one line, or None. Meanwhile no model is offered the tool; a
    call of it gets the tool's own answer.
    """

    def unavailable(self) -> str | None: ...


def missing(tool: Tool) -> str | None:
    """What ``tool`` lacks at the moment, None when it can work."""
    # Every tool is asked at every step, and comparing with a protocol is slow where it does not fit.
    if not (hasattr(tool, "unavailable") and isinstance(tool, ConditionalTool)):
        return None
    try:
        return tool.unavailable()
    except Exception as error:  # a tool that can't even say so is not offered either
        return f"it failed to say whether it can work ({type(error).__name__})"


def permission_words(tool: Tool) -> str:
    """The default permission of ``tool`` for a list: "auto", "ask", or on what it depends."""
    if isinstance(tool, JudgingTool):
        return str(getattr(tool, "permission_words", "depends on the call"))
    return tool.schema.permission


class ToolRegistry:
    """The tools by name."""

    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}

    def register(self, tool: Tool, *, check: bool = True, replace: bool = False) -> Callable[[], None]:
        """Add ``tool``. Returns a disposer.

        Raises DuplicateNameError when the name is taken (unless ``replace``), ToolSchemaError when the name or the
        schema can't be used. ``check=False`` leaves the schema to its first use: for tools that tests already hold.
        """
        schema = getattr(tool, "schema", None)
        if not isinstance(schema, ToolSchema) or not callable(getattr(tool, "execute", None)):
            raise ToolSchemaError(
                f"{getattr(tool, '__name__', type(tool).__name__)} is no tool: put @tool from kestrel_nb above the "
                "function, or give an object with a schema and an execute method"
            )
        name = schema.name
        if not NAME.fullmatch(name):
            raise ToolSchemaError(f'tool name "{name}": use 1 to 64 letters, digits, "_" or "-"')
        if name in self._tools and not replace:
            raise DuplicateNameError(f'a tool "{name}" is already registered; dispose of it first')
        if check:
            from .validation import check_schema

            check_schema(schema.parameters)
        self._tools[name] = tool

        def dispose() -> None:
            if self._tools.get(name) is tool:
                del self._tools[name]

        return dispose

    def get(self, name: str) -> Tool | None:
        """The tool ``name``, or None."""
        return self._tools.get(name)

    def schemas(self) -> list[ToolSchema]:
        """Every tool's schema, sorted by name: what a model is offered."""
        return [self._tools[name].schema for name in sorted(self._tools)]

    def list(self) -> list[Tool]:
        """Every tool, sorted by name."""
        return [self._tools[name] for name in sorted(self._tools)]

    @property
    def size(self) -> int:
        """How many tools are registered."""
        return len(self._tools)
