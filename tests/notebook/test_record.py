"""Golden records: what stays in the notebook, for each way in which a run and a question can end."""

from __future__ import annotations

import re
from typing import Any

import pytest
from active_content import active, shown
from sample_events import (
    AT,
    EDIT,
    ROWS,
    SHELL,
    answered,
    asked,
    call,
    ended,
    make,
    play,
    ran,
    request,
    said,
    started,
)

from kestrel_nb.notebook import view_state
from kestrel_nb.notebook.record import render
from kestrel_nb.protocol import events as ev
from kestrel_nb.protocol.messages import new_id
from kestrel_nb.protocol.sessions import AnsweredBy, Usage
from kestrel_nb.protocol.tools import DiffPreview, TodoItem


def plain(events: list[ev.SessionEvent], **options: Any) -> str:
    return render(play(events, **options))["text/plain"]


def decision(by: AnsweredBy, *, stable: bool = False, **answer: Any) -> str:
    """The line about who decided."""
    events = [*started(), *asked(SHELL), *answered(SHELL, by, **answer), *ended()]
    lines = render(play(events, stable=stable))["text/markdown"].split("\n\n")
    return next(line for line in lines if line.startswith(("**Approved", "**Declined")))


GREP = [*call("grep", {"pattern": r"time\.sleep", "glob": "src/**"}), *ran("grep", "x", {"matches": ROWS})]


def test_a_finished_run_with_a_table() -> None:
    state = play([*started(), *said("I will *look*."), *GREP, *said("Done.", "m2"), *ended()])
    bundle = render(state)
    assert bundle["text/plain"] == (
        "Finished · openai:gpt-5-mini · 2 steps · 14 s · 3,482 tokens · $0.004\n"
        "I will *look*.\n"
        'grep pattern="time\\.sleep" glob="src/**" · 2 matches · done · 0.04 s\n'
        "       path          line  text\n"
        "    0  src/fetch.py    41      resp = requests.get(url)\n"
        "    1  src/poll.py     12          time.sleep(1)\n"
        '2 rows × 3 columns · _.frames["grep"]\n'
        "Done."
    )
    assert bundle["text/markdown"].startswith(
        "**Finished** · openai:gpt-5-mini · 2 steps · 14 s · 3,482 tokens · &#36;0.004\n\nI will *look*.\n\n"
        '**grep** `pattern="time\\.sleep" glob="src/**"` · 2 matches · done · 0.04 s\n\n'
        "|  | path | line | text |\n| -: | - | -: | - |\n| 0 | src/fetch.py | 41 |"
    )
    html = bundle["text/html"]
    body = html.split("</style>")[1]
    assert body.startswith('\n<div class="kestrel-view kestrel-run kestrel-record')
    assert '<details class="kestrel-tool" data-state="done" open><summary class="kestrel-row">' in body
    head = '<table class="kestrel-table" border="1" cellpadding="4"><thead><tr><td></td><th class="kestrel-t">path</th>'
    assert f"{head}<th>line" in body
    assert shown(body).strip().split("\n")[0] == "Finished · openai:gpt-5-mini · 2 steps · 14 s · 3,482 tokens · $0.004"


