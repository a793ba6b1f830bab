"""Answers and results of calls as entries of a cassette, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

from ..protocol.codec import decode, encode, jsonable
from ..protocol.errors import CodecError
from ..protocol.messages import ImagePart
from ..protocol.sessions import AnsweredBy, ApprovalDecision
from ..runtime.execution import Failure
from ..runtime.interception import Played
from ..runtime.secrets import Masker
from ..runtime.tools import ToolExecutionResult
from .cassette_text import Places, clean, clean_json, loose, strict


def outcome_entry(outcome: Played, places: Places, masker: Masker) -> dict[str, Any]:
    """What is written of how a call ended."""
    if isinstance(outcome, Failure):
        entry: dict[str, Any] = {"error": clean(outcome.text, places, masker)}
        return {**entry, "code": outcome.code} if outcome.code else entry
    entry = {"content": clean(outcome.content, places, masker)}
    if outcome.data is not None:
        entry["data"] = strict(clean_json(outcome.data, places, masker))
    if outcome.is_error:
        entry["isError"] = True
    if outcome.terminate:
        entry["terminate"] = True
    if outcome.images:
        entry["images"] = [encode(image) for image in outcome.images]
    return entry


def who(entry: Mapping[str, Any]) -> AnsweredBy:
    """Who had given the answer in an entry."""
    by = entry.get("by")
    known: tuple[AnsweredBy, ...] = get_args(AnsweredBy)
    return next((one for one in known if one == by), "cassette")


def result_of(entry: Mapping[str, Any], places: Places) -> Played:
    """How a call ended, from its entry. Raises CodecError."""
    if "error" in entry:
        code = entry.get("code")
        return Failure(places.show(str(entry["error"])), None if code is None else str(code))
    content = entry.get("content")
    if not isinstance(content, str):
        raise CodecError("content: must be a text")
    images = entry.get("images", [])
    if not isinstance(images, list):
        raise CodecError("images: must be an array")
    return ToolExecutionResult(
        content=places.show(content),
        data=places.show_json(loose(entry.get("data"))),
        is_error=entry.get("isError") is True,
        terminate=entry.get("terminate") is True,
        images=tuple(decode(ImagePart, image) for image in images),
    )


def decision_of(entry: Mapping[str, Any], places: Places) -> ApprovalDecision:
    """The decision in an entry. Raises CodecError."""
    decision = decode(ApprovalDecision, places.show_json(dict(entry.get("decision") or {})))
    return decision if decision.arguments is None else replace(decision, arguments=jsonable(decision.arguments))
