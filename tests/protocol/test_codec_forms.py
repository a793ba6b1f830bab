"""The forms that JSON may have: old, new, damaged, hostile."""

import json
import math
from typing import Any

import pytest

from kestrel_nb.protocol.codec import decode, decode_event, dumps, encode, from_document, jsonable, loads, parse_call
from kestrel_nb.protocol.errors import CodecError
from kestrel_nb.protocol.events import RunStarted
from kestrel_nb.protocol.json_text import MAX_DEPTH
from kestrel_nb.protocol.messages import ChatMessage, TextPart, ToolCallPart, ToolResultPart, unanswered_calls
from kestrel_nb.protocol.sessions import (
    ApprovalDecision,
    ApprovalRequest,
    SessionDetail,
    SessionStep,
    apply_step,
    fingerprint,
)
from kestrel_nb.protocol.tools import TextPreview


@pytest.mark.parametrize(
    "text",
    [
        "NaN",
        '{"a": Infinity}',
        "[-Infinity]",
        "1e999",
        "[-1e999]",
        "",
        "{",
        '{"a":1,}',
        "nul",
        b"\xff\xfe\xfa",
        "1" * 5000,
    ],
)
def test_text_that_is_not_strict_json(text: str | bytes) -> None:
    with pytest.raises(CodecError, match="not valid JSON"):
        loads(text)


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 500, 990, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_deep_nesting_is_refused(depth: int, opening: str, closing: str) -> None:
    text = opening * depth + "1" + closing * depth
    for form in (text, text.encode()):
        with pytest.raises(CodecError):
            loads(form)


def test_what_can_be_read_can_be_written() -> None:
    text = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert dumps(jsonable(loads(text))) == text
    wide = dumps([[] for _ in range(1000)])
    assert len(loads(wide)) == 1000
    assert loads(dumps("[" * 1000)) == "[" * 1000


def test_values_inside_themselves_and_other_odd_ones() -> None:
    knot: list[Any] = []
    knot.append(knot)
    with pytest.raises(CodecError):
        jsonable(knot)
    with pytest.raises(CodecError):
        dumps({"big": 10**5000})
    with pytest.raises(CodecError):
        dumps(object())
    assert jsonable({1: math.nan, "b": (math.inf, {3})}) == {"1": None, "b": [None, [3]]}


UNKNOWN_FIELDS = {
    "id": "s",
    "future": {"snake_key": 1, "camelKey": [None]},
    "messages": [
        {
            "id": "m1",
            "role": "user",
            "type": "chat",
            "mood": "curious",
            "parts": [{"kind": "text", "text": "x", "title": "t", "extra": {"sig": 1}, "weight": 2}],
        }
    ],
}


def test_unknown_fields_are_written_back() -> None:
    detail = from_document(SessionDetail, UNKNOWN_FIELDS)
    assert isinstance(detail.messages[0].parts[0], TextPart)
    assert encode(detail) == UNKNOWN_FIELDS
    step = SessionStep(seq=1, updated_at=2.0)
    assert encode(apply_step(detail, step))["future"] == UNKNOWN_FIELDS["future"]


def test_unknown_fields_never_become_known_ones() -> None:
    hostile = {"id": "m", "role": "user", "parts": [], "extra": {"$unknown": {"provider": "x", "new": 1}}}
    assert encode(decode(ChatMessage, hostile)) == {"new": 1, "id": "m", "role": "user", "parts": []}
    odd = {"id": "m", "role": "user", "parts": [], "extra": {"$unknown": 5}}
    assert encode(decode(ChatMessage, odd)) == odd


@pytest.mark.parametrize("version", [2, 99, 10**30])
def test_a_newer_version_is_named(version: int) -> None:
    with pytest.raises(CodecError, match="newer") as caught:
        from_document(SessionDetail, {"version": version, "kind": "session", "whatever": 1})
    assert caught.value.code == "newer_version"


@pytest.mark.parametrize("version", [0, -1, True, "1", None, 1.0])
def test_a_version_must_be_a_positive_integer(version: Any) -> None:
    with pytest.raises(CodecError) as caught:
        from_document(SessionDetail, {"version": version, "id": "s"})
    assert caught.value.code == "invalid_json_form"


@pytest.mark.parametrize(
    ("kind", "data", "where"),
    [
        (SessionDetail, {"id": 5}, "SessionDetail.id"),
        (SessionDetail, {}, "id"),
        (SessionDetail, None, "SessionDetail"),
        (SessionDetail, {"id": "s", "messages": {}}, "SessionDetail.messages"),
        (SessionDetail, {"id": "s", "extra": [1], "new": 1}, "SessionDetail.extra"),
        (SessionDetail, {"id": "s", "createdAt": 10**400}, "SessionDetail.createdAt"),
        (ChatMessage, {"id": "m", "role": "user", "parts": [{"kind": []}]}, "parts[0].kind"),
        (ChatMessage, {"id": "m", "role": "user", "parts": [{"kind": "diff", "path": "a"}]}, "parts[0].kind"),
        (ChatMessage, {"id": "m", "role": "user", "parts": [{"kind": "image"}]}, "either data or url"),
        (ChatMessage, {"id": "m", "role": [], "parts": []}, "ChatMessage.role"),
        (ChatMessage, {"role": "user", "content": 5}, "content"),
        (ChatMessage, {"role": "assistant", "toolCalls": 5}, "toolCalls"),
        (ChatMessage, {"role": "assistant", "toolCalls": ["x"]}, "toolCalls"),
        (ApprovalDecision, {"approved": "yes"}, "ApprovalDecision.approved"),
        (ApprovalDecision, {"approved": True, "arguments": "rm"}, "ApprovalDecision.arguments"),
    ],
)
def test_errors_say_where(kind: Any, data: Any, where: str) -> None:
    with pytest.raises(CodecError) as caught:
        decode(kind, data)
    assert where in str(caught.value)


