"""``%kestrel record`` and ``replay``, the options of a cell, and KESTREL_CASSETTE, in a real kernel."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import Kernel, running_kernel
from sample_cells import LOAD

from kestrel_nb.protocol.errors import UsageError
from kestrel_nb.providers.cassette_wish import Wish

ASK = "%%kestrel\nwhat time is it?"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with running_kernel(tmp_path_factory.mktemp("cassettes")) as running:
        running.ok(LOAD, 60)
        running.ok("import os")
        yield running


@pytest.fixture
def folder(kernel: Kernel, tmp_path: Path) -> Path:
    """A fresh folder for cassettes; the notebook has none."""
    kernel.ok("%kestrel record off\n%kestrel new")
    return tmp_path


def record_of(kernel: Kernel, cell: str) -> str:
    shown: list[Any] = kernel.ok(cell).displayed
    return str(shown[-1]["text/plain"])


def word(kernel: Kernel, line: str) -> str:
    return str(kernel.ok(line).displayed[-1]["text/plain"])


def problem(kernel: Kernel, cell: str) -> str:
    outcome = kernel.run(cell)
    assert outcome.status == "error"
    text = " ".join([outcome.text, *outcome.reply.get("traceback", [])])
    assert "Traceback" not in text
    return text


def entries(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_session_is_recorded_and_played(kernel: Kernel, folder: Path) -> None:
    path = folder / "talk.jsonl"
    said = word(kernel, f"%kestrel record {path}")
    assert said == f"Cells go through the cassette {path}, in a new session."
    first = record_of(kernel, ASK)
    assert first.startswith("Finished · cassette of demo (a rule model, no AI) · 2 steps")
    assert [entry["kind"] for entry in entries(path)[3:]] == ["reply", "result", "reply"]
    assert "record: " in word(kernel, "%kestrel record")
    assert word(kernel, f"%kestrel replay {path}") == said
    kernel.ok("import time; time.sleep(1.1)\n%kestrel new")
    assert "3 of them not played yet" in word(kernel, "%kestrel replay")
    assert record_of(kernel, ASK) == first
    assert "0 of them not played yet" in word(kernel, "%kestrel replay")
    kernel.ok("%kestrel new")
    assert "recorded once and was played as often" in problem(kernel, ASK)
    assert "cassette" in word(kernel, "%kestrel doctor")
    kernel.ok("%kestrel replay off\n%kestrel new")
    assert "cassette" not in record_of(kernel, ASK)


def test_a_cell_has_a_cassette_of_its_own(kernel: Kernel, folder: Path) -> None:
    path = folder / "one.jsonl"
    first = record_of(kernel, ASK.replace("%%kestrel", f"%%kestrel --record {path}"))
    count = len(entries(path))
    kernel.ok("%kestrel new")
    assert "cassette" not in record_of(kernel, ASK)
    assert len(entries(path)) == count
    kernel.ok("%kestrel new")
    assert record_of(kernel, ASK.replace("%%kestrel", f"%%kestrel --replay={path}")) == first


def test_a_recording_goes_on_in_its_kernel_and_begins_anew_in_another(kernel: Kernel, folder: Path) -> None:
    path = folder / "parts.jsonl"
    kernel.ok(f"%kestrel record {path}")
    record_of(kernel, ASK)
    kernel.ok("%kestrel record off\n%kestrel new")
    record_of(kernel, ASK)
    kernel.ok(f"%kestrel record {path}\n%kestrel new")
    record_of(kernel, ASK.replace("time", "day"))
    assert [entry["kind"] for entry in entries(path)[3:]] == ["reply", "result", "reply"] * 2
    kernel.ok("%unload_ext kestrel_nb\n%load_ext kestrel_nb")
    kernel.ok(f"%kestrel record {path}")
    assert len(entries(path)) == 9
    record_of(kernel, ASK)
    assert len(entries(path)) == 6
    path.unlink()
    kernel.ok(f"%kestrel record {path}\n%kestrel new")
    record_of(kernel, ASK)
    assert len(entries(path)) == 6


def test_all_cells_run_twice_in_one_kernel(kernel: Kernel, folder: Path) -> None:
    """While recording the second pass is the recording; while playing both passes are the same."""
    path = folder / "twice.jsonl"
    cells = [ASK, ASK.replace("%%kestrel", "%%kestrel -s plan"), ASK, ASK.replace("%%kestrel", "%%kestrel -s plan")]

    def run_all(word: str) -> list[str]:
        kernel.ok(f"%kestrel {word} {path}")
        return [record_of(kernel, cell) for cell in cells]

    run_all("record")
    recorded = run_all("record")
    assert run_all("replay") == recorded
    assert run_all("replay") == recorded
    assert "0 of them not played yet" in word(kernel, "%kestrel replay")
    kernel.ok("%unload_ext kestrel_nb\n%load_ext kestrel_nb")  # the sessions of before are stored
    assert run_all("replay") == recorded
    kernel.ok("%kestrel replay off")


def test_names_of_sessions_are_this_kernels_own(kernel: Kernel, folder: Path) -> None:
    path = folder / "names.jsonl"
    cells = [
        "%kestrel new plan",
        ASK,
        "%kestrel fork copy",
        ASK.replace("%%kestrel", "%%kestrel -s copy"),
        ASK.replace("%%kestrel", "%%kestrel -s plan"),
        "%kestrel rewind -s plan",
        "%kestrel history copy",
    ]

    def run_all(word: str) -> list[Any]:
        kernel.ok("%unload_ext kestrel_nb\n%load_ext kestrel_nb")
        kernel.ok(f"%kestrel {word} {path}")
        return [kernel.ok(cell).displayed[-1]["text/plain"] for cell in cells]

    recorded = run_all("record")
    assert [record[:1] for record in run_all("replay")] == [record[:1] for record in recorded]
    assert run_all("replay")[:-1] == recorded[:-1]
    assert "there is a session" in problem(kernel, "%kestrel new plan")
    kernel.ok("%kestrel replay off")
    assert "there is a session" in problem(kernel, "%kestrel fork plan")


def test_what_was_ended_goes_on(kernel: Kernel, folder: Path) -> None:
    path = folder / "off.jsonl"

    def run_all(word: str) -> list[str]:
        kernel.ok("%unload_ext kestrel_nb\n%load_ext kestrel_nb")
        said = [f"%kestrel {word} {path}", ASK, f"%kestrel {word} off", ASK, f"%kestrel {word} {path}", ASK]
        return [str(outs[-1]["text/plain"]) for cell in said if (outs := kernel.ok(cell).displayed)]

    recorded = run_all("record")
    played = run_all("replay")
    assert played[:2] == recorded[:2]
    assert played[3:] == recorded[3:]
    kernel.ok("%kestrel replay off")


def test_a_model_that_is_not_here_is_played(kernel: Kernel, folder: Path) -> None:
    path = folder / "far.jsonl"
    kernel.ok(
        "from kestrel_nb.testing import ScriptedModel\nfar = ScriptedModel(['From far.'], id='far')\n%kestrel use far\n"
    )
    first = record_of(kernel, f"%%kestrel --record {path} -m far\nhi")
    kernel.ok("%unload_ext kestrel_nb\n%load_ext kestrel_nb")
    assert 'no model "far"' in problem(kernel, "%%kestrel -m far\nhi")
    assert record_of(kernel, f"%%kestrel --replay {path} -m far\nhi") == first
    word(kernel, f"%kestrel replay {path}")
    kernel.ok("%kestrel new")
    assert record_of(kernel, "%%kestrel -m far\nhi") == first


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("%kestrel replay nothing.jsonl", "there is no cassette nothing.jsonl"),
        ("%kestrel record /", "is a folder"),
        ("%kestrel record no/x.jsonl", "there is no folder"),
        ("%kestrel record a b", "usage: %kestrel record PATH [--auto]"),
        ("%kestrel replay a --auto", "usage: %kestrel replay [PATH|off]"),
        ("%kestrel record --auto", "usage: %kestrel record"),
        ("%%kestrel --replay nothing.jsonl\nhi", "there is no cassette nothing.jsonl"),
        ("%%kestrel --replay a --record b\nhi", "give --record or --replay, not both"),
        ("%%kestrel --replay\nhi", "--replay needs a value: --replay PATH"),
    ],
)
def test_mistakes_are_one_line(kernel: Kernel, folder: Path, cell: str, says: str) -> None:
    assert says in problem(kernel, cell)
    assert "No cassette" in word(kernel, "%kestrel record")


def test_the_environment_decides_the_mode(kernel: Kernel, folder: Path) -> None:
    path = folder / "env.jsonl"
    kernel.ok(f"%kestrel record {path}")
    first = record_of(kernel, ASK)
    before = path.read_bytes()
    kernel.ok("os.environ['KESTREL_CASSETTE'] = 'replay:'")
    try:
        assert word(kernel, f"%kestrel record {path}") == f"Cells go through the cassette {path}, in a new session."
        kernel.ok("%kestrel new")
        assert record_of(kernel, ASK) == first
        assert path.read_bytes() == before
        kernel.ok(f"os.environ['KESTREL_CASSETTE'] = {f'replay:{path}'!r}\n%kestrel record other.jsonl\n%kestrel new")
        kernel.ok("%kestrel record off")
        assert record_of(kernel, ASK) == first
        kernel.ok("del os.environ['KESTREL_CASSETTE']\n%kestrel record off\n%kestrel new")
        kernel.ok(f"os.environ['KESTREL_CASSETTE'] = {f'replay:{path}'!r}")
        assert record_of(kernel, ASK) == first
        says = '(KESTREL_CASSETTE is "replay:")'
        kernel.ok("os.environ['KESTREL_CASSETTE'] = 'replay:'")
        assert says in problem(kernel, "%kestrel record nothing.jsonl")
        assert says in problem(kernel, "%%kestrel --record nothing.jsonl\nhi")
        kernel.ok("os.environ['KESTREL_CASSETTE'] = 'off'\n%kestrel new")
        word(kernel, f"%kestrel replay {path}")
        assert "cassette" not in record_of(kernel, ASK)
    finally:
        kernel.ok("del os.environ['KESTREL_CASSETTE']")


# Whatever reaches for the network is noted; ZeroMQ's own channels don't go through Python's sockets.
NO_NETWORK = """import sys
tried = []

