"""What a tool declares, and what an approval card may show of a call before it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from .messages import JsonObject

ToolPermission = Literal["auto", "ask"]
PermissionDecision = Literal["auto", "ask", "deny"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSchema:
    """A tool as models and clients see it.

    ``parameters`` is a JSON Schema of type object. ``permission`` is the default answer to "may it run?".
    ``parallel_safe`` tools that stand beside each other in one turn run together. ``deterministic`` tools give the
    same result for the same arguments whatever else there is, so a recording need not keep their results.
    ``read_only`` tools change nothing outside their run: no file, process or variable, and nothing is sent. A tool
    that does not say so counts as one that changes something. ``in_kernel`` tools change variables of this process
    that later code needs: where a recording is played they run again, while the model reads the recorded result.
    """

    name: str
    description: str
    parameters: JsonObject = field(default_factory=lambda: {"type": "object", "properties": {}})
    permission: ToolPermission = "auto"
    category: str | None = None
    parallel_safe: bool = False
    deterministic: bool = True
    read_only: bool = False
    in_kernel: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPreview:
    """Plain text that says what the call would do. ``digest`` is the hash of what it was made from, if any."""

    kind: ClassVar[str] = "text"
    title: str
    text: str
    digest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffPreview:
    """A change of one file as a unified diff. ``digest`` is the SHA-256 of the file it was made from."""

    kind: ClassVar[str] = "diff"
    path: str
    diff: str
    added: int
    removed: int
    digest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPreview:
    """A command, the folder it runs in, its time limit in seconds and the environment names it gets."""

    kind: ClassVar[str] = "command"
    command: str
    cwd: str
    timeout_s: float | None = None
    environment: tuple[str, ...] = ()
    digest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPreview:
    """An HTTP request: method, address, header names and values, body."""

    kind: ClassVar[str] = "request"
    method: str
    url: str
    headers: JsonObject = field(default_factory=dict)
    body: str | None = None
    digest: str | None = None


Preview = TextPreview | DiffPreview | CommandPreview | RequestPreview
PREVIEW_TYPES: tuple[type[Preview], ...] = (TextPreview, DiffPreview, CommandPreview, RequestPreview)

TodoState = Literal["pending", "in_progress", "completed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TodoItem:
    """One line of the task list that an agent keeps for its run."""

    text: str
    state: TodoState = "pending"


JsonValue = Any  # whatever json.dumps takes
