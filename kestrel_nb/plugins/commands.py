"""What the shell tools share: a command as a person is shown it, the same command run, and its output as text."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..protocol.errors import ToolCallError
from ..protocol.tools import CommandPreview
from ..runtime.tools import ToolContext
from ..sandbox.output import clip, decode_output, without_terminal_codes
from ..sandbox.places import Place
from ..sandbox.process import MAX_COMMAND_BYTES, CommandResult, minimal_environment, run_command
from ..sandbox.workspace import Workspace

PROGRESS_S = 0.25
LAST_LINE = 200
MAX_VARIABLE = 200  # characters of a variable's name: a person shall be able to read it on a card


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A command, the folder it starts in, its time limit, and the variables that the call itself or the configuration
    add to the small environment. A person is shown the names of those first."""

    command: str
    workspace: Workspace
    cwd: str
    timeout_s: float
    variables: Mapping[str, str] = field(default_factory=dict)

    def preview(self) -> CommandPreview:
        """What a card shows. Raises ToolCallError when the command can't run: no such folder, no such text."""
        environment = self._environment()
        with self.workspace.open_folder(self.cwd) as place:
            return self._preview(place, environment)

    async def run(self, context: ToolContext, cap: int) -> CommandResult:
        """Run it, with at most ``cap`` characters kept of each stream.

        Raises SandboxViolationError for a folder outside, ToolCallError when it can't be started, or when the folder
        or the names of the environment are not those that a person was shown.
        """
        environment, shown = self._environment(), context.preview
        with self.workspace.open_folder(self.cwd) as place:
            if isinstance(shown, CommandPreview) and shown.digest:
                self._check(shown.digest, self._preview(place, environment).digest)
            return await run_command(
                self.command,
                cwd=place,
                timeout_s=self.timeout_s,
                max_bytes=cap * 4,  # UTF-8 has at most four bytes a character
                environment=environment,
                stop=context.signal.wait,
                on_output=_Progress(context),
            )

    def _environment(self) -> dict[str, str]:
        _check_command(self.command)
        for name, value in self.variables.items():
            _check_variable(name, value)
        return minimal_environment(self.variables)

    def _check(self, shown: str, now: str | None) -> None:
        if shown != now:
            raise ToolCallError(
                "not run: the folder or the environment changed after the command was shown; try again",
                code="command_changed",
            )

    def _preview(self, place: Place, environment: Mapping[str, str]) -> CommandPreview:
        made = CommandPreview(
            command=self.command,
            cwd=self.workspace.shown(self.workspace.resolve(self.cwd)),
            timeout_s=self.timeout_s,
            environment=(*sorted(self.variables), *sorted(set(environment) - set(self.variables))),
        )
        status = os.stat(place)
        parts = [made.command, made.cwd, made.timeout_s, made.environment, status.st_dev, status.st_ino]
        return replace(made, digest=hashlib.sha256(json.dumps(parts).encode()).hexdigest())


def _check_command(command: str) -> None:
    if not command.strip():
        raise ToolCallError("command: must not be empty")
    _check_text("command", command)
    if len(command.encode("utf-8")) > MAX_COMMAND_BYTES:
        raise ToolCallError("command: is too long; write a script to a file and run that")


def _check_variable(name: str, value: str) -> None:
    _check_text("env", name)
    if not name or "=" in name or len(name) > MAX_VARIABLE or not name.isprintable():
        raise ToolCallError(f'env: a name must be printable, of 1 to {MAX_VARIABLE} characters, and without "="')
    _check_text(f"env.{name}", value)


def _check_text(what: str, text: str) -> None:
    if "\0" in text:
        raise ToolCallError(f"{what}: must not contain a NUL character")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ToolCallError(f"{what}: must be valid Unicode, without lone surrogates") from None


def stream_text(data: bytes, total: int, cap: int) -> str:
    """One stream as text, cut at ``cap`` characters with a line that says so; ``total`` counts all its bytes."""
    text = decode_output(data, complete=len(data) == total)
    if len(data) == total:
        return clip(text, cap)
    return f"{text[:cap]}\n[cut: {min(cap, len(text)):,} characters shown of {total:,} bytes]"


class _Progress:
    """The last line of output as a status line, now and then."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._next = 0.0

    def __call__(self, stream: str, data: bytes) -> None:
        if time.monotonic() < self._next:
            return
        lines = without_terminal_codes(decode_output(data[-4096:])).split("\n")
        line = next((line.strip() for line in reversed(lines) if line.strip()), "")
        if line:
            self._next = time.monotonic() + PROGRESS_S
            self._context.progress(line[:LAST_LINE])
