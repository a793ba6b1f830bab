"""Which built-in tools are on, why the others are not, and what the configuration refuses."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kestrel_nb import DEFAULT_BUILT_IN_TOOLS, UNSAFE_BUILT_IN_TOOLS, BuiltInToolConfig, HttpFetchConfig
from kestrel_nb.plugins.builtin_tools.config import BUILT_IN_TOOLS, config_from
from kestrel_nb.plugins.builtin_tools.selection import select_built_in_tools
from kestrel_nb.protocol.errors import UsageError

DEFAULTS = set(DEFAULT_BUILT_IN_TOOLS)


class Provider:
    async def search(self, query: str, max_results: int) -> list[Any]:
        return []


def on(no_javascript: str | None = None, **config: Any) -> set[str]:
    choices = select_built_in_tools(BuiltInToolConfig(**config), no_javascript=lambda: no_javascript)
    assert [choice.id for choice in choices] == list(BUILT_IN_TOOLS)
    for choice in choices:
        assert choice.why
        assert choice.on or choice.remedy, choice
    return {choice.id for choice in choices if choice.on}


def reason(id: str, no_javascript: str | None = None, **config: Any) -> str:
    choices = select_built_in_tools(BuiltInToolConfig(**config), no_javascript=lambda: no_javascript)
    return next(choice.reason for choice in choices if choice.id == id)


def test_the_twelve() -> None:
    assert len(set(BUILT_IN_TOOLS)) == 12
    assert set(BUILT_IN_TOOLS) == {*DEFAULT_BUILT_IN_TOOLS, *UNSAFE_BUILT_IN_TOOLS, "web-search"}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, DEFAULTS),
        ({"web_search_provider": Provider()}, DEFAULTS | {"web-search"}),
        ({"web_search_provider": Provider(), "disabled": ["web-search"]}, DEFAULTS),
        ({"enabled": ["http-fetch", "date-time", "file-read"]}, {"http-fetch", "date-time", "file-read"}),
        ({"enabled": ["date-time"], "web_search_provider": Provider()}, {"date-time"}),
        ({"enabled": ["web-search"], "web_search_provider": Provider()}, {"web-search"}),
        ({"enabled": ["web-search"]}, set()),
        ({"enabled": []}, set()),
        ({"disabled": ["http-fetch"]}, DEFAULTS - {"http-fetch"}),
        ({"disabled": ["shell-exec"]}, DEFAULTS),
        ({"enabled": ["date-time", "file-read"], "disabled": ["file-read"]}, {"date-time"}),
        ({"enabled": BUILT_IN_TOOLS, "disabled": BUILT_IN_TOOLS}, set()),
        ({"enabled": BUILT_IN_TOOLS}, set(BUILT_IN_TOOLS) - {"web-search", "database-query"}),
        ({"database_path": "x.db"}, DEFAULTS),
        ({"enabled": ["database-query"]}, set()),
        ({"enabled": ["database-query"], "database_path": "x.db"}, {"database-query"}),
        ({"enabled": ["database-query"], "database_path": "x.db", "disabled": ["database-query"]}, set()),
        ({"enabled": ("date-time", "date-time")}, {"date-time"}),
        ({"enabled": {"date-time"}}, {"date-time"}),
    ],
)  # fmt: skip
def test_what_is_on(config: dict[str, Any], expected: set[str]) -> None:
    assert on(**config) == expected


def test_without_the_javascript_engine() -> None:
    all_of_them = {"enabled": BUILT_IN_TOOLS, "database_path": "x.db", "web_search_provider": Provider()}
    assert on(**all_of_them) == set(BUILT_IN_TOOLS)
    assert on("no engine", **all_of_them) == set(BUILT_IN_TOOLS) - {"regex-match", "code-eval"}
    assert reason("regex-match", "pip install it") == "it needs the JavaScript engine; pip install it"
    assert reason("regex-match", "no engine", disabled=["regex-match"]).startswith("it is in disabled")


def test_the_engine_is_not_looked_for_when_nothing_needs_it() -> None:
    looks: list[str] = []

    def look() -> str | None:
        looks.append("for the engine")
        return None

    select_built_in_tools(BuiltInToolConfig(enabled=["date-time"]), no_javascript=look)
    assert not looks


def test_the_reasons_say_what_to_do() -> None:
    assert reason("shell-exec") == 'off by default; BuiltInToolConfig(enabled=[..., "shell-exec"])'
    whole = 'BuiltInToolConfig(enabled=[..., "database-query"], database_path=...)'
    assert reason("database-query") == f"off by default; {whole}"
    needed = "it needs a database_path; BuiltInToolConfig(database_path=...)"
    assert reason("database-query", enabled=["database-query"]) == needed
    assert reason("web-search") == "it needs a web_search_provider; BuiltInToolConfig(web_search_provider=...)"
    assert reason("date-time", enabled=[]) == 'it is not in enabled; BuiltInToolConfig(enabled=[..., "date-time"])'
    assert reason("date-time", disabled=["date-time"]) == 'it is in disabled; take "date-time" out of disabled'
    assert reason("date-time") == "on by default"
    assert reason("file-read", enabled=["file-read"]) == "it is in enabled"


# ---- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"enabled": ["shellexec"]}, "enabled: 'shellexec' is no built-in tool; did you mean \"shell-exec\"?"),
        ({"disabled": ["shell_exec"]}, 'did you mean "shell-exec"?'),
        ({"disabled": ["Shell-Exec "]}, 'did you mean "shell-exec"?'),
        ({"enabled": ["xyzzy"]}, "there are: http-fetch, date-time"),
        ({"enabled": ["read_file"]}, "database-query; others need no enabling"),
        ({"enabled": [..., "file-read"]}, "... is no built-in tool; put the names that you have there"),
        ({"enabled": "date-time"}, "enabled must be a list of tool names"),
        ({"disabled": None}, "disabled must be a list of tool names"),
        ({"enabled": 3}, "enabled must be a list"),
        ({"enabled": [None]}, "None is no built-in tool"),
        ({"shell_timeout": 0}, "shell_timeout must be a whole number of milliseconds from 1"),
        ({"shell_timeout": -5}, "shell_timeout"),
        ({"shell_timeout": True}, "not True"),
        ({"shell_timeout": 1.5}, "not 1.5"),
        ({"shell_timeout": "30"}, "not '30'"),
        ({"shell_timeout": None}, "not None"),
        ({"shell_timeout": float("nan")}, "not nan"),
        ({"shell_timeout": 10**20}, "from 1 to 86,400,000"),
        ({"code_eval_timeout": 0}, "code_eval_timeout"),
        ({"shell_env": ["A=b"]}, "shell_env must be a dict"),
        ({"shell_env": {"A": 1}}, "the value of A must be text"),
        ({"shell_env": {"A=B": "x"}}, "can't be the name"),
        ({"shell_env": {"": "x"}}, "can't be the name"),
        ({"shell_env": {"A": "x\0y"}}, "the value of A must be text"),
        ({"sandbox_dir": 3}, "sandbox_dir must be a path"),
        ({"sandbox_dir": " "}, "sandbox_dir must be a path"),
        ({"sandbox_dir": "a\0b"}, "sandbox_dir must be a path"),
        ({"sandbox_dir": __file__}, "is not a folder"),
        ({"database_path": b"x.db"}, "database_path must be a path"),
        ({"database_path": os.path.dirname(__file__)}, "is a folder, not a database file"),
        ({"web_search_provider": "brave"}, "web_search_provider must have a method search"),
        ({"web_search_provider": Provider}, "web_search_provider is the class Provider; make an object of it"),
        ({"http_fetch": {"timeoutMs": 1}}, "http_fetch must be an HttpFetchConfig"),
    ],
)
def test_what_the_configuration_refuses(config: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        BuiltInToolConfig(**config)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "config",
    [
        {"allow_private_network": "no"},
        {"allow_private_network": 1},
        {"max_response_bytes": 0},
        {"max_response_bytes": True},
        {"max_response_bytes": 10**12},
        {"timeout_ms": 0},
        {"timeout_ms": 2.0},
    ],
)
def test_what_http_fetch_refuses(config: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(config))):
        HttpFetchConfig(**config)


def test_the_value_of_a_variable_is_not_shown() -> None:
    with pytest.raises(UsageError) as caught:
        BuiltInToolConfig(shell_env={"TOKEN": "hush\0hush"})
    assert "hush" not in str(caught.value)


def test_paths_are_those_of_the_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = BuiltInToolConfig(sandbox_dir="box", database_path=Path("a.db"))
    monkeypatch.chdir("/")
    assert (config.sandbox_dir, config.database_path) == (str(tmp_path / "box"), str(tmp_path / "a.db"))


def test_what_was_given_can_be_changed_without_effect() -> None:
    names, variables = ["date-time"], {"A": "b"}
    config = BuiltInToolConfig(enabled=names, shell_env=variables)
    names.append("shell-exec")
    variables["B"] = "c"
    assert (config.enabled, config.shell_env) == (("date-time",), {"A": "b"})


# ---- the section of a configuration file --------------------------------------------------------------------------


def test_the_keys_of_the_section() -> None:
    provider = Provider()
    config = config_from(
        {
            "enabled": ["shell-exec"],
            "disabled": ["date-time"],
            "sandboxDir": "/srv",
            "shellTimeout": 1,
            "shellEnv": {"A": "b"},
            "codeEvalTimeout": 2,
            "databasePath": "/srv/a.db",
            "webSearchProvider": provider,
            "httpFetch": {"allowPrivateNetwork": True, "maxResponseBytes": 3, "timeoutMs": 4},
        }
    )
    assert config == BuiltInToolConfig(
        enabled=["shell-exec"],
        disabled=["date-time"],
        sandbox_dir="/srv",
        shell_timeout=1,
        shell_env={"A": "b"},
        code_eval_timeout=2,
        database_path="/srv/a.db",
        web_search_provider=provider,
        http_fetch=HttpFetchConfig(allow_private_network=True, max_response_bytes=3, timeout_ms=4),
    )
    assert config_from({}) == BuiltInToolConfig()


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"enable": []}, "builtin-tools: enable is no setting; did you mean enabled?"),
        ({"shell_timeout": 5}, "did you mean shellTimeout?"),
        ({"httpFetch": {"timeout": 5}}, "builtin-tools: httpFetch: timeout is no setting; did you mean timeoutMs?"),
        ({"httpFetch": True}, "builtin-tools: httpFetch must be a section"),
        ({"httpFetch": {"timeoutMs": 0}}, "http_fetch.timeout_ms must be a whole number"),
        ([], "builtin-tools must be a section"),
        ({3: 4}, "3 is no setting"),
    ],
)
def test_what_the_section_refuses(section: Any, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        config_from(section)
    assert said in str(caught.value)
