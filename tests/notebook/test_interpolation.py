"""References in a prompt: what resolves is replaced, everything else stays as it was typed."""

import collections
import types
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kestrel_nb.notebook.disclosure import LEVELS, disclose
from kestrel_nb.notebook.interpolation import Interpolated, Sent, interpolate

FRAME = pd.DataFrame({"price": [1.5, 2.5], "my col": ["a", "b"], "count": [7, 8]})


class Thing:
    """Some attributes that resolve and some that don't."""

    size = 3
    _hidden = 4

    @property
    def bad(self) -> int:
        raise SystemExit

    @property
    def good(self) -> str:
        return "fine"

    def method(self) -> None:
        """Do nothing."""
        raise AssertionError("it was called")

    def __getitem__(self, key: Any) -> Any:
        raise ZeroDivisionError


NAMES: dict[str, Any] = {
    "x": 5,
    "s": "text with {x} and {{x}}",
    "empty": "",
    "xs": [10, 20, [30, 40]],
    "d": {"a": {"b": [1, 2, 3]}, "}": "brace", "it's": "quoted", 1: "one", "C:\\x": "path"},
    "df": FRAME,
    "t": Thing(),
    "made": collections.defaultdict(list),
    "space": types.SimpleNamespace(a=types.SimpleNamespace(b="deep")),
    "größe": 1.5,
    "password": "hunter2",
    "_own": 6,
    "In": [],
    "open": open,
    "exit": 1,
    "_": 1,
    "__": 1,
    "_1": 1,
    "_i": "x",
    "_i2": "x",
    "_oh": {},
    "_exit_code": 0,
    "__name__": "__main__",
}


def said(prompt: str) -> str:
    return interpolate(prompt, NAMES).text


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("a {x} b", "a 5 b"),
        ("{x}{x}", "55"),
        ("{s}", "text with {x} and {{x}}"),
        ("<{empty}>", "<>"),
        ("{xs}", "[10, 20, [30, 40]]"),
        ("{xs[0]} {xs[-1][1]}", "10 40"),
        ("{s[0]}", "t"),
        ("{d['a'][\"b\"][-1]}", "3"),
        ('{d["}"]} {d["it\'s"]} {d[\'it\\\'s\']} {d[1]} {d["C:\\\\x"]}', "brace quoted quoted one path"),
        ("{space.a.b}", "deep"),
        ("{t.size} {t.good}", "3 fine"),
        ("{t.method}", "Thing.method(): Do nothing."),
        ("{größe}", "1.5"),
        ("{_own}", "6"),
        ("{xs:head 1}", "[10, … 2 more]"),
        ("{xs:schema}", "list of 3: 2 int, 1 list"),
        ("{df.price[1]} {df['my col'][0]} {df.price[-1]}", "2.5 a 2.5"),
        ("{df.count[0]}", "7"),
        ("{password}", "***"),
        ('{"a": {x}}', '{"a": 5}'),
        ("{{x}} {{xs[0]}} {{df:head 5}} {{x:schema}}", "{x} {xs[0]} {df:head 5} {x:schema}"),
        ("\\frac{{x}}{y}", "\\frac{x}{y}"),
        ("{{x} {x}}", "{5 5}"),
    ],
)
def test_what_resolves_is_replaced(prompt: str, text: str) -> None:
    assert said(prompt) == text