@pytest.mark.parametrize(
    ("by", "answer", "line"),
    [
        ("button", {"approved": True}, "**Approved** by you with the button."),
        (
            "button",
            {"approved": True, "remember": "session"},
            "**Approved** by you with the button, for this session: `shell: auto`.",
        ),
        (
            "command",
            {"approved": True, "arguments": {"command": "ls"}},
            "**Approved with changes** by you with `%kestrel approve`; changed: `command`.",
        ),
        (
            "button",
            {"approved": False, "reason": "I do it."},
            "**Declined** by you with the button. Reason: “I do it.”",
        ),
        ("stdin", {"approved": True}, "**Approved** by you at the prompt."),
        ("code", {"approved": True}, "**Approved** by code."),
        ("http", {"approved": False}, "**Declined** over HTTP."),
        ("rule", {"approved": False}, "**Declined** by a rule."),
        ("policy", {"approved": False}, "**Declined** by the policy for notebooks that run without a person (`deny`)."),
        (
            "policy",
            {"approved": True, "reason": "approve"},
            "**Approved** by the policy for notebooks that run without a person (`approve`).",
        ),
        (
            "policy",
            {"approved": False, "reason": "fail"},
            "**Declined** by the policy for notebooks that run without a person (`fail`).",
        ),
        (
            "timeout",
            {"approved": False, "reason": "no answer within 15 minutes"},
            "**Declined** because nobody answered within 15 minutes.",
        ),
        ("cancel", {"approved": False}, "**Declined** by the interrupt; nobody had answered yet."),
        (
            "cancel",
            {"approved": False, "reason": "a new message came before anybody answered"},
            "**Declined** because a new message came before anybody answered.",
        ),
    ],
)
def test_who_decided(by: AnsweredBy, answer: dict[str, Any], line: str) -> None:
    assert decision(by, **answer) == line


@pytest.mark.parametrize("by", ["button", "stdin", "command", "code", "http", "cassette"])
def test_a_stable_record_does_not_name_who_answered(by: AnsweredBy) -> None:
    assert decision(by, stable=True, approved=False) == "**Declined**."
    assert decision("policy", stable=True, approved=False).endswith("(`deny`).")
    assert "nobody answered" in decision("timeout", stable=True, approved=False)


def test_a_decision_stands_below_its_row() -> None:
    events = [*started(), *asked(SHELL), *answered(SHELL, "button", approved=True), *call("shell", SHELL.arguments)]
    events += [*ran("shell", "4 passed", {"exit_code": 0}, duration_ms=6_200), *asked(EDIT)]
    events += [*answered(EDIT, "button", approved=False, reason="no"), *ended()]
    assert plain(events).split("\n")[1:] == [
        "shell pytest -q tests/test_fetch.py · exit code 0 · done · 6.2 s",
        "    4 passed",
        "Approved by you with the button.",
        'edit_file path="src/poll.py" · by you · declined',
        "    @@ -11,3 +11,3 @@",
        "     while not self.done:",
        "    -    time.sleep(1)",
        "    +    await asyncio.sleep(1)",
        "     done",
        "Not run.",
        "Declined by you with the button. Reason: “no”",
    ]


def test_a_failed_run() -> None:
    message = "No answer from http://localhost:11434. Start Ollama, or choose another model with %kestrel use."
    retry = [
        make(ev.Notice, level="info", code="retry", text=f"Trying again in 1 s, attempt {n} of 5.") for n in range(2, 6)
    ]
    events = [
        *started("ollama:qwen3:4b"),
        *retry,
        make(ev.RunFailed, code="MODEL_UNREACHABLE", message=message, at=AT + 3),
    ]
    assert plain(events).split("\n") == [
        "Failed · ollama:qwen3:4b · 1 step · 3 s",
        "No answer from http://localhost:11434 (MODEL_UNREACHABLE, tried 5 times).",
        "Start Ollama, or choose another model with %kestrel use.",
    ]


def cancelled() -> list[ev.SessionEvent]:
    events = [*started(), *call("shell", {"command": "pytest"}), *asked(EDIT)]
    events += answered(EDIT, "cancel", approved=False, reason="the run was stopped")
    events += [
        make(ev.ToolSkipped, call_id=f"call_{n}", tool="x", reason="stopped", cause="cancelled") for n in (1, 2, 3)
    ]
    return [*events, *ended("cancelled")]


def test_an_interrupted_run() -> None:
    text = plain(cancelled())
    assert text.startswith("Interrupted · openai:gpt-5-mini · step 2 · ")
    assert "shell pytest · cancelled" in text
    assert 'edit_file path="src/poll.py" · the run was interrupted · not run' in text
    assert "Declined by the interrupt; nobody had answered yet." in text
    assert "x · the run was interrupted · not run" in text


