"""Calling a built-in tool through the real loop, and reading what came of it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from stage import Stage

from kestrel_nb.runtime.tools import Tool
from kestrel_nb.testing import Reply, ScriptedModel

DATA = Path(__file__).parents[2] / "data"


async def calls(tool: Tool, arguments: Iterable[Mapping[str, Any]]) -> list[Any]:
    """The data of each call, in order: one turn of a model that makes them all, checked as every run is.

    Arguments that the schema refuses give {"schema_error": text}. A tool that throws fails the test.
    """
    name = tool.schema.name
    stage = Stage(ScriptedModel([Reply(tool_calls=[(name, dict(args)) for args in arguments]), "done"]), [tool])
    result = await stage.ask()
    assert result.status == "completed"
    stage.check()
    ended = {event.call_id: event for event in stage.events if event.type in ("tool.executed", "tool.failed")}
    made = [call.id for message in stage.session.messages for call in message.tool_calls]
    return [_data(ended[call]) for call in made]


async def call(tool: Tool, **arguments: Any) -> Any:
    """The data of one call."""
    return (await calls(tool, [arguments]))[0]


def _data(event: Any) -> Any:
    if event.type == "tool.failed":
        assert event.error.startswith("Invalid arguments"), event.error
        return {"schema_error": event.error}
    assert_json_safe(event.data)
    assert event.is_error == (isinstance(event.data, dict) and event.data.get("error") is True)
    content = json.loads(event.content) if len(event.content) < 50_000 else event.data
    assert isinstance(content, dict)
    assert set(content) == set(event.data)
    return event.data


def assert_json_safe(value: Any) -> None:
    """No NaN, no infinity, no lone surrogate anywhere."""
    json.dumps(value, allow_nan=False, ensure_ascii=False).encode("utf-8")


def is_failure(data: Any) -> bool:
    """Whether ``data`` is an error object with a usable message: one line, for people, naming nothing of the inside."""
    if not (isinstance(data, dict) and data.get("error") is True):
        return False
    message = data["message"]
    assert message
    assert "\n" not in message
    assert len(message) < 600, message
    assert "Traceback" not in message
    assert "0x" not in message
    return True


def rows_of(theme: str) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The rows of a theme that run, and those that are excluded with their reasons."""
    text = (DATA / theme / "rows.jsonl").read_text("utf-8")
    rows = [json.loads(line) for line in text.split("\n") if line]
    excluded = json.loads((DATA / theme / "excluded.json").read_text("utf-8"))
    assert set(excluded) <= {row["id"] for row in rows}
    return [row for row in rows if row["id"] not in excluded], excluded


def is_close(left: Any, right: Any) -> bool:
    """Equal but for the last digits of a double."""
    return math.isclose(left, right, rel_tol=1e-14, abs_tol=0)
