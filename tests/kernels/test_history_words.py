"""The words about what was said, used and decided, and those that go back or on: for this kernel and earlier ones."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import Kernel, running_kernel
from sample_cells import LOAD, calling, setup

DEMO = "%%kestrel -s sales\nlist the files"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """One kernel; each test begins a session of its own."""
    with running_kernel(tmp_path_factory.mktemp("history")) as running:
        running.ok(LOAD, 60)
        replies = [calling("note", text="alpha"), "'Noted.'", *(f"'Answer {n}.'" for n in range(60))]
        running.ok(setup(*replies))
        yield running


def new(kernel: Kernel, name: str, *requests: str) -> None:
    kernel.ok(f"%kestrel new {name}")
    for request in requests:
        kernel.ok(f"%%kestrel -o run --headless approve\n{request}")


def value(kernel: Kernel, line: str, show: str) -> str:
    """What ``show`` prints of ``it``, the value of a line."""
    return kernel.ok(f"it = %kestrel {line}\nprint({show})").text.removesuffix("\n")


def test_history_numbers_the_turns_and_shows_well(kernel: Kernel) -> None:
    new(kernel, "talk", "note it", "say more")
    assert value(kernel, "history", "list(it.columns)[:6]") == "['turn', 'role', 'text', 'calls', 'tool', 'is_error']"
    assert value(kernel, "history", "it.columns[-1]") == "id"
    assert value(kernel, "history", "list(it['turn']), it['turn'].dtype") == "[1, 1, 1, 1, 2, 2] int64"
    assert value(kernel, "history", "list(it['text'])[-2]") == "say more"
    assert value(kernel, "history talk", "len(it)") == "6"
    shown = kernel.ok("%kestrel history").displayed[0]
    assert "<table" in shown["text/html"]


def test_an_empty_session_has_empty_tables(kernel: Kernel) -> None:
    new(kernel, "empty")
    assert value(kernel, "history", "it.shape[0], it['turn'].dtype") == "0 int64"
    assert value(kernel, "approvals", "len(it)") == "0"
    assert value(kernel, "usage", "list(it['what'])[-1], it['total_tokens'].dtype") == "total int64"


def test_usage_counts_runs_sessions_and_all(kernel: Kernel) -> None:
    new(kernel, "counted", "one", "two")
    assert value(kernel, "usage counted", "list(it['what'])") == "['run', 'run', 'session']"
    assert value(kernel, "usage counted", "list(it['name'])") == "['one', 'two', 'one']"
    sums = "it['total_tokens'][:2].sum() == it['total_tokens'][2], it['cost'].isna().all()"
    assert value(kernel, "usage counted", sums) == "True True"
    total = "it['total_tokens'][it['what'] == 'session'].sum() == it['total_tokens'].iloc[-1]"
    assert value(kernel, "usage", f"{total}, it['what'].iloc[-1], it['cost'].isna().iloc[-1]") == "True total True"


def test_events_of_the_last_run_and_of_a_variable(kernel: Kernel) -> None:
    new(kernel, "heard", "one")
    kernel.ok("first = run")
    new(kernel, "heard2", "two")
    assert value(kernel, "events", "list(it.columns)[:4], it['session_id'][0]").endswith("heard2")
    assert value(kernel, "events first", "it['session_id'][0], it['type'].iloc[-1]") == "heard run.completed"


def test_approvals_say_who_decided_what(kernel: Kernel) -> None:
    assert value(kernel, "approvals talk", "list(it['decision']), list(it['who']), list(it['tool'])") == (
        "['approved'] ['policy'] ['note']"
    )


def test_rewind_takes_back_the_last_turn_and_shows_it(kernel: Kernel) -> None:
    typed = "  second <b>line</b>\n\nof {text}"
    new(kernel, "back", "first", typed, "third")
    shown = kernel.ok("%kestrel rewind").displayed[0]
    assert "Took back turn 3: 2 messages." in shown["text/plain"]
    assert "Left in the session: 2 turns, 4 messages. Files stay as they are" in shown["text/plain"]
    assert "third" in shown["text/html"]
    assert value(kernel, "rewind", "repr(it.request), it.requests == (it.request,)") == f"{typed!r} True"
    new(kernel, "back2", typed)
    html = kernel.ok("%kestrel rewind").displayed[0]["text/html"]
    assert "<b>line</b>" not in html
    assert "&lt;b&gt;line&lt;/b&gt;" in html
    assert "Nothing is left" in html


def test_a_request_comes_back_as_typed_and_discloses_no_more(kernel: Kernel) -> None:
    kernel.ok("import pandas as pd\ncities = pd.DataFrame({'name': ['Bergen', 'Turku']})")
    new(kernel, "filled", "look at {cities:full}")
    assert value(kernel, "history", "'Bergen' in it['text'][0], run.session.metadata['disclosed']") == (
        "True {'cities': 'full'}"
    )
    assert value(kernel, "usage filled", "it['name'][0]") == "look at {cities:full}"
    assert value(kernel, "fork", "'a copy' in str(it)") == "True"
    assert value(kernel, "rewind", "it.request") == "look at {cities:full}"
    assert value(kernel, "rewind -s filled", "it.request, run.session.metadata") == "look at {cities:full} {}"


def test_rewind_to_a_turn_or_a_message(kernel: Kernel) -> None:
    new(kernel, "deep", "first", "second", "third", "fourth")
    kernel.ok("h = %kestrel history")
    kernel.ok("from IPython import get_ipython\nid_ = h['id'][4]")
    assert value(kernel, "rewind 4", "it.turn, it.removed, it.left") == "4 2 6"
    found = kernel.ok("it = await __import__('kestrel_nb.notebook.commands', fromlist=['x']).run_line(f'rewind {id_}')")
    assert found.status == "ok"
    assert kernel.ok("print(it.turn, it.requests, it.left)").text == "3 ('third',) 4\n"
    assert value(kernel, "rewind 1", "it.requests, it.left") == "('first', 'second') 0"
    kernel.ok("%%kestrel\nagain")
    assert value(kernel, "history", "list(it['text'])[0], list(it['turn'])") == "again [1, 1]"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("rewind 3", 'no turn "3"; there are turns 1 to 2, see %kestrel history'),
        ("rewind 0", 'no turn "0"'),
        ("rewind -1", 'no turn "-1"'),
        ("rewind ²", 'no turn "²"'),
        ("rewind " + "9" * 40, 'no turn "999'),
        ("rewind 1 2", "usage: %kestrel rewind [TURN] [-s SESSION]"),
        ("rewind -s", "-s needs a value"),
        ("rewind -s nope", 'no session "nope"'),
        ("fork wrong", 'there is a session "wrong" already; go on with it by %%kestrel -s wrong'),
        ("fork a/b", "can't be an id"),
        ("fork --titel", "no option --titel; usage: %kestrel fork"),
        ("new --titel", 'a session name does not begin with "-"'),
        ("history nope", 'no session "nope"'),
        ("usage nope", 'no session "nope"'),
        ("events nope", 'no variable "nope" holds a run; these do: '),
        ("events notes", 'no variable "notes" holds a run'),
    ],
)
def test_mistakes_are_one_line_and_change_nothing(kernel: Kernel, line: str, says: str) -> None:
    if "wrong" not in kernel.ok("s = %kestrel sessions\nprint(list(s['session']))").text:
        new(kernel, "wrong", "first", "second")
    outcome = kernel.run(f"%kestrel {line}")
    assert outcome.status == "error"
    assert says in outcome.text
    assert len(outcome.text.strip().splitlines()) == 1
    assert value(kernel, "history wrong", "len(it)") == "4"


def test_fork_goes_on_in_a_copy_and_leaves_the_other(kernel: Kernel) -> None:
    new(kernel, "trunk", "first")
    assert value(kernel, "fork", "it") == (
        'Cells go on in "first (fork)", a copy with 2 messages. The session it was made from stays as it is.'
    )
    kernel.ok("%%kestrel\nin the copy")
    assert value(kernel, "history", "len(it)") == "4"
    assert value(kernel, "history trunk", "len(it)") == "2"
    assert "session branch, a copy with 2 messages" in value(kernel, "fork branch -s trunk", "it")
    kernel.ok("%%kestrel\nin the branch")
    assert kernel.ok("print(_.session.id, [m.content for m in _.messages][::2])").text == (
        "branch ['first', 'in the branch']\n"
    )
    assert value(kernel, "usage branch", "list(it['what'])") == "['run', 'session']"


def test_sessions_say_when_and_where_the_newest_first(kernel: Kernel) -> None:
    new(kernel, "newest", "first")
    assert value(kernel, "sessions", "it['session'][0], it['updated'].is_monotonic_decreasing") == "newest True"
    when = "str(it['updated'].dtype).endswith('UTC]'), abs((pd.Timestamp.now('UTC') - it['updated'][0]).seconds) < 60"
    kernel.ok("import os, pandas as pd")
    assert value(kernel, "sessions", when) == "True True"
    assert value(kernel, "sessions", "set(it['workspace']) == {os.getcwd()}") == "True"


def test_while_it_runs_and_after_a_restart(tmp_path: Path) -> None:
    with running_kernel(tmp_path) as kernel:
        kernel.ok(LOAD, 60)
        kernel.ok(DEMO)
        kernel.ok("%%kestrel -s sales\nlist the files")
        kernel.ok(
            "from kestrel_nb.notebook.state import current\nimport asyncio\nsession = current().find_session('sales')"
        )
        kernel.ok(
            "from kestrel_nb import tool\n@tool\nasync def slow() -> str:\n    await asyncio.sleep(60)\n    return ''"
        )
        kernel.execute("%%kestrel -s sales -b -t slow\nuse slow", allow_stdin=True)
        kernel.ok(
            "async with asyncio.timeout(20):\n    while not session.is_running:\n        await asyncio.sleep(0.02)"
        )
        for word in ("rewind", "fork"):
            outcome = kernel.run(f"%kestrel {word} -s sales")
            assert "the session is running" in outcome.text
            assert "%kestrel cancel" in outcome.text
        kernel.ok("%kestrel cancel sales")
        kernel.restart()
        kernel.ok(LOAD, 60)
        assert value(kernel, "history sales", "it['turn'].max()") == "3"
        assert value(kernel, "usage sales", "list(it['what'])") == "['session']"
        assert "no run yet" in kernel.run("%kestrel events").text
        assert "no session yet" in kernel.run("%kestrel rewind").text
        assert value(kernel, "rewind -s sales", "it.request") == "use slow"
        assert value(kernel, "rewind 2 -s sales", "it.turn, it.request") == "2 list the files"
        assert "session copy" in value(kernel, "fork copy -s sales", "it")
        kernel.kill()
        kernel.restart()
        kernel.ok(LOAD, 60)
        kernel.ok("%%kestrel -s copy\nlist the files")
        assert value(kernel, "history copy", "it['turn'].max()") == "2"
        assert value(kernel, "history sales", "it['turn'].max()") == "1"