def note(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo"):
        tried.append(event)
        raise OSError("no network in this test")

sys.addaudithook(note)"""
FAR = """from kestrel_nb import CompletionResponse, Kestrel, ModelInfo

class Far:
    info = ModelInfo(id="cloud:far", provider="cloud")
    asked = 0

    async def generate(self, request, on_delta=None):
        Far.asked += 1
        return CompletionResponse(content="From far.")

%kestrel use demo"""


def test_replay_without_a_path_reaches_no_model(tmp_path: Path) -> None:
    with running_kernel(
        tmp_path, extra_env={"KESTREL_CASSETTE": "replay:", "OPENAI_API_KEY": "sk-any-Key-1234"}
    ) as far:
        far.ok(LOAD, 60)
        far.ok(NO_NETWORK)
        far.ok(FAR)
        assert "No cassette: KESTREL_CASSETTE says replay, so cells that name none" in word(far, "%kestrel record")
        assert "none: KESTREL_CASSETTE says replay" in word(far, "%kestrel doctor")
        assert "Finished" in record_of(far, ASK)
        says = 'KESTREL_CASSETTE is "replay:" and no cassette is named for this cell, so openai:gpt-4o is not asked'
        for cell in ("%%kestrel -m openai:gpt-4o\nhi", "%%kestrel -b -m openai:gpt-4o\nhi"):
            assert says in problem(far, cell)
            assert "%kestrel record PATH, or set KESTREL_CASSETTE=replay:PATH" in problem(far, cell)
        far.ok("%kestrel use openai:gpt-4o")
        assert says in problem(far, ASK)
        assert "no server is asked for its models" in problem(far, "%kestrel models openai")
        far.run("1 / 0")
        explained = far.run("%kestrel explain")
        assert (explained.status, says in str(explained.reply["evalue"])) == ("error", True)
        outcome = far.run("app = Kestrel(model=Far())\nawait app.ask('hi')")
        assert outcome.status == "error"
        assert "cloud:far is not asked" in str(outcome.reply["evalue"])
        assert "cloud:far is not asked" in str(far.run("app.run_sync('hi')").reply["evalue"])
        far.ok("%kestrel use app")
        assert "cloud:far is not asked" in str(far.run("%%kestrel\nhi").reply["evalue"])
        assert far.ok("print(tried, Far.asked)").text == "[] 0\n"
        far.ok("import os; os.environ['KESTREL_CASSETTE'] = 'off'")
        assert "From far." in record_of(far, "%%kestrel\nhi")


FAILS = """from kestrel_nb import Kestrel, KestrelConfig, ModelRequestError
from kestrel_nb.runtime.retry import RetryOptions
from kestrel_nb.testing import Reply, ScriptedModel

busy = ModelRequestError("far answered 503: busy", status=503, retryable=True)
cut = Reply("The beginning of it", error=ModelRequestError("far broke off"), error_after=2)
refused = Reply(error=ModelRequestError("far answered 401: no; check the API key", status=401))
far = ScriptedModel([Reply(error=busy)] * 3 + [Reply(error=busy), "Well.", cut, refused], id="far")
config = KestrelConfig(retry=RetryOptions(attempts=3, base_delay_ms=100))
own = Kestrel(model=far, config=config)
%kestrel use own"""


def test_cells_that_fail_are_played(kernel: Kernel, folder: Path) -> None:
    path = folder / "fails.jsonl"
    kernel.ok(FAILS)
    try:
        shown = []
        for mode in ("record", "replay"):
            kernel.ok(f"%kestrel {mode} {path}")
            outcomes = [kernel.run(f"%%kestrel -s s{number}\nhi {number}") for number in range(4)]
            shown.append([([*out.displayed], out.reply.get("traceback"), out.status) for out in outcomes])
        assert shown[0] == shown[1]
        assert [status for _, _, status in shown[0]] == ["error", "ok", "error", "error"]
        assert "far answered 503: busy" in str(shown[0][0])
        assert "0 of them not played yet" in word(kernel, "%kestrel replay")
    finally:
        kernel.ok("%kestrel replay off\n%unload_ext kestrel_nb\n%load_ext kestrel_nb")


@pytest.mark.parametrize("mode", ["record", "auto"])
def test_a_cell_that_is_not_recorded_says_so(kernel: Kernel, folder: Path, mode: str) -> None:
    kernel.ok(FAR)
    kernel.ok(f"os.environ['KESTREL_CASSETTE'] = '{mode}:'\nown = Kestrel(model=Far())\n%kestrel use own")
    try:
        shown = record_of(kernel, "%%kestrel\nhi")
        assert f'Nothing of this is recorded: KESTREL_CASSETTE is "{mode}:", and no cassette is named' in shown
        assert "From far." in shown
        path = folder / f"{mode}.jsonl"
        assert "Nothing of this" not in record_of(kernel, f"%%kestrel --record {path}\nhi")
        assert path.exists()
        assert "Nothing of this" not in record_of(kernel, "%%kestrel -m demo\nwhat time is it?")
    finally:
        kernel.ok("del os.environ['KESTREL_CASSETTE']\n%unload_ext kestrel_nb\n%load_ext kestrel_nb")


@pytest.mark.parametrize(
    ("text", "wish"),
    [
        ("", Wish()),
        ("talk.jsonl", Wish(None, "talk.jsonl")),
        (r"C:\talk.jsonl", Wish(None, r"C:\talk.jsonl")),
        (r"replay:C:\talk.jsonl", Wish("replay", r"C:\talk.jsonl")),
        ("replay:", Wish("replay", None)),
        ("replay", Wish("replay", None)),
        ("off", Wish("off", None)),
        ("./off", Wish(None, "./off")),
        (" auto: a:b.jsonl ", Wish("auto", "a:b.jsonl")),
    ],
)
def test_what_the_environment_says(text: str, wish: Wish) -> None:
    assert Wish.of(text) == wish


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("relpay:", 'did you mean "replay"?'),
        ("relpay", 'did you mean "replay"?'),
        ("Replay:talk.jsonl", 'did you mean "replay"?'),
        ("play:talk.jsonl", 'did you mean "replay"?'),
        ("http://host/talk.jsonl", "the modes are"),
    ],
)
def test_a_misspelt_mode_is_no_path(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)):
        Wish.of(text)


def test_a_misspelt_mode_asks_no_model(tmp_path: Path) -> None:
    with running_kernel(tmp_path, extra_env={"KESTREL_CASSETTE": "relpay:"}) as kernel:
        kernel.ok(LOAD, 60)
        for cell in ("%kestrel record talk.jsonl", ASK, ASK, "%%kestrel --record talk.jsonl\nhi", "%kestrel record"):
            assert 'did you mean "replay"?' in problem(kernel, cell)
        assert 'did you mean "replay"?' in word(kernel, "%kestrel doctor")
    assert not list(tmp_path.glob("*.jsonl"))


def test_the_environment_gives_the_default(tmp_path: Path) -> None:
    path = tmp_path / "default.jsonl"
    with running_kernel(tmp_path, extra_env={"KESTREL_CASSETTE": str(path)}) as kernel:
        kernel.ok(LOAD, 60)
        assert "cassette of demo" in record_of(kernel, ASK)
        assert "auto: " in word(kernel, "%kestrel record")
        assert len(entries(path)) == 6
    assert os.path.getsize(path)


def test_a_bad_default_stops_every_cell_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text("hello\n")
    with running_kernel(tmp_path, extra_env={"KESTREL_CASSETTE": "replay:bad.jsonl"}) as kernel:
        kernel.ok(LOAD, 60)
        assert "is no cassette" in problem(kernel, ASK)
        assert "is no cassette" in word(kernel, "%kestrel doctor")
