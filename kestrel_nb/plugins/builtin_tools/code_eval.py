"""code-eval: JavaScript in a process that has nothing and is killed at its limits."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from ...protocol.errors import ToolCallError
from ...protocol.tools import TextPreview, ToolSchema
from ...runtime.tools import ToolContext, ToolExecutionResult
from ...sandbox.child import ChildDied, ChildTimeout
from ...sandbox.javascript import JavaScriptError, evaluate, unavailable
from ..shapes import parameters
from .answers import answer, failure
from .config import BuiltInToolConfig


class CodeEval:
    """``data``: result, stdout, executionMs; or the error object, with executionMs and, of an exception, name, line,
    stdout.

    The result is the value of the last expression, passed through JSON. What JSON has no word for becomes a string (a
    function its source, a symbol "Symbol(x)", a bigint its digits), undefined becomes None, and so do NaN and the
    infinities. A promise is awaited: what it is fulfilled with is the result, a rejection is an error, and so is a
    promise that nothing will settle. What a value refers to in a circle can't be passed on: an error.

    ``console`` has log, info, debug, warn and error, which all write a line to ``stdout``; objects are shown as JSON.
    A first text with %s, %d, %i, %f, %j, %o or %O in it says where the items after it go.
    After 100,000 characters a last line says how many there were. A result is at most 1,000,000 characters as JSON
    and 100 levels deep.
    """

    def __init__(self, config: BuiltInToolConfig) -> None:
        ceiling = config.code_eval_timeout
        self._ceiling = ceiling
        self.schema = ToolSchema(
            name="code-eval",
            description=(
                "Run JavaScript (ECMAScript) and get the value of the last expression, passed through JSON, and what "
                "console.log wrote. A fresh context each time with the language and console alone: no files, no "
                "network, no timers, no modules, no top-level await (a promise as the last value is awaited)."
            ),
            category="code",
            parallel_safe=True,
            deterministic=False,  # it has a clock and random numbers
            read_only=True,
            parameters=parameters(
                {
                    "code": {"type": "string", "description": "JavaScript. The value of the last expression counts."},
                    "timeout": {
                        "type": "number",
                        "exclusiveMinimum": 0,
                        "description": f"Time limit in milliseconds, at most and by default {ceiling}.",
                    },
                },
                required=("code",),
            ),
        )

    @staticmethod
    def unavailable() -> str | None:
        """Why this tool can't be offered here, or None."""
        return unavailable()

    def preview(self, args: Mapping[str, Any], context: ToolContext) -> TextPreview:
        """The code, as it would run."""
        code = args["code"]
        title = f"Run JavaScript, at most {self._timeout_ms(args):g} ms"
        return TextPreview(title=title, text=code, digest=_digest(code, self._timeout_ms(args)))

    async def execute(self, args: Mapping[str, Any], context: ToolContext) -> ToolExecutionResult:
        """Run the code."""
        code, timeout_ms = args["code"], self._timeout_ms(args)
        if context.preview and context.preview.digest != _digest(code, timeout_ms):
            raise ToolCallError("the code is not what was shown; ask again", code="preview_changed")
        try:
            found = await evaluate(code, timeout_ms / 1000, context.signal.wait)
        except ChildTimeout:
            return failure("Execution timed out", executionMs=round(timeout_ms))
        except JavaScriptError as error:
            return failure(str(error), **_told(error))
        except ChildDied as error:
            return failure(f"The code ended its process: {error}")
        return answer({"result": found.result, "stdout": found.stdout, "executionMs": found.execution_ms})

    def _timeout_ms(self, args: Mapping[str, Any]) -> float:
        return min(float(args.get("timeout") or self._ceiling), self._ceiling)


def _told(error: JavaScriptError) -> dict[str, Any]:
    """What is known of an exception beside its message."""
    more = {"name": error.name, "line": error.line, "stdout": error.stdout or None}
    return {**{key: value for key, value in more.items() if value is not None}, "executionMs": error.execution_ms}


def _digest(code: str, timeout_ms: float) -> str:
    return hashlib.sha256(f"{timeout_ms:g}\0{code}".encode("utf-8", "surrogatepass")).hexdigest()
