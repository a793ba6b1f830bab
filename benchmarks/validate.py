"""What it costs to validate arguments: the kept quick check against the library, as ratios.

Run with ``python benchmarks/validate.py``. Microseconds depend on the machine; the ratios hardly do.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jsonschema

from kestrel_nb.runtime.validation import check_schema, validate_arguments

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "File path."},
        "offset": {"type": "integer", "minimum": 1},
        "tags": {"type": "array", "items": {"type": "string"}},
        "mode": {"enum": ["a", "b"]},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    },
    "required": ["path"],
    "additionalProperties": False,
}
GOOD: dict[str, Any] = {"path": "src/a.py", "offset": 3, "tags": ["x", "y"], "mode": "a", "limit": None}
BAD: dict[str, Any] = {"path": 1, "offset": "3", "extra": True}


def micros(work: Callable[[], object], calls: int) -> float:
    """The best of five rounds, in microseconds per call."""
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(calls):
            work()
        best = min(best, time.perf_counter() - began)
    return best / calls * 1e6


def main() -> None:
    """Print one line per way."""
    check_schema(SCHEMA)
    kept = jsonschema.Draft202012Validator(SCHEMA)
    quick = micros(lambda: validate_arguments(SCHEMA, GOOD), 5000)
    ways = {
        "valid, here": quick,
        "valid, kept library validator": micros(lambda: list(kept.iter_errors(GOOD)), 300),
        "valid, jsonschema.validate()": micros(lambda: jsonschema.validate(GOOD, SCHEMA), 5),
        "invalid, here": micros(lambda: validate_arguments(SCHEMA, BAD), 300),
        "invalid, kept library validator": micros(lambda: list(kept.iter_errors(BAD)), 300),
    }
    for name, cost in ways.items():
        print(f"{name:<34}{cost:>10.1f} us{cost / quick:>9.1f}x")


if __name__ == "__main__":
    main()
