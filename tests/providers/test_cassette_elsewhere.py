"""Cassettes where something else is at hand: other folders, rules, files, and programs around the run."""

import asyncio
import copy
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from cassette_stage import Counted, play, record, replay, told, yes

from kestrel_nb import (
    BuiltInToolConfig,
    Cassette,
    Kestrel,
    ModelRequestError,
    PermissionRule,
    ToolExecutionResult,
    tool,
)
from kestrel_nb.protocol.errors import KestrelError
from kestrel_nb.protocol.messages import ImagePart, TextPart, create_message
from kestrel_nb.protocol.sessions import ModelInfo, Usage
from kestrel_nb.runtime.models import CompletionRequest, CompletionResponse
from kestrel_nb.runtime.run import RunOptions
from kestrel_nb.testing import Reply, ScriptedModel


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "talk.jsonl"


def size(path: Path) -> int:
    return path.stat().st_size


# ---- folders ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("recorded", "played"),
    [
        (("a", "a/w"), ("b", "b")),  # the home and the workspace are one
        (("a", "a"), ("b", "b/deep/er/w")),
        (("a", "a/w"), ("", "b/w")),  # a home that is the root of everything, as in many containers
        (("a", "a"), ("", "")),
    ],
)
async def test_folders_may_coincide_where_it_is_played(
    path: Path, recorded: Any, played: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def places(names: Any) -> tuple[Path, Path]:
        home, workspace = (path.parent / name if name else Path("/") for name in names)
        for folder in (home, workspace):
            folder.mkdir(parents=True, exist_ok=True)
        monkeypatch.setenv("HOME", str(home))
        return home, workspace

    home, workspace = places(recorded)
    said = f"{home}/.cache, {workspace}/x and {tempfile.gettempdir()}/t"
    command = Reply(f"In {home}/y:", tool_calls=[("shell", {"command": f"cat {home}/.cache {workspace}/x"})])
    replies = [Reply(f"In {said}", tool_calls=[("measure", {"n": 1})]), command, "done"]
    tool = Counted(give=lambda args: ToolExecutionResult(content=said))
    (first,), _, _ = await record(path, replies, [tool], folder=workspace)
    assert first.text == "done"
    _, workspace = places(played)
    (again,), _, cassette = await replay(path, [Counted()], folder=workspace)
    assert again.text == "done"
    assert cassette.unused == ()


@pytest.mark.parametrize(("recorded", "played"), [("there", None), (None, "there")])
async def test_the_folder_of_sessions_may_be_another(
    path: Path, recorded: str | None, played: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def folder(name: str | None) -> str:
        monkeypatch.setenv("XDG_DATA_HOME", str(path.parent / "data"))
        monkeypatch.delenv("KESTREL_HOME", raising=False)
        if name:
            monkeypatch.setenv("KESTREL_HOME", str(path.parent / name))
        return str(path.parent / (name or "data/kestrel-nb"))

    kept = folder(recorded)
    tool = Counted(give=lambda args: ToolExecutionResult(content=f"kept in {kept}/data.json"))
    await record(path, [Reply(tool_calls=[("measure", {"n": 1})]), "done"], [tool])
    kept = folder(played)
    (again,), events, _ = await replay(path, [Counted()])
    assert again.text == "done"
    (executed,) = (event for event in events if event.type == "tool.executed")
    assert executed.content == f"kept in {kept}/data.json"


# ---- rules --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("recorded", "played"), [("auto", None), (None, "auto"), ("auto", "ask"), ("ask", "auto")])
async def test_rules_that_ask_or_not_make_no_difference(path: Path, recorded: Any, played: Any) -> None:
    def rules(action: Any) -> list[PermissionRule]:
        return [PermissionRule(tool="measure", action=action, scope="user")] if action else []

    replies = [Reply(tool_calls=[("measure", {"n": 1})]), "done"]
    (first,), before, _ = await record(path, replies, [Counted()], rules=rules(recorded))
    never = Counted()
    (again,), after, cassette = await replay(path, [never], rules=rules(played))
    assert (first.text, again.text, never.ran, cassette.unused) == ("done", "done", [], ())
    assert told(before) == told(after)


# ---- files --------------------------------------------------------------------------------------------------------


async def test_what_reads_the_workspace_is_played(path: Path) -> None:
    (path.parent / "a.txt").write_text("one\n")
    calls = [
        ("list_dir", {"path": "."}),
        ("glob", {"pattern": "*"}),
        ("grep", {"pattern": "one"}),
        ("read_file", {"path": "a.txt"}),
    ]
    await record(path, [Reply(tool_calls=calls), "done"], folder=path.parent)
    # The cassette itself has grown, and a notebook beside it was saved.
    (path.parent / "talk.ipynb").write_text("one")
    (path.parent / "a.txt").write_text("two\n")
    (again,), _, _ = await replay(path, folder=path.parent)
    assert again.text == "done"
    assert "two" not in str(again.tool_data)


WRITES: list[Any] = [
    Reply(tool_calls=[("write_file", {"path": "n.txt", "content": "hello\n"})]),
    Reply(tool_calls=[("edit_file", {"path": "n.txt", "old_string": "hello", "new_string": "hello there"})]),
    Reply(tool_calls=[("write_file", {"path": "long.txt", "content": "long\n" * 10_000})]),
    Reply(tool_calls=[("write_file", {"path": "long.txt", "content": "other\n" * 10_000})]),
    Reply(tool_calls=[("file-write", {"path": "log.txt", "content": "a\n"})]),
    Reply(tool_calls=[("file-write", {"path": "log.txt", "content": "b\n", "append": True})]),
    "done",
]
WRITTEN = {"n.txt": "hello there\n", "long.txt": "other\n" * 10_000, "log.txt": "a\nb\n"}


async def test_files_are_written_again_once(path: Path) -> None:
    tools, work = BuiltInToolConfig(enabled=["file-write"]), path.parent / "work"

    def files() -> dict[str, str]:
        return {file.name: file.read_text() for file in work.iterdir()}

    (first,), before, _ = await record(path, WRITES, built_in_tools=tools)
    assert (first.text, files()) == ("done", WRITTEN)
    for _ in "12":  # where they are there already, nothing is added a second time
        (again,), after, _ = await replay(path, built_in_tools=tools)
        assert (again.text, files()) == ("done", WRITTEN)
        assert told(before) == told(after)
    shutil.rmtree(work)
    (again,), after, _ = await replay(path, built_in_tools=tools)
    assert (again.text, files()) == ("done", WRITTEN)
    assert told(before) == told(after)
    for name in WRITTEN:  # what a person has written since then stays
        (work / name).write_text("hello, my own")
    (again,), after, _ = await replay(path, built_in_tools=tools)
    assert again.text == "done"
    assert set(files().values()) == {"hello, my own"}
    assert told(before) == told(after)


async def test_an_edit_is_made_again_in_the_file_that_it_was_made_in(path: Path) -> None:
    work = path.parent / "work"
    work.mkdir()
    (work / "a.py").write_text("import os\nprint(os)\n")
    edit = {"path": "a.py", "old_string": "import os", "new_string": "import os\nimport sys"}
    await record(path, [Reply(tool_calls=[("edit_file", edit)]), "done"])
    after = (work / "a.py").read_text()
    await replay(path)
    assert (work / "a.py").read_text() == after
    (work / "a.py").write_text("import os\nprint(os)\n")
    await replay(path)
    assert (work / "a.py").read_text() == after


async def test_a_write_that_is_not_recorded_is_none(path: Path) -> None:
    await record(path, ["hello"])
    async with Kestrel(workspace=path.parent, cassette=Cassette(path, "replay")) as app:
        with pytest.raises(Exception, match="no result of exactly this call is recorded"):
            await app.use_tool("write_file", {"path": "n.txt", "content": "x"})
    assert not (path.parent / "n.txt").exists()


# ---- runs inside runs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_sync", [False, True])
async def test_what_a_tool_asks_a_model_goes_through_the_cassette_of_its_run(path: Path, is_sync: bool) -> None:
    app: Kestrel

    @tool
    async def delegate(task: str) -> str:
        """Have somebody else do it."""
        return await app.complete(task)

    @tool(name="delegate")
    def delegate_now(task: str) -> str:
        """Have somebody else do it."""
        return app.run_sync(task).text

    texts = []
    replies = [Reply(tool_calls=[("delegate", {"task": "the inner task"})]), "inner", "outer"]
    for mode, model in (("record", ScriptedModel(replies, id="m")), ("replay", ScriptedModel([], id="m"))):
        cassette = Cassette(path, mode)  # type: ignore[arg-type]
        async with Kestrel(workspace=path.parent, tools=[delegate_now if is_sync else delegate], model=model) as app:
            session = app.sessions.create()
            texts.append((await session.start("go", options=RunOptions(interceptor=cassette))).text)
            with pytest.raises(ModelRequestError, match="no reply left"):  # a run of its own has none
                await app.complete("more")
        cassette.close()
        assert cassette.unused == ()
    assert texts == ["outer", "outer"]


# ---- what a miss says ---------------------------------------------------------------------------------------------


async def test_a_tool_that_gives_another_result_each_time_is_named(path: Path) -> None:
    rolls = iter("12")
    dice = Counted("roll", lambda args: ToolExecutionResult(content=next(rolls)), permission="auto", deterministic=True)
    await record(path, [Reply(tool_calls=[("roll", {"n": 6})]), "done"], [dice])
    (miss,), _, _ = await replay(path, [dice])
    assert 'message 4 (the result of roll): recorded "1", now "2"' in str(miss)
    assert "@tool(deterministic=False)" in str(miss)
    assert "\n" not in str(miss)


async def test_a_conversation_that_began_otherwise_is_told(path: Path) -> None:
    async with Kestrel(
        workspace=path.parent, model=ScriptedModel(["a", "b"], id="m"), cassette=Cassette(path, "record")
    ) as app:
        session = app.sessions.create()
        await session.start("one")
        await session.start("two")
    cassette = Cassette(path, "replay")
    async with Kestrel(workspace=path.parent, model="m", cassette=cassette) as app:
        with pytest.raises(ModelRequestError, match="recorded after 2 messages that this conversation lacks"):
            await app.ask("two")
        session = app.sessions.create()
        await session.start("one")
        cassette.close()
        with pytest.raises(ModelRequestError, match=r"without the 2 messages .* %kestrel new"):
            await session.start("one")


async def test_the_nearest_request_is_the_one_that_is_alike(path: Path) -> None:
    prompts = ["read the table", "count the lines that contain 'await' in shop", "draw a figure"]
    await record(path, ["a", "b", "c"], prompts=prompts)
    (miss,), _, _ = await replay(path, prompts=["count the lines that contain 'async' in shop"])
    assert "recorded \"count the lines that contain 'await' in shop\", now" in str(miss)


async def test_a_long_conversation_costs_its_length(path: Path) -> None:
    count = 3_000
    messages = [create_message("user", [TextPart(text=f"message {number}")]) for number in range(count)]

    def ask(length: int) -> CompletionRequest:
        return CompletionRequest(model="m", messages=tuple(messages[:length]))

    cassette = Cassette(path, "record")
    model = cassette.model("m", lambda: ScriptedModel(["ok"] * count, id="m"), "/nowhere")
    began = time.monotonic()
    for length in range(1, count):
        await model.generate(ask(length))
    cassette.close()
    assert size(path) < 400 * count
    cassette = Cassette(path, "replay")
    model = cassette.model("m", lambda: ScriptedModel([]), "/nowhere")
    for length in range(1, count):
        await model.generate(ask(length))
    with pytest.raises(
        ModelRequestError, match=rf'message {count} \(user\): recorded nothing, now "message {count - 1}"'
    ):
        await model.generate(ask(count))
    assert time.monotonic() - began < 60  # it was many minutes when each request kept all of its messages


async def test_two_play_and_one_records_at_once(path: Path) -> None:
    await record(path, ["a", "b"], prompts=["one", "two"])
    runs = [play(path, "auto", [], ["one", "two"], model=ScriptedModel(["new"], id="m")) for _ in "123"]
    for results, _, _ in await asyncio.gather(*runs):
        assert [result.text for result in results] == ["a", "b"]


async def test_a_request_that_got_no_reply_is_told(path: Path) -> None:
    begun, never = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        begun.set()
        await never.wait()

    model = ScriptedModel([Reply("a", before=hang), "b"], id="m")
    async with Kestrel(workspace=path.parent, model=model, cassette=Cassette(path, "record")) as app:
        session = app.sessions.create()
        run = session.start("one")
        await begun.wait()
        session.cancel()
        await run
        await session.start("two", options=RunOptions(tools=()))
    (miss,), _, _ = await replay(path, prompts=["one"])
    assert 'no reply to it was recorded, since that run was stopped: "one"' in str(miss)


class Billed:
    """A model of a provider that has prices."""

    info = ModelInfo(id="openai:gpt-4o", provider="openai")

    async def generate(self, request: CompletionRequest, on_delta: Any = None) -> CompletionResponse:
        return CompletionResponse(content="ok", usage=Usage(input_tokens=1_000, output_tokens=10))


async def test_what_a_reply_cost_is_played_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prices change, and the extra may not be there."""
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    async with Kestrel(workspace=path.parent, model=Billed(), cassette=Cassette(path, "record")) as app:
        first = await app.ask("go")
    assert first.cost == pytest.approx(0.0026)
    for unknown in (False, True):
        if unknown:
            rewrite(path, path_text(path).replace('"cost": ', '"lost": '))
        async with Kestrel(workspace=path.parent, model="openai:gpt-4o", cassette=Cassette(path, "replay")) as app:
            session = app.sessions.create()
            again = await session.start("go")
            assert (again.cost, session.cost) == (None if unknown else first.cost,) * 2


def path_text(path: Path) -> str:
    return path.read_text("utf-8")


def rewrite(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")


async def test_a_folder_is_known_in_each_spelling(path: Path) -> None:
    """A tool that runs again names its folder as it does here, in JSON, in JSON of ASCII alone or in a URL."""

    def spelt(folder: Path) -> Counted:
        place = str(folder / "data set" / "a.csv")
        said = " and ".join((place, json.dumps(place), json.dumps(place, ensure_ascii=False), f"file://{quote(place)}"))
        options = {"permission": "auto", "deterministic": True}
        return Counted("where", lambda args: ToolExecutionResult(content=said), **options)

    here, there = path.parent / 'jörg "1"', path.parent / "elsewhere" / "日本 語"
    there.parent.mkdir()
    replies = [Reply(tool_calls=[("where", {"n": 1})]), f"It is {quote(str(here))}."]
    await record(path, replies, [spelt(here)], folder=here)
    for form in (str(here), json.dumps(str(here))[1:-1], quote(str(here)), "jörg", "j%C3%B6rg", "j\\u00f6rg"):
        assert form not in path_text(path)
    (again,), _, _ = await replay(path, [spelt(there)], folder=there)
    assert again.text == f"It is {quote(str(there))}."


def paths_in(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places in JSON data, those of values inside included."""
    if before:
        yield before
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths_in(item, (*before, key))


@pytest.mark.parametrize("value", [None, -1, "x", [], {}, [[1, 2, 3]], [{"kind": "nope"}], {"$number": []}])
async def test_a_file_that_was_spoilt_by_hand_is_one_line(path: Path, value: Any) -> None:
    give = ToolExecutionResult(
        content="x", data=[float("nan")], images=(ImagePart(media_type="image/png", data="AAAA"),)
    )
    replies = [Reply("Hi", reasoning="r", tool_calls=[("measure", {"n": 1})], usage=Usage(input_tokens=3)), "done"]
    await record(path, replies, [Counted(give=lambda args: give)])
    whole = path_text(path)
    entries = [json.loads(line) for line in whole.splitlines()]
    told = set[str]()
    for line, entry in enumerate(entries):
        for place in paths_in(entry):
            changed = copy.deepcopy(entries)
            holder = changed[line]
            for key in place[:-1]:
                holder = holder[key]
            holder[place[-1]] = value
            rewrite(path, "".join(f"{json.dumps(one)}\n" for one in changed))
            try:
                cassette = Cassette(path, "replay")
                async with Kestrel(
                    workspace=path.parent / "work", tools=[Counted()], model="m", cassette=cassette, approve=yes
                ) as app:
                    await app.ask("go")
            except KestrelError as error:
                told.add(str(error))
            assert isinstance(cassette.unused, tuple)
    assert told
    assert not [text for text in told if "\n" in text]
