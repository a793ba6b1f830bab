"""file-read and file-write in an application: shapes, encodings, limits, and that a file is whole or as it was."""

import base64
import os
import resource
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stage import Stage, results
from world import World, failed

from kestrel_nb import BuiltInToolConfig, Kestrel, SandboxViolationError, ToolCallError
from kestrel_nb.plugins.builtin_tools.encodings import to_bytes, to_text
from kestrel_nb.plugins.builtin_tools.files import FileRead, FileWrite
from kestrel_nb.protocol.sessions import ApprovalDecision, PermissionRule
from kestrel_nb.protocol.tools import DiffPreview
from kestrel_nb.testing import Reply, ScriptedModel

BOTH = ("file-read", "file-write")


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[Kestrel]:
    (tmp_path / "ws").mkdir()
    async with Kestrel(workspace=tmp_path / "ws", built_in_tools=BuiltInToolConfig(enabled=BOTH)) as app:
        yield app


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    return tmp_path / "ws"


async def test_the_shapes_of_the_documentation(app: Kestrel, ws: Path) -> None:
    text = '{"theme":"dark","lang":"en"}'
    wrote = await app.use_tool("file-write", {"path": "config/settings.json", "content": text})
    assert wrote == {"path": "config/settings.json", "bytesWritten": 28, "append": False, "success": True}
    read = await app.use_tool("file-read", {"path": "./config/settings.json"})
    assert read == {"path": "config/settings.json", "content": text, "size": 28}
    more = await app.use_tool("file-write", {"path": "logs/a.log", "content": "ü\n", "append": True})
    assert more == {"path": "logs/a.log", "bytesWritten": 3, "append": True, "success": True}
    await app.use_tool("file-write", {"path": "logs/a.log", "content": "two\n", "append": True})
    assert (ws / "logs/a.log").read_text("utf-8") == "ü\ntwo\n"
    await app.use_tool("file-write", {"path": "logs/a.log", "content": ""})
    assert (ws / "logs/a.log").read_bytes() == b""


async def test_what_throws(app: Kestrel, ws: Path) -> None:
    for path in ("../x", "/etc/passwd", "a/../../x"):
        for name, more in (("file-read", {}), ("file-write", {"content": "x"})):
            with pytest.raises(SandboxViolationError) as caught:
                await app.use_tool(name, {"path": path, **more})
            assert caught.value.code == "SANDBOX_VIOLATION"
    with pytest.raises(ToolCallError) as missing:
        await app.use_tool("file-read", {"path": "reports/q4.csv"})
    assert str(missing.value) == "File not found: reports/q4.csv"
    with pytest.raises(ToolCallError, match="is a folder"):
        await app.use_tool("file-read", {"path": "."})
    with pytest.raises(ToolCallError, match="encoding: must be"):
        await app.use_tool("file-read", {"path": "x", "encoding": "latin-1"})
    assert os.listdir(ws) == []


@pytest.mark.parametrize("text", ["\ufeffa\r\nb\r\n", "no end", "\x00\x1b[0m", "é\u2028\U0001f916", "\r\r\n\n"])
async def test_text_comes_back_as_it_is(app: Kestrel, ws: Path, text: str) -> None:
    await app.use_tool("file-write", {"path": "f", "content": text})
    assert (ws / "f").read_bytes() == text.encode("utf-8")
    assert (await app.use_tool("file-read", {"path": "f"}))["content"] == text


@given(st.binary(max_size=64), st.sampled_from(["base64", "hex"]))
def test_bytes_come_back(data: bytes, encoding: str) -> None:
    text = to_text(data, encoding, "f")
    assert to_bytes(text, encoding) == data
    assert to_bytes(f" {text[: len(text) // 2]}\r\n{text[len(text) // 2 :]}\n", encoding) == data
    assert to_bytes(data.hex().upper(), "hex") == data


@pytest.mark.parametrize("data", [b"caf\xe9", b"\xff\xfea\0", b"\x80", b"\xed\xa0\x80", b"a" * 5000 + b"\xc3"])
async def test_bytes_that_are_no_text_ask_for_base64(app: Kestrel, ws: Path, data: bytes) -> None:
    (ws / "f").write_bytes(data)
    with pytest.raises(ToolCallError, match='read it with encoding "base64"') as caught:
        await app.use_tool("file-read", {"path": "f"})
    assert str(caught.value).startswith("f is not UTF-8 text")
    read = await app.use_tool("file-read", {"path": "f", "encoding": "base64"})
    assert base64.b64decode(read["content"]) == data
    assert read["size"] == len(data)
    assert (await app.use_tool("file-read", {"path": "f", "encoding": "hex"}))["content"] == data.hex()


