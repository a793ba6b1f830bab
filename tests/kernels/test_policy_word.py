"""``%kestrel policy`` in a real kernel: what it says about calls is what runs then do."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from front_end import RunPage
from harness import Kernel, running_kernel
from sample_cells import LOAD

# Tools with the names and arguments of real ones that do nothing, so that everything can be called.
APP = '''from kestrel_nb import Kestrel, KestrelConfig, tool
from kestrel_nb.testing import Reply, ScriptedModel
ran = []

@tool(permission="ask")
def shell(command: str, cwd: str = "", timeout_s: float = 9) -> str:
    """Run."""
    ran.append(command)
    return "ran"

@tool
def write_file(path: str, content: str = "") -> str:
    """Write."""
    ran.append(path)
    return "ran"

@tool(permission="ask")
def fetch(url: str, times: int = 1) -> str:
    """Fetch."""
    ran.append(url)
    return "ran"

@tool(read_only=True)
def look(name: str = "") -> str:
    """Look."""
    ran.append(name)
    return "ran"

@tool
def count(number: int, names: list[str] = []) -> str:
    """Count."""
    ran.append(number)
    return "ran"

def app_for(*calls):
    model = ScriptedModel([Reply(tool_calls=list(calls)) if calls else "Nothing.", *["Done."] * 9])
    return Kestrel(model=model, tools=[shell, write_file, fetch, look, count], config=KestrelConfig(plugins=()))

def outcomes():
    words = {"executed": "auto", "failed": "failed"}
    return [words.get(e.type[5:]) or ("deny" if e.cause == "denied" else "ask") for e in heard]

def listen():
    heard.clear()
    for kind in ("tool.executed", "tool.failed", "tool.skipped"):
        app.events.subscribe(kind, heard.append)

heard = []
'''


def use(*calls: tuple[str, dict[str, object]]) -> str:
    """A cell that takes a new application whose model makes ``calls``."""
    return f"ran.clear()\napp = app_for(*{calls!r})\nlisten()\n%kestrel use app"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """One kernel in a workspace that does not hold the user's rules."""
    home = tmp_path_factory.mktemp("policy")
    workspace = home / "workspace"
    workspace.mkdir()
    with running_kernel(home, cwd=workspace) as kernel:
        kernel.ok(LOAD, 60)
        kernel.ok(APP)
        yield kernel


def rules_file(kernel: Kernel) -> Path:
    return Path(kernel.env["XDG_DATA_HOME"]) / "kestrel-nb" / "rules.json"


@pytest.fixture
def kernel(shared: Kernel) -> Kernel:
    """The kernel without any rule, and with a fresh application."""
    rules_file(shared).unlink(missing_ok=True)
    shared.forget()
    shared.ok(
        "from kestrel_nb.notebook.state import current\ncurrent().rules.notebook = ()\ncurrent().rules._told = {}"
    )
    shared.ok(use())
    return shared


def said(kernel: Kernel, cell: str) -> str:
    """The text that a cell shows."""
    shown = kernel.ok(cell).displayed
    return str(shown[-1]["text/plain"])


def refused(kernel: Kernel, cell: str) -> str:
    """The one line of a mistake."""
    outcome = kernel.run(cell)
    assert outcome.status == "error", outcome.displayed
    assert len(outcome.text.strip().splitlines()) == 1
    return outcome.text.strip().removeprefix("UsageError: ")


# ---- careful ------------------------------------------------------------------------------------------------------

CALLS = (("write_file", {"path": "a"}), ("look", {"name": "b"}), ("count", {"number": 1}), ("shell", {"command": "c"}))
GO = "%%kestrel --headless deny\ngo"


def test_careful_asks_before_whatever_may_change_something_and_back(kernel: Kernel) -> None:
    kernel.ok(use(*CALLS))
    kernel.ok(GO)
    assert kernel.ok("print(outcomes(), ran)").text == "['auto', 'auto', 'auto', 'ask'] ['a', 'b', 1]\n"
    text = said(kernel, "%kestrel policy careful")
    assert text == (
        "Careful in this notebook, until its kernel ends: every tool that is not marked read_only asks before it runs."
    )
    assert said(kernel, "%kestrel policy careful") == text
    kernel.ok(use(*CALLS))  # another application obeys the notebook's rules too
    kernel.ok(GO)
    assert kernel.ok("print(outcomes(), ran)").text == "['ask', 'auto', 'ask', 'ask'] ['b']\n"
    assert said(kernel, "%kestrel policy").count("@changing") == 1
    assert said(kernel, "%kestrel policy default").startswith("No longer careful")
    assert said(kernel, "%kestrel policy default") == "That was the default already."
    kernel.ok(use(*CALLS))
    kernel.ok(GO)
    assert kernel.ok("print(outcomes())").text == "['auto', 'auto', 'auto', 'ask']\n"


