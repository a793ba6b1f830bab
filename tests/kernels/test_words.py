"""What a person types at ``%%kestrel`` and ``%kestrel``: mistakes are one line each, and a prompt is sent as typed."""

from collections.abc import Iterator

import pytest
from harness import Kernel, running_kernel
from sample_cells import LOAD

H01 = "explain: print({'foo': 'bar'}); {v: k for k, v in d.items()}; f\"{x!r:>{w}}\"; ${HOME}; {{x}}; 100%"
SCRIPTED = """from kestrel_nb import Kestrel
from kestrel_nb.testing import ScriptedModel
model = ScriptedModel(["Fine."] * 50)
app = Kestrel(model=model)
%kestrel use app"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """One kernel for all: a mistake leaves it usable, which is part of what is tested."""
    with running_kernel(tmp_path_factory.mktemp("words")) as running:
        running.ok(LOAD, 60)
        running.ok(SCRIPTED)
        yield running


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("%%kestrel", "the cell has no request"),
        ("%%kestrel\n   \n\t\n", "the cell has no request"),
        ("%%kestrel --modle x\nhi", "unknown option --modle; did you mean --model?"),
        ("%%kestrel --frobnicate\nhi", "options: -m, --model"),
        ("%%kestrel hello\nhi", "the request itself goes below the %%kestrel line"),
        ("%%kestrel -m\nhi", "-m needs a value: -m ID"),
        ("%%kestrel -m scripte\nhi", 'did you mean "scripted"?'),
        ("%%kestrel -t grpe\nhi", 'did you mean "grep"?'),
        ("%%kestrel -o 1x\nhi", "-o needs a name for a variable"),
        ("%%kestrel -s a/b\nhi", "a session name has letters"),
        ("%%kestrel --max-steps 0\nhi", "--max-steps needs a whole number from 1 on"),
        ("%%kestrel --headless maybe\nhi", "--headless is one of deny, approve, fail"),
        ("%%kestrel -o 'x\nhi", "a quote is not closed"),
        ("%kestrel", "%kestrel needs a word"),
        ("%kestrel shwo", "did you mean %kestrel show?"),
        ("%kestrel show nope", 'no variable "nope" holds a run'),
        ("%kestrel cancel nope", 'no session "nope"; there are: '),
        ("%kestrel use nope", 'no model "nope"'),
        (
            "frame = __import__('pandas').DataFrame()\n%kestrel use frame",
            "frame is a DataFrame, neither a Kestrel, a model",
        ),
        ("number = 3\n%kestrel use number", "number is an int, neither a Kestrel, a model nor a tool; models: demo"),
        ("class Kind: pass\n%kestrel use Kind", '"Kind" is a class; put an object of it into a variable'),
        ("%kestrel approve a9", "nothing waits"),
        ("%kestrel approve", "%kestrel inbox lists the questions"),
        ("%kestrel models openai now", "usage: %kestrel models [PROVIDER]"),
        ("%kestrel models opnai", 'no provider "opnai"; did you mean "openai"?'),
        ("%kestrel models openai+ftp://x", "names no server"),
        ("%kestrel use antropic:x", 'no provider "antropic"; did you mean "anthropic:x"?'),
        ("%kestrel use gpt-4o", 'no model "gpt-4o"; did you mean "openai:gpt-4o"?'),
        ("%%kestrel -m openai:\nhi", "lacks the name of a model; it is openai:MODEL"),
        ("%%kestrel -m antropic:x\nhi", 'did you mean "anthropic:x"?'),
        ("if True:\n    %kestrel inbox", "put it at the left margin"),
    ],
)
def test_h03_a_mistake_is_one_line_and_sends_nothing(kernel: Kernel, cell: str, says: str) -> None:
    outcome = kernel.run(cell)
    assert outcome.status == "error"
    assert says in outcome.text
    assert len(outcome.text.strip().splitlines()) == 1
    assert "Traceback" not in outcome.text
    assert kernel.ok("print([m.content for r in model.requests for m in r.messages].count('hi'))").text == "0\n"


@pytest.mark.parametrize(
    "prompt", [H01, "{", "}}{{", "%kestrel help", "# a\n\n  b\n", "'\"\\n\\", "🦅 \u202e {a}", "\\N{BULLET} {1+1}"]
)
def test_h01_a_prompt_arrives_byte_for_byte(kernel: Kernel, prompt: str) -> None:
    kernel.ok(f"%%kestrel\n{prompt}\n")
    arrived = kernel.ok("print(repr([m.content for m in model.requests[-1].messages if m.role == 'user'][-1]))").text
    assert arrived.strip() == repr(prompt)


def test_leading_blank_lines_and_comments_of_other_cells(kernel: Kernel) -> None:
    assert "Fine." in kernel.ok("\n\n%%kestrel\nhello").displayed[0]["text/plain"]
    assert kernel.ok('text = """\n%kestrel nonsense\n"""\nprint(len(text))').text == "19\n"
    assert kernel.ok("box = %kestrel inbox\nprint(box)").text == "Nothing waits\n"


def test_without_autoawait_it_says_what_to_do(kernel: Kernel) -> None:
    kernel.ok("%autoawait off")
    outcome = kernel.run("%%kestrel\nhello")
    kernel.ok("%autoawait on")
    assert outcome.status == "error"
    assert "with %autoawait on" in outcome.text
    assert kernel.ok("%%kestrel\nhello").displayed


def test_sessions_options_and_handles(kernel: Kernel) -> None:
    kernel.ok("%%kestrel -s one -o first\nhello one")
    kernel.ok("%%kestrel -s one -t grep,read_file\nhello again")
    said = kernel.ok(
        "print(first.status, first.text, _.session is first.session, [t.name for t in model.requests[-1].tools])"
    )
    assert said.text == "completed Fine. True ['grep', 'read_file']\n"
    assert "one" in kernel.ok("frame = %kestrel sessions\nprint(list(frame['session']))").text
    kernel.ok("%kestrel new two")
    kernel.ok("%%kestrel\nhello two")
    assert kernel.ok("print(_.session.id, len(_.messages))").text == "two 2\n"
    shown = kernel.ok("%kestrel show first")
    assert shown.displayed[0] == kernel.ok("display(first)\n").displayed[0]
    assert kernel.ok("print(first)").text == "<kestrel run: completed>\n"


def test_help_names_every_word(kernel: Kernel) -> None:
    text = kernel.ok("help_ = %kestrel help\nprint(help_)").text
    words = ["use", "models", "tools", "sessions", "new", "show", "cancel", "inbox", "approve", "decline", "help"]
    assert all(f"\n    {word}" in text for word in words)
    assert "usage" not in kernel.ok("one = %kestrel help approve\nprint(one)").text
    assert "approve a question" in kernel.ok("print(one)").text


OWN_MODEL = """from kestrel_nb import CompletionResponse, ModelInfo
class Echo:
    info = ModelInfo(id="echo", provider="mine")
    def __init__(self, word): self.word = word
    async def generate(self, request, on_delta=None):
        tools = [tool.name for tool in request.tools]
        return CompletionResponse(content=f"{self.word}: {request.messages[-1].content}, {tools}")
