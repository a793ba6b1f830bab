"""The shell tool, todo_write, finish, and the plugin with its settings."""

import asyncio
import json
import logging
import os
from collections.abc import Callable
from typing import Any

import pytest

from kestrel_nb.frames import to_frame
from kestrel_nb.plugins.core_tools.plugin import CoreTools, core_tools
from kestrel_nb.plugins.core_tools.settings import CoreSettings
from kestrel_nb.protocol.errors import PluginError, SandboxViolationError, ToolCallError
from kestrel_nb.protocol.tools import CommandPreview, TodoItem
from kestrel_nb.runtime.models import ModelRegistry
from kestrel_nb.runtime.plugins import PluginContext
from kestrel_nb.runtime.tools import PreviewingTool, ToolRegistry
from kestrel_nb.runtime.validation import check_schema, format_validation_issues, validate_arguments


async def test_a_command_and_its_table(desk: Any) -> None:
    result = await desk.arun("shell", command="echo out; echo err >&2; exit 3")
    assert result.content == "exit code 3\nout\n[stderr]\nerr"
    assert not result.is_error
    assert result.data == {
        "command": "echo out; echo err >&2; exit 3",
        "exit_code": 3,
        "stdout": "out\n",
        "stderr": "err\n",
        "timed_out": False,
    }
    assert len(to_frame(result.data)) > 0
    assert (await desk.arun("shell", command="true")).content == "exit code 0\n(no output)"
    assert (await desk.arun("shell", command="echo e >&2")).content == "exit code 0\ne"


async def test_the_folder_of_a_command(desk: Any) -> None:
    (desk.root / "sub dir").mkdir()
    (desk.root / "d").symlink_to("/etc")
    assert (await desk.arun("shell", command="pwd")).data["stdout"] == f"{desk.root}\n"
    assert (await desk.arun("shell", command="pwd", cwd="sub dir")).data["stdout"] == f"{desk.root}/sub dir\n"
    for path in ("..", "/etc", "d", "../ws-private"):
        with pytest.raises(SandboxViolationError):
            await desk.arun("shell", command="pwd", cwd=path)
    desk.put("file", "")
    for path in ("file", "gone"):
        with pytest.raises(ToolCallError):
            await desk.arun("shell", command="pwd", cwd=path)


async def test_m02_the_timeout_is_a_ceiling_and_keeps_the_output(make_desk: Callable[..., Any]) -> None:
    desk = make_desk(shell_timeout_ms=700)
    for more in ({}, {"timeout_ms": 500_000}):
        result = await desk.arun("shell", command="echo before; sleep 60", **more)
        assert result.content == "exit code 143, ended after 0.7 s\nbefore"
        assert (result.data["exit_code"], result.data["timed_out"]) == (143, True)
    short = await desk.arun("shell", command="sleep 60", timeout_ms=200)
    assert short.content.startswith("exit code 143, ended after 0.2 s")


async def test_cancelling_keeps_the_output(desk: Any) -> None:
    call = asyncio.ensure_future(desk.arun("shell", command="echo before; sleep 60"))
    while not desk.progress:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    desk.signal.cancel()
    result = await call
    assert result.content == "exit code 143, cancelled\nbefore"
    assert (result.data["exit_code"], result.data["timed_out"]) == (143, False)


async def test_m04_bytes_that_are_no_text(desk: Any) -> None:
    result = await desk.arun("shell", command="printf 'caf\\351 \\262\\n'; head -c 64 /dev/urandom; printf '\\0'")
    assert result.content.split("\n")[1] == "caf\ufffd \ufffd"
    json.dumps(result.data, ensure_ascii=False).encode("utf-8")
    assert "\0" not in result.data["stdout"]


async def test_p03_output_is_cut_at_whole_characters(make_desk: Callable[..., Any]) -> None:
    desk = make_desk(max_output_chars=1000)
    exact = await desk.arun("shell", command="printf 'é%.0s' $(seq 1000)")
    assert exact.data["stdout"] == "é" * 1000
    more = await desk.arun("shell", command="printf '🤖%.0s' $(seq 1000); printf x")
    assert more.data["stdout"] == "🤖" * 1000 + "\n[cut: 1,000 characters shown of 4,001 bytes]"
    few = await desk.arun("shell", command="printf 'a%.0s' $(seq 1001)")
    assert few.data["stdout"] == "a" * 1000 + "\n[cut: 1,000 of 1,001 characters shown]"
    assert "\ufffd" not in more.content + few.content


async def test_terminal_codes_stay_out_of_the_text(desk: Any) -> None:
    command = "printf '\\033]0;title\\007\\033[2J\\033[1;31mred\\033[0m \\033]8;;http://x\\033\\\\link\\n'"
    result = await desk.arun("shell", command=command)
    assert result.content == "exit code 0\nred link"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("", None),
        ("  \n", "must not be empty"),
        ("echo a\0b", "NUL"),
        ("echo \ud800", "surrogates"),
        ("#" * 200_000, "too long"),
    ],
)
async def test_commands_that_can_not_be(desk: Any, command: str, says: str | None) -> None:
    if says is None:
        assert validate_arguments(desk.tool("shell").schema.parameters, {"command": command})
        return
    with pytest.raises(ToolCallError, match=says):
        await desk.arun("shell", command=command)