def test_careful_in_the_cell_that_loads_the_extension_holds_in_the_default_application(tmp_path: Path) -> None:
    with running_kernel(tmp_path) as fresh:
        assert "Careful" in said(fresh, f"{LOAD}\n%kestrel policy careful --user")
        table = said(fresh, "%kestrel policy")
        lines = [line.split() for line in table.splitlines()]
        assert ["write_file", "ask", "rule", "1"] in lines
        assert all([name, "auto", "its", "default"] in lines for name in ("read_file", "inspect_variable"))
        assert ["run_python", "ask", "rule", "1"] in lines
        outcome = fresh.ok("%%kestrel\nrun the command `touch made`")
        assert "declined" in outcome.displayed[0]["text/plain"].lower()
        fresh.restart()
        fresh.ok(LOAD, 60)
        assert said(fresh, "%kestrel policy") == table  # the user's rules outlive the kernel
        assert "still careful in all your notebooks: %kestrel policy default --user" in said(
            fresh, "%kestrel policy default"
        )


def test_careful_covers_tools_that_come_later_and_takes_back_what_was_approved_for_the_session(kernel: Kernel) -> None:
    kernel.ok(use(("shell", {"command": "ls"}), ("shell", {"command": "ls"})))
    page = RunPage(kernel, "%%kestrel\ngo")
    card = page.card()
    assert card["why"] == "Asked because `shell` always asks (the tool's default)."
    page.answer(card, True, remember="session")
    kernel.outcome(page.cell)
    assert "1  session  shell: auto" in said(kernel, "%kestrel policy")
    assert "Taken back in this session: shell: auto." in said(kernel, "%kestrel policy careful")
    kernel.ok("@tool\ndef newcomer() -> str:\n    'New.'\n    return 'ran'")
    kernel.ok("%kestrel use newcomer")
    assert said(kernel, "%kestrel policy explain newcomer") == "ask: the notebook's rule `@changing: ask` (rule 1)"
    assert said(kernel, "%kestrel policy explain shell command=ls").startswith("ask: ")


def test_approving_for_the_session_shows_as_a_rule_and_remove_takes_it_back(kernel: Kernel) -> None:
    kernel.ok("%kestrel policy careful")
    kernel.ok(use(("write_file", {"path": "a"}), ("write_file", {"path": "b"})))
    page = RunPage(kernel, "%%kestrel\ngo")
    card = page.card()
    assert card["why"] == "Asked because the notebook's rule `@changing: ask`."
    page.answer(card, True, remember="session")
    kernel.outcome(page.cell)
    assert kernel.ok("print(ran)").text == "['a', 'b']\n"
    assert "2  session   write_file: auto" in said(kernel, "%kestrel policy")
    assert said(kernel, "%kestrel policy explain write_file path=c").endswith("(rule 2)")
    assert "Removed" in said(kernel, "%kestrel policy remove 2")
    assert said(kernel, "%kestrel policy explain write_file path=c").startswith("ask: ")


def test_what_still_runs_by_itself_is_named(kernel: Kernel) -> None:
    kernel.ok("%kestrel policy add write_file auto")
    kernel.ok("%kestrel policy")
    text = said(kernel, "%kestrel policy careful --user")
    assert text.splitlines()[1:] == ["write_file still runs by itself, by a later rule: %kestrel policy remove 2"]
    assert len(said(kernel, "%kestrel policy careful").splitlines()) == 1


def test_the_rules_end_with_the_extension(kernel: Kernel) -> None:
    kernel.ok("%kestrel policy careful")
    kernel.ok("%unload_ext kestrel_nb")
    assert kernel.ok("print(app.sessions.rules)").text == "()\n"
    kernel.ok(LOAD)
    kernel.ok(use())
    assert said(kernel, "%kestrel policy").startswith("No rules: ")


# ---- explain agrees with the run ------------------------------------------------------------------------------------

RULES = """add shell deny "git push" --scope user
add shell deny "sudo *" --scope user
add write_file deny "*.env" --scope user
add fetch deny "*internal*" --scope user
add shell auto "git status"
add shell auto "git log *"
add shell auto "git show --stat *"
add write_file ask "src/*"
add write_file auto "src/ok/*"
add fetch auto "https://*.example.org/*"
add count ask
add count auto --scope session
add look ask "secret*" --scope session"""

