"""The last failed cell as text: what is kept of it, what is cut, and when it is forgotten."""

from __future__ import annotations

import atexit
import gc
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from kestrel_nb.notebook.failures import SOURCE, TRACEBACK, Failure, Failures
from kestrel_nb.notebook.inserting import InsertCell, difference
from kestrel_nb.notebook.open_cells import OpenCells
from kestrel_nb.protocol.tools import DiffPreview, TextPreview

ADDRESS = "0x7f"


class Cells:
    """A shell of its own, and what it has kept of the cell that failed last."""

    def __init__(self) -> None:
        self.shell = InteractiveShell(config=Config({"HistoryManager": {"hist_file": ":memory:"}}))
        self.shell.InteractiveTB.set_mode("Minimal")  # IPython's own drawing of a deep error takes seconds
        atexit.unregister(self.shell.atexit_operations)
        self.failures = Failures(self.shell)

    def run(self, source: str) -> Failure | None:
        self.shell.run_cell(source, store_history=True)
        return self.failures.last

    def fails(self, source: str) -> Failure:
        failure = self.run(source)
        assert failure is not None
        return failure


@pytest.fixture
def cells(capsys: pytest.CaptureFixture[str]) -> Iterator[Cells]:
    """A shell that is watched."""
    cells = Cells()
    cells.failures.install()
    yield cells
    cells.failures.remove()


def test_a_typo(cells: Cells) -> None:
    kept = cells.fails("\n\nprices = [1]\ndef area(x):\n    return sum(pricse)\narea(2)")
    assert (kept.type, kept.line, kept.whole) == ("NameError", 5, True)
    assert kept.traceback == (
        "Traceback (most recent call last):\n  Cell, line 6\n    area(2)\n  Cell, line 5, in area\n"
        "    return sum(pricse)\n               ^^^^^^\n"
        "NameError: name 'pricse' is not defined. Did you mean: 'prices'?"
    )
    assert kept.traceback_only.endswith("\nNameError")


def test_another_cell_a_file_and_a_library(cells: Cells, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text("import json\ndef load(text):\n    return json.loads(text)\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    cells.run("import shop\ndef first(text):\n    return shop.load(text)")
    text = cells.fails("first('{')").traceback
    assert "  Another cell, line 3, in first\n    return shop.load(text)" in text
    assert '  File "shop.py", line 3, in load' in text
    assert '  File "json/' in text
    assert str(tmp_path) not in text
    assert "/usr" not in text
    assert text.count("File ") <= 6


@pytest.mark.parametrize(
    ("source", "line", "says"),
    [
        ("for x in range(3)\n    x", 1, "SyntaxError: expected ':'"),
        ("x = (1,\n2", 2, "SyntaxError"),
        ("if 1:\n  1\n   2", 3, "IndentationError: unexpected indent"),
        ("%%time\n1\nfoo()", 3, "NameError: name 'foo' is not defined"),
        ("exec('x = = 1')", 1, "SyntaxError: invalid syntax"),
    ],
)
def test_where_it_failed(cells: Cells, source: str, line: int, says: str) -> None:
    kept = cells.fails(source)
    assert kept.line == line
    assert says in kept.traceback


def test_causes_and_groups(cells: Cells) -> None:
    cause = cells.fails("try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError(object()) from e").traceback
    assert cause.index("KeyError: 'a'") < cause.index("direct cause") < cause.index("ValueError: <object")
    assert ADDRESS not in cause
    context = cells.fails("try:\n    1/0\nexcept ZeroDivisionError:\n    nothing").traceback
    assert "While the error above was being handled" in context
    hidden = cells.fails("try:\n    1/0\nexcept ZeroDivisionError:\n    raise ValueError('v') from None").traceback
    assert "ZeroDivisionError" not in hidden
    group = cells.fails("raise ExceptionGroup('many', [ValueError(n) for n in range(9)])").traceback
    assert "Error 1 of 9 inside it:\n    ValueError: 0" in group
    assert "[4 more errors inside it]" in group
    ring = cells.fails("a, b = ValueError('a'), KeyError('b')\na.__cause__ = b\nb.__cause__ = a\nraise a").traceback
    assert ring.count("ValueError: a") == 1


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("def f(n):\n    return f(n + 1)\nf(0)", "more frames]"),
        ("raise KeyError('k' * 1_000_000)", "characters left out"),
        ("raise ValueError('v' * 1_000_000, ['w'] * 1_000_000)", "characters left out"),
        ("def g(n):\n    return h(n)\ndef h(n):\n    return g(n + 1)\ng(0)", "more frames]"),
        (
            "def m(n):\n    try:\n        1/0\n    finally:\n        m(n + 1) if n < 50 else 1/0\nm(0)",
            "ZeroDivisionError",
        ),
        (
            "raise ExceptionGroup('g', [ExceptionGroup('h' * 9000, [ValueError('x' * 9000)] * 50)] * 50)",
            "ExceptionGroup",
        ),
    ],
)
def test_it_is_bounded(cells: Cells, source: str, says: str) -> None:
    kept = cells.fails(source)
    assert says in kept.traceback
    assert len(kept.traceback) <= TRACEBACK + 100
    assert kept.traceback.splitlines()[-1]


