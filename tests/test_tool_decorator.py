"""``@tool``: signatures, docs, conversion of arguments, returned values, and the messages for what can't be a tool."""

import asyncio
import enum
import functools
import inspect
import json
import logging
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
import pytest
from pydantic import AfterValidator, BaseModel, Field

from kestrel_nb.frames import frame_data, to_frame
from kestrel_nb.protocol.errors import ToolCallError, ToolSchemaError
from kestrel_nb.runtime.signals import CancelSignal
from kestrel_nb.runtime.tools import ToolContext, ToolExecutionResult, ToolRegistry
from kestrel_nb.runtime.validation import format_validation_issues, validate_arguments
from kestrel_nb.tool import FunctionTool, tool


@dataclass
class Session:
    id: str = "s1"
    workspace: str = "."
    messages: tuple[Any, ...] = ()
    metadata: dict[str, Any] = None  # type: ignore[assignment]


def context() -> ToolContext:
    return ToolContext(session=Session(), call_id="c1", signal=CancelSignal(), logger=logging.getLogger("test"))


def run(a_tool: FunctionTool[..., Any], **args: Any) -> ToolExecutionResult:
    """Check the arguments as the runtime does, then execute."""
    issues = validate_arguments(a_tool.schema.parameters, args)
    assert not issues, format_validation_issues(issues)
    result = a_tool.execute(args, context())
    if inspect.isawaitable(result):

        async def wait() -> ToolExecutionResult:
            return await result

        return asyncio.run(wait())
    return result


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


class Place(BaseModel):
    name: str
    at: Point


def test_bare_decorator_takes_everything_from_the_function() -> None:
    @tool
    def word_count(text: str, minimum: int = 1) -> int:
        """Count the words of a text.

        Words shorter than the minimum are left out.

        Args:
            text: What to count in.
            minimum: Shortest word that counts.
        """
        return sum(len(word) >= minimum for word in text.split())

    assert word_count("a bb ccc", 2) == 2
    assert word_count.__name__ == "word_count"
    assert word_count.schema.name == "word_count"
    assert word_count.schema.description == "Count the words of a text.\n\nWords shorter than the minimum are left out."
    assert word_count.schema.parameters == {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "What to count in."},
            "minimum": {"type": "integer", "default": 1, "description": "Shortest word that counts."},
        },
        "required": ["text"],
        "additionalProperties": False,
    }
    assert run(word_count, text="a bb ccc", minimum=2) == ToolExecutionResult(content="2", data=2)
    ToolRegistry().register(word_count)


def test_settings_by_keyword() -> None:
    @tool(name="say-it", description="Says it.", permission="ask", parallel_safe=True, category="talk")
    def say() -> str:
        return "it"

    schema = say.schema
    assert (schema.name, schema.description, schema.permission) == ("say-it", "Says it.", "ask")
    assert (schema.parallel_safe, schema.category) == (True, "talk")
    assert schema.parameters == {"type": "object", "properties": {}, "additionalProperties": False}
    assert run(say).content == "it"


@pytest.mark.parametrize(
    "doc",
    [
        "Say.\n\nArgs:\n    who: The person.\n    loud (bool): Shout.\n",
        "Say.\n\nParameters\n----------\nwho : str\n    The person.\nloud : bool, optional\n    Shout.\n",
        "Say.\n\n:param who: The person.\n:param bool loud: Shout.\n",
    ],
    ids=["google", "numpy", "rest"],
)
def test_docs_of_parameters_in_three_styles(doc: str) -> None:
    def say(who: str, loud: bool = False) -> str:
        return who

    say.__doc__ = doc
    schema = tool(say).schema
    properties = schema.parameters["properties"]
    assert schema.description == "Say."
    assert properties["who"]["description"] == "The person."
    assert properties["loud"]["description"] == "Shout."


def test_odd_docstrings_do_no_harm() -> None:
    def nothing(x: int) -> None: ...

    for doc in (None, "", "   ", "Args:", "Just: a: colon", ":param", "Raises:\n  x", "Parameters\n----------\n"):
        nothing.__doc__ = doc
        assert tool(nothing).schema.description


