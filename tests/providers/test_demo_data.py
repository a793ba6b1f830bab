"""What the demo model makes of requests about the user's data: right code, honest refusals, nothing guessed."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
import pytest

from kestrel_nb.notebook.disclosure import brief, disclose
from kestrel_nb.notebook.interpolation import interpolate
from kestrel_nb.protocol.messages import ChatMessage, TextPart, ToolCallPart, create_message, tool_message
from kestrel_nb.protocol.tools import ToolSchema
from kestrel_nb.providers.demo.model import reply
from kestrel_nb.providers.demo.requests import understand
from kestrel_nb.runtime.models import CompletionRequest

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests/data/demo"
REQUESTS = json.loads((DATA / "data_requests.json").read_text(encoding="utf-8"))
FILES = json.loads((DATA / "requests.json").read_text(encoding="utf-8"))
PENGUINS = pd.read_csv(ROOT / "notebooks/data/penguins.csv")
TEXT = {"type": "string"}


def tool(name: str, required: Sequence[str] = (), /, **properties: dict[str, Any]) -> ToolSchema:
    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return ToolSchema(name=name, description=name, parameters=schema)


KERNEL = (
    tool("run_python", ["code"], code=TEXT),
    tool("list_variables"),
    tool("inspect_variable", ["name"], name=TEXT, level=TEXT, rows={"type": "integer"}),
    tool("insert_cell", ["code"], code=TEXT),
)
FOLDER = (
    tool("list_dir", [], path=TEXT),
    tool("read_file", ["path"], path=TEXT),
    tool("glob", ["pattern"], pattern=TEXT, path=TEXT),
    tool("grep", ["pattern"], pattern=TEXT, path=TEXT, glob=TEXT),
    tool("shell", ["command"], command=TEXT),
    tool("write_file", ["path", "content"], path=TEXT, content=TEXT),
    tool("edit_file", ["path", "old_string", "new_string"], path=TEXT, old_string=TEXT, new_string=TEXT),
    tool("todo_write", ["todos"], todos={"type": "array"}),
)


@dataclass
class Talk:
    """One request to its end: the calls, the last value of each piece of code, the answer."""

    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    answer: str = ""
    axes: Any = None

    @property
    def code(self) -> str:
        return "\n".join(call[1]["code"] for call in self.calls if call[0] == "run_python")


def talk(request: str, tools: Sequence[ToolSchema] = KERNEL, /, **variables: Any) -> Talk:
    """``request`` as a cell sends it, with tools that answer from ``variables``."""
    done = Talk()
    messages: list[ChatMessage] = [create_message("user", interpolate(request, variables).text)]
    for turn in range(10):
        told, steps = reply(CompletionRequest(model="demo", messages=tuple(messages), tools=tuple(tools), signal=None))
        if not steps:
            done.answer = told
            return done
        calls = [
            ToolCallPart(
                id=f"call_{turn}_{n}", name=s.tool, arguments=s.arguments, raw_arguments=json.dumps(s.arguments)
            )
            for n, s in enumerate(steps)
        ]
        messages.append(create_message("assistant", [TextPart(text=told), *calls]))
        done.calls += [(step.tool, step.arguments) for step in steps]
        messages += [tool_message(c, answer(done, c.name, dict(c.arguments or {}), variables)) for c in calls]
    raise AssertionError("it goes on for ever")


def answer(done: Talk, name: str, arguments: dict[str, Any], variables: dict[str, Any]) -> str:
    if name == "list_variables":
        return "\n".join(f"{key}: {brief(value)}" for key, value in sorted(variables.items()))
    if name == "inspect_variable":
        return f"{arguments['name']}: {disclose(variables[arguments['name']]).text}"
    value = run(arguments["code"], variables)
    done.values.append(value)
    done.axes = axes()
    return "" if value is None else disclose(value).text


def run(code: str, variables: dict[str, Any]) -> Any:
    """The last value of ``code``, with ``variables`` as the namespace, which gets no other name without _."""
    names: dict[str, Any] = dict(variables)
    *first, last = ast.parse(code).body
    exec(compile(ast.Module(first, []), "code", "exec"), names)
    value = None
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), "code", "eval"), names)
    new = {name for name in names if not name.startswith("_")} - set(variables) - {"plt"}
    assert new == set(), "the code leaves names behind"
    return value


def axes() -> Any:
    import matplotlib.pyplot as plt

    return plt.gcf().axes[0] if plt.get_fignums() else None


@pytest.fixture(autouse=True)
def _figures(monkeypatch: pytest.MonkeyPatch) -> Any:
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    monkeypatch.setattr(plt, "show", lambda: None)
    yield
    plt.close("all")


def same(value: Any, expected: Any) -> bool:
    """Whether the numbers are the same, whichever of them is the index."""
    if isinstance(value, pd.DataFrame) and isinstance(expected, pd.DataFrame):
        return value.equals(expected)
    if isinstance(value, pd.DataFrame):
        return sorted(map(str, value.itertuples(index=False, name=None))) == sorted(
            map(str, expected.reset_index().itertuples(index=False, name=None))
        )
    return bool(value == pytest.approx(expected))


def test_the_requests_are_many_and_none_stands_twice() -> None:
    requests = [row["request"] for row in REQUESTS]
    assert len(requests) >= 40
    assert len(set(requests)) == len(requests)


@pytest.mark.parametrize("row", REQUESTS, ids=[row["request"][:60] for row in REQUESTS])
def test_requests_about_data(row: dict[str, Any]) -> None:
    done = talk(row["request"], penguins=PENGUINS, threshold=3)
    if "calls" in row:
        assert [[name, arguments] for name, arguments in done.calls] == row["calls"]
    elif "gives" in row:
        assert same(done.values[-1], eval(row["gives"], {"penguins": PENGUINS}))
    elif "plots" in row:
        check_figure(done.axes, row["plots"])
    else:
        assert done.values == []
        assert row.get("says", "rule model and no AI") in done.answer


def check_figure(ax: Any, expected: dict[str, Any]) -> None:
    legend = ax.get_legend()
    assert ax.get_xlabel() == expected["x"]
    assert ax.get_ylabel() == expected.get("y", "count")
    assert ax.get_title()
    assert [text.get_text() for text in legend.get_texts()] if legend else expected["groups"] == []
    drawn = {"scatter": ax.collections, "hist": ax.patches, "bar": ax.patches, "box": ax.lines, "line": ax.lines}
    assert drawn[expected["kind"]]
    if legend:
        assert [text.get_text() for text in legend.get_texts()] == expected["groups"]
