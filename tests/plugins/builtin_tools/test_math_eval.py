"""math-eval: its rows, the cases, and JavaScript itself as the judge."""

from __future__ import annotations

import json
import math
import random
import subprocess
import time
from typing import Any

import pytest
from calling import call, calls, is_close, is_failure, rows_of

from kestrel_nb.plugins.builtin_tools.arithmetic import MAX_LENGTH
from kestrel_nb.plugins.builtin_tools.math_eval import MathEval


def expression_of(row: dict[str, Any]) -> str:
    given = row["input"]
    return str(given["expression"] if "expression" in given else eval(given["expression_gen"]))


def assert_expected(row: dict[str, Any], data: dict[str, Any]) -> None:
    expect = row["expect"]
    if "result" in expect:
        assert data["result"] == expect["result"] or is_close(data["result"], expect["result"])
        assert isinstance(data["result"], int) == isinstance(expect["result"], int)
        assert data["expression"] == expression_of(row)
    elif "result_range" in expect:
        low, high = expect["result_range"]
        assert low <= data["result"] < high
    elif expect["outcome"] == "result or error_object":
        assert is_failure(data) or math.isfinite(data["result"])
    else:
        assert expect["outcome"].startswith("error_object")
        assert is_failure(data)


async def test_every_row_of_math() -> None:
    rows, excluded = rows_of("math")
    assert len(rows) + len(excluded) == 64
    answers = await calls(MathEval(), [{"expression": expression_of(row)} for row in rows])
    for row, data in zip(rows, answers, strict=True):
        assert_expected(row, data)
    one, other = await calls(MathEval(), [{"expression": "random"}, {"expression": "random"}])
    assert one != other


async def test_t01_towers_of_powers_and_what_has_no_value_are_error_objects_at_once() -> None:
    fine = {"2^10": 1024, "0.7+0.1": 0.7999999999999999}
    bad = ("9^9^9", "10^1000000000", "3/0", "sqrt(-4)", "log(0)", "+", "2 +", "foo(1)", "__import__('os')", "min()")
    more = (
        "9^9^9^9^9^9",
        "2^99999",
        "7^7^7^7",
        "(-2)^99999",
        "1e308*10",
        "-1e308*10",
        "0/0",
        "log(-1)",
        "0^-1",
        "1e999",
    )
    expressions = (*fine, *bad, *more, "9^" * 100_000 + "9")
    started = time.monotonic()
    answers = await calls(MathEval(), [{"expression": expression} for expression in expressions])
    assert time.monotonic() - started < 20
    for expression, data in zip(expressions, answers, strict=True):
        assert data.get("result") == fine[expression] if expression in fine else is_failure(data)


async def test_t03_signs_powers_remainders_and_roundings() -> None:
    expected = {
        "-3^2": -9,
        "2^3^2": 512,
        "4^-1": 0.25,
        "-7 % 3": -1,
        "round(4.5)": 5,
        "round(-0.5)": 0,
        "log(100)": math.log(100),
        "1e3+1": 1001,
        "(-3)^2": 9,
        "2^-2^2": 2**-4,
        "-2^-2": -0.25,
        "--3^2": 9,
        "+-+3": -3,
        "7 % -3": 1,
        "-7.5 % 2": -1.5,
        "8 % 3 * 2": 4,
        "8 / 4 / 2": 1,
        "2 - 3 - 4": -5,
        "round(2.5)": 3,
        "round(-2.5)": -2,
        "round(0.49999999999999994)": 0,
        "round(4503599627370497)": 4503599627370497,
        "5 % 1e300": 5,
    }
    answers = await calls(MathEval(), [{"expression": expression} for expression in expected])
    for (expression, value), data in zip(expected.items(), answers, strict=True):
        assert data == {"expression": expression, "result": value}


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("2 * (3 + 4", '"(" at position 5 is not closed'),
        ("2 + 3)", '")" at position 6 closes nothing'),
        ("2pi", 'expected an operator before "pi" at position 2'),
        ("2 ** 3", 'unexpected "**" at position 3; write "^"'),
        ("sqr(4)", 'unknown name "sqr" at position 1; did you mean sqrt?'),
        ("1 + sqrt(-4)", "sqrt at position 5 gives no real number"),
        ("1 + 3/0", '"/" at position 6 gives no finite number'),
        ("pow(2, 3)", None),
        ("sqrt(1, 2)", "sqrt at position 1 takes one number and not 2"),
        ("random()", "random at position 1 is a constant: write it without parentheses"),
        ("max", "max at position 1 is a function: write max(...)"),
        ("", "the expression is empty"),
        ("(1, 2)", 'unexpected "," at position 3: only functions take several numbers'),
    ],
)
async def test_a_failure_says_what_and_where(expression: str, message: str | None) -> None:
    data = await call(MathEval(), expression=expression)
    assert is_failure(data)
    assert data["expression"] == expression
    assert message is None or data["message"] == message


