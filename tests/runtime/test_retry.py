"""Waits between tries, and what a failed request tells."""

from __future__ import annotations

import asyncio
import json
import math
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kestrel_nb.protocol.errors import CancelledByUser, ModelRequestError
from kestrel_nb.runtime.retry import (
    RetryOptions,
    is_model_request_error,
    model_http_error,
    model_network_error,
    retry_delay,
    sleep,
)
from kestrel_nb.runtime.signals import CancelSignal

OPTIONS = RetryOptions(attempts=5, base_delay_ms=100, max_delay_ms=30_000)


def hint(value: str, **more: str) -> float | None:
    return model_http_error(429, "", {"Retry-After": value, **more}).retry_after_ms


def test_equal_jitter_doubles_and_is_capped() -> None:
    error = ModelRequestError("x", retryable=True)
    for attempt, full in ((1, 100), (2, 200), (3, 400), (9, 25_600), (10, 30_000), (10**6, 30_000)):
        assert retry_delay(error, attempt, OPTIONS, lambda: 0.0) == full / 2
        assert retry_delay(error, attempt, OPTIONS, lambda: 1.0) == full
        assert full / 2 <= retry_delay(error, attempt, OPTIONS) <= full


def test_c03_a_hint_wins_but_never_beyond_the_cap() -> None:
    assert retry_delay(ModelRequestError("x", retry_after_ms=7000), 1, OPTIONS) == 7000
    assert retry_delay(ModelRequestError("x", retry_after_ms=0), 1, OPTIONS) == 0
    assert retry_delay(ModelRequestError("x", retry_after_ms=86_400_000), 1, OPTIONS) == 30_000
    error = model_http_error(503, "", {"Retry-After": "86400"})
    assert retry_delay(error, 1, OPTIONS) == 30_000


@pytest.mark.parametrize("bad", [math.nan, -1.0, "7", None, True])
def test_an_unusable_hint_falls_back_to_the_backoff(bad: object) -> None:
    error = ModelRequestError("x")
    error.retry_after_ms = bad  # type: ignore[assignment]
    assert 50 <= retry_delay(error, 1, OPTIONS) <= 100


def test_c01_retry_after_as_a_date() -> None:
    soon = datetime.now(UTC) + timedelta(seconds=7)
    wait = hint(format_datetime(soon, usegmt=True))
    assert wait is not None
    assert 4_000 < wait <= 7_000
    past = datetime.now(UTC) - timedelta(days=1)
    assert hint(format_datetime(past, usegmt=True)) == 0
    assert hint("Sun, 06 Nov 1994 08:49:37 GMT") == 0
    assert hint("Sunday, 06-Nov-94 08:49:37 GMT") == 0
    assert hint("Sun Nov  6 08:49:37 1994") == 0
    ahead = (datetime.now(UTC) + timedelta(hours=3)).strftime("%a %b %d %H:%M:%S %Y")
    wait = hint(ahead)
    assert wait is not None
    assert 10_000_000 < wait < 11_000_000


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("7", 7000),
        (" 7 ", 7000),
        ("0", 0),
        ("1.5", 1500),
        ("-5", None),
        ("nan", None),
        ("inf", None),
        ("1e3", None),
        ("soon", None),
        ("", None),
        ("7, 8", None),
        ("٧", None),
        ("1_0", None),
        ("9" * 500, None),
        ("Mon, 99 Foo 2024 99:99:99 GMT", None),
        ("0x10", None),
        ("7s", None),
    ],
)
def test_retry_after_forms(value: str, wanted: float | None) -> None:
    assert hint(value) == wanted
    assert 0 <= retry_delay(model_http_error(429, "", {"retry-after": value}), 3, OPTIONS) <= OPTIONS.max_delay_ms


@given(st.text())
def test_any_retry_after_gives_a_wait_within_the_cap(value: str) -> None:
    error = model_http_error(429, value, {"RETRY-AFTER": value, "retry-after-ms": value})
    assert 0 <= retry_delay(error, 2, OPTIONS) <= OPTIONS.max_delay_ms


def test_other_places_of_the_hint() -> None:
    assert hint("7", **{"Retry-After-Ms": "250"}) == 250
    body = {"error": {"code": 429, "message": "m", "details": [{"@type": "t"}, {"retryDelay": "34.5s"}]}}
    assert model_http_error(429, json.dumps(body)).retry_after_ms == 34_500


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 520, 529, 599])
def test_retryable(status: int) -> None:
    assert model_http_error(status, "").retryable


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 422, 301])
def test_not_retryable(status: int) -> None:
    error = model_http_error(status, "")
    assert not error.retryable
    assert error.status == status
    assert str(status) in str(error)


