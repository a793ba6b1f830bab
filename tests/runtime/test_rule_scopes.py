"""Rules of a user, a notebook and a session together: their order, a deny among them, rules that change meanwhile."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from stage import FunctionTool, Stage

from kestrel_nb.plugins.core_tools.plugin import core_tools
from kestrel_nb.plugins.core_tools.settings import CoreSettings
from kestrel_nb.protocol.errors import ApprovalError
from kestrel_nb.protocol.messages import ToolCallPart
from kestrel_nb.protocol.sessions import ApprovalDecision, PermissionRule
from kestrel_nb.protocol.tools import ToolSchema
from kestrel_nb.runtime.file_store import FileSessionStore
from kestrel_nb.runtime.permissions import UnreadableRules, decide, matches
from kestrel_nb.runtime.rule_checks import rule_problem
from kestrel_nb.testing import Reply, ScriptedModel

SCHEMAS = {tool.schema.name: tool.schema for tool in core_tools(CoreSettings.from_config({}))}
READERS = {"read_file", "list_dir", "glob", "grep", "todo_write", "finish"}
YES = ApprovalDecision(approved=True)
FOR_SESSION = ApprovalDecision(approved=True, remember="session")


def rule(action: Any, scope: Any, tool: str = "act", match: str | None = None) -> PermissionRule:
    return PermissionRule(tool=tool, action=action, match=match, scope=scope)


def acting(*, runs: int = 1, replies: int = 1, permission: Any = "auto", **options: Any) -> tuple[Stage, list[Any]]:
    """A stage whose model calls ``act`` ``replies`` times, and what ran."""
    ran: list[Any] = []

    def act(args: Any, context: Any) -> str:
        ran.append(dict(args))
        return "acted"

    script = [Reply(tool_calls=[("act", {"x": number})]) for number in range(replies)]
    model = ScriptedModel([*script, "done"] * runs)
    return Stage(model, [FunctionTool("act", act, permission=permission)], **options), ran


# ---- order --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("actions", list(itertools.product(("auto", "ask", "deny", None), repeat=3)))
async def test_the_session_decides_last_and_a_deny_of_any_scope_holds(actions: tuple[Any, ...]) -> None:
    stage, ran = acting()
    user, notebook, session = actions
    if notebook:  # said before the user's rules are known, on purpose
        stage.manager.add_rule(rule(notebook, "notebook"))
    if user:
        stage.manager.add_rules(lambda: (rule(user, "user"),))
    if session:
        stage.session.add_rule(rule(session, "session"))
    said = [action for action in actions if action]
    expected = "deny" if "deny" in said else said[-1] if said else "auto"
    run = stage.session.start("go")
    if expected == "ask":
        request = await stage.question()
        stage.manager.approvals.resolve(request.id, ApprovalDecision(approved=False))
    await run
    assert bool(ran) is (expected == "auto")
    assert bool(stage.of("approval.requested")) is (expected == "ask")
    stage.check()


def test_what_the_application_says_stands_between_the_user_and_the_notebook() -> None:
    stage, _ = acting(rules=(rule("ask", "session", "app"),))
    stage.manager.add_rule(rule("ask", "notebook", "notebook"))
    stage.manager.add_rules(lambda: (rule("ask", "user", "user"),))
    dispose = stage.manager.add_rule(rule("ask", "session", "plugin"))
    stage.session.add_rule(rule("ask", "session", "own"))
    assert [item.tool for item in stage.session.rules] == ["user", "app", "plugin", "notebook", "own"]
    dispose()
    assert [item.tool for item in stage.session.rules] == ["user", "app", "notebook", "own"]


async def test_a_deny_holds_for_direct_calls_and_offered_tools() -> None:
    stage, ran = acting()
    stage.manager.add_rule(rule("deny", "notebook"))
    outcome = await stage.session.use_tool(ToolCallPart(id="c", name="act", arguments={"x": 1}, raw_arguments="{}"))
    assert outcome.state == "skipped"
    assert not ran


async def test_a_source_that_fails_lets_nothing_run() -> None:
    stage, ran = acting()

    def broken() -> tuple[PermissionRule, ...]:
        raise OSError("gone")

    stage.manager.add_rules(broken)
    await stage.ask()
    assert not ran
    assert stage.of("tool.failed")


# ---- a question waits, the rules change ---------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["user", "notebook", "session"])
@pytest.mark.parametrize("decision", [YES, FOR_SESSION, ApprovalDecision(approved=True, arguments={"x": 5})])
async def test_a_deny_that_comes_while_a_question_waits_holds(scope: Any, decision: ApprovalDecision) -> None:
    stage, ran = acting(permission="ask")
    run = stage.session.start("go")
    request = await stage.question()
    if scope == "session":
        stage.session.set_rules([rule("deny", "session")])
    else:
        stage.manager.add_rule(rule("deny", scope))
    try:
        stage.manager.approvals.resolve(request.id, decision)
    except ApprovalError:  # edited arguments are refused at once
        stage.manager.approvals.resolve(request.id, YES)
    await run
    assert not ran
    assert stage.of("tool.skipped")[0].cause == "denied"
    stage.check()


async def test_approving_for_the_session_adds_a_rule_once_and_taking_it_back_asks_again() -> None:
    stage, ran = acting(permission="ask", runs=2)
    run = stage.session.start("go")
    stage.manager.approvals.resolve((await stage.question()).id, FOR_SESSION)
    await run
    assert stage.session.own_rules == (rule("auto", "session"),)
    stage.session.add_rule(rule("auto", "session"))
    assert stage.session.own_rules == (rule("auto", "session"),)
    stage.session.set_rules(())
    run = stage.session.start("again")
    request = await stage.question(2)
    assert request.reason == "`act` always asks (the tool's default)"
    stage.manager.approvals.resolve(request.id, YES)
    await run
    assert len(ran) == 2


async def test_rules_of_a_session_are_stored_and_come_back(tmp_path: Path) -> None:
    stage, _ = acting(store=FileSessionStore(tmp_path))
    await stage.ask()
    stage.session.set_rules([rule("deny", "user", "act"), rule("ask", "notebook", "x", "a*")])
    await stage.manager.close()
    found = await FileSessionStore(tmp_path).load(stage.session.id)
    assert found is not None
    assert found.rules == (rule("deny", "session"), rule("ask", "session", "x", "a*"))


# ---- what only reads ----------------------------------------------------------------------------------------------


def test_the_core_tools_that_only_read_are_marked() -> None:
    assert {name for name, schema in SCHEMAS.items() if schema.read_only} == READERS


@pytest.mark.parametrize("mark", [False, None, 0, 1, "yes", "False"])
def test_a_tool_that_is_not_plainly_marked_counts_as_changing(mark: Any) -> None:
    schema = ToolSchema(name="t", description="", read_only=mark)
    assert decide([rule("ask", "notebook", "@changing")], schema, {})[0] == "ask"


async def test_a_changing_rule_covers_tools_that_come_later_and_names_itself() -> None:
    stage, ran = acting()
    stage.manager.add_rule(rule("ask", "notebook", "@changing"))
    stage.tools.register(FunctionTool("late", lambda *_: "ran"))
    assert [decide(stage.session.rules, schema, {})[0] for schema in stage.tools.schemas()] == ["ask", "ask"]
    run = stage.session.start("go")
    request = await stage.question()
    assert request.reason == "the notebook's rule `@changing: ask`"
    stage.manager.approvals.resolve(request.id, FOR_SESSION)
    await run
    assert ran == [{"x": 0}]
    assert [decide(stage.session.rules, schema, {})[0] for schema in stage.tools.schemas()] == ["auto", "ask"]


# ---- rules that can't be read ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("resolver", [None, lambda *_: "auto"])
async def test_while_rules_cant_be_read_nothing_runs_unasked(resolver: Any) -> None:
    stage, ran = acting(resolve_permission=resolver)
    stage.manager.add_rules(lambda: (UnreadableRules(),))
    stage.manager.add_rule(rule("auto", "notebook"))
    stage.session.add_rule(rule("auto", "session", "*"))
    run = stage.session.start("go")
    request = await stage.question()
    assert request.reason == "the user's rules can't be read; %kestrel policy says why"
    stage.manager.approvals.resolve(request.id, YES)
    await run
    assert ran


def test_unreadable_rules_neither_hide_a_deny_nor_become_one() -> None:
    schema = SCHEMAS["read_file"]
    assert decide([UnreadableRules(), rule("deny", "session", "*")], schema, {"path": "a"})[0] == "deny"
    assert decide([UnreadableRules(), rule("auto", "session", "*", "a")], schema, {"path": "a"})[0] == "ask"
    assert not matches(UnreadableRules(), schema, {"path": "a"})


# ---- rules that could never match -----------------------------------------------------------------------------------

GOOD = [
    ("shell", "auto", "git status"),
    ("shell", "auto", "git log *"),
    ("shell", "auto", "git log --format=*"),
    ("shell", "auto", "cat /etc/hosts"),
    ("shell", "auto", "gi[t] x"),
    ("shell", "auto", "*"),
    ("shell", "deny", "sudo *"),
    ("shell", "deny", "/usr/bin/git push"),
    ("shell", "ask", "*"),
    ("write_file", "auto", "src/*"),
    ("write_file", "auto", "/data/*"),
    ("write_file", "deny", "*.env"),
    ("write_file", "deny", "../x"),
    ("web_fetch", "auto", "https://*.example.org/*"),
    ("not_yet", "auto", "a; b"),
    ("*", "auto", "a"),
    ("@changing", "deny", None),
    ("todo_write", "deny", None),
]
NEVER = [
    ("shell", "auto", "ls; rm", "`;`"),
    ("shell", "auto", "ls && rm", "`&`"),
    ("shell", "auto", "ls $HOME", "`$`"),
    ("shell", "auto", "ls 'a'", "`'`"),
    ("shell", "auto", "ls\nrm", r"'\n'"),
    ("shell", "auto", "[;] x", "could never match"),
    ("shell", "auto", "git log -*", "options must be spelled out"),
    ("shell", "auto", "cat /etc/*", "no absolute path"),
    ("shell", "auto", "cat ../*", "no `..`"),
    ("shell", "auto", "X=1 ls", "no variable"),
    ("shell", "deny", "rm;*", "`;`"),
    ("write_file", "auto", "../x", "`..`"),
    ("write_file", "auto", "a\x00b", "control characters"),
    ("write_file", "auto", "  ", "empty"),
    ("write_file", "auto", "a" * 1001, "longer than"),
    ("todo_write", "ask", "x", "no text argument"),
    ("gr ep", "auto", None, "no tool can be named"),
    ("file_*", "deny", None, "no tool can be named"),
    ("@reading", "auto", None, "no tool can be named"),
    ("", "auto", None, "no tool can be named"),
]


@pytest.mark.parametrize(("tool", "action", "match"), GOOD)
def test_a_rule_that_can_match_is_taken(tool: str, action: Any, match: str | None) -> None:
    assert rule_problem(PermissionRule(tool=tool, action=action, match=match), SCHEMAS.get(tool)) == ""


@pytest.mark.parametrize(("tool", "action", "match", "says"), NEVER)
def test_a_rule_that_could_never_match_says_why(tool: str, action: Any, match: str | None, says: str) -> None:
    assert says in rule_problem(PermissionRule(tool=tool, action=action, match=match), SCHEMAS.get(tool))


@pytest.mark.parametrize("command", ["sudo rm x", "/usr/bin/sudo rm x", "sudo -n rm x"])
def test_a_deny_finds_the_program_that_runs_others(command: str) -> None:
    call = {"command": command}
    assert decide([rule("deny", "user", "shell", "sudo *")], SCHEMAS["shell"], call)[0] == "deny"
    assert (
        decide([rule("auto", "user", "shell"), rule("deny", "user", "shell", "rm *")], SCHEMAS["shell"], call)[0]
        == "ask"
    )
