"""shell-exec: its shape, its limits, its environment, and that what was shown is what runs."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stage import Stage, results

from kestrel_nb import BuiltInToolConfig, Kestrel, SandboxViolationError, ToolCallError
from kestrel_nb.notebook.cards import card_of
from kestrel_nb.plugins.builtin_tools.shell_exec import ShellExec
from kestrel_nb.plugins.core_tools.settings import CoreSettings
from kestrel_nb.plugins.core_tools.shell import Shell
from kestrel_nb.protocol.sessions import ApprovalRequest
from kestrel_nb.protocol.tools import CommandPreview
from kestrel_nb.testing import Reply, ScriptedModel

ENDED = {"stdout": "", "stderr": "", "exitCode": 0, "timedOut": False, "error": None}


def application(folder: Path, **config: Any) -> Kestrel:
    return Kestrel(workspace=folder, built_in_tools=BuiltInToolConfig(enabled=["shell-exec"], **config))


async def test_the_shapes_of_the_documentation(tmp_path: Path) -> None:
    async with application(tmp_path, shell_timeout=800) as app:
        hello = await app.use_tool("shell-exec", {"command": "echo 'Hello, world!'"})
        assert hello == {**ENDED, "stdout": "Hello, world!\n"}
        fatal = await app.use_tool("shell-exec", {"command": "echo fatal >&2; exit 128"})
        assert fatal == {**ENDED, "stderr": "fatal\n", "exitCode": 128}
        for limit, shown in ((None, "800"), (60_000, "800"), (300, "300"), (250.5, "250.5")):
            args = {"command": "echo partial; sleep 60", **({"timeout": limit} if limit else {})}
            late = await app.use_tool("shell-exec", args)
            error = f"Process timed out after {shown}ms"
            assert late == {**ENDED, "stdout": "partial\n", "exitCode": 143, "timedOut": True, "error": error}


async def test_only_leaving_the_folder_throws(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/file").touch()
    async with application(tmp_path / "ws") as app:
        for cwd in ("..", "../../../", "/", "../ws-private"):
            with pytest.raises(SandboxViolationError):
                await app.use_tool("shell-exec", {"command": "ls", "cwd": cwd})
        for args, says in (
            ({"cwd": "gone"}, "File not found: gone"),
            ({"cwd": "file"}, "is not a folder"),
            ({"cwd": "a\0b"}, "NUL"),
            ({"command": "a\0b"}, "NUL"),
            ({"command": "\ud800"}, "Unicode"),
            ({"env": {"A=B": "x"}}, '"="'),
            ({"env": {"": "x"}}, "1 to 200 characters"),
            ({"env": {"A" * 201: "x"}}, "1 to 200 characters"),
            ({"env": {"A\nPATH": "x"}}, "printable"),
            ({"env": {"\u202eA": "x"}}, "printable"),
            ({"env": {"A\0": "x"}}, "NUL"),
            ({"env": {"A": "x\0y"}}, "env.A: must not contain a NUL"),
            ({"env": {"A": "\udcff"}}, "Unicode"),
            ({"env": {"A": "x" * 3_000_000}}, "could not be started"),
        ):
            told = await app.use_tool("shell-exec", {"command": "true", **args})
            assert (told["exitCode"], told["timedOut"]) == (None, False)
            assert says in told["error"]
            assert "Traceback" not in told["error"]


@pytest.mark.parametrize(
    "args",
    [
        {"env": {"A": 1}},
        {"env": {"A": None}},
        {"env": ["A=1"]},
        {"env": "A=1"},
        {"timeout": 0},
        {"timeout": -1},
        {"timeout": "30s"},
        {"timeout": True},
        {"cwd": ""},
        {"shell": "zsh"},
    ],
)
async def test_arguments_of_another_kind_are_refused(tmp_path: Path, args: dict[str, Any]) -> None:
    async with application(tmp_path) as app:
        with pytest.raises(ToolCallError, match=f"{next(iter(args))}"):
            await app.use_tool("shell-exec", {"command": "touch made", **args})
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "command",
    ["yes 'a\tb'", "head -c 400000 /dev/zero", "seq 200000; seq 200000 >&2", "printf '\\1%.0s' $(seq 90000)"],
)
async def test_the_model_reads_whole_json(tmp_path: Path, command: str) -> None:
    model = ScriptedModel([Reply(tool_calls=[("shell-exec", {"command": command, "timeout": 1500})]), "done"])
    stage = Stage(model, [ShellExec(BuiltInToolConfig())], default_workspace=str(tmp_path), approve=approved)
    await stage.ask()
    read = json.loads(results(stage.session.messages)[0])
    data = stage.of("tool.executed")[0].data
    assert {**read, "stdout": "", "stderr": ""} == {**data, "stdout": "", "stderr": ""}
    assert "[cut: " in read["stdout"]
    assert len(data["stdout"]) <= 100_100


def approved(request: ApprovalRequest, signal: Any) -> bool:
    return True


# ---- the card -----------------------------------------------------------------------------------------------------


async def test_the_card_names_the_environment_and_shows_what_the_call_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "hidden")
    (tmp_path / "sub").mkdir()
    seen: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest, signal: Any) -> bool:
        seen.append(request)
        return False

    env = {"LD_PRELOAD": "./evil.so", "BASH_ENV": "./evil.sh", "PATH": "/evil"}
    args = {"command": "ls", "cwd": "./sub", "timeout": 5000, "env": env}
    tool = ShellExec(BuiltInToolConfig(shell_env={"TOKEN": "configured"}))
    model = ScriptedModel([Reply(tool_calls=[("shell-exec", args)]), "done"])
    await Stage(model, [tool], default_workspace=str(tmp_path), approve=approve).ask()
    made = seen[0].preview
    assert isinstance(made, CommandPreview)
    assert (made.command, made.cwd, made.timeout_s) == ("ls", "sub", 5.0)
    assert made.environment[:4] == ("BASH_ENV", "LD_PRELOAD", "PATH", "TOKEN")
    assert made.environment.count("PATH") == 1
    card = card_of(seen[0], tool.schema.parameters)
    pairs = dict(card["pairs"])
    assert (pairs["Folder"], pairs["Time limit"]) == ("sub", "5 s")
    assert pairs["Environment"].startswith("BASH_ENV, LD_PRELOAD, PATH, TOKEN, ")
    assert "./evil.so" in pairs["env"]
    assert "configured" not in str(card)
    assert "SOME_API_KEY" not in str(card)


def other_folder(root: Path) -> None:
    (root / "d").rename(root / "was")
    (root / "d").mkdir()


def other_link(root: Path) -> None:
    (root / "l").unlink()
    (root / "l").symlink_to("e")


def other_names(root: Path) -> None:
    os.environ["LC_MONETARY"] = "C"


def nothing(root: Path) -> None:
    (root / "d/new").touch()  # what is in the folder may change: that is what commands are for


@pytest.mark.parametrize("tool", [Shell(CoreSettings()), ShellExec(BuiltInToolConfig())], ids=["shell", "shell-exec"])
@pytest.mark.parametrize("cwd", ["d", "l"])
@pytest.mark.parametrize("change", [other_folder, other_link, other_names, nothing])
async def test_a_folder_or_names_that_changed_after_the_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Any, cwd: str, change: Callable[[Path], None]
) -> None:
    monkeypatch.setenv("LC_MONETARY", "C")
    monkeypatch.delenv("LC_MONETARY")
    for name in ("d", "e"):
        (tmp_path / name).mkdir()
    (tmp_path / "l").symlink_to("d")

    def approve(request: ApprovalRequest, signal: Any) -> bool:
        change(tmp_path)
        return True

    args = {"command": "touch made", "cwd": cwd}
    model = ScriptedModel([Reply(tool_calls=[(tool.schema.name, args)]), "done"])
    stage = Stage(model, [tool], default_workspace=str(tmp_path), approve=approve)
    await stage.ask()
    runs = change is nothing or (change is other_link and cwd == "d")
    assert ("changed after the command was shown" in results(stage.session.messages)[0]) is not runs
    assert any("made" in names for _, _, names in os.walk(tmp_path)) is runs


@pytest.mark.parametrize("args", [{"cwd": "gone"}, {"cwd": ".."}, {"command": "a\0b"}, {"env": {"A=": ""}}])
async def test_nobody_is_asked_about_a_command_that_can_not_run(tmp_path: Path, args: dict[str, Any]) -> None:
    model = ScriptedModel([Reply(tool_calls=[("shell-exec", {"command": "ls", **args})]), "done"])
    stage = Stage(model, [ShellExec(BuiltInToolConfig())], default_workspace=str(tmp_path))
    await stage.ask()
    assert "approval.requested" not in stage.types()
    assert stage.of("tool.failed")


async def test_stop_ends_the_run_and_the_command(tmp_path: Path) -> None:
    command = "echo $$ >pid; trap '' TERM; sleep 60; sleep 60"
    model = ScriptedModel([Reply(tool_calls=[("shell-exec", {"command": command})]), "done"])
    stage = Stage(model, [ShellExec(BuiltInToolConfig())], default_workspace=str(tmp_path), approve=approved)
    run = stage.session.start("go")
    await stage.until("tool.started")
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    stage.session.cancel()
    assert (await run).status == "cancelled"
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
