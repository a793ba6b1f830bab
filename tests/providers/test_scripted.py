"""ScriptedModel: what it plays, how it streams, how it ends."""

from __future__ import annotations

import asyncio
import time

import pytest

from kestrel_nb.protocol.codec import parse_call
from kestrel_nb.protocol.errors import CancelledByUser, ModelRequestError
from kestrel_nb.protocol.messages import create_message
from kestrel_nb.protocol.sessions import Usage
from kestrel_nb.runtime.models import CompletionRequest, TokenDelta
from kestrel_nb.runtime.signals import CancelSignal
from kestrel_nb.testing import Reply, ScriptedModel


def request(text: str = "hello", signal: CancelSignal | None = None) -> CompletionRequest:
    return CompletionRequest(model="scripted", messages=(create_message("user", text),), signal=signal)


async def test_replies_are_played_in_order_and_requests_are_kept() -> None:
    model = ScriptedModel(["one", Reply(content="two", reasoning="why", usage=Usage(input_tokens=3))])
    first, second = request("a"), request("b")
    assert (await model.generate(first)).content == "one"
    answer = await model.generate(second)
    assert (answer.content, answer.reasoning, answer.usage.input_tokens) == ("two", "why", 3)
    assert model.requests == [first, second]
    model.assert_complete()


async def test_calls_have_their_own_ids_over_the_life_of_the_model() -> None:
    ready = parse_call("mine", "finish", '{"summary":"x"}')
    model = ScriptedModel(
        [Reply(tool_calls=[("grep", {"pattern": "a"}), ("grep", "{broken")]), Reply(tool_calls=[ready, ("glob", {})])]
    )
    first, second = await model.generate(request()), await model.generate(request())
    assert [call.id for call in first.tool_calls] == ["call_1", "call_2"]
    assert [call.id for call in second.tool_calls] == ["mine", "call_3"]
    assert first.finish_reason == "tool_calls"
    assert first.tool_calls[0].arguments == {"pattern": "a"}
    assert first.tool_calls[1].arguments is None
    assert first.tool_calls[1].raw_arguments == "{broken"


async def test_an_id_of_the_transcript_is_not_used_again() -> None:
    old = create_message("assistant", [parse_call("call_1", "glob", "{}")])
    asked = CompletionRequest(model="scripted", messages=(create_message("user", "x"), old))
    answer = await ScriptedModel([Reply(tool_calls=[("glob", {})])]).generate(asked)
    assert answer.tool_calls[0].id == "call_2"


async def test_everything_streams_in_deltas_of_the_given_size() -> None:
    seen: list[TokenDelta] = []
    model = ScriptedModel([Reply("abcde", reasoning="xyz", tool_calls=[("grep", {"p": 1})])], delta_chars=2)
    await model.generate(request(), seen.append)
    assert [d.reasoning for d in seen if d.reasoning] == ["xy", "z"]
    assert [d.text for d in seen if d.text] == ["ab", "cd", "e"]
    assert "".join(d.arguments for d in seen) == '{"p":1}'
    assert {(d.call_id, d.tool) for d in seen if d.call_id} == {("call_1", "grep")}


async def test_exact_deltas() -> None:
    seen: list[TokenDelta] = []
    answer = await ScriptedModel([Reply(deltas=["a", "", "bcd"])]).generate(request(), seen.append)
    assert [d.text for d in seen] == ["a", "", "bcd"]
    assert answer.content == "abcd"


async def test_a_callable_sees_the_request() -> None:
    model = ScriptedModel(
        [lambda asked: asked.messages[-1].content.upper(), lambda asked: Reply("r", finish_reason="length")]
    )
    assert (await model.generate(request("loud"))).content == "LOUD"
    assert (await model.generate(request())).finish_reason == "length"


async def test_errors_before_and_after_the_first_token() -> None:
    seen: list[TokenDelta] = []
    busy = ModelRequestError("busy", status=429, retryable=True)
    model = ScriptedModel([Reply(error=busy), Reply(deltas=["a", "b", "c"], error_after=2), "fine"])
    with pytest.raises(ModelRequestError, match="busy"):
        await model.generate(request(), seen.append)
    assert seen == []
    with pytest.raises(ModelRequestError, match="broke off after 2"):
        await model.generate(request(), seen.append)
    assert [d.text for d in seen] == ["a", "b"]
    assert (await model.generate(request())).content == "fine"


async def test_no_reply_left_is_an_error_that_says_so() -> None:
    model = ScriptedModel([], id="empty")
    with pytest.raises(ModelRequestError, match=r'"empty" has no reply left.*given 0.*request 1') as caught:
        await model.generate(request())
    assert caught.value.retryable is False


async def test_assert_complete_names_what_was_not_played() -> None:
    model = ScriptedModel(["first", "second", Reply(tool_calls=[("grep", {})]), Reply(error=ValueError("x"))])
    await model.generate(request())
    with pytest.raises(AssertionError, match=r"3 of 4 replies .* 2: 'second'; 3: call of grep; 4: error ValueError"):
        model.assert_complete()


async def test_before_is_awaited_ahead_of_the_first_token() -> None:
    order: list[str] = []

    async def wait() -> None:
        order.append("before")

    await ScriptedModel([Reply("x", before=wait)]).generate(request(), lambda d: order.append(d.text))
    assert order == ["before", "x"]


@pytest.mark.parametrize(
    "reply", [Reply("abc", before=30), Reply("abc", delay=30), Reply(before=lambda: asyncio.sleep(30))]
)
async def test_a_cancelled_signal_ends_every_wait_at_once(reply: Reply) -> None:
    signal = CancelSignal()
    work = asyncio.ensure_future(ScriptedModel([reply]).generate(request(signal=signal)))
    await asyncio.sleep(0.01)
    began = time.monotonic()
    signal.cancel("stop")
    with pytest.raises(CancelledByUser, match="stop"):
        await work
    assert time.monotonic() - began < 5


async def test_task_cancellation_goes_through() -> None:
    work = asyncio.ensure_future(ScriptedModel([Reply("abc", before=30)]).generate(request(signal=CancelSignal())))
    await asyncio.sleep(0.01)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work


async def test_a_cancelled_request_plays_nothing() -> None:
    signal = CancelSignal()
    signal.cancel()
    model = ScriptedModel(["x"])
    with pytest.raises(CancelledByUser):
        await model.generate(request(signal=signal))
    assert model.requests == []


def test_a_bare_string_is_refused() -> None:
    with pytest.raises(TypeError, match="put the text in a list"):
        ScriptedModel("text")
