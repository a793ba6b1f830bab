"""Cassettes with the real loop: what is recorded is played, exactly once, and nothing else is."""

import asyncio
import base64
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from cassette_stage import Counted, play, record, replay, told

from kestrel_nb import (
    ApprovalDecision,
    Cassette,
    Kestrel,
    KestrelConfig,
    ModelRequestError,
    PermissionRule,
    ToolCallError,
    ToolExecutionResult,
)
from kestrel_nb.protocol.errors import UsageError
from kestrel_nb.protocol.messages import ImagePart, OpaquePart, ReasoningPart, TextPart, ToolCallPart
from kestrel_nb.protocol.sessions import ModelInfo, Usage
from kestrel_nb.runtime.models import CompletionRequest, CompletionResponse, DeltaListener, TokenDelta
from kestrel_nb.testing import Reply, ScriptedModel

KEY = "zq-planted-0815-key-for-tests"


def text_of(path: Path) -> str:
    return path.read_text("utf-8")


def there(path: Path) -> bool:
    return path.exists()


def backup(path: Path) -> Path:
    return Path(f"{path}.bak")


def rewrite(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")


def lines(path: Path, kind: str) -> list[Any]:
    return [entry for entry in map(json.loads, path.read_text("utf-8").splitlines()) if entry.get("kind") == kind]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "talk.jsonl"


async def test_a_run_is_played_event_by_event(path: Path) -> None:
    replies = [
        Reply("Let me see.", reasoning="hm", tool_calls=[("measure", {"n": 1}), ("list_dir", {"path": "."})]),
        Reply("Found.", deltas=["Fo", "und", "."], usage=Usage(input_tokens=3, output_tokens=5)),
    ]
    tool, never = Counted(), Counted()
    (first,), before, _ = await record(path, replies, [tool])
    (second,), after, cassette = await replay(path, [never])
    assert told(before) == told(after)
    assert (second.text, second.usage, second.steps) == (first.text, first.usage, 2)
    assert (len(tool.ran), never.ran, cassette.unused) == (1, [], ())
    (resolved,) = (event for event in after if event.type == "approval.resolved")
    assert (resolved.answered_by, resolved.recorded_by) == ("cassette", "code")


async def test_every_part_of_a_reply_comes_back(path: Path) -> None:
    parts = (
        ReasoningPart(text="", redacted=True, extra={"signature": "c2ln"}),
        TextPart(text="See", extra={"thought": "x"}),
        OpaquePart(api="m", value={"id": "rs_1", "blob": "AAAA"}),
        ToolCallPart(id="c1", name="nothing", arguments={}, raw_arguments='{ "a" : 1.0}', extra={"sig": "y"}),
        ToolCallPart(id="c2", name="nothing", arguments=None, raw_arguments='{"a"', problem="the arguments are broken"),
    )
    whole = CompletionResponse(parts=parts, finish_reason="tool_use", provider="m@host", usage=Usage(output_tokens=2))
    deltas = [TokenDelta(text="S", reasoning="r"), TokenDelta(text="ee"), TokenDelta(call_id="c1", tool="nothing")]

    class One:
        info = ModelInfo(id="one", provider="p", context_window=77)

        async def generate(self, request: CompletionRequest, on_delta: DeltaListener | None = None) -> Any:
            for delta in deltas if on_delta else ():
                on_delta(delta)  # type: ignore[misc]
            return whole

    request = CompletionRequest(model="one", messages=())
    cassette = Cassette(path, "record")
    assert await cassette.model("one", One, "/nowhere").generate(request) is whole
    assert await cassette.model("one", One, "/nowhere").generate(request, [].append) is whole
    cassette.close()
    cassette, heard = Cassette(path, "replay"), list[TokenDelta]()
    model = cassette.model("one", lambda: 1 / 0, "/nowhere")  # type: ignore[arg-type, return-value]
    assert model.info == One.info
    await model.generate(request)
    played = await model.generate(request, heard.append)
    assert played.parts[0] == parts[0]
    assert played.parts[3].raw_arguments == parts[3].raw_arguments  # type: ignore[union-attr]
    assert (played.parts[2], played.parts[4]) == (parts[2], parts[4])
    assert (played.finish_reason, played.provider, played.usage) == ("tool_use", "m@host", whole.usage)
    assert heard == deltas


async def test_the_first_difference_is_named(path: Path) -> None:
    await record(path, ["a", "b"], prompts=["count the lines of a.py", "something else"])
    (miss,), _, cassette = await replay(path, prompts=["count the lines of b.py"])
    assert miss.code == "cassette_miss"
    assert 'message 2 (user): recorded "count the lines of a.py", now "count the lines of b.py"' in str(miss)
    assert "%kestrel record" in str(miss)
    assert "\n" not in str(miss)
    assert len(cassette.unused) == 2
    (miss,), _, _ = await replay(path, [Counted("extra")], prompts=["something else"])
    assert "the tools: extra added" in str(miss)
    cassette = Cassette(path, "replay")
    async with Kestrel(workspace=path.parent / "work", cassette=cassette) as app:
        with pytest.raises(ModelRequestError, match='the model: recorded "m", now "demo"'):
            await app.ask("something else")


async def test_what_is_asked_again_is_played_in_order_and_then_missed(path: Path) -> None:
    await record(path, ["one", "two"], prompts=["go", "go"])
    (first, second, third), _, _ = await replay(path, prompts=["go", "go", "go"])
    assert (first.text, second.text) == ("one", "two")
    assert "recorded 2 times and was played as often" in str(third)


async def test_auto_records_what_is_missing(path: Path) -> None:
    await record(path, ["one"], prompts=["go"])
    model = ScriptedModel(["two"], id="m")
    results, _, _ = await play(path, "auto", [], ["go", "on"], model=model)
    assert [result.text for result in results] == ["one", "two"]
    assert len(model.requests) == 1
    results, _, _ = await replay(path, prompts=["go", "on"])
    assert [result.text for result in results] == ["one", "two"]
    assert not there(backup(path))


async def test_a_recording_begins_anew_and_keeps_the_earlier_one(path: Path) -> None:
    await record(path, ["one"])
    before = text_of(path)
    await record(path, [], prompts=[])  # nothing was said: nothing has changed
    assert text_of(path) == before
    await record(path, ["two"])
    (result,), _, _ = await replay(path)
    assert result.text == "two"
    assert text_of(backup(path)) == before


# ---- approvals ----------------------------------------------------------------------------------------------------


async def test_declines_edits_and_remembered_answers_are_played(path: Path) -> None:
    answers = [
        ApprovalDecision(approved=False, reason="too early"),
        ApprovalDecision(approved=True, arguments={"n": 5}),
        ApprovalDecision(approved=True, remember="session"),
    ]

    async def decide(request: Any, signal: Any) -> ApprovalDecision:
        return answers.pop(0)

    calls = [("measure", {"n": n}) for n in (1, 2, 3, 4)]
    tool, never = Counted(), Counted()
    _, before, _ = await record(path, [Reply(tool_calls=calls), "done"], [tool], approve=decide)
    assert tool.ran == [{"n": 5}, {"n": 3}, {"n": 4}]
    (result,), after, cassette = await replay(path, [never])
    assert told(before) == told(after)
    assert (result.text, never.ran, cassette.unused) == ("done", [], ())
    assert [event.decision for event in after if event.type == "approval.resolved"] == [
        event.decision for event in before if event.type == "approval.resolved"
    ]


async def test_an_answer_holds_for_exactly_its_call(path: Path) -> None:
    await record(path, [Reply(tool_calls=[("measure", {"n": 1})]), "done"], [Counted()])
    text = text_of(path)
    rewrite(path, text.replace('"{\\"n\\":1}"', '"{\\"n\\":2}"'))  # the model now asks for another call
    asked = []

    async def ask(request: Any, signal: Any) -> bool:
        asked.append(dict(request.arguments))
        return False

    never = Counted()
    _, events, _ = await replay(path, [never], approve=ask)
    assert (asked, never.ran) == ([{"n": 2}], [])
    assert [event.answered_by for event in events if event.type == "approval.resolved"] == ["code"]


async def test_an_answer_without_its_result_is_none(path: Path) -> None:
    """Nothing runs for real because a file says that somebody approved it."""
    await record(path, [Reply(tool_calls=[("measure", {"n": 1})]), "done"], [Counted()])
    kept = [line for line in text_of(path).splitlines() if '"kind": "result"' not in line]
    rewrite(path, "\n".join(kept) + "\n")
    asked, never = [], Counted()

    async def ask(request: Any, signal: Any) -> bool:
        asked.append(request)
        return False

    await replay(path, [never], approve=ask)
    assert len(asked) == 1
    assert never.ran == []


async def test_rules_that_deny_hold(path: Path) -> None:
    await record(path, [Reply(tool_calls=[("measure", {"n": 1})]), "done"], [Counted()])
    _, events, _ = await replay(path, [Counted()], rules=[PermissionRule(tool="measure", action="deny")])
    (skipped,) = (event for event in events if event.type == "tool.skipped")
    assert skipped.cause == "denied"


async def test_a_question_that_nobody_answered_in_time_is_told_as_such(path: Path) -> None:
    replies = [Reply(tool_calls=[("measure", {"n": 1})]), "done"]
    config = KestrelConfig(approval_timeout_s=0.1)
    _, before, _ = await record(path, replies, [Counted()], approve=None, config=config)
    (result,), after, _ = await replay(path, [Counted()], approve=None)
    assert result.text == "done"
    assert told(before) == told(after)
    assert lines(path, "answer")[0]["by"] == "timeout"


# ---- results ------------------------------------------------------------------------------------------------------


async def test_results_come_back_as_they_were(path: Path) -> None:
    def give(args: Any) -> Any:
        if args["n"] == 1:
            data = {"columns": ["a"], "rows": [[math.nan], [math.inf], [{"$number": "x", "$literal": None}]]}
            return ToolExecutionResult(content="data", data=data)
        if args["n"] == 2:
            raise ToolCallError("no such thing", code="gone")
        if args["n"] == 3:
            return ToolExecutionResult(content="bad", is_error=True, images=(ImagePart(data="QUJD"),))
        return ToolExecutionResult(content="the end", terminate=True)

    calls = [("measure", {"n": n}) for n in (1, 2, 3, 4)]
    (first,), before, _ = await record(path, [Reply(tool_calls=calls)], [Counted(give=give)])
    never = Counted()
    (second,), after, _ = await replay(path, [never])
    assert repr(told(before)) == repr(told(after))  # NaN is not equal to itself
    assert repr(first.tool_data) == repr(second.tool_data)
    assert math.isnan(second.tool_data["measure"][0]["rows"][0][0])
    assert (second.text, never.ran) == ("the end", [])
    messages = [event.message for event in after if event.type == "message.completed"]
    assert [(ImagePart(data="QUJD"),)] in [[part.images for part in message.tool_results] for message in messages]


async def test_a_frame_comes_back_equal(path: Path) -> None:
    import pandas as pd

    frame = pd.DataFrame({"id": [1, None], "when": pd.to_datetime(["2020-01-01", None])})
    tool = Counted(give=lambda args: ToolExecutionResult(content="frame", data=frame))
    (first,), _, _ = await record(path, [Reply(tool_calls=[("measure", {"n": 1})]), "done"], [tool])
    (second,), _, _ = await replay(path, [Counted()])
    assert repr(first.tool_data) == repr(second.tool_data)


async def test_deterministic_tools_run_for_real_and_others_do_not(path: Path) -> None:
    same, clock = Counted("same", permission="auto", deterministic=True), Counted("clock", permission="auto")
    calls = [("same", {"n": 1}), ("clock", {"n": 1})]
    await record(path, [Reply(tool_calls=calls), "done"], [same, clock])
    again, never = Counted("same", permission="auto", deterministic=True), Counted("clock", permission="auto")
    (result,), _, _ = await replay(path, [again, never])
    assert (result.text, len(again.ran), never.ran) == ("done", 1, [])
    assert [entry["tool"] for entry in lines(path, "result")] == ["clock"]


async def test_a_tool_of_the_kernel_runs_again_and_its_recorded_result_counts(path: Path) -> None:
    def says(text: str) -> Callable[[Any], Any]:
        return lambda args: ToolExecutionResult(content=text)

    replies = [Reply(tool_calls=[("measure", {"n": 1})]), "done"]
    await record(path, replies, [Counted(give=says("<Line at 0x7f3a22c0>"), in_kernel=True)])
    tool = Counted(give=says("<Line at 0x7f3a99ff>"), in_kernel=True)
    (result,), events, _ = await replay(path, [tool])
    assert (result.text, tool.ran) == ("done", [{"n": 1}])
    assert not [event for event in events if event.type == "notice"]
    (result,), events, _ = await replay(path, [Counted(give=says("<Dot>"), in_kernel=True)])
    (notice,) = (event for event in events if event.type == "notice")
    assert result.text == "done"
    assert notice.code == "played_otherwise"
    assert 'recorded "<Line at 0x7f3a22c0>", now "<Dot>"' in notice.text


async def test_the_same_call_in_two_runs_gets_the_result_of_its_own_run(path: Path) -> None:
    replies = [Reply(tool_calls=[("measure", {"n": 1})]), "a", Reply(tool_calls=[("measure", {"n": 1})]), "b"]
    await record(path, replies, [Counted()], prompts=["first", "second"])
    (result,), events, _ = await replay(path, [Counted()], prompts=["second"])
    assert result.text == "b"
    assert [event.content for event in events if event.type == "tool.executed"] == ["run 2 of 1"]


async def test_direct_calls_are_played_too(path: Path) -> None:
    tool, never = Counted(), Counted()
    async with Kestrel(workspace=path.parent, tools=[tool], cassette=Cassette(path, "record")) as app:
        assert await app.use_tool("measure", {"n": 3}) == "run 1 of 3"
        text = await app.complete("what can you do?")
    async with Kestrel(workspace=path.parent, tools=[never], cassette=Cassette(path, "replay")) as app:
        assert await app.use_tool("measure", {"n": 3}) == "run 1 of 3"
        assert await app.complete("what can you do?") == text
        with pytest.raises(ToolCallError, match="no result of exactly this call is recorded"):
            await app.use_tool("measure", {"n": 4})
    assert never.ran == []


# ---- machines and keys --------------------------------------------------------------------------------------------


async def test_it_plays_in_another_folder(path: Path, tmp_path: Path) -> None:
    here, other = tmp_path / 'one "place"', tmp_path / "another"
    for folder in (here, other):
        folder.mkdir()
        (folder / "a.txt").write_text("hello")
    replies = [
        Reply(f"I read {here}/a.txt", tool_calls=[("read_file", {"path": f"{here}/a.txt"}), ("measure", {"n": 1})]),
        "It is ⟦workspace⟧.",
    ]
    tool = Counted(give=lambda args: ToolExecutionResult(content=f"in {here}", data=[str(here)]))
    await record(path, replies, [tool], [f"look into {here}"], folder=here)
    assert str(tmp_path) not in text_of(path)
    (result,), events, _ = await replay(path, [Counted()], [f"look into {other}"], folder=other)
    assert result.text == "It is ⟦workspace⟧."
    assert "".join(event.text for event in events if event.type == "message.delta").startswith(f"I read {other}/a.txt")
    assert result.tool_data["measure"] == [[str(other)]]


async def test_no_key_is_written_and_a_machine_without_it_plays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_API_KEY", KEY)

    def give(args: Any) -> Any:
        headers = {"Authorization": "Bearer abc.def.ghi", "Set-Cookie": "sid=1234567890; Path=/", "Date": "today"}
        said = f"{os.environ['SERVICE_API_KEY']} Authorization: Basic dXNlcjpwYXNz"
        return ToolExecutionResult(content=said, data=headers)

    replies = [Reply(f"The key is {KEY}.", reasoning=KEY, tool_calls=[("measure", {"n": 1})]), "done"]
    _, before, _ = await record(path, replies, [Counted(give=give)])
    text = text_of(path)
    for secret in (KEY, KEY[:8], KEY[-8:], "abc.def.ghi", "1234567890", "dXNlcjpwYXNz"):
        assert secret not in text, secret
    (executed,) = (event for event in before if event.type == "tool.executed")
    assert "dXNlcjpwYXNz" not in executed.content  # what is shown is what is played
    monkeypatch.delenv("SERVICE_API_KEY")
    (result,), after, _ = await replay(path, [Counted()])
    assert result.text == "done"
    assert [event.data for event in after if event.type == "tool.executed"] == [executed.data]
    assert executed.data["Date"] == "today"


@pytest.mark.parametrize("key", [KEY, 'p"w\\d/ü-7xyQ88'])
async def test_no_key_is_written_in_any_form_and_at_any_place(
    path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("MY_API_KEY", key)
    coded = [base64.b64encode(f"{lead}{key}{tail}".encode()).decode() for lead in ("", "a", "ab") for tail in ("", "z")]
    forms = [key, json.dumps(key), json.dumps({"k": json.dumps({"k": key})}), key.encode().hex(), *coded, quote(key)]
    text = "\n".join(forms)
    give = ToolExecutionResult(content=text, data={"rows": forms, key: {"k": text}})

    async def edit(request: Any, signal: Any) -> ApprovalDecision:
        return ApprovalDecision(approved=request.arguments["n"] == 1, arguments={"n": 2}, reason=text)

    replies = [
        Reply(text, reasoning=text, tool_calls=[("measure", {"n": 1})]),
        Reply("", tool_calls=[("measure", {"n": 3, "note": text})]),
        Reply(text, error=ModelRequestError(text), error_after=9),
    ]
    await record(path, replies, [Counted(give=lambda args: give)], prompts=[text], approve=edit)
    written = list(strings([json.loads(line) for line in text_of(path).splitlines()]))
    whole = "\n".join(written)
    for form in forms:
        core = form[4:-4] if form in coded else form.strip('"')
        assert core not in whole, form
    assert "***" in whole


def strings(value: Any) -> Iterator[str]:
    """Every text in JSON data, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


async def test_a_key_that_a_model_repeats_makes_no_difference(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", KEY)
    replies = [Reply(f"**Key** {KEY}, {KEY}", tool_calls=[("measure", {"n": 1})]), f"and `{KEY}`"]
    (first,), before, _ = await record(path, replies, [Counted()])
    assert KEY not in text_of(path)
    for is_set in (True, False):
        if not is_set:
            monkeypatch.delenv("SOME_API_KEY")
        (again,), after, _ = await replay(path, [Counted()])
        assert (first.text, again.text) == ("and `***`", "and `***`")
        assert ["".join(e.text for e in events if e.type == "message.delta") for events in (before, after)] == [
            "**Key** ***, ***and `***`"
        ] * 2


async def test_a_provider_is_played_without_its_library_and_key(path: Path) -> None:
    class Service:
        info = ModelInfo(id="openai:gpt-none", provider="openai", label="GPT none")

        async def generate(self, request: CompletionRequest, on_delta: DeltaListener | None = None) -> Any:
            return CompletionResponse(content="from far")

    (first,), _, _ = await play(path, "record", [], ["hi"], model=Service())
    code = f"""
import sys
sys.modules["httpx"] = sys.modules["genai_prices"] = None
from kestrel_nb import Cassette, Kestrel
cassette = Cassette({str(path)!r}, "replay")
app = Kestrel(workspace={str(path.parent / "work")!r}, model="openai:gpt-none", cassette=cassette)
print(app.run_sync("hi").text)
app.close()
"""
    command = [sys.executable, "-W", "error", "-c", code]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, first.text) == ("from far\n", "from far"), done.stderr


def test_wrong_words_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="one of off, record, replay, auto"):
        Cassette(tmp_path / "x.jsonl", "play")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="needs the path"):
        Cassette("")
    with pytest.raises(UsageError, match="must be a Cassette"):
        Kestrel(cassette="x.jsonl")  # type: ignore[arg-type]


async def test_off_changes_nothing(path: Path) -> None:
    async with Kestrel(workspace=path.parent, model=ScriptedModel(["one"]), cassette=Cassette(path, "off")) as app:
        assert (await app.ask("go")).text == "one"
    assert not there(path)
