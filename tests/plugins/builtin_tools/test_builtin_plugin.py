"""The plugin of the built-in tools in an application: what is there, what can be had, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kestrel_nb import (
    DEFAULT_BUILT_IN_TOOLS,
    BuiltInToolConfig,
    Kestrel,
    KestrelConfig,
    ModelInfo,
    SandboxViolationError,
    ToolCallError,
    ToolPolicy,
    tool,
)
from kestrel_nb.plugins.builtin_tools.config import BUILT_IN_TOOLS
from kestrel_nb.plugins.builtin_tools.plugin import BuiltInTools
from kestrel_nb.protocol.errors import DuplicateNameError, PluginError, ToolNotFoundError, UsageError
from kestrel_nb.runtime.tools import permission_words
from kestrel_nb.testing import Reply, ScriptedModel

CORE = {
    "read_file", "list_dir", "glob", "grep", "write_file", "edit_file", "shell", "web_fetch", "todo_write", "finish"
}  # fmt: skip
ASK = {"http-fetch", "image-describe", "shell-exec", "shell", "web_fetch"}


class Provider:
    async def search(self, query: str, max_results: int) -> list[Any]:
        return []


def everything(tmp_path: Path) -> BuiltInToolConfig:
    database = tmp_path / "a.db"
    database.touch()
    return BuiltInToolConfig(enabled=BUILT_IN_TOOLS, database_path=database, web_search_provider=Provider())


def names(app: Kestrel) -> set[str]:
    return {schema.name for schema in app.tools.schemas()}


async def test_what_is_there_by_default() -> None:
    async with Kestrel() as app:
        assert names(app) == CORE | set(DEFAULT_BUILT_IN_TOOLS)
        absent = app.plugins.absent_tools()
        assert set(absent) == set(BUILT_IN_TOOLS) - set(DEFAULT_BUILT_IN_TOOLS)
        assert list(absent) == sorted(absent)
        assert absent["shell-exec"].remedy == 'BuiltInToolConfig(enabled=[..., "shell-exec"])'
        assert absent["shell-exec"].tool.schema.permission == "ask"
    assert names(app) == set()


async def test_all_twenty_two(tmp_path: Path) -> None:
    async with Kestrel(built_in_tools=everything(tmp_path)) as app:
        assert names(app) == CORE | set(BUILT_IN_TOOLS)
        assert app.tools.size == 22
        assert app.plugins.absent_tools() == {}
        asking = {tool.schema.name for tool in app.tools.list() if permission_words(tool) != "auto"}
        assert asking == ASK


async def test_every_schema_is_one(tmp_path: Path) -> None:
    from kestrel_nb.runtime.validation import check_schema

    async with Kestrel(built_in_tools=everything(tmp_path)) as app:
        for schema in app.tools.schemas():
            check_schema(schema.parameters)
            assert schema.parameters.get("additionalProperties") is False, schema.name
            assert schema.description.strip()
            assert schema.category


async def test_the_section_of_the_configuration() -> None:
    config = KestrelConfig(plugin_config={"builtin-tools": {"enabled": ["date-time"]}})
    async with Kestrel(config=config) as app:
        assert names(app) == CORE | {"date-time"}


async def test_without_the_plugin_and_with_it_again() -> None:
    config = KestrelConfig(plugins=("tools-core",))
    async with Kestrel(config=config) as app:
        assert names(app) == CORE
        assert app.plugins.absent_tools() == {}
    async with Kestrel(config=config, built_in_tools=BuiltInToolConfig(enabled=["date-time"])) as app:
        assert names(app) == CORE | {"date-time"}
    plugin = BuiltInTools(BuiltInToolConfig(enabled=["math-eval"]))
    for each in (config, KestrelConfig()):
        async with Kestrel(config=each, plugins=[plugin]) as app:
            assert names(app) == CORE | {"math-eval"}
            assert app.plugins.get("builtin-tools") is plugin


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"built_in_tools": {"enabled": []}}, "built_in_tools must be a BuiltInToolConfig"),
        ({"built_in_tools": BuiltInToolConfig(), "plugins": [BuiltInTools()]}, "configured twice"),
        ({"config": KestrelConfig(plugin_config={"builtin-tools": {"enable": []}})}, "did you mean enabled?"),
        ({"config": KestrelConfig(plugin_config={"builtin-tools": {"enabled": ["x"]}})}, "is no built-in tool"),
        ({"config": KestrelConfig(plugin_config={"builtin-tools": {"shellTimeout": True}})}, "shell_timeout"),
        (
            {
                "built_in_tools": BuiltInToolConfig(),
                "config": KestrelConfig(plugin_config={"builtin-tools": {"disabled": []}}),
            },
            "configured twice",
        ),
    ],
)
def test_a_wrong_configuration_is_refused_at_once(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        Kestrel(**options)
    assert said in str(caught.value)


def test_a_plugin_that_is_nearly_named() -> None:
    with pytest.raises(PluginError, match='did you mean "builtin-tools"'):
        Kestrel(plugins=["builtin-tool"])


async def test_a_name_that_is_taken() -> None:
    @tool(name="date-time")
    def mine() -> str:
        """Mine."""
        return "mine"

    with pytest.raises(PluginError, match='a tool "date-time" is already registered'):
        async with Kestrel(tools=[mine]):
            pass
    async with Kestrel(tools=[mine], built_in_tools=BuiltInToolConfig(disabled=["date-time"])) as app:
        assert await app.use_tool("date-time") == "mine"
        assert "date-time" not in app.plugins.absent_tools()
        with pytest.raises(DuplicateNameError):
            app.tools.register(mine)


# ---- calls --------------------------------------------------------------------------------------------------------


async def test_a_tool_that_is_off_says_how_to_have_it() -> None:
    async with Kestrel() as app:
        with pytest.raises(ToolNotFoundError) as caught:
            await app.use_tool("shell-exec", {"command": "echo hi"})
    assert str(caught.value) == (
        'the tool "shell-exec" is not there, off by default; to have it: BuiltInToolConfig(enabled=[..., "shell-exec"])'
    )


async def test_a_tool_that_is_off_is_not_offered_and_does_not_run() -> None:
    model = ScriptedModel([Reply(tool_calls=[("shell-exec", {"command": "echo hi"})]), "done"])
    async with Kestrel(model=model, built_in_tools=BuiltInToolConfig(disabled=["http-fetch"])) as app:
        await app.ask("go")
    offered = {schema.name for schema in model.requests[0].tools}
    assert not offered & {"shell-exec", "http-fetch", "file-read", "code-eval", "database-query", "web-search"}
    assert model.requests[1].messages[-1].tool_results[0].content.startswith('Unknown tool "shell-exec"')


async def test_error_objects_are_returned_and_violations_raised(tmp_path: Path) -> None:
    async with Kestrel(built_in_tools=everything(tmp_path), workspace=tmp_path) as app:
        answer = await app.use_tool("json-parse", {"input": "{"})
        assert answer["error"] is True
        assert answer["message"]
        outside = {"path": "../../etc/passwd"}
        for name, arguments in (("file-read", outside), ("file-write", {**outside, "content": "x"})):
            with pytest.raises(SandboxViolationError) as caught:
                await app.use_tool(name, arguments)
            assert caught.value.code == "SANDBOX_VIOLATION"
        with pytest.raises(SandboxViolationError):
            await app.use_tool("shell-exec", {"command": "ls", "cwd": "../.."})
        with pytest.raises(ToolCallError):
            await app.use_tool("file-read", {"path": "missing.csv"})
        with pytest.raises(ToolCallError, match=r"Invalid arguments.*must"):
            await app.use_tool("json-parse", {"input": 3})
        failed = await app.use_tool("shell-exec", {"command": "exit 3"})
        assert (failed["exitCode"], failed["timedOut"]) == (3, False)


async def test_a_policy_and_a_configuration_together(tmp_path: Path) -> None:
    policy = ToolPolicy(allow=["file-*", "date-time"], deny=["file-write"])
    model = ScriptedModel(["done"])
    app = Kestrel(model=model, built_in_tools=everything(tmp_path), tool_policy=policy, workspace=tmp_path)
    async with app:
        await app.ask("go")
        assert {schema.name for schema in model.requests[0].tools} == {"date-time", "file-read"}
        with pytest.raises(ToolCallError, match="the tool policy"):
            await app.use_tool("file-write", {"path": "a", "content": "b"})
    assert not (tmp_path / "a").exists()


# ---- image-describe -----------------------------------------------------------------------------------------------


class Blind(ScriptedModel):
    """A model that sees no images."""

    info = ModelInfo(id="blind", provider="scripted", supports_images=False)


async def test_images_are_described_as_soon_as_a_model_sees_them() -> None:
    model = Blind(["one", "two"], id="blind")
    async with Kestrel(model=model) as app:
        await app.ask("go")
        answer = await app.use_tool("image-describe", {"url": "data:image/png;base64,iVBORw0KGgo="})
        assert (answer["error"], "supports_images" in answer["message"]) == (True, True)
        app.models.register(ScriptedModel([]))
        await app.ask("go")
    before, after = ({schema.name for schema in request.tools} for request in model.requests)
    assert after - before == {"image-describe"}


# ---- what it costs ------------------------------------------------------------------------------------------------


def test_an_application_starts_without_the_heavy_ones() -> None:
    code = (
        "import asyncio, sys; from kestrel_nb import Kestrel\n"
        "async def go():\n    async with Kestrel(): pass\n"
        "asyncio.run(go())\n"
        "heavy = {'httpx', 'quickjs', 'sqlite3', 'jsonschema', 'charset_normalizer', 'pandas'}\n"
        "off = {f'kestrel_nb.plugins.builtin_tools.{name}' for name in ('shell_exec', 'code_eval', 'database_query')}\n"
        "found = (heavy | off) & set(sys.modules); assert not found, found"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