def test_a_stopped_run() -> None:
    text = render(view_state.stopped(play(cancelled())))["text/plain"]
    assert text.startswith("Stopped · ")
    assert "Declined because the run was stopped; nobody had answered yet." in text


def test_a_call_that_was_not_run() -> None:
    events = [
        *started(),
        make(
            ev.ToolSkipped,
            call_id="c",
            tool="t",
            reason="not run: the run was finished",
            cause="not_run",
            arguments={"path": "N"},
        ),
    ]
    assert "t N · the run was finished · not run" in plain([*events, *ended()])


def test_a_denied_call_names_policy_or_rule() -> None:
    def skipped(reason: str) -> str:
        return plain([*started(), make(ev.ToolSkipped, call_id="c", tool="t", reason=reason, cause="denied"), *ended()])

    assert "Declined by the policy (deny)." in skipped("not run: denied by the tool policy")
    assert "Declined by a rule." in skipped("not run: denied by the rule shell: deny")


def test_a_run_without_its_last_event_is_closed() -> None:
    state = view_state.close(play([*started(), *said("x"), *call("t", {}), *asked(EDIT)]))
    assert state["status"] == "cancelled"
    assert not any(block.get("card") for block in state["blocks"])
    failed = view_state.close(play(started()), error="boom", code="x")
    assert "boom (x)." in render(failed)["text/plain"]


def test_a_stable_record_is_the_same_for_every_user(monkeypatch: pytest.MonkeyPatch) -> None:
    def record(home: str, store: str, temporary: str) -> dict[str, str]:
        monkeypatch.setenv("HOME", home)
        monkeypatch.setenv("KESTREL_HOME", store)
        monkeypatch.setattr("tempfile.gettempdir", lambda: temporary)
        paths = (home, f"{home}/x/y.txt", f"PATH={home}/bin:{home}/.local/bin", temporary, f"{temporary}/t/z")
        kept = f"{store}/sessions/{new_id('sess')}/data/x.json"
        events = [make(ev.Notice, level="info", code="n", text=" and ".join((*paths, kept)))]
        if home == "/home/a":
            events.append(make(ev.Notice, level="warning", code="played_otherwise", text="not here"))
        return render(play([*events, *ended()], stable=True, workspace=f"{home}/w"))

    first = record("/home/a", "/home/a/.local/share/kestrel-nb", "/tmp")
    assert record("/data/users/some-b", "/data/users/some-b/w/store", "/scratch/t") == first


def test_a_stable_record_has_nothing_that_changes() -> None:
    def at(shift: float) -> dict[str, str]:
        asking = request("shell", {"command": f"ls /home/me{shift}/ws/a.txt /tmp/x{shift}/b.txt"}, at=AT + shift)
        events: list[ev.SessionEvent] = [
            make(ev.RunStarted, at=AT + shift, model="demo", input="x"),
            make(ev.StepStarted, step=1),
            *asked(asking),
            *answered(asking, "button" if shift else "code", approved=True),
            *call("shell", asking.arguments, "call_1"),
            *ran("shell", f"/home/me{shift}/ws/a.txt: ok", {"exit_code": 0}, duration_ms=9 + shift),
            *said(f"It is in `/home/me{shift}/ws/a.txt`, see https://e.test/tmp/x/y.", f"m{shift}"),
            make(ev.UsageUpdated, usage=Usage(input_tokens=5 + int(shift)), cost=0.1 * shift),
            make(ev.RunCompleted, at=AT + 2 * shift, status="completed", usage=Usage(input_tokens=int(shift)), steps=2),
        ]
        return render(play(events, stable=True, workspace=f"/home/me{shift}/ws"))

    assert at(0.0) == at(7.0)
    text = at(7.0)["text/plain"]
    assert text.startswith("Finished · demo (a rule model, no AI) · 2 steps\n")
    assert "shell ls a.txt …/b.txt · exit code 0 · done\n" in text
    assert "https://e.test/tmp/x/y" in text


