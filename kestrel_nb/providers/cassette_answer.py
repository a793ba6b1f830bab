"""How a request to a model ended, as an entry of a cassette and back: with a reply, or with a failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..protocol.errors import KestrelError
from ..runtime.models import CompletionResponse, TokenDelta
from ..runtime.secrets import Masker
from .cassette_failure import error_of, failure_entry
from .cassette_reply import deltas_of, reply_entry, response_of
from .cassette_text import Places


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply or an error, and what had streamed until then."""

    outcome: CompletionResponse | Exception
    deltas: Sequence[TokenDelta]


def answer_entry(answer: Answer, places: Places, masker: Masker) -> dict[str, Any]:
    """What is written of it."""
    if isinstance(answer.outcome, CompletionResponse):
        return {"kind": "reply", **reply_entry(answer.outcome, answer.deltas, places, masker)}
    return {"kind": "failure", **failure_entry(answer.outcome, answer.deltas, places, masker)}


def answer_of(entry: Mapping[str, Any], places: Places) -> Answer:
    """What was recorded. Raises CodecError."""
    failed = entry["kind"] == "failure"
    outcome: CompletionResponse | KestrelError = error_of(entry, places) if failed else response_of(entry, places)
    return Answer(outcome, deltas_of(entry, places))
