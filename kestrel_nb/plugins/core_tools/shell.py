"""shell: one command in the workspace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...protocol.tools import CommandPreview, ToolSchema
from ...runtime.tools import ToolContext, ToolExecutionResult
from ...sandbox.output import clip, without_terminal_codes
from ...sandbox.process import CommandResult
from ..commands import Order, stream_text
from ..shapes import parameters
from .settings import CoreSettings


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
        return self._order(args, context).preview()

    async def execute(self, args: Mapping[str, Any], context: ToolContext) -> ToolExecutionResult:
        """Run the command; a non-zero exit code is a result, not an error."""
        cap = self._settings.max_output_chars
        result = await self._order(args, context).run(context, cap)
        stdout = stream_text(result.stdout, result.stdout_total, cap)
        stderr = stream_text(result.stderr, result.stderr_total, cap)
        return ToolExecutionResult(
            content=_content(self._head(result, args), stdout, stderr, cap),
            data={
                "command": args["command"],
                "exit_code": result.exit_code,
                "stdout": stdout,
                "stderr": stderr,
                "timed_out": result.reason == "timeout",
            },
        )

    def _order(self, args: Mapping[str, Any], context: ToolContext) -> Order:
        return Order(
            command=args["command"],
            workspace=self._settings.workspace(context),
            cwd=args.get("cwd") or ".",
            timeout_s=self._timeout_s(args),
        )

    def _timeout_s(self, args: Mapping[str, Any]) -> float:
        ceiling = self._settings.shell_timeout_ms
        return min(int(args.get("timeout_ms") or ceiling), ceiling) / 1000

    def _head(self, result: CommandResult, args: Mapping[str, Any]) -> str:
        notes = {"timeout": f", ended after {self._timeout_s(args):g} s", "cancelled": ", cancelled"}
        return f"exit code {result.exit_code}{notes.get(result.reason, '')}"


def _content(head: str, stdout: str, stderr: str, cap: int) -> str:
    parts = [head]
    if stdout:
        parts.append(stdout.rstrip("\n"))
    if stderr:
        parts.append(f"[stderr]\n{stderr.rstrip()}" if stdout else stderr.rstrip("\n"))
    if not stdout and not stderr:
        parts.append("(no output)")
    return clip(without_terminal_codes("\n".join(parts)), cap)