def test_annotated_gives_description_and_limits() -> None:
    @tool
    def pick(
        count: Annotated[int, Field(ge=1, le=9, description="How many.")],
        name: Annotated[str, "Whose."],
        mode: Literal["a", "b"] = "a",
    ) -> str:
        """Pick.

        Args:
            count: Loses against the annotation.
        """
        return f"{count}{name}{mode}"

    properties = pick.schema.parameters["properties"]
    assert properties["count"] == {"type": "integer", "minimum": 1, "maximum": 9, "description": "How many."}
    assert properties["name"] == {"type": "string", "description": "Whose."}
    assert properties["mode"]["enum"] == ["a", "b"]
    assert validate_arguments(pick.schema.parameters, {"count": 10, "name": "x"})


def test_arguments_arrive_as_annotated() -> None:
    got: dict[str, Any] = {}

    @tool
    def take(
        colour: Colour,
        point: Point,
        points: list[Point],
        place: Place | None = None,
        day: date | None = None,
        tags: set[str] = frozenset(),  # type: ignore[assignment]
        size: int = 0,
        share: float = 0.0,
        other: dict[str, Point] | None = None,
    ) -> None:
        got.update(locals())

    run(
        take,
        colour="blue",
        point={"x": 3.0, "y": 4},
        points=[{"x": 1}],
        place={"name": "here", "at": {"x": 5}},
        day="2024-02-29",
        tags=["a", "b"],
        size=3.0,
        share=2,
        other={"k": {"x": 7}},
    )
    assert got["colour"] is Colour.BLUE
    assert got["point"] == Point(3, 4)
    assert type(got["point"].x) is int
    assert got["points"] == [Point(1)]
    assert got["place"] == Place(name="here", at=Point(5))
    assert got["day"] == date(2024, 2, 29)
    assert got["tags"] == {"a", "b"}
    assert (got["size"], type(got["size"])) == (3, int)
    assert (got["share"], type(got["share"])) == (2.0, float)
    assert got["other"] == {"k": Point(7)}


def test_defaults_are_the_functions_own() -> None:
    marker = object()
    shared: list[int] = []

    @tool
    def probe(a: Any = marker, b: list[int] = shared, c: Colour = Colour.RED) -> list[bool]:
        return [a is marker, b is shared, c is Colour.RED]

    assert run(probe).data == [True, True, True]
    assert probe.schema.parameters["properties"]["c"]["default"] == "red"
    json.dumps(probe.schema.parameters)


def test_parameters_may_have_any_name() -> None:
    @tool
    def odd(schema: str, json: int, model_config: str, _hidden: str, title: str, self_: str, copy: bool = False) -> str:
        return f"{schema}{json}{model_config}{_hidden}{title}{self_}{copy}"

    names = ["schema", "json", "model_config", "_hidden", "title", "self_", "copy"]
    assert list(odd.schema.parameters["properties"]) == names
    assert run(odd, schema="a", json=1, model_config="b", _hidden="c", title="d", self_="e").content == "a1bcdeFalse"


def test_a_property_called_title_survives_while_titles_go() -> None:
    @tool
    def book(entries: list[Book]) -> str:
        return entries[0].title

    text = json.dumps(book.schema.parameters)
    assert '"title": {"type": "string"' in text
    assert '"title": "' not in text
    assert run(book, entries=[{"title": "Kes", "default": 2}]).content == "Kes"


class Book(BaseModel):
    title: str
    default: int


def test_the_context_is_given_and_not_shown() -> None:
    @tool
    def who(ctx: ToolContext, name: str) -> str:
        return f"{ctx.call_id} {name}"

    @tool
    def maybe(name: str, ctx: ToolContext | None = None) -> str:
        return f"{ctx.call_id if ctx else '-'} {name}"

    for each in (who, maybe):
        assert list(each.schema.parameters["properties"]) == ["name"]
        assert run(each, name="kes").content == "c1 kes"
    assert maybe("kes") == "- kes"


