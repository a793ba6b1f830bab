"""Models by their ids against a server that others wrote: listed, used, priced, and failing in one clear line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from front_end import RunPage
from harness import Kernel, running_kernel
from peer_servers import PeerServer

KEY = "sk-dummy-Key-of-this-Test"
pytestmark = pytest.mark.kernel


@pytest.fixture
def environment(llmock_server: PeerServer) -> dict[str, str]:
    """What a person set before the kernel started."""
    return {
        "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
        "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": f"{llmock_server.url}/v1",
        "ANTHROPIC_API_KEY": "",
        "GEMINI_API_KEY": KEY,
        "GEMINI_BASE_URL": "http://127.0.0.1:9",
    }


@pytest.fixture
def kernel(environment: dict[str, str], tmp_path: Path) -> Iterator[Kernel]:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    with running_kernel(tmp_path, cwd=workspace, extra_env=environment) as running:
        running.ok("%load_ext kestrel_nb", 60)
        yield running


def record(kernel: Kernel, cell: str) -> str:
    (shown,) = kernel.ok(cell, 60).displayed
    return str(shown["text/plain"])


def test_a_session_in_a_notebook(kernel: Kernel, llmock_server: PeerServer) -> None:
    there = kernel.ok("it = %kestrel models\nprint(*it.model, *it.dtypes[['tools', 'context_window']])").text
    assert there.startswith("demo openai:MODEL openai-responses:MODEL gemini:MODEL ")
    assert there.endswith("boolean Int64\n")
    kernel.ok("offered = %kestrel models openai")
    shown = "print(list(offered.columns), *offered.set_index('id').loc['openai:gpt-4o-mini'])"
    columns = "['id', 'label', 'context_window', 'tools', 'images', 'reasoning']"
    assert kernel.ok(shown).text == f"{columns} nan 128000 <NA> <NA> <NA>\n"

    said = kernel.ok("%kestrel use openai:gpt-4o-mini").displayed[0]["text/plain"]
    assert said == "The model is openai:gpt-4o-mini now."
    first = record(kernel, "%%kestrel -o run -t list_dir\nlist the files").split("\n")[0]
    assert first.startswith("Finished · openai:gpt-4o-mini · 2 steps · ")
    assert " tokens · $0.000" in first
    assert kernel.ok("print(run.result.cost > 0, run.result.cost == run.session.cost)").text == "True True\n"
    other = record(kernel, "%%kestrel -m openai:gpt-4o -t list_dir\nagain")
    assert other.startswith("Finished · openai:gpt-4o · ")
    used = "it = %kestrel usage\nprint(*it.model[:3], sep='; ')\n"
    used += "print(it.cost[0] < it.cost[1], it.cost[2] == it.cost[:2].sum())"
    assert kernel.ok(used).text == ("openai:gpt-4o-mini; openai:gpt-4o; openai:gpt-4o-mini, openai:gpt-4o\nTrue True\n")
    unknown = record(kernel, "%%kestrel -m openai:no-such -t list_dir\nhi")
    assert "tokens · cost unknown" in unknown.split("\n")[0]
    free = record(kernel, f"%%kestrel -m openai+{llmock_server.url}/v1:gpt-4o -t list_dir\nhi")
    assert "tokens · cost unknown" in free.split("\n")[0]
    kernel.ok("%config Kestrel.model = 'openai-responses:gpt-4o'")
    current = "it = %kestrel models\nprint(*it.model[it.current], *it.context_window[it.current])"
    assert kernel.ok(current).text == "openai-responses:gpt-4o 128000\n"
    assert record(kernel, "%%kestrel -s new -t list_dir\nhi").startswith("Finished · openai-responses:gpt-4o · ")


def test_a_live_view_shows_tokens_and_cost_while_the_run_goes_on(kernel: Kernel) -> None:
    kernel.ok("offered = %kestrel models openai")  # has the price list read
    page = RunPage(kernel, "%%kestrel -m openai:gpt-4o -t run_python\nwork")
    card = page.card()
    head = str(kernel.models()[page.comm]["page"])
    assert " tokens" in head
    assert "$0.0" in head
    page.answer(card, False)
    outcome = kernel.outcome(page.cell, 30)
    assert outcome.status == "ok"


def test_what_fails_is_one_line_that_says_what_to_do(kernel: Kernel, llmock_server: PeerServer) -> None:
    def failed(cell: str) -> str:
        outcome = kernel.run(cell, timeout=60)
        assert outcome.status == "error"
        text = str(outcome.displayed[0]["text/plain"]) if outcome.displayed else outcome.text
        assert KEY not in str(outcome.reply) + text
        assert "Traceback" not in str(outcome.reply) + text
        assert len(outcome.reply.get("traceback", [])) <= 1
        return text

    how = "set ANTHROPIC_API_KEY before starting Jupyter, or in a cell: import getpass, os; os.environ["
    assert how in failed("%%kestrel -m anthropic:claude-sonnet-4-5\nhi")
    assert how in failed("%kestrel models anthropic")
    assert "could not be reached" in failed("%%kestrel -m gemini:gemini-2.5-flash\nhi")
    assert "could not be reached" in failed("%kestrel models gemini")
    llmock_server.call("POST", "/_llmock/reset", {})
    refusal = {"type": "fail", "status": 401}
    llmock_server.call("POST", "/_llmock/scenario", {"behaviors": [refusal]})
    try:
        assert "answered 401" in (said := failed("%%kestrel -m openai:gpt-4o\nhi"))
        assert "check OPENAI_API_KEY" in said
    finally:
        llmock_server.call("POST", "/_llmock/reset", {})


def test_doctor_names_places_and_no_key(kernel: Kernel) -> None:
    text = kernel.ok("report = %kestrel doctor\nprint(repr(report))").text
    lines = {line.split("  ")[0]: line for line in text.splitlines()}
    assert "set: models of openai are asked for at 127.0.0.1:" in lines["OPENAI_BASE_URL"]
    assert lines["OPENAI_API_KEY"].endswith(" set")
    assert "set, but empty" in lines["ANTHROPIC_API_KEY"]
    assert "installed" in lines["extra cost"]
    assert KEY not in text


def test_plain_python(environment: dict[str, str], tmp_path: Path) -> None:
    code = """
from kestrel_nb import Kestrel, KestrelConfig
app = Kestrel(config=KestrelConfig(model="openai:gpt-4o-mini"))
result = app.run_sync("list the files")
print(result.status, result.usage.total_tokens > 0, 0 < result.cost < 0.01)
session = app.sessions.get(app.sessions.list()[0].id)
print(session.cost == result.cost, session.spent[0].model)
app.close()
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    assert done.stdout == "completed True True\nTrue openai:gpt-4o-mini\n", done.stderr
