"""What the body of a failed request says: servers put their words and codes in many places."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any


def parsed(text: str) -> Any:
    """``text`` as JSON; None where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _objects(body: Any) -> Iterator[Mapping[str, Any]]:
    """The objects of ``body`` that may describe the failure, innermost first."""
    if isinstance(body, list):
        body = body[0] if body else None
    if isinstance(body, Mapping):
        inner = body.get("error")
        many = body.get("errors")
        if isinstance(inner, Mapping):
            yield inner
        elif isinstance(many, list):
            yield from (item for item in many[:3] if isinstance(item, Mapping))
        yield body


def codes_of(body: Any) -> Iterator[str]:
    """Every word that names the kind of failure."""
    for error in _objects(body):
        yield from (error[key] for key in ("code", "type", "status", "error") if isinstance(error.get(key), str))


def details_of(body: Any) -> Iterator[Mapping[str, Any]]:
    """What Google's APIs say beside the error itself."""
    for error in _objects(body):
        details = error.get("details")
        yield from (item for item in (details if isinstance(details, list) else ()) if isinstance(item, Mapping))


def words_of(body: Any) -> list[str]:
    """The first words that say what failed; an empty list when there are none."""
    for error in _objects(body):
        for key in ("message", "msg", "detail", "error", "error_description", "title"):
            value = error.get(key)
            if isinstance(value, str) and value.strip():
                return [value]
            if isinstance(value, list):
                words = [item.get("msg") for item in value[:3] if isinstance(item, Mapping)]
                if found := [word for word in words if isinstance(word, str)]:
                    return found
    return []


def plain_words(text: str) -> str:
    """The readable part of a body that is no JSON, such as a proxy's HTML page."""
    head = text[:20_000]
    head = re.sub(r"<(script|style|head)\b[^>]*>.{0,10000}?</\1>", " ", head, flags=re.IGNORECASE | re.DOTALL)
    return re.sub(r"<[^<>]{0,1000}>", " ", head)
