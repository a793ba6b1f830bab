"""What an approval card shows: a pure function of the request and the tool's schema.

A card is JSON data. ``lines`` are the preview, every hidden character spelled out; ``pairs`` are the arguments that
the preview does not show; ``fields`` is the form behind "Edit…" (card_form.py).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from ..protocol.sessions import ApprovalRequest
from ..protocol.tools import CommandPreview, DiffPreview, Preview, RequestPreview, TextPreview
from ..sandbox.output import plural
from .card_form import fields_of
from .summaries import arguments_text, as_json
from .visible import dense, one_line, visible

Card = dict[str, Any]
PREVIEW = 200_000  # characters; a longer one is cut and cannot be approved with the button
_SECRET = re.compile(r"authorization|cookie|secret|token|password|api[-_]?key", re.IGNORECASE)
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


def card_of(request: ApprovalRequest, schema: Mapping[str, Any] | None = None) -> Card:
    """The card for ``request``; ``schema`` is the tool's parameters, if known."""
    text, label = _preview(request)
    limit = request.expires_at
    card: Card = {
        "id": visible(request.id),
        "tool": one_line(request.tool, 64),
        "about": _about(request.tool, request.preview),
        "why": f"Asked because {dense(request.reason)[:2000].rstrip('.')}." if request.reason else "",
        "kind": request.preview.kind if request.preview is not None else "arguments",
        "label": label,
        "text": text[:PREVIEW],
        "cut": max(0, len(text) - PREVIEW),
        "pairs": _pairs(request),
        "expires_at": limit if limit is not None and math.isfinite(limit) else None,
        "fields": fields_of(request.arguments, schema or {}),
    }
    if isinstance(request.preview, TextPreview) and " " in request.preview.title:  # one word only names the language
        card["why"] = f"{card['why']} {one_line(request.preview.title, 120)}.".strip()
    if isinstance(request.preview, DiffPreview):
        card["numbers"] = _numbers(text.split("\n"))
        card["why"] += f" {plural(request.preview.added, 'line')} added, {request.preview.removed:,} removed."
    return card


def _about(tool: str, preview: Preview | None) -> dict[str, str]:
    """How the question goes on after the tool's name."""
    if isinstance(preview, DiffPreview):
        return {"add": "a corrected cell"} if tool == "insert_cell" else {"on": one_line(preview.path, 120)}
    if isinstance(preview, RequestPreview):
        method = preview.method.upper()
        return {"read" if method in ("GET", "HEAD") and not preview.body else "send": _host(preview.url)}
    return {}


def _host(url: str) -> str:
    try:
        host = urlsplit(url).netloc.rpartition("@")[2]
    except ValueError:
        host = ""
    return one_line(host or url, 120)


def _preview(request: ApprovalRequest) -> tuple[str, str]:
    preview = request.preview
    if isinstance(preview, CommandPreview):
        return dense(preview.command), "Command"
    if isinstance(preview, DiffPreview):
        label = f"Difference, {plural(preview.added, 'line')} added, {preview.removed} removed"
        return diff_lines(preview.diff)["text"], label
    if isinstance(preview, RequestPreview):
        return dense(_request_text(preview)), "Request"
    if isinstance(preview, TextPreview):
        return dense(preview.text), one_line(preview.title, 80) or "Preview"
    return dense(arguments_text(request.arguments)), "Arguments"


def _request_text(preview: RequestPreview) -> str:
    lines = [f"{preview.method.upper()} {preview.url}"]
    for name, value in preview.headers.items():
        hidden = _SECRET.search(str(name)) and not _is_hidden(value)
        lines.append(f"{name}: {'••••••••' if hidden else value}")
    return "\n".join([*lines, *(["", preview.body] if preview.body else [])])


def _numbers(lines: list[str]) -> list[str]:
    """Line numbers of a unified diff, of the new file; of the old one where a line goes."""
    old = new = 0
    numbers = []
    for line in lines:
        start = _HUNK.match(line)
        if start:
            old, new = int(start.group(1)), int(start.group(2))
            numbers.append("")
        elif line.startswith(("---", "+++", "\\")) or not (old or new):
            numbers.append("")
        elif line.startswith("-"):
            numbers.append(str(old))
            old += 1
        else:
            numbers.append(str(new))
            new += 1
            old += not line.startswith("+")
    return numbers


