"""What the demo model makes of requests about the user's data: right code, honest refusals, nothing guessed."""

from __future__ import annotations

import ast
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from kestrel_nb.notebook.disclosure import brief, disclose, is_table
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
        return f"{arguments['name']}: {disclose(eval(arguments['name'], {}, variables)).text}"
    value = run(arguments["code"], variables)
    done.values.append(value)
    done.axes = axes()
    return "" if value is None else disclose(value, "head" if is_table(value) else None, rows=20).text


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
    close_figures()


def close_figures() -> None:
    import matplotlib.pyplot as plt

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


SALES = pd.DataFrame(
    {
        "Order Date": pd.to_datetime(["2024-01-01", "2024-01-02", "2024-02-03", "2024-02-04"]),
        "Unit Price ($)": [1.5, 2.5, 3.0, 4.0],
        "units_sold": [3, 4, 5, 6],
        "Region": ["North", "South", "North", None],
        "customerName": ["a", "b", "c", "d"],
        'it\'s "odd"': [1, 2, 3, 4],
        2024: [9, 8, 7, 6],
        "line\nbreak": [1, 1, 2, 2],
        "count": [1, 1, 2, 2],
    }
)


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        ("mean unit price of {sales}", 2.75),
        ("mean `Unit Price ($)` of {sales}", 2.75),
        ("mean Unit Price ($) of {sales}", 2.75),
        ('mean of `it\'s "odd"` in {sales}', 2.5),
        ("sum of 2024 in {sales}", 30),
        ("max of `line\\nbreak` in {sales}", 2),
        ("mean count of {sales}", 1.5),
        ("mean price in {sales}", 2.75),
        ("median units sold where region is North in {sales}", 4),
        ("how many different regions are there in {sales}", 2),
        ("{sales} maximum units sold", 6),
        ("maximum of units sold", 6),
    ],
)
def test_columns_with_strange_names(request_text: str, expected: float) -> None:
    assert talk(request_text, sales=SALES).values == [pytest.approx(expected)]


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        ("count by region in {sales}", {"North": 2, "South": 1, "nan": 1}),
        ("mean unit price by region in {sales}", {"North": 2.25, "South": 2.5}),
        ("sum of 2024 by region in {sales}", {"North": 16, "South": 8}),
        ("which region has the highest mean units sold in {sales}?", {"North": 4, "South": 4}),
        ("how many rows of {sales} per count", {"1": 2, "2": 2}),
    ],
)
def test_groups(request_text: str, expected: dict[str, float]) -> None:
    (value,) = talk(request_text, sales=SALES).values
    frame = value.reset_index() if isinstance(value, pd.Series) else value
    assert {str(row[0]): row[1] for row in frame.itertuples(index=False, name=None)} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("request_text", "says"),
    [
        ("mean customer name of {sales}", "`customerName` is a column of"),
        ("mean of x in {sales}", "no column like `x`"),
        ("average units sold for region North in {sales}", "no column like `North`"),
        ("percentage of missing values in {sales}", "no column like `percentage`"),
        ("plot a pie chart of region in {sales}", "no column like `pie`"),
        ("plot {sales}", "not clear what to draw"),
        ("scatter plot of region and units sold in {sales}", "no place on that axis"),
        ("how many orders are there in {sales}?", "do not understand what to compute of `sales`"),
        ("mean wage of {sales} by hour", "no column like `wage by hour`"),
        ("correlation of region and units sold in {sales}", "no correlation"),
        ("the 3 highest units sold of {sales} by region", "not clear what to sort by"),
    ],
)
def test_what_it_cannot_do_is_said_and_nothing_is_run(request_text: str, says: str) -> None:
    done = talk(request_text, sales=SALES)
    assert done.values == []
    assert done.calls == []
    assert says in done.answer


def test_part_of_a_name_that_several_columns_have_is_a_question() -> None:
    done = talk("mean bill of {penguins}", penguins=PENGUINS)
    assert "`bill` could be `bill_length_mm` or `bill_depth_mm`" in done.answer
    assert done.calls == []


def test_which_table_is_meant() -> None:
    assert talk("mean units sold of sales", penguins=PENGUINS, sales=SALES).values == [4.5]
    asked = talk("mean units sold by region", penguins=PENGUINS, sales=SALES)
    assert "several DataFrames, name one of them: `penguins`, `sales`" in asked.answer
    assert "no DataFrame among the variables" in talk("mean price by region", x=3).answer
    both = talk("mean price of {sales} and {penguins}", penguins=PENGUINS, sales=SALES)
    assert both.calls == []
    assert "one table at a time" in both.answer


