"""What Tab offers in our cells and lines, asked as IPython asks: by its completer, and as its terminal shows it.

``|`` is the cursor. An offer is checked by the text that taking it gives.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell
from IPython.terminal.ptutils import IPythonPTCompleter
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from traitlets.config import Config

from kestrel_nb import Kestrel, tool
from kestrel_nb.notebook import tab as tab_key
from kestrel_nb.notebook.cell import OPTIONS
from kestrel_nb.notebook.commands import COMMANDS
from kestrel_nb.notebook.handle import RunHandle
from kestrel_nb.notebook.helping import docs, help_for
from kestrel_nb.notebook.offers import SOURCES
from kestrel_nb.notebook.settings import install, remove
from kestrel_nb.notebook.state import forget, state_of
from kestrel_nb.protocol.errors import UsageError
from kestrel_nb.protocol.sessions import ModelInfo
from kestrel_nb.protocol.tools import ToolSchema
from kestrel_nb.providers.known import NAMES, PROVIDERS
from kestrel_nb.testing import Reply, ScriptedModel

Tab = Callable[[str], list[str]]
PREFIXES = [f"{name}:" for name in NAMES]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, and no stored sessions yet."""
    monkeypatch.setenv("KESTREL_HOME", str(tmp_path / "store"))
    work = tmp_path / "work"
    (work / "src").mkdir(parents=True)
    for name in ("src/main.py", "src/map.txt", "my plan.txt", ".hidden", "data.csv", "notes (old).md"):
        (work / name).write_text("")
    monkeypatch.chdir(work)
    return work


@pytest.fixture
def shell(folder: Path) -> Iterator[Any]:
    """A shell of IPython's, as plain as it gets, with completion."""
    shell = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
    install(shell)
    tab_key.install(shell)
    yield shell
    tab_key.remove(shell)
    forget(shell)
    remove(shell)


def answers(shell: Any, code: str) -> Iterator[tuple[str, str]]:
    """What each offer at ``|`` gives, and what stands beside it."""
    position = code.index("|")
    text = code.replace("|", "", 1)
    with provisionalcompleter():
        for found in shell.Completer.completions(text, position):
            yield text[: found.start] + found.text + text[found.end :], found.type


@pytest.fixture
def tab(shell: Any) -> Tab:
    """The cells that the offers at ``|`` give."""
    return lambda code: [text for text, _ in answers(shell, code)]


# ---- words and options ----------------------------------------------------------------------------------------------


