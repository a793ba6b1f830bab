"""The demo model and a failed cell: a correction where a rule is sure, else the honest news that there is none."""

from __future__ import annotations

from typing import Any

import pytest

from kestrel_nb.notebook.failures import Failure
from kestrel_nb.notebook.fixing import request as request_text
from kestrel_nb.notebook.inserting import InsertCell
from kestrel_nb.protocol.codec import parse_call
from kestrel_nb.protocol.messages import create_message, tool_message
from kestrel_nb.protocol.tools import ToolSchema
from kestrel_nb.providers.demo import DemoModel
from kestrel_nb.providers.demo.cases import Case, Look, Mend
from kestrel_nb.providers.demo.repairs import repair
from kestrel_nb.runtime.models import CompletionRequest

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
TOOLS = (
    InsertCell.schema,
    ToolSchema(name="inspect_variable", description="inspect", parameters=NAME),
    ToolSchema(name="list_variables", description="list"),
)
SCHEMA = (
    "DataFrame, 3 rows × 3 columns\nindex: RangeIndex (int64)\n- species: str\n- body_mass_g: float64\n- year: int64"
)
MENDED = [
    ("t = sum(pricse)", "NameError", "name 'pricse' is not defined. Did you mean: 'prices'?", "t = sum(prices)"),
    ("a = np.zeros(3)", "NameError", "name 'np' is not defined", "import numpy as np\na = np.zeros(3)"),
    ("%%time\nPath('x')", "NameError", "name 'Path' is not defined", "%%time\nfrom pathlib import Path\nPath('x')"),
    ("é = 'ï'; nmae + é", "NameError", "name 'nmae' is not defined. Did you mean: 'name'?", "é = 'ï'; name + é"),
    ("x.apend(1)", "AttributeError", "'list' object has no attribute 'apend'. Did you mean: 'append'?", "x.append(1)"),
    ("import nunpy as np", "ModuleNotFoundError", "No module named 'nunpy'", "import numpy as np"),
    ("df['Species'].count()", "KeyError", "'Species'", "df['species'].count()"),
    ('df.groupby("specis")["year"].mean()', "KeyError", "'specis'", 'df.groupby("species")["year"].mean()'),
    ("df[['year', 'bodymass']]", "KeyError", "\"['bodymass'] not in index\"", "df[['year', 'body_mass_g']]"),
    ("print('n: ' + n)", "TypeError", 'can only concatenate str (not "int") to str', "print('n: ' + str(n))"),
    ("for x in y\n    print(x)", "SyntaxError", "expected ':'", "for x in y:\n    print(x)"),
    ("if x  # why\n    y = 1", "SyntaxError", "expected ':'", "if x:  # why\n    y = 1"),
    ("print(sum([1, 2])", "SyntaxError", "'(' was never closed", "print(sum([1, 2]))"),
    ("print(max([1, (2)", "SyntaxError", "incomplete input", "print(max([1, (2)]))"),
    ("print('hello)", "SyntaxError", "unterminated string literal (detected at line 1)", "print('hello')"),
    ("print 'x'", "SyntaxError", "Missing parentheses in call to 'print'. Did you mean print(...)?", "print('x')"),
    (
        "if x = 1:\n    y = 2",
        "SyntaxError",
        "invalid syntax. Maybe you meant '==' or ':=' instead of '='?",
        "if x == 1:\n    y = 2",
    ),
]  # fmt: skip
NOT_MENDED = [
    ("1 / n", "ZeroDivisionError", "division by zero"),
    ("print(x)\nx = 1", "NameError", "name 'x' is not defined. Did you mean: 'y'?"),
    ("'a' + f() + g()", "TypeError", 'can only concatenate str (not "int") to str'),
    ("a.b.c = a.b", "AttributeError", "'A' object has no attribute 'q'"),
    ("df['colour']", "KeyError", "'colour'"),
    ("for x in (:\n pass", "SyntaxError", "invalid syntax"),
    ("int('x')", "ValueError", "invalid literal for int() with base 10: 'x'"),
    ("import tensorflow", "ModuleNotFoundError", "No module named 'tensorflow'"),
    ("", "NameError", "name 'x' is not defined"),
]


def known(look: Look) -> str:
    return SCHEMA if look.variable else "prices: list\nrows: int"


@pytest.mark.parametrize(("source", "kind", "message", "mended"), MENDED, ids=[row[3][:30] for row in MENDED])
def test_a_rule_mends(source: str, kind: str, message: str, mended: str) -> None:
    found = repair(Case(source, kind, message, 1), known)
    assert isinstance(found, Mend)
    assert found.code == mended
    assert found.why


@pytest.mark.parametrize(("source", "kind", "message"), NOT_MENDED)
def test_no_rule_is_sure(source: str, kind: str, message: str) -> None:
    assert repair(Case(source, kind, message, 1), known) is None


def test_it_looks_before_it_guesses() -> None:
    case = Case("pirces[0]", "NameError", "name 'pirces' is not defined", 1)
    assert repair(case, lambda _: None) == Look()
    assert repair(Case("df['Year']", "KeyError", "'Year'", 1), lambda _: None) == Look("df")
    found = repair(case, known)
    assert isinstance(found, Mend)
    assert found.code == "prices[0]"


def failure(source: str, traceback: str) -> str:
    kept = Failure(source=source, whole=True, masked=False, type="E", line=1, traceback=traceback, traceback_only="E")
    return request_text(kept, traceback, "fix", "")


async def answer(text: str, *history: Any, tools: tuple[ToolSchema, ...] = TOOLS) -> Any:
    messages = (create_message("user", text), *history)
    return await DemoModel(pace_s=0).generate(CompletionRequest(model="demo", messages=messages, tools=tools))


TYPO = failure("df['Year']", "Traceback (most recent call last):\n  Cell, line 1\n    df['Year']\nKeyError: 'Year'")


async def test_the_conversation_of_a_fix() -> None:
    first = await answer(TYPO)
    assert [(call.name, call.arguments) for call in first.tool_calls] == [("inspect_variable", {"name": "df"})]
    look = parse_call("call_1", "inspect_variable", '{"name": "df"}')
    looked = (create_message("assistant", [look]), tool_message(look, SCHEMA))
    second = await answer(TYPO, *looked)
    assert [(call.name, call.arguments) for call in second.tool_calls] == [("insert_cell", {"code": "df['year']"})]
    insert = parse_call("call_2", "insert_cell", '{"code": "df[\'year\']"}')
    for result, says in (
        ("inserted below as a new cell, not run", "is below"),
        ("not inserted, nothing can be put below here; copy the code", "to be copied"),
        ("declined: the user declined this call. Reason: not yet", "`not yet`"),
        ("not run: the run was stopped", "did not get into the notebook"),
    ):
        last = await answer(TYPO, *looked, create_message("assistant", [insert]), tool_message(insert, result))
        assert says in last.content
        assert not last.tool_calls


async def test_what_it_cannot_mend_it_says() -> None:
    text = failure(
        "1 / n", "Traceback (most recent call last):\n  Cell, line 1\n    1 / n\nZeroDivisionError: division by zero"
    )
    said = await answer(text)
    assert not said.tool_calls
    assert "no rule" in said.content
    assert "no AI" in said.content
    assert "divided by zero" in said.content


async def test_without_the_tool_nothing_is_called() -> None:
    said = await answer(TYPO, tools=())
    assert not said.tool_calls
    assert "no tool to propose a cell with" in said.content