def diff_lines(diff: str) -> dict[str, Any]:
    """A unified diff as its visible text and the numbers of its lines."""
    lines = visible(diff).rstrip("\n").split("\n")
    named = len(lines) > 2 and lines[0].startswith("--- ") and lines[1].startswith("+++ ")
    text = "\n".join(lines[2:] if named else lines)  # the file is named beside it
    return {"text": text, "numbers": _numbers(text.split("\n"))}


def beside_diff(request: ApprovalRequest) -> dict[str, Any]:
    """The arguments that name the file or stand beside the difference, not those that it shows."""
    preview = request.preview
    if preview is None:
        return dict(request.arguments)
    unseen = dict(_unseen(request, preview))
    return {
        name: value
        for name, value in request.arguments.items()
        if name in unseen or (isinstance(preview, DiffPreview) and value == preview.path)
    }


def _pairs(request: ApprovalRequest) -> list[list[str]]:
    preview = request.preview
    if preview is None:
        return []
    pairs = []
    if isinstance(preview, CommandPreview):
        pairs.append(["Folder", visible(preview.cwd)])
        if preview.timeout_s is not None and math.isfinite(preview.timeout_s):
            pairs.append(["Time limit", f"{preview.timeout_s:g} s"])
        if preview.environment:
            pairs.append(["Environment", visible(", ".join(preview.environment))])
    return pairs + [[one_line(str(k), 64), dense(_value(v))[:PREVIEW]] for k, v in _unseen(request, preview)]


def _value(value: Any) -> str:
    return value if isinstance(value, str) else as_json(value)


def _unseen(request: ApprovalRequest, preview: Preview) -> list[tuple[str, Any]]:
    """The arguments that cannot be read off the preview: nothing that runs stays unshown."""
    seen = _seen(preview)
    found = []
    for name, value in request.arguments.items():
        if isinstance(value, str) and isinstance(preview, DiffPreview):
            hidden = value != preview.path and any(line not in seen for line in value.split("\n"))
        elif isinstance(value, str):
            hidden = value not in seen
        elif isinstance(value, Mapping) and isinstance(preview, RequestPreview):
            value = _other_headers(value, preview)
            hidden = bool(value)
        else:
            named = f"{name}: {json.dumps(value, ensure_ascii=False, default=str)}" in seen.split("\n")
            hidden = not named and not _is_shown_number(value, preview) and value is not None
        if hidden:
            found.append((name, value))
    return found


def _seen(preview: Preview) -> str:
    if isinstance(preview, CommandPreview):
        return f"{preview.command}\n{preview.cwd}"
    if isinstance(preview, DiffPreview):
        return "\n".join([preview.path, *(line[1:] for line in preview.diff.split("\n"))])
    if isinstance(preview, RequestPreview):
        return f"{preview.method}\n{preview.url}\n{preview.body or ''}"
    return preview.text


def _is_shown_number(value: Any, preview: Preview) -> bool:
    """Whether ``value`` is the time limit that the preview shows, in seconds or in milliseconds."""
    if not isinstance(preview, CommandPreview) or preview.timeout_s is None or isinstance(value, bool):
        return False
    return value in (preview.timeout_s, round(preview.timeout_s * 1000, 6))


def _other_headers(value: Mapping[Any, Any], preview: RequestPreview) -> dict[str, Any]:
    """What of ``value`` is not among the headers that the preview shows, with names in any case and secrets hidden."""
    headers = {str(name).lower(): str(item).strip() for name, item in preview.headers.items()}

    def is_there(name: str, item: Any) -> bool:
        there = headers.get(name.lower())
        return there is not None and (there == str(item).strip() or bool(_SECRET.search(name)) or _is_hidden(there))

    return {str(name): item for name, item in value.items() if not is_there(str(name), item)}


def _is_hidden(value: object) -> bool:
    """Whether the tool itself has hidden the value of a header."""
    return str(value).endswith("(hidden)")
