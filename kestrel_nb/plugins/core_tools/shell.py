"""shell: one command in the workspace."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ...protocol.errors import ToolCallError
from ...protocol.tools import CommandPreview, ToolSchema
from ...runtime.tools import ToolContext, ToolExecutionResult
from ...sandbox.output import clip, decode_output, without_terminal_codes
from ...sandbox.process import MAX_COMMAND_BYTES, CommandResult, minimal_environment, run_command
from ..shapes import parameters
from .settings import CoreSettings

PROGRESS_S = 0.25
LAST_LINE = 200


class Shell:
    """``data``: command, exit_code, stdout, stderr, timed_out. Exit code 143 when it was ended for us."""

    def __init__(self, settings: CoreSettings) -> None:
        self._settings = settings
        ceiling = settings.shell_timeout_ms
        self.schema = ToolSchema(
            name="shell",
            description=(
                "Run a command in a shell in the workspace and wait for it. There is no standard input, and processes "
                "left in the background end with the command. Not confined to the workspace."
            ),
            category="shell",
            permission=settings.shell_permission,
            deterministic=False,
            parameters=parameters(
                {
                    "command": {"type": "string", "minLength": 1, "description": "The command line."},
                    "timeout_ms": {
                        "type": "integer",
                        "minimum": 1,
                        "description": f"Time limit in milliseconds, at most and by default {ceiling}.",
                    },
                    "cwd": {"type": "string", "minLength": 1, "description": 'Folder in the workspace. Default ".".'},
                },
                required=("command",),
            ),
        )

    def preview(self, args: Mapping[str, Any], context: ToolContext) -> CommandPreview:
        """The command, where it runs, and what it gets."""
        workspace = self._settings.workspace(context)
        real = workspace.resolve(args.get("cwd") or ".")
        return CommandPreview(
            command=_checked(args["command"]),
            cwd=workspace.shown(real),
            timeout_s=self._timeout_s(args),
            environment=tuple(sorted(minimal_environment())),
        )

    async def execute(self, args: Mapping[str, Any], context: ToolContext) -> ToolExecutionResult:
        """Run the command; a non-zero exit code is a result, not an error."""
        command, cap = _checked(args["command"]), self._settings.max_output_chars
        workspace = self._settings.workspace(context)
        with workspace.open_folder(args.get("cwd") or ".") as cwd:
            result = await run_command(
                command,
                cwd=cwd,
                timeout_s=self._timeout_s(args),
                max_bytes=cap * 4,  # UTF-8 has at most four bytes a character
                environment=minimal_environment(),
                stop=context.signal.wait,
                on_output=_Progress(context),
            )
        stdout = _text(result.stdout, result.stdout_total, cap)
        stderr = _text(result.stderr, result.stderr_total, cap)
        return ToolExecutionResult(
            content=_content(self._head(result, args), stdout, stderr, cap),
            data={
                "command": command,
                "exit_code": result.exit_code,
                "stdout": stdout,
                "stderr": stderr,
                "timed_out": result.reason == "timeout",
            },
        )

    def _timeout_s(self, args: Mapping[str, Any]) -> float:
        ceiling = self._settings.shell_timeout_ms
        return min(int(args.get("timeout_ms") or ceiling), ceiling) / 1000

    def _head(self, result: CommandResult, args: Mapping[str, Any]) -> str:
        notes = {"timeout": f", ended after {self._timeout_s(args):g} s", "cancelled": ", cancelled"}
        return f"exit code {result.exit_code}{notes.get(result.reason, '')}"


def _checked(command: str) -> str:
    if not command.strip():
        raise ToolCallError("command: must not be empty")
    if "\0" in command:
        raise ToolCallError("command: must not contain a NUL character")
    try:
        size = len(command.encode("utf-8"))
    except UnicodeEncodeError:
        raise ToolCallError("command: must be valid Unicode, without lone surrogates") from None
    if size > MAX_COMMAND_BYTES:
        raise ToolCallError("command: is too long; write a script with write_file and run that")
    return command


def _text(data: bytes, total: int, cap: int) -> str:
    """One stream as text, cut at ``cap`` characters with a line that says so."""
    text = decode_output(data, complete=len(data) == total)
    if len(data) == total:
        return clip(text, cap)
    return f"{text[:cap]}\n[cut: {min(cap, len(text)):,} characters shown of {total:,} bytes]"


def _content(head: str, stdout: str, stderr: str, cap: int) -> str:
    parts = [head]
    if stdout:
        parts.append(stdout.rstrip("\n"))
    if stderr:
        parts.append(f"[stderr]\n{stderr.rstrip()}" if stdout else stderr.rstrip("\n"))
    if not stdout and not stderr:
        parts.append("(no output)")
    return clip(without_terminal_codes("\n".join(parts)), cap)


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