ROWS: list[tuple[str, dict[str, object], str]] = [
    ("shell", {"command": "git status"}, "auto"),
    ("shell", {"command": "git status --short"}, "ask"),
    ("shell", {"command": "git log main"}, "auto"),
    ("shell", {"command": "git log -p"}, "ask"),
    ("shell", {"command": "git log ../x"}, "ask"),
    ("shell", {"command": "git log /etc/passwd"}, "ask"),
    ("shell", {"command": "git log; rm -rf x"}, "ask"),
    ("shell", {"command": "git log\nrm x"}, "ask"),
    ("shell", {"command": "git log `id`"}, "ask"),
    ("shell", {"command": "git show --stat HEAD"}, "auto"),
    ("shell", {"command": "git status", "cwd": "sub"}, "ask"),
    ("shell", {"command": "git status", "timeout_s": 1}, "auto"),
    ("shell", {"command": "X=1 git status"}, "ask"),
    ("shell", {"command": "git push"}, "deny"),
    ("shell", {"command": "git -C x push --force"}, "deny"),
    ("shell", {"command": "/usr/bin/git push origin"}, "deny"),
    ("shell", {"command": "git push; true"}, "ask"),
    ("shell", {"command": "sudo git status"}, "deny"),
    ("shell", {"command": "env git push"}, "ask"),
    ("shell", {"command": ""}, "ask"),
    ("write_file", {"path": "notes.md"}, "auto"),
    ("write_file", {"path": "src/a.py"}, "ask"),
    ("write_file", {"path": "./src//a.py"}, "ask"),
    ("write_file", {"path": "src/ok/a.py"}, "auto"),
    ("write_file", {"path": "src/ok/../a.py"}, "ask"),
    ("write_file", {"path": "lib/../src/a.py"}, "ask"),
    ("write_file", {"path": "SRC/a.py"}, "ask"),
    ("write_file", {"path": ".env"}, "deny"),
    ("write_file", {"path": "sub/PROD.ENV"}, "deny"),
    ("write_file", {"path": "src/ok/x.env"}, "deny"),
    ("fetch", {"url": "https://a.example.org/x"}, "auto"),
    ("fetch", {"url": "https://a.example.org"}, "auto"),
    ("fetch", {"url": "HTTPS://A.EXAMPLE.ORG/x"}, "auto"),
    ("fetch", {"url": "http://a.example.org/x"}, "ask"),
    ("fetch", {"url": "https://evil.test/?.example.org/"}, "ask"),
    ("fetch", {"url": "https://x@a.example.org/"}, "ask"),
    ("fetch", {"url": "https://a.example.org/../x"}, "ask"),
    ("fetch", {"url": "https://internal.example.org/x"}, "deny"),
    ("count", {"number": 1}, "auto"),
    ("count", {"number": 2, "names": ["a", "b"]}, "auto"),
    ("look", {"name": "open"}, "auto"),
    ("look", {"name": "secrets"}, "ask"),
    ("look", {}, "ask"),
]


def test_what_explain_says_is_what_the_run_does(kernel: Kernel) -> None:
    kernel.ok(use(*[(name, arguments) for name, arguments, _ in ROWS]))
    kernel.ok(
        f"from kestrel_nb.notebook.commands import run_line\nfor line in {RULES.splitlines()!r}:\n"
        "    await run_line(f'policy {line}')"
    )
    lines = [f"policy explain {name} {json.dumps(arguments)}" for name, arguments, _ in ROWS]
    explained = kernel.ok(f"print([(await run_line(line)).decision for line in {lines!r}], ran)").text
    assert explained == f"{[row[2] for row in ROWS]} []\n"
    kernel.ok(GO)
    assert kernel.ok("print(outcomes())").text == f"{[row[2] for row in ROWS]}\n"


def test_a_deny_wins_over_everything(kernel: Kernel) -> None:
    kernel.ok("%kestrel policy add write_file deny --scope user")
    kernel.ok("%kestrel policy add write_file auto")
    effect = said(kernel, "%kestrel policy add write_file auto --scope session")
    assert "It has no effect: rule 1 decides (write_file: deny)." in effect
    kernel.ok(use(("write_file", {"path": "a"})))
    kernel.ok("%kestrel policy add * auto --scope session")
    outcome = kernel.ok("%%kestrel --headless approve -t write_file\ngo")
    assert "by a rule" in outcome.displayed[0]["text/plain"]
    assert kernel.ok("print(outcomes(), ran)").text == "['deny'] []\n"
    tried = kernel.run("await app.use_tool('write_file', {'path': 'a'})")
    assert "denied by the user's rule `write_file: deny`" in "".join(tried.reply["traceback"])