BAD = [
    ("base64", "YQ"),
    ("base64", "YWJj="),
    ("base64", "YR=="),
    ("base64", "YQ==YQ=="),
    ("base64", "Y"),
    ("base64", "YW-_"),
    ("base64", "YWJj!"),
    ("base64", "=YWJj"),
    ("base64", "ＹＷＪｊ"),
    ("base64", "data:text/plain;base64,YWJj"),
    ("hex", "abc"),
    ("hex", "0x61"),
    ("hex", "zz"),
    ("hex", "６１"),
    ("utf-8", "a\ud800"),
]


@pytest.mark.parametrize(("encoding", "content"), BAD)
@pytest.mark.parametrize("append", [False, True])
async def test_content_that_is_not_of_its_encoding_changes_nothing(
    tmp_path: Path, encoding: str, content: str, append: bool
) -> None:
    world = World(tmp_path, ["f"])
    before = world.inside()
    for path in ("f", "new/deep/g"):
        outcome = await world.call("file-write", path, content=content, encoding=encoding, append=append)
        assert failed(outcome)
        assert ("not valid" if encoding != "utf-8" else "Unicode") in outcome.content
    assert world.inside() == before
    assert not (world.root / "new").exists()


async def test_limits_are_said(app: Kestrel, ws: Path) -> None:
    (ws / "at").write_bytes(b"x" * 2_000_000)
    (ws / "over").write_bytes(b"x" * 2_000_001)
    assert (await app.use_tool("file-read", {"path": "at", "encoding": "hex"}))["size"] == 2_000_000
    with pytest.raises(ToolCallError, match=r"over is larger than 2\.0 MB"):
        await app.use_tool("file-read", {"path": "over"})
    (ws / "huge").touch()
    os.truncate(ws / "huge", 16_000_000)
    with pytest.raises(ToolCallError, match=r"huge would be larger than 16\.0 MB"):
        await app.use_tool("file-write", {"path": "huge", "content": "x", "append": True})
    assert (ws / "huge").stat().st_size == 16_000_000
    (ws / "endless").touch()
    os.truncate(ws / "endless", 10**12)
    for name, more in (("file-read", {}), ("file-write", {"content": "x", "append": True})):
        with pytest.raises(ToolCallError, match="is larger than"):
            await app.use_tool(name, {"path": "endless", **more})


async def test_a_sandbox_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative to where the application was made, made when it is missing, and closed against the workspace."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/f").write_text("workspace")
    config = BuiltInToolConfig(enabled=(*BOTH, "shell-exec"), sandbox_dir="./data/box")
    async with Kestrel(workspace="ws", built_in_tools=config) as app:
        assert not (tmp_path / "data").exists()
        await app.initialize()
        monkeypatch.chdir("/")
        with pytest.raises(ToolCallError, match="File not found: f"):
            await app.use_tool("file-read", {"path": "f"})
        await app.use_tool("file-write", {"path": "f", "content": "box"})
        assert (tmp_path / "data/box/f").read_text() == "box"
        for path in ("../../ws/f", str(tmp_path / "ws/f"), "../box-private/f"):
            with pytest.raises(SandboxViolationError, match="is outside the sandbox folder; give a path inside it"):
                await app.use_tool("file-read", {"path": path})
            with pytest.raises(SandboxViolationError):
                await app.use_tool("shell-exec", {"command": "true", "cwd": os.path.dirname(path)})
        where = await app.use_tool("shell-exec", {"command": "pwd"})
        assert where["stdout"] == f"{tmp_path / 'data/box'}\n"


async def test_a_sandbox_folder_that_can_not_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    config = BuiltInToolConfig(enabled=(*BOTH, "shell-exec"), sandbox_dir=tmp_path / "file/box")
    async with Kestrel(workspace=tmp_path, built_in_tools=config) as app:
        with pytest.raises(ToolCallError, match="is not a folder, or lies below a file"):
            await app.use_tool("file-read", {"path": "f"})
        assert "is not a folder" in (await app.use_tool("shell-exec", {"command": "true"}))["error"]


# ---- whole, or as it was ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("append", [False, True])
@pytest.mark.parametrize("name", ["f", "new/f"])
async def test_a_disk_that_takes_no_more(app: Kestrel, ws: Path, append: bool, name: str) -> None:
    (ws / "f").write_text("old")
    await app.initialize()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(ToolCallError, match="file too large"):
            await app.use_tool("file-write", {"path": name, "content": "x" * 5000, "append": append})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (ws / "f").read_text() == "old"
    assert not [name for _, _, names in os.walk(ws) for name in names if name != "f"]
    assert not (ws / "new/f").exists()


