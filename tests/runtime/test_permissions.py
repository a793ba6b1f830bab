"""Rules: which calls they speak about, and what is decided."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kestrel_nb.protocol.sessions import PermissionRule
from kestrel_nb.protocol.tools import ToolSchema
from kestrel_nb.runtime.permissions import decide, matches

DATA = Path(__file__).parent.parent / "data" / "permissions"
ROWS = [json.loads(line) for line in (DATA / "commands.jsonl").read_text(encoding="utf-8").splitlines()]
EXCLUDED = json.loads((DATA / "excluded.json").read_text(encoding="utf-8"))

SHELL = ToolSchema(
    name="shell",
    description="",
    permission="ask",
    parameters={"type": "object", "properties": {"command": {"type": "string"}, "timeout_s": {"type": "number"}}},
)
OPEN_SHELL = ToolSchema(name="shell-exec", description="", permission="auto", parameters=SHELL.parameters)
WRITE = ToolSchema(
    name="write_file",
    description="",
    parameters={"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}},
)
FETCH = ToolSchema(
    name="web_fetch",
    description="",
    permission="ask",
    parameters={"type": "object", "properties": {"max": {"type": "integer"}, "url": {"type": "string"}}},
)


def allow(match: str | None, tool: str = "*") -> PermissionRule:
    return PermissionRule(tool=tool, action="auto", match=match)


def ask(match: str | None, tool: str = "*") -> PermissionRule:
    return PermissionRule(tool=tool, action="ask", match=match)


def deny(match: str | None, tool: str = "*") -> PermissionRule:
    return PermissionRule(tool=tool, action="deny", match=match)


def runs(rule: str, command: str) -> bool:
    return decide([allow(rule, "shell")], SHELL, {"command": command})[0] == "auto"


GIT_RULES = [allow(text, "shell") for text in ("git status", "git status *", "git log *", "git diff *", "git show *")]


def test_every_row_is_run_or_excluded() -> None:
    ids = {row["id"] for row in ROWS}
    assert len(ids) == 29
    assert set(EXCLUDED) == {row["id"] for row in ROWS if row["permission"] == "auto"}


@pytest.mark.parametrize("row", [row for row in ROWS if row["id"] not in EXCLUDED], ids=lambda row: row["id"])
def test_e09_commands_that_must_ask(row: dict[str, str]) -> None:
    for rules in ([], GIT_RULES, [allow("git *", "shell")] if " -" in row["command"] else []):
        assert decide(rules, SHELL, {"command": row["command"]})[0] == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "git status; rm -rf build",
        "git log || curl http://x.example",
        "git diff $(touch pwned)",
        "git log > /etc/motd",
        "git status & rm x",
        "git log\nrm x",
        "git log `id`",
        "git log 'a'",
        'git log "a"',
        "git log a\\ b",
        "git log *.py",
        "git log [a]",
        "git log ~/x",
        "git log {a,b}",
        "git log a#b",
        "git log !x",
        "git log %PATH%",
        "git log a^b",
        "git log a\x00b",
        "git log --output=x",
        "git log -p",
        "git log -- x",
        "git log /etc/passwd",
        "git log ../x",
        "git log a/../../x",
        "git log HEAD:../x",
        "git log a=/etc/passwd",
        "git  -C x log",
        "GIT_PAGER=x git log",
        "/tmp/git log",
        "git-log x",
        "log",
        "git",
        "",
        " ",
    ],
)
def test_commands_that_no_git_rule_lets_run(command: str) -> None:
    for rule in ("git log *", "git status *", "git log", "git diff *"):
        assert not runs(rule, command)


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("git status", "git status"),
        ("git status", "  git   status "),
        ("git status *", "git status"),
        ("git status *", "git status src/a.py docs"),
        ("git status --short", "git status --short"),
        ("git diff --stat", "git diff --stat"),
        ("git log --oneline -5", "git log --oneline -5"),
        ("git log --oneline *", "git log --oneline main"),
        ("git log --format=* *", "git log --format=oneline main"),
        ("git show *", "git show HEAD:README.md"),
        ("git log *", "git log main..dev"),
        ("pytest -q *", "pytest -q tests/a_test.py::test_x"),
        ("python *.py", "python tool.py"),
        ("make [ab]*", "make build"),
        ("cat /etc/hosts", "cat /etc/hosts"),
    ],
)
def test_commands_that_a_rule_lets_run(rule: str, command: str) -> None:
    assert runs(rule, command)


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("git status", "git status x"),
        ("git log --oneline *", "git log --oneline -5"),
        ("git log -*", "git log -p"),
        ("git log --*", "git log --output=x"),
        ("git log --format=*", "git log --format=/etc/x"),
        ("git * status", "git -C status"),
        ("*", "rm x"),
        ("", "rm"),
        ("", ""),
        ("python *.py", "python /tmp/x.py"),
        ("python *.py", "python ../x.py"),
        ("* x", "A=b x"),
        ("GIT STATUS", "git status"),
    ],
)
def test_commands_that_a_rule_does_not_let_run(rule: str, command: str) -> None:
    assert not runs(rule, command)


@pytest.mark.parametrize(
    "more", [{"env": {"PAGER": "x"}}, {"cwd": "/etc"}, {"cwd": "sub"}, {"stdin": "x"}, {"args": ["x"]}]
)
def test_what_stands_beside_the_command_counts(more: dict[str, Any]) -> None:
    assert decide([allow("git status")], SHELL, {"command": "git status", **more})[0] == "ask"


def test_harmless_things_beside_the_command() -> None:
    arguments = {"command": "git status", "timeout_s": 5, "cwd": ".", "env": {}, "background": False, "stdin": None}
    assert decide([allow("git status")], SHELL, arguments)[0] == "auto"


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("rm *", "rm -rf x"),
        ("rm *", "rm"),
        ("rm", "rm -rf /x"),
        ("rm *", "/bin/rm x"),
        ("git push *", "git push --force"),
        ("git push", "git -C x push --force"),
        ("git push", "git -c alias.p=push p"),
        ("git push", "GIT push"),
        ("git push", "/opt/bin/Git.exe push"),
        ("*", "anything; at $all"),
    ],
)
def test_a_rule_that_denies_is_read_widely(rule: str, command: str) -> None:
    for rules in ([deny(rule)], [deny(rule), allow(None)], [allow(None), deny(rule), allow(None)]):
        assert decide(rules, OPEN_SHELL, {"command": command})[0] == "deny"
    assert decide([allow(None), ask(rule)], OPEN_SHELL, {"command": command})[0] == "ask"


@pytest.mark.parametrize(
    "command",
    ["true; rm x", "r''m x", "sudo rm x", "env rm x", "X=1 rm x", "echo $(rm x)", "/bin/sh -c rm", "busybox rm x",
     "find x -delete", "eval rm x", ". ./x", "ssh host rm x", 7, None],
)  # fmt: skip
def test_what_cannot_be_compared_is_asked(command: Any) -> None:
    for rules in (
        [deny("rm *")],
        [deny("rm *"), allow(None)],
        [allow(None), ask("rm *")],
        [deny("rm *"), ask("x *"), allow(None)],
    ):
        decision, reason, rule = decide(rules, OPEN_SHELL, {"command": command})
        assert decision == "ask"
        assert "can't be compared" in reason
        assert rule is not None
        assert rule.match in reason


def test_other_commands_pass_a_denying_rule() -> None:
    for command in ("ls x", "rmdir x", "git log"):
        assert decide([deny("rm *"), deny("git push *")], OPEN_SHELL, {"command": command})[0] == "auto"


def test_the_last_rule_wins_but_deny_stays() -> None:
    call = {"path": "a"}
    assert decide([ask(None), allow(None)], WRITE, call)[0] == "auto"
    assert decide([allow(None), ask(None)], WRITE, call)[0] == "ask"
    assert decide([deny(None), allow(None)], WRITE, call)[0] == "deny"
    assert decide([ask("a*"), allow("*")], WRITE, call)[0] == "auto"
    assert decide([ask("rm *"), allow(None)], OPEN_SHELL, {"command": "rm $x"})[0] == "auto"
    assert decide([allow(None, "other")], FETCH, {"url": "https://a.example"})[0] == "ask"


def test_reasons_are_short_sentences() -> None:
    assert decide([], SHELL, {"command": "x"}) == ("ask", "`shell` always asks (the tool's default)", None)
    assert decide([], WRITE, {"path": "x"}) == ("auto", "`write_file` runs by itself (the tool's default)", None)
    rule = ask(None, "shell")
    assert decide([rule], SHELL, {"command": "x"}) == ("ask", "the rule `shell: ask`", rule)
    rule = deny("rm *", "shell")
    assert decide([rule], SHELL, {"command": "rm x"}) == ("deny", "denied by the rule `shell: deny` for `rm *`", rule)


@pytest.mark.parametrize(
    ("pattern", "path", "allowed", "denied"),
    [
        ("src/*", "src/a.py", True, True),
        ("src/*", "src/deep/a.py", True, True),
        ("src/*", "./src//a.py", True, True),
        ("src/*", "srcx/a.py", False, False),
        ("src/*", "src/../secret", False, True),
        ("secret/*", "src/../secret/k", False, True),
        ("secret/*", "/code/ws/secret/k", False, True),
        ("secret/*", "SECRET/k", False, True),
        ("secret/*", "secret\\k", False, True),
        ("*.md", "a.md", True, True),
        ("*.md", "/etc/a.md", False, True),
        ("*.md", "~/a.md", False, True),
        ("/data/*", "/data/a", True, True),
        ("*", "../x", False, True),
        ("*", "/etc/passwd", True, True),
        ("a", "a\n", False, False),
        (".env", "sub/.env", False, True),
    ],
)
def test_paths(pattern: str, path: str, allowed: bool, denied: bool) -> None:
    assert matches(allow(pattern), WRITE, {"content": "x", "path": path}) is allowed
    assert matches(deny(pattern), WRITE, {"content": "x", "path": path}) is denied


@pytest.mark.parametrize(
    ("pattern", "url", "allowed"),
    [
        ("https://docs.example.org/*", "https://docs.example.org/a/b?c", True),
        ("https://docs.example.org/*", "https://DOCS.example.org", True),
        ("https://*.example.org/*", "https://a.example.org/x", True),
        ("https://*.example.org/*", "https://evil.example/.example.org/x", False),
        ("https://*.example.org/*", "https://evil.example?.example.org/x", False),
        ("https://*.example.org/*", "https://evil.example#.example.org/x", False),
        ("https://*.example.org/*", "https://evil.example\\.example.org/x", False),
        ("https://docs.example.org*/*", "https://docs.example.org@evil.example/x", False),
        ("https://docs.example.org/*", "https://docs.example.org.evil.example/x", False),
        ("https://docs.example.org/*", "http://docs.example.org/x", False),
        ("https://docs.example.org/a/*", "https://docs.example.org/a/../b", False),
        ("https://docs.example.org/a/*", "https://docs.example.org/a/%2e%2E/b", False),
        ("*docs.example.org*", "https://evil.example/?docs.example.org", False),
        ("*", "https://any.example/x", True),
    ],
)
def test_addresses(pattern: str, url: str, allowed: bool) -> None:
    assert matches(allow(pattern), FETCH, {"max": 1, "url": url}) is allowed


def test_a_call_without_text_cannot_be_compared() -> None:
    assert not matches(allow("*"), WRITE, {})
    assert not matches(deny("*"), WRITE, {"path": 1})
    assert decide([deny("x")], WRITE, {})[0] == "ask"


@given(st.text("git log-;&|$`()<>\n\\*?[]{}~#!'\"=/. \tx", max_size=20))
def test_no_shell_syntax_ever_passes_a_rule(tail: str) -> None:
    if runs("git log *", "git log " + tail):
        assert not set(tail) & set(";&|$`()<>\n\\*?[]{}~#!'\"")
        assert not any(word.startswith(("-", "/")) for word in tail.split())


@given(st.text(), st.text(), st.sampled_from(["auto", "ask", "deny"]))
def test_no_rule_and_no_call_raises(pattern: str, value: str, action: Any) -> None:
    rule = PermissionRule(tool="*", action=action, match=pattern)
    for schema, name in ((SHELL, "command"), (WRITE, "path"), (FETCH, "url")):
        assert decide([rule], schema, {name: value})[0] in ("auto", "ask", "deny")