@pytest.mark.parametrize(
    "prompt",
    [
        *(
            "{",
            "}",
            "{}",
            "{{}}",
            "}{",
            "{ x }",
            "{x",
            "x}",
            "{x:.2f}",
            "{x!r}",
            "{x!r:>{w}}",
            "{x:>10}",
            "{x=}",
            "{x:d}",
        ),
        *(
            "{x + 1}",
            "{x,}",
            "{t.method()}",
            "{xs[0:1]}",
            "{xs[x]}",
            "{xs[9]}",
            "{xs['a']}",
            "{xs[]}",
            "{xs[0}",
            "{d[a]}",
        ),
        *(
            "{nope}",
            "{{nope}}",
            "{{nope.x}}",
            "{nope:head 5}",
            "{df:head  five}",
            "{df:head -1}",
            "{df: head}",
            "{df:HEAD}",
        ),
        *(
            "{df:full 5}",
            "{df:head 0}",
            "{df:schema:full}",
            "{t._hidden}",
            "{t.__class__}",
            "{t.bad}",
            "{t.no}",
            "{t['a']}",
        ),
        *(
            "{made['a']}",
            "{df['no']}",
            "{df[0]}",
            "{df.no}",
            "{x\n}",
            "{\nx}",
            "a\r\n{b}\r\n",
            "\ufeff{\u200bx}",
            "{x\u200b}",
        ),
        *(
            "{In}",
            "{open}",
            "{exit}",
            "{_}",
            "{__}",
            "{_1}",
            "{_i}",
            "{_i2}",
            "{_oh}",
            "{_exit_code}",
            "{__name__}",
            "{print}",
        ),
        *(
            "${x}",
            "${HOME}",
            "{v: k for k, v in d.items()}",
            '{"a": 1, "b": {"c": [1, 2]}}',
            "\\begin{align} x_{ij} \\end{align}",
        ),
        *('f"{x!r:>{w}}"', "{% if x %}{# c #}", "{d['a'}", "{d[\"a']}", "{" * 1_000 + "x", "{x" * 1_000, "\ud800{}"),
    ],
)
def test_everything_else_stays_byte_for_byte(prompt: str) -> None:
    found = interpolate(prompt, NAMES)
    assert found.text == prompt
    assert found.sent == ()
    assert NAMES["made"] == {}


def test_a_table_is_a_block_with_lines_of_its_own() -> None:
    schema = disclose(FRAME).text
    assert said("What is {df} about?") == f"What is \ndf: {schema}\n about?"
    assert said("{df}") == f"df: {schema}"
    assert said("See:\n{df}\nWell?") == f"See:\ndf: {schema}\nWell?"
    assert said("See:\r\n{df}\r\nWell?") == f"See:\r\ndf: {schema}\r\nWell?"
    assert said("{df}{df}") == f"df: {schema}\ndf: {schema}"
    assert said("{x}{df}{x}") == f"5\ndf: {schema}\n5"
    assert said("{df:head 1}").splitlines() == [
        "df: DataFrame, 2 rows × 3 columns; first 1 row",
        "|  | price | my col | count |",
        "|---|---|---|---|",
        "| 0 | 1.5 | a | 7 |",
    ]


def test_the_rows_say_what_was_inserted() -> None:
    found = interpolate('{x} {df} {df:head 1} {df:describe} {df.price:full} {password} {xs:head 2} {d["a"]}', NAMES)
    assert [(row.variable, row.type, row.disclosed, row.values) for row in found.sent] == [
        ("x", "int", "value", 1),
        ("df", "DataFrame 2 × 3", "schema", 0),
        ("df", "DataFrame 2 × 3", "head 1", 4),
        ("df", "DataFrame 2 × 3", "describe", 21),
        ("df.price", "Series 2", "all values", 4),
        ("password", "str", "hidden", 0),
        ("xs", "list of 3", "head 2", 2),
        ('d["a"]', "dict of 1", "value", 4),
    ]
    assert sum(row.characters for row in found.sent) == len(found.text) - 7
    assert found.levels == {"x": "full", "df": "head", "xs": "head"}
    long = interpolate("{big} {more:full}", {"big": "x" * 50_000, "more": pd.DataFrame({"a": range(9_000)})})
    assert [row.disclosed for row in long.sent] == ["value, shortened", "all values, shortened"]


def test_notes_tell_of_near_misses_only() -> None:
    notes = [
        note.text
        for note in interpolate(
            "{df.pric} {df['counts']} {t.bad} {df:hed} {made['a']} {nope.x} {x:d} {a:b}", NAMES
        ).notes
    ]
    assert notes == [
        '{df.pric} was sent as typed: DataFrame has no pric; did you mean "price"?',
        "{df['counts']} was sent as typed: there is no ['counts'] in it; did you mean \"count\"?",
        "{t.bad} was sent as typed: reading it raised SystemExit",
        "{df:hed} was sent as typed: did you mean :head?",
        "{made['a']} was sent as typed: there is no ['a'] in it",
    ]
    many = interpolate(" ".join(f"{{t.a{i}}}" for i in range(50)), NAMES)
    assert len(many.notes) == 6
    assert many.notes[-1].text == "45 more notes on references are left out"