@pytest.mark.parametrize(
    "data", [None, [], {}, {"type": []}, {"type": {}}, {"type": "no.such"}, {"type": "run.started"}]
)
def test_what_is_no_event(data: Any) -> None:
    with pytest.raises(CodecError):
        decode_event(data)


def test_previews_keep_their_kind() -> None:
    request = ApprovalRequest(
        id="appr_1", session_id="s", run_id="r", call_id="c", tool="t", arguments={}, reason="", fingerprint="",
        created_at=1.0, expires_at=math.inf, preview=TextPreview(title="T", text="x"),
    )  # fmt: skip
    back = decode(ApprovalRequest, loads(dumps(encode(request))))
    assert back.preview == request.preview
    assert back.expires_at is None  # JSON has no infinity: no limit


def test_a_value_is_left_out_only_when_it_is_the_default() -> None:
    assert encode(ApprovalDecision(approved=False, arguments={})) == {"approved": False, "arguments": {}}
    assert encode(RunStarted(session_id="s", model="m", input="")) == {
        "type": "run.started", "sessionId": "s", "model": "m", "input": "",
    }  # fmt: skip


def flat(**fields: Any) -> ChatMessage:
    return decode(ChatMessage, fields)


def test_flat_messages_become_parts() -> None:
    message = flat(
        id="m",
        role="assistant",
        content="hi",
        reasoning="hm",
        toolCalls=[{"id": "c", "name": "ls", "arguments": {"a": 1}}],
    )
    assert [part.kind for part in message.parts] == ["reasoning", "text", "tool_call"]
    assert (message.content, message.reasoning) == ("hi", "hm")
    assert message.tool_calls == (ToolCallPart(id="c", name="ls", arguments={"a": 1}, raw_arguments='{"a":1}'),)
    result = flat(id="r", role="tool", content="out", toolCallId="c", toolName="ls", isError=True, mood=1)
    assert result.parts == (ToolResultPart(call_id="c", name="ls", content="out", is_error=True),)
    assert encode(result)["mood"] == 1
    assert unanswered_calls([message, result]) == ()


@pytest.mark.parametrize("empty", [{}, {"content": None, "toolCalls": None, "reasoning": None}, {"content": ""}])
def test_flat_messages_may_be_empty(empty: dict[str, Any]) -> None:
    assert flat(role="assistant", **empty).parts == ()


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ("", None),
        ("  ", None),
        ("{}", None),
        ("[1]", "object"),
        ("{", "not valid"),
        ('{"a": NaN}', "NaN"),
        ("[" * 999, "not"),
    ],
)
def test_calls_that_can_not_run_say_why(raw: str, problem: str | None) -> None:
    call = parse_call("c", "t", raw)
    assert call.raw_arguments == raw
    assert (call.arguments == {}) if problem is None else (call.arguments is None)
    assert call.problem is None if problem is None else problem in str(call.problem)


def test_strings_of_other_programs_are_strict_json_here() -> None:
    text = dumps({"bad": "\ud83d", "good": "\U0001f600", "line": "\u2028"})
    assert text.isascii()
    assert json.loads(text) == {"bad": "\ud83d", "good": "\U0001f600", "line": "\u2028"}


def test_a_fingerprint_holds_exactly_what_is_shown() -> None:
    base = ("s", "c", "shell", {"a": 1, "b": "\ud800"})
    assert fingerprint(*base) == fingerprint("s", "c", "shell", {"b": "\ud800", "a": 1})
    others = [
        ("t", *base[1:]),
        ("s", "d", *base[2:]),
        ("s", "c", "ls", base[3]),
        (*base[:3], {"a": "1", "b": "\ud800"}),
    ]
    assert len({fingerprint(*base), *(fingerprint(*other) for other in others)}) == 5


def test_steps_add_up_once() -> None:
    message = ChatMessage(id="m1", role="user", parts=())
    step = SessionStep(seq=3, updated_at=2.0, title="T", messages=(message,), started=("c",))
    once = apply_step(SessionDetail(id="s"), step)
    assert (once.messages, once.title, once.started, once.seq) == ((message,), "T", ("c",), 3)
    assert apply_step(once, step) is once
    assert apply_step(once, SessionStep(seq=4, updated_at=3.0, messages=(message,))).messages == (message,)
