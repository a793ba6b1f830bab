"""regex-match: JavaScript patterns, in a process that is killed when one does not come to an end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...protocol.tools import ToolSchema
from ...runtime.tools import ToolContext, ToolExecutionResult
from ...sandbox.child import ChildDied, ChildTimeout
from ...sandbox.javascript import MAX_MATCHES, PatternError, match, unavailable
from ..shapes import parameters
from .answers import answer, failure

TIMEOUT_S = 5.0  # of the specification


class RegexMatch:
    """``data`` of a search: matches, groups, matchCount; of a replacement: result, replacements; or the error object.

    Patterns, flags and replacements mean what ECMA-262 says. Without the flag g only the first match counts, in a
    search as in a replacement. ``groups`` has one object for each match when the pattern has named groups, with None
    for a group that took no part, and is empty otherwise. Matches end at 10,000, or at 5,000,000 characters of text in
    them: ``data`` then has ``truncated``, True, and ``matchCount`` counts those that are there. A replacement replaces
    all or, when its text would be longer than that, nothing.
    """

    def __init__(self) -> None:
        self.schema = ToolSchema(
            name="regex-match",
            description=(
                "Search text with a JavaScript regular expression, or replace what it matches. Without the flag g only "
                f"the first match counts; at most {MAX_MATCHES:,} matches are given."
            ),
            category="text",
            parallel_safe=True,
            read_only=True,
            parameters=parameters(
                {
                    "text": {"type": "string", "description": "Text to search in."},
                    "pattern": {"type": "string", "description": "JavaScript pattern, without slashes."},
                    "flags": {"type": "string", "default": "", "description": 'Such as "g", "gi", "gm", "u".'},
                    "replace": {
                        "type": "string",
                        "description": "Replace by this ($1, $<name>, $& and $$ work) instead of searching.",
                    },
                },
                required=("text", "pattern"),
            ),
        )

    @staticmethod
    def unavailable() -> str | None:
        """Why this tool can't be offered here, or None."""
        return unavailable()

    async def execute(self, args: Mapping[str, Any], context: ToolContext) -> ToolExecutionResult:
        """Search or replace."""
        try:
            found = await match(
                args["text"],
                args["pattern"],
                args.get("flags", ""),
                args.get("replace"),
                timeout_s=TIMEOUT_S,
                stop=context.signal.wait,
            )
        except ChildTimeout:
            return failure(f"The pattern was stopped after {TIMEOUT_S:g} s; make it simpler or the text shorter")
        except (PatternError, ChildDied) as error:
            return failure(str(error))
        if "result" in found:
            return answer({"result": found["result"], "replacements": found["replacements"]})
        truncated = {"truncated": True} if found["truncated"] else {}
        matches = found["matches"]
        return answer({"matches": matches, "groups": found["groups"], "matchCount": len(matches), **truncated})