def test_a_table_may_be_an_item_or_be_told_with_values() -> None:
    frames = {"a b": SALES}
    item = talk('mean units sold of {frames["a b"]}', frames=frames)
    assert item.code == 'frames["a b"]["units_sold"].mean()'
    assert item.values == [4.5]
    for level in ("describe", "head 2"):
        assert talk(f"mean units sold by region of {{sales:{level}}}", sales=SALES).code == (
            'sales.groupby("Region", as_index=False)["units_sold"].mean()'
        )
    assert "I write code for frames of pandas only" in told("mean a of \nt: DataFrame, 2 rows × 1 column\n- a: Int64\n")


def told(prompt: str) -> str:
    """The answer to a prompt that is sent as it stands."""
    message = create_message("user", prompt)
    text, steps = reply(CompletionRequest(model="demo", messages=(message,), tools=KERNEL, signal=None))
    assert not steps
    return text


def test_the_news_of_variables_is_no_part_of_the_request() -> None:
    head = "\n\nVariables of the notebook since you were last told, by name, type and shape:"
    news = f"{head}\n- x: int (new)\n… 3 more variables"
    (step,) = understand(f"list the variables{news}", KERNEL).steps
    assert step.tool == "list_variables"


@pytest.mark.parametrize(
    ("request_text", "path"),
    [
        ('describe {sales["Order Date"]}', 'sales["Order Date"]'),
        ("what is in {sales.units_sold}?", "sales.units_sold"),
        ("what type is {sales.units_sold}?", "sales.units_sold"),
        ("look at {sales.units_sold:head 2}", "sales.units_sold"),
        ("how many missing values are there in {sales.Region}?", "sales.Region"),
        ("what is in {sales}?", "sales"),
    ],
)
def test_a_column_of_its_own_is_looked_at(request_text: str, path: str) -> None:
    done = talk(request_text, sales=SALES)
    assert done.calls == [("inspect_variable", {"name": path})]
    assert f"`{path}` is a " in done.answer
    assert "| column | type | missing |" in done.answer


def test_what_a_column_of_its_own_is_not_good_for_is_said() -> None:
    done = talk("mean of {sales.units_sold}", sales=SALES)
    assert done.calls == []
    assert "`sales.units_sold` is a Series, which I can describe" in done.answer


def test_no_missing_value_is_a_count_too() -> None:
    shown = talk("describe the columns of {sales}", sales=SALES).answer
    assert "| `Region` | str | 1 |" in shown or "| `Region` | object | 1 |" in shown
    assert "| `units_sold` | int64 | 0 |" in shown
    large = talk("describe the columns of {flags}", flags=pd.DataFrame({"on": np.ones(5_000_001, dtype=bool)})).answer
    assert "| `on` | bool | not counted |" in large


@pytest.mark.parametrize(
    ("request_text", "says"),
    [
        ("sum of units_sald of {sales}", "did you mean `units_sold`? Its columns are: "),
        ("mean units sold by regoin of {sales}", "did you mean `Region`?"),
        ("mean zebra of {sales}", "no column like `zebra`; its columns are: "),
    ],
)
def test_a_column_that_is_nearly_named_is_asked_about(request_text: str, says: str) -> None:
    done = talk(request_text, sales=SALES)
    assert done.calls == []
    assert says in done.answer


def test_near_names_of_two_columns_are_no_guess() -> None:
    assert "did you mean" not in talk("mean bil of {penguins}", penguins=PENGUINS).answer
    assert (
        "did you mean `price`?"
        in talk(
            "compute the mean prise by category of {df}", df=pd.DataFrame({"price": [1.0], "category": ["a"]})
        ).answer
    )


@pytest.mark.parametrize(
    "request_text",
    ["plot units sold against region of {sales}", "line chart of units sold over customer name of {sales}"],
)
def test_a_text_has_no_place_on_an_axis_and_what_can_be_drawn_is_told(request_text: str) -> None:
    done = talk(request_text, sales=SALES)
    assert done.calls == []
    assert "no place on that axis; I can draw: box plot of `units_sold` by `" in done.answer
    told = done.answer.split("I can draw: ")[1].split(".\n")[0]
    for text in told.split(", or "):
        assert talk(f"{text} of {{sales}}", sales=SALES).axes.lines or axes().patches
        close_figures()


def test_dates_along_an_axis_are_slanted() -> None:
    for text in ("plot units sold against order date", "plot units sold against order date by region"):
        done = talk(f"{text} in {{sales}}", sales=SALES)
        assert {label.get_rotation() for label in done.axes.get_xticklabels()} == {45.0}
        close_figures()
    done = talk("plot units sold against 2024 in {sales}", sales=SALES)
    assert {label.get_rotation() for label in done.axes.get_xticklabels()} == {0.0}


def test_several_things_at_once() -> None:
    done = talk("compute the mean units sold by region of {sales} and plot it", sales=SALES)
    assert len(done.values) == 2
    assert done.axes.get_ylabel() == "mean units_sold"
    assert [tick.get_text() for tick in done.axes.get_xticklabels()] == ["North", "South"]


