"""Old tool results give way when a request would not fit the model's window; the transcript keeps them whole."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stage import FunctionTool, Stage, assert_valid, results

from kestrel_nb.protocol.messages import (
    ChatMessage,
    ImagePart,
    OpaquePart,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    create_message,
    tool_message,
)
from kestrel_nb.protocol.tools import ToolSchema
from kestrel_nb.runtime.context_care import IMAGE_TOKENS, KEPT_CHARS, REPLY_TOKENS, ContextCare, message_tokens
from kestrel_nb.runtime.models import CompletionRequest
from kestrel_nb.testing import Reply, ScriptedModel

PIXEL = ImagePart(data="aGk=")


def reader(chars: int, **schema: Any) -> FunctionTool:
    return FunctionTool("read", lambda args, _: f"{args.get('x')}:" + "y" * chars, **schema)


def stage_of(steps: int, chars: int, window: int | None, **schema: Any) -> Stage:
    calls = [Reply(tool_calls=[("read", {"x": step})]) for step in range(steps)]
    model = ScriptedModel([*calls, "done"], context_window=window)
    return Stage(model, [reader(chars, **schema)], system_prompt=lambda workspace: "be brief")


def notices(stage: Stage) -> list[tuple[str, str]]:
    return [(event.level, event.text) for event in stage.of("notice") if event.code == "context"]


def sent_tokens(request: CompletionRequest) -> int:
    return sum(message_tokens(message) for message in request.messages)


def is_short(text: str) -> bool:
    return "[shortened to make room: " in text


# ---- the real loop ------------------------------------------------------------------------------------------------


async def test_oldest_results_are_shortened_and_the_transcript_keeps_them() -> None:
    stage = stage_of(12, 4000, 10_000, read_only=True)
    result = await stage.ask()
    assert result.status == "completed"
    stage.check()
    assert all(len(text) > 4000 for text in results(stage.session.messages))
    last = results(stage.model.requests[-1].messages)
    short = [is_short(text) for text in last]
    assert short == sorted(short, reverse=True)
    assert (short[0], short[-1]) == (True, False)
    assert last[0].startswith("0:yyy")
    assert last[0].endswith(
        "[shortened to make room: the first 400 of 4,002 characters are kept; "
        "call read again, more narrowly, to read the rest]"
    )
    assert all(sent_tokens(request) <= 10_000 - 10_000 // 4 for request in stage.model.requests)


async def test_a_shortened_message_stays_the_same_object_and_most_steps_change_nothing() -> None:
    stage = stage_of(30, 4000, 20_000)
    await stage.ask()
    changed = 0
    for before, after in zip(stage.model.requests[1:], stage.model.requests[2:], strict=False):
        same = all(a is b for a, b in zip(before.messages[1:], after.messages[1:], strict=False))
        changed += not same
        for old, new in zip(before.messages[1:], after.messages[1:], strict=False):
            assert new is old or is_short(new.content)
            if is_short(old.content):
                assert new is old
    assert 1 <= changed <= 8
    assert len(notices(stage)) == changed
    assert {level for level, _ in notices(stage)} == {"info"}
    stage.check()


async def test_the_notice_says_what_happened() -> None:
    stage = stage_of(3, 8000, 8_000)
    await stage.ask()
    assert notices(stage) == [
        (
            "info",
            "1 tool result is sent shortened from now on, about 1,867 tokens less, so that the request fits the "
            "model's context window of 8,000 tokens. The conversation keeps everything.",
        )
    ]


async def test_a_call_that_changes_something_is_not_to_be_repeated_for_its_text() -> None:
    stage = stage_of(4, 8000, 8_000)
    await stage.ask()
    assert "don't repeat it only to read the rest]" in results(stage.model.requests[-1].messages)[0]


async def test_nothing_happens_with_an_unknown_window_or_enough_room() -> None:
    for window in (None, 1_000_000):
        stage = stage_of(8, 40_000, window)
        await stage.ask()
        assert notices(stage) == []
        assert not any(is_short(text) for text in results(stage.model.requests[-1].messages))
        assert all(a is b for a, b in zip(stage.model.requests[-1].messages[1:], stage.session.messages, strict=False))


async def test_the_newest_results_share_the_room_when_nothing_else_helps() -> None:
    calls = [("read", {"x": 1}), ("small", {}), ("read", {"x": 2})]
    model = ScriptedModel([Reply(tool_calls=calls), "done"], context_window=8_000)
    stage = Stage(model, [reader(30_000), FunctionTool("small", lambda *_: "little")])
    await stage.ask()
    one, small, two = results(model.requests[-1].messages)
    assert small == "little"
    assert len(one) == len(two) > 4 * KEPT_CHARS
    assert sent_tokens(model.requests[-1]) <= 6_000
    stage.check()


async def test_what_can_not_be_shortened_is_sent_and_told_once() -> None:
    stage = stage_of(4, 100, 2_000)
    await stage.ask("word " * 4_000)
    assert len(stage.model.requests) == 5
    assert notices(stage) == [
        (
            "warning",
            "The conversation may be too long for the model's context window of 2,000 tokens, and no tool result is "
            "left to shorten. Take back a part of it with %kestrel rewind, or begin a new session.",
        )
    ]
    stage.check()


async def test_when_the_heads_alone_fill_the_window_the_oldest_go_too() -> None:
    stage = stage_of(60, 1500, 8_000)
    await stage.ask()
    last = results(stage.model.requests[-1].messages)
    assert last[0].startswith("[shortened to make room: all 1,502 characters are left out; ")
    assert not is_short(last[-1])
    assert all(sent_tokens(request) <= 6_000 for request in stage.model.requests)
    assert {level for level, _ in notices(stage)} == {"info"}
    stage.check()


async def test_a_rewind_gives_room_again() -> None:
    model = ScriptedModel([Reply(tool_calls=[("read", {"x": 1})]), "one", "two", "three"], context_window=8_000)
    stage = Stage(model, [reader(12_000)])
    await stage.ask("first")
    await stage.session.start("long " * 4_000)
    assert is_short(results(model.requests[-1].messages)[0])
    stage.session.rewind(stage.session.messages[-2].id)
    await stage.session.start("short")
    assert not is_short(results(model.requests[-1].messages)[0])


async def test_a_larger_model_gets_what_a_smaller_one_did_not() -> None:
    stage = stage_of(6, 6_000, 8_000)
    await stage.ask()
    assert is_short(results(stage.model.requests[-1].messages)[0])
    large = ScriptedModel(["ok"], id="large", context_window=100_000)
    stage.models.register(large)
    stage.session.set_model("large")
    await stage.session.start("go on")
    assert not any(is_short(text) for text in results(large.requests[-1].messages))


# ---- any transcript -----------------------------------------------------------------------------------------------


def request_of(messages: list[ChatMessage], **fields: Any) -> CompletionRequest:
    return CompletionRequest(model="m", messages=tuple(messages), **fields)


@st.composite
def transcripts(draw: st.DrawFn) -> list[ChatMessage]:
    """Steps with calls, results long and short, images, and opaque data."""
    seed = random.Random(draw(st.integers(0, 1 << 30)))
    messages = [create_message("user", "x" * seed.randrange(2_000))]
    for step in range(draw(st.integers(1, 12))):
        calls = [
            ToolCallPart(
                id=f"c{step}_{n}", name="read", arguments={}, raw_arguments="{}", extra={"signature": "s" * 20}
            )
            for n in range(seed.randrange(4))
        ]
        thought = ReasoningPart(text="hm", extra={"signature": "opaque"})
        parts = [thought, TextPart(text="t" * seed.randrange(300)), OpaquePart(api="x", value={"k": [1]}), *calls]
        messages.append(create_message("assistant", parts))
        for call in calls:
            text = seed.choice(["é👩‍👩‍👧", "line\n", "y"]) * seed.choice([0, 3, 100, 5_000])
            images = (PIXEL,) * seed.choice([0, 0, 0, 2])
            messages.append(tool_message(call, text, is_error=seed.random() < 0.2, images=images))
        if not calls:
            messages.append(create_message("user", "and?"))
    return messages


def pieces(messages: tuple[ChatMessage, ...]) -> list[tuple[Any, ...]]:
    """What must never change: ids, roles, order, and every part but the text and images of results."""
    bare = (
        (
            m.id,
            m.role,
            [replace(p, content="", images=()) if isinstance(p, ToolResultPart) else p for p in m.parts],
        )
        for m in messages
    )
    return list(bare)


@given(transcripts(), st.integers(500, 40_000), st.sampled_from([None, 300, 5_000]))
def test_order_pairs_and_opaque_data_survive_and_the_room_is_kept(
    messages: list[ChatMessage], window: int, max_tokens: int | None
) -> None:
    request = request_of(messages, max_tokens=max_tokens)
    before = pieces(request.messages)
    fitted, told = ContextCare().fit(request, window)
    assert pieces(fitted.messages) == pieces(request.messages) == before
    assert_valid(fitted.messages)
    room = window - (max_tokens or min(REPLY_TOKENS, window // 4))
    if sent_tokens(fitted) > room:  # then there was nothing left to shorten
        assert told[-1][0] == "warning"
        for message in fitted.messages:
            assert all(len(part.content) < KEPT_CHARS + 450 for part in message.tool_results)
    if sent_tokens(request) <= room:
        assert fitted is request
        assert told == () or told == []
    for old, new in zip(request.messages, fitted.messages, strict=True):
        assert new is old or message_tokens(new) < message_tokens(old)


@given(transcripts(), st.integers(500, 20_000))
def test_what_is_shortened_does_not_depend_on_the_process(messages: list[ChatMessage], window: int) -> None:
    """A session that is asked step by step, and one loaded at its end, send the same."""
    care = ContextCare()
    for index, message in enumerate(messages):
        if message.role == "assistant":
            care.fit(request_of(messages[:index]), window)
    stepwise, _ = care.fit(request_of(messages), window)
    at_once, _ = ContextCare().fit(request_of(messages), window)
    assert stepwise.messages == at_once.messages


@pytest.mark.parametrize(
    "content", ["漢字" * 15_000, "漢字" * 3_000 + "y" * 40_000, "y" * 2_000 + "漢" * 30_000, "y" * 60_000]
)
def test_results_in_any_script_share_the_room(content: str) -> None:
    calls = [ToolCallPart(id=id, name="read", arguments={}, raw_arguments="{}") for id in "ab"]
    messages = [create_message("user", "go"), create_message("assistant", calls)]
    fitted, _ = ContextCare().fit(
        request_of([*messages, tool_message(calls[0], content), tool_message(calls[1], "y" * 60_000)]), 8_000
    )
    assert 1_600 < sent_tokens(fitted) <= 6_000
    assert all(message_tokens(message) > 400 for message in fitted.messages[2:])


def test_an_image_that_a_model_drew_counts_as_an_image() -> None:
    drawn = OpaquePart(api="gemini", value={"inlineData": {"mimeType": "image/png", "data": "A" * 1_000_000}})
    assert message_tokens(create_message("assistant", [drawn])) < 2 * IMAGE_TOKENS


def test_images_tools_and_the_prompt_count() -> None:
    call = ToolCallPart(id="c", name="look", arguments={}, raw_arguments="{}")
    seen = tool_message(call, "a picture", images=(PIXEL, PIXEL))
    messages = [create_message("user", "look"), create_message("assistant", [call]), seen]
    messages += [create_message("assistant", "I see"), create_message("user", "and?")]
    window = 2 * IMAGE_TOKENS + 6_000
    fits, _ = ContextCare().fit(request_of(messages), window)
    assert fits.messages[2] is seen
    system = create_message("system", "s" * 16_000)
    tool = ToolSchema(name="look", description="d" * 16_000)
    for crowded in (request_of([system, *messages]), request_of(messages, tools=(tool,))):
        fitted, _ = ContextCare().fit(crowded, window)
        (result,) = fitted.messages[-3].tool_results
        assert not result.images
        assert "2 images are left out" in result.content


@pytest.mark.parametrize("max_tokens", [8_000, 20_000])
def test_room_for_the_reply_that_was_asked_for(max_tokens: int) -> None:
    call = ToolCallPart(id="c", name="read", arguments={}, raw_arguments="{}")
    messages = [create_message("user", "go"), create_message("assistant", [call]), tool_message(call, "y" * 20_000)]
    plain, _ = ContextCare().fit(request_of(messages), 10_000)
    assert plain.messages[2] is messages[2]
    fitted, _ = ContextCare().fit(request_of(messages, max_tokens=max_tokens), 10_000)
    assert is_short(fitted.messages[2].content)


def test_a_step_costs_what_its_new_messages_cost() -> None:
    """Sizes are kept: a message is measured when it comes and when it is shortened, not at every step."""
    reads: list[str] = []

    class Watched(str):
        def __len__(self) -> int:
            reads.append("len")
            return super().__len__()

    call = ToolCallPart(id="c", name="read", arguments={}, raw_arguments="{}")
    messages = [create_message("user", "go")]
    care = ContextCare()
    for _ in range(200):
        messages += [create_message("assistant", [call]), tool_message(call, Watched("y" * 4_000))]
        care.fit(request_of(messages), 20_000)
    assert len(reads) < 10 * 200
