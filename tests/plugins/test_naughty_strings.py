"""Naughty strings as every text argument of every tool, in a real app: each call runs, or fails with a message.

What a shell would execute is given to it quoted. Tools whose calls each start a process get a sample: of the rows in
order, those whose number leaves the same rest as the number of the argument when divided by the tool's of ``STRIDES``.
"""

from __future__ import annotations

import json
import re
import shlex
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kestrel_nb import BuiltInToolConfig, Kestrel, KestrelConfig
from kestrel_nb.plugins.builtin_tools.config import BUILT_IN_TOOLS
from kestrel_nb.plugins.builtin_tools.plugin import BuiltInTools
from kestrel_nb.plugins.builtin_tools.search_provider import SearchResult
from kestrel_nb.plugins.core_tools.plugin import CoreTools
from kestrel_nb.protocol.sessions import ModelInfo
from kestrel_nb.runtime.models import CompletionRequest, CompletionResponse, DeltaListener
from kestrel_nb.runtime.plugins import Plugin
from kestrel_nb.runtime.run import RunOptions
from kestrel_nb.sandbox.network import Network
from kestrel_nb.testing import Reply, ScriptedModel

FILE = Path(__file__).parents[1] / "data/naughty/naughty.jsonl"
TEXTS = [json.loads(line)["input"]["text"] for line in FILE.read_text("utf-8").split("\n") if line]
STRIDES = {"shell": 17, "shell-exec": 17, "code-eval": 3, "regex-match": 5, "database-query": 5}
AT_ONCE = 40  # calls of one turn
PIXEL = "data:image/png;base64," + (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
BASE: dict[str, dict[str, Any]] = {
    "read_file": {"path": "notes.txt"},
    "list_dir": {"path": "."},
    "glob": {"pattern": "*.txt"},
    "grep": {"pattern": "one"},
    "write_file": {"path": "new.txt", "content": "text"},
    "edit_file": {"path": "notes.txt", "old_string": "two", "new_string": "three"},
    "shell": {"command": "true"},
    "web_fetch": {"url": "https://example.org/"},
    "todo_write": {"todos": [{"text": "one", "state": "pending"}]},
    "finish": {"summary": "done"},
    "http-fetch": {"url": "https://example.org/", "method": "POST"},
    "date-time": {},
    "json-parse": {"input": '{"a": 1}'},
    "math-eval": {"expression": "1"},
    "regex-match": {"text": "one", "pattern": "o"},
    "image-describe": {"url": PIXEL},
    "web-search": {"query": "one"},
    "file-read": {"path": "notes.txt"},
    "file-write": {"path": "new.txt", "content": "text"},
    "shell-exec": {"command": "true"},
    "code-eval": {"code": "1"},
    "database-query": {"query": "SELECT ?", "params": ["one"]},
}
"""For every tool a call that works; one argument after the other is replaced."""


class Seeing:
    """A model that sees images, and says what it was asked."""

    info = ModelInfo(id="seeing", provider="test", supports_images=True)

    async def generate(self, request: CompletionRequest, on_delta: DeltaListener | None = None) -> CompletionResponse:
        return CompletionResponse(content=request.messages[-1].content or "nothing", finish_reason="stop")


class Search:
    async def search(self, query: str, max_results: int) -> Sequence[SearchResult]:
        return [SearchResult(title=query, url="https://example.org/", snippet=query)]


def nobody(name: str) -> Sequence[str]:
    raise OSError(f"{name} is not known here")


def app_in(folder: Path, model: Any) -> Kestrel:
    """An app with all tools, the demo workspace, and a network that knows no name."""
    workspace = folder / "workspace"
    workspace.mkdir()
    (workspace / "notes.txt").write_text("one\ntwo\n", encoding="utf-8")
    database = folder / "one.db"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE one (two TEXT)")
    connection.close()
    config = BuiltInToolConfig(enabled=BUILT_IN_TOOLS, database_path=database, web_search_provider=Search())
    network = Network(resolve=nobody)
    plugins: list[Plugin | str] = [CoreTools(network=network), BuiltInTools(config, network=network)]
    return Kestrel(model=model, workspace=workspace, plugins=plugins, config=KestrelConfig(plugins=()))


def places(schema: Mapping[str, Any], value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where texts stand in arguments of ``schema``; "KEY" in the place of a name that may be any."""
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    if "string" in kinds or (kind is None and not {"properties", "items", "enum"} & set(schema)):
        yield path
    if "object" in kinds:
        for name, inner in schema.get("properties", {}).items():
            yield from places(inner, value.get(name) if isinstance(value, dict) else None, (*path, name))
        more = schema.get("additionalProperties", True)
        if more:
            yield (*path, "KEY")
            yield (*path, "one")
    if "array" in kinds:
        yield from places(schema.get("items", {}), None, (*path, 0))


def put(value: Any, path: tuple[Any, ...], text: str) -> Any:
    """``value`` with ``text`` at ``path``; what is on the way is made."""
    if not path:
        return text
    step, rest = path[0], path[1:]
    if step == 0:
        items = list(value) if isinstance(value, list) else []
        return [put(items[0] if items else {}, rest, text), *items[1:]]
    found = dict(value) if isinstance(value, dict) else {}
    if step == "KEY":
        return {**found, text: "one"}
    return {**found, step: put(found.get(step), rest, text)}


def calls_of(tool: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The arguments of every call to make, that which works first."""
    calls, stride = [BASE[tool]], STRIDES.get(tool, 1)
    for number, path in enumerate(places(parameters, BASE[tool])):
        for row, text in enumerate(TEXTS):
            if row % stride != number % stride:
                continue
            harmless = f"printf %s {shlex.quote(text)}" if path == ("command",) else text
            calls.append(put(BASE[tool], path, harmless))
    return calls


@pytest.mark.parametrize("tool", BASE)
async def test_a_naughty_string_is_an_argument_like_any_other(tool: str, tmp_path: Path) -> None:
    model = ScriptedModel([])
    async with app_in(tmp_path, model) as app:
        await app.initialize()
        app.models.register(Seeing())
        assert {tool.schema.name for tool in app.tools.list()} == set(BASE)
        found = app.tools.get(tool)
        assert found is not None
        calls = calls_of(tool, found.schema.parameters)
        assert len(calls) > len(TEXTS) // STRIDES.get(tool, 1)
        events: list[Any] = []
        app.sessions.subscribe(events.append)
        at_once = 1 if tool == "finish" else AT_ONCE  # what comes after it in a turn is not run
        for start in (0, *range(1, len(calls), at_once)):
            batch = calls[start : start + at_once] if start else calls[:1]
            model = ScriptedModel([Reply(tool_calls=[(tool, call) for call in batch]), "done"], id=f"m{start}")
            app.models.register(model)
            session = app.sessions.create(workspace=str(app.workspace), model=f"m{start}")
            result = await session.start("go", options=RunOptions(approve=approve))
            assert result.status == "completed"
    ended = [event for event in events if event.type in ("tool.executed", "tool.failed", "tool.skipped")]
    assert len(ended) == len(calls)
    for event in ended:
        check(event)
    assert ended[0].type == "tool.executed" or tool == "web_fetch"  # there is no network


async def approve(*_: Any) -> bool:
    return True


def check(event: Any) -> None:
    """The call ran, or failed with words for a person; whatever came can be stored and sent."""
    assert event.type != "tool.skipped", event.reason
    if event.type == "tool.failed":
        assert event.error
        assert not re.match(r"\w*(?:Error|Exception|Interrupt|Warning)\b", event.error), (event.arguments, event.error)
        assert "Traceback" not in event.error
        event.error.encode("utf-8")
    else:
        event.content.encode("utf-8")
        json.dumps(event.data, ensure_ascii=False, allow_nan=False).encode("utf-8")
        assert "Traceback" not in event.content