@pytest.mark.parametrize("scope", ["user", "notebook"])
def test_a_deny_that_comes_while_the_card_waits_holds(kernel: Kernel, scope: str) -> None:
    kernel.ok(use(("shell", {"command": "ls"})))
    page = RunPage(kernel, "%%kestrel -b\ngo")
    kernel.outcome(page.cell)
    card = page.card()
    kernel.ok(f"%kestrel policy add shell deny --scope {scope}")
    page.answer(card, True, remember="session")
    kernel.ok("await app.sessions.get(app.sessions.list()[0].id).ended()")
    assert kernel.ok("print(outcomes(), ran)").text == "['deny'] []\n"


# ---- the user's file ------------------------------------------------------------------------------------------------


def test_while_the_users_rules_cant_be_read_everything_asks(kernel: Kernel) -> None:
    path = rules_file(kernel)
    kernel.ok("%kestrel policy add write_file auto --scope session")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{ torn")
    kernel.ok(use(("look", {"name": "a"})))
    outcome = kernel.ok(GO)
    assert "your rules in …/rules.json can't be read" in outcome.displayed[0]["text/plain"]
    assert kernel.ok("print(outcomes(), ran)").text == "['ask'] []\n"
    assert str(path) in said(kernel, "%kestrel policy")
    assert "nothing was changed" in refused(kernel, "%kestrel policy add shell deny --scope user")
    assert "nothing was changed" in refused(kernel, "%kestrel policy careful --user")
    assert "can't be read" in refused(kernel, "%kestrel policy remove 1")
    assert path.read_text() == "{ torn"
    kernel.ok("%kestrel policy careful")  # rules of the notebook need no file


def test_a_change_by_another_kernel_holds_in_the_next_run(kernel: Kernel) -> None:
    kernel.ok(use(("look", {"name": "a"})))
    document = {"version": 1, "kind": "rules", "rules": [{"tool": "look", "action": "deny"}]}
    rules_file(kernel).parent.mkdir(parents=True, exist_ok=True)
    rules_file(kernel).write_text(json.dumps(document))
    kernel.ok(GO)
    assert kernel.ok("print(outcomes())").text == "['deny']\n"


# ---- words ----------------------------------------------------------------------------------------------------------


def test_policy_shows_rules_and_tools_as_text_html_and_frames(kernel: Kernel) -> None:
    kernel.ok("%kestrel policy add shell deny 'git push' --scope user")
    kernel.ok("%kestrel policy add write_file ask '<b>*'")
    shown = kernel.ok("%kestrel policy").displayed[0]
    assert shown["text/plain"].splitlines() == [
        "Rules. The last rule that speaks about a call wins; a deny always holds.",
        "  1  user      shell: deny  git push",
        "  2  notebook  write_file: ask  <b>*",
        "",
        "Tools. What each does when the model calls it.",
        "  count       auto  its default",
        "  fetch       ask   its default",
        "  look        auto  its default",
        "  shell       ask   its default; some calls by rule 1",
        "  write_file  auto  its default; some calls by rule 2",
    ]
    assert "<code>&lt;b&gt;*</code>" in shown["text/html"]
    assert re.findall(r"<b>(\w+)</b>", shown["text/html"]) == ["Rules", "Tools"]
    frames = kernel.ok("p = %kestrel policy\nprint(p.frame.shape, list(p.frame), list(p.rules_frame['tool']))").text
    assert frames == "(5, 4) ['tool', 'decision', 'why', 'read_only'] ['shell', 'write_file']\n"


def test_help_on_policy_and_fix_says_each_word(kernel: Kernel) -> None:
    text = said(kernel, "%kestrel help policy")
    for word in ("careful", "default", "add", "remove N", "remove TOOL [MATCH]", "explain", "auto", "ask", "deny"):
        assert word in text
    for word in ("@changing", "MATCH  ", "--scope session", "--scope notebook", "--scope user", "--user"):
        assert word in text
    assert max(map(len, text.splitlines())) <= 110
    assert "-m MODEL" in said(kernel, "%kestrel help fix")
    lines = said(kernel, "%kestrel help").splitlines()
    rows = lines[lines.index("%kestrel WORD:") + 1 :]
    starts = {re.search(r"(?<=  )\S", row[6:]).start() for row in rows if row[4] != " "}
    assert len(starts) == 1  # one column, however long a usage is


def test_explain_is_an_object_that_a_cell_can_hold(kernel: Kernel) -> None:
    kernel.ok("%kestrel policy add shell deny 'git push' --scope user")
    line = '%kestrel policy explain shell {"command": "git push -f"}'
    assert said(kernel, line) == "deny: the user's rule `shell: deny` for `git push` (rule 1)"
    told = kernel.ok(f"e = {line}\nprint(e.decision, e.number, e.rule.match, e.reason, e.arguments)").text
    assert told == (
        "deny 1 git push denied by the user's rule `shell: deny` for `git push` {'command': 'git push -f'}\n"
    )
    assert said(kernel, "%kestrel policy explain look") == "auto: `look` runs by itself (the tool's default)"
    assert said(kernel, "%kestrel policy explain count number=3 names='[\"a\"]'").startswith("auto: ")
    assert said(kernel, "%kestrel policy explain shell command='it is; here' timeout_s=2").startswith("ask: ")
    assert said(kernel, """%kestrel policy explain shell '{"command": "x"}'""").startswith("ask: ")
    assert kernel.ok("print(ran)").text == "[]\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("carefull", "did you mean %kestrel policy careful?"),
        ("careful --all", "usage: %kestrel policy careful [--user]"),
        ("default now", "usage: %kestrel policy default [--user]"),
        ("add", "usage: %kestrel policy add TOOL auto|ask|deny [MATCH]"),
        ("add shell", "usage: %kestrel policy add TOOL"),
        ("add shell allow", 'an action is one of auto, ask, deny, not "allow" (to allow is auto)'),
        ("add shell auto git status", 'put a match of several words into quotes: "git status"'),
        ("add shell auto 'ls; rm'", "could never match a command with `;`"),
        ("add shell auto 'ls", "a quote is not closed"),
        ("add shell ask --scope all", '--scope is one of session, notebook, user, not "all"'),
        ("add shell ask --scope", "--scope is one of session, notebook, user"),
        ("add shell ask --scop user", "unknown option --scop"),
        ("add count ask x", "the match"),
        ("add a/b deny", 'no tool can be named "a/b"'),
        ("remove", "usage: %kestrel policy remove N, or TOOL [MATCH]"),
        ("remove 1", "no rule 1; there are: none"),
        ("remove shell", 'no rule about "shell"'),
        ("explain", "usage: %kestrel policy explain TOOL"),
        ("explain shel command=x", 'no tool "shel"; did you mean "shell"?'),
        ("explain shell", "a call with these arguments would fail: command: is required"),
        ("explain shell commnd=x", "commnd: is not allowed"),
        ("explain shell x", "arguments are NAME=VALUE"),
        ("explain count number=x", 'number: "x" is no JSON value'),
        ("explain count number='\"3\"'", "number: must be an integer"),
        ("explain shell {", "the arguments are no JSON object"),
        ("explain shell {} x", "the arguments are no JSON object"),
    ],
)
def test_a_mistake_is_one_line_and_changes_nothing(kernel: Kernel, words: str, says: str) -> None:
    assert says in refused(kernel, f"%kestrel policy {words}")
    assert kernel.ok("print(app.sessions.rules)").text == "()\n"


