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
        ("%kestrel approve a9", "nothing waits"),
        ("%kestrel approve", "%kestrel inbox lists the questions"),
        ("%kestrel models now", "usage: %kestrel models"),
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