async def test_length_and_depth_are_bounded_by_the_length_alone() -> None:
    deep = [
        "(" * 100_000 + "1" + ")" * 100_000,
        "-" * 100_001 + "1",
        "abs(" * 50_000 + "1" + ")" * 50_000,
        "1^" * 50_000 + "1",
    ]
    long = ["1" + "+1" * (MAX_LENGTH // 2), "(" * 200_000, "max(" + "1," * 100_000 + "2)", "0." + "3" * 100_000]
    answers = await calls(MathEval(), [{"expression": expression} for expression in (*deep, *long)])
    assert [data.get("result") for data in answers] == [1, -1, 1, 1, None, None, 2, 1 / 3]
    assert is_failure(answers[4])
    assert "too long" in answers[4]["message"]


# --- against node ----------------------------------------------------------------------------------------------------


def generated(rng: random.Random, depth: int) -> tuple[str, str]:
    """An expression, and the same one in JavaScript with every binding written out."""
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(LEAVES)
    kind = rng.random()
    left, right = generated(rng, depth - 1), generated(rng, depth - 1)
    if kind < 0.25:
        name = rng.choice(FUNCTIONS)
        return f"{name}({left[0]})", f"Math.{name}({left[1]})"
    if kind < 0.35:
        name = rng.choice(("min", "max"))
        return f"{name}({left[0]}, {right[0]})", f"Math.{name}({left[1]}, {right[1]})"
    if kind < 0.45:
        return f"-({left[0]})", f"(-({left[1]}))"
    sign = rng.choice("+-*/%^")
    java = f"(({left[1]}) {'**' if sign == '^' else sign} ({right[1]}))"
    return f"({left[0]}) {sign} ({right[0]})", java


LEAVES = [
    (text, text) for text in ("0", "1", "2", "3", "7", "0.5", "2.5", "1e21", "1e300", "1e-300", "10", "64", "1e16")
]
LEAVES += [("pi", "Math.PI"), ("e", "Math.E")]
FUNCTIONS = ("sqrt", "abs", "ceil", "floor", "round", "sin", "cos", "tan", "log", "log2", "log10")
FLAT = ["+", "-", "*", "/", "%"]


def flat(rng: random.Random) -> tuple[str, str]:
    """A chain without parentheses, in which JavaScript binds as we do: no sign stands before a power."""
    text = java = rng.choice("123456789")
    for _ in range(rng.randint(1, 8)):
        sign, number = rng.choice([*FLAT, "^"]), rng.choice(["2", "3", "0.5", "7"])
        text, java = f"{text}{sign}{number}", f"{java}{'**' if sign == '^' else sign}{number}"
    return text, java


def in_node(sources: list[str]) -> list[str | None]:
    """What JavaScript prints for each, None for what is not finite."""
    script = "const all = JSON.parse(require('fs').readFileSync(0));"
    script += "console.log(JSON.stringify(all.map(s => { const v = eval(s); return isFinite(v) ? String(v) : null })))"
    done = subprocess.run(["node", "-e", script], input=json.dumps(sources), capture_output=True, text=True, check=True)
    answers: list[str | None] = json.loads(done.stdout)
    return answers


async def test_generated_expressions_agree_with_node() -> None:
    rng = random.Random(7)
    pairs = [generated(rng, rng.randint(1, 4)) for _ in range(1_500)] + [flat(rng) for _ in range(500)]
    mine = [data.get("result") for data in await calls(MathEval(), [{"expression": text} for text, _ in pairs])]
    theirs = in_node([java for _, java in pairs])
    assert sum(value is not None for value in theirs) > 800
    for (text, java), value, printed in zip(pairs, mine, theirs, strict=True):
        assert (value is None) == (printed is None), (text, java, value, printed)
        if value is not None and printed is not None:
            assert math.isclose(value, float(printed), rel_tol=1e-9, abs_tol=1e-300), (text, value, printed)


async def test_whole_numbers_are_printed_as_node_prints_them() -> None:
    texts = [
        "1024",
        "2^53",
        "2^60",
        "2^64",
        "2^69",
        "2^70",
        "10^20",
        "10^21",
        "-0",
        "-2^63",
        "1e15+0.5",
        "123456789*987654321",
    ]
    texts += ["1e21-1e5", "99999999999999999999", "3", "0.1+0.2", "1/3", "7/7", "100^.5+1"]
    mine = await calls(MathEval(), [{"expression": text} for text in texts])
    theirs = in_node([text.replace("-2^", "-1*2^").replace("^", "**") for text in texts])
    for text, data, printed in zip(texts, mine, theirs, strict=True):
        assert printed is not None
        assert isinstance(data["result"], int) == ("." not in printed and "e" not in printed), text
        assert json.dumps(data["result"]) == printed, text
