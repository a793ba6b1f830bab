"""The user's variables in a request, in a real kernel: what reaches the model, and what is said of it."""

import ast
from collections.abc import Iterator

import pytest
from harness import Kernel, running_kernel
from sample_cells import LOAD

KEY = "sk-TESTKEY-123456"
SETUP = """import os, time
import numpy as np
import pandas as pd
from kestrel_nb import Kestrel, tool
from kestrel_nb.testing import Reply, ScriptedModel
seen = []
@tool
def peek() -> str:
    "What the session says while its run goes on."
    seen.append(dict(app.sessions.get(app.sessions.list()[0].id).metadata))
    return "ok"
model = ScriptedModel(["Fine."] * 100)
app = Kestrel(model=model, tools=[peek])
%kestrel use app"""
DATA = """df = pd.DataFrame({"city": ["SENTINEL-A", "SENTINEL-B", None], "kind": pd.Categorical(["SENTINEL-C"] * 3),
                   "price": [1.5, 2.5, 987654.25], "api_key": ["hush-1", "hush-2", "hush-3"]},
                  index=["SENTINEL-X", "SENTINEL-Y", "SENTINEL-Z"])
class Bad:
    def __repr__(self): raise SystemExit("no")
    def __len__(self): raise ValueError
    @property
    def worse(self): raise RuntimeError("no")
bad, limit, password = Bad(), 7, "hunter2-hunter2"
settings = {"host": "example.org", "password": "hunter2-hunter2", "header": "Bearer " + os.environ["ACME_API_KEY"]}"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """One kernel with a key in its environment and some variables."""
    with running_kernel(tmp_path_factory.mktemp("interpolated"), extra_env={"ACME_API_KEY": KEY}) as running:
        running.ok(LOAD, 60)
        running.ok(SETUP, 60)
        running.ok(DATA)
        yield running


def arrived(kernel: Kernel) -> str:
    """The last message as the model got it."""
    printed = kernel.ok("print(ascii([m.content for m in model.requests[-1].messages if m.role == 'user'][-1]))").text
    return str(ast.literal_eval(printed))


def everything(kernel: Kernel) -> str:
    """All that the model was sent in its last request."""
    return kernel.ok("print(repr(model.requests[-1]))").text


def test_h01_code_and_escapes(kernel: Kernel) -> None:
    typed = "explain: print({'foo': 'bar'}); {v: k for k, v in d.items()}; f\"{x!r:>{w}}\"; ${HOME}; {{x}}; 100%"
    kernel.ok(f"%%kestrel\n{typed}")
    assert arrived(kernel) == typed
    kernel.ok("x = 5")
    kernel.ok(f"%%kestrel\n{typed}")
    assert arrived(kernel) == typed.replace("{{x}}", "{x}")
    kernel.ok("del x")


def test_a_table_gives_its_schema_and_no_value(kernel: Kernel) -> None:
    shown = kernel.ok("%%kestrel\nWhat is {df} about? At most {limit} words.").displayed[0]
    said = arrived(kernel)
    assert said.startswith("What is \ndf: DataFrame, 3 rows × 4 columns\nindex: Index (str)\n- city: str, 1 missing\n")
    assert said.endswith("\n about? At most 7 words.")
    assert "- kind: category (1)" in said
    assert not any(value in everything(kernel) for value in ("SENTINEL", "hush", "987654"))
    assert "What was sent: 2 variables" in shown["text/plain"]
    assert '<td class="kestrel-t">schema</td>' in shown["text/html"]


@pytest.mark.parametrize(
    ("reference", "there", "absent"),
    [
        ("df:describe", ["987654"], ["SENTINEL", "hush"]),
        ("df:head 2", ["SENTINEL-A", "SENTINEL-Y", "1.5", "***"], ["SENTINEL-Z", "987654", "hush"]),
        ("df:full", ["SENTINEL-A", "SENTINEL-Z", "987654.25", "***"], ["hush"]),
        ("df.price:head 1", ["SENTINEL-X", "1.5"], ["SENTINEL-Y", "2.5"]),
        ('df["city"]', ["str, 1 missing"], ["SENTINEL"]),
        ("df.price[2]", ["987654.25"], ["SENTINEL"]),
        ("settings", ["'host': 'example.org'", "'password': ***", "Bearer ***"], ["hunter2"]),
        ('settings["password"]', ["***"], ["hunter2"]),
        ("password", ["***"], ["hunter2"]),
        ("bad", ["<Bad: its repr raises an error>"], []),
    ],
)
def test_each_level_says_what_it_names(kernel: Kernel, reference: str, there: list[str], absent: list[str]) -> None:
    kernel.ok("%kestrel new")
    kernel.ok(f"%%kestrel\nabout {{{reference}}}")
    said = everything(kernel)
    assert f"{{{reference}}}" not in said
    assert all(value in said for value in there)
    assert not any(value in said for value in (*absent, KEY))


def test_what_does_not_resolve_is_told(kernel: Kernel) -> None:
    shown = kernel.ok("%%kestrel\n{df.pric} {bad.worse} {bad._x} {nothing.here} {In} {open} {_}")
    assert arrived(kernel) == "{df.pric} {bad.worse} {bad._x} {nothing.here} {In} {open} {_}"
    plain = shown.displayed[0]["text/plain"]
    assert '{df.pric} was sent as typed: DataFrame has no pric; did you mean "price"?' in plain
    assert "{bad.worse} was sent as typed: reading it raised RuntimeError" in plain
    assert "nothing.here" not in plain


def test_the_record_is_the_same_each_time(kernel: Kernel) -> None:
    cell = "%%kestrel\nabout {df:head 2} {settings} {bad} {df.pric}"
    assert kernel.ok(cell).displayed == kernel.ok(cell).displayed


def test_large_tables(kernel: Kernel) -> None:
    kernel.ok("long = pd.DataFrame({'n': np.arange(10_000_000) % 100}, dtype='int8')")
    kernel.ok("wide = pd.DataFrame(np.zeros((20, 5_000)))")
    kernel.ok("%%kestrel\n{long} {long:describe} {wide} {wide:head 3}", 60)
    said = arrived(kernel)
    assert "DataFrame, 10,000,000 rows × 1 column\n" in said
    assert "statistics of the first 1,000,000 rows" in said
    assert said.count("… 4,940 more columns") == 2
    assert len(said) < 10_000


def test_no_data_refuses_what_would_send_a_value(kernel: Kernel) -> None:
    count = kernel.ok("print(len(model.requests))").text
    for cell in ("{df} {df:head 2}", "{limit}", "{settings}"):
        outcome = kernel.run(f"%%kestrel --no-data\n{cell}")
        assert outcome.status == "error"
        assert outcome.text.startswith("UsageError: ")
        assert len(outcome.text.strip().splitlines()) == 1
        name = cell.split("{")[-1].split(":")[0].rstrip("}")
        assert f"Write {{{name}:schema}}" in outcome.text
    assert kernel.ok("print(len(model.requests))").text == count
    kernel.ok("%kestrel new")
    kernel.ok("%%kestrel --no-data\n{df} {limit:schema}")
    assert "SENTINEL" not in everything(kernel)
    kernel.ok("%config Kestrel.no_data = True")
    try:
        assert "(head 2) would send" in kernel.run("%%kestrel\n{df:head 2}").text
    finally:
        kernel.ok("%config Kestrel.no_data = False")


EARLIER = "Earlier requests and results of this session go to the model again, and they may hold values"


def test_no_data_in_a_session_that_had_data_says_so(kernel: Kernel) -> None:
    def told(cell: str) -> bool:
        return EARLIER in kernel.ok(cell).displayed[0]["text/plain"]

    kernel.ok("%kestrel new")
    assert not told("%%kestrel --no-data\n{df}")
    assert not told("%%kestrel --no-data\n{df}")
    assert not told("%%kestrel\n{df:head 2}")
    assert told("%%kestrel --no-data\n{df}")
    assert told("%%kestrel --no-data\n{df}")
    kernel.ok("%kestrel rewind 3")
    assert not told("%%kestrel --no-data\n{df}")
    kernel.ok("%kestrel new\n%config Kestrel.no_data = True")
    try:
        assert not told("%%kestrel\n{df}")
        assert not told("%%kestrel\n{df}")
        kernel.ok("%config Kestrel.no_data = False")
        kernel.ok("%%kestrel\n{df:full}")
        kernel.ok("%config Kestrel.no_data = True")
        assert told("%%kestrel\n{df}")
        kernel.ok("%kestrel new")
        assert not told("%%kestrel\n{df}")
    finally:
        kernel.ok("%config Kestrel.no_data = False\n%kestrel new")


def test_the_session_knows_what_was_disclosed(kernel: Kernel) -> None:
    kernel.ok("model = ScriptedModel([Reply(tool_calls=[('peek', {})]), 'Fine.'] * 20)")
    kernel.ok("before = app\napp = Kestrel(model=model, tools=[peek])\n%kestrel use app")
    try:
        kernel.ok("%%kestrel --no-data\nhi")
        assert kernel.ok("print(seen[-1])").text == "{'no_data': True}\n"
        kernel.ok("%%kestrel\n{df:head 2} {df} {df.price:full}")
        kernel.ok("for metadata in seen: metadata.pop('without_data', None)")
        assert kernel.ok("print(seen[-1])").text == "{'disclosed': {'df': 'head'}}\n"
        kernel.ok("%%kestrel\n{df}")
        kernel.ok("for metadata in seen: metadata.pop('without_data', None)")
        assert kernel.ok("print(seen[-1])").text == "{'disclosed': {'df': 'head'}}\n"
    finally:
        kernel.ok("app, model = before, before.models.get('scripted')\n%kestrel use app")


def test_context_tells_the_news_of_the_variables(kernel: Kernel) -> None:
    kernel.ok("%kestrel new")
    kernel.ok("%%kestrel --context\nhello")
    said = arrived(kernel)
    assert said.startswith("hello\n\nVariables of the notebook since you were last told")
    assert "\n- df: DataFrame 3 × 4 (new)" in said
    assert "\n- password: str (new)" in said
    assert not any(value in said for value in ("SENTINEL", "hunter2", "Bearer"))
    kernel.ok("%%kestrel --context -o run1\nhello")
    assert arrived(kernel) == "hello"
    kernel.ok("fresh = [1, 2]; limit = 8; del bad")
    shown = kernel.ok("%%kestrel --context\nhello").displayed[0]
    lines = arrived(kernel).splitlines()
    assert lines[3:] == ["- fresh: list of 2 (new)", "- limit: int (changed)", "- bad: Bad (gone)"]
    assert "What was sent: 3 variables" in shown["text/plain"]
    kernel.ok(DATA)


def test_the_news_of_many_variables_are_bounded(kernel: Kernel) -> None:
    kernel.ok("%kestrel new\nglobals().update({f'many_{i:03}': i for i in range(60)})")
    kernel.ok("%%kestrel --context\nhello")
    said = arrived(kernel)
    assert said.count("\n- ") == 50
    assert "more variables" in said.splitlines()[-1]
    kernel.ok("for i in range(60): del globals()[f'many_{i:03}']")


def test_a_request_without_references_shows_no_fold(kernel: Kernel) -> None:
    assert "What was sent" not in kernel.ok("%%kestrel\nplain {} {nope}").displayed[0]["text/html"]


def test_interrupt_reaches_a_value_that_hangs(kernel: Kernel) -> None:
    kernel.ok("class Slow:\n    def __repr__(self):\n        print('looking', flush=True)\n        time.sleep(60)")
    kernel.ok("slow = Slow()")
    cell = kernel.execute("%%kestrel\n{slow}")
    assert kernel.wait_for_text("looking")
    kernel.interrupt()
    outcome = kernel.outcome(cell, 20)
    assert outcome.status == "error"
    assert outcome.reply["traceback"] == ["kestrel: interrupted before the request was sent"]
    assert kernel.ok("%%kestrel\nhello").displayed


def test_a_session_is_named_after_what_was_typed(kernel: Kernel) -> None:
    kernel.ok("%kestrel new named")
    kernel.ok("%%kestrel\n{df} has how many cities?")
    assert "DataFrame, 3 rows" in arrived(kernel) or "3 × 4" in arrived(kernel)
    assert kernel.ok("print(app.sessions.get('named').title)").text == "{df} has how many cities?\n"


def test_a_table_inside_of_what_was_told_stays_a_schema(kernel: Kernel) -> None:
    kernel.ok("""calls = [("inspect_variable", {"name": name, "level": "full"}) for name in ("held", 'held["t"]')]