"""


def test_a_model_of_the_users_works_with_the_notebooks_tools(kernel: Kernel) -> None:
    kernel.ok("%unload_ext kestrel_nb")
    kernel.ok(LOAD)
    kernel.ok("%%kestrel -s earlier\nlist the files")
    kernel.ok("%kestrel new")
    kernel.ok(OWN_MODEL + "echo = Echo('first')")
    assert kernel.ok("%kestrel use echo").displayed[0]["text/plain"] == "The model is echo now."
    kernel.ok("%%kestrel -o run\nhello")
    said = kernel.ok("print(run.text)").text
    assert said.startswith("first: hello, [")
    assert "'run_python'" in said
    kernel.ok("echo = Echo('second')\n%kestrel use echo")
    assert kernel.ok("%%kestrel -o run\nhello\n").status == "ok"
    assert kernel.ok("print(run.text)").text.startswith("second: hello")
    kernel.ok("models = %kestrel models")
    assert kernel.ok("print(list(models.model[models.current]))").text == "['echo']\n"
    assert "The model is demo now." in kernel.ok("%kestrel use demo").displayed[0]["text/plain"]
    kernel.ok(SCRIPTED)


def test_use_and_new_say_what_is_used_now(kernel: Kernel) -> None:
    used = kernel.ok("%kestrel use app").displayed[0]["text/plain"]
    assert used == "Cells work with app now, in a new session; its model is scripted."
    assert kernel.ok("%kestrel new").displayed[0]["text/plain"] == "Cells go on in a new session."
    assert kernel.ok("%kestrel new named").displayed[0]["text/plain"] == "Cells go on in a new session, named."
    kernel.ok("from kestrel_nb import tool\n@tool\ndef own() -> str:\n    'Own.'\n    return ''")
    assert kernel.ok("%kestrel use own").displayed[0]["text/plain"] == "The tool own is offered now."


LOOKING = ("models", "tools", "sessions", "usage", "inbox", "policy", "policy explain grep pattern=x", "doctor", "help")


def test_looking_makes_no_session(kernel: Kernel) -> None:
    kernel.ok("app = Kestrel(model=model)\n%kestrel use app")
    for word in LOOKING:
        kernel.ok(f"%kestrel {word}")
    for word in ("history", "approvals", "rewind", "fork"):
        assert "no session yet; a %%kestrel cell begins one" in kernel.run(f"%kestrel {word}").text
    assert kernel.ok("%kestrel cancel").displayed[0]["text/plain"] == "nothing is running there"
    kernel.ok("%kestrel policy add shell deny 'git push'")
    assert "Removed" in kernel.ok("%kestrel policy remove 1").displayed[0]["text/plain"]
    kernel.ok("%kestrel policy careful")
    back = kernel.ok("%kestrel policy default").displayed[0]["text/plain"]
    assert back == "No longer careful in this notebook."
    assert kernel.ok("print(app.sessions.list())").text == "[]\n"


def test_a_waiting_word_in_the_cell_that_loads_is_told_where_it_goes(kernel: Kernel) -> None:
    kernel.ok("%unload_ext kestrel_nb")
    outcome = kernel.run(f"{LOAD}\n%kestrel inbox")
    assert "%kestrel inbox can't wait in the cell that loads the extension: run it in a cell after" in outcome.text
    assert "Nothing waits" in kernel.ok("%kestrel inbox").displayed[0]["text/plain"]
    assert "put it at the left margin" in kernel.run("if True:\n    %kestrel inbox").text
    kernel.ok(SCRIPTED)
