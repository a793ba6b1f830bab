"""The notebook of real models replays with no key and no network, to the outputs that are saved in it."""

import json
from pathlib import Path
from typing import Any

import pytest
from harness import Kernel, isolated_env, running_kernel
from record_notebook import NOTEBOOK, outputs_of

# An audit hook hears of every connection and every look-up of a name, and can't be taken off again. The channels of the
# kernel itself are ZeroMQ's and don't go through Python's sockets.
NO_NETWORK = """import sys
tried = []

def refuse(event, arguments):
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname"):
        tried.append((event, str(arguments[1:])))
        raise OSError("no network in this test")

sys.addaudithook(refuse)"""
CELL_S = 60


def saved(notebook: Path) -> list[dict[str, Any]]:
    """The code cells of a notebook with their outputs, in order."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def replayed(kernel: Kernel, cells: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The outputs of ``cells``, run in ``kernel`` with nobody there to answer."""
    return [outputs_of(kernel.ok("".join(cell["source"]), CELL_S), number) for number, cell in enumerate(cells, 1)]


def assert_no_network(kernel: Kernel) -> None:
    """Nothing was tried, and the hook works."""
    assert kernel.ok("print(tried)").text == "[]\n"
    assert kernel.run("import socket; socket.create_connection(('127.0.0.1', 9))").status == "error"
    assert "no network" in kernel.run("socket.getaddrinfo('example.com', 80)").reply["evalue"]


@pytest.mark.kernel
def test_it_replays_without_key_and_network_to_identical_outputs(tmp_path: Path) -> None:
    keys = [name for name in isolated_env(tmp_path) if name.endswith(("_API_KEY", "_API_TOKEN")) or "CASSETTE" in name]
    assert keys == []
    cells = saved(NOTEBOOK)
    with running_kernel(tmp_path, cwd=NOTEBOOK.parent) as kernel:
        kernel.ok(NO_NETWORK)
        first = replayed(kernel, cells)
        assert [len(outputs) for outputs in first] == [len(cell["outputs"]) for cell in cells]
        assert first == [cell["outputs"] for cell in cells]
        assert (
            "0 of them not played yet"
            in kernel.ok("print(repr(get_ipython().run_line_magic('kestrel', 'replay')))").text
        )
        assert_no_network(kernel)


def test_it_shows_a_call_an_approval_a_decline_and_a_table() -> None:
    text = NOTEBOOK.read_text(encoding="utf-8")
    for words in (
        "Approved.",
        "Declined.",
        "cassette of openai:smollm2",
        '<table border=\\"1\\" class=\\"dataframe\\">',
    ):
        assert words in text
    assert "%kestrel replay 03_real_models.jsonl" in text
    kinds = [json.loads(line).get("kind") for line in NOTEBOOK.with_suffix(".jsonl").read_text("utf-8").splitlines()]
    assert {"reply", "answer", "result"} <= set(kinds)
