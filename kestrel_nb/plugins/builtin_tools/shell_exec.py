"""shell-exec: one command, started inside the sandbox folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...protocol.errors import SandboxViolationError, ToolCallError
from ...protocol.tools import CommandPreview, ToolSchema
from ...runtime.tools import ToolContext, ToolExecutionResult
from ...sandbox.output import clip, without_terminal_codes
from ...sandbox.process import CommandResult
from ..commands import Order, stream_text
from ..shapes import parameters
from .config import BuiltInToolConfig
from .sandbox import SandboxFolder

MAX_STREAM_CHARS = 100_000  # kept of each stream, as the shell tool keeps
_MODEL_CHARS = 58_000  # what the model reads must stay whole JSON below the runtime's cut of 60,000
_TRIED_CHARS = (25_000, 4_500)  # of each stream, until it fits: JSON may write six characters for one


class ShellExec:
    """``data``: stdout, stderr, exitCode, timedOut, error.

    ``error`` is None, or says why the command was ended ("Process timed out after 30000ms", exit code 143) or not
    started (exitCode None). Of each stream 100,000 characters are kept, then a line says how much there was.

    Only the folder where the command starts is confined. It gets the small environment of the shell tool, ``shell_env``
    and then ``env``, which may set any variable, also PATH and LD_PRELOAD: a card shows these names first, and ``env``
    as it is. Raises SandboxViolationError for a folder outside; everything else is told in ``error``.
    """

    def __init__(self, config: BuiltInToolConfig) -> None:
        self._folder = SandboxFolder(config)
        self._ceiling_ms = config.shell_timeout
        self._variables = dict(config.shell_env)
        self.schema = ToolSchema(
            name="shell-exec",
            description=(
                "Run a command in a shell in the sandbox folder and wait for it. There is no standard input, and "
                "processes left in the background end with the command. Not confined to the folder."
            ),
            category="shell",
            permission="ask",
            deterministic=False,
            parameters=parameters(
                {
                    "command": {"type": "string", "minLength": 1, "description": "The command line."},
                    "cwd": {
                        "type": "string",
                        "minLength": 1,
                        "description": 'Folder to start in, relative to the sandbox folder. Default ".".',
                    },
                    "timeout": {
                        "type": "number",
                        "exclusiveMinimum": 0,
                        "description": f"Time limit in milliseconds, at most and by default {self._ceiling_ms}.",
                    },
                    "env": {
                        "type": "object",
                        "additionalProperties": {"type": "string"},
                        "description": "Further environment variables, name to value.",
                    },
                },
                required=("command",),
            ),
        )

    def preview(self, args: Mapping[str, Any], context: ToolContext) -> CommandPreview:
        """The command, where it runs, its limit, and the names of its environment, the added ones first."""
        return self._order(args, context).preview()

    async def execute(self, args: Mapping[str, Any], context: ToolContext) -> ToolExecutionResult:
        """Run the command; a non-zero exit code is a result, not an error."""
        try:
            result = await self._order(args, context).run(context, MAX_STREAM_CHARS)
        except SandboxViolationError:
            raise
        except ToolCallError as error:
            return _told({"stdout": "", "stderr": "", "exitCode": None, "timedOut": False, "error": str(error)})
        return _told(
            {
                "stdout": stream_text(result.stdout, result.stdout_total, MAX_STREAM_CHARS),
                "stderr": stream_text(result.stderr, result.stderr_total, MAX_STREAM_CHARS),
                "exitCode": result.exit_code,
                "timedOut": result.reason == "timeout",
                "error": self._error(result, args),
            }
        )

    def _order(self, args: Mapping[str, Any], context: ToolContext) -> Order:
        return Order(
            command=args["command"],
            workspace=self._folder(context),
            cwd=args.get("cwd") or ".",
            timeout_s=self._timeout_ms(args) / 1000,
            variables={**self._variables, **(args.get("env") or {})},
        )

    def _timeout_ms(self, args: Mapping[str, Any]) -> float:
        return min(args.get("timeout") or self._ceiling_ms, self._ceiling_ms)

    def _error(self, result: CommandResult, args: Mapping[str, Any]) -> str | None:
        limit = round(self._timeout_ms(args), 3)
        limit = int(limit) if limit == int(limit) else limit
        reasons = {"timeout": f"Process timed out after {limit}ms", "cancelled": "Process was cancelled"}
        return reasons.get(result.reason)


def _told(data: dict[str, Any]) -> ToolExecutionResult:
    """``data``, and for the model its JSON with streams that it can read: without terminal codes, and cut to fit."""
    content = _json(data, MAX_STREAM_CHARS)
    for limit in _TRIED_CHARS:
        if len(content) > _MODEL_CHARS:
            content = _json(data, limit)
    return ToolExecutionResult(content=content, data=data, is_error=data["exitCode"] is None)


def _json(data: dict[str, Any], limit: int) -> str:
    streams = {name: clip(without_terminal_codes(data[name]), limit) for name in ("stdout", "stderr")}
    return json.dumps({**data, **streams}, ensure_ascii=False)
