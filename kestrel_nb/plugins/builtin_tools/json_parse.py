"""json-parse: a value out of JSON text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...protocol.tools import ToolSchema
from ...runtime.tools import ToolContext, ToolExecutionResult
from ..shapes import parameters
from .answers import answer, failure
from .json_paths import PathFault, extract
from .json_reading import MAX_LEVELS, JsonFault, check_result, read_json
from .json_transforms import TRANSFORMS, TransformFault


class JsonParse:
    """``data``: result; or error (True), message.

    ``result`` is what ``path`` leads to, then transformed. The text is read as RFC 8259 has it: of two equal keys the
    last one counts, integers are exact, and a number beyond the doubles (1e400) is an error object. Paths are described
    in ``json_paths``, what the transforms give in ``json_transforms``. A text may have two million characters, a result
    100,000 values and 190 levels.
    """

    schema = ToolSchema(
        name="json-parse",
        description="Parse JSON text; optionally extract a part of it by a path, or transform it.",
        category="data",
        parallel_safe=True,
        read_only=True,
        parameters=parameters(
            {
                "input": {"type": "string", "description": "The JSON text."},
                "path": {
                    "type": "string",
                    "description": 'Path of a part, such as data.users[0].name; keys with dots as ["a.b"].',
                },
                "transform": {
                    "type": "string",
                    "description": "keys, values, flatten (one object with paths as keys) or pretty (indented text).",
                },
            },
            required=("input",),
        ),
    )

    def execute(self, args: Mapping[str, Any], context: ToolContext) -> ToolExecutionResult:
        """Parse, extract and transform; what can't be done is an error object."""
        name = args.get("transform")
        if name is not None and name not in TRANSFORMS:
            return failure(f"transform: must be one of {', '.join(TRANSFORMS)}")
        try:
            value = extract(read_json(str(args["input"])), str(args.get("path") or ""))
            context.signal.raise_if_cancelled()
            result = TRANSFORMS[name](value) if name else value
            check_result(result)
            return answer({"result": result})
        except (JsonFault, PathFault, TransformFault) as fault:
            return failure(str(fault))
        except RecursionError:
            return failure(f"nested deeper than {MAX_LEVELS} levels; extract a part of it with path")