def test_every_word_is_offered_with_its_help(shell: Any) -> None:
    offered = dict(answers(shell, "%kestrel |"))
    assert list(offered) == [f"%kestrel {name}" for name in COMMANDS]
    assert offered["%kestrel approve"] == "approve a question"


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        ("%kestrel inb|", ["%kestrel inbox"]),
        ("%kestrel  de|", ["%kestrel  decline"]),
        ("  %kestrel inb|", ["  %kestrel inbox"]),
        ("name = %kestrel sho|", ["name = %kestrel show"]),
        ("x = 1\n%kestrel inb|\ny = 2", ["x = 1\n%kestrel inbox\ny = 2"]),
        ("%%time\n%kestrel inb|", ["%%time\n%kestrel inbox"]),
        ("%kestrel \\\n inb|", ["%kestrel \\\n inbox"]),
        ("%kestrel use |", [f"%kestrel use {name}" for name in ("demo", *PREFIXES)]),
        ("%kestrel use ant|", ["%kestrel use anthropic:"]),
        ("%kestrel use openai|", ["%kestrel use openai:", "%kestrel use openai-responses:"]),
        ("%kestrel use 'dem|", ["%kestrel use 'demo'"]),
        ('%kestrel use "dem|"', ['%kestrel use "demo"']),
        ("%kestrel use demo |", []),
        ("%kestrel models o|", [f"%kestrel models {name}" for name in PROVIDERS if name.startswith("o")]),
        ("%kestrel models l|", ["%kestrel models local"]),
        ("%kestrel models openai |", []),
        ("%kestrel nonsense |", []),
        ("%kestrel approve --|", ["%kestrel approve --session"]),
        ("%kestrel approve --session |", []),
        ("%kestrel approve --session a|", []),
        ("%kestrel fix -|", ["%kestrel fix -m"]),
        ("%kestrel fix -m dem|", ["%kestrel fix -m demo"]),
        ("%kestrel fix it is odd -|", ["%kestrel fix it is odd -m"]),
        ("%kestrel fork copy |", ["%kestrel fork copy -s"]),
        ("%kestrel fork copy -s x -|", []),
        ("%kestrel help --mod|", ["%kestrel help --model"]),
        ("%kestrel -h dec|", ["%kestrel -h decline"]),
        ("%kestrel sh|ow", ["%kestrel showow"]),
        ("%%kestrel --he|", ["%%kestrel --headless", "%%kestrel --help"]),
        ("%%kestrel -|m", [f"%%kestrel {name}m" for option in OPTIONS for name in option.names]),
        ("# first\n\n%%kestrel --mo|", ["# first\n\n%%kestrel --model"]),
        ("%%kestrel -m |", [f"%%kestrel -m {name}" for name in ("demo", *PREFIXES)]),
        ("%%kestrel -m dem| -b\nhi", ["%%kestrel -m demo -b\nhi"]),
        ("%%kestrel --model=de|", ["%%kestrel --model=demo", "%%kestrel --model=deepseek:"]),
        ("%%kestrel --headless |", [f"%%kestrel --headless {word}" for word in ("deny", "approve", "fail")]),
        ("%%kestrel -o |", []),
        ("%%kestrel --max-steps |", []),
        ("%%kestrel -t gre|", ["%%kestrel -t grep"]),
        ("%%kestrel -t run_|", ["%%kestrel -t run_python"]),
        ("%%kestrel -t grep,gl|", ["%%kestrel -t grep,glob"]),
        ("%%kestrel -t 'grep, gl|", ["%%kestrel -t 'grep, glob"]),
        ("%%kestrel --tools=grep,gr|", []),
        ("%%kestrel -s |", []),
    ],
)
def test_h10_lines_complete(tab: Tab, typed: str, given: list[str]) -> None:
    assert tab(typed) == given


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        ("%kestrel re|", ["%kestrel rewind", "%kestrel record", "%kestrel replay"]),
        ("%kestrel record |", ["%kestrel record talk.jsonl", "%kestrel record off", "%kestrel record --auto"]),
        ("%kestrel record talk.jsonl |", ["%kestrel record talk.jsonl --auto"]),
        ("%kestrel replay |", ["%kestrel replay talk.jsonl", "%kestrel replay off"]),
        ("%%kestrel --rec|", ["%%kestrel --record"]),
        ("%%kestrel --replay |", ["%%kestrel --replay talk.jsonl"]),
        ("%%kestrel --record=t|", ["%%kestrel --record=talk.jsonl"]),
        ("%kestrel help rep|", ["%kestrel help replay"]),
    ],
)
def test_cassettes_complete(tab: Tab, folder: Path, typed: str, given: list[str]) -> None:
    (folder / "talk.jsonl").write_text("")
    assert tab(typed) == given


def test_an_option_is_offered_once_only(tab: Tab) -> None:
    offered = tab("%%kestrel -m demo --headless=deny -b |")
    names = {text.rsplit(" ", 1)[1] for text in offered}
    assert names.isdisjoint({"-m", "--model", "--headless", "-b", "--background"})
    assert {"-s", "--session", "-o", "-t", "--max-steps"} <= names


def test_every_source_in_the_tables_exists() -> None:
    specs = [spec for row in (*COMMANDS.values(), *OPTIONS) for spec in row.completes]
    names = {name for spec in specs for name in spec.split("|") if not name.startswith("=")}
    values = {
        name.split("=")[2]
        for spec in specs
        for name in spec.split("|")
        if name.startswith("=-") and name.count("=") == 2
    }
    assert names | values <= set(SOURCES)


# ---- what there is in this kernel -----------------------------------------------------------------------------------


async def test_variables_models_tools_sessions_and_questions(shell: Any, tab: Tab) -> None:
    @tool(permission="ask")
    def note(text: str) -> str:
        """Write a note.

        Args:
            text: what to write
        """
        return text

    app = Kestrel(model=ScriptedModel(["Fine."]), tools=[note])
    session = app.sessions.create(id="budget-2024")
    shell.user_ns.update(my_app=app, my_run=RunHandle(session), my_tool=note, _hidden=app, my_number=1)
    names = ("demo", *PREFIXES, "my_app", "my_tool")
    assert tab("%kestrel use |") == [f"%kestrel use {name}" for name in names]
    assert tab("%kestrel show |") == ["%kestrel show my_run"]
    assert tab("%%kestrel -t grep,my_|") == ["%%kestrel -t grep,my_tool"]
    state_of(shell).use_app(app)
    app.catalog.learn(ModelInfo(id="openai:gpt-9", provider="openai"))
    assert tab("%%kestrel -m openai:|") == ["%%kestrel -m openai:gpt-9", "%%kestrel -m openai:"]
    models = ["demo", "scripted", "openai:gpt-9", *PREFIXES]
    assert tab("%%kestrel -m |") == [f"%%kestrel -m {name}" for name in models]
    assert tab("%%kestrel -t no|") == ["%%kestrel -t note"]
    assert tab("%%kestrel -s bud|") == ["%%kestrel -s budget-2024"]
    assert tab("%kestrel rewind -s |") == ["%kestrel rewind -s budget-2024"]
    assert tab("%kestrel cancel |") == ["%kestrel cancel budget-2024"]
    await app.aclose()


