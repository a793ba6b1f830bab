"""Every recorded reply through its parser, cut in every way: text, calls, finish, usage or error must be those of the
row, however the bytes come. Rows that are not run are named in ``excluded.json`` with the reason."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest
from replies import FOLDER, ROWS, STAMP, WIRES, Played, Recorded, play, recorded

from kestrel_nb.protocol.errors import ModelRequestError
from kestrel_nb.protocol.messages import ReasoningPart, create_message
from kestrel_nb.protocol.sessions import Usage
from kestrel_nb.runtime.models import CompletionRequest, CompletionResponse
from kestrel_nb.runtime.prompts import assistant_message
from kestrel_nb.runtime.retry import model_http_error

EXCLUDED: dict[str, str] = json.loads((FOLDER / "excluded.json").read_text("utf-8"))
RUN = [row for row in ROWS if row["file"] not in EXCLUDED]
REFUSED = [row["file"] for row in RUN if row["status"] >= 400]
WHOLE = [row["file"] for row in RUN if row["status"] < 400 and row["kind"].endswith("nonstream")]
STREAMED = [row["file"] for row in RUN if row["status"] < 400 and not row["kind"].endswith("nonstream")]


def test_every_row_is_run_or_excluded_with_a_reason() -> None:
    files = [row["file"] for row in ROWS]
    assert len(files) == len(set(files)) == 107
    assert sorted([*REFUSED, *WHOLE, *STREAMED, *EXCLUDED]) == sorted(files)
    assert all(EXCLUDED.values())
    assert {row["provider"] for row in ROWS} == set(WIRES)


def test_every_recording_has_a_row() -> None:
    rows = {row["file"] for row in ROWS}
    beside = (".headers", ".request.json", ".jsonl", "NOTICE", "excluded.json")
    assert {path.name for path in FOLDER.iterdir() if not path.name.endswith(beside)} == rows


@pytest.mark.parametrize("file", REFUSED)
def test_a_refusal_says_what_the_server_said(file: str) -> None:
    answer = recorded(file)
    expected = answer.row["error"]
    error = model_http_error(answer.row["status"], answer.body.decode(), answer.headers, "the server")
    assert expected["kind"] == "http"
    assert (error.status, error.retryable) == (expected["status"], expected["retryable"])
    assert error.retry_after_ms == expected["retry_after_ms"]
    assert expected["message"] in str(error)


@pytest.mark.parametrize("file", WHOLE)
def test_a_reply_in_one_piece(file: str) -> None:
    answer = recorded(file)
    check(answer.row, Played(response=answer.wire.whole(answer.body)))
    for end in range(len(answer.body.rstrip())):
        with pytest.raises(ModelRequestError) as caught:
            answer.wire.whole(answer.body[:end])
        assert caught.value.code in ("broken_reply", "truncated_reply")


@pytest.mark.parametrize("file", STREAMED)
def test_a_streamed_reply(file: str) -> None:
    answer = recorded(file)
    played = play(answer.wire, [answer.body])
    check(answer.row, played)
    check_deltas(answer.row, played)


@pytest.mark.parametrize("file", STREAMED)
def test_in_single_bytes_and_in_any_pieces_it_is_the_same(file: str) -> None:
    answer = recorded(file)
    expected = play(answer.wire, [answer.body]).outcome()
    assert play(answer.wire, (answer.body[i : i + 1] for i in range(len(answer.body)))).outcome() == expected
    dice = random.Random(file)
    for _ in range(20):
        assert play(answer.wire, cut(answer.body, dice)).outcome() == expected


@pytest.mark.parametrize("file", STREAMED)
def test_cut_in_two_at_every_byte_it_is_the_same(file: str) -> None:
    answer = recorded(file)
    body = answer.body
    expected = play(answer.wire, [body]).outcome()
    for place in range(1, len(body)):
        assert play(answer.wire, (body[:place], body[place:])).outcome() == expected, place


@pytest.mark.parametrize("file", STREAMED)
def test_cut_off_at_any_byte_it_is_an_error_or_all_was_said(file: str) -> None:
    """No half of a reply passes for a reply: what was said before the end stays text, and no half call is one."""
    answer = recorded(file)
    full = play(answer.wire, [answer.body])
    for place in range(len(answer.body)):
        played = play(answer.wire, [answer.body[:place]])
        if played.response is None:
            assert played.error is not None
            assert full.text.startswith(played.text)
        else:
            calls = [(call.name, call.raw_arguments) for call in played.tool_calls]
            assert full.response is not None
            assert calls == [(call.name, call.raw_arguments) for call in full.tool_calls]
            assert played.response.content == full.response.content


def cut(body: bytes, dice: random.Random) -> Iterator[bytes]:
    start = 0
    while start < len(body):
        size = dice.choice((1, 2, 3, 7, 16, 61, 200, 1000))
        yield body[start : start + size]
        start += size


# ---- what a row says ---------------------------------------------------------------------------------------------


def check(row: dict[str, Any], played: Played) -> None:
    """Everything that ``row`` says of the reply."""
    if row["error"] is not None:
        check_failure(row, played)
        return
    response = played.response
    assert response is not None, played.error
    assert response.content == row["text"]
    assert hashlib.sha256(response.content.encode()).hexdigest() == row["text_sha256"]
    assert (response.reasoning or None) == row["reasoning"]
    check_calls(row, response)
    assert response.finish_reason == row["finish"]
    usage = row["usage"] or {"input": 0, "output": 0}
    assert (response.usage.input_tokens, response.usage.output_tokens) == (usage["input"], usage["output"])
    assert all(count >= 0 for count in asdict(response.usage).values())
    assert row["usage"] is not None or response.usage == Usage()
    assert response.provider == STAMP.format(api=row["provider"])
    if signature := row.get("thinking_signature"):
        check_signature(row, response, signature)


def check_calls(row: dict[str, Any], response: CompletionResponse) -> None:
    assert [(call.name, call.arguments) for call in response.tool_calls] == [
        (call["name"], call["args"]) for call in row["tool_calls"]
    ]
    ids = [call.id for call in response.tool_calls]
    assert all(ids)
    assert len(set(ids)) == len(ids)
    for call, expected in zip(response.tool_calls, row["tool_calls"], strict=True):
        assert bool(call.problem) == bool(expected.get("invalid"))
        if "raw_arguments" in expected:
            assert call.raw_arguments == expected["raw_arguments"]


def check_failure(row: dict[str, Any], played: Played) -> None:
    """A cut stream and an event that is no JSON are told apart; what was said stays, and no call comes out."""
    codes = {"truncated_stream": "truncated_reply", "malformed_event": "broken_reply"}
    assert played.response is None
    assert played.error is not None
    assert played.error.code == codes[row["error"]["kind"]]
    assert played.error.retryable
    assert played.text == (row["text"] or "")
    assert played.reasoning == (row["reasoning"] or "")
    assert [name for name, _ in played.calls.values()] == row.get("partial_calls", [])


def check_signature(row: dict[str, Any], response: CompletionResponse, signature: str) -> None:
    """The signature is kept, and goes back to its own server alone."""
    assert any(signature in json.dumps(dict(part.extra)) for part in response.parts if isinstance(part, ReasoningPart))
    said = assistant_message(response)
    answer: Recorded = recorded(row["file"])
    for message, sent in ((said, True), (create_message("assistant", said.parts), False)):
        request = CompletionRequest(model="m", messages=(create_message("user", "hello"), message))
        assert (signature.encode() in answer.wire.encode(request, stream=True).body) is sent


def check_deltas(row: dict[str, Any], played: Played) -> None:
    """What streamed is what came out."""
    if played.response is None:
        return
    assert played.text == played.response.content
    assert played.reasoning == played.response.reasoning
    calls = {call.id: (call.name, call.raw_arguments) for call in played.tool_calls}
    streamed = {id: (name, arguments) for id, (name, arguments) in played.calls.items()}
    assert {id: name for id, (name, _) in streamed.items()} == {id: name for id, (name, _) in calls.items()}
    for id, (_, arguments) in streamed.items():
        assert arguments.strip() in ("", calls[id][1].strip())