async def test_coroutine_functions() -> None:
    @tool
    async def slow(x: int) -> dict[str, int]:
        await asyncio.sleep(0)
        return {"x": x}

    assert inspect.iscoroutinefunction(slow.execute)
    assert await slow(2) == {"x": 2}
    assert (await slow.execute({"x": 3}, context())).data == {"x": 3}


def test_a_function_that_returns_an_awaitable() -> None:
    async def inner(x: int) -> str:
        return f"got {x}"

    bound = functools.partial(inner)

    def outer(x: int) -> Any:
        return inner(x)

    assert run(tool(outer), x=1).content == "got 1"
    assert run(tool(name="partial")(bound), x=2).content == "got 2"  # type: ignore[arg-type]


def test_methods_partials_and_callables() -> None:
    class Counter:
        def __init__(self) -> None:
            self.total = 0

        def add(self, by: int) -> int:
            """Add."""
            self.total += by
            return self.total

        def __call__(self, x: int) -> str:
            return f"called {x}"

    counter = Counter()
    assert run(tool(counter.add), by=2).data == 2
    assert counter.total == 2
    assert run(tool(name="counter")(counter), x=1).content == "called 1"

    def power(base: int, exponent: int) -> int:
        return base**exponent

    square = tool(name="square")(functools.partial(power, exponent=2))
    assert run(square, base=3).data == 9


def test_text_annotations_that_name_local_things() -> None:
    source = textwrap.dedent(
        """
        from __future__ import annotations
        import dataclasses
        from kestrel_nb.tool import tool

        def build():
            @dataclasses.dataclass
            class Local:
                n: int

            @tool
            def one(item: Local, many: list[Local] | None = None) -> int:
                return item.n

            @tool(name="other")
            def two(item: Local) -> int:
                return item.n + 1

            return one, two
        """
    )
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, "<cell>", "exec"), space)
    one, two = space["build"]()
    assert run(one, item={"n": 5}).data == 5
    assert run(two, item={"n": 5}).data == 6


def test_several_cells_with_shared_globals() -> None:
    space: dict[str, Any] = {"__name__": "__main__"}
    exec("from __future__ import annotations\nimport enum\nclass Mode(enum.Enum):\n    A = 'a'", space)
    exec("from kestrel_nb.tool import tool\n@tool\ndef f(mode: 'Mode') -> str:\n    return mode.name", space)
    assert run(space["f"], mode="a").content == "A"


# ---- what can't be a tool ---------------------------------------------------------------------------------------


def many(*values: int) -> None: ...
def named(**options: str) -> None: ...
def positional(x: int, /) -> None: ...
def untyped(x) -> None: ...  # type: ignore[no-untyped-def]
def frame(df: pd.DataFrame) -> None: ...
def callback(f: Mapping[str, asyncio.Event]) -> None: ...
def unknown(x: "NowhereDefined") -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (many, "take one list instead"),
        (named, "take one dict instead"),
        (positional, 'remove the "/"'),
        (untyped, "annotate it, such as x: str"),
        (frame, "parameter df: DataFrame can't be given as JSON"),
        (callback, "parameter f: .* can't be given as JSON"),
        (unknown, "'NowhereDefined' is not defined"),
        (lambda: 1, "set it with name="),
    ],
)
def test_unusable_signatures_say_what_to_do(function: Any, says: str) -> None:
    with pytest.raises(ToolSchemaError, match=says):
        tool(function)


def test_wrong_uses_of_the_decorator() -> None:
    with pytest.raises(ToolSchemaError, match="settings go by keyword"):
        tool("name")  # type: ignore[call-overload]
    with pytest.raises(ToolSchemaError, match='"auto" or "ask"'):
        tool(permission="never")(many)  # type: ignore[call-overload]

    class Holder:
        def method(self, x: int) -> None: ...

    with pytest.raises(ToolSchemaError, match=r"tool\(instance\.method\)"):
        tool(Holder.method)


