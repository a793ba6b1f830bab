"""Results that are JSON, as the built-in tools give them: as text for what follows, and as words of an answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from .quoting import block, code

Data = Mapping[str, Any]
MOST_LISTED = 8  # values or pages that an answer lists


_SHAPES: dict[str, dict[str, Any]] = {
    "http-fetch": {"status": int, "statusText": str, "headers": dict, "body": str},
    "date-time": {"iso": str, "date": str, "time": str, "timezone": str, "offset": str, "dayOfWeek": str},
    "json-parse": {"result": object},
    "math-eval": {"expression": str, "result": object},
    "regex-match": {},
    "image-describe": {"description": str},
    "web-search": {"query": str, "results": list},
    "file-read": {"path": str, "content": str},
    "file-write": {"path": str, "bytesWritten": int},
    "shell-exec": {"stdout": str, "stderr": str, "exitCode": object},
    "code-eval": {"result": object, "stdout": str},
    "database-query": {"rows": list, "columns": list, "rowCount": int},
}
"""Tool -> what its answer has at least, of which types."""


def read_json(tool: str, content: str) -> Data | None:
    """What ``tool`` gave, when that has the shape known of it, or is an error object."""
    if tool not in _SHAPES or not content.startswith("{"):
        return None
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):  # cut short, as it was too long, or nested beyond reading
        return None
    fits = all(key in data and isinstance(data[key], kind) for key, kind in _SHAPES[tool].items())
    return data if fits or data.get("error") is True else None


def as_text(tool: str, data: Data) -> str:
    """The result as a person would copy it: what a later part of the request reads or writes to a file."""
    if data.get("error") is True:
        return str(data.get("message", ""))
    match tool:
        case "http-fetch":
            return str(data["body"])
        case "file-read":
            return str(data["content"])
        case "image-describe":
            return str(data["description"])
        case "shell-exec":
            out = "\n".join(str(data[key]).rstrip("\n") for key in ("stdout", "stderr") if data[key])
            return f"exit code {data['exitCode']}\n{out}".rstrip("\n")
        case "date-time":
            return str(data["iso"])
        case "regex-match" if isinstance(data.get("matches"), list):
            return "\n".join(map(str, data["matches"]))
        case "web-search":
            return "\n".join(str(page.get("url", "")) for page in data["results"] if isinstance(page, dict))
        case "database-query":
            return "\n".join(_line(row) for row in [data["columns"], *data["rows"]])
        case _:
            return _shown(data.get("result", dict(data)))


def _line(row: Any) -> str:
    cells = row.values() if isinstance(row, dict) else row if isinstance(row, list) else [row]
    return "\t".join("" if cell is None else str(cell) for cell in cells)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def in_words(tool: str, arguments: Data, data: Data, room: int) -> str | None:
    """The answer of the demo for ``data``; None where the usual words for such work will do. ``room`` in lines."""
    say = _WORDS.get(tool)
    return None if say is None or data.get("error") is True else say(arguments, data, room)


def _number(value: Any) -> str:
    return repr(int(value)) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else str(value)


def _sum(arguments: Data, data: Data, room: int) -> str:
    return f"{code(str(data['expression']))} is {code(_number(data['result']))}."


def _time(arguments: Data, data: Data, room: int) -> str:
    where = f"In {data['timezone']} it is" if arguments.get("timezone") else f"It is, in {data['timezone']},"
    return f"{where} {data['dayOfWeek']}, {data['date']}, {data['time']} (UTC{data['offset']})."


def _parsed(arguments: Data, data: Data, room: int) -> str:
    path = arguments.get("path")
    head = f"At {code(str(path))} stands" if path else "The JSON is valid"
    if not isinstance(data["result"], (dict, list)):
        return f"{head}: {code(_shown(data['result']))}."
    return f"{head}:\n\n{block(_shown(data['result']), room)}"


def _matched(arguments: Data, data: Data, room: int) -> str | None:
    pattern = code(str(arguments.get("pattern", "")))
    if "replacements" in data:
        count = data["replacements"]
        return (
            f"{_count(count, 'replacement')} of {pattern} gave:\n\n{block(str(data.get('result', '')), room)}"
            if count
            else f"Nothing matches {pattern}; the text stays as it is."
        )
    found = data.get("matches")
    if not isinstance(found, list):
        return None
    if not found:
        return f"Nothing matches {pattern}."
    listed = ", ".join(code(str(text)) for text in found[:MOST_LISTED])
    more = f" and {len(found) - MOST_LISTED:,} more" if len(found) > MOST_LISTED else ""
    return f"{_count(data.get('matchCount', len(found)), 'match', 'es')} of {pattern}: {listed}{more}."


def _queried(arguments: Data, data: Data, room: int) -> str:
    rows, columns = data["rows"], data["columns"]
    if len(rows) == len(columns) == 1:
        cell = _line(rows[0]) or "NULL"
        return f"The query gave {code(str(columns[0]))} = {code(cell)}."
    names = ", ".join(code(str(name)) for name in columns[:MOST_LISTED])
    more = f" and {len(columns) - MOST_LISTED:,} more" if len(columns) > MOST_LISTED else ""
    count = _count(data["rowCount"], "row")
    return f"The query gave {count} with the column{'' if len(columns) == 1 else 's'} {names}{more}."


def _ran(arguments: Data, data: Data, room: int) -> str:
    value, printed = data["result"], str(data["stdout"])
    shown = _shown(value) if isinstance(value, (dict, list)) and room else ""
    flat = json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value
    long = len(flat) > 80 or "\n" in flat
    head = f"The code gave:\n\n{block(shown or flat, room)}" if long and room else f"The code gave {code(flat)}."
    return head + (f"\n\nIt printed:\n\n{block(printed, room, output=True)}" if printed.strip() and room else "")


def _wrote(arguments: Data, data: Data, room: int) -> str:
    deed = "Appended to" if data.get("append") else "Wrote"
    return f"{deed} {code(str(data['path']))}: {_count(data['bytesWritten'], 'byte')}."


def _fetched(arguments: Data, data: Data, room: int) -> str:
    body, kind = str(data["body"]), str(data["headers"].get("content-type", ""))
    status = f"{data['status']} {data['statusText']}".strip()
    what = f" of {code(kind)}" if kind else ""
    head = f"{code(str(arguments.get('url', '')))} answered {code(status)} with {_count(len(body), 'character')}{what}"
    readable = body.strip() and "bodyEncoding" not in data
    return f"{head}:\n\n{block(body, room)}" if readable and room else f"{head}."


def _searched(arguments: Data, data: Data, room: int) -> str:
    pages = [page for page in data["results"] if isinstance(page, dict)]
    query = code(str(data["query"]))
    if not pages:
        return f"The search for {query} found nothing. {data.get('message', '')}".strip()
    lines = [f"- {code(str(page.get('title', '')))} {code(str(page.get('url', '')))}" for page in pages[:MOST_LISTED]]
    return f"{_count(len(pages), 'result')} for {query}:\n\n" + "\n".join(lines)


def _count(number: Any, noun: str, plural: str = "s") -> str:
    shown = f"{number:,}" if isinstance(number, int) else str(number)
    return f"{shown} {noun if number == 1 else noun + plural}"


_WORDS: dict[str, Callable[[Data, Data, int], str | None]] = {
    "math-eval": _sum,
    "date-time": _time,
    "json-parse": _parsed,
    "regex-match": _matched,
    "database-query": _queried,
    "code-eval": _ran,
    "file-write": _wrote,
    "http-fetch": _fetched,
    "web-search": _searched,
}