@pytest.mark.parametrize(
    ("prompt", "named"),
    [
        ("`print(f'{x} {x:full}')` and {xs}", ["x"]),
        ("```python\nfor a in {xs}: print({x})\n```\n{s}", ["xs", "x"]),
        ("~~~\n{df}\n~~~", ["df"]),
        ("```\n{x} is left open", ["x"]),
        ("> ````\n> ```\n> {x}\n> ````\n{xs}", ["x"]),
        ("``a ` {x}`` {s}", ["x"]),
        ("`a` {x} `b`", []),
        ("` {x}\n\n` {s}", []),
        ("`{{x}}` {x}", []),
        ("{x}", []),
    ],
)
def test_code_that_a_reference_changes_is_told_once_a_name(prompt: str, named: list[str]) -> None:
    notes = interpolate(prompt, NAMES).notes
    assert [note.text.split("}")[0] for note in notes] == [f"`{{{name}" for name in named]
    assert all(" inside code was replaced by " in note.text and note.level == "info" for note in notes)
    exact = "`{x}` inside code was replaced by its value; write {{x}} to send it as typed"
    assert named[:1] != ["x"] or notes[0].text == exact


NEAR: dict[str, Any] = {"df": FRAME, "penguins": FRAME, "total": 5, "x": 5, "_exit_code": 0}


@pytest.mark.parametrize(
    ("reference", "meant"),
    [
        ("{dff}", "{df}"),
        ("{dff:head 5}", "{df:head 5}"),
        ("{penguin:schema}", "{penguins:schema}"),
        ("{Penguins}", "{penguins}"),
        ("{totl}", "{total}"),
    ],
)
def test_a_name_that_is_nearly_a_variables_is_told(reference: str, meant: str) -> None:
    found = interpolate(f"about {reference}?", NEAR)
    assert found.text == f"about {reference}?"
    assert [note.text for note in found.notes] == [f"{reference} was sent as typed: did you mean {meant}?"]


@pytest.mark.parametrize(
    "prompt",
    [
        *("{y}", "{nothing}", "{dff:.2f}", "{dff:d}", "{x:.2f}", "{x:tail 3}", "{df:.2f}", "{df:d}", "{df:>10}"),
        *("`{dff}`", "```\n{dff}\n```", "{{dff}}", "${dff}", "\\text{dff}", "a_{totl}", "{df: 5}", "{exit_code}"),
        "{v: k for k, v in totl}",
    ],
)
def test_formats_code_and_formulas_get_no_note(prompt: str) -> None:
    assert interpolate(prompt, NEAR) == Interpolated(prompt, levels={})


@pytest.mark.parametrize("said", ["df:tail 3", "df:head x", "df:tail", "df:HEAD", "df.price:last 3", "df:schema:full"])
def test_a_word_that_is_no_level_of_a_table_is_told_with_the_levels(said: str) -> None:
    found = interpolate(f"{{{said}}}", NEAR)
    assert found.text == f"{{{said}}}"
    levels = "the levels are :schema, :describe, :head N and :full"
    assert [note.text for note in found.notes] == [f"{{{said}}} was sent as typed: {levels}"]


def test_near_names_are_bounded() -> None:
    many = interpolate(" ".join(f"{{name_{i}}}" for i in range(20_000)), {f"names_{i}": 1 for i in range(5_000)})
    assert len(many.notes) == 6


def test_names_of_the_shell_and_names_of_the_user() -> None:
    names: dict[str, Any] = {"open": open, "exit": "mine", "quit": quit}
    hidden = {"open": open, "exit": exit, "quit": quit}
    assert interpolate("{open} {exit} {quit}", names, hidden).text == "{open} mine {quit}"
    assert interpolate("{open} {exit} {quit}", names).text == "{open} {exit} {quit}"


def test_what_is_inserted_is_masked_and_what_was_typed_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-TESTKEY-1234567890"
    monkeypatch.setenv("ACME_API_KEY", key)
    frame = pd.DataFrame({"header": [f"Bearer {key}", key], key: [1, 2]})
    names = {"text": f"the key is {key}", "df": frame, "raw": key}
    found = interpolate(f"{key} {{text}} {{df:full}} {{df}} {{raw}}", names)
    assert found.text.count(key) == 1
    assert found.text.startswith(f"{key} the key is ***")
    assert [row.values for row in found.sent] == [1, 3, 0, 0]
    assert sum(row.characters for row in found.sent) == len(found.text) - len(key) - 4


