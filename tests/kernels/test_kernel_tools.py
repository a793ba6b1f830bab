"""The tools of a notebook: what they tell a model, what a person sees, and that no value leaves unasked."""

import base64
import json
import re
import time
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from front_end import RunPage
from harness import Kernel
from python_tool import LOAD, call, given, prepare, python, real_kernel, results

SENTINELS = ("SENTINEL-CELL", "SENTINEL-TEXT", "SENTINEL-KEY", "987654321")
USER = """\
import pandas as pd
import numpy as np
from dataclasses import dataclass
df = pd.DataFrame({"city": ["SENTINEL-CELL", "b", "c"], "n": [987654321, 2, 3]})
text = "SENTINEL-TEXT"
config = {"path": "SENTINEL-TEXT", "SENTINEL-KEY": 1, "inner": {"rows": [1, 2]}}
number = 987654321
arr = np.array([[987654321, 2], [3, 4]])
@dataclass
class Job:
    name: str
    frame: object
    @property
    def computed(self):
        touched.append(1)
        return "SENTINEL-TEXT"
touched = []
job = Job("SENTINEL-TEXT", df)
api_key = "SENTINEL-TEXT"
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """One kernel with variables that hold sentinels."""
    with real_kernel(tmp_path_factory.mktemp("shared")) as kernel:
        kernel.ok(LOAD, 60)
        kernel.ok(USER, 60)
        yield kernel


@pytest.fixture
def kernel(shared: Kernel) -> Kernel:
    shared.forget()
    return shared


def inspected(kernel: Kernel, line: str = "", prompt: str = "go", **arguments: Any) -> str:
    """What the model reads of ``inspect_variable``, an error included."""
    prepare(kernel, [("inspect_variable", arguments)])
    assert kernel.run(f"%%kestrel {line}\n{prompt}", 60).status == "ok"
    (row,) = given(kernel)["calls"]
    return str(row.get("content") or row.get("error"))


# ---- what may be told ---------------------------------------------------------------------------------------------


def test_variables_are_listed_without_values(kernel: Kernel) -> None:
    outcome = call(kernel, ("list_variables", {}))
    assert outcome.status == "ok"
    found = given(kernel)
    (row,) = found["calls"]
    lines = row["content"].split("\n")
    assert "df: DataFrame 3 × 2" in lines
    assert "text: str of 13 characters" in lines
    assert "api_key: str" in lines
    assert {"name": "df", "type": "DataFrame", "shape": "3 × 2"} in row["data"]
    assert not any(sentinel in json.dumps(found) + json.dumps(outcome.displayed) for sentinel in SENTINELS)
    assert "pd" not in [line.partition(":")[0] for line in lines]


NAMES = ["df", "df.city", 'df["n"]', "text", "config", 'config["path"]', "config['inner']['rows']", "number", "arr"]
NAMES += ["job", "job.name", "job.frame", "api_key"]


def test_no_value_leaves_at_the_level_of_schemas(kernel: Kernel) -> None:
    """Nothing that any request of the model held, in full, has a value in it."""
    prepare(
        kernel, [("inspect_variable", {"name": name, **more}) for name in NAMES for more in ({}, {"level": "full"})]
    )
    assert kernel.run("%%kestrel\ngo", 60).status == "ok"
    requests = kernel.ok("print(repr([r for r in _model.requests]))").text
    found = given(kernel)["calls"]
    assert [row["type"] for row in found] == ["tool.executed"] * len(found)
    assert "- city: " in found[0]["content"]
    assert "Kestrel.disclosure" in found[1]["content"]
    assert "{df:full}" in found[1]["content"]
    assert not any(sentinel in requests for sentinel in SENTINELS if sentinel != "SENTINEL-KEY")
    assert kernel.ok("print(touched)").text == "[]\n"


def test_the_setting_allows_more(kernel: Kernel) -> None:
    kernel.ok('%config Kestrel.disclosure = "head"')
    text = inspected(kernel, name="df", level="head", rows=1)
    assert "SENTINEL-CELL" in text
    assert "| c |" not in text
    assert "No more than" not in text
    assert 'No more than "head" is allowed here' in inspected(kernel, name="df", level="full")
    assert "***" in inspected(kernel, name="api_key", level="head")
    kernel.ok('%config Kestrel.disclosure = "schema"')


def test_a_request_allows_more_for_its_variable(kernel: Kernel) -> None:
    text = inspected(kernel, "-s asked", "look at {df:head 2}", name="df", level="head")
    assert "SENTINEL-CELL" in text
    assert 'No more than "schema"' in inspected(kernel, "-s asked", name="arr", level="head")
    assert 'No more than "schema"' in inspected(kernel, "-s other", name="df", level="head")


def test_no_data_wins(kernel: Kernel) -> None:
    kernel.ok('%config Kestrel.disclosure = "full"')
    text = inspected(kernel, "--no-data", name="df", level="full")
    assert "the person has chosen to send no data" in text
    assert "SENTINEL-CELL" not in text
    kernel.ok('%config Kestrel.disclosure = "schema"')


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("dff", 'no variable "dff"; did you mean df'),
        ("nothing_like_it_at_all", "list_variables lists them"),
        ("df.citty", "did you mean city?"),
        ("config['pth']", "did you mean path?"),
        ("job.computed", "without running code"),
        ("job._secret", "without running code"),
        ("df[", "is no variable"),
        ("__import__('os')", "is no variable"),
        ("df.city.values[0]", "without running code"),
        ("text[0]", "without running code"),
    ],
)
def test_names_that_are_none(kernel: Kernel, name: str, said: str) -> None:
    assert said in inspected(kernel, name=name)
    assert kernel.ok("print(touched)").text == "[]\n"


# ---- run_python: what the model reads, and what the notebook gets -------------------------------------------------


def test_a_table_as_the_last_value(kernel: Kernel) -> None:
    """The model reads its first rows as the cell would show them, the notebook gets its rows."""
    first, second = results(kernel, "df", "print(df.city[0])")
    assert "| 0 | SENTINEL-CELL | 987654321 |" in first["content"]
    shown = kernel.ok("kept = _; print(kept.record['text/plain'])").text
    assert shown.count("SENTINEL-CELL  987654321") == 1  # as a table
    assert "| SENTINEL-CELL |" not in shown  # and not once more as the model's text
    assert first["data"]["columns"] == ["city", "n"]
    assert first["data"]["rows"][0] == ["SENTINEL-CELL", 987654321]
    assert second["content"] == "SENTINEL-CELL"
    assert kernel.ok("print(kept.frames['run_python'].city[0])").text == "SENTINEL-CELL\n"


def test_a_long_table_as_the_last_value(kernel: Kernel) -> None:
    (row,) = results(kernel, "pd.DataFrame({'n': range(1000)})")
    assert "| 19 | 19 |" in row["content"]
    assert "| 20 | 20 |" not in row["content"]


TABLES = {
    "series": ("df.n", ["n"], 3),
    "index": ("df.index", None, 3),
    "array": ("arr", ["0", "1"], 2),
    "vector": ("np.arange(3)", ["0"], 3),
    "structured": ("np.array([(1, 2.0)], dtype=[('a', int), ('b', float)])", None, 1),
    "long": ("pd.DataFrame({'x': range(6000)})", ["x"], 5000),
    "wide": ("pd.DataFrame([range(500)])", list(range(200)), 1),
    "grouped": ("df.groupby('city').n.sum()", ["n"], 3),
}


@pytest.mark.parametrize(("code", "columns", "rows"), TABLES.values(), ids=TABLES)
def test_tables_of_all_kinds(kernel: Kernel, code: str, columns: list[Any] | None, rows: int) -> None:
    (row,) = results(kernel, code)
    data = row["data"]
    assert len(data["rows"]) == rows
    assert columns is None or data["columns"] == columns
    assert data.get("total_rows") == (6000 if "6000" in code else None)
    assert data.get("total_columns") == (500 if "500" in code else None)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("pd.DataFrame({'x': range(1_000_000)})", "the notebook keeps its first 5,000 of 1,000,000 rows"),
        ("pd.Series(range(6_000))", "the notebook keeps its first 5,000 of 6,000 rows"),
        ("np.zeros((3, 500))", "the notebook keeps its first 200 of 500 columns"),
        (
            "pd.DataFrame(np.zeros((900, 300)))",
            "the notebook keeps its first 500 of 900 rows and 200 of 300 columns",
        ),
        ("pd.DataFrame({'x': range(5_000)})", ""),
        ("list(range(6_000))", ""),
    ],
)
@pytest.mark.parametrize("line", ["", "--no-data"])
def test_what_the_notebook_keeps_of_a_large_table_is_told(kernel: Kernel, code: str, said: str, line: str) -> None:
    assert call(kernel, *python(code), line=line).status == "ok"
    (row,) = given(kernel)["calls"]
    assert [text for text in row["content"].split("\n") if "the notebook keeps" in text] == ([said] if said else [])


def test_variables_that_changed(kernel: Kernel) -> None:
    kernel.ok("gone = 1; grown = [1]; frame = df.copy()")
    (row,) = results(kernel, "del gone\ngrown.append(2)\nframe['n'] = 0\nmade = {'a': 1}")
    assert row["content"].split("\n")[1:] == [
        "new variable made: dict of 1",
        "changed variable frame: DataFrame 3 × 2",
        "changed variable grown: list of 2",
        "gone variable gone: int",
    ]
    assert row["data"]["variables"] == {"new": ["made"], "changed": ["frame", "grown"], "gone": ["gone"]}
    assert row["data"]["columns"] == ["name", "change", "type", "shape"]
    assert ["frame", "changed", "DataFrame", "3 × 2"] in row["data"]["rows"]


def test_only_what_ran_counts_as_changed(kernel: Kernel) -> None:
    (row,) = results(kernel, "1 / 0\ndf['n'] = 0")
    assert "changed variable" not in row["content"]


def test_no_data_gives_the_model_nothing(kernel: Kernel) -> None:
    codes = ("print('SENTINEL-TEXT')\nunseen = 'SENTINEL-CELL'\nunseen", "raise ValueError('SENTINEL-TEXT')")
    outcome = call(kernel, *python(*codes), line="--no-data")
    assert outcome.status == "ok"
    found = given(kernel)
    assert "SENTINEL" not in json.dumps(found["said"])
    record = outcome.displayed[0]["text/plain"]
    assert record.count("Not sent to the model:") == 2
    assert "SENTINEL-CELL" in record
    assert "unsent" not in record
    good, bad = found["calls"]
    assert good["content"].startswith("the code ran\n")
    assert "new variable unseen: str of 13 characters" in good["content"]
    assert bad["content"].startswith("raised ValueError\n")
    assert bad["is_error"]
    assert "SENTINEL-TEXT" in good["data"]["unsent"]
    assert "ValueError: SENTINEL-TEXT" in bad["data"]["unsent"]


# ---- figures ------------------------------------------------------------------------------------------------------


def chunks(png: bytes) -> list[bytes]:
    found, at = [], 8
    while at < len(png):
        size = int.from_bytes(png[at : at + 4], "big")
        kind, body = png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        assert int.from_bytes(png[at + 8 + size : at + 12 + size], "big") == zlib.crc32(kind + body)
        found.append(kind)
        at += 12 + size
    return found


def test_figures(kernel: Kernel) -> None:
    """Plain PNGs, the same each time, in the data and in the record; for the model a line."""
    code = "import matplotlib.pyplot as plt\nfor n in (1, 2):\n    plt.figure(figsize=(2, 1))\n    plt.plot([0, n])"
    outcome = call(kernel, *python(code, code))
    (record,) = outcome.displayed
    first, second = given(kernel)["calls"]
    assert "2 figures were drawn and shown to the person" in first["content"]
    figures = first["data"]["figures"]
    assert [figure["type"] for figure in figures] == ["image/png", "image/png"]
    assert first["data"]["figures"] == second["data"]["figures"]
    raw = base64.b64decode(figures[0]["data"])
    assert raw.startswith(b"\x89PNG\r\n\x1a\n")
    assert chunks(raw) == [b"IHDR", b"IDAT", b"IEND"]
    assert (figures[0]["width"], figures[0]["height"]) == (
        int.from_bytes(raw[16:20], "big"),
        int.from_bytes(raw[20:24], "big"),
    )
    assert figures[0]["data"][:60] in record["text/html"]
    assert "image/png;base64" not in json.dumps(given(kernel)["said"])


def test_many_and_large_figures_are_named(kernel: Kernel) -> None:
    many = "import matplotlib.pyplot as plt\nfor n in range(7):\n    plt.figure(figsize=(1, 1))\n    plt.plot([n])"
    large = (
        "from IPython.display import Image\nimport io\nbuffer = io.BytesIO()\n"
        "plt.imsave(buffer, np.random.default_rng(0).random((900, 900, 3)))\nImage(buffer.getvalue())"
    )
    first, second = results(kernel, many, large)
    assert len(first["data"]["figures"]) == 4
    assert "4 figures were drawn and shown to the person\n3 more figures were drawn and not shown" in first["content"]
    assert "1 more figure was drawn and not shown: image/png, 900 × 900, 2." in second["content"]
    assert not (second["data"] or {}).get("figures")


def test_a_figure_as_the_last_value_and_a_sharp_one(kernel: Kernel) -> None:
    (row,) = results(
        kernel, "import matplotlib.pyplot as plt\nfig, _ = plt.subplots(figsize=(1, 1))\nplt.close(fig)\nfig"
    )
    assert len(row["data"]["figures"]) == 1
    kernel.ok("%config InlineBackend.figure_format = 'retina'")
    (row,) = results(kernel, "plt.figure(figsize=(1, 1))\nplt.plot([1]);")
    kernel.ok("%config InlineBackend.figure_format = 'png'")
    (figure,) = row["data"]["figures"]
    assert int.from_bytes(base64.b64decode(figure["data"])[16:20], "big") // 2 == figure["width"]


# ---- the cell -----------------------------------------------------------------------------------------------------


def test_the_card_shows_exactly_the_code(kernel: Kernel) -> None:
    """Approved by a button; what was shown is what ran."""
    code = "shown = 1\n# a comment\nshown + 1"
    prepare(kernel, python(code))
    page = RunPage(kernel, "%%kestrel\ngo")
    card = page.card()
    assert card["text"] == code
    page.answer(card, True)
    assert kernel.outcome(page.cell).status == "ok"
    assert given(kernel)["calls"][0]["content"].startswith("2\n")


def test_stop_ends_code_that_awaits(kernel: Kernel) -> None:
    prepare(kernel, python("import asyncio\nstarted = True\nawait asyncio.sleep(100)"))
    page = RunPage(kernel, "%%kestrel\ngo")
    page.answer(page.card(), True)
    time.sleep(0.5)
    page.send({"type": "stop"})
    outcome = kernel.outcome(page.cell)
    assert outcome.status == "ok"
    assert given(kernel)["calls"][0]["cause"] == "cancelled"
    assert kernel.ok("print(started)").text == "True\n"


def test_records_are_the_same_each_time(kernel: Kernel) -> None:
    """No address, time, process or place of the machine in what a run shows."""
    codes = [
        "object()",
        "print(object(), [object()])",
        "import warnings\nwarnings.warn('beware')",
        "raise ValueError(object())",
        "class A: pass\na = A()\nprint(a.__init__)\na",
        "import json\njson.loads('{')",
        "%pwd",
        "display(object())",
    ]
    records = []
    for _ in range(2):
        call(kernel, *python("%reset -f -s"))
        outcome = call(kernel, *python(*codes))
        records.append(outcome.displayed[0])
    assert records[0] == records[1]
    text = records[0]["text/plain"]
    assert not re.search(r"0x[0-9a-f]{6,}|ipykernel_\d|site-packages|/tmp/", text), text
    kernel.ok(USER)


def test_the_default_application_has_the_tools(kernel: Kernel) -> None:
    kernel.ok("from kestrel_nb.notebook.state import current as _current\n_current()._app = None")
    names = kernel.ok("tools = %kestrel tools\nprint(dict(zip(tools.tool, tools.permission)))").text
    for name, permission in (
        ("run_python", "ask"),
        ("list_variables", "auto"),
        ("inspect_variable", "auto"),
        ("insert_cell", "ask"),
    ):
        assert f"'{name}': '{permission}'" in names
