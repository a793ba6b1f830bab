"""A failed request to a model as an entry of a cassette, and back: what the error said, and the pieces before it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from ..protocol.errors import CodecError, KestrelError, MissingExtraError, ModelRequestError, UsageError
from ..runtime.models import TokenDelta
from ..runtime.retry import is_model_request_error, masked_words
from ..runtime.secrets import Masker
from ..runtime.truncation import clean_text
from .cassette_reply import pieces_entry
from .cassette_text import Places, clean, plain_number

# What a model may raise beside ModelRequestError, by the names that stand in a file.
_OTHERS: Final[Mapping[str, type[KestrelError]]] = {kind.__name__: kind for kind in (MissingExtraError, UsageError)}
_SAME: Final = ("error", "type", "status", "code", "retryable")  # what makes two failures one and the same


def is_failure(error: BaseException) -> bool:
    """True for what is recorded: a request that failed. A fault in the code of a model is none."""
    return is_model_request_error(error) or isinstance(error, tuple(_OTHERS.values()))


def prepare(error: Exception) -> None:
    """Let ``error`` say the same now as when it is played: without what looks like a key, and with a wait that is
    settled."""
    with suppress(AttributeError):  # of a class that can't be changed
        error.args = tuple(masked_words(part, ()) if isinstance(part, str) else part for part in error.args)
        if is_model_request_error(error):
            error.jitter = round(random.random(), 4)  # type: ignore[attr-defined]


def failure_entry(error: Exception, deltas: Sequence[TokenDelta], places: Places, masker: Masker) -> dict[str, Any]:
    """What is written of a failure that was prepared."""
    entry: dict[str, Any] = {"error": clean(clean_text(str(error)), places, masker)}
    if type(error).__name__ in _OTHERS:
        entry["type"] = type(error).__name__
    for name, field in (("status", "status"), ("retryAfterMs", "retry_after_ms"), ("jitter", "jitter")):
        if (value := plain_number(getattr(error, field, None))) is not None:
            entry[name] = value
    if getattr(error, "retryable", False) is True:
        entry["retryable"] = True
    for name, field in (("code", "code"), ("requestId", "request_id")):
        if isinstance(word := getattr(error, field, None), str):
            entry[name] = clean(word, places, masker)
    if pieces := pieces_entry(deltas, places, masker):
        entry["deltas"] = pieces
    return entry


def error_of(entry: Mapping[str, Any], places: Places) -> KestrelError:
    """The error in an entry. Raises CodecError."""
    text, code = entry.get("error"), entry.get("code")
    if not isinstance(text, str):
        raise CodecError("error: must be a text")
    code = code if isinstance(code, str) else None
    if other := _OTHERS.get(str(entry.get("type"))):
        return other(places.show(text), code=code)
    status, id = entry.get("status"), entry.get("requestId")
    error = ModelRequestError(
        places.show(text),
        status=status if isinstance(status, int) else None,
        retryable=entry.get("retryable") is True,
        retry_after_ms=plain_number(entry.get("retryAfterMs")),
        request_id=id if isinstance(id, str) else None,
        code=code,
    )
    jitter = plain_number(entry.get("jitter"))
    error.jitter = jitter if jitter is not None and 0 <= jitter <= 1 else None
    error.recorded = True
    return error


def is_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """True for two entries of one failure, which differ in nothing that a person is told."""
    return all(one.get(name) == other.get(name) for name in _SAME)