def test_a_key_that_was_typed_in_a_reference_is_in_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-TESTKEY-1234567890"
    monkeypatch.setenv("ACME_API_KEY", key)
    found = interpolate(f'{{d["{key}"]}} {{d["{key}x"]}}', {"d": {key: 5, key + "x": FRAME}})
    assert [row.variable for row in found.sent] == ['d["***"]', 'd["***x"]']
    assert key not in repr(found.notes)


def test_a_lone_surrogate_is_counted_as_it_is_sent() -> None:
    found = interpolate("{odd}", {"odd": "\ud83d\ude00\ud800"})
    assert found.text == "\U0001f600\ufffd"
    assert found.sent == (Sent("odd", "str of 3 characters", "value", 1, 2),)


# ---- properties ---------------------------------------------------------------------------------------------------

PIECES = (
    *(
        "{",
        "}",
        "{{",
        "}}",
        "[",
        "]",
        "'",
        '"',
        ":",
        ".",
        "$",
        " ",
        "\n",
        "\r\n",
        "\\",
        "a",
        "b1",
        "_",
        "0",
        "-1",
        "!r",
    ),
    *(
        "head",
        "head 5",
        "schema",
        "full",
        ".2f",
        "{a}",
        "{{a}}",
        "{a.b}",
        "{a['k']}",
        "{a:head 5}",
        "{}",
        "é",
        "🦅",
        "\u202e",
    ),
)
TEXT = st.binary(max_size=16).map(lambda data: "".join(PIECES[byte % len(PIECES)] for byte in data))
# Four prompts of one draw: ten thousand of them take seconds.
FOUR = st.binary(min_size=4, max_size=64).map(
    lambda data: ["".join(PIECES[byte % len(PIECES)] for byte in data[start::4]) for start in range(4)]
)


@given(FOUR)
@settings(max_examples=2_500, deadline=None)
def test_ten_thousand_prompts_without_a_name_that_resolves_are_unchanged(prompts: list[str]) -> None:
    for prompt in prompts:
        assert interpolate(prompt, {"other": 1}) == Interpolated(prompt, levels={} if "{" in prompt else None)


SAFE = TEXT.map(lambda text: text.replace("{", "(").replace("}", ")").replace("$", ""))
REFERENCES = st.sampled_from(["num", "text.label", "table", "table.a", 'held["k"]', "held", "secret"])
LEVEL = st.sampled_from(["", ":schema", ":head", ":head 2", ":describe", ":full"])
VALUES: dict[str, Any] = {
    "num": 42,
    "text": types.SimpleNamespace(label="{num} {table:full} }} {{"),
    "table": pd.DataFrame({"a": ["{num}", "}"], "b": [1, 2]}),
    "held": {"k": ["{num}"]},
    "secret": "hunter2",
}


@given(st.lists(st.tuples(SAFE, REFERENCES, LEVEL), min_size=1, max_size=6), SAFE)
@settings(max_examples=200, deadline=None)
def test_only_the_references_change(pieces: list[tuple[str, str, str]], end: str) -> None:
    prompt = "".join(f"{text}{{{reference}{level}}}" for text, reference, level in pieces) + end
    found = interpolate(prompt, VALUES)
    assert [row.variable for row in found.sent] == [reference for _, reference, _ in pieces]
    rest = found.text
    for (text, reference, level), row in zip(pieces, found.sent, strict=True):
        assert rest.startswith(text)
        inserted, rest = rest[len(text) : len(text) + row.characters], rest[len(text) + row.characters :]
        assert row.values == 0 or level not in (":schema", ":describe") or reference.startswith("table")
        again = interpolate(f"{{{reference}{level}}}", VALUES)
        assert inserted.strip("\n") == again.text
        assert row.values == again.sent[0].values
    assert rest == end


def test_every_level_has_its_word() -> None:
    words = [interpolate(f"{{df:{level}}}", NAMES).sent[0].disclosed for level in LEVELS]
    assert words == ["schema", "describe", "head 5", "all values"]