def test_a_cell_of_a_megabyte(cells: Cells) -> None:
    kept = cells.fails("x = [\n" + "1,\n" * 500 + "]\ny = '" + "y" * 1_000_000 + "'\nnothing_here")
    assert not kept.whole
    assert len(kept.source) <= SOURCE + 100
    assert kept.source.startswith("x = [")
    assert kept.source.endswith("nothing_here")
    assert kept.line == 504


@pytest.mark.parametrize(
    "body", ["1/0", "return 7", "raise SystemExit", "return type('S', (str,), {'__str__': lambda s: 1/0})('x')"]
)
def test_an_error_whose_text_cannot_be_had(cells: Cells, body: str) -> None:
    error = f"class Bad(Exception):\n    def __str__(self): {body}\nbad = Bad()"
    namespace: dict[str, Any] = {}
    exec(error, namespace)
    cells.failures._keep(namespace["bad"], "raise Bad()", 1, None)
    assert cells.failures.last is not None
    assert "Bad" in cells.failures.last.traceback
    assert cells.failures.last.traceback_only == "Bad"


@pytest.mark.parametrize(
    "body",
    [
        "    def __getattribute__(self, name): raise OSError(name)",
        "    @property\n    def __cause__(self): raise OSError",
    ],
)
def test_an_error_that_cannot_be_looked_at_is_one_all_the_same(cells: Cells, body: str) -> None:
    cells.fails("1 / 0")
    failure = cells.fails(f"class Odd(Exception):\n{body}\nraise Odd('x')")
    assert "class Odd" in failure.source
    assert "can't be looked at: that raises OSError" in failure.traceback


def test_the_name_of_a_type_is_one_line(cells: Cells) -> None:
    cells.run("class Said(type):\n    @property\n    def __module__(cls): raise OSError")
    assert cells.fails("class Own(Exception, metaclass=Said): pass\nraise Own").type == "Own"
    assert cells.fails("raise type('A\\n\\x1b[31mB', (Exception,), {})").type == "A\\n[ESC][31mB"