class Asking:
    """A tool whose calls wait for an answer."""

    schema = ToolSchema(name="note", description="Write.", parameters={"type": "object"}, permission="ask")

    def execute(self, args: Any, context: Any) -> Any:
        raise AssertionError("nobody approved")


async def test_a_waiting_question_is_offered_by_its_short_name_and_its_id(shell: Any, tab: Tab) -> None:
    model = ScriptedModel([Reply(tool_calls=[("note", {})]), "Done."])
    async with Kestrel(model=model, tools=[Asking()]) as app:
        state_of(shell).use_app(app)
        asked = asyncio.Event()
        app.events.subscribe("approval.requested", lambda event: asked.set())
        session = app.sessions.create()
        run = session.start("go")
        async with asyncio.timeout(20):
            await asked.wait()
        (request,) = app.approvals.pending()
        offered = dict(answers(shell, "%kestrel approve |"))
        assert list(offered) == [f"%kestrel approve {word}" for word in ("a1", request.id, "--session")]
        assert offered["%kestrel approve a1"] == "note waits"
        assert tab("%kestrel decline a1|") == ["%kestrel decline a1"]
        assert tab(f"%kestrel decline {request.id[:9]}|") == [f"%kestrel decline {request.id}"]
        assert tab("%kestrel approve a1 |") == ["%kestrel approve a1 --session"]
        session.cancel()
        await run
        assert tab("%kestrel decline |") == []


def test_nothing_is_made_and_no_session_is_read_before_the_first_run(shell: Any, tab: Tab, folder: Path) -> None:
    store = folder.parent / "store"
    for code in ("%kestrel |", "%kestrel use |", "%%kestrel -s |", "%%kestrel -t |", "%kestrel approve |"):
        tab(code)
    assert not state_of(shell).has_app
    assert not store.exists()
    for number in range(1000):
        session = store / "sessions" / f"s{number:03}"
        session.mkdir(parents=True)
        (session / "session.json").write_text("this would be told, if it were read")
        os.utime(session, (number, number))
    (store / "sessions" / "a-file").write_text("")
    offered = tab("%%kestrel -s |")
    assert len(offered) == 200
    assert offered[0] == "%%kestrel -s s999"
    assert tab("%%kestrel -s s99|") == [f"%%kestrel -s s{number}" for number in range(999, 989, -1)]
    assert not state_of(shell).has_app


# ---- references in a request ----------------------------------------------------------------------------------------


class Loud:
    """An object whose every code would be heard."""

    heard: list[str] = []  # noqa: RUF012
    size = 3

    def __init__(self) -> None:
        self.inner = {"key": [1]}
        self._private = 1

    def method(self) -> None:
        """Not offered."""

    @property
    def computed(self) -> int:
        self.heard.append("computed")
        raise RuntimeError("computed")

    def __dir__(self) -> list[str]:
        self.heard.append("dir")
        raise RuntimeError("dir")

    def __getattr__(self, name: str) -> Any:
        self.heard.append(name)
        raise RuntimeError(name)

    def __getattribute__(self, name: str) -> Any:
        if name not in ("inner", "heard"):
            type(self).heard.append(name)
        return object.__getattribute__(self, name)

    def __repr__(self) -> str:
        raise RuntimeError("repr")


class Proxy:
    """Lies about its class, and keeps nothing in a dict."""

    __slots__ = ("slot",)

    @property
    def __class__(self) -> Any:
        Loud.heard.append("class")
        return Kestrel

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        Loud.heard.append("dict")
        return {"made_up": 1}


