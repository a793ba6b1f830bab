"""Ollama's chat: requests, replies (the streams were written by hand; see the notice beside them), and its models."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_server import ModelServer, whole

from kestrel_nb.protocol.errors import ModelRequestError, UsageError
from kestrel_nb.protocol.messages import (
    ChatMessage,
    ImagePart,
    OpaquePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    create_message,
)
from kestrel_nb.protocol.sessions import ModelInfo, Usage
from kestrel_nb.protocol.tools import ToolSchema
from kestrel_nb.providers import OllamaModel
from kestrel_nb.providers.ollama import OllamaWire
from kestrel_nb.runtime.models import CompletionRequest, CompletionResponse, TokenDelta

WRITTEN = Path(__file__).parents[1] / "data" / "wire-written"
STREAMS = {path.name: path.read_bytes() for path in sorted(WRITTEN.glob("ollama-*.ndjson"))}
PIXEL = "iVBORw0KGgo="
LOOK = ToolSchema(name="look", description="Looks", parameters={"type": "object", "properties": {}})
WIRE = OllamaWire("qwen3", stamp="ollama")


def said(*parts: Part) -> ChatMessage:
    return replace(create_message("assistant", parts), provider="ollama")


def asked(*parts: Part | str) -> ChatMessage:
    return create_message("user", [TextPart(text=part) if isinstance(part, str) else part for part in parts])


def call(id: str, raw: str, arguments: dict[str, Any] | None) -> ToolCallPart:
    return ToolCallPart(id=id, name="look", arguments=arguments, raw_arguments=raw)


def result(id: str, content: str, **more: Any) -> ChatMessage:
    return create_message("tool", [ToolResultPart(call_id=id, name="look", content=content, **more)])


EVERYTHING = (
    create_message("system", "Be brief."),
    asked("What is this?", ImagePart(data=PIXEL), ImagePart(url=f"data:image/png;base64,{PIXEL}")),
    said(
        ReasoningPart(text="Let me "),
        ReasoningPart(text="see."),
        TextPart(text="I look."),
        OpaquePart(api="anthropic", value={"type": "x"}),
        call("call_1", '{"x":  1.0}', {"x": 1.0}),
        call("call_2", '{"x": ', None),
        call("call_3", "", {}),
    ),
    result("call_1", "one", images=(ImagePart(data=PIXEL), ImagePart(url="https://example.org/a.png"))),
    result("call_2", "the arguments are not valid JSON", is_error=True),
    result("call_3", "", images=(ImagePart(data=PIXEL),)),
    said(TextPart(text="Done.")),
    asked("Go on."),
)
SENT: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is this?", "images": [PIXEL, PIXEL]},
    {
        "role": "assistant",
        "content": "I look.",
        "thinking": "Let me see.",
        "tool_calls": [
            {"function": {"name": "look", "arguments": {"x": 1.0}}},
            {"function": {"name": "look", "arguments": {}}},
            {"function": {"name": "look", "arguments": {}}},
        ],
    },
    {
        "role": "tool",
        "tool_name": "look",
        "content": "one\n(an image, shown in the next user message)\n(an image at https://example.org/a.png)",
    },
    {"role": "tool", "tool_name": "look", "content": "Error: the arguments are not valid JSON"},
    {"role": "tool", "tool_name": "look", "content": "(an image, shown in the next user message)"},
    {"role": "user", "content": "Images that the tools above gave:", "images": [PIXEL, PIXEL]},
    {"role": "assistant", "content": "Done."},
    {"role": "user", "content": "Go on."},
]


def body(*messages: ChatMessage, wire: OllamaWire = WIRE, **options: Any) -> Any:
    return json.loads(wire.encode(CompletionRequest(model="ours", messages=messages, **options), stream=True).body)


def read(stream: bytes, cuts: Sequence[int] = ()) -> tuple[list[TokenDelta], CompletionResponse | ModelRequestError]:
    """What ``stream``, cut at ``cuts``, shows and gives."""
    parser = WIRE.parser()
    deltas: list[TokenDelta] = []
    try:
        for start, end in itertools.pairwise([0, *sorted(cuts), len(stream)]):
            deltas += parser.feed(stream[start:end])
        return deltas, parser.end()
    except ModelRequestError as error:
        return deltas, error


def reply(name: str) -> CompletionResponse:
    response = read(STREAMS[name])[1]
    assert isinstance(response, CompletionResponse), response
    return response


def failure(stream: bytes) -> ModelRequestError:
    error = read(stream)[1]
    assert isinstance(error, ModelRequestError), error
    return error


# ---- requests ---------------------------------------------------------------------------------------------------


def test_a_conversation_with_everything_in_it() -> None:
    wire = OllamaWire("qwen3", stamp="ollama", num_ctx=32768, extra_body={"think": True, "options": {"top_k": 5}})
    request = CompletionRequest(model="x", messages=EVERYTHING, tools=(LOOK,), temperature=0.5, max_tokens=99)
    sent = wire.encode(request, stream=True)
    assert sent.path == "/api/chat"
    parameters = {"type": "object", "properties": {}}
    assert json.loads(sent.body) == {
        "model": "qwen3",
        "messages": SENT,
        "tools": [{"type": "function", "function": {"name": "look", "description": "Looks", "parameters": parameters}}],
        "stream": True,
        "options": {"temperature": 0.5, "num_predict": 99, "top_k": 5, "num_ctx": 32768},
        "think": True,
    }
    assert b'"arguments":{"x":  1.0}' in sent.body  # as the model wrote it


def test_what_is_not_asked_for_is_not_sent_but_streaming_is_said_either_way() -> None:
    assert body(asked("a")) == {"model": "qwen3", "messages": [{"role": "user", "content": "a"}], "stream": True}
    assert b'"stream":false' in WIRE.encode(CompletionRequest(model="x", messages=(asked("a"),)), stream=False).body


def test_another_servers_thoughts_are_not_sent() -> None:
    sent = body(*EVERYTHING, wire=OllamaWire("qwen3", stamp="ollama@elsewhere"))["messages"]
    assert sent == [{key: value for key, value in message.items() if key != "thinking"} for message in SENT]
    thought = said(ReasoningPart(text="hm"))
    assert len(body(asked("a"), thought, wire=OllamaWire("q", stamp="other"))["messages"]) == 1


def test_images_of_the_last_tools_come_at_the_end() -> None:
    assert body(*EVERYTHING[:-2])["messages"] == SENT[:-2]


def test_an_image_by_url_is_refused_with_what_to_do() -> None:
    with pytest.raises(UsageError, match="not by URL; download the image"):
        body(asked("a", ImagePart(url="https://example.org/a.png")))


@pytest.mark.parametrize("wrong", [0, -4096, 2.5, "8k", True])
def test_a_context_that_can_not_be_is_refused_at_once(wrong: Any) -> None:
    with pytest.raises(UsageError, match="num_ctx is a number of tokens"):
        OllamaWire("m", stamp="ollama", num_ctx=wrong)


def test_earlier_messages_keep_their_bytes_from_request_to_request() -> None:
    wire = OllamaWire("m", stamp="ollama")
    first = wire.encode(CompletionRequest(model="m", messages=EVERYTHING[:-2]), stream=True).body
    second = wire.encode(CompletionRequest(model="m", messages=EVERYTHING), stream=True).body
    assert second.startswith(first.removesuffix(b"]}"))


# ---- replies ----------------------------------------------------------------------------------------------------


def test_thoughts_text_and_calls() -> None:
    response = reply("ollama-thinking.ndjson")
    made, given = response.tool_calls
    assert response.parts[:2] == (ReasoningPart(text="Let me see."), TextPart(text="I look."))
    assert (made.arguments, made.raw_arguments, given.arguments) == ({"x": 1}, '{"x":1}', {})
    assert made.id.startswith("call_")
    assert given.id == "call_given"
    assert (response.finish_reason, response.provider) == ("tool_calls", "ollama")
    assert response.usage == Usage(input_tokens=12, output_tokens=34)


def test_separators_of_unicode_do_not_end_a_line_and_the_last_line_may_lack_its_end() -> None:
    response = reply("ollama-raw-separators.ndjson")
    assert (response.content, response.finish_reason) == ("a\u2028b\u2029c\u0085d", "length")


@pytest.mark.parametrize(("name", "shown"), [("first", ""), ("after-text", "Half a sen")])
def test_an_error_line_ends_the_reply(name: str, shown: str) -> None:
    deltas, error = read(STREAMS[f"ollama-error-{name}.ndjson"])
    assert isinstance(error, ModelRequestError)
    assert error.retryable
    assert "unexpected" in str(error)
    assert "".join(delta.text for delta in deltas) == shown


@pytest.mark.parametrize(("code", "retryable"), [(503, True), (400, False), ("invalid", True)])
def test_an_error_line_may_hold_an_object(code: Any, retryable: bool) -> None:
    error = failure(json.dumps({"error": {"message": "no", "code": code}}).encode() + b"\n")
    assert (error.retryable, str(error).partition(": ")[2].startswith("no")) == (retryable, True)


def test_a_model_that_was_only_loaded_gave_no_answer() -> None:
    error = failure(STREAMS["ollama-load.ndjson"])
    assert error.retryable
    assert "only loaded the model" in str(error)


def test_counts_may_be_missing() -> None:
    response = reply("ollama-no-counts.ndjson")
    assert (response.content, response.finish_reason, response.usage) == ("ok", "stop", Usage())


@pytest.mark.parametrize("name", STREAMS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_stream_cut_anywhere_gives_the_same(name: str, data: st.DataObject) -> None:
    stream = STREAMS[name]
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=12))
    assert told(read(stream, cuts)) == told(read(stream)) == told(read(stream, range(1, len(stream))))


@pytest.mark.parametrize("name", [name for name in STREAMS if "error" not in name])
def test_a_stream_that_ends_early_is_never_an_answer(name: str) -> None:
    stream = STREAMS[name].rstrip()
    assert all(failure(stream[:end]).retryable for end in range(len(stream)))


def told(outcome: tuple[list[TokenDelta], CompletionResponse | ModelRequestError]) -> Any:
    """An outcome that can be compared: ids that were made are numbered."""
    deltas, end = outcome
    ids: dict[str, str] = {"": ""}
    deltas = [replace(delta, call_id=ids.setdefault(delta.call_id, f"#{len(ids)}")) for delta in deltas]
    if isinstance(end, ModelRequestError):
        return deltas, str(end), end.status
    return deltas, [replace(p, id=ids[p.id]) if isinstance(p, ToolCallPart) else p for p in end.parts], end.usage


ODD: list[Any] = [
    None,
    3,
    [],
    {},
    {"message": "text"},
    {"message": {"content": ["x"], "thinking": 4}},
    {"message": {"tool_calls": [None, {"function": None}, {"function": {"name": [], "arguments": [1]}}]}},
    {"message": {"tool_calls": {"function": {}}}},
    {"done": "true"},
    {"error": None},
    {"done": True, "done_reason": 5, "eval_count": "many"},
]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(ODD), max_size=8))
def test_lines_of_any_form_give_a_reply_or_a_model_error(items: list[Any]) -> None:
    stream = b"".join(json.dumps(item).encode() + b"\n" for item in [*items, {"done": True}])
    deltas, end = read(stream)
    assert isinstance(end, (CompletionResponse, ModelRequestError))
    assert all(delta != TokenDelta() for delta in deltas)


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b"{}", b"\xff", b"[" * 5000, b'{"error": "no"}'])
def test_what_is_no_reply_is_a_model_error(body: bytes) -> None:
    with pytest.raises(ModelRequestError):
        WIRE.whole(body)


def test_a_whole_reply_may_stand_on_several_lines() -> None:
    body = {"message": {"role": "assistant", "content": "ok"}, "done": True, "done_reason": "stop"}
    assert WIRE.whole(json.dumps(body, indent=1).encode()).content == "ok"


# ---- models -----------------------------------------------------------------------------------------------------

TAGS = {
    "models": [
        {
            "name": "qwen3:8b",
            "model": "qwen3:8b",
            "details": {"parameter_size": "8.2B", "quantization_level": "Q4_K_M"},
        },
        {"model": "old:latest", "details": None},
        {"name": ""},
        None,
    ]
}
SHOWN = {
    "capabilities": ["completion", "tools", "thinking"],
    "model_info": {"general.architecture": "qwen3", "clip.vision.context_length": 7, "qwen3.context_length": 40960},
}


async def test_the_list_asks_for_what_each_model_can_do() -> None:
    async with ModelServer([whole(TAGS), whole(SHOWN), whole({"error": "gone"}, 404)]) as server:
        models = await OllamaModel("x", base_url=server.url).list_models()
    assert models == [
        ModelInfo(
            id="ollama:qwen3:8b",
            provider="ollama",
            label="qwen3:8b (8.2B, Q4_K_M)",
            context_window=40960,
            supports_tools=True,
            supports_reasoning=True,
            supports_images=False,
        ),
        ModelInfo(id="ollama:old:latest", provider="ollama", label="old:latest"),
    ]
    assert [(asked.method, asked.target) for asked in server.requests] == [
        ("GET", "/api/tags"),
        ("POST", "/api/show"),
        ("POST", "/api/show"),
    ]
    assert server.requests[1].json == {"model": "qwen3:8b"}


@pytest.mark.parametrize("shown", [None, [], {"model_info": None, "capabilities": "tools"}, {"model_info": {"a": 1}}])
def test_details_that_say_nothing_change_nothing(shown: Any) -> None:
    info = ModelInfo(id="m", provider="ollama", context_window=5)
    assert WIRE.detailed(info, shown) == info
    assert WIRE.models(shown) == ((), None)


def test_a_window_is_found_without_the_architectures_name() -> None:
    shown = {"model_info": {"general.parameter_count": 1, "llama.context_length": 8192}}
    assert WIRE.detailed(ModelInfo(id="m", provider="ollama"), shown).context_window == 8192


async def test_a_model_that_was_not_pulled_is_told_with_the_command() -> None:
    request = CompletionRequest(model="x", messages=(asked("a"),))
    async with ModelServer([whole({"error": "model 'qwen9' not found"}, 404), whole(b"404 page", 404)]) as server:
        model = OllamaModel("qwen9", base_url=server.url)
        with pytest.raises(ModelRequestError, match=r"model 'qwen9' not found.*run: ollama pull qwen9") as caught:
            await model.generate(request)
        assert not caught.value.retryable
        with pytest.raises(ModelRequestError) as other:
            await model.generate(request)
    assert "pull" not in str(other.value)


async def test_no_key_is_needed_and_one_that_is_given_goes_along() -> None:
    request = CompletionRequest(model="x", messages=(asked("a"),))
    answer = whole(STREAMS["ollama-no-counts.ndjson"], headers={"content-type": "application/x-ndjson"})
    async with ModelServer([answer]) as server:
        for key in (None, "dummy"):
            response = await OllamaModel("qwen3", base_url=server.url, api_key=key).generate(request)
            assert response.content == "ok"
    assert [asked.headers.get("authorization") for asked in server.requests] == [None, "Bearer dummy"]