def test_keys_are_masked_wherever_they_stand(cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-Zq81hbD7YtrP0w"
    monkeypatch.setenv("SHOP_API_KEY", key)
    kept = cells.fails(f"key = '{key}'\nraise ValueError('x' * 3990 + '{key}')")
    assert kept.masked
    assert key not in str(kept)
    assert "***" in kept.source
    assert "sk-Z" not in kept.traceback


def test_nothing_of_the_users_is_kept_alive(cells: Cells) -> None:
    cells.run("class Big: pass\ndef f():\n    big = Big()\n    seen.append(ref(big))\n    1/0")
    seen: list[Any] = []
    cells.shell.user_ns.update(seen=seen, ref=weakref.ref)
    assert cells.fails("f()").type == "ZeroDivisionError"
    # What Python and IPython themselves hold of the last error.
    sys.last_value = sys.last_traceback = cells.shell.last_execution_result = None  # type: ignore[assignment]
    if hasattr(sys, "last_exc"):
        del sys.last_exc
    cells.shell.InteractiveTB.tb = cells.shell.InteractiveTB.pydb = None
    cells.shell.InteractiveTB.etype = cells.shell.InteractiveTB.evalue = None
    gc.collect()
    assert seen[0]() is None


@pytest.mark.parametrize(
    "source",
    [
        "raise KeyboardInterrupt",
        "import warnings\nwarnings.simplefilter('ignore')\nraise SystemExit(3)",
        "import asyncio\nraise asyncio.CancelledError",
        "from kestrel_nb.notebook.screen import RunError\nraise RunError('no')",
        "from kestrel_nb.notebook.waiting import CellInterrupted\nraise CellInterrupted('no')",
        "from IPython.core.error import UsageError\n'''\n%%kestrel -x\n'''\nraise UsageError('no')",
        "x = 1",
        "",
    ],
)
def test_what_is_no_failure_of_a_cell(cells: Cells, source: str) -> None:
    assert cells.run(source) is None


def test_when_it_is_forgotten(cells: Cells) -> None:
    first = cells.fails("good = True\nassert bad")
    assert cells.run("x = 1") is first
    assert cells.fails("assert worse") is not first
    cells.fails("good = True\nassert bad")
    cells.run("bad = 1")
    assert cells.run("good = True\nassert bad") is None
    cells.fails("assert worse")
    cells.failures.proposed("assert good")
    assert cells.run("assert good\n") is None
    with cells.failures.unwatched():
        assert cells.run("1/0") is None


def test_a_cell_that_failed_before(capsys: pytest.CaptureFixture[str]) -> None:
    cells = Cells()
    cells.run("1/0")
    cells.failures.install()
    assert cells.failures.last is not None
    assert cells.failures.last.source == "1/0"
    cells.failures.remove()
    cells.run("later = 1")
    again = Failures(cells.shell)
    again.install()
    assert again.last is not None
    assert again.last.source == "1/0"
    again.remove()
    cells.run("1/0")
    cells.run("later = 2")
    unsure = Failures(cells.shell)
    unsure.install()
    assert unsure.last is None  # it ran twice: which run failed cannot be told
    unsure.remove()


# ---- what is inserted ---------------------------------------------------------------------------------------------


class Noted:
    """A shell that notes what its next input shall be."""

    def __init__(self) -> None:
        self.next: list[str] = []
        self.events = Cells().shell.events

    def set_next_input(self, text: str, replace: bool = False) -> None:
        assert not replace
        self.next.append(text)


def test_cells_go_below_the_one_that_runs() -> None:
    shell = Noted()
    cells = OpenCells(shell)
    assert not cells.insert("a")
    cells.install()
    shell.events.trigger("post_run_cell", None)
    assert not cells.insert("a")
    shell.events.trigger("pre_run_cell", object())
    assert cells.insert("a")
    assert cells.insert("b")
    assert shell.next == ["a", "a\n\nb"]
    shell.events.trigger("post_run_cell", None)
    assert not cells.insert("c")
    cells.remove()


@pytest.mark.parametrize(
    "code",
    ["", "  \n", "%%kestrel\ndo it", "x = 1\n%kestrel fix", "y = %kestrel inbox", "\n  %%kestrel -b\nx",
     "get_ipython().run_cell_magic('kestrel', '', 'x')", "%%time\n%%kestrel\nx", "x" * 100_001,
     "%time %kestrel approve a1", "get_ipython().magic('%kestrel use demo')", "run_line_magic(a='kestrel', line='')"],
)  # fmt: skip
def test_code_that_is_refused(code: str) -> None:
    state: Any = None
    with pytest.raises(ValueError, match=r"code|cell"):
        InsertCell(state).preview({"code": code}, context=state)


def test_the_difference_shows_every_line_of_a_short_cell() -> None:
    shown = difference("a = 1\nb = 2\nc = 3\nd = 4\ne = 5\nf = 6\n", "a = 1\nb = 2\nc = 3\nd = 4\ne = 5\nf = 7")
    assert isinstance(shown, DiffPreview)
    assert (shown.added, shown.removed) == (1, 1)
    assert shown.diff.split("\n") == [
        "@@ -1,6 +1,6 @@",
        " a = 1",
        " b = 2",
        " c = 3",
        " d = 4",
        " e = 5",
        "-f = 6",
        "+f = 7",
    ]
    assert isinstance(difference("same", "same\n"), TextPreview)