async def test_mode_and_links_stay(app: Kestrel, ws: Path) -> None:
    (ws / "run.sh").write_text("a")
    (ws / "run.sh").chmod(0o750)
    (ws / "l").symlink_to("run.sh")
    wrote = await app.use_tool("file-write", {"path": "l", "content": "b", "append": True})
    assert wrote["path"] == "run.sh"
    assert (ws / "l").is_symlink()
    assert (ws / "run.sh").read_text() == "ab"
    assert stat.S_IMODE((ws / "run.sh").stat().st_mode) == 0o750


# ---- what was shown is what is written ----------------------------------------------------------------------------


def asking(tmp_path: Path, args: dict[str, Any], approve: Any) -> Stage:
    """A run that makes one file-write; ``approve`` answers its card."""
    config = BuiltInToolConfig()
    model = ScriptedModel([Reply(tool_calls=[("file-write", args)]), "done"])
    stage = Stage(model, [FileRead(config), FileWrite(config)], default_workspace=str(tmp_path), approve=approve)
    stage.manager.add_rule(PermissionRule(tool="file-write", action="ask", scope="user"))
    return stage


APPEND = {"path": "f", "content": "two\n", "append": True}


async def test_the_card_shows_the_difference(tmp_path: Path) -> None:
    shown: list[DiffPreview] = []

    def approve(request: Any, signal: Any) -> bool:
        shown.append(request.preview)
        return True

    (tmp_path / "f").write_text("one\n")
    stage = asking(tmp_path, APPEND, approve)
    await stage.ask()
    assert shown[0].diff == "--- f\n+++ f\n@@ -1 +1,2 @@\n one\n+two\n"
    assert (shown[0].added, shown[0].removed) == (1, 0)
    assert (tmp_path / "f").read_text() == "one\ntwo\n"


@pytest.mark.parametrize(
    "args", [APPEND, {"path": "f", "content": "new"}, {"path": "l/f", "content": "AA==", "encoding": "base64"}]
)
@pytest.mark.parametrize("change", ["content", "gone", "another folder", "same text elsewhere"])
@pytest.mark.parametrize("edited", [False, True], ids=["as it was", "edited by the person"])
async def test_a_file_that_changed_after_the_card_is_left_alone(
    tmp_path: Path, args: dict[str, Any], change: str, edited: bool
) -> None:
    def file(folder: str) -> Path:
        return tmp_path / folder / "f"

    for folder in ("a", "b"):
        file(folder).parent.mkdir()
        file(folder).write_text("one\n" if folder == "a" or change == "same text elsewhere" else "other\n")
    (tmp_path / "l").symlink_to("a")
    args = {**args, "path": "l/f"}

    def approve(request: Any, signal: Any) -> ApprovalDecision:
        if change == "content":
            file("a").write_text("one!\n")
        elif change == "gone":
            file("a").unlink()
        else:
            (tmp_path / "l").unlink()
            (tmp_path / "l").symlink_to("b")
        return ApprovalDecision(approved=True, arguments={**args, "content": "BBBB"} if edited else None)

    stage = asking(tmp_path, args, approve)
    await stage.ask()
    assert "was changed after the diff was shown" in results(stage.session.messages)[0]
    if change == "gone":
        assert not file("a").exists()
    else:
        assert file("a").read_text() == ("one!\n" if change == "content" else "one\n")
        assert file("b").read_text() == ("one\n" if change == "same text elsewhere" else "other\n")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=15)
@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=20)), max_size=6))
async def test_writes_and_appends_add_up(app: Kestrel, ws: Path, steps: list[tuple[bool, bytes]]) -> None:
    (ws / "f").unlink(missing_ok=True)
    wanted = b""
    for append, data in steps:
        wanted = wanted + data if append else data
        args = {"path": "f", "content": data.hex(), "encoding": "hex", "append": append}
        assert (await app.use_tool("file-write", args))["bytesWritten"] == len(data)
        assert (ws / "f").read_bytes() == wanted


async def test_another_file_and_other_content_of_a_person_are_written(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("one\n")
    for edited in ({"path": "g", "content": "two\n"}, {"path": "f", "content": "three\n"}):
        stage = asking(tmp_path, APPEND, lambda *_, to=edited: ApprovalDecision(approved=True, arguments=to))
        await stage.ask()
    assert ((tmp_path / "g").read_text(), (tmp_path / "f").read_text()) == ("two\n", "three\n")
