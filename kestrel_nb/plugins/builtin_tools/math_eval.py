"""math-eval: the value of an arithmetic expression."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...protocol.tools import ToolSchema
from ...runtime.tools import ToolContext, ToolExecutionResult
from ..shapes import parameters
from .answers import failure
from .arithmetic import MAX_LENGTH, ArithmeticFault, evaluate

SHOWN = 1_000  # characters of an expression that is repeated to a model


class MathEval:
    """``data``: expression, result; or error (True), message, expression.

    Numbers are doubles, as in JavaScript: ``result`` is an int where JavaScript prints a whole number (2^10 is 1024;
    beyond 2^53 the digits after the 17th are zeros, as there), otherwise a float. ``^`` is right-associative and binds
    tighter than a sign: -2^2 is -4, 2^3^2 is 512. ``%`` keeps the sign of its left side (-7 % 3 is -1), round rounds
    halves up (round(-2.5) is -2), log is natural. A result that is not a finite number is an error object; what is not
    finite on the way is as in JavaScript (1/(1/0) is 0). ``random`` is another number from 0 to 1 each time. In an
    error object, and in what the model reads, a long expression is cut.
    """

    schema = ToolSchema(
        name="math-eval",
        description=(
            "Compute an arithmetic expression: + - * / % ^ (power), parentheses, sqrt abs ceil floor round sin cos tan "
            "log (natural) log2 log10 min max, pi, e, random. Angles are in radians."
        ),
        category="math",
        parallel_safe=True,
        read_only=True,
        deterministic=False,  # random
        parameters=parameters(
            {"expression": {"type": "string", "description": f'Such as "2 * pi + sqrt(16)"; to {MAX_LENGTH:,} signs.'}},
            required=("expression",),
        ),
    )

    def execute(self, args: Mapping[str, Any], context: ToolContext) -> ToolExecutionResult:
        """Compute; what can't be computed is an error object."""
        expression = str(args["expression"])
        short = expression if len(expression) <= SHOWN else f"{expression[:SHOWN]}…"
        try:
            result = evaluate(expression)
        except ArithmeticFault as fault:
            return failure(str(fault), expression=short)
        content = json.dumps({"expression": short, "result": result}, ensure_ascii=False)
        return ToolExecutionResult(content=content, data={"expression": expression, "result": result})