def test_rules_are_said_again_taken_back_and_numbered(kernel: Kernel) -> None:
    first = said(kernel, "%kestrel policy add shell ask")
    assert first == "Rule 1: calls of shell ask first, in this notebook, until its kernel ends."
    assert said(kernel, "%kestrel policy add shell ask") == first
    assert "did you mean shell?" in said(kernel, "%kestrel policy add shel deny")
    kernel.ok("%kestrel policy add shell deny 'git push' --scope user")  # moves the numbers
    assert "the numbers of the rules have changed" in refused(kernel, "%kestrel policy remove 2")
    kernel.ok("%kestrel policy")
    assert "`shel: deny`" in said(kernel, "%kestrel policy remove 3")
    kernel.ok("%kestrel policy add shell ask --scope session")
    assert "rules 2, 3 speak about that" in refused(kernel, "%kestrel policy remove shell")
    assert "the notebook's rule" in said(kernel, "%kestrel policy remove shell --scope notebook")
    assert "the user's rule" in said(kernel, "%kestrel policy remove shell 'git push'")
    assert "the rule `shell: ask`" in said(kernel, "%kestrel policy remove shell")
    assert not json.loads(rules_file(kernel).read_text())["rules"]


def test_rules_given_in_code_are_shown_and_stay(kernel: Kernel) -> None:
    kernel.ok(
        "from kestrel_nb import PermissionRule\napp.sessions.add_rule(PermissionRule(tool='look', action='ask'))\n0"
    )
    assert "1  application  look: ask" in said(kernel, "%kestrel policy")
    assert "given in code" in refused(kernel, "%kestrel policy remove 1")