def test_dollars_in_a_label_are_no_formula() -> None:
    done = talk("plot unit price against units sold in {sales}", sales=SALES)
    done.axes.figure.canvas.draw()
    assert done.axes.get_ylabel() == "Unit Price (\\$)"


@pytest.mark.parametrize(
    "row", [row for row in FILES if row["calls"] != "unknown"], ids=lambda row: str(row["request"])[:40]
)
def test_requests_about_files_stay_requests_about_files(row: dict[str, Any]) -> None:
    without = [(step.tool, step.arguments) for step in understand(row["request"], FOLDER).steps]
    assert [(step.tool, step.arguments) for step in understand(row["request"], (*FOLDER, *KERNEL)).steps] == without


def test_a_folder_is_looked_at_when_there_is_no_such_variable() -> None:
    request = "look at shop"
    listing = create_message(
        "assistant", [ToolCallPart(id="1", name="list_variables", arguments={}, raw_arguments="{}")]
    )
    result = tool_message(listing.tool_calls[0], "penguins: DataFrame 344 × 8")
    messages = (create_message("user", request), listing, result)
    _, steps = reply(CompletionRequest(model="demo", messages=messages, tools=(*KERNEL, *FOLDER), signal=None))
    assert [(step.tool, step.arguments) for step in steps] == [("list_dir", {"path": "shop"})]


@pytest.mark.parametrize(
    ("request_text", "answer_text"),
    [
        ("mean units sold of {sales}", "The mean `units_sold` of `sales` is `4.5`."),
        (
            "number of different values of region in {sales}",
            "The number of different values of `Region` in `sales` is `2`.",
        ),
        (
            "list the variables",
            "The variables:\n\n| variable | what it is |\n| --- | --- |\n| `sales` | DataFrame 4 × 9 |",
        ),
        ("inspect {sales}", "`sales` is a DataFrame of 4 rows × 9 columns.\n\n| column | type | missing |\n"),
        (
            "mean units sold by region of {sales}",
            "The mean `units_sold` of `sales` by `Region`:\n\n|  | Region | units_sold |\n",
        ),
    ],
)
def test_answers_say_what_the_tool_told(request_text: str, answer_text: str) -> None:
    assert answer_text in talk(request_text, sales=SALES).answer


def test_examples_of_requests_about_data_are_understood() -> None:
    examples = [line[3:-1] for line in talk("do a backflip").answer.splitlines() if line.startswith("- `")]
    about = [text for text in examples if "sales" in text]
    assert len(about) >= 5
    table = pd.DataFrame({"price": [1.0, 2.0], "weight": [3.0, 5.0], "city": ["a", "b"]})
    for text in about:
        assert talk(text, sales=table).calls[-1][0] == "run_python", text


STATISTICS = ("mean", "median", "sum", "min", "max", "std", "variance")
SHAPES = (
    "{s} {a} of {{t}}",
    "{s} {a} by {b} of {{t}}",
    "mean and {s} of {a} by {b} in {{t}}",
    "how many rows of {{t}} per {a}",
    "plot {a} against {b} in {{t}}",
    "plot {a} against {b} by {c} in {{t}}",
    "histogram of {a} by {c} in {{t}}",
    "bar chart of the {s} {a} by {b} and {c} of {{t}}",
    "box plot of {a} by {b} of {{t}}",
    "line chart of {a} over {b} in {{t}}",
    "plot the {s} {a} over {b} in {{t}}",
    "correlation of {a} and {b} by {c} in {{t}}",
    "top 3 rows of {{t}} by {a}",
    "how many different {a} are there in {{t}}",
    "{s} {a} where {b} is 3 in {{t}}",
)


@pytest.mark.filterwarnings("ignore")  # statistics of one value, figures of hardly any
@pytest.mark.parametrize("name", ["sales", "penguins", "empty", "flags"])
def test_whatever_columns_are_named_the_code_runs_or_is_refused(name: str) -> None:
    frames = {
        "sales": SALES.drop(columns="line\nbreak"),
        "penguins": PENGUINS,
        "empty": PENGUINS.iloc[:0],
        "flags": PENGUINS.assign(species=PENGUINS.species.astype("category"), heavy=PENGUINS.body_mass_g > 4000),
    }
    table, chance, ran = frames[name], random.Random(7), 0
    for shape in SHAPES:
        for _ in range(6):
            a, b, c = (f"`{chance.choice(list(table.columns))}`" for _ in range(3))
            prompt = shape.replace("{{t}}", "{t}")
            for slot, text in (("{s}", chance.choice(STATISTICS)), ("{a}", a), ("{b}", b), ("{c}", c)):
                prompt = prompt.replace(slot, text)
            ran += len(talk(prompt, t=table).values)
            close_figures()
    assert ran >= 20