def test_untyped_parameters_take_the_type_of_a_simple_default() -> None:
    @tool
    def f(x=1, y="a") -> str:  # type: ignore[no-untyped-def]
        return f"{x}{y}"

    assert f.schema.parameters["properties"]["x"]["type"] == "integer"
    assert run(f, y="b").content == "1b"


def test_bad_arguments_are_refused_in_one_message() -> None:
    def even(value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return value

    @tool
    def f(n: Annotated[int, AfterValidator(even)], point: Point) -> int:
        return n

    with pytest.raises(ToolCallError, match=r"n: .*must be even; point\.x: "):
        f.execute({"n": 3, "point": {"x": "far"}}, context())


def test_errors_of_the_function_come_through() -> None:
    @tool
    def broken() -> None:
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        run(broken)


# ---- returned values --------------------------------------------------------------------------------------------


def returning(value: Any) -> ToolExecutionResult:
    def give() -> Any:
        return value

    return run(tool(give))


def test_plain_values() -> None:
    assert returning("text") == ToolExecutionResult(content="text")
    assert returning(None) == ToolExecutionResult(content="done")
    assert returning(True) == ToolExecutionResult(content="true", data=True)
    assert returning({"a": [1, None]}) == ToolExecutionResult(content='{"a": [1, null]}', data={"a": [1, None]})
    assert returning([{"a": 1}, {"a": 2}]).data == [{"a": 1}, {"a": 2}]
    result = ToolExecutionResult(content="x", terminate=True)
    assert returning(result) is result


def test_rich_values_become_json() -> None:
    import numpy as np

    value = {
        "point": Point(1, 2),
        "colour": Colour.RED,
        "place": Place(name="n", at=Point(1)),
        "day": date(2024, 1, 2),
        "path": Path("a/b"),
        "set": {1},
        "tuple": (1, "b"),
        "number": np.int64(7),
        "share": np.float32(0.5),
        "array": np.arange(3),
        "object": object,
        3: "key",
    }
    data = returning(value).data
    assert json.loads(json.dumps(data)) == data
    assert data["point"] == {"x": 1, "y": 2}
    assert data["colour"] == "red"
    assert data["place"] == {"name": "n", "at": {"x": 1, "y": 0}}
    assert (data["day"], data["path"], data["set"], data["tuple"]) == ("2024-01-02", "a/b", [1], [1, "b"])
    assert (data["number"], data["share"], data["array"]) == (7, 0.5, [0, 1, 2])
    assert returning([Point(1), Point(2)]).data == [{"x": 1, "y": 0}, {"x": 2, "y": 0}]
    assert returning(i for i in range(3)).data == [0, 1, 2]


def test_a_value_inside_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ToolCallError, match="can't be written as JSON"):
        returning(loop)


def test_long_results_are_short_for_the_model_and_whole_for_clients() -> None:
    result = returning([{"n": n} for n in range(5000)])
    assert len(result.content) < 11_000
    assert "[cut: 10,000 of " in result.content
    assert len(result.data) == 5000


def test_frames_come_back_equal() -> None:
    frame = pd.DataFrame(
        {"id": pd.array([1, None], dtype="Int64"), "name": ["a", "b"], "day": pd.to_datetime(["2024-01-01", None])},
        index=pd.Index(["x", "y"], name="key"),
    )
    result = returning(frame)
    assert result.content.startswith("2 rows × 3 columns\n")
    pd.testing.assert_frame_equal(to_frame(json.loads(json.dumps(frame_data(result.data)))), frame)
    series = returning(pd.Series([1, 2], name="n"))
    assert series.data.columns.tolist() == ["n"]
    assert "the first 20 shown" in returning(pd.DataFrame({"n": range(50)})).content


def test_decorating_and_running_loads_no_pandas() -> None:
    code = (
        "import sys\nfrom kestrel_nb.tool import tool\nassert 'pydantic' not in sys.modules\n"
        "@tool\ndef f(x: int) -> dict[str, int]:\n    '''Doc.'''\n    return {'x': x}\n"
        "assert f.execute({'x': 1}, None).data == {'x': 1}\nassert 'pandas' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