def test_what_was_sent_is_listed_row_by_row() -> None:
    rows = [
        {
            "variable": "rain",
            "type": "DataFrame, 120 × 4",
            "disclosed": "schema and 5 rows",
            "values": 20,
            "characters": 1688,
        },
        {
            "variable": 'd["<b>|`x`\n\u202e"]' + "k" * 500,
            "type": "str",
            "disclosed": "its value",
            "values": 1,
            "characters": 4,
        },
        *(
            {"variable": f"v{n}", "type": "int", "disclosed": "its value", "values": 1, "characters": 1}
            for n in range(98)
        ),
    ]
    bundle = render(play([*started(), *ended()], sent=rows))
    title = "What was sent: 100 variables, 119 cell values, 1,790 characters"
    body = bundle["text/html"].split("</style>")[1]
    assert f'<details class="kestrel-fold" open><summary>{title}</summary>' in body
    assert body.count("<tr>") == 21
    assert '<td class="kestrel-t">schema and 5 rows</td><td>20</td><td>1,688</td>' in body
    for text in bundle.values():
        assert "The first 20 of 100 variables are listed." in text
        assert "[U+202E]" in text
        assert "\u202e" not in text
        assert "k" * 60 not in text
    assert "<b>" not in body
    assert "- rain: DataFrame, 120 × 4; schema and 5 rows; 20 cell values, 1,688 characters" in bundle["text/plain"]
    assert (
        "- `rain`: DataFrame, 120 × 4; schema and 5 rows; 20 cell values, 1,688 characters" in bundle["text/markdown"]
    )
    quiet = [{"variable": "limit", "type": "float", "disclosed": "its value", "values": 1, "characters": 4}]
    body = render(play(ended(), sent=quiet))["text/html"].split("</style>")[1]
    assert '<details class="kestrel-fold"><summary>What was sent: 1 variable, 1 cell value, 4 characters' in body


CODE = "\n# the fault\ndef f(x):\n    return x\u202e\n" + "\n".join(f"a{n} = {n}" for n in range(300))


def test_code_is_its_first_line_and_then_itself() -> None:
    state = play([*started(), *call("run_python", {"code": CODE}), *ran("run_python", "ok"), *ended()], handle="run")
    row = state["blocks"][-1]
    assert row["line"] == "# the fault …"
    plain = render(state)["text/plain"]
    assert "run_python # the fault … · ok · done" in plain
    assert "    def f(x):\n        return x[U+202E]\n    a0 = 0\n" in plain
    assert "    a195 = 195\n104 more lines; all of it is in run.messages\n" in plain
    assert '<pre class="kestrel-pre">\n# the fault\ndef f(x):\n' in render(state)["text/html"]
    short = play([*started(), *call("run_python", {"code": "1 + 1"}), *ran("run_python", "2"), *ended()])
    assert render(short)["text/plain"].endswith("run_python 1 + 1 · 2 · done · 0.04 s\n    2")


def test_a_changed_cell_is_kept_for_copying() -> None:
    new = "\n".join(f"line {n}" for n in range(250))
    diff = "--- cell\n+++ cell\n@@ -0,0 +1,250 @@\n" + "\n".join(f"+{line}" for line in new.split("\n"))
    asking = request("insert_cell", {"code": new}, DiffPreview(path="cell", diff=diff, added=250, removed=0))
    events = [*started(), *asked(asking), *answered(asking, "button", approved=True)]
    state = play([*events, *call("insert_cell", {"code": new}), *ran("insert_cell", "ok"), *ended()])
    text = render(state)["text/plain"]
    assert "insert_cell line 0 … · ok · done" in text
    assert "    +line 198\n51 more lines; all of it is in _.messages\n" in text


def test_a_failure_of_code_is_an_error_with_its_text() -> None:
    words = "printed\nTraceback (most recent call last):\n  Cell, line 2\nZeroDivisionError: division by zero"
    data = {"columns": [], "rows": [], "figures": [], "variables": {"new": ["a"], "changed": [], "gone": []}}
    state = play(
        [*call("run_python", {"code": "a = 1\n1/0"}), *ran("run_python", words, data, is_error=True), *ended()]
    )
    body = render(state)["text/html"].split("</style>")[1]
    assert f'<pre class="kestrel-pre kestrel-wrap">{words}</pre>' in body
    assert "variables" not in body


