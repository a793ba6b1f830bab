"""Failed model requests: what they were, whether to try again, and after how long."""

from __future__ import annotations

import asyncio
import math
import random as _random
import re
import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..protocol.errors import ModelRequestError
from .error_body import codes_of, details_of, parsed, plain_words, words_of
from .retry_after import retry_after
from .secrets import Masker
from .signals import CancelSignal

RETRYABLE_STATUS: Final = frozenset((408, 409, 425, 429))  # and every 5xx, 529 ("overloaded") among them
MAX_TEXT: Final = 500  # characters of a server's own words in our message
TOO_LONG: Final = (
    "the conversation is too long for this model; take back a part of it with %kestrel rewind, or begin a new session"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryOptions:
    """``attempts`` counts all tries, the first too. Delays are in milliseconds."""

    attempts: int = 4
    base_delay_ms: float = 500.0
    max_delay_ms: float = 30_000.0

    def __post_init__(self) -> None:
        if self.attempts < 1 or not 0 <= self.base_delay_ms < math.inf or not 0 <= self.max_delay_ms < math.inf:
            raise ValueError("retry: attempts must be at least 1 and the delays finite and not negative")


def is_model_request_error(error: object) -> bool:
    """True for a ModelRequestError, also one of another copy of this package: told by its attributes."""
    return (
        isinstance(error, BaseException)
        and isinstance(getattr(error, "retryable", None), bool)
        and hasattr(error, "status")
        and hasattr(error, "retry_after_ms")
    )


def retry_delay(
    error: object, attempt: int, options: RetryOptions, random: Callable[[], float] = _random.random
) -> float:
    """Milliseconds to wait after try number ``attempt`` (from 1) failed with ``error``.

    A usable ``retry_after_ms`` of the error wins. Otherwise the wait doubles with each try, half of it fixed and half
    random (equal jitter), as the error's ``jitter`` says if it has one. Either way it is at most ``max_delay_ms``.
    """
    hint = getattr(error, "retry_after_ms", None)
    if isinstance(hint, (int, float)) and not isinstance(hint, bool) and hint >= 0:  # NaN is not
        return float(min(hint, options.max_delay_ms))
    backoff = min(options.max_delay_ms, options.base_delay_ms * 2.0 ** min(max(attempt, 1) - 1, 64))
    jitter = getattr(error, "jitter", None)
    return backoff / 2 + (random() if jitter is None else jitter) * backoff / 2


async def sleep(ms: float, signal: CancelSignal | None = None) -> None:
    """Wait ``ms`` milliseconds. Raises CancelledByUser as soon as ``signal`` is cancelled."""
    seconds = max(ms, 0.0) / 1000
    if signal is None:
        await asyncio.sleep(seconds)
        return
    signal.raise_if_cancelled()
    try:
        async with asyncio.timeout(seconds):
            await signal.wait()
    except TimeoutError:
        return
    signal.raise_if_cancelled()


# ---- what a failed request was ----------------------------------------------------------------------------------


def model_http_error(
    status: int,
    body_text: str = "",
    headers: Mapping[str, str] | None = None,
    provider: str = "the model",
    *,
    secrets: Iterable[str] = (),
    hint: str | None = None,
) -> ModelRequestError:
    """The error for a response with ``status``: the server's own words, bounded and masked, and what to do.

    ``secrets`` are keys to mask beside those of the environment, ``hint`` is better advice than that for any server.
    An account without balance, or a spent quota of the day, is not retryable. A request that is too long for the
    model has the code ``context_exceeded``.
    """
    lowered = {name.lower(): value for name, value in (headers or {}).items()}
    body = parsed(body_text)
    said = " ".join(words_of(body)) or plain_words(body_text)
    text = _shown(said, secrets)
    too_long = _is_too_long(status, body, said)
    wait = retry_after(lowered, details_of(body))
    message = f"{provider} answered {status}{': ' + text if text else ''}"
    if advice := TOO_LONG if too_long else hint or _HINTS.get(status):
        message += f" What to do: {advice}" if message.endswith((".", "!", "?")) else f"; {advice}"
    return ModelRequestError(
        message,
        status=status,
        retryable=not too_long and not _is_spent(body, said, wait) and _may_pass(status, lowered),
        code="context_exceeded" if too_long else None,
        retry_after_ms=wait,
        request_id=request_id(lowered),
    )


def request_id(headers: Mapping[str, str]) -> str | None:
    """What the server calls the request, from headers with names in lower case."""
    for name in ("request-id", "x-request-id"):
        value = headers.get(name, "")
        if re.fullmatch(r"[\x21-\x7e]{1,200}", value):
            return value
    return None


def model_network_error(
    error: BaseException,
    provider: str = "the model",
    *,
    secrets: Iterable[str] = (),
    hint: str = "check the network and the base URL",
) -> ModelRequestError:
    """The error for a connection that failed, stalled or broke. Retryable, unless the address itself is wrong."""
    if distrust := _distrust(error):
        return ModelRequestError(
            f"the certificate of {provider} is not trusted ({_shown(distrust, secrets)}); nothing was sent. Check the "
            "base URL; for an authority of your own set SSL_CERT_FILE to its certificate",
            code="untrusted_certificate",
        )
    text = _shown(f"{type(error).__name__}: {error}".rstrip(": "), secrets)
    return ModelRequestError(
        f"{provider} could not be reached or broke off ({text}); {hint}",
        retryable=type(error).__name__ not in _HOPELESS,
    )


def _distrust(error: BaseException | None) -> str | None:
    """What is wrong with a server's certificate, if that is why ``error`` came about."""
    for _ in range(10):
        if error is None:
            return None
        if isinstance(error, ssl.SSLCertVerificationError):
            return error.verify_message or str(error)
        error = error.__cause__ or error.__context__
    return None


_HOPELESS = frozenset(("InvalidURL", "UnsupportedProtocol", "LocalProtocolError"))
_HINTS = {
    401: "check the API key",
    402: "check the account's balance",
    403: "check what the API key may do",
    404: "check the model's name and the base URL",
}
# How servers say that a request exceeds the context window: their codes, and their words in the form of "prompt is
# too long", "maximum context length is", "input length exceeds the context length".
_TOO_LONG_CODES = frozenset(("context_length_exceeded", "exceed_context_size_error", "request_too_large"))
_TOO_LONG_WORDS = re.compile(
    r"(?:prompt|input|conversation) (?:is |was )?too (?:long|large)|maximum (?:context|prompt) length"
    r"|(?:exceed|overflow|larger than|longer than)[^.]{0,100}context|context[^.]{0,60}(?:exceed|overflow)"
    r"|input token count.{0,40}exceeds|reduce the length of the (?:messages|prompt|input)",
    re.IGNORECASE,
)
_NO_BALANCE = re.compile(
    r"insufficient\w*(?:quota|balance|credit|fund)|billing|exceeded_current_quota|quota_exceeded|credit_balance",
    re.IGNORECASE,
)
_NO_BALANCE_WORDS = re.compile(
    r"exceeded your current quota|insufficient (?:account )?(?:balance|quota|credit|funds)|credit balance is too low"
    r"|(?:out of|no|not enough) credits\b",
    re.IGNORECASE,
)
# What servers show of a key when they refuse it, and keys of the usual makes.
_KEY_ECHO = re.compile(
    r"[\w-]*[*•]{3,}[\w-]*|\b(?:sk|pk|rk|gsk|xai|hf|ghp|nvapi)[-_][\w-]*(?:\.{3}|…)[\w-]*"
    r"|\b(?:sk|pk|rk|gsk|xai|hf|ghp|nvapi)[-_][\w-]{8,}|\bAIza[\w-]{8,}"
)


def _is_spent(body: Any, said: str, wait: float | None) -> bool:
    """Whether there is nothing left in the account that waiting could bring back.

    Where only the words tell, a ``wait`` that the server asks for speaks against it, and so does the code of Google's
    APIs, which say the same of limits by the minute.
    """
    codes = [*codes_of(body)]
    if any(map(_NO_BALANCE.search, codes)) or any(map(_is_of_a_day, details_of(body))):
        return True
    return wait is None and "RESOURCE_EXHAUSTED" not in codes and _NO_BALANCE_WORDS.search(said[:20_000]) is not None


def _may_pass(status: int, headers: Mapping[str, str]) -> bool:
    said = headers.get("x-should-retry", "").strip().lower()
    if said in ("true", "false"):
        return said == "true"
    return status in RETRYABLE_STATUS or 500 <= status <= 599


def _is_of_a_day(detail: Mapping[str, Any]) -> bool:
    """Whether ``detail`` tells of a quota of Google's that is spent for the day; the wait that comes along is short."""
    violations = detail.get("violations")
    return any(
        "PerDay" in str(item.get("quotaId"))
        for item in (violations if isinstance(violations, list) else ())
        if isinstance(item, Mapping)
    )


def _is_too_long(status: int, body: Any, said: str) -> bool:
    """Whether the request did not fit the model. Limits on tokens per minute come with 429 and are none of that."""
    if status in (401, 402, 403, 404, 429):
        return False
    return (
        status == 413
        or not _TOO_LONG_CODES.isdisjoint(codes_of(body))
        or _TOO_LONG_WORDS.search(said[:20_000]) is not None
    )


def _shown(text: str, secrets: Iterable[str]) -> str:
    words = " ".join(masked_words(text[:20_000], secrets).split())
    return words if len(words) <= MAX_TEXT else words[: MAX_TEXT - 1] + "…"


def masked_words(text: str, secrets: Iterable[str]) -> str:
    """``text`` of a server without keys: those of the environment, ``secrets``, and what looks like one."""
    return _KEY_ECHO.sub("***", Masker.from_environment().mask(Masker(secrets).mask(text)))
