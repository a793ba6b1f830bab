"""The two ways in which a built-in tool answers: with its data, or with an error object."""

from __future__ import annotations

import json
from typing import Any

from ...runtime.tools import ToolExecutionResult


def answer(data: dict[str, Any]) -> ToolExecutionResult:
    """``data``, which the model reads as JSON."""
    return ToolExecutionResult(content=json.dumps(data, ensure_ascii=False), data=data)


def failure(message: str, **more: Any) -> ToolExecutionResult:
    """The error object ``{error: True, message, ...}``: a failure that a caller reads instead of catching it."""
    data = {"error": True, "message": message, **more}
    return ToolExecutionResult(content=json.dumps(data, ensure_ascii=False), data=data, is_error=True)