asked = ScriptedModel([Reply(tool_calls=calls), "Fine."])
before, held = app, {"t": df, "n": "plain"}
app = Kestrel(model=asked, plugins=["tools-core", "notebook"])""")
    kernel.ok("%kestrel use app")
    try:
        kernel.ok("%%kestrel\nabout {held}")
        told = kernel.ok("print([m.content for m in asked.requests[-1].messages if m.role == 'tool'])").text
    finally:
        kernel.ok("app = before\n%kestrel use app\ndel held, asked, calls")
    assert "'n': 'plain'" in told
    assert "- city: str, 1 missing" in told
    assert "SENTINEL" not in told


def test_objects_that_raise_wherever_they_are_looked_at(kernel: Kernel) -> None:
    kernel.ok("""import asyncio
class Shut(type):
    def __getattribute__(cls, name): raise SystemExit(name)
    def __eq__(cls, other): raise SystemExit
    __hash__ = type.__hash__
class Closed(metaclass=Shut): pass
class Unclassed:
    @property
    def __class__(self): raise SystemExit
class Cancels:
    def __repr__(self): raise asyncio.CancelledError
async def later(): pass
shut, unclassed, cancels, coming, lines = Closed(), Unclassed(), Cancels(), later(), iter(["a", "b"])""")
    kernel.ok("%kestrel new")
    told = kernel.ok("%%kestrel --context\n{shut} {unclassed} {cancels} {coming} {lines}")
    said = arrived(kernel).splitlines()[0]
    assert said.endswith("<Cancels: its repr raises an error> <coroutine, not awaited> <list_iterator, not consumed>")
    assert told.text == ""
    assert kernel.ok("coming.close(); print(list(lines))").text == "['a', 'b']\n"
    kernel.ok("del shut, unclassed, cancels, coming, lines, Closed, Shut")
