"""What the demo model answers: calls that do not fit a tool, tools that are not there, refusals, rows, long output."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kestrel_nb.app import Kestrel
from kestrel_nb.protocol.messages import create_message
from kestrel_nb.protocol.tools import ToolSchema
from kestrel_nb.providers.demo.model import reply
from kestrel_nb.providers.demo.offered import KNOWN_TOOLS, Step
from kestrel_nb.runtime.models import CompletionRequest

TABLE = json.loads((Path(__file__).parents[1] / "data/demo/requests.json").read_text(encoding="utf-8"))
TEXT, WHOLE = {"type": "string"}, {"type": "integer"}


def tool(name: str, required: Sequence[str] = (), /, **properties: dict[str, Any]) -> ToolSchema:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return ToolSchema(name=name, description=name, parameters=schema)


GREP = tool("grep", ["pattern"], pattern=TEXT, path=TEXT)
READ = tool("read_file", ["path"], path=TEXT)
OWN = (
    tool("by_city", ["month"], month=TEXT),
    tool("total", ["a", "b"], a=WHOLE, b=WHOLE),
    tool("summarise_sales", [], region=TEXT, year=WHOLE),
    tool("pair", ["left", "right"], left=TEXT, right=TEXT),
    GREP,
    READ,
)


def say(text: str, tools: Sequence[ToolSchema]) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
    request = CompletionRequest(model="demo", messages=(create_message("user", text),), tools=tuple(tools), signal=None)
    told, steps = reply(request)
    return told, [_call(step) for step in steps]


def _call(step: Step) -> tuple[str, dict[str, Any]]:
    return step.tool, step.arguments


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("use by_city with moonth=jan", "by_city has no parameter moonth; it has: month"),
        ("by_city(moonth='jan')", "by_city has no parameter moonth; it has: month"),
        ("by_city moonth=jan", "by_city has no parameter moonth; it has: month"),
        ('call by_city with {"moonth": "jan"}', "by_city has no parameter moonth; it has: month"),
        ("use by_city with month=jan and year=3", "by_city has no parameter year; it has: month"),
        ('use summarise_sales with region="x" and yeer=3', "has no parameter yeer; it has: region, year"),
        ("use grep with patern=x", "grep has no parameter patern; it has: pattern, path"),
        ("use by_city", "by_city needs month; for example: use by_city with month=..."),
        ("by_city", "by_city needs month; for example: use by_city with month=..."),
        ("use by_city with month", "by_city needs month; for example"),
        ("use by_city with by_city", "by_city needs month; for example"),
        ("use by_city with moonth jan", "by_city needs month; for example"),
        ("use by_city to find the best month", "by_city needs month; for example"),
        ("use pair with left right", "pair needs left and right; for example: use pair with left=..., right=..."),
        ("use pair for ann bob", "pair needs left and right; for example"),
        ("use total with a=1", "total needs b; for example: use total with a=..., b=..."),
        ("run total", "total needs a and b; for example"),
        ("use total with a=1, b=x", "total can't take `x` for b; it takes a whole number"),
        ("use read_file", "read_file needs path; for example"),
        ("use by_town with month=jan", "There is no tool `by_town` here. The nearest is `by_city`. The tools here: "),
        ("use the tool By_Citty", "There is no tool `By_Citty` here. The nearest is `by_city`."),
    ],
)
def test_a_call_that_does_not_fit_is_not_guessed(text: str, told: str) -> None:
    answer, calls = say(text, OWN)
    assert calls == []
    assert told in answer
    assert "I did nothing." in answer


@pytest.mark.parametrize("text", ["show me by city", "which city is best", "tell me about the city of jan hansen"])
def test_words_of_a_name_alone_are_no_values(text: str) -> None:
    assert say(text, OWN)[1] == []


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("use by_city with month=jan", {"month": "jan"}),
        ("use by_city with 'jan feb'", {"month": "jan feb"}),
        ("use by_city for jan", {"month": "jan"}),
        ("run by_city on jan-feb", {"month": "jan-feb"}),
        ("by city for march", {"month": "march"}),
        ("use by_city with month = 'moonth=3'", {"month": "moonth=3"}),
        ("use by_city for the month jan", {"month": "jan"}),
    ],
)
def test_values_are_what_was_written_as_values(text: str, arguments: dict[str, Any]) -> None:
    assert say(text, OWN)[1] == [("by_city", arguments)]


def test_help_shows_how_a_users_own_tools_are_called() -> None:
    told = say("help", OWN)[0]
    assert "`use by_city with month='text'`" in told
    assert "`use total with a=3, b=3`" in told
    assert "use grep with" not in told


def test_a_tool_that_is_not_there_is_named_alone() -> None:
    told = say("run the command `ls`", [GREP])[0]
    assert "I understood `` run the command `ls` ``, but it needs the tool `shell`, which this run does not" in told
    assert "shell-exec" not in told


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("hey dude, wanna peek at me notes??", "`hey dude, wanna peek at me notes??`"),
        ("Could you please frobnicate “it”, please?", "`Could you please frobnicate “it”, please?`"),
        ("read README.md and gimme 'a' „b“ dance!", "`gimme 'a' „b“ dance!`"),
        ("frobnicate ```x``` and {\"a\": 'b'}", "```` frobnicate ```x``` and {\"a\": 'b'} ````"),
    ],
)
def test_what_is_not_understood_is_quoted_as_written(text: str, quoted: str) -> None:
    assert f"I did not understand {quoted}, so I did nothing." in say(text, [READ, GREP])[0]


def everything() -> list[ToolSchema]:
    return [tool(name, [], path=TEXT, pattern=TEXT, command=TEXT, content=TEXT) for name in sorted(KNOWN_TOOLS)]


def clean(text: str, tools: Sequence[ToolSchema]) -> bool:
    told, calls = say(text, tools)
    return not any(mark in f"{told}{calls!r}" for mark in ("\ue000", "\ue001", "\\ue000", "\\ue001", "▯"))


def test_no_request_of_the_table_leaks_a_placeholder() -> None:
    for row in TABLE:
        for tools in ((), [GREP], [*OWN, READ], everything()):
            assert clean(row["request"], tools), row["request"]


def test_no_random_request_leaks_a_placeholder() -> None:
    chance = random.Random(7)
    words = [word for row in TABLE for word in row["request"].split()]
    pieces = [
        *words,
        "`ls`",
        "a`b`c",
        '"x y"',
        "'q'",
        "{1: 'a'}",
        "```\nz\n```",
        "month=`a`b",
        "by_city",
        "use",
        "/`x`/",
    ]
    for _ in range(300):
        text = " ".join(chance.choices(pieces, k=chance.randint(1, 8)))
        text += "".join(chance.choices(string.printable, k=chance.randint(0, 3)))
        assert clean(text, [GREP]), text
        assert clean(text, [*OWN, *everything()]), text


@pytest.mark.parametrize("path", ["/etc/passwd", "../../../../etc/passwd", "/etc"])
async def test_a_path_outside_is_refused_in_plain_words(app: Kestrel, path: str) -> None:
    told = (await app.ask(f"read {path}")).text
    assert told.startswith(f"I could not read `{path}`, as that is not allowed here: it lies outside the workspace.")
    assert "SANDBOX" not in told
    assert "failed" not in told


async def test_rows_of_a_table_are_counted_without_the_header(app: Kestrel) -> None:
    result = await app.ask("how many rows does data/sales.csv have")
    assert "6 rows in `data/sales.csv` (7 lines, the first a header)." in result.text
    session = app.sessions.create()
    await session.start("how many rows does data/sales.csv have")
    said = [message.content for message in session.detail().messages if message.tool_calls]
    assert said == ["Counting the lines."]
    assert "4 lines in `config.toml`." in (await app.ask("how many lines does config.toml have")).text


async def yes(*_: Any) -> bool:
    return True


async def test_short_output_of_a_command_is_shown_whole(app: Kestrel) -> None:
    told = (await app.ask("run `seq 101 120`", approve=yes)).text
    assert all(str(number) in told for number in range(101, 121))
    assert "left out" not in told
    assert "left out" in (await app.ask("run `seq 101 121`", approve=yes)).text