NOTE = 'A person changed the arguments before approving. It ran with: {"code":"a = 1\\nprint(a)"}\n'


def test_what_a_person_changed_is_shown_once_as_code() -> None:
    asking = request("run_python", {"code": "a = 2\nprint(a)"})
    changed = {"code": "a = 1\nprint(a)"}
    asking_events = [*started(), *asked(asking), *answered(asking, "button", approved=True, arguments=changed)]
    for content, shown_text in ((f"{NOTE}1", "    1\n"), (NOTE.rstrip("\n"), "")):
        state = play([*asking_events, *call("run_python", changed), *ran("run_python", content), *ended()])
        for text in render(state).values():
            assert "It ran with" not in text
            assert text.count("print(a)") == 1
        assert f"    a = 1\n    print(a)\n{shown_text}Approved with changes" in render(state)["text/plain"]
    same = play([*started(), *call("run_python", changed), *ran("run_python", f"{NOTE}1"), *ended()])
    assert "It ran with" in render(same)["text/plain"]  # printed by the code itself


def test_counts_of_one_are_singular() -> None:
    sent = [{"variable": "x", "type": "int", "disclosed": "value", "values": 1, "characters": 1}]
    text = plain([*started(), *ended()], sent=sent, handle="run")
    assert "What was sent: 1 variable, 1 cell value, 1 character\n- x: int; value; 1 cell value, 1 character\n" in text
    assert "The whole message is in run.request." in text
    part = [{"part": "the failed cell", "variable": "the failed cell", "type": "code", "values": "", "characters": 1}]
    assert "What was sent: the failed cell, 1 character\n" in plain(ended(), sent=part)


def test_notices_tasks_and_disclosure_stay() -> None:
    sent = [{"variable": "rain", "type": "DataFrame", "disclosed": "schema only", "values": 0, "characters": 412}]
    events = [*started(), make(ev.Notice, level="warning", code="x", text="Cut off at the limit.")]
    events += [
        make(ev.TodoUpdated, items=(TodoItem(text="a", state="completed"), TodoItem(text="b", state="in_progress")))
    ]
    text = plain([*events, *ended()], sent=sent)
    title = "What was sent: 1 variable, no cell values, 412 characters"
    assert f"{title}\n- rain: DataFrame; schema only; no cell values, 412 characters\n" in text
    assert "Cut off at the limit." in text
    assert "Tasks: 1 of 2 done\n- a, done\n- b, open" in text


def test_reasoning_is_left_out() -> None:
    assert "secret thought" not in plain(
        [*started(), make(ev.ReasoningDelta, message_id="m", text="secret thought"), *ended()]
    )


def test_the_record_stays_small_and_keeps_every_decision() -> None:
    events = started()
    for n in range(300):
        asking = request("shell", {"command": f"echo {n}"}, call_id=f"c{n}")
        events += [*asked(asking), *answered(asking, "button", approved=True, remember="session")]
        events += [*call("shell", {"command": f"echo {n}"}, f"c{n}")]
        events += ran("shell", "line\n" * 400, [{"a": "x" * 70, "b": "y" * 70}] * 100, f"c{n}")
    bundle = render(play([*events, *said("word " * 9_000), *ended()]))
    assert sum(len(form.encode()) for form in bundle.values()) <= 256_000 + 400_000  # decisions alone are larger
    for form in bundle.values():
        assert form.count("for this session") == 300


def test_tables_are_cut_before_text() -> None:
    events = started()
    for n in range(20):
        events += [*call("q", {"n": n}, f"c{n}"), *ran("q", "", [{f"k{i}": "x" * 79 for i in range(12)}] * 50, f"c{n}")]
    text = "A sentence of the answer. " * 400
    bundle = render(play([*events, *said(text), *ended()]))
    assert sum(len(form.encode()) for form in bundle.values()) <= 256_000
    assert text.strip() in bundle["text/plain"]
    assert "50 rows × 12 columns" in bundle["text/html"]