@pytest.fixture
def variables(shell: Any) -> dict[str, Any]:
    """The user's variables."""
    frame = pd.DataFrame({"price": [1], "product id": [2], "größe": [3], 7: [4]})
    proxy = Proxy()
    proxy.slot = frame
    Loud.heard.clear()
    shell.user_ns.update(
        frame=frame,
        orders={"key one": 1, 'say "hi"': 2, "frame": frame, 5: 6, "line\nbreak": 7},
        loud=Loud(),
        proxy=proxy,
        größe=1,
        rows=[{"x": 1}],
        _own=1,
    )
    return dict(shell.user_ns)


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        ("{fr|", ["{frame"]),
        ("{fr|} is", ["{frame} is"]),
        ("what is {|", [f"what is {{{name}" for name in ("frame", "größe", "loud", "orders", "proxy", "rows")]),
        ("é 😀😀 {gr|", ["é 😀😀 {größe"]),
        ("{frame} and {or|", ["{frame} and {orders"]),
        ("{frame.pri|", ["{frame.price"]),
        ("{frame.gr|", ["{frame.größe"]),
        ("{frame.sha|", ["{frame.shape"]),
        ("{frame.price.dty|", ["{frame.price.dtype", "{frame.price.dtypes"]),
        ('{frame["pro|', ['{frame["product id"]']),
        ("{frame['pro|']}", ["{frame['product id']}"]),
        ("{frame[|", [f'{{frame["{name}"]' for name in ("price", "product id", "größe")]),
        ('{orders["key|', ['{orders["key one"]']),
        ("{orders[|]}", [f"{{orders[{key}]}}" for key in ('"key one', '"say \\"hi\\"', '"frame')]),
        ("{orders['sa|", ["{orders['say \"hi\"']"]),
        ('{orders["frame"].pri|', ['{orders["frame"].price']),
        ('{rows[0]["|', ['{rows[0]["x"]']),
        ("{frame:|", [f"{{frame:{level}" for level in ("schema", "describe", "head 5", "full")]),
        ("{frame:he|", ["{frame:head 5"]),
        ("{orders[5]:f|", ["{orders[5]:full"]),
        ("{loud.|", ["{loud.computed", "{loud.heard", "{loud.inner", "{loud.size"]),
        ("{loud.inner[|", ['{loud.inner["key"]']),
        ("{loud.computed.|", []),
        ("{proxy.|", ["{proxy.slot"]),
        ("{proxy.slot.pri|", ["{proxy.slot.price"]),
        ("{nobody.|", []),
        ("{nobody:|", []),
        ("{pri|", []),
        ("{_o|", []),
        ("{{fr|", []),
        ("${fr|", []),
        ("{frame}.sha|", []),
    ],
)
def test_h10_references_complete(tab: Tab, variables: dict[str, Any], typed: str, given: list[str]) -> None:
    head = "%%kestrel -m demo\nFirst line.\n"
    assert tab(head + typed) == [head + text for text in given]
    assert Loud.heard == []


# ---- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        ("read s|", ["read src/"]),
        ("read src/|", ["read src/main.py", "read src/map.txt"]),
        ("read src/mai|, then", ["read src/main.py, then"]),
        ("see `src/mai|`", ["see `src/main.py`"]),
        ("(@dat|", ["(@data.csv"]),
        ('{"path": "dat|', ['{"path": "data.csv']),
        ("read my|", ['read "my plan.txt"']),
        ("read my pl|", ['read "my plan.txt"']),
        ('read "my pl|', ['read "my plan.txt"']),
        ('read "my pl|"', ['read "my plan.txt"']),
        ("read `my |", ["read `my plan.txt"]),
        ("notes (o|", ['"notes (old).md"']),
        ("read .|", ["read .hidden"]),
        ("read |", []),
        ("prin|", []),
        ("import o|", []),
        ("get_ipy|", []),
        ("../|", []),
        ("src/../../|", []),
        ("/|", []),
        ("~/|", []),
        ("nowhere/|", []),
        ("nul\0/|", []),
    ],
)
def test_h10_names_of_files_complete_in_a_request_and_nothing_of_pythons(
    tab: Tab, typed: str, given: list[str]
) -> None:
    assert tab(f"%%kestrel\n{typed}") == [f"%%kestrel\n{text}" for text in given]


def test_a_link_does_not_lead_out_of_the_folder(tab: Tab, folder: Path) -> None:
    (folder.parent / "outside.txt").write_text("")
    (folder / "out").symlink_to(folder.parent)
    assert tab("%%kestrel\nout/|") == []


def test_a_word_before_a_path_is_no_folder(tab: Tab, folder: Path) -> None:
    assert tab("%%kestrel\nread src/../dat|") == ["%%kestrel\nread src/../data.csv"]
    assert tab("%%kestrel\nread ./../dat|") == []


