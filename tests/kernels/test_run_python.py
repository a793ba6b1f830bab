"""``run_python`` runs code as a cell of the user's: the same code in a cell and through the tool, side by side."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from harness import Kernel, Outcome
from python_tool import LOAD, given, prepare, python, real_kernel
from snippets import SNIPPETS

PROBE = "print(__import__('probe_namespace').digests(globals()))"
OWN_LINES = re.compile(
    r"(new|changed|gone) variable |\d+ (more )?figures? (was|were) drawn|the working folder is now"
    r"|environment variables changed|… \d+ more variables|\[stderr\]$|\[end of stderr\]$|\(no output\)$"
)


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """The kernel in which each snippet is a cell."""
    with real_kernel(tmp_path_factory.mktemp("cells")) as kernel:
        kernel.ok(f"import sys as _sys\n_sys.path.insert(0, {str(__file__).rpartition('/')[0]!r})")
        yield kernel


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """The kernel in which a model runs each snippet."""
    with real_kernel(tmp_path_factory.mktemp("tools")) as kernel:
        kernel.ok(LOAD, 60)
        yield kernel


def lines_of_cell(outcome: Outcome) -> list[str]:
    """What a cell shows, line by line; an error by its type."""
    shown: dict[Any, str] = {}
    for number, message in enumerate(outcome.messages):
        content, kind = message["content"], message["msg_type"]
        key = content.get("transient", {}).get("display_id", number)
        if kind == "stream":
            shown[number] = content["text"]
        elif kind in ("display_data", "execute_result", "update_display_data"):
            shown[key] = f"\n{bundle_text(content['data'])}\n"
    text = "".join(shown.values())
    if outcome.status == "error":  # some of them are printed
        text = re.split(r"^(?:UsageError: |  \+ Exception Group Traceback)", text, flags=re.MULTILINE)[0]
        text += f"\nerror: {outcome.reply['ename']}"
    return stable_lines(text)


def bundle_text(data: dict[str, Any]) -> str:
    text = str(data.get("text/plain", ""))
    return f"figure: {text.strip('<>')}" if "image/png" in data else text


def lines_of_tool(row: dict[str, Any]) -> list[str]:
    """The same of what the model reads."""
    content = row["content"]
    lines = [line for line in content.split("\n") if not OWN_LINES.match(line)]
    text = "\n".join(re.sub(r"^\[figure \d+: (.*)\]$", r"figure: \1", line) for line in lines)
    if row["is_error"]:
        text, error = split_error(text)
        text = f"{text}\nerror: {error}"
    return stable_lines(text)


def split_error(text: str) -> tuple[str, str]:
    """What stands before a traceback, and the type that it ends in."""
    start = re.search(r"^(Traceback \(most recent|  Cell, line \d+|  Text, line|UsageError: )", text, re.MULTILINE)
    assert start, text
    last = [m[1] for m in re.finditer(r"^(?:[\w.]+\.)?(\w+)(?:: |$)", text[start.start() :], re.MULTILINE)]
    types = [name for name in last if name.endswith(("Error", "Group", "Exception", "Iteration"))]
    return text[: start.start()], "ExceptionGroup" if "ExceptionGroup" in types else types[-1]


def stable_lines(text: str) -> list[str]:
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    text = re.sub(r"\S*ipykernel_\d+/\d+\.py", "<cell>", text).replace("\r\n", "\n")
    lines = [line.rpartition("\r")[2].rstrip() for line in text.split("\n")]
    return [line for line in lines if line]


@pytest.mark.timeout(300)
def test_snippets_do_what_they_do_in_a_cell(cells: Kernel, tools: Kernel) -> None:
    """One after the other, in two kernels: output, value, error, figures and the namespace after it are the same."""
    wrong = []
    prepare(tools, *(python(code) for code in SNIPPETS.values()))
    for name, code in SNIPPETS.items():
        direct = cells.run(code, 60)
        outcome = tools.run("%%kestrel\ngo", 60)
        assert outcome.status == "ok", (name, outcome.reply)
        assert [set(data) for data in outcome.displayed] == [{"text/html", "text/markdown", "text/plain"}], name
        assert outcome.text == "", (name, outcome.text)
        (row,) = given(tools)["calls"]
        assert row["type"] == "tool.executed", (name, row)
        expected, got = lines_of_cell(direct), lines_of_tool(row)
        if (expected, direct.status == "error") != (got, row["is_error"]):
            wrong.append((name, expected, got))
        before, after = json.loads(cells.ok(PROBE).text), json.loads(tools.ok(PROBE).text)
        if before != after:
            wrong.append(
                (name, *({k: v for k, v in a.items() if b.get(k) != v} for a, b in ((before, after), (after, before))))
            )
        for kernel in (cells, tools):
            kernel.forget()
    assert not wrong, "\n".join(map(str, wrong))
