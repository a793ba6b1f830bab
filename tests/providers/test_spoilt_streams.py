"""Streams that are not as the formats say, on four wires: odd lines, errors in every shape, ends that are missing or
come twice, counts in odd forms, replies that say nothing."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from dialects import (
    APIS,
    MODELS,
    added,
    block,
    body,
    completed,
    delta,
    done,
    last,
    line,
    message,
    parts,
    reply,
    start,
    stop,
    text,
)
from model_server import ModelServer, streamed
from replies import wire_of
from stage import Stage
from written import played

from kestrel_nb.protocol.errors import ModelRequestError
from kestrel_nb.protocol.messages import OpaquePart
from kestrel_nb.protocol.sessions import Usage
from kestrel_nb.providers import GeminiModel

SSE = [api for api in APIS if api != "ollama"]
ODD = "a\u2028b\u2029c\u0085d\x0c\u00e9\u4e16\U0001f30d\r\n\x00"


# ---- lines ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", SSE)
@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: data.replace(b"\n", b"\r"),
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data.replace(b"data: ", b"data:"),
        lambda data: data.replace(b"data: ", b": a comment\n\nid: 1\x00\nretry: 5\nunknown: x\nunknown\ndata: "),
        lambda data: data.replace(b"data: ", b"event: ping\ndata: {}\n\nevent: ping\ndata:\n\ndata: "),
        lambda data: data.replace(b"data: {", b"data: {\ndata: "),
        lambda data: data.replace(b"data: {", b'data: 1\n\ndata: []\n\ndata: null\n\ndata: "x"\n\ndata: {'),
        lambda data: data + b"data: [DONE]\n\ndata: [DONE] \n\n",
        lambda data: data.replace(b"\n\n", b"\n\n\n\n"),
    ],
)
def test_lines_in_every_form(api: str, spoil: Any) -> None:
    found = played(wire_of(api), spoil(body(api, text(api, "Hel", ODD))))
    assert found.response is not None, found.error
    assert found.text == found.response.content == "Hel" + ODD


@pytest.mark.parametrize("api", APIS)
def test_raw_separators_of_unicode_end_no_line(api: str) -> None:
    data = body(api, text(api, "@")).replace(b"@", "a\u2028b\u2029c\u0085d".encode())
    found = played(wire_of(api), data)
    assert found.text == "a\u2028b\u2029c\u0085d"


@pytest.mark.parametrize("api", [api for api in APIS if api != "gemini"])  # whose end is that of the body
@pytest.mark.parametrize(
    "end", [b"data: garbage\n\n", b'data: {"error": {"message": "late"}}\n\n', b'{"error": "late"}\n', b"<html>"]
)
def test_what_follows_the_end_breaks_nothing(api: str, end: bytes) -> None:
    data = body(api, text(api, "Hello"))
    found = played(wire_of(api), data + end)
    assert found.response is not None, found.error
    assert found.response.content == "Hello"
    assert (
        played(wire_of(api), data + data[data.rindex(b"data: " if api != "ollama" else b'{"model"') :]).response
        is not None
    )


@pytest.mark.parametrize("api", SSE)
def test_the_name_of_an_event_stands_in_for_its_type(api: str) -> None:
    events = text(api, "Hello")
    data = b""
    for event in events:
        bare = {key: value for key, value in event.items() if key != "type"}
        data += f"event: {event.get('type', 'message')}\ndata: {json.dumps(bare)}\n\n".encode()
    assert played(wire_of(api), data).text == "Hello"


@pytest.mark.parametrize("api", APIS)
def test_a_very_long_line_and_very_many_pieces(api: str) -> None:
    long = "x" * 3_000_000
    data = body(api, text(api, long))
    parser = wire_of(api).parser()
    shown = "".join(delta.text for at in range(0, len(data), 65_536) for delta in parser.feed(data[at : at + 65_536]))
    assert shown == parser.end().content == long
    parser = wire_of(api).parser()
    assert len(parser.feed(body(api, text(api, *["ab"] * 20_000)))) >= 20_000
    assert parser.end().content == "ab" * 20_000


# ---- errors -----------------------------------------------------------------------------------------------------

ERRORS: list[tuple[str, dict[str, Any], int, bool]] = [
    ("anthropic", {"type": "error", "error": {"type": "overloaded_error", "message": "boo"}}, 529, True),
    ("anthropic", {"type": "error", "error": {"type": "invalid_request_error", "message": "boo"}}, 400, False),
    ("anthropic", {"type": "error", "error": {"type": "brand_new_error", "message": "boo"}}, 500, True),
    ("anthropic", {"type": "error", "error": {"code": 429, "message": "boo"}}, 429, True),
    ("anthropic", {"type": "error", "error": {"code": "403", "message": "boo"}}, 403, False),
    ("anthropic", {"type": "error", "error": "boo"}, 500, True),
    ("anthropic", {"type": "error", "message": "boo"}, 500, True),
    ("anthropic", {"type": "error", "error": {"error": {"message": "boo"}}}, 500, True),
    ("anthropic", {"error": ["boo"]}, 500, True),
    ("openai-responses", {"type": "error", "code": "server_error", "message": "boo", "param": None}, 500, True),
    ("openai-responses", {"type": "error", "code": "rate_limit_exceeded", "message": "boo"}, 429, True),
    ("openai-responses", {"type": "error", "code": "brand_new", "message": "boo"}, 400, False),
    ("openai-responses", {"type": "error", "code": None, "message": "boo"}, 500, True),
    ("openai-responses", {"type": "error", "error": {"type": "invalid_request_error", "message": "boo"}}, 400, False),
    ("openai-responses", {"type": "error", "error": "boo"}, 500, True),
    ("openai-responses", {"error": {"message": "boo", "code": 503}}, 503, True),
    ("openai-responses", {"error": "boo"}, 500, True),
    (
        "openai-responses",
        {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "boo"}}},
        500,
        True,
    ),
    (
        "openai-responses",
        {"type": "response.failed", "response": {"error": {"code": "invalid_prompt", "message": "boo"}}},
        400,
        False,
    ),
    ("gemini", {"error": {"code": 503, "message": "boo", "status": "UNAVAILABLE"}}, 503, True),
    ("gemini", {"error": {"message": "boo", "status": "RESOURCE_EXHAUSTED"}}, 429, True),
    ("gemini", {"error": {"message": "boo", "status": "INVALID_ARGUMENT"}}, 400, False),
    ("gemini", {"error": {"code": "400", "message": "boo"}}, 400, False),
    ("gemini", {"error": "boo"}, 500, True),
    ("gemini", {"type": "error", "message": "boo"}, 500, True),
    ("ollama", {"error": "boo"}, 500, True),
    ("ollama", {"error": {"message": "boo", "code": 400}}, 400, False),
    ("ollama", {"error": {"message": "boo", "type": "invalid_request_error"}}, 400, False),
    ("ollama", {"error": ["boo"], "done": True}, 500, True),
]


@pytest.mark.parametrize(("api", "event", "status", "retryable"), ERRORS)
def test_an_error_inside_a_stream_is_what_its_status_would_be(
    api: str, event: Any, status: int, retryable: bool
) -> None:
    before = text(api, "Hel")[:-1]
    for events, shown in (([event], ""), ([*before, event, *text(api, "never")], "Hel")):
        found = played(wire_of(api), body(api, events))
        assert found.error is not None
        assert "boo" in str(found.error)
        assert (found.error.status, found.error.retryable) == (status, retryable)
        assert found.text == shown


@pytest.mark.parametrize("api", SSE)
@pytest.mark.parametrize("data", ["boo", '"boo"', '{"message": "boo"}', '{"error": "boo"}'])
def test_an_event_that_is_named_error(api: str, data: str) -> None:
    found = played(wire_of(api), f"event: error\ndata: {data}\n\n".encode())
    assert found.error is not None
    assert "boo" in str(found.error)
    assert found.error.retryable


@pytest.mark.parametrize("api", APIS)
async def test_errors_before_the_first_token_are_tried_again_and_later_ones_are_not(api: str) -> None:
    error = next(event for of, event, _, retryable in ERRORS if of == api and retryable)
    async with ModelServer([reply(api, [error]), reply(api, text(api, "done"))]) as server:
        stage = Stage(MODELS[api]("m", base_url=server.url))
        assert (await stage.ask()).text == "done"
        assert [event.code for event in stage.of("notice")] == ["retry"]
        assert len(server.requests) == 2
    stage.check()
    async with ModelServer([reply(api, [*text(api, "Hel")[:-1], error]), reply(api, text(api, "done"))]) as server:
        stage = Stage(MODELS[api]("m", base_url=server.url))
        with pytest.raises(ModelRequestError, match="boo"):
            await stage.ask()
        assert len(server.requests) == 1
        assert (await stage.ask("again")).text == "done"
    stage.check()


@pytest.mark.parametrize("api", APIS)
async def test_a_stream_without_its_end_is_no_answer(api: str) -> None:
    events = [parts({"text": "Hello"})] if api == "gemini" else text(api, "Hello")[:-1]
    async with ModelServer([reply(api, events), reply(api, text(api, "done"))]) as server:
        stage = Stage(MODELS[api]("m", base_url=server.url))
        with pytest.raises(ModelRequestError, match="before it was complete"):
            await stage.ask()
        assert (await stage.ask("again")).text == "done"
    stage.check()
    assert "Hello" not in [said.content for said in stage.session.messages]


# ---- counts -----------------------------------------------------------------------------------------------------


def counted(api: str, *usages: Any) -> list[Any]:
    """A reply whose counts stand in its usual places: two for Anthropic and Gemini, one for the others."""
    first, second = usages[0], usages[-1]
    if api == "anthropic":
        ends = [
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": second},
            {"type": "message_stop"},
        ]
        return [{"type": "message_start", "message": {"usage": first}}, *text(api, "a")[:-2], *ends]
    if api == "openai-responses":
        return [completed(message("a"), usage=second)]
    if api == "gemini":
        return [parts({"text": "a"}, usageMetadata=first), parts(finish="STOP", usageMetadata=second)]
    return [line(content="a"), last(**(second if isinstance(second, dict) else {"prompt_eval_count": second}))]


NAMES = {
    "anthropic": ("input_tokens", "output_tokens"),
    "openai-responses": ("input_tokens", "output_tokens"),
    "gemini": ("promptTokenCount", "candidatesTokenCount"),
    "ollama": ("prompt_eval_count", "eval_count"),
}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("odd", [None, {}, [], "many", 3, True])
def test_counts_that_are_none(api: str, odd: Any) -> None:
    if api == "ollama" and odd == 3:
        return  # there it is one
    found = played(wire_of(api), body(api, counted(api, odd)))
    assert found.response is not None, found.error
    assert found.usage == Usage()
    asked, said = NAMES[api]
    for wrong in (None, -4, "7", 2.5, [7], {"a": 7}, True):
        found = played(wire_of(api), body(api, counted(api, {asked: wrong, said: 3})))
        assert found.usage == Usage(output_tokens=3)


@pytest.mark.parametrize("api", APIS)
def test_counts_that_are_whole_numbers_in_another_form(api: str) -> None:
    asked, said = NAMES[api]
    assert played(wire_of(api), body(api, counted(api, {asked: 7.0, said: 3}))).usage == Usage(
        input_tokens=7, output_tokens=3
    )


@pytest.mark.parametrize("api", ["anthropic", "gemini"])
def test_counts_that_stand_in_one_place_only(api: str) -> None:
    asked, said = NAMES[api]
    expected = Usage(input_tokens=7, output_tokens=3)
    for first, second in [
        ({asked: 7, said: 1}, {said: 3}),
        ({asked: 7, said: 3}, None),
        (None, {asked: 7, said: 3}),
        ({asked: 7, said: 1}, {asked: 0, said: 3}),
        ({asked: 7, said: 3}, {asked: None, said: None}),
        ({asked: 0, said: 0}, {asked: 7, said: 3}),
    ]:
        assert played(wire_of(api), body(api, counted(api, first, second))).usage == expected


# ---- replies that say little ------------------------------------------------------------------------------------

SILENT: dict[str, list[list[Any]]] = {
    "anthropic": [
        [{"type": "message_stop"}],
        stop("end_turn"),
        [*block(0, {"type": "text", "text": ""}), *stop("end_turn")],
        [*block(0, {"type": "text", "text": " \n"}), *stop("end_turn")],
        [*block(0, {"type": "thinking", "thinking": "hm"}), *stop("end_turn")],
        [*block(0, {"type": "thinking", "thinking": "hm", "signature": "s"}), *stop("end_turn")],
        [*block(0, {"type": "redacted_thinking", "data": "s"}), *stop("end_turn")],
        [*block(0, {"type": "text", "text": None}), *block(1, None), *block(2, {}), *stop(None)],
    ],
    "openai-responses": [
        [{"type": "response.completed"}],
        [completed()],
        [completed({"type": "message", "content": []})],
        [completed({"type": "message", "content": None})],
        [completed(message(" \n"))],
        [done(0, {"type": "reasoning", "id": "rs", "summary": []}), completed()],
        [done(0, {}), added(0, None), completed()],
    ],
    "gemini": [
        [{"candidates": [{"finishReason": "STOP"}]}],
        [parts(finish="STOP")],
        [parts({"text": ""}, finish="STOP")],
        [parts({"text": " \n"}, finish="STOP")],
        [parts({"text": "hm", "thought": True}, finish="STOP")],
        [parts({"text": "", "thoughtSignature": "s"}, finish="STOP")],
        [parts({}, finish="STOP")],
    ],
    "ollama": [
        [last()],
        [line(content=" \n"), last()],
        [line(thinking="hm"), last()],
        [{"done": True}],
        [line(content=None), last(None)],
    ],
}


@pytest.mark.parametrize(("api", "events"), [(api, events) for api, rows in SILENT.items() for events in rows])
async def test_a_reply_that_says_nothing_poisons_no_later_request(api: str, events: list[Any]) -> None:
    async with ModelServer([reply(api, events), reply(api, text(api, "done"))]) as server:
        stage = Stage(MODELS[api]("m", base_url=server.url))
        assert not (await stage.ask()).text.strip()
        assert (await stage.ask("again")).text == "done"
        sent = server.requests[1].json
    stage.check()
    if api == "anthropic":
        assert all(
            said["content"] and all(b.get("text", "x").strip() for b in said["content"]) for said in sent["messages"]
        )
        roles = [said["role"] for said in sent["messages"]]
        assert all(one != other for one, other in pairwise(roles))
    elif api == "openai-responses":
        assert all(said.get("content") for said in sent["input"] if said["type"] == "message")
        assert sent["input"][-2]["type"] != "reasoning"
    elif api == "gemini":
        assert all(said["parts"] for said in sent["contents"])


# ---- blocks of the server's own, refusals, images ---------------------------------------------------------------

OWN: dict[str, list[Any]] = {
    "anthropic": [
        *block(
            0,
            {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"q":1}'},
        ),
        *block(
            1,
            {
                "type": "web_search_tool_result",
                "tool_use_id": "srv",
                "content": [{"type": "x", "encrypted_content": "SECRET"}],
            },
        ),
        *block(2, {"type": "text", "text": "Found."}),
        *stop("end_turn"),
    ],
    "openai-responses": [
        completed(
            {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "SECRET"}},
            {"type": "image_generation_call", "id": "ig", "result": "SECRET"},
            message("Found."),
        )
    ],
    "gemini": [
        parts({"inlineData": {"mimeType": "image/png", "data": "SECRET"}}, {"executableCode": {"code": "SECRET"}}),
        parts({"text": "Found."}, finish="STOP"),
    ],
}


@pytest.mark.parametrize("api", OWN)
async def test_what_only_the_server_understands_goes_back_to_it_alone(api: str) -> None:
    async with ModelServer([reply(api, OWN[api]), reply(api, text(api, "done"))]) as server:
        stage = Stage(MODELS[api]("m", base_url=server.url, id="here"))
        other = MODELS[api]("m", base_url=server.url.replace("127.0.0.1", "localhost"), id="there")
        stage.models.register(other)
        assert (await stage.ask()).text == "Found."
        assert any(isinstance(part, OpaquePart) for said in stage.session.messages for part in said.parts)
        for id, there in (("here", True), ("there", False), ("here", True)):
            stage.session.set_model(id)
            assert (await stage.ask("more")).text == "done"
            assert (b"SECRET" in server.requests[-1].body) is there
    stage.check()


REFUSED: dict[str, list[list[Any]]] = {
    "anthropic": [[*block(0, {"type": "text", "text": "No."}), *stop("refusal")]],
    "openai-responses": [
        [completed({"type": "message", "content": [{"type": "refusal", "refusal": "No."}]})],
        [{"type": "response.refusal.delta", "delta": "No."}, completed()],
        [
            done(0, message("No.")),
            {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "content_filter"}}},
        ],
    ],
    "gemini": [
        [parts({"text": "No."}, finish=word)] for word in ("SAFETY", "safety", "PROHIBITED_CONTENT", "IMAGE_OTHER")
    ],
}


@pytest.mark.parametrize(("api", "events"), [(api, events) for api, rows in REFUSED.items() for events in rows])
def test_refusals(api: str, events: list[Any]) -> None:
    found = played(wire_of(api), body(api, events))
    assert found.response is not None, found.error
    assert found.text == found.response.content == "No."
    assert found.response.finish_reason == "content_filter"


@pytest.mark.parametrize(
    ("events", "shown"),
    [
        ([delta(3, {"type": "text_delta", "text": "Hi"}), *stop("end_turn")], "Hi"),
        ([delta(0, {"text": "Hi"}), *stop("end_turn")], "Hi"),
        ([start(0, {"text": "H"}), delta(0, {"type": "text_delta", "text": "i"}), *stop("end_turn")], "Hi"),
        (
            [
                start(0, {"type": "text"}),
                start(1, {"type": "thinking"}),
                delta(0, {"type": "text_delta", "text": "Hi"}),
                *stop(),
            ],
            "Hi",
        ),
        ([{"type": "message", "content": "Hi", "stop_reason": "end_turn"}], "Hi"),
        ([{"type": "message", "content": [{"type": "text", "text": "Hi"}]}], "Hi"),
    ],
)
def test_text_of_anthropic_in_odd_forms(events: list[Any], shown: str) -> None:
    found = played(wire_of("anthropic"), body("anthropic", events))
    assert found.response is not None, found.error
    assert found.text == found.response.content == shown
    assert found.response.finish_reason == "stop"


@pytest.mark.parametrize(
    "events",
    [
        [{"type": "response.output_text.done", "text": "Hi"}, completed()],
        [
            {"type": "response.output_text.delta", "delta": "H"},
            {"type": "response.output_text.delta", "delta": "i"},
            done(0, {"type": "message"}),
            completed(),
        ],
        [done(0, {"type": "message", "content": "Hi"}), completed()],
        [done(0, {"content": [{"type": "output_text", "text": "Hi"}]}), completed()],
        [{"output": [message("Hi")]}],
        [done(0, message("Hi")), done(0, message("Hi")), completed()],
        [added(0, {**message(""), "content": []}), done(0, message("Hi")), completed(message("Hi"))],
    ],
)
def test_text_of_responses_in_odd_forms(events: list[Any]) -> None:
    found = played(wire_of("openai-responses"), body("openai-responses", events))
    assert found.response is not None, found.error
    assert found.text == found.response.content == "Hi"
    assert found.response.finish_reason == "stop"


@pytest.mark.parametrize("api", APIS)
def test_halves_of_a_character_in_two_pieces_of_text(api: str) -> None:
    found = played(wire_of(api), body(api, [*text(api, "a\ud83d", "\ude00b", "\ud83d")]))
    assert found.response is not None, found.error
    assert found.response.content == "a\U0001f600b\ufffd"
    assert found.text == "a\U0001f600b"


async def test_a_body_in_another_framing_is_read_or_told() -> None:
    for api in APIS:
        stream = body(api, text(api, "Hello"))
        for kind in ("text/event-stream", "application/json", "text/plain", "application/x-ndjson"):
            async with ModelServer([streamed(stream, content_type=kind)]) as server:
                stage = Stage(MODELS[api]("m", base_url=server.url))
                assert (await stage.ask()).text == "Hello"


async def test_a_malformed_call_of_gemini_is_asked_for_again() -> None:
    malformed = parts(finish="MALFORMED_FUNCTION_CALL", usageMetadata={})
    async with ModelServer([reply("gemini", [malformed]), reply("gemini", text("gemini", "done"))]) as server:
        stage = Stage(GeminiModel("m", base_url=server.url))
        assert (await stage.ask()).text == "done"
        assert len(server.requests) == 2
