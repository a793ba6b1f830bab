"""Answers that are JSON of their data, as a person reads them: what a command printed, a page that was fetched.

The shapes are those of the built-in tools; another tool that answers in the same shape is shown in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..sandbox.output import plural

SHOWN_HEADERS = ("content-type", "location")  # the others are in the data; they would be a wall here


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """``text`` stands in the place of the JSON, ``line`` in the row. ``data`` is what may be a table, None for nothing.

    ``beside`` says that the text belongs to be read beside the table.
    """

    text: str
    line: str = ""
    data: Any = None
    beside: bool = False


def said_by(content: str, data: Any, *, is_error: bool = False) -> Said | None:
    """What an answer of exactly a known shape says; None for any other, and when ``content`` isn't JSON of it."""
    if not isinstance(data, Mapping) or not content.startswith("{"):
        return None
    if is_error:
        return Said(text=data["message"]) if isinstance(data.get("message"), str) else None
    for keys, more, read in _SHAPES:
        if keys <= set(data) <= keys | more:
            return read(data)
    return None


def _command(data: Mapping[str, Any]) -> Said:
    head, error = f"exit code {data['exitCode']}", data["error"]
    if data["exitCode"] is None:
        head = str(error or "not started")
    elif isinstance(error, str):
        head = f"{head} ({error})"
    streams = [str(data[name]).rstrip("\n") for name in ("stdout", "stderr")]
    return Said(text="\n".join([head, *filter(None, streams)]))


def _response(data: Mapping[str, Any]) -> Said:
    status = f"{data['status']} {data['statusText']}".strip()
    headers = data["headers"] if isinstance(data["headers"], Mapping) else {}
    shown = [f"{name}: {headers[name]}" for name in SHOWN_HEADERS if name in headers]
    body, cut = str(data["body"]), " (cut off)" if data.get("truncated") is True else ""
    if "bodyEncoding" in data:
        size = f"{len(body):,} characters of {data['bodyEncoding']}"
        return Said(text="\n".join([status, *shown, "", f"({size})"]), line=f"{status} · {size}{cut}")
    text = "\n".join([status, *shown]) + (f"\n\n{body}" if body else "")
    return Said(text=text, line=f"{status} · {plural(len(body), 'character')}{cut}")


def _evaluated(data: Mapping[str, Any]) -> Said:
    """How long it took is not shown: a record stays the same when its code runs again."""
    result, printed = data["result"], str(data["stdout"]).rstrip("\n")
    if isinstance(result, (Mapping, list)) and result:
        return Said(text=printed, data={"result": result}, beside=bool(printed))
    text = result if isinstance(result, str) else _json(result)
    return Said(text="\n".join(filter(None, (printed, text))), line=text if "\n" not in text else "")


def _calculated(data: Mapping[str, Any]) -> Said:
    return Said(text=_json(data["result"]), line=_json(data["result"]))


def _replaced(data: Mapping[str, Any]) -> Said:
    return Said(text=str(data["result"]), line=plural(data["replacements"], "replacement"))


def _read(data: Mapping[str, Any]) -> Said:
    return Said(text=str(data["content"]))


def _wrote(data: Mapping[str, Any]) -> Said:
    verb = "appended" if data.get("append") else "wrote"
    return Said(text=f"{verb} {plural(data['bytesWritten'], 'byte')}", line="")


def _searched(data: Mapping[str, Any]) -> Said:
    if data["results"]:
        return Said(text="", data={"results": data["results"]})
    return Said(text=str(data.get("message") or "no results"))


def _described(data: Mapping[str, Any]) -> Said:
    return Said(text=str(data["description"]))


def _time(data: Mapping[str, Any]) -> Said:
    return Said(text=str(data["iso"]), line=str(data["iso"]), data=dict(data))


def _parsed(data: Mapping[str, Any]) -> Said:
    result = data["result"]
    if isinstance(result, (Mapping, list)) and result:
        return Said(text=_json(result, indent=2), data={"result": result})
    return Said(text=result if isinstance(result, str) else _json(result))


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent, default=str)


_SHAPES = (
    ({"stdout", "stderr", "exitCode", "timedOut", "error"}, {"truncated"}, _command),
    ({"status", "statusText", "headers", "body"}, {"truncated", "bodyEncoding"}, _response),
    ({"result", "stdout", "executionMs"}, {"truncated"}, _evaluated),
    ({"expression", "result"}, set[str](), _calculated),
    ({"result", "replacements"}, {"truncated"}, _replaced),
    ({"path", "bytesWritten", "append", "success"}, set[str](), _wrote),
    ({"path", "content", "size"}, {"truncated"}, _read),
    ({"query", "results"}, {"resultCount", "message"}, _searched),
    ({"description", "url"}, set[str](), _described),
    ({"iso", "unix", "unixMs", "date", "time", "timezone", "offset", "dayOfWeek"}, {"formatted"}, _time),
    ({"result"}, set[str](), _parsed),
)
"""What an answer has, what it may have beside, and how it is read."""