TOO_LONG = [
    (400, {"error": {"code": "context_length_exceeded", "message": "Too much."}}),
    (400, {"error": {"message": "This model's maximum context length is 8192 tokens. However, you asked for more."}}),
    (400, {"error": {"code": 400, "type": "exceed_context_size_error", "message": "n_prompt_tokens 9000"}}),
    (400, {"error": {"message": "the request exceeds the available context size, try increasing it"}}),
    (400, {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8"}}),
    (413, {"type": "error", "error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}}),
    (413, {}),
    (400, {"error": {"status": "INVALID_ARGUMENT", "message": "The input token count (9) exceeds the maximum (8)."}}),
    (500, {"error": "the input length exceeds the context length"}),
]


@pytest.mark.parametrize(("status", "body"), TOO_LONG)
def test_a_conversation_that_is_too_long_says_what_to_do(status: int, body: dict[str, object]) -> None:
    error = model_http_error(status, json.dumps(body))
    assert (error.code, error.retryable) == ("context_exceeded", False)
    assert "%kestrel rewind" in str(error)
    assert "new session" in str(error)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (429, "Request too large for the model on tokens per min: the context exceeds the limit."),
        (400, "max_tokens is too large: this model writes at most 4096 tokens"),
        (400, "Invalid schema for a function in this context"),
        (400, "messages: text content blocks must be non-empty"),
        (404, "no such model; its context length is unknown"),
    ],
)
def test_other_refusals_do_not_advise_to_rewind(status: int, message: str) -> None:
    error = model_http_error(status, json.dumps({"error": {"message": message}}))
    assert error.code == "model_request_failed"
    assert "rewind" not in str(error)


@pytest.mark.parametrize(
    "error",
    [
        {"code": "insufficient_quota", "type": "insufficient_quota", "message": "no quota left"},
        {"type": "exceeded_current_quota_error", "message": "no quota left"},
        {"code": "billing_hard_limit_reached", "message": "no quota left"},
        {"code": "insufficient_balance", "message": "no quota left"},
    ],
)
def test_c04_an_empty_account_is_not_tried_again(error: dict[str, str]) -> None:
    failed = model_http_error(429, json.dumps({"error": error}), {"Retry-After": "1"}, "acme")
    assert not failed.retryable
    assert "no quota left" in str(failed)


@pytest.mark.parametrize(
    "message",
    [
        "You exceeded your current quota, please check your plan and billing details.",
        "Insufficient Balance",
        "Your credit balance is too low to access the API.",
        "You have no credits left.",
    ],
)
def test_c04_an_empty_account_that_only_the_words_tell_of(message: str) -> None:
    for body in ({"error": {"message": message}}, {"error": {"code": "429", "message": message}}, {"detail": message}):
        assert not model_http_error(429, json.dumps(body)).retryable
        assert model_http_error(429, json.dumps(body), {"retry-after": "3"}).retryable
    google = {"error": {"code": 429, "message": message, "status": "RESOURCE_EXHAUSTED"}}
    assert model_http_error(429, json.dumps(google)).retryable


def test_c04_advice_to_pay_for_higher_limits_is_no_empty_account() -> None:
    message = (
        "Rate limit reached. You can increase it by adding a payment method at https://example.org/account/billing."
    )
    assert model_http_error(429, json.dumps({"error": {"code": "rate_limit_exceeded", "message": message}})).retryable


@pytest.mark.parametrize(("period", "retryable"), [("PerDay", False), ("PerMinute", True)])
def test_c04_a_quota_of_the_day_is_not_waited_for(period: str, retryable: bool) -> None:
    violation = {"quotaId": f"GenerateRequests{period}PerProjectPerModel-FreeTier", "quotaValue": "50"}
    details = [{"@type": "t", "violations": [None, violation]}, {"@type": "t", "retryDelay": "37s"}]
    error = {"code": 429, "message": "You exceeded your current quota.", "status": "RESOURCE_EXHAUSTED"}
    found = model_http_error(429, json.dumps({"error": {**error, "details": details}}))
    assert found.retryable is retryable
    assert found.retry_after_ms == 37_000


def test_a_server_that_says_whether_to_retry_is_heard() -> None:
    assert not model_http_error(500, "", {"x-should-retry": "false"}).retryable
    assert model_http_error(400, "", {"X-Should-Retry": "true"}).retryable


@pytest.mark.parametrize(
    "body",
    [
        '{"error": {"message": "the reason"}}',
        '{"error": "the reason"}',
        '{"message": "the reason"}',
        '{"detail": "the reason"}',
        '{"detail": [{"msg": "the reason"}]}',
        '{"type": "error", "error": {"type": "x", "message": "the reason"}}',
        '[{"error": {"code": 400, "message": "the reason"}}]',
        '{"errors": [{"message": "the reason"}]}',
        '{"error": "invalid", "error_description": "the reason"}'.replace("invalid", "the reason"),
        "the reason",
        "<html><head><title>t</title><style>p{}</style></head><body><h1>the\n reason</h1></body></html>",
    ],
)
def test_the_servers_words_are_found(body: str) -> None:
    assert str(model_http_error(400, body, provider="acme")) == "acme answered 400: the reason"


@pytest.mark.parametrize(
    "body", ["", "null", "[]", "{}", "3", '{"error": null}', '{"error": {"message": 5}}', "[" * 99999]
)
def test_bodies_that_say_nothing(body: str) -> None:
    text = str(model_http_error(500, body))
    assert text.startswith("the model answered 500")
    assert len(text) < 600


def test_the_text_is_bounded_and_keys_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_API_KEY", "acme-0123456789abcdef")
    body = json.dumps({"error": {"message": "bad acme-0123456789abcdef or given-key-77 " + "x" * 100_000}})
    text = str(model_http_error(401, body, {}, "acme", secrets=["given-key-77"]))
    assert "0123456789" not in text
    assert "given-key" not in text
    assert len(text) < 600
    assert text.endswith("check the API key")
    for echo in (
        "sk-pro***********wxyz",
        "sk-ant...wxyz",
        "sk-proj-aaaabbbbcccc",
        "AIzaSyA-1234567890abcdef",
        "ab***yz",
    ):
        text = str(model_http_error(401, f"Incorrect key: {echo}."))
        assert "wxyz" not in text
        assert "aaaa" not in text
        assert "AIza" not in text
        assert "sk-" not in text


def test_what_to_do_comes_last() -> None:
    body = json.dumps({"error": {"message": "No such model."}})
    assert (
        str(model_http_error(404, body, provider="acme", hint="pull it"))
        == "acme answered 404: No such model. What to do: pull it"
    )
    said = "acme answered 404: No such model. What to do: check the model's name and the base URL"
    assert str(model_http_error(404, body, provider="acme")) == said
    assert str(model_http_error(400, body, provider="acme")) == "acme answered 400: No such model."


def test_network_errors() -> None:
    error = model_network_error(ConnectionResetError("peer went away"), "acme")
    assert error.retryable
    assert error.status is None
    assert "acme" in str(error)
    assert "peer went away" in str(error)
    assert "TimeoutError" in str(model_network_error(TimeoutError(), "acme"))
    wrong = type("UnsupportedProtocol", (Exception,), {})("no scheme")
    assert not model_network_error(wrong, "acme").retryable
    assert "given-key" not in str(model_network_error(OSError("http://h/?k=given-key-77"), secrets=["given-key-77"]))


def test_a_model_request_error_is_known_by_its_shape() -> None:
    class ModelRequestError(Exception):  # as from another copy of the package
        status, retryable, retry_after_ms = 503, True, None

    assert is_model_request_error(ModelRequestError())
    assert is_model_request_error(model_http_error(500, ""))
    assert not is_model_request_error(ValueError("x"))
    assert not is_model_request_error({"status": 1, "retryable": True, "retry_after_ms": 1})
    assert not is_model_request_error(None)


@pytest.mark.parametrize(
    "bad", [{"attempts": 0}, {"base_delay_ms": -1}, {"max_delay_ms": math.inf}, {"base_delay_ms": math.nan}]
)
def test_options_are_checked(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="retry"):
        RetryOptions(**bad)  # type: ignore[arg-type]


async def test_sleep_waits() -> None:
    began = time.monotonic()
    await sleep(40)
    await sleep(40, CancelSignal())
    await sleep(-5, CancelSignal())
    assert time.monotonic() - began >= 0.079


async def test_sleep_ends_when_cancelled_from_here_or_from_a_thread() -> None:
    for late in (False, True):
        signal = CancelSignal()
        waiting = asyncio.create_task(sleep(60_000, signal))
        await asyncio.sleep(0.01)
        if late:
            await asyncio.to_thread(signal.cancel, "stop")
        else:
            signal.cancel("stop")
        with pytest.raises(CancelledByUser, match="stop"):
            await asyncio.wait_for(waiting, 5)
    with pytest.raises(CancelledByUser):
        await sleep(0, signal)