def test_every_column_is_counted_and_rows_are_capped() -> None:
    data = [{f"k{i}": i for i in range(15)}] * 25
    html = render(play([*started(), *call("q", {}), *ran("q", "", data), *ended()]))["text/html"]
    assert html.count("<tr><th>") == 20
    assert "25 rows × 15 columns, the first 20 shown, 3 more columns" in html


def test_the_sheet_has_only_what_applies() -> None:
    html = render(play([*started(), *said("Hi."), *ended()]))["text/html"]
    sheet = html[len("<style>") : html.index("</style>")]
    assert len(sheet) < 6_000
    assert "kestrel-card" not in sheet
    assert "kestrel-table" not in sheet
    assert ".kestrel-text" in sheet
    assert sheet.count("{") == sheet.count("}")
    assert not re.search(r"url\(|@import", sheet)


def test_a_full_record_has_a_sheet_of_twelve_kilobytes_at_most() -> None:
    events = [*started(), *GREP, *asked(EDIT), *answered(EDIT, "button", approved=False), *call("x", {}, "c9")]
    events += [
        make(ev.ToolFailed, call_id="c9", tool="x", error="no"),
        make(ev.TodoUpdated, items=(TodoItem(text="a"),)),
    ]
    events += [make(ev.Notice, level="error", code="x", text="y"), *said("Hi."), *ended()]
    html = render(play(events, sent=[{"variable": "a"}]))["text/html"]
    assert html.index("</style>") <= 12_000
    assert active(html) == []


PNG = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAIAAAB7QOjdAAAAD0lEQVR4nGP4z8AAQv8BD/0C/mTuNB8AAAAASUVORK5CYII="


def test_a_figure_carries_its_size() -> None:
    from kestrel_nb.protocol.messages import ImagePart, ToolCallPart, tool_message

    part = ToolCallPart(id="call_1", name="run_python", arguments={}, raw_arguments="{}")
    images = (
        ImagePart(data=PNG),
        ImagePart(url="http://evil.test/x.png"),
        ImagePart(media_type="image/svg+xml", data=PNG),
    )
    message = tool_message(part, "ok", images=images)
    events = [
        *started(),
        *call("run_python", {"code": "plot()"}),
        *ran("run_python", "ok"),
        make(ev.MessageCompleted, message=message),
    ]
    html = render(play([*events, *ended()]))["text/html"]
    assert html.count("<img") == 1
    assert 'width="2" height="1"' in html
    assert "evil.test" not in html
    assert "Figure 1 of 3, 2 × 1 px" in html


def test_each_table_names_its_frame() -> None:
    events = [*started(), *call("grep", {}, "c1"), *ran("grep", "x", [{"a": 1}], "c1")]
    events += [*call("grep", {}, "c2"), *ran("grep", "x", [{"a": 2}], "c2"), *ended()]
    text = render(play(events, handle="run"))["text/plain"]
    assert 'run.frames["grep", 0]' in text
    assert 'run.frames["grep", 1]' in text


def test_every_form_has_the_index_of_a_table() -> None:
    index = {"columns": [0, 1], "rows": [["Ghent", 3], [None, 1]], "names": ["city", None]}
    data = {"columns": ["n"], "rows": [[7], [8]], "dtypes": ["int64"], "index": index}
    bundle = render(play([*started(), *call("q", {}), *ran("q", "", data), *ended()]))
    assert '<thead><tr><th class="kestrel-t">city</th><td></td><th>n</th></tr></thead>' in bundle["text/html"]
    assert '<tr><th class="kestrel-t">Ghent</th><th>3</th><td>7</td></tr>' in bundle["text/html"]
    assert "| Ghent | 3 | 7 |" in bundle["text/markdown"]
    assert re.search(r"city\s+n\n\s+Ghent\s+3\s+7\n\s+<NA>\s+1\s+8", bundle["text/plain"])