def test_the_preview_of_a_command(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_API_KEY", "x")
    (desk.root / "sub").mkdir()
    tool = desk.tool("shell")
    assert isinstance(tool, PreviewingTool)
    made = tool.preview({"command": "ls -l", "cwd": "./sub", "timeout_ms": 5000}, desk.context())
    assert isinstance(made, CommandPreview)
    assert (made.command, made.cwd, made.timeout_s) == ("ls -l", "sub", 5.0)
    assert "PATH" in made.environment
    assert "SECRET_API_KEY" not in made.environment
    with pytest.raises(SandboxViolationError):
        tool.preview({"command": "ls", "cwd": ".."}, desk.context())


def test_todo_write_and_finish(desk: Any) -> None:
    todos = [{"text": "look", "state": "completed"}, {"text": "fix", "state": "in_progress"}]
    result = desk.run("todo_write", todos=todos)
    assert desk.todos == [(TodoItem(text="look", state="completed"), TodoItem(text="fix", state="in_progress"))]
    assert result.content == "2 tasks, 1 completed\n[x] look\n[>] fix"
    assert to_frame(result.data).to_dict("records") == todos
    assert desk.run("todo_write", todos=[]).content == "0 tasks, 0 completed"
    assert desk.todos[-1] == ()
    bad = {"todos": [{"text": "", "state": "open", "id": 1}]}
    assert len(validate_arguments(desk.tool("todo_write").schema.parameters, bad)) == 3
    end = desk.run("finish", summary="All **done**.")
    assert (end.content, end.terminate) == ("All **done**.", True)


# ---- schemas ----------------------------------------------------------------------------------------------------

PERMISSIONS = {
    "edit_file": "auto",
    "finish": "auto",
    "glob": "auto",
    "grep": "auto",
    "list_dir": "auto",
    "read_file": "auto",
    "shell": "ask",
    "todo_write": "auto",
    "web_fetch": "ask",
    "write_file": "auto",
}


def described(schema: Any) -> bool:
    """True when every property, also of inner objects, has a description, and nothing else is allowed."""
    if schema.get("type") == "array":
        return described(schema["items"])
    if schema.get("type") != "object":
        return True
    parts = schema["properties"].values()
    return schema["additionalProperties"] is False and all(part["description"] and described(part) for part in parts)


def test_schemas() -> None:
    tools = {tool.schema.name: tool.schema for tool in core_tools(CoreSettings())}
    assert {name: schema.permission for name, schema in tools.items()} == PERMISSIONS
    for schema in tools.values():
        check_schema(schema.parameters)
        assert described(schema.parameters), schema.name
        assert schema.description
        assert schema.category
    safe = {name for name, schema in tools.items() if schema.parallel_safe}
    assert safe == {"read_file", "list_dir", "glob", "grep", "web_fetch"}
    assert not tools["shell"].deterministic


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (
            {"path": "a", "encoding": "utf-8", "reasoning": "x"},
            ["encoding: is not allowed", "reasoning: is not allowed"],
        ),
        ({}, ["path: is required"]),
        ({"path": ["a"]}, ["path: must be a string"]),
        ({"path": "a", "offset": 0, "limit": "3"}, ["offset: must be", "limit: must be an integer"]),
        ([], ["must be an object"]),
        ("a.txt", ["must be an object"]),
        (None, ["must be an object"]),
    ],
)
def test_o07_every_problem_in_one_message(desk: Any, args: Any, says: list[str]) -> None:
    message = format_validation_issues(validate_arguments(desk.tool("read_file").schema.parameters, args))
    assert all(part in message for part in says), message


# ---- the plugin -------------------------------------------------------------------------------------------------


def plugin_context(config: dict[str, Any]) -> PluginContext:
    return PluginContext(
        config=config,
        logger=logging.getLogger("test"),
        models=ModelRegistry(),
        tools=ToolRegistry(),
        subscribe_events=lambda listener: lambda: None,
        guard_sessions=lambda guard: lambda: None,
        add_permission_rule=lambda rule: lambda: None,
    )


def test_the_plugin_registers_the_tools_as_configured() -> None:
    config = {
        "restrictToWorkspace": False,
        "shellPermission": "auto",
        "webPermission": "auto",
        "shellTimeoutMs": 5000,
        "maxOutputChars": 10,
    }
    context = plugin_context(config)
    CoreTools().activate(context)
    assert CoreTools().name == "tools-core"
    assert set(PERMISSIONS) <= {tool.schema.name for tool in context.tools.list()}
    shell = context.tools.get("shell")
    assert shell is not None
    assert shell.schema.permission == "auto"
    assert "5000" in shell.schema.parameters["properties"]["timeout_ms"]["description"]
    while context.disposers:
        context.disposers.pop()()
    assert context.tools.size == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("restrictToWorkspace", "false"),
        ("restrictToWorkspace", 0),
        ("restrictToWorkspace", None),
        ("shellPermission", "deny"),
        ("shellPermission", True),
        ("webPermission", ["ask"]),
        ("shellTimeoutMs", "120000"),
        ("shellTimeoutMs", 0),
        ("shellTimeoutMs", 1.5),
        ("shellTimeoutMs", True),
        ("maxOutputChars", -1),
        ("restrictToWorkSpace", True),
    ],
)
def test_wrong_settings_name_their_key(key: str, value: Any) -> None:
    context = plugin_context({key: value})
    with pytest.raises(PluginError, match=key):
        CoreTools().activate(context)
    assert context.tools.size == 0


async def test_a_file_from_before_the_umask(desk: Any) -> None:
    """A command starts with the umask and the folder of the person, not with the supervisor's."""
    result = await desk.arun("shell", command="touch made; stat -c %a made")
    umask = os.umask(0)
    os.umask(umask)
    assert result.data["stdout"] == f"{0o666 & ~umask:o}\n"
