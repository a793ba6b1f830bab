"""The reply of a model as an entry of a cassette, and back: all parts, and the pieces in which it streamed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..protocol.codec import decode, encode, parse_call
from ..protocol.errors import CodecError
from ..protocol.messages import OpaquePart, Part, ReasoningPart, TextPart, ToolCallPart
from ..protocol.sessions import Usage
from ..protocol.tools import JsonValue
from ..runtime.models import CompletionResponse, TokenDelta
from ..runtime.secrets import Masker
from ..runtime.truncation import clean_text
from .cassette_text import Places, clean, plain_number, recut

_FIELDS = ("text", "reasoning", "arguments")
_PARTS: dict[str, type[Part]] = {kind.kind: kind for kind in (TextPart, ReasoningPart, ToolCallPart, OpaquePart)}


def reply_entry(
    response: CompletionResponse, deltas: Sequence[TokenDelta], places: Places, masker: Masker
) -> dict[str, Any]:
    """What is written of a reply."""
    entry: dict[str, Any] = {"parts": [_part_entry(part, places, masker) for part in response.parts]}
    if response.finish_reason != "stop":
        entry["finishReason"] = response.finish_reason
    if response.provider is not None:
        entry["provider"] = response.provider
    if usage := encode(response.usage):
        entry["usage"] = usage
    if response.cost is not None:
        entry["cost"] = response.cost
    if pieces := pieces_entry(deltas, places, masker):
        entry["deltas"] = pieces
    return entry


def _part_entry(part: Part, places: Places, masker: Masker) -> dict[str, Any]:
    data: dict[str, Any] = encode(part)
    if isinstance(part, (TextPart, ReasoningPart)):
        data["text"] = clean(clean_text(part.text), places, masker)
    elif isinstance(part, ToolCallPart):
        data["rawArguments"] = clean(clean_text(part.raw_arguments), places, masker, quoted=True)
        data.pop("arguments", None)
        if part.arguments is not None:
            data.pop("problem", None)
    for name in ("extra", "value"):  # signatures go back byte for byte, so only keys are taken out
        if name in data:
            data[name] = masker.mask_json(data[name])
    return data


def pieces_entry(deltas: Sequence[TokenDelta], places: Places, masker: Masker) -> list[dict[str, str]]:
    """What is written of deltas: with keys and folders that stand across several of them in one."""
    rows = [{name: value for name, value in _plain(delta).items() if value} for delta in deltas]
    streams: dict[tuple[str, str], list[int]] = {}
    for number, row in enumerate(rows):
        for name in _FIELDS:
            if name in row:
                streams.setdefault((name, row.get("call", "")), []).append(number)
    for (name, _), numbers in streams.items():
        quoted = name == "arguments"

        def change(text: str, quoted: bool = quoted) -> str:
            return clean(text, places, masker, quoted=quoted)

        for number, text in zip(numbers, recut([rows[number][name] for number in numbers], change), strict=True):
            rows[number][name] = text
    return [kept for row in rows if (kept := {name: text for name, text in row.items() if text})]


def _plain(delta: TokenDelta) -> dict[str, str]:
    return {
        "text": clean_text(delta.text),
        "reasoning": clean_text(delta.reasoning),
        "call": delta.call_id,
        "tool": delta.tool,
        "arguments": clean_text(delta.arguments),
    }


def response_of(entry: Mapping[str, Any], places: Places) -> CompletionResponse:
    """The reply in an entry. Raises CodecError."""
    rows = entry.get("parts")
    if not isinstance(rows, list):
        raise CodecError("parts: must be an array")
    parts = tuple(_part_of(row, places) for row in rows)
    return CompletionResponse(
        parts=parts,
        usage=decode(Usage, entry.get("usage", {})),
        finish_reason=str(entry.get("finishReason", "stop")),
        provider=entry.get("provider"),
        recorded=True,
        cost=_cost_of(entry.get("cost")),
    )


def _cost_of(value: Any) -> float | None:
    cost = plain_number(value)
    return float(cost) if cost is not None and cost >= 0 else None


def _part_of(row: JsonValue, places: Places) -> Part:
    kind = _PARTS.get(str(row.get("kind"))) if isinstance(row, Mapping) else None
    if kind is None:
        raise CodecError("parts: a part of an unknown kind")
    if kind is ToolCallPart:
        raw = places.show(str(row.get("rawArguments", "")), quoted=True)
        call = parse_call(str(row.get("id", "")), str(row.get("name", "")), raw)
        return replace(call, extra=row.get("extra") or {}, problem=row.get("problem") or call.problem)
    part: Part = decode(kind, row)
    return replace(part, text=places.show(part.text)) if isinstance(part, (TextPart, ReasoningPart)) else part


def deltas_of(entry: Mapping[str, Any], places: Places) -> list[TokenDelta]:
    """The pieces of a reply. Raises CodecError."""
    rows = entry.get("deltas", [])
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise CodecError("deltas: must be an array of objects")
    return [
        TokenDelta(
            text=places.show(str(row.get("text", ""))),
            reasoning=places.show(str(row.get("reasoning", ""))),
            call_id=str(row.get("call", "")),
            tool=str(row.get("tool", "")),
            arguments=places.show(str(row.get("arguments", "")), quoted=True),
        )
        for row in rows
    ]