def test_names_that_no_code_can_say_are_not_offered(shell: Any, tab: Tab) -> None:
    shell.user_ns.update({"a b": 1, "": 2, "-m": 3, "%kestrel": 4, "\ud800": 5, "fine": 6})
    assert tab("%%kestrel\n{|") == ["%%kestrel\n{fine"]


def test_a_huge_folder_gives_a_bounded_list(tab: Tab, folder: Path) -> None:
    huge = folder / "huge"
    huge.mkdir()
    for number in range(3000):
        (huge / f"f{number:04}").touch()
    assert len(tab("%%kestrel\nhuge/|")) == 200


# ---- IPython's own --------------------------------------------------------------------------------------------------


def test_elsewhere_nothing_changes(shell: Any, variables: dict[str, Any]) -> None:
    shell.Completer.use_jedi = False
    places = ["fra|", "frame.pri|", "%%ti|", "%loa|", "", "%%bash\n%kestrel ap|", "'''\n%kestrel ap|", "%kestrels |"]
    places += ["# fra|\n%%kestrel\nhi", "print('''\n%%kestrel -|"]
    with_ours = [list(answers(shell, place or "|")) for place in places]
    tab_key.remove(shell)
    assert [list(answers(shell, place or "|")) for place in places] == with_ours


@pytest.mark.parametrize("jedi", [True, False])
def test_python_is_silent_in_ours_with_jedi_or_without(shell: Any, tab: Tab, jedi: bool) -> None:
    shell.Completer.use_jedi = jedi
    shell.user_ns["value"] = 1
    assert tab("%%kestrel\nval|") == []
    assert tab("%kestrel use val|") == []
    assert tab("%%kestrel val|") == []


@pytest.mark.filterwarnings("ignore:`Completer.complete`")  # IPython's own warning of its older question
def test_one_line_at_a_time(shell: Any) -> None:
    for line, answer in (
        ("%kestrel inb", ("inb", ["inbox"])),
        ("%%kestrel --model=dem", ("dem", ["demo"])),
        ("%%kestrel --max", ("--max", ["--max-steps"])),
    ):
        assert shell.complete("", line, len(line)) == answer


def test_the_terminal_shows_the_help_beside_the_offer(shell: Any) -> None:
    shell.min_elide = 30
    text = "%%kestrel\n😀 about {val"
    shell.user_ns["value_added"] = 1
    terminal = IPythonPTCompleter(shell=shell)
    (found,) = terminal.get_completions(Document(text, len(text)), CompleteEvent())
    assert (found.text, found.start_position, found.display_meta_text) == ("value_added", -3, "int")
    line = "%kestrel inb"
    (found,) = terminal.get_completions(Document(line, len(line)), CompleteEvent())
    assert (found.text, found.start_position, found.display_meta_text) == (
        "inbox",
        -3,
        "the questions that wait for an answer",
    )


def test_installing_twice_and_removing_twice(shell: Any) -> None:
    tab_key.install(shell)
    assert len(shell.Completer.custom_matchers) == 1
    tab_key.remove(shell)
    tab_key.remove(shell)
    assert shell.Completer.custom_matchers == []


def test_no_trace_of_what_goes_wrong(
    shell: Any, tab: Tab, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    gone = folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert tab("%%kestrel\ns|") == []
    shell.user_ns[3] = shell.user_ns["\ud800"] = object()
    tab("%%kestrel\n{|")
    tab("%%kestrel 'never closed |")
    tab("%kestrel \\\n|")
    assert capfd.readouterr() == ("", "")


# ---- help -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("approve", "%kestrel approve ID [--session]\n    approve a question"),
        ("--model", "%%kestrel -m, --model ID\n    the model of this run"),
        ("-m", "%%kestrel -m, --model ID\n    the model of this run"),
        ("headless", "%%kestrel --headless POLICY\n    ask nobody: deny, approve or fail"),
    ],
)
def test_help_of_a_word_or_an_option(word: str, says: str) -> None:
    assert help_for(word, COMMANDS) == says


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("aprove", "did you mean %kestrel approve?"),
        ("--modle", "did you mean --model?"),
        ("-q", "options: -m, --model"),
        ("xyzzy", "there are: use, models"),
    ],
)
def test_help_names_the_nearest(word: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        help_for(word, COMMANDS)
    assert says in str(caught.value)


@pytest.mark.parametrize("magic", ["%%kestrel", "%kestrel"])
def test_docs_have_every_option_and_word(magic: str) -> None:
    text = docs(magic, COMMANDS)
    for row in (*COMMANDS.values(), *OPTIONS):
        assert row.help in " ".join(text.split())
